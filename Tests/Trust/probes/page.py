"""T44: the operators' web page."""

import json
import os
import re
import signal
import socket
import threading
import time

from daemon import Daemon, http_raw
from machine import patience
from sip import fresh
from suite import check, probe

FILES = ["/", "/page.css", "/page.js", "/page-views.js", "/page-plots.js", "/chart.js", "/icon.svg"]


class Browser:
    """An operator's browser, which keeps the cookie and the token of its session."""

    def __init__(self, t, daemon=None, source=None):
        self.daemon, self.source = daemon or t.daemon, source or t.address()
        self.host = f"{self.daemon.host}:{self.daemon.admin_port}"
        self.cookie, self.token, self.line = None, None, ""

    def ask(self, method, path, body=None, fields=None, token=True, cookie=True):
        own = {"Host": self.host, "Origin": f"http://{self.host}", "Sec-Fetch-Site": "same-origin"}
        if body is not None:
            own["Content-Type"] = "application/json"
        if self.cookie and cookie:
            own["Cookie"] = self.cookie
        if self.token and token and method not in ("GET", "HEAD"):
            own["X-Session-Token"] = self.token
        own.update(fields or {})
        own = {name: value for name, value in own.items() if value is not None}
        return self.daemon.http(method, path, body, own, source=self.source)

    def log_in(self, key, fields=None):
        status, text, head = self.ask("POST", "/session", json.dumps({"key": key}), fields)
        if status == 200:
            self.line = head["Set-Cookie"]
            self.cookie, self.token = self.line.split(";")[0], json.loads(text)["token"]
        return status, text, head

    def watch(self, key=None):
        """Opens the live view."""
        way = f"Authorization: Bearer {key}" if key else f"Cookie: {self.cookie}"
        return Watcher(self.daemon, self.source, f"GET /v1/live HTTP/1.1\r\nHost: {self.host}\r\n{way}\r\n\r\n")


class Watcher:
    """An open live view, whose bytes a thread reads."""

    def __init__(self, daemon, source, request, reads=True):
        self.connection = socket.create_connection((daemon.host, daemon.admin_port), patience(10), (source, 0))
        self.connection.sendall(request.encode())
        self.raw, self.ended, self.changed = b"", None, threading.Condition()
        if reads:
            threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        while True:
            try:
                some = self.connection.recv(65536)
            except TimeoutError:
                continue
            except OSError:
                some = b""
            with self.changed:
                self.raw += some
                if not some:
                    self.ended = time.monotonic()
                self.changed.notify_all()
            if not some:
                return

    def wait(self, want, timeout):
        with self.changed:
            return self.changed.wait_for(lambda: want(self), patience(timeout))

    @property
    def status(self):
        return int(self.raw.split(b" ", 2)[1]) if self.raw.startswith(b"HTTP/1.1 ") else 0

    def events(self):
        """The complete events, each as name and data. HTTP's chunks are removed."""
        body, text = self.raw.partition(b"\r\n\r\n")[2], b""
        while body:
            size, _, rest = body.partition(b"\r\n")
            if not re.fullmatch(rb"[0-9a-fA-F]+", size) or len(rest) < int(size, 16):
                break
            text, body = text + rest[:int(size, 16)], rest[int(size, 16) + 2:]
        found = []
        for block in text.decode().split("\n\n")[:-1]:
            lines = block.split("\n")
            check(len(lines) == 2 and lines[0].startswith("event: ") and lines[1].startswith("data: "),
                  f"an event has other lines: {block[:200]!r}")
            found.append((lines[0][7:], json.loads(lines[1][6:])))
        return found

    def snapshots(self):
        return [data for name, data in self.events() if name == "now"]

    def close(self):
        try:
            self.connection.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self.connection.close()


def key_of(daemon, scope, *more):
    name = fresh("key")
    line = daemon.command("apikey", "add", name, "--scope", scope, *more)
    check(line.returncode == 0, f"control: apikey add: {line.stderr}")
    return name, line.stdout.strip().splitlines()[-1]


def user_body():
    return json.dumps({"name": f"{fresh('made')}@example.net", "password": "pw-PLANTED"})


