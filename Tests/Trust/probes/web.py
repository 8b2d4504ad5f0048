"""T12 to T16: the HTTP API."""

import base64
import concurrent.futures
import hashlib
import hmac
import http.server
import json
import socket
import threading
import time

from daemon import QuietServer, http_raw
from machine import patience
from sip import fresh
from suite import check, probe


class Receiver:
    """Accepts webhooks, and counts the connections."""

    def __init__(self, host):
        receiver = self
        self.got, self.connections = [], 0

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                receiver.got.append((self.path, body))
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *arguments):
                pass

        class Server(QuietServer):
            def get_request(self):
                receiver.connections += 1
                return super().get_request()

        self.server = Server((host, 0), Handler)
        self.host, self.port = self.server.server_address
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()


def app(t):
    """An app whose server registers devices."""
    name = fresh("app").lower()
    text = t.daemon.command("app", "add", name, "--org", "trust", "--user", "{{user}}@example.net", "--fcm-param", "p").stdout
    words = text.replace(":", " ").split()
    identifier = next(w for w in words if w.count("-") == 4 and len(w) == 36)
    token = next((w for w in reversed(words) if len(w) >= 20 and w != identifier), None)
    check(token, f"control: app add prints no token: {text}")
    return identifier, token


def register_device(t, identifier, token, user, callback):
    body = json.dumps({"MobileAppId": identifier, "UserId": user, "ApiToken": token, "FcmDeviceToken": fresh("device")})
    status, text, _ = t.daemon.http("POST", "/api/v1.0/orgs/trust/pushdeviceregistration/devices", body,
                                    {"Content-Type": "application/json", "x-ms-callback-url": callback},
                                    port=t.daemon.api_port, source=t.address())
    return status


@probe("T12", "callbacks-inside", "digest")
def callbacks(t):
    inside = t.own(Receiver("127.0.0.1"))
    allowed = t.own(Receiver("127.3.0.1"))
    identifier, token = app(t)
    port = inside.port
    hosts = ["127.0.0.1", "127.1", "0x7f000001", "2130706433", "017700000001", "localhost", "LOCALHOST.", "[::1]", "[::ffff:127.0.0.1]",
             "[::ffff:7f00:1]", "0.0.0.0", "0", "[::]", "127.0.0.1.", "①27.0.0.1", "127.3.0.1@127.0.0.1", "[64:ff9b::7f00:1]"]
    statuses = {}
    for host in hosts:
        try:
            statuses[host] = register_device(t, identifier, token, "100", f"http://{host}:{port}/hook".encode().decode("latin-1", "replace"))
        except UnicodeError:
            continue
    # URLs that lead to the daemon's own listeners.
    for own in (t.daemon.admin_port, t.daemon.api_port):
        register_device(t, identifier, token, "100", f"http://127.3.0.1:{own}/hook")
    url = f"http://{allowed.host}:{allowed.port}/hook?x=1"
    status = register_device(t, identifier, token, "100", url)
    check(status == 202, f"control: a registration with an allowed callback got {status}")
    limit = time.monotonic() + patience(10)
    while not allowed.got and time.monotonic() < limit:
        time.sleep(0.05)
    check(allowed.got, "control: the webhook to an allowed receiver did not come")
    time.sleep(0.5)
    check(inside.connections == 0, f"{inside.connections} connections to an inside address: {statuses}")
    expected = base64.b64encode(hmac.new(token.encode(), url.encode(), hashlib.sha256).digest()).decode()
    value = json.loads(allowed.got[0][1])
    check(value.get("Signature") == expected, f"the webhook's signature is {value}")
    return f"{len(statuses)} spellings of loopback as callback: not one connection; an allowed receiver gets its webhook, signed"


