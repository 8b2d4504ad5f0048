"""Starts the program under test and its environment: a push provider, a PBX, and operators' requests."""

import http.client
import http.server
import json
import os
import re
import signal
import socket
import subprocess
import threading
import time

from edge import Authority
from machine import patience
from sip import Inbox, Listener, Message, Phone, Stream, fresh

PUSHES = "provider-key-PLANTED"


class QuietServer(http.server.ThreadingHTTPServer):
    """A server that prints no message when a client disappears, because the tests kill daemons."""

    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, request, client_address):
        pass


class Provider:
    """Accepts pushes in Firebase's legacy format, and stores them by push token."""

    def __init__(self):
        provider = self
        self.changed = threading.Condition()
        self.pushes = []
        self.held = {}

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                answer = b'{"multicast_id":1,"success":1,"failure":0,"canonical_ids":0,"results":[{"message_id":"0:1"}]}'
                try:
                    push = json.loads(body)
                except ValueError:
                    push = {}
                # The log must not contain the token, even if the provider repeats it.
                if "refused" in str(push.get("to", "")):
                    answer = json.dumps({"success": 0, "failure": 1, "results": [
                        {"error": "MismatchSenderId " + push["to"]}]}).encode()
                elif str(push.get("to", "")).startswith("dead"):
                    answer = b'{"success":0,"failure":1,"results":[{"error":"NotRegistered"}]}'
                with provider.changed:
                    provider.pushes.append((time.monotonic(), push, dict(self.headers), self.path))
                    provider.changed.notify_all()
                    held = provider.held.get(push.get("to"))
                if held:
                    held.wait(20)
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                try:
                    self.wfile.write(answer)
                except OSError:
                    pass

            def log_message(self, *arguments):
                pass

        self.server = QuietServer(("127.0.0.1", 0), Handler)
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def hold(self, token):
        """Accepts pushes for the token, and answers them only when the event is set."""
        with self.changed:
            return self.held.setdefault(token, threading.Event())

    def of(self, token):
        with self.changed:
            return [push for _, push, _, _ in self.pushes if push.get("to") == token]

    def wait(self, token, count=1, timeout=6.0):
        """Whether `count` pushes for the token have arrived."""
        limit = time.monotonic() + patience(timeout)
        with self.changed:
            while True:
                if sum(1 for _, push, _, _ in self.pushes if push.get("to") == token) >= count:
                    return True
                if time.monotonic() >= limit:
                    return False
                self.changed.wait(limit - time.monotonic())


class PBX(Phone):
    """The upstream, with UDP and TCP at one address. Probes find the PBX's requests by their Call-ID."""

    def __init__(self, host, port, target):
        super().__init__(host, target, port)
        self.tcp = Listener(host, self.port)
        self.probes = 0
        # Whether the PBX answers OPTIONS, as most PBXs do.
        self.answers = True
        for side in (self, self.tcp):
            side.arrived = lambda raw, source, arrived=side.arrived: self.asked(raw, source) or arrived(raw, source)

    def asked(self, raw, source):
        """Answers an OPTIONS, which no probe needs."""
        if not raw.startswith(b"OPTIONS sip:" + self.host.encode() + b":"):
            return False
        self.probes += 1
        if self.answers:
            request = Message(raw, source)
            (source if isinstance(source, Stream) else self).respond(request, 200, "OK", tag="probe")
        return True


class Settings:
    """The settings that this version of the program has, read from the sample that it prints."""

    def __init__(self, program):
        sample = subprocess.run([program, "check-config", "--print-sample"], capture_output=True, text=True).stdout
        self.known = set()
        stack = []
        for line in sample.splitlines():
            found = re.match(r"^( *)#?([A-Za-z][A-Za-z0-9.-]*):", line)
            if not found:
                continue
            depth = len(found.group(1)) // 4
            stack = stack[:depth] + [found.group(2)]
            self.known.add(".".join(stack))

    def write(self, values, indent="", path=""):
        """Converts nested dictionaries to YAML. Settings that the program does not have are left out, and probes that
        need them fail with the setting's name."""
        text = ""
        for key, value in values.items():
            here = f"{path}.{key}" if path else key
            free = any(part in here for part in ("mobile-apps.", "tls.certificates.", "push.http.apps.", "tenants."))
            if not free and here not in self.known:
                continue
            if isinstance(value, dict):
                text += f"{indent}{key}:\n" + self.write(value, indent + "    ", here)
            else:
                text += f"{indent}{key}: {value if isinstance(value, str) and value.startswith('[') else json.dumps(value)}\n"
        return text


