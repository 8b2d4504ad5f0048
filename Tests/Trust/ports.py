"""Ports for programs that come and go: each is reserved until the end of this process.

The numbers lie below those that the kernel gives to whoever asks for any. Two sockets keep each of them: one for UDP at an address
that serves nothing else, so that of two who want a port one gets it; and one for TCP at all addresses, which nobody connects to. The
program that the port is for can bind it beside them, again and again, and nobody else is given it meanwhile."""

import socket

# No program but this one and its Swift sister (`ScenarioReplay/ReservedPort.swift`) binds anything there.
KEEPER = "127.255.255.254"
RANGE = range(20000, 32000)


class NoPort(Exception):
    """All are taken."""


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
    """The sockets that keep the port, or None where somebody has it."""
    datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    stream = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        datagrams.bind((KEEPER, port))
        # A program can listen beside a socket of this kind that does not listen itself.
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
    """The local UDP ports of all but the keepers, from the kernel's tables: the second word of a line is address and port in hex."""
    keeper, used = socket.inet_aton(KEEPER)[::-1].hex().upper(), set()
    for table in ("udp", "udp6"):
        try:
            with open(f"/proc/net/{table}") as file:
                places = [line.split(None, 2)[1].rsplit(":", 1) for line in file.readlines()[1:]]
        except FileNotFoundError:
            # A machine without IPv6.
            continue
        used |= {int(port, 16) for address, port in places if address != keeper}
    return used
