"""Probes of the threat T46: push servers that phones choose (UnifiedPush)."""

import http.server
import os
import socket
import subprocess
import threading
import time

from daemon import Daemon, QuietServer
from edge import Authority, context
from machine import patience
from sip import fresh
from suite import Skipped, check, probe

from .load import UNSHARE, NameServer

# The keys of the example in RFC 8291.
KEYS = ("BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4.BTBZMqHH6r4Tts7J_aSIgg")

# A public address that nobody uses, because its block is not assigned.
NOWHERE = "2000::1"


class PushServer:
    """A push server with TLS at one address. The first part of a path decides the answer."""

    def __init__(self, host, pair):
        owner = self
        self.host, self.changed, self.paths = host, threading.Condition(), []
        self.released = threading.Event()

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                with owner.changed:
                    owner.paths.append((time.monotonic(), self.path, dict(self.headers), body))
                    owner.changed.notify_all()
                try:
                    owner.answer(self, self.path.split("/")[1])
                except OSError:
                    pass

            def do_GET(self):
                self.do_POST()

            def log_message(self, *arguments):
                pass

        self.server = QuietServer((host, 0), Handler)
        self.port = self.server.server_address[1]
        made = context(pair=pair, protocols=("http/1.1",), server=True)
        self.server.socket = made.wrap_socket(self.server.socket, server_side=True, do_handshake_on_connect=False)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def answer(self, request, kind):
        if kind == "silent":
            self.released.wait(20)
        if kind == "drip":
            request.wfile.write(b"HTTP/1.1 201 Created\r\nX: ")
            while not self.released.wait(0.2):
                request.wfile.write(b"x")
            return
        status = int(kind) if kind.isdigit() else 201
        body = b"x" * (10_000_000 if kind == "large" else 0)
        request.send_response(302 if kind == "inside" else status)
        if kind == "inside":
            request.send_header("Location", f"https://{self.host}:{self.port}/followed/x")
        if kind == "429":
            request.send_header("Retry-After", "60")
        request.send_header("Content-Length", str(len(body)))
        request.end_headers()
        request.wfile.write(body)

    def got(self, part, count=1, timeout=6.0):
        """Whether `count` requests whose path contains `part` have arrived."""
        limit = time.monotonic() + patience(timeout)
        with self.changed:
            while sum(part in path for _, path, _, _ in self.paths) < count:
                if time.monotonic() >= limit:
                    return False
                self.changed.wait(limit - time.monotonic())
            return True

    def close(self):
        self.released.set()
        threading.Thread(target=self.server.shutdown, daemon=True).start()
        self.server.server_close()


class Names(NameServer):
    """A name server whose addresses can change with each question. A question about a name without addresses gets none."""

    def __init__(self, host, folder):
        super().__init__(host, folder)
        # For each name, a list of lists of addresses: each pair of questions (A and AAAA) gets the next list, and the last
        # list stays.
        self.lists, self.counts = {}, {}
        self.address = "any"

    def answer(self, raw):
        end = raw.index(b"\0", 12) + 5
        kind, labels, at = raw[end - 4:end - 2], [], 12
        while raw[at]:
            labels.append(raw[at + 1:at + 1 + raw[at]].decode("latin-1").lower())
            at += 1 + raw[at]
        name = ".".join(labels)
        lists = self.lists.get(name) or self.lists.get("*." + name.partition(".")[2]) or [[]]
        turn = self.counts[name, kind] = self.counts.get((name, kind), -1) + 1
        addresses = [one for one in lists[min(turn, len(lists) - 1)] if (":" in one) == (kind == b"\0\x1c")]
        records = b""
        for one in addresses:
            packed = socket.inet_pton(socket.AF_INET6 if ":" in one else socket.AF_INET, one)
            records += b"\xc0\x0c" + kind + b"\0\1\0\0\0\0" + len(packed).to_bytes(2, "big") + packed
        return raw[:2] + b"\x81\x80\0\1" + len(addresses).to_bytes(2, "big") + b"\0\0\0\0" + raw[12:end] + records


def contact_params(url, keys=KEYS):
    escaped = "".join(c if c.isalnum() and c.isascii() else "".join(f"%{b:02X}" for b in c.encode()) for c in url)
    return f";pn-provider=webpush;pn-prid={escaped}" + (f";pn-param={keys}" if keys else "")