class Daemon:
    """One daemon in a folder of its own."""

    def __init__(self, name, suite, settings, pbx_host=None, edge=False):
        self.name, self.suite, self.values = name, suite, settings
        self.folder = suite.folder_of(name)
        os.makedirs(self.folder, mode=0o700, exist_ok=True)
        self.config = os.path.join(self.folder, "sippushd.yaml")
        self.log_path = os.path.join(self.folder, "log")
        self.host = "127.0.0.1"
        self.port, self.api_port, self.admin_port = (suite.free_port() for _ in range(3))
        self.process, self.key, self.key_name = None, None, "probe"
        self.lock = threading.Lock()
        self.pbx = None
        self.authority = None
        # The stand-in for systemd, if the probe uses one.
        self.manager = None
        # A function that the new process calls before the program starts.
        self.prepare = None
        if edge:
            self.tls_port, self.ws_port, self.wss_port = (suite.free_port() for _ in range(3))
            self.authority = Authority(os.path.join(self.folder, "pki"))
            self.certificate = self.authority.issue("server", "DNS:sip.example.net,DNS:example.net")
            self.other = self.authority.issue("other-server", "DNS:sip.example.org")
        if pbx_host:
            self.pbx = PBX(pbx_host, suite.free_port(), self.address)

    @property
    def address(self):
        return (self.host, self.port)

    def settings(self):
        base = {
            "domains": "[example.net, example.org]",
            "listen": f'["udp:{self.host}:{self.port}", "tcp:{self.host}:{self.port}"]',
            "store": os.path.join(self.folder, "sippushd.db"),
            "control": os.path.join(self.folder, "control.sock"),
            "auth": "digest",
            "trusted": "[127.2.0.0/16]",
            "call": {"ring-timeout": "8s"},
            # With limits.queueing 0s, the daemon serves waiting requests even on a busy machine. The probe of T30.1
            # sets another limit.
            "limits": {"queueing": "0s"},
            "log": {"level": "debug"},
            "push": {"try-credentials": False, "fcm": {"enabled": True, "body-format": "legacy", "server-key": PUSHES,
                             "endpoint": f"http://127.0.0.1:{self.suite.provider.port}"}},
            "api": {"listen": f'["{self.host}:{self.api_port}"]'},
            "admin": {"listen": f'["{self.host}:{self.admin_port}"]'},
        }
        if self.authority:
            places = {"udp": self.port, "tcp": self.port, "tls": self.tls_port, "ws": self.ws_port, "wss": self.wss_port}
            base["listen"] = "[" + ", ".join(f'"{kind}:{self.host}:{port}"' for kind, port in places.items()) + "]"
            base["trusted"] = "[127.2.0.0/16, pbx.example.net]"
            base["tls"] = {
                "cert-file": self.certificate[0], "key-file": self.certificate[1],
                "ca-file": self.authority.file, "client-ca-file": self.authority.file,
                "certificates": {"org": {"cert-file": self.other[0], "key-file": self.other[1]}},
            }
            base["load-balancers"] = "[127.4.0.0/16]"
            base["websocket"] = {"origins": "[https://phone.example.net]", "ping-interval": "5s", "api-path": "/sip"}
        for name in self.suite.settings.known:
            if name.split(".")[-1] == "strip-headers":
                value = "[X-Evil]"
                for part in reversed(name.split(".")):
                    value = {part: value}
                merge(base, value)
        if self.pbx:
            base["upstream"] = f"sip:{self.pbx.host}:{self.pbx.port}"
        else:
            # A probe that plays the upstream answers no OPTIONS, so the daemon sends none.
            base["upstream-check"] = {"interval": "0s"}
        merge(base, self.values)
        return base

    def write_settings(self):
        with open(self.config, "w") as file:
            file.write(self.suite.settings.write(self.settings()))

    def start(self):
        self.write_settings()
        self.launch()
        if self.key is None:
            self.key = self.command("apikey", "add", self.key_name, "--scope", "admin").stdout.strip().splitlines()[-1]
        return self

    def words(self):
        """The command line by which the probe starts the daemon."""
        return [self.suite.program]

    def launch(self):
        offset = os.path.getsize(self.log_path) if os.path.exists(self.log_path) else 0
        more = self.manager.launch() if self.manager else {"preexec_fn": self.prepare} if self.prepare else {}
        command = more.pop("before", []) + self.words() + ["serve", "--config", self.config, "--log-format", "text"]
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, **more)
        limit = time.monotonic() + patience(30)
        while time.monotonic() < limit:
            if " notice started" in self.log()[offset:]:
                return
            if self.process.poll() is not None:
                break
            time.sleep(0.02)
        raise RuntimeError(f"{self.name} did not start: " + self.log()[offset:][-600:])

    def stop(self, how=signal.SIGTERM):
        if self.process and self.process.poll() is None:
            self.process.send_signal(how)
            try:
                self.process.wait(patience(20))
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()

    def kill(self):
        self.stop(signal.SIGKILL)

    def alive(self):
        return self.process.poll() is None

    def log(self):
        try:
            with open(self.log_path, "rb") as file:
                return file.read().decode("utf-8", "replace")
        except FileNotFoundError:
            return ""

    def command(self, *arguments, stdin=""):
        return subprocess.run([self.suite.program, *arguments, "--config", self.config], input=stdin,
                              capture_output=True, text=True, timeout=240)

    def http(self, method, path, body=None, headers=None, port=None, source=None, key=None, timeout=10.0):
        connection = http.client.HTTPConnection(self.host, port or self.admin_port, timeout=patience(timeout),
                                                source_address=(source, 0) if source else None)
        fields = dict(headers or {})
        if key:
            fields["Authorization"] = "Bearer " + key
        try:
            connection.request(method, path, body, fields)
            answer = connection.getresponse()
            return answer.status, answer.read().decode("utf-8", "replace"), answer.headers
        finally:
            connection.close()

    def admin(self, method, path, value=None):
        body = json.dumps(value) if value is not None else None
        status, text, _ = self.http(method, path, body, {"Content-Type": "application/json"}, key=self.key)
        return status, text

    def user(self, name=None, domain="example.net", password=None):
        """Creates a new user. Returns name and password."""
        name, password = name or fresh("u"), password or fresh("pw-PLANTED-")
        status, text = self.admin("PUT", "/v1/users", {"name": f"{name}@{domain}", "password": password})
        if status not in (200, 201, 204):
            raise RuntimeError(f"user {name} was not added: {status} {text}")
        return name, password

    def metric(self, name, **labels):
        text = self.command("metrics").stdout
        total, found = 0.0, False
        for line in text.splitlines():
            if line.startswith(name) and line[len(name):len(name) + 1] in ("{", " "):
                if all(f'{key}="{value}"' in line for key, value in labels.items()):
                    total += float(line.rsplit(" ", 1)[1])
                    found = True
        return total if found else 0.0

    def memory(self, what="VmRSS"):
        """The memory of the daemon in KiB, from the kernel."""
        with open(f"/proc/{self.process.pid}/status") as file:
            return int(re.search(what + r":\s+(\d+)", file.read()).group(1))

    def work(self):
        """The processor time that the daemon has used, in seconds."""
        total = 0
        for task in os.listdir(f"/proc/{self.process.pid}/task"):
            with open(f"/proc/{self.process.pid}/task/{task}/schedstat") as file:
                total += int(file.read().split()[0])
        return total / 1e9


