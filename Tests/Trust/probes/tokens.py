"""T40: bearer tokens of a login server."""

import base64
import hashlib
import hmac
import http.server
import json
import os
import subprocess
import threading
import time

from daemon import Daemon, QuietServer
from edge import SecureStream
from machine import patience
from sip import Dialog, fresh
from suite import check, probe

ISSUER, AUDIENCE = "https://login.example.net/", "sip.example.net"


def encoded(data):
    return base64.urlsafe_b64encode(data if isinstance(data, bytes) else data.encode()).rstrip(b"=").decode()


class Key:
    """The RSA key of a login server, which Debian's openssl created."""

    def __init__(self, folder, name):
        self.name, self.file = name, os.path.join(folder, name + "-key.pem")
        self.run("genpkey", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048", "-out", self.file)
        self.public = self.run("pkey", "-in", self.file, "-pubout")
        modulus = self.run("rsa", "-in", self.file, "-noout", "-modulus").decode().split("=")[1].strip()
        self.jwk = {"kty": "RSA", "use": "sig", "kid": name, "n": encoded(bytes.fromhex(modulus)), "e": "AQAB"}

    @staticmethod
    def run(*arguments, data=None):
        return subprocess.run(["openssl", *arguments], input=data, capture_output=True, check=True).stdout

    def sign(self, text):
        return self.run("dgst", "-sha256", "-sign", self.file, data=text.encode())

    def token(self, user="", header=None, raw=None, **changes):
        claims = {"iss": ISSUER, "aud": AUDIENCE, "sub": user, "exp": int(time.time()) + 600, "jti": fresh("jti")}
        claims.update(changes)
        claims = {name: value for name, value in claims.items() if value is not None}
        head = header if header is not None else {"alg": "RS256", "typ": "JWT", "kid": self.name}
        text = f"{encoded(json.dumps(head))}.{encoded(raw or json.dumps(claims))}"
        return f"{text}.{encoded(self.sign(text))}"


class LoginServer:
    """Publishes the keys of a login server over HTTP. The function `answer` returns status, body and further header
    fields, or waits."""

    def __init__(self):
        server = self
        self.keys, self.asked, self.answer = [], 0, self.usual

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                server.asked += 1
                status, text, fields = server.answer()
                try:
                    self.send_response(status)
                    for name, value in fields:
                        self.send_header(name, value)
                    self.send_header("Content-Length", str(len(text)))
                    self.end_headers()
                    self.wfile.write(text.encode())
                except OSError:
                    pass

            def log_message(self, *arguments):
                pass

        self.server = QuietServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/keys"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def usual(self):
        return 200, json.dumps({"keys": [key.jwk for key in self.keys]}), []

    def close(self):
        self.server.shutdown()


def with_login(t, name, limits=None, pbx=None):
    """Makes a daemon with TLS that accepts bearer tokens of a login server."""
    t.needs("bearer.issuers", "bearer.issuers.login.jwks-url")
    server = t.own(LoginServer())
    daemon = Daemon(name, t.suite, {}, pbx_host=pbx, edge=True)
    server.keys = [Key(daemon.folder, "first")]
    daemon.values = {
        "bearer": {"issuers": {"login": {
            "domains": "[example.net]", "issuer": ISSUER, "audience": f"[{AUDIENCE}]", "jwks-url": server.url,
            "authz-server": ISSUER}}},
        "limits": {"registers-per-source": 0, "handshakes-per-source": 0, "queueing": "0s",
                   "wrong-logins-per-source": 0, "wrong-logins-per-user": 0, **(limits or {})}}
    t.daemon = t.suite.daemons[name] = daemon
    daemon.start()
    wait_until(lambda: "the daemon has read new keys for bearer tokens" in daemon.log(), "the keys were not read")
    return server


def wait_until(done, words):
    limit = time.monotonic() + patience(20)
    while not done():
        check(time.monotonic() < limit, words)
        time.sleep(0.1)


def secure(t, host=None):
    return t.own(SecureStream(host or t.address(), (t.daemon.host, t.daemon.tls_port)))


def register(phone, name, *tokens, scheme="Bearer"):
    request = phone.make("REGISTER", "sip:example.net", name, to=f"sip:{name}@example.net")
    request.add("Expires", "600")
    request.add("User-Agent", "Probe")
    for token in tokens:
        request.add("Authorization", f"{scheme} {token}")
    return phone.exchange(request, 10)


def bearers(answer):
    return [row for row in answer.all("www-authenticate") if row.lower().startswith("bearer")]


def refused(phone, name, token, what):
    answer = register(phone, name, token)
    check(answer and answer.status == 401, f"{what}: {answer}")
    check(bearers(answer) and "invalid_token" in bearers(answer)[0], f"{what}: {answer.all('www-authenticate')}")


@probe("T40.1", "token-forged")
def token_forged(t):
    server = with_login(t, "forged")
    key, phone, bob = server.keys[0], secure(t), fresh("bob")
    asked = register(phone, bob)
    check(asked and asked.status == 401 and f'authz_server="{ISSUER}"' in bearers(asked)[0], f"the challenge is {asked}")
    check(any(row.startswith("Digest") for row in asked.all("www-authenticate")), "no challenge for passwords")
    answer = register(phone, bob, key.token(bob))
    check(answer and answer.status == 200, f"control: {answer}")
    other = Key(t.daemon.folder, "other")
    mallory = t.own(LoginServer())
    mallory.keys = [other]
    claims = encoded(json.dumps({"iss": ISSUER, "aud": AUDIENCE, "sub": bob, "exp": int(time.time()) + 600}))
    mixed = f"{encoded(json.dumps({'alg': 'HS256', 'typ': 'JWT'}))}.{claims}"
    good = key.token(bob).split(".")
    tries = {
        "none": f"{encoded(json.dumps({'alg': 'none'}))}.{claims}.",
        "none with a signature": f"{encoded(json.dumps({'alg': 'None'}))}.{claims}.AA",
        "HMAC with the public key": f"{mixed}.{encoded(hmac.new(key.public, mixed.encode(), hashlib.sha256).digest())}",
        "another key": other.token(bob, header={"alg": "RS256", "kid": "first"}),
        "a key in the header": other.token(bob, header={"alg": "RS256", "kid": "first", "jwk": other.jwk}),
        "a server in the header": other.token(bob, header={"alg": "RS256", "kid": "first", "jku": mallory.url}),
        "x5u": other.token(bob, header={"alg": "RS256", "kid": "first", "x5u": mallory.url}),
        "crit": key.token(bob, header={"alg": "RS256", "kid": "first", "crit": ["exp"]}),
        "RS512": key.token(bob, header={"alg": "RS512", "kid": "first"}),
        "ES256": key.token(bob, header={"alg": "ES256", "kid": "first"}),
        "other claims": f"{good[0]}.{claims}.{good[2]}",
        "a cut signature": ".".join(good)[:-4],
    }
    for what, token in tries.items():
        answer = register(secure(t), bob, token)
        check(answer and answer.status in (401, 503), f"{what}: {answer}")
    for kid in ("../../../../dev/null", "' OR 1=1 --", "http://127.0.0.1/", "\x00"):
        answer = register(secure(t), bob, other.token(bob, header={"alg": "RS256", "kid": kid}))
        check(answer and answer.status in (401, 503), f"kid {kid!r}: {answer}")
    check(mallory.asked == 0, "the daemon asked a server that a token named")
    return f"{len(tries) + 4} forged tokens let nobody in"


@probe("T40.2", "token-claims")
def token_claims(t):
    server = with_login(t, "claims")
    key, phone, bob, now = server.keys[0], secure(t), fresh("bob"), int(time.time())
    for what, changes in {
        "expired": {"exp": now - 120}, "no end": {"exp": None}, "a text": {"exp": str(now + 600)},
        "not yet": {"nbf": now + 300}, "another issuer": {"iss": "https://evil.example/"}, "no issuer": {"iss": None},
        "another audience": {"aud": "files.example.net"}, "audiences": {"aud": ["a", "b"]}, "no audience": {"aud": None},
        "no user": {"sub": None}, "a number": {"sub": 7},
    }.items():
        refused(phone, bob, key.token(bob, **changes), what)
    answer = register(phone, bob, key.token(bob, exp=now + 3, nbf=now - 5, aud=["x", AUDIENCE]))
    check(answer and answer.status == 200, f"control: {answer}")
    return "tokens with wrong claims get 401 and invalid_token"


@probe("T40.3", "token-of-another")
def token_of_another(t):
    server = with_login(t, "another")
    key, phone, bob, eve = server.keys[0], secure(t), fresh("bob"), fresh("eve")
    for name in (eve, bob.upper(), f"{bob}%00", f"{eve}@example.net"):
        answer = register(phone, bob, key.token(name))
        check(answer and answer.status == 403, f"{name}: {answer}")
    for name in (f"{bob}@example.org", f"{bob}@", "@example.net", f"{bob}>", f"{bob}\r\nX: y", f"{bob}\x00", f"{bob} ", "x" * 300):
        refused(phone, bob, key.token(name), repr(name))
    call = phone.make("INVITE", "sip:200@example.net", bob)
    call.add("Proxy-Authorization", f"Bearer {key.token(eve)}")
    answer = phone.exchange(call, 10)
    check(answer and answer.status == 403, f"a call in another's name got {answer}")
    answer = register(phone, bob, key.token(f"{bob}@example.net"))
    check(answer and answer.status == 200, f"control: {answer}")
    return "a token serves its own user alone"


@probe("T40.4", "token-in-clear")
def token_in_clear(t):
    server = with_login(t, "in-clear")
    key, bob = server.keys[0], fresh("bob")
    for phone in (t.phone(), t.stream()):
        answer = register(phone, bob, key.token(bob))
        check(answer and answer.status == 401, f"{phone.transport}: {answer}")
        check(not bearers(answer), f"{phone.transport}: a token is asked for")
    check("it shows a token without TLS" in t.daemon.log(), "the log says nothing")
    answer = register(secure(t), bob, key.token(bob))
    check(answer and answer.status == 200, f"control: {answer}")
    return "over UDP and TCP no token is read or asked for"


@probe("T40.5", "token-malformed")
def token_malformed(t):
    server = with_login(t, "malformed")
    key, phone, bob = server.keys[0], secure(t), fresh("bob")
    good = json.dumps({"iss": ISSUER, "aud": AUDIENCE, "sub": "eve", "exp": int(time.time()) + 600})
    for what, token in {
        "twice": key.token(raw=good[:-1] + f', "sub": "{bob}"}}'), "an array": key.token(raw="[]"),
        "deep": key.token(raw=good[:-1] + ', "x": ' + "[" * 200 + "]" * 200 + "}"), "half": key.token(raw=good[:-1]),
        "no UTF-8": key.token(raw=good.encode()[:-1] + b', "x": "\xff"}'), "dots": "." * 500, "padding": key.token(bob) + "==",
        "letters": "%$&", "two parts": key.token(bob).rsplit(".", 1)[0], "blank": "", "long": key.token(bob, x="x" * 7000),
    }.items():
        refused(phone, bob, token, what)
    answer = register(phone, bob, key.token(bob), key.token(bob))
    check(answer and answer.status == 401, f"two tokens: {answer}")
    answer = register(secure(t), bob, "a." + "A" * 40_000 + ".c")
    check(answer is None or answer.status in (401, 400, 513), f"a token of 40 kB: {answer}")
    answer = register(secure(t), bob, key.token(bob), scheme="bEaReR  ")
    check(answer and answer.status == 200, f"control: {answer}")
    return "what is no token registers nobody, and the daemon lives"


@probe("T40.6", "token-guesses")
def token_guesses(t):
    server = with_login(t, "guesses", {"wrong-logins-per-source": 10})
    key, bob = server.keys[0], fresh("bob")
    other = Key(t.daemon.folder, "other")
    token = key.token(bob)
    answer = register(secure(t), bob, token)
    check(answer and answer.status == 200, f"control: {answer}")
    attacker = secure(t)
    statuses = [register(attacker, bob, other.token(fresh("x"), header={"alg": "RS256", "kid": "first"})).status for _ in range(20)]
    check(statuses[0] == 401 and statuses[-1] == 503, f"20 forged tokens got {statuses}")
    answer = register(secure(t), bob, token)
    check(answer and answer.status == 200, f"a proved token beside the attack got {answer}")
    return f"after {statuses.count(401)} forged tokens the source waits, and others do not"


@probe("T40.7", "token-goes-no-further")
def token_goes_no_further(t):
    server = with_login(t, "no-further", pbx="127.2.0.9")
    key, phone, bob = server.keys[0], secure(t), fresh("bob")
    token = key.token(bob)
    answer = register(phone, bob, token)
    check(answer and answer.status == 200, f"control: {answer}")
    call = phone.make("INVITE", "sip:200@example.net", bob)
    call.add("Proxy-Authorization", f"Bearer {token}")
    call.add("Authorization", f"Bearer {token}")
    phone.send(call)
    invite = t.daemon.pbx.request("INVITE", call.call_id)
    check(invite, "no INVITE at the PBX")
    secret = token.split(".")[2].encode()
    check(secret not in invite.raw and b"Bearer" not in invite.raw, "the PBX got the token")
    explained = t.daemon.command("explain", call.call_id).stdout
    check(secret.decode() not in explained, "explain shows the token")
    t.daemon.pbx.respond(invite, 200, tag="pbx", contact=f"<sip:200@{t.daemon.pbx.local()}>")
    answer = phone.response(call.call_id, "INVITE")
    check(answer and answer.status == 200, f"control: the call got {answer}")
    dialog = Dialog.of_caller(phone, call, answer)
    phone.send(dialog.make("ACK", cseq=1))
    again = dialog.make("INVITE", fields=[("Proxy-Authorization", f"Bearer {token}"), ("Authorization", f"Bearer {token}")])
    phone.send(again)
    check(t.daemon.pbx.request("ACK", call.call_id), "control: no ACK at the PBX")
    invite = t.daemon.pbx.request("INVITE", call.call_id)
    check(invite, "no re-INVITE at the PBX")
    check(secret not in invite.raw and b"Bearer" not in invite.raw, "the PBX got the token inside the call")
    # While the re-INVITE has no response, the journal has its bytes.
    for folder, _, names in os.walk(t.daemon.folder):
        for name in names:
            if not os.path.isfile(os.path.join(folder, name)):
                continue
            with open(os.path.join(folder, name), "rb") as file:
                check(secret not in file.read(), f"{name} has the token")
    t.daemon.pbx.respond(invite, 488, tag="pbx")
    return "no peer, log, journal or store has the token, at the call's start and inside the call"


@probe("T40.8", "token-keys")
def token_keys(t):
    server = with_login(t, "rotating")
    key, phone, bob = server.keys[0], secure(t), fresh("bob")
    token = key.token(bob)
    answer = register(phone, bob, token)
    check(answer and answer.status == 200, f"control: {answer}")
    asked = server.asked
    trap = t.own(LoginServer())
    trap.keys = [Key(t.daemon.folder, "trap")]
    for number in range(50):
        answer = register(phone, bob, key.token(bob, header={"alg": "RS256", "kid": f"no{number}"}))
        check(answer and answer.status in (401, 503), f"an unknown key: {answer}")
    check(server.asked <= asked + 1, f"50 tokens made {server.asked - asked} questions")
    end = threading.Event()
    before = t.daemon.memory()
    try:
        for what, lie in {
            "hangs": lambda: end.wait(20) and (200, "{}", []) or (200, "{}", []),
            "ten megabytes": lambda: (200, '{"keys": [' + " " * 10_000_000 + "]}", []),
            "a redirect": lambda: (302, "", [("Location", trap.url)]), "a page": lambda: (200, "<html>", []),
            "no keys": lambda: (200, '{"keys": []}', []), "an error": lambda: (500, "{}", []),
        }.items():
            server.answer = lie
            t.daemon.stop()
            t.daemon.launch()
            again = secure(t)
            answer = register(again, bob, token)
            check(answer and answer.status == 503 and answer.get("retry-after"), f"{what}: without keys {answer}")
    finally:
        end.set()
    check(trap.asked == 0, "the redirect was followed")
    check(t.daemon.memory() < before + 60_000, "the answers stay in memory")
    server.answer = server.usual
    fresh_key = Key(t.daemon.folder, "second")
    server.keys = [fresh_key]
    limit, answer = time.monotonic() + patience(60), None
    while time.monotonic() < limit and not (answer and answer.status == 200):
        answer = register(secure(t), bob, fresh_key.token(bob))
        check(answer and answer.status in (200, 503), f"while the keys come back: {answer}")
        time.sleep(0.5)
    check(answer and answer.status == 200, "the keys are back, and the phone does not register")
    refused(secure(t), bob, token, "a token of the withdrawn key")
    report = t.daemon.command("doctor").stdout
    check("second" in report, f"doctor does not name the key: {report[-800:]}")
    return "keys that hang or lie let nobody in, and a new key counts when it is there"