class Place:
    """A daemon with a push server of its own network at 127.x, and names that the probe answers."""

    def __init__(self, t, name, **webpush):
        if subprocess.run(UNSHARE + ["mount", "--bind", "/etc/hosts", "/etc/resolv.conf"], capture_output=True).returncode:
            raise Skipped("no file can be put in the place of /etc/resolv.conf here")
        t.needs("push.webpush.any-host", "push.webpush.private-hosts")
        self.t = t
        daemon = self.daemon = t.daemon = t.suite.daemons[name] = Daemon(name, t.suite, {})
        authority = Authority(os.path.join(daemon.folder, "pki"))
        pair = authority.issue("up", "DNS:*.home.lan,DNS:own.lan,DNS:*.example,DNS:*.crowd.example")
        vapid = os.path.join(daemon.folder, "vapid.pem")
        Authority.openssl("ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", vapid)
        self.server = t.own(PushServer(t.address(), pair))
        self.names = daemon.manager = t.own(Names(t.address(), daemon.folder))
        port = self.server.port
        settings = {"enabled": True, "vapid-key-file": vapid, "vapid-contact": "mailto:probe@example.net",
                    "ca-file": authority.file, "any-host": True, "any-host-ports": f"[{port}, {daemon.admin_port}]",
                    "private-hosts": f'["*.home.lan:{port}", "own.lan:{daemon.admin_port}"]', **webpush}
        daemon.values = {"auth": "off", "push": {"webpush": settings}, "registrar": {"unsupported-push": "reject-555"}}
        self.names.lists["*.home.lan"] = [[self.server.host]]
        daemon.start()

    def register(self, url, name=None, phone=None, keys=KEYS):
        """Registers a phone with the endpoint. Returns its user's name and the answer."""
        name, phone = name or fresh("u"), phone or self.t.phone()
        return name, phone.register(name, params=contact_params(url, keys))

    def sleeper(self, url, name=None):
        name, answer = self.register(url, name)
        check(answer and answer.status == 200, f"control: the endpoint {url} got {answer}")
        return name

    def call(self, name):
        caller = self.t.phone(trusted=True)
        request = caller.make("INVITE", f"sip:{name}@example.net", "700")
        caller.send(request)
        return caller, request

    def until(self, happened, timeout=8.0):
        """Whether `happened` returns true in time."""
        limit = time.monotonic() + patience(timeout)
        while time.monotonic() < limit:
            if happened():
                return True
            time.sleep(0.05)
        return False

    def logged(self, text, timeout=8.0):
        return self.until(lambda: text in self.daemon.log(), timeout)

    def failed(self, name):
        """Whether the user's call has ended, because the push failed."""
        return self.until(lambda: any(f"call ended aor={name}@" in line and "code=HFNP" in line
                                      for line in self.daemon.log().splitlines()))

    def asked(self, part):
        """Whether the daemon has asked for a name that contains `part`."""
        return self.until(lambda: any(part in name for name, _ in list(self.names.counts)))

    def at(self, host, path):
        return f"https://{host}:{self.server.port}/{path}"


@probe("T46.1", "unified-odd-endpoints")
def odd_endpoints(t):
    """Endpoints in spellings that some programs read as an inside address. None becomes a push contact."""
    place = Place(t, "unified-odd")
    host, port = place.server.host, place.server.port
    octets = [int(part) for part in host.split(".")]
    number = int.from_bytes(bytes(octets), "big")
    hosts = [host, str(number), hex(number), "0" + oct(number)[2:], f"{octets[0]}.{number & 0xffffff}",
             ".".join(hex(part) for part in octets), ".".join("0" + oct(part)[2:] for part in octets), f"[::ffff:{host}]",
             f"[::{host}]", "[::1]", f"[64:ff9b::{host}]", "localhost", "localhost.", "localhost.localdomain.", "intranet",
             f"{host}.", f"up.example@{host}", f"{host}%2eexample", "%31%32%37.0.0.1", "１２７.0.0.1", "0", "up.example:0x1bb",
             f"user:pass@{host}", f"up.example#@{host}", f"up.example\\@{host}"]
    urls = [f"https://{one}:{port}/up" for one in hosts] + [f"http://up.home.lan:{port}/up", f"ftp://up.home.lan:{port}/up",
            f"https://up.example:{port}1/up", "https://up.example:22/up", f"//up.home.lan:{port}/up", f"HTTPS://up.home.lan:{port}/"]
    for url in urls:
        name, answer = place.register(url)
        check(answer and answer.status in (400, 555), f"{url} got {answer}")
        check(url.encode() not in answer.raw, f"the refusal repeats the endpoint {url}")
        place.call(name)
    _, answer = place.register(place.at("up.home.lan", "x"), keys=None)
    check(answer and answer.status == 555, f"a device without keys got {answer}")
    name = place.sleeper(place.at("up.home.lan", "good"))
    place.call(name)
    check(place.server.got("/good"), "control: a private host got no push")
    check(len(place.server.paths) == 1, f"refused endpoints got requests: {[path for _, path, _, _ in place.server.paths]}")
    return f"{len(urls)} spellings refused"