class CountedDaemon(Daemon):
    """A daemon whose instructions are counted by valgrind's callgrind. The count hardly depends on the load of the
    machine."""

    tools = ("valgrind", "vgdb", "objcopy")

    def words(self):
        copy, count = os.path.join(self.folder, "sippushd"), os.path.join(self.folder, "count")
        # Valgrind cannot read the debug information of Swift's compiler.
        subprocess.run(["objcopy", "--strip-debug", self.suite.program, copy], check=True)
        return ["valgrind", "--quiet", "--tool=callgrind", f"--callgrind-out-file={count}", copy]

    def instructions(self):
        """The number of instructions that the daemon has executed since the last call."""
        before = set(os.listdir(self.folder))
        subprocess.run(["vgdb", f"--pid={self.process.pid}", "dump"], check=True, capture_output=True, timeout=patience(60))
        for name in set(os.listdir(self.folder)) - before:
            with open(os.path.join(self.folder, name)) as file:
                for line in file:
                    if line.startswith("totals: "):
                        return int(line.split()[1])
        raise RuntimeError("callgrind counted nothing")


def merge(base, more):
    for key, value in more.items():
        if isinstance(value, dict) and isinstance(base.get(key), dict):
            merge(base[key], value)
        else:
            base[key] = value


def http_raw(address, raw, timeout=3.0, source=None, head_only=False):
    """Sends bytes to an HTTP listener. Returns all bytes until the connection ends or is silent for long, or only the
    first head."""
    with socket.create_connection(address, timeout, (source, 0) if source else None) as connection:
        connection.sendall(raw)
        connection.settimeout(timeout)
        answer, closed = b"", False
        try:
            while True:
                some = connection.recv(65536)
                if not some:
                    closed = True
                    break
                answer += some
                if head_only and b"\r\n\r\n" in answer:
                    break
        except TimeoutError:
            pass
        except ConnectionError:
            closed = True
        return answer, closed
