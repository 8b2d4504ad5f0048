"""Probes of the threat T47: push services that answer in their own words, and pushes that wake phones before their expiry."""

import http.server
import json
import threading
import time
import urllib.parse

from daemon import Daemon, QuietServer
from machine import patience
from sip import fresh
from suite import check, probe

SERVICE_TOKEN = "rustore-service-PLANTED-token"
SECRET = "hms-client-PLANTED-secret"
ACCESS = "hms-access-PLANTED-token"
APP = "100123456"


class Services:
    """Plays RuStore and Huawei. A part of the push token decides the answer: `gone`, `echo`, or else success."""

    def __init__(self):
        services = self
        self.changed = threading.Condition()
        self.requests = []
        self.grants = 0
        # Whether the services refuse the daemon's credentials.
        self.refuses = False

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                status, answer = services.answer(self.path, body, self.headers.get("Authorization", ""))
                text = json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                try:
                    self.wfile.write(text)
                except OSError:
                    pass

            def log_message(self, *arguments):
                pass

        self.server = QuietServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def answer(self, path, body, authorization):
        if path == "/oauth2/v3/token":
            with self.changed:
                self.grants += 1
                self.changed.notify_all()
            if self.refuses:
                return 400, {"error": 1101, "error_description": f"the client secret {SECRET} is wrong"}
            return 200, {"access_token": ACCESS, "expires_in": 3600, "token_type": "Bearer"}
        push = json.loads(body)
        with self.changed:
            self.requests.append((path, push, authorization))
            self.changed.notify_all()
        message = push["message"]
        if path.startswith("/v1/projects/"):
            if self.refuses:
                return 403, {"error": {"status": "PERMISSION_DENIED", "message": f"{authorization} is not the service token"}}
            if "gone" in message["token"]:
                return 404, {"error": {"status": "NOT_FOUND"}}
            if "echo" in message["token"]:
                return 400, {"error": {"status": "INVALID_ARGUMENT", "message": f"{authorization} for {message['token']}"}}
            return 200, {}
        token = message["token"][0]
        if "gone" in token:
            return 200, {"code": "80300007", "msg": "All tokens are invalid"}
        if "echo" in token:
            return 400, {"code": "80100003", "msg": f"{authorization} for {token}"}
        return 200, {"code": "80000000", "msg": "Success", "requestId": "1"}

    def messages(self, provider):
        """The messages that reached a service, with their tokens as text."""
        with self.changed:
            found = [(path, push["message"]) for path, push, _ in self.requests]
        return [message for path, message in found if path.startswith("/v1/projects/") == (provider == "rustore")]

    def token(self, message):
        return message["token"] if isinstance(message["token"], str) else message["token"][0]

    def data(self, message):
        return message["data"] if isinstance(message["data"], dict) else json.loads(message["data"])

    def wait(self, provider, token, count=1, timeout=8):
        """Returns the messages for the token, when `count` have arrived."""
        limit = time.monotonic() + patience(timeout)
        while True:
            found = [one for one in self.messages(provider) if self.token(one) == token]
            if len(found) >= count or time.monotonic() > limit:
                return found
            with self.changed:
                self.changed.wait(0.1)

    def close(self):
        self.server.shutdown()


PARAMS = {"rustore": "shop", "hms": APP}


def with_services(t, name, more=None, refuses=False):
    """Makes a daemon whose apps use RuStore and Huawei. `refuses` lets the services refuse the daemon's credentials."""
    t.needs("push.rustore.service-token", "push.hms.client-secret")
    services = t.own(Services())
    services.refuses = refuses
    daemon = Daemon(name, t.suite, {
        "push": {
            "rustore": {"enabled": True, "project-id": "shop", "service-token": SERVICE_TOKEN, "endpoint": services.url},
            "hms": {"enabled": True, "app-id": APP, "client-secret": SECRET, "endpoint": services.url,
                    "token-endpoint": services.url + "/oauth2/v3/token"},
        }, "call": {"ring-timeout": "5s"}, **(more or {})})
    t.daemon = t.suite.daemons[name] = daemon
    daemon.start()
    return services


def params(provider, token):
    return f";pn-provider={provider};pn-param={PARAMS[provider]};pn-prid={urllib.parse.quote(token, safe='')}"


def call(t, name, call_id=None):
    """The PBX calls the user. Returns the PBX's phone and the request."""
    caller = t.phone(trusted=True)
    request = caller.make("INVITE", f"sip:{name}@example.net", "700", call_id=call_id)
    caller.send(request)
    return caller, request


@probe("T47.1", "push-services-tell-no-secrets")
def secrets(t):
    """RuStore and Huawei repeat credentials and push tokens in their answers."""
    services = with_services(t, "services-secrets")
    tokens = {provider: fresh("echo-token-PLANTED-") for provider in PARAMS}
    for provider, token in tokens.items():
        name, _ = t.registered(t.phone(), params=params(provider, token))
        call(t, name)
        check(services.wait(provider, token), f"{provider} got no push")
    # A refused client secret is repeated as well.
    services.refuses = True
    t.daemon.stop()
    t.daemon.launch()
    name, _ = t.registered(t.phone(), params=params("hms", fresh("echo-later-")))
    call(t, name)
    time.sleep(1)
    texts = {"the log": t.daemon.log(), "provider list": t.daemon.command("provider", "list").stdout,
             "provider list as JSON": t.daemon.command("provider", "list", "--json").stdout,
             "the metrics": t.daemon.command("metrics").stdout, "the providers' route": t.daemon.admin("GET", "/v1/providers")[1]}
    for provider in PARAMS:
        texts[f"push test {provider}"] = t.daemon.admin(
            "POST", "/v1/push-tests", {"provider": provider, "param": PARAMS[provider], "token": tokens[provider]})[1]
    for where, text in texts.items():
        for secret in (SERVICE_TOKEN, SECRET, ACCESS, *tokens.values()):
            check(secret not in text, f"{where} has {secret}: {text[max(0, text.find(secret) - 200):][:400]}")
    return f"{len(texts)} outputs without credentials and push tokens"