@probe("T44.1", "page-no-request-of-other-sites", "digest")
def other_sites(t):
    """Other sites make the operator's browser send requests. With SameSite alone, the browser would keep the cookie back,
    but here the cookie is sent."""
    browser = Browser(t)
    check(browser.log_in(t.daemon.key)[0] == 200, "control: no login")
    check(browser.ask("PUT", "/v1/users", user_body())[0] in (200, 201, 204), "control: the page cannot change anything")
    evil = [{"Origin": "http://evil.example"}, {"Origin": "null"}, {"Origin": f"http://{t.daemon.host}:1"},
            {"Origin": f"http://evil.example:{t.daemon.admin_port}"}, {"Sec-Fetch-Site": "cross-site"}, {"Sec-Fetch-Site": "same-site"},
            {"Origin": f"http://{browser.host}.evil.example"}]
    for fields in evil:
        for method, path, body in (("PUT", "/v1/users", user_body()), ("GET", "/v1/users", None), ("GET", "/session", None),
                                   ("DELETE", "/session", None), ("GET", "/v1/live", None), ("GET", "/v1/explain?name=x&words=true", None)):
            status, text, _ = browser.ask(method, path, body, fields)
            check(status == 403 and "@example.net" not in text, f"{method} {path} with {fields} got {status}")
    for token in (None, "", "x" * 43, browser.cookie.split("=")[1]):
        status, _, _ = browser.ask("PUT", "/v1/users", user_body(), {"X-Session-Token": token}, token=False)
        check(status == 403, f"a change with the token {token!r} got {status}")
    # A page of another site can log nobody in, not even by a form.
    stranger = Browser(t)
    body = json.dumps({"key": t.daemon.key})
    for fields in ({"Content-Type": "text/plain"}, {"Content-Type": "application/x-www-form-urlencoded"}, *evil):
        status, _, head = stranger.ask("POST", "/session", body, fields)
        check(status in (403, 415) and not head["Set-Cookie"], f"a login of another site with {fields} got {status}")
    status, _, head = browser.ask("OPTIONS", "/v1/users", None, {"Origin": "http://evil.example", "Access-Control-Request-Method": "PUT"})
    check("Access-Control-Allow-Origin" not in head, f"another site is allowed: {status} {head}")
    check(browser.ask("GET", "/session")[0] == 200, "the session has ended")
    return f"{len(evil)} origins, wrong tokens and forms: no answer and no change"


@probe("T44.2", "page-is-not-framed", "digest")
def framed(t):
    """A hostile page can neither frame the page nor run a script in it."""
    browser = Browser(t)
    wanted = {"X-Frame-Options": "DENY", "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer",
              "Cross-Origin-Resource-Policy": "same-origin"}
    for path in FILES:
        for method in ("GET", "HEAD"):
            status, text, head = browser.ask(method, path)
            check(status == 200, f"{method} {path} got {status}")
            for name, value in {**wanted, "Cross-Origin-Opener-Policy": "same-origin"}.items():
                check(head[name] == value, f"{path} has {name}: {head[name]}")
            policy = head["Content-Security-Policy"]
            check("default-src 'none'" in policy and "frame-ancestors 'none'" in policy and "unsafe" not in policy, f"{path}: {policy}")
            check(t.daemon.key not in text and "spd_" not in text.replace('"spd_', ""), f"{path} has a key")
        if path.startswith("/page") and path.endswith(".js"):
            text = browser.ask("GET", path)[1]
            for word in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "Function("):
                check(word not in text, f"{path} uses {word}")
    page = browser.ask("GET", "/")[1]
    check(not re.search(r"<script(?![^>]*\ssrc=)[^>]*>", page) and not re.search(r"\son\w+\s*=", page) and "<style" not in page,
          "the document has a script or a style inside")
    check(browser.log_in(t.daemon.key)[0] == 200, "control: no login")
    for path in ("/session", "/v1/users", "/v1/held"):
        head = browser.ask("GET", path)[2]
        for name, value in {**wanted, "Cache-Control": "no-store"}.items():
            check(head[name] == value, f"{path} has {name}: {head[name]}")
    return f"{len(FILES)} files and the answers: no frame, no script inside"