@probe("T13", "no-webhook-for-a-wrong-token", "digest")
def wrong_token(t):
    """A client with a wrong ApiToken cannot make the daemon connect to any server."""
    receiver = t.own(Receiver("127.3.0.2"))
    identifier, token = app(t)
    url = f"http://{receiver.host}:{receiver.port}/hook"
    for wrong in ("", "wrong", token[:-1], token + "x", token.upper() if token != token.upper() else token.lower()):
        register_device(t, identifier, wrong, "100", url + "?wrong")
    time.sleep(1)
    check(receiver.connections == 0, f"{receiver.connections} webhooks for wrong tokens")
    check(register_device(t, identifier, token, "100", url) == 202, "control: the right token is refused")
    limit = time.monotonic() + patience(10)
    while not receiver.got and time.monotonic() < limit:
        time.sleep(0.05)
    check(receiver.got, "control: no webhook for the right token")
    return "5 registrations with wrong ApiTokens: not one connection to their callback; with the right one it gets its webhook"


@probe("T14", "two-readings", "digest")
def smuggling(t):
    address = (t.daemon.host, t.daemon.api_port)
    hidden = "GET /hidden HTTP/1.1\r\nHost: h\r\n\r\n"
    cases = {
        "two lengths": "POST /v1/push-tokens HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\nContent-Length: 5\r\n\r\n",
        "length and chunks": "POST /v1/push-tokens HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "bare LF": "GET /healthz HTTP/1.1\nHost: h\n\n",
        "a folded field": "GET /healthz HTTP/1.1\r\nHost: h\r\nX: a\r\n b\r\n\r\n",
        "blank before the colon": "GET /healthz HTTP/1.1\r\nHost: h\r\nContent-Length : 0\r\n\r\n",
        "signed length": "POST /v1/push-tokens HTTP/1.1\r\nHost: h\r\nContent-Length: +0\r\n\r\n",
        "chunks of another kind": "POST /v1/push-tokens HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: xchunked\r\n\r\n",
        "chunk size with 0x": "POST /v1/push-tokens HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n0x0\r\n\r\n",
        "two Hosts": "GET /healthz HTTP/1.1\r\nHost: h\r\nHost: i\r\n\r\n",
        "fields after the chunks": "POST /v1/push-tokens HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX: y\r\n\r\n",
    }
    with concurrent.futures.ThreadPoolExecutor(len(cases)) as pool:
        answers = list(pool.map(lambda head: http_raw(address, (head + hidden).encode(), 6, t.address()), cases.values()))
    for what, (answer, closed) in zip(cases, answers):
        statuses = [line.split(b" ")[1] for line in answer.split(b"\r\n") if line.startswith(b"HTTP/1.1 ")]
        check(statuses[:1] == [b"400"] or statuses[:1] == [b"501"], f"{what}: {answer[:60]!r}")
        check(len(statuses) == 1 and closed, f"{what}: {len(statuses)} answers, {'closed' if closed else 'open'}")
    answer, _ = http_raw(address, b"GET /healthz HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n", 2, t.address())
    check(b" 200 " in answer[:20], "control: /healthz")
    return f"{len(cases)} heads that two readers cut differently: one 400 and closed"


@probe("T14", "deadlines-and-a-full-table", "narrow")
def full_table(t):
    address = (t.daemon.host, t.daemon.api_port)
    begin = time.monotonic()
    with socket.create_connection(address, 5, (t.address(), 0)) as slow:
        slow.sendall(b"GET /healthz HTTP/1.1\r\nHost: h\r\n")
        slow.settimeout(0.3)
        closed = False
        while time.monotonic() - begin < 40 and not closed:
            try:
                slow.sendall(b"X: y\r\n")
                closed = slow.recv(1000) == b"" or closed
            except TimeoutError:
                pass
            except OSError:
                closed = True
    seconds = time.monotonic() - begin
    check(closed, f"a head that drips for {seconds:.1f} s; api.head-timeout is 2 s")
    # With api.connections 20, all 20 connections are idle.
    idle = [socket.create_connection(address, 5, (t.address(), 0)) for _ in range(24)]
    try:
        status, _, _ = t.daemon.http("GET", "/healthz", port=t.daemon.api_port, source=t.address(), timeout=30)
    except OSError as error:
        status = error
    for one in idle:
        one.close()
    check(status == 200, f"with the table full of idle connections a new request got {status}")
    return f"a dripping head ends after {seconds:.1f} s; with 24 idle connections for 20 places a new request is served"


