"""The programs of a cluster on one machine: their addresses, their start and their end."""

import errno
import os
import shutil
import signal
import socket
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.realpath(__file__))), "Trust"))

from machine import patience  # noqa: E402

SANDBOX = "127.0.0.1"
NODES = {"a": "127.0.0.2", "b": "127.0.0.3"}
SERVERS = {"primary": "127.0.0.4", "standby": "127.0.0.5"}
PORTS = {"SIP_PORT": 5060, "NODE_PORT": 5071, "POSTGRESQL_PORT": 5432, "APNS_PORT": 8443, "FCM_PORT": 8080}
# The folder of PostgreSQL's data, or a link to the folder.
SERVERS_FOLDER = "postgresql"
# The descriptor of the lock of etc/run. The programs hold the lock until all of them have ended.
LOCK = 9


class Trouble(Exception):
    """Something that ends the run, as a sentence for the user."""


class Place:
    """A private folder, the ports, and all programs that run."""

    def __init__(self, folder, binaries):
        self.folder = os.path.join(os.path.abspath(folder), "cluster")
        self.lock = os.path.join(folder, "lock")
        self.binaries = os.path.abspath(binaries)
        self.ports = {name: int(os.environ.get(name) or usual) for name, usual in PORTS.items()}
        self.running = {}
        # The size of each log when its program was last started.
        self.log_starts = {}

    def empty(self):
        """Removes the files of an earlier run, because journals and contacts of different stores do not fit together."""
        link = self.path(SERVERS_FOLDER)
        if os.path.islink(link):
            shutil.rmtree(os.readlink(link), ignore_errors=True)
        shutil.rmtree(self.folder, ignore_errors=True)
        os.mkdir(self.folder, 0o700)

    def path(self, *names):
        return os.path.join(self.folder, *names)

    def program(self, name):
        return os.path.join(self.binaries, name)

    def write(self, text, *names):
        """Writes a file that only its owner can read."""
        path = self.path(*names)
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            file.write(text)
        return path

    def check_ports(self):
        """Fails if another program has one of the addresses, because a daemon would only log this."""
        sip, node, postgresql, apns, fcm = (self.ports[name] for name in PORTS)
        wanted = [(host, sip, kind) for host in NODES.values() for kind in ("UDP", "TCP")]
        wanted += [(host, node, "TCP") for host in NODES.values()] + [(host, postgresql, "TCP") for host in SERVERS.values()]
        wanted += [(SANDBOX, apns, "TCP"), (SANDBOX, fcm, "TCP")]
        taken = [f"{host}:{port} ({kind})" for host, port, kind in wanted if not is_free(host, port, kind)]
        if taken:
            more = f" and {len(taken) - 3} more" if len(taken) > 3 else ""
            raise Trouble(f"Another program has {', '.join(taken[:3])}{more}. End that program, or choose other ports: "
                          "SIP_PORT=5070 NODE_PORT=5081 POSTGRESQL_PORT=5442 APNS_PORT=8453 FCM_PORT=8090 etc/run --cluster")

    def start(self, name, command, **options):
        """Starts a program with its output in a log of its own."""
        self.log_starts[name] = os.path.getsize(self.path(name + ".log")) if os.path.exists(self.path(name + ".log")) else 0
        with open(self.path(name + ".log"), "ab") as log:
            # In a session of its own, the program does not get the Ctrl-C of the terminal.
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
                                       pass_fds=[LOCK] if is_open(LOCK) else [], **options)
        self.running[name] = process
        # Tells the user of a second run which processes to end.
        with open(self.lock, "w") as file:
            file.write(" ".join(str(number) for number in [os.getpid()] + [one.pid for one in self.running.values()]))
        return process

    def log(self, name):
        """The log of the present run of the program."""
        with open(self.path(name + ".log"), "rb") as file:
            file.seek(self.log_starts.get(name, 0))
            return file.read().decode(errors="replace")

    def await_line(self, name, text, timeout=20.0):
        """Waits until the log of a program has the text."""
        self.await_that(lambda: text in self.log(name), f"{name} does not say \"{text}\"", timeout, name)

    def await_that(self, condition, complaint, timeout=20.0, name=None):
        """Polls the condition until it is true. The time limit is longer on a busy machine."""
        limit = time.monotonic() + patience(timeout)
        while not condition():
            ended = name in self.running and self.running[name].poll() is not None
            if ended or time.monotonic() > limit:
                words = self.log(name).strip().splitlines()[-8:] if name else []
                reason = "the program has ended" if ended else f"after {timeout:.0f} s"
                raise Trouble("\n    | ".join([f"{complaint}: {reason}"] + words))
            time.sleep(0.005)

    def kill(self, name):
        """Ends a program by kill -9, as the loss of its machine would."""
        process = self.running.pop(name)
        process.kill()
        process.wait()

    def terminate(self, name, timeout=40):
        """Ends a program by SIGTERM, as `systemctl stop` does, and waits for its end."""
        process = self.running[name]
        process.terminate()
        process.wait(timeout)
        del self.running[name]

    def stop(self):
        """Ends all programs, the database last, so that the daemons can write their last changes."""
        for group in ([name for name in self.running if name not in SERVERS], list(SERVERS)):
            group = [self.running.pop(name) for name in group if name in self.running]
            for process in group:
                # For PostgreSQL, SIGINT means that it does not wait for its clients.
                process.send_signal(signal.SIGINT if process.args[0] != self.program("push-sandbox") else signal.SIGTERM)
            for process in group:
                try:
                    process.wait(10)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()


def is_free(host, port, kind):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM if kind == "UDP" else socket.SOCK_STREAM) as probe:
        try:
            if kind == "TCP":
                # Connections of an earlier run that are still closing do not count.
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((host, port))
            if kind == "TCP":
                probe.listen()
            return True
        except OSError as error:
            if error.errno in (errno.EADDRINUSE, errno.EACCES):
                return False
            raise Trouble(f"{host}:{port} cannot be used: {error.strerror}") from error


def is_open(descriptor):
    try:
        os.fstat(descriptor)
        return True
    except OSError:
        return False


def run(command, **options):
    """Runs a command to its end, and returns its output."""
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", timeout=120,
                          **options)
    if done.returncode != 0:
        raise Trouble("\n    | ".join([f"{os.path.basename(command[0])} failed:"] + (done.stdout + done.stderr).splitlines()[-8:]))
    return done.stdout