@probe("T44.3", "page-no-rebinding")
def rebinding(t):
    """A hostile site directs its own name to the daemon, so that its scripts have the daemon's origin."""
    daemon = t.own_daemon = Daemon("page-names", t.suite, {"admin": {"names": "[admin.example.net]"}})
    try:
        daemon.start()
        browser = Browser(t, daemon)
        check(browser.log_in(daemon.key)[0] == 200, "control: no login under an address")
        for name in ("evil.example", "evil.example:80", "127.0.0.1.evil.example", "localhost.evil.example", "admin.example.net.evil.example",
                     "xadmin.example.net", "127.0.0.1@evil.example", "[::1].evil.example", ""):
            own = {"Host": name, "Origin": f"http://{name}"}
            for method, path, body in (("GET", "/", None), ("GET", "/page.js", None), ("GET", "/session", None), ("GET", "/v1/users", None),
                                       ("PUT", "/v1/users", user_body()), ("POST", "/session", json.dumps({"key": daemon.key}))):
                status, text, head = browser.ask(method, path, body, own)
                check(status in (400, 403) and not head["Set-Cookie"], f"{method} {path} under {name!r} got {status}")
        check("add evil.example to admin.names" in daemon.log(), "the log does not say what to do")
        for name in ("admin.example.net", "ADMIN.example.net:8089", "localhost", "[::1]:1", "192.0.2.1"):
            own = {"Host": name, "Origin": f"http://{name.lower()}"}
            status, _, _ = browser.ask("GET", "/v1/users", None, own)
            check(status == 200, f"control: under {name} got {status}")
        # A key in Authorization needs no allowed name, because no browser adds it by itself.
        status, _, _ = daemon.http("GET", "/v1/users", None, {"Host": "evil.example"}, key=daemon.key)
        check(status == 200, f"control: a key under another name got {status}")
        # SIGHUP takes a name away, also from open sessions.
        with open(daemon.config) as file:
            text = file.read()
        check("admin.example.net" in text, "control: the settings have no name")
        with open(daemon.config, "w") as file:
            file.write(text.replace("admin.example.net", "other.example.net"))
        daemon.process.send_signal(signal.SIGHUP)
        limit = time.monotonic() + patience(10)
        while "settings reloaded" not in daemon.log() and time.monotonic() < limit:
            time.sleep(0.05)
        status, _, _ = browser.ask("GET", "/v1/users", None, {"Host": "admin.example.net", "Origin": "http://admin.example.net"})
        check(status == 403, f"a removed name got {status}")
    finally:
        daemon.stop()
    return "nine foreign names: no file, no session, no data"


@probe("T44.4", "page-stolen-cookie", "direct")
def stolen(t):
    """Somebody has a copy of the cookie after the operator has logged out, or after the key was removed."""
    name, key = key_of(t.daemon, "admin")
    browser = Browser(t)
    check(browser.log_in(key)[0] == 200, "control: no login")
    check(all(word in browser.line for word in ("HttpOnly", "SameSite=Strict", "Path=/")), f"the cookie: {browser.line}")
    check(len(browser.cookie.split("=", 1)[1]) >= 43 and key not in browser.line, f"the cookie is short: {browser.line}")
    thief = Browser(t)
    thief.cookie, thief.token = browser.cookie, browser.token
    check(thief.ask("GET", "/v1/users")[0] == 200, "control: the copy does not work")
    check(browser.ask("DELETE", "/session")[0] == 204, "no logout")
    check(thief.ask("GET", "/v1/users")[0] == 401 and thief.ask("GET", "/session")[0] == 401, "the cookie works after the logout")
    # A new login makes another secret, and ends the earlier session.
    check(browser.log_in(key)[0] == 200 and browser.cookie != thief.cookie, "the secret is the same after a new login")
    former = browser.cookie
    check(browser.log_in(key)[0] == 200 and browser.cookie != former, "control: no second login")
    thief.cookie = former
    check(thief.ask("GET", "/v1/users")[0] == 401, "the cookie works after the next login")
    # The key is removed, and added again with the same name.
    thief.cookie, thief.token = browser.cookie, browser.token
    check(thief.ask("GET", "/v1/users")[0] == 200, "control: the copy does not work")
    check(t.daemon.command("apikey", "remove", name).returncode == 0, "control: apikey remove")
    check(thief.ask("GET", "/v1/users")[0] == 401, "the cookie works after its key was removed")
    check(t.daemon.command("apikey", "add", name, "--scope", "admin").returncode == 0, "control: apikey add")
    check(thief.ask("GET", "/v1/users")[0] == 401 and thief.ask("PUT", "/v1/users", user_body())[0] == 401,
          "the cookie works with a new key of the same name")
    # An attacker guesses cookies, or sends two cookies at once.
    for cookie in ("sippushd=" + "A" * 43, "sippushd=", f"{thief.cookie}; {thief.cookie}", "sippushd=" + "%00" * 20):
        thief.cookie = cookie
        check(thief.ask("GET", "/v1/users")[0] == 401, f"the cookie {cookie} works")
    check(browser.cookie.split("=")[1] not in t.daemon.log() and browser.token not in t.daemon.log(), "the log has the secret of a session")
    return "a copied cookie is good for nothing after logout, login and removal of its key"