@probe("T47.2", "hostile-push-token-stays-in-its-string")
def hostile(t):
    """Push tokens with quotes, braces and backslashes, and push tokens that no push service issues."""
    services = with_services(t, "services-hostile")
    token = 'a"],"x":{"y":1},"z\\' + fresh("t")
    for provider in PARAMS:
        name, _ = t.registered(t.phone(), params=params(provider, token))
        call(t, name)
        found = services.wait(provider, token)
        check(found, f"{provider} got no push whose token is the registered one")
        check(set(found[0]) <= {"token", "data", "android"}, f"the token made other members: {found[0]}")
        for bad in ("a b", "a\r\nX: y", "a\0b", "é", "x" * 2000):
            answer = t.phone().register(*t.daemon.user(), params=params(provider, bad))
            check(answer and answer.status != 200, f"{provider} took {bad[:20]!r}: {answer}")
        wrong = t.phone().register(
            *t.daemon.user(), params=f";pn-provider={provider};pn-param=other%2F..%2Fx;pn-prid=t")
        check(wrong and wrong.status == 555, f"{provider} took another app: {wrong}")
    return "two services got the token as one string, and twelve other tokens got no 200"


@probe("T47.3", "dead-token-of-a-push-service")
def dead(t):
    """A push token that the service no longer knows ends its contact, but Huawei's first answer of this kind does not."""
    services = with_services(t, "services-dead")
    early, late = fresh("gone-early"), fresh("gone-late")
    name, _ = t.registered(t.phone(), params=params("hms", early))
    call(t, name)
    check(services.wait("hms", early), "control: no push")
    time.sleep(0.5)
    check(t.daemon.metric("sippushd_tokens_dropped_total") == 0, "a first refusal of Huawei ended a contact")
    good = fresh("good")
    name, _ = t.registered(t.phone(), params=params("hms", good))
    call(t, name)
    check(services.wait("hms", good), "control: no push")
    for count, (provider, token) in enumerate((("hms", late), ("rustore", fresh("gone"))), 1):
        name, _ = t.registered(t.phone(), params=params(provider, token))
        caller, request = call(t, name)
        answer = caller.response(request.call_id, "INVITE", 4)
        check(answer and answer.status in (404, 480), f"the call for the dead token got {answer}")
        check(t.daemon.metric("sippushd_tokens_dropped_total") == count, f"the contact of {provider} is still there")
        caller, request = call(t, name)
        answer = caller.response(request.call_id, "INVITE", 4)
        check(answer and answer.status in (404, 480), f"the next call got {answer}")
        check(len(services.wait(provider, token, 2, timeout=1)) == 1, "a dead token got a second push")
    return "two contacts ended at the answer, and one stayed"


@probe("T47.4", "wrong-credentials-raise-one-alarm")
def alarm(t):
    """Thirty calls while the services refuse the daemon's credentials."""
    services = with_services(t, "services-alarm", {"log": {"level": "notice"}}, refuses=True)
    for provider in PARAMS:
        name, _ = t.registered(t.phone(), params=params(provider, fresh("token")))
        for _ in range(15):
            call(t, name)
    time.sleep(2)
    check(services.grants == 1, f"the token service was asked {services.grants} times")
    lines = [line for line in t.daemon.log().splitlines() if " error " in line or " warning " in line]
    for word in ("provider=hms", "provider=rustore"):
        found = [line for line in lines if word in line]
        check(1 <= len(found) <= 2, f"{len(found)} lines with {word}: {found[:3]}")
    check(t.daemon.metric("sippushd_tokens_dropped_total") == 0, "wrong credentials ended a contact")
    return "one question to the token service, and an alarm for each provider"


@probe("T47.5", "callers-call-id-prevents-no-push")
def call_ids(t):
    """Call-IDs that are very long, or consist of characters that JSON escapes."""
    services = with_services(t, "services-call-ids", {"call": {"ring-timeout": "5s", "pushes-per-caller": 0}})
    tried = {"long": "x" * 3000, "quotes": '"' * 400 + fresh("q"), "backslashes": "\\" * 400 + fresh("b"), "usual": fresh("c")}
    for provider in PARAMS:
        for kind, call_id in tried.items():
            token = fresh("token")
            name, _ = t.registered(t.phone(), params=params(provider, token))
            call(t, name, call_id=call_id + provider)
            found = services.wait(provider, token)
            check(found, f"{provider} got no push for the Call-ID {kind}")
            data = services.data(found[0])
            check(data["type"] == "invite" and abs(int(data["sent"]) - time.time()) < 60, f"the push is {data}")
            check(data.get("call_id") in (None, call_id + provider), f"a part of the Call-ID {kind}: {data}")
            check(kind == "long" or "call_id" in data, f"the Call-ID {kind} is left out")
    return "eight pushes, each with its time, and with the whole Call-ID or none"
