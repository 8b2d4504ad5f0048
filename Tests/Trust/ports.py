"""Ports for programs that stop and start again. This process reserves each port until the process ends.

The ports are below the range from which the kernel chooses free ports. Two sockets reserve a port. The UDP socket is
bound at an address without another use, so that only one process can reserve the port. The TCP socket is bound to all
addresses, and nobody connects to it. A program can bind a reserved port again and again, and no other program gets the
port in between."""

import socket

# Only ports.py and `ScenarioReplay/ReservedPort.swift` bind sockets to the address of KEEPER.
KEEPER = "127.255.255.254"
RANGE = range(20000, 32000)


class NoPort(Exception):
    """No port is free."""


class Ports:
    def __init__(self, first=None):
        self.numbers = iter(range(first, 65536) if first else RANGE)
        self.kept = []

    def take(self):
        for port in self.numbers:
            sockets = reserve(port)
            if sockets:
                self.kept.append(sockets)
                return port
        raise NoPort("no port is free")


def reserve(port):
    """The two sockets that reserve the port, or None if another process has it."""
    datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    stream = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        datagrams.bind((KEEPER, port))
        # The socket does not listen, so that a program can listen on the port.
        stream.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        stream.bind(("0.0.0.0", port))
        if port not in datagram_ports():
            return datagrams, stream
    except OSError:
        pass
    datagrams.close()
    stream.close()
    return None


def datagram_ports():
    """The local UDP ports of all sockets, except sockets that reserve ports, from the kernel's tables. The second word of
    a line is the address and the port in hexadecimal digits."""
    keeper, used = socket.inet_aton(KEEPER)[::-1].hex().upper(), set()
    for table in ("udp", "udp6"):
        try:
            with open(f"/proc/net/{table}") as file:
                places = [line.split(None, 2)[1].rsplit(":", 1) for line in file.readlines()[1:]]
        except FileNotFoundError:
            # This machine has no IPv6.
            continue
        used |= {int(port, 16) for address, port in places if address != keeper}
    return used