@probe("T44.5", "page-read-only-writes-nothing", "digest")
def read_only(t):
    name, key = key_of(t.daemon, "admin.read")
    t.registered(t.phone())
    browser = Browser(t)
    status, text, _ = browser.log_in(key)
    check(status == 200 and json.loads(text)["isReadOnly"], f"control: {status} {text}")
    document = json.loads(t.daemon.http("GET", "/openapi.json", key=key)[1])
    writes = reads = 0
    for path, methods in document["paths"].items():
        place = re.sub(r"\{\w+\}", "x@example.net", path)
        for method in methods:
            for answer in (browser.ask(method.upper(), place, "{}" if method != "get" else None),
                           t.daemon.http(method.upper(), place, "{}" if method != "get" else None, key=key)):
                status, text, _ = answer
                if method == "get":
                    reads += 1
                    check(status not in (401, 403), f"GET {place} with admin.read got {status}")
                    check("PLANTED" not in text, f"GET {place} shows a secret")
                else:
                    writes += 1
                    check(status == 403, f"{method} {place} with admin.read got {status} {text[:100]}")
    check(writes >= 20 and reads >= 20, f"control: {writes} writes, {reads} reads")
    # Only the control socket gives out hashes of users.
    for path in ("/v1/user-credentials", "/v1/top", "/v1/traces/1", "/v1/backup"):
        for asked in (key, t.daemon.key):
            status, text, _ = t.daemon.http("GET", path, key=asked)
            check(status in (404, 405), f"{path} over TCP got {status}")
    keys = t.daemon.http("GET", "/v1/apikeys", key=key)[1]
    check(name in keys and "hash" not in keys, f"the list of keys shows hashes: {keys[:200]}")
    # A key with another scope opens no session.
    for scope in ("metrics", "pushes", "registrations", "tokens.read", "lifecycle"):
        status, _, head = Browser(t).log_in(key_of(t.daemon, scope)[1])
        check(status == 403 and not head["Set-Cookie"], f"a login with the scope {scope} got {status}")
    return f"{writes} changes refused, {reads} reads without a secret"


