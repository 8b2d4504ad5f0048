"""The parts of systemd that a service can see: sockets that it opens, and notifications that it receives."""

import array
import os
import socket
import threading
import time

from machine import patience


class Manager:
    """Receives a service's notifications (sd_notify), keeps descriptors for it, and opens sockets for it (sd_listen_fds)."""

    def __init__(self, folder, watchdog=None):
        self.path = os.path.join(folder, "notify")
        if os.path.exists(self.path):
            os.remove(self.path)
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(self.path)
        self.watchdog = watchdog
        self.changed = threading.Condition()
        self.heard = []
        self.sockets, self.names = [], []
        self.kept = {}
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        while True:
            try:
                text, ancillary, _, _ = self.socket.recvmsg(65536, socket.CMSG_SPACE(64))
            except OSError:
                return
            words = text.decode().split("\n")
            numbers = array.array("i")
            for level, kind, data in ancillary:
                if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                    numbers.frombytes(data[:len(data) - len(data) % numbers.itemsize])
            values = dict(word.split("=", 1) for word in words if "=" in word)
            with self.changed:
                self.heard.append((time.monotonic(), values))
                if values.get("FDSTORE") == "1":
                    for number in numbers:
                        self.kept[values.get("FDNAME", "stored")] = number
                elif "FDSTOREREMOVE" in values:
                    self.kept.pop(values.get("FDNAME"), None)
                self.changed.notify_all()

    def wait(self, key, value="1", since=0.0, timeout=10.0):
        """The time of the first notification of the given kind after `since`, or None."""
        limit = time.monotonic() + patience(timeout)
        with self.changed:
            while True:
                for then, values in self.heard:
                    if then >= since and values.get(key) == value:
                        return then
                rest = limit - time.monotonic()
                if rest <= 0:
                    return None
                self.changed.wait(rest)

    def times(self, key, since=0.0):
        with self.changed:
            return [then for then, values in self.heard if then >= since and key in values]

    def open(self, kind, address, name="sip"):
        """Opens a socket that belongs to the manager, like that of a .socket unit."""
        family = socket.AF_UNIX if isinstance(address, str) else socket.AF_INET
        one = socket.socket(family, kind)
        if kind == socket.SOCK_STREAM and family == socket.AF_INET:
            one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_UNIX and os.path.exists(address):
            os.remove(address)
        one.bind(address)
        if kind == socket.SOCK_STREAM:
            one.listen(4096)
        self.sockets.append(one)
        self.names.append(name)
        return one

    def launch(self):
        """The arguments for Popen that start the service with the manager's sockets and variables."""
        numbers = [one.fileno() for one in self.sockets] + list(self.kept.values())
        names = self.names + list(self.kept)
        variables = dict(os.environ, NOTIFY_SOCKET=self.path)
        if self.watchdog:
            variables["WATCHDOG_USEC"] = str(int(self.watchdog * 1e6))
        if not numbers:
            return {"env": variables}
        # In the child process, the passed descriptors begin at 3. Temporary copies have higher numbers, so that no passed
        # descriptor is overwritten.
        above = max(numbers) + 64

        def arrange():
            for index, number in enumerate(numbers):
                os.dup2(number, above + index, inheritable=False)
            for index in range(len(numbers)):
                os.dup2(above + index, 3 + index, inheritable=True)

        variables["LISTEN_FDS"] = str(len(numbers))
        variables["LISTEN_FDNAMES"] = ":".join(names)
        # The shell's process id becomes the process id of the service.
        return {"env": variables, "preexec_fn": arrange, "close_fds": False,
                "before": ["/bin/sh", "-c", "LISTEN_PID=$$; export LISTEN_PID; exec \"$@\"", "sh"]}

    def close(self):
        for one in [self.socket, *self.sockets]:
            one.close()
        for number in self.kept.values():
            os.close(number)