@probe("T46.2", "unified-inside-names")
def inside_names(t):
    """Names that lead to inside addresses and to the daemon's own listeners."""
    place = Place(t, "unified-inside")
    inside, lists = place.server.host, place.names.lists
    lists["inside.example"] = [[inside]]
    lists["mixed.example"] = [[NOWHERE, inside]]
    lists["mapped.example"] = [["::ffff:" + inside]]
    lists["translated.example"] = [["64:ff9b::" + inside]]
    lists["loop6.example"] = [["::1"]]
    lists["zero.example"] = [["0.0.0.0"]]
    lists["own.lan"] = [[place.daemon.host]]
    for host in ("inside.example", "mixed.example", "mapped.example", "translated.example", "loop6.example", "zero.example"):
        name = place.sleeper(place.at(host, fresh("secret-path-")))
        place.call(name)
        check(place.failed(name) and place.asked(host), f"the push to {host} did not fail")
    # The log shows the first refusals; further ones within a minute only count.
    check(place.logged(f"inside.example:{place.server.port}: the host has the address"), "no log line about inside.example")
    # The daemon's own listener, named by the operator as a private host by mistake.
    before = place.daemon.metric("sippushd_http_requests_total")
    name = place.sleeper(f"https://own.lan:{place.daemon.admin_port}/up")
    place.call(name)
    check(place.failed(name), "the push to the own listener did not fail")
    check(place.daemon.metric("sippushd_http_requests_total") == before, "the daemon asked its own listener")
    check(not place.server.paths, f"an inside host got {place.server.paths}")
    check("secret-path-" not in place.daemon.log(), "the log shows an endpoint")
    return "seven names refused, none connected to"


@probe("T46.3", "unified-rebinding")
def rebinding(t):
    """A name whose address is public when it is checked, and inside when it is asked again."""
    place = Place(t, "unified-rebinding")
    place.names.lists["rebinds.example"] = [[NOWHERE], [place.server.host]]
    name = place.sleeper(place.at("rebinds.example", "x"))
    place.call(name)
    check(place.logged("rebinds.example:"), "control: nothing was tried")
    check(place.logged("is not public"), "the second answer of the name was not refused")
    place.call(name)
    time.sleep(patience(1))
    check(not place.server.paths, f"the inside host got {place.server.paths}")
    asked = place.names.counts.get(("rebinds.example", b"\0\1"), 0) + 1
    return f"{asked} look-ups, no connection inside"


@probe("T46.4", "unified-hostile-answers")
def hostile_answers(t):
    """Redirects, 10 MB, answers without end and silence. Calls to other phones are not delayed."""
    place = Place(t, "unified-answers")
    for kind in ("inside", "large", "drip", "silent"):
        place.call(place.sleeper(place.at(f"{kind}.home.lan", f"{kind}/x")))
        check(place.server.got(f"/{kind}/x"), f"control: {kind} got no push")
    begin = time.monotonic()
    name = place.sleeper(place.at("good.home.lan", "good/x"))
    place.call(name)
    check(place.server.got("/good/x", timeout=2), "a good push server waits for hostile ones")
    took = time.monotonic() - begin
    time.sleep(patience(1))
    check(not any("followed" in path for _, path, _, _ in place.server.paths), "a redirect was followed")
    check(sum("/large/" in path for _, path, _, _ in place.server.paths) == 1, "a push with a long answer was sent again")
    check(place.daemon.alive(), "the daemon ended")
    return f"another push server got its push after {took:.2f} s"


@probe("T46.5", "unified-storm")
def storm(t):
    """Sixty phones at one silent push server are called at once."""
    place = Place(t, "unified-storm", **{"host-queue": 20})
    names = [place.sleeper(place.at("slow.home.lan", f"silent/{number}")) for number in range(60)]
    good = place.sleeper(place.at("good.home.lan", "good/x"))
    token = fresh("token")
    firebase = fresh("u")
    answer = t.phone().register(firebase, params=f";pn-provider=fcm;pn-param=p;pn-prid={token}")
    check(answer and answer.status == 200, f"control: {answer}")
    for name in names:
        place.call(name)
    check(place.server.got("/silent/", 4), "control: the storm does not begin")
    begin = time.monotonic()
    place.call(good)
    place.call(firebase)
    check(place.server.got("/good/x", timeout=2), "a storm to one push server delays another")
    check(t.suite.provider.wait(token, timeout=2), "a storm to one push server delays Firebase")
    took = time.monotonic() - begin
    with open("/proc/net/tcp") as file:
        port = f"{place.server.port:04X}"
        slow = sum(1 for line in file if line.split()[2].endswith(":" + port) and line.split()[3] == "01")
    # At most four connections to each of the two hosts.
    check(slow <= 8, f"{slow} connections to two hosts")
    return f"others pushed after {took:.2f} s, {slow} connections"