@probe("T44.6", "page-many-viewers", "lively")
def viewers(t):
    """A thousand viewers come, and one viewer never reads."""
    browser, watchers, statuses = Browser(t), [], {}
    request = f"GET /v1/live HTTP/1.1\r\nHost: {browser.host}\r\nAuthorization: Bearer {t.daemon.key}\r\n\r\n"
    memory = t.daemon.memory()
    try:
        watchers.append(Watcher(t.daemon, t.address(), request, reads=False))
        sources = [t.address() for _ in range(20)]
        for number in range(1000):
            try:
                watchers.append(Watcher(t.daemon, sources[number % 20], request))
            except OSError:
                continue
            one = watchers[-1]
            one.wait(lambda one: b"\r\n\r\n" in one.raw or one.ended, 10)
            statuses[one.status] = statuses.get(one.status, 0) + 1
            if one.status != 200:
                check(one.status in (0, 503) and (one.status == 0 or b"Retry-After" in one.raw), f"a viewer got {one.raw[:80]!r}")
                one.close()
        check(statuses.get(200, 0) == 19, f"besides the one that does not read, {statuses} look")
        readers = [one for one in watchers[1:] if one.status == 200]
        before = [len(one.snapshots()) for one in readers]
        time.sleep(4)
        grown = [len(one.snapshots()) - count for one, count in zip(readers, before)]
        check(min(grown) >= 2, f"snapshots in four seconds: {grown}")
        status, _, _ = t.daemon.http("GET", "/v1/users", key=t.daemon.key)
        check(status == 200, f"meanwhile a request got {status}")
        name, _ = t.registered(t.phone())
        check(t.daemon.memory() - memory < 30000, f"the memory grew by {t.daemon.memory() - memory} KiB")
        # When a viewer leaves, there is room for a new viewer.
        readers[0].close()
        limit, status = time.monotonic() + patience(8), 0
        while status != 200 and time.monotonic() < limit:
            watchers.append(Watcher(t.daemon, t.address(), request))
            watchers[-1].wait(lambda one: b"\r\n\r\n" in one.raw, 5)
            status = watchers[-1].status
            time.sleep(0.2)
        check(status == 200, "no room after a viewer has left")
        check("the live view of the web page refused a viewer" in t.daemon.log(), "no log line of the refused viewers")
    finally:
        for one in watchers:
            one.close()
    return f"1,000 viewers: {statuses}, and a phone registered meanwhile"


@probe("T44.7", "page-stream-ends", "digest")
def stream_ends(t):
    """The live view ends soon after its session or key."""
    name, key = key_of(t.daemon, "admin.read")
    browser = Browser(t)
    check(browser.log_in(key)[0] == 200, "control: no login")
    with_cookie, with_key = browser.watch(), browser.watch(key)
    try:
        for one in (with_cookie, with_key):
            check(one.wait(lambda one: b"event: now" in one.raw, 10), f"control: no snapshot: {one.raw[:200]!r}")
        check(browser.ask("DELETE", "/session")[0] == 204, "control: no logout")
        begin = time.monotonic()
        check(with_cookie.wait(lambda one: b"event: bye" in one.raw, 5), "the stream goes on after the logout")
        check(with_cookie.events()[-1] == ("bye", {"reason": "session ended"}), f"{with_cookie.events()[-1]}")
        first = time.monotonic() - begin
        check(with_key.ended is None and b"bye" not in with_key.raw, "the stream of the key ended, too")
        t.daemon.command("apikey", "remove", name)
        begin = time.monotonic()
        check(with_key.wait(lambda one: b"event: bye" in one.raw, 5), "the stream goes on without its key")
        check(with_key.events()[-1] == ("bye", {"reason": "key removed"}), f"{with_key.events()[-1]}")
        second = time.monotonic() - begin
        check(max(first, second) < patience(2.5), f"the streams ended after {first:.1f} and {second:.1f} s")
        check(len(with_key.snapshots()) >= 1, "control: no snapshots")
    finally:
        with_cookie.close()
        with_key.close()
    return f"{first:.1f} s after the logout, {second:.1f} s after the removal of the key"