@probe("T15", "deep-and-large-json", "digest")
def deep(t):
    statuses = []
    for body in ("[" * 100000, '{"a":' * 5000 + "1" + "}" * 5000, '{"username":"' + "x" * 20000 + '"}', '{"a":1e99999}', '"\\ud800"', "{" + '"a":1,' * 3000 + '"b":1}'):
        status, _, _ = t.daemon.http("POST", "/api/v1.0/orgs/trust/pushdeviceregistration/devices", body,
                                     {"Content-Type": "application/json"}, port=t.daemon.api_port, source=t.address())
        statuses.append(status)
        check(400 <= status < 500, f"{body[:20]}... got {status}")
    return f"100,000 brackets, 5,000 levels, 20 KB of text and others: {statuses}"


@probe("T15.2", "no-member-twice", "digest")
def member_twice(t):
    """If a name occurs twice in a JSON object, two parsers could take different values. The daemon refuses JSON with a
    repeated name, at any depth and with any escapes."""
    twice = {
        "a token report": ("/v1/push-tokens", '{"username":"u","username":"v"}', t.daemon.api_port, None),
        "an escape": ("/v1/push-tokens", '{"username":"u","\\u0075sername":"v"}', t.daemon.api_port, None),
        "inside another": ("/v1/push-tokens", '{"username":"u","x":[{"a":{"b":1,"b":1}}]}', t.daemon.api_port, None),
        "a device": ("/api/v1.0/orgs/trust/pushdeviceregistration/devices", '{"a":1,"a":1}', t.daemon.api_port, None),
        "an escape in a device": ("/api/v1.0/orgs/trust/pushdeviceregistration/devices", '{"a":1,"\\u0061":1}', t.daemon.api_port, None),
    }
    for what, (path, body, port, key) in twice.items():
        status, text, _ = t.daemon.http("POST", path, body, {"Content-Type": "application/json"}, port=port,
                                        source=t.address(), key=key)
        check(status == 400 and "twice" in text, f"{what} got {status} {text[:200]}")
    name, _ = t.daemon.user()
    body = '{"name":"%s@example.net","password":"one-PLANTED","%s":"two-PLANTED"}'
    for spelling, status in (("password", 400), ("\\u0070assword", 400), ("other-password", 204)):
        found, text, _ = t.daemon.http("PUT", "/v1/users", body % (name, spelling), {"Content-Type": "application/json"},
                                       key=t.daemon.key)
        check(found == status or status == 204 and found < 300, f"a user's password twice ({spelling!r}) got {found} {text}")


@probe("T16", "paths", "digest")
def paths(t):
    t.daemon.user()
    ways = ["/v1/users", "/v1//users", "//v1/users", "/./v1/users", "/healthz/../v1/users", "/v1/%75sers", "/v1/users/", "/v1/users?x",
            "/healthz/..%2fv1/users", "/v1/users%00", "/v1\\users", "/V1/USERS", "/v1/users#", "http://h/v1/users", "/metrics", "/metrics/",
            "/%6detrics", "/healthz;/../metrics", "/v1/held", "*", "/v1/users%2f..", "/openapi.json/../v1/users"]
    for way in ways:
        for method in ("GET", "PUT", "DELETE", "HEAD", "get"):
            raw = f"{method} {way} HTTP/1.1\r\nHost: h\r\nConnection: close\r\nContent-Length: 0\r\n\r\n".encode()
            answer, _ = http_raw((t.daemon.host, t.daemon.admin_port), raw, 2, t.address(), head_only=True)
            check(not answer.startswith(b"HTTP/1.1 2"), f"{method} {way} without a key: {answer[:40]!r}")
    status, text, _ = t.daemon.http("GET", "/v1/users", key=t.daemon.key)
    check(status == 200 and "example.net" in text, "control: with the key it is not served")
    status, text, _ = t.daemon.http("GET", "/v1/users", port=t.daemon.api_port, key=t.daemon.key)
    check(status in (401, 403, 404), f"the admin API is served on api.listen: {status}")
    return f"{len(ways)} spellings of paths by 5 methods without a key: no 2xx"