@probe("T46.6", "unified-limited-endpoint")
def limited_endpoint(t):
    """One endpoint answers 429. The host's other endpoints are pushed, and the endpoint is left alone."""
    place = Place(t, "unified-limited")
    limited = place.sleeper(place.at("one.home.lan", "429/x"))
    other = place.sleeper(place.at("one.home.lan", "201/x"))
    place.call(limited)
    check(place.server.got("/429/x") and place.failed(limited), "control: no push")
    place.call(other)
    check(place.server.got("/201/x", timeout=2), "a 429 of one endpoint delays another")
    place.call(limited)
    time.sleep(patience(1))
    check(sum("/429/" in path for _, path, _, _ in place.server.paths) == 1, "the endpoint was pushed in spite of its 429")
    metric = place.daemon.metric("sippushd_push_host_limited_total", host=f"one.home.lan:{place.server.port}")
    check(metric == 1, f"the metric of the host says {metric}")
    return "one request to the endpoint, and its neighbour was pushed"


@probe("T46.7", "unified-many-hosts")
def many_hosts(t):
    """Users register four hundred hosts. States, labels and descriptors stay bounded, and a listed host has its place."""
    place = Place(t, "unified-many")
    place.names.lists["*.crowd.example"] = [["127.9.9.9"]]
    phones, first = [t.phone() for _ in range(4)], fresh("u")
    for number in range(5):
        _, answer = place.register(place.at(f"first{number}.crowd.example", "x"), first, t.phone())
        check(answer and answer.status == (200 if number < 4 else 555), f"host {number + 1} of a user got {answer}")
    def descriptors():
        return len(os.listdir(f"/proc/{place.daemon.process.pid}/fd"))
    before, files = place.daemon.memory(), descriptors()
    for user in range(100):
        name = fresh("crowd")
        for device in range(4):
            place.register(place.at(f"h{user}x{device}.crowd.example", "x"), name, phones[device])
        place.call(name)
    check(place.asked("h99x"), "control: the last hosts were not tried")
    text = place.daemon.command("metrics").stdout
    labels = [line for line in text.splitlines() if line.startswith("sippushd_push_host_limited_total{")]
    states = place.daemon.metric("sippushd_push_hosts")
    check(len(labels) <= 16 and states <= 256, f"{len(labels)} labels, {states} states")
    more = place.daemon.memory() - before
    check(more < 40_000, f"{more} KiB more for 400 hosts")
    check(descriptors() - files < 64, f"{descriptors() - files} descriptors more")
    good = place.sleeper(place.at("good.home.lan", "good/x"))
    place.call(good)
    check(place.server.got("/good/x", timeout=8), "after a crowd of hosts a good host gets no push")
    return f"{states:.0f} states, {len(labels)} labels, {more} KiB more, {descriptors() - files} descriptors more"


@probe("T46.8", "unified-hostile-host")
def hostile_host(t):
    """One push server answers 403 to everybody. It marks neither the app nor another host."""
    place = Place(t, "unified-hostile")
    for number in range(8):
        place.call(place.sleeper(place.at("hostile.home.lan", f"403/secret-path-{number}")))
    check(place.server.got("/403/", 8), "control: no push")
    good = place.sleeper(place.at("good.home.lan", "good/x"))
    place.call(good)
    check(place.server.got("/good/x"), "a host's 403 stops another host")
    text = place.daemon.command("provider", "list").stdout
    check("refuses our credentials" not in text, f"the app is marked: {text}")
    check(f"hostile.home.lan:{place.server.port}" in text and "status 403" in text, f"the host is not shown: {text}")
    refused = place.daemon.metric("sippushd_pushes_ended_total", outcome="credentials-refused")
    check(refused == 0, "the metric that alerts use counts the host's 403")
    log = place.daemon.log()
    check("does not accept our credentials" not in log, "the log blames the credentials of the app")
    check("a push server chosen by phones does not accept the daemon's VAPID key" in log, "the log says nothing about the host")
    check("secret-path-" not in log and "secret-path-" not in text, "log or list shows an endpoint")
    return "the host alone is marked"