@probe("T44.8", "page-hostile-names", "digest")
def hostile(t):
    """Callers choose names that are markup, ends of lines, or marks that change the reading direction."""
    browser = Browser(t)
    check(browser.log_in(t.daemon.key)[0] == 200, "control: no login")
    phone, token = t.phone(), fresh("token-PLANTED-")
    name, _ = t.registered(phone, params=f";pn-provider=fcm;pn-param=p;pn-prid={token}")
    watcher = browser.watch()
    callers = []
    names = ["%3Cimg%20src=x%20onerror=alert(1)%3E", "a%0A%0Aevent:%20bye%0Adata:%20%7B%7D", "%E2%80%AEevil", "a%00b", "%22%7D%2C%7B%22"]
    try:
        for evil in names:
            caller = t.phone(trusted=True)
            request = caller.make("INVITE", f"sip:{name}@example.net", evil)
            request.set("from", f'"<img src=x onerror=alert(1)>" <sip:{evil}@example.net>;tag=1')
            caller.send(request)
            callers.append((caller, request))
        found = watcher.wait(lambda one: one.snapshots() and any(
            call["user"] == f"{name}@example.net" for call in one.snapshots()[-1]["held"]["calls"]), 10)
        check(found, f"control: no held call in the live view: {watcher.snapshots()[-1:]}")
        time.sleep(1.5)
        mine = [call for call in watcher.snapshots()[-1]["held"]["calls"] if call["user"] == f"{name}@example.net"]
        check(len(mine) >= 3, f"control: {len(mine)} held calls")
        check(not any(name == "bye" for name, _ in watcher.events()), "a caller ended the stream")
        for call in mine:
            check(not re.search("[\u0000-\u001f\u202a-\u202e\u2066-\u2069]", call["caller"]), f"a hidden mark in {call['caller']!r}")
        text = watcher.raw.decode("utf-8", "replace")
        check("PLANTED" not in text, "the live view shows a push token")
        for path in (f"/v1/explain?name={name}&words=true", "/v1/plots", "/v1/held", f"/v1/users/{name}@example.net/devices"):
            status, text, head = browser.ask("GET", path)
            check(status == 200 and head["Content-Type"].startswith("application/json") and json.loads(text) is not None, f"{path}: {status}")
            check(token not in text, f"{path} shows a push token")
    finally:
        for caller, request in callers:
            caller.send(caller.cancel(request))
        watcher.close()
    return f"{len(mine)} calls of hostile callers, each event one line of JSON"


@probe("T44.9", "page-keys-are-not-guessed")
def guesses(t):
    """Wrong keys count as wrong logins, and the page says nothing about the keys that exist."""
    daemon = Daemon("page-guesses", t.suite, {"limits": {"wrong-logins-per-source": 5}})
    try:
        daemon.start()
        browser, statuses = Browser(t, daemon), []
        for _ in range(12):
            status, text, head = browser.log_in("spd_" + "".join(t.random.choice("abcdef") for _ in range(43)))
            statuses.append(status)
            check(status == 401 or status == 429 and head["Retry-After"], f"a guess got {status}")
        check(429 in statuses, f"twelve guesses got {statuses}")
        for body in ("", "{", "[]", '{"key":1}', '{"key":null}', '{"key":"a","key":"b"}', '{"key":"' + "x" * 100000 + '"}'):
            status, _, _ = browser.ask("POST", "/session", body)
            check(400 <= status < 500, f"the body {body[:20]!r} got {status}")
        check(Browser(t, daemon).log_in(daemon.key)[0] == 200, "the right key got no session")
        check("a login to the web page failed" in daemon.log() and daemon.key not in daemon.log(), "the log has no line, or the key")
    finally:
        daemon.stop()
    return f"twelve guesses: {statuses}"


@probe("T44.10", "page-keys-of-domains", "digest")
def domains(t):
    """A key of one domain sees neither the calls nor the figures of others."""
    own, _ = t.daemon.user(domain="example.org")
    other, _ = t.daemon.user(domain="example.net")
    _, key = key_of(t.daemon, "admin.read", "--domains", "example.org")
    browser = Browser(t)
    status, text, _ = browser.log_in(key)
    check(status == 200 and json.loads(text)["domains"] == ["example.org"], f"control: {status} {text}")
    for path in ("/v1/live", "/v1/plots", "/v1/plots?span=day", "/v1/providers", "/metrics"):
        for answer in (browser.ask("GET", path), t.daemon.http("GET", path, key=key)):
            check(answer[0] == 403, f"{path} with a key of a domain got {answer[0]}")
    status, text, _ = browser.ask("GET", f"/v1/explain?name={own}@example.org&words=true")
    check(status == 200 and json.loads(text)["words"]["verdict"], f"control: explain got {status} {text[:200]}")
    there, none = (browser.ask("GET", f"/v1/explain?name={one}@example.net&words=true")[1] for one in (other, fresh("none")))
    check(json.loads(there)["isKnown"] is False and "device" not in json.loads(there)["words"]["verdict"], f"explain tells of another domain: {there}")
    # The HTTP API serves neither the page nor sessions.
    for path in FILES + ["/session", "/v1/live", "/v1/plots"]:
        status, _, _ = t.daemon.http("GET", path, port=t.daemon.api_port, key=t.daemon.key)
        check(status == 404, f"{path} on api.listen got {status}")
    return "live view, plots and metrics refused; explain tells of the own domain"
