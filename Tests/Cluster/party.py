"""A SIP agent over UDP in an event loop."""

import socket

from sip import Agent, Message


class Party(Agent):
    """One socket of a phone or a PBX. A class that inherits has `received`."""

    transport = "UDP"

    def __init__(self, loop, host, buffer):
        super().__init__()
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        for option in (socket.SO_RCVBUF, socket.SO_SNDBUF):
            self.socket.setsockopt(socket.SOL_SOCKET, option, buffer)
        self.socket.bind((host, 0))
        self.socket.setblocking(False)
        self.host, self.port = self.socket.getsockname()
        self.loop = loop
        loop.watch(self.socket, self.readable)

    def close(self):
        self.loop.forget(self.socket)
        self.socket.close()

    def readable(self, _):
        # A limit lets the timers run in between.
        for _ in range(100):
            try:
                raw, source = self.socket.recvfrom(65536)
            except OSError:
                return
            if raw.strip(b"\r\n\0 "):
                self.received(Message(raw, source))

    def send(self, message, to):
        try:
            self.socket.sendto(message if isinstance(message, bytes) else message.bytes(), to)
        except OSError:
            # A full buffer loses the datagram, as the network can.
            pass

    def reply_raw(self, raw, request):
        self.send(raw, request.source)
