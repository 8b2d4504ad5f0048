"""Probes of the threat T45: events reach the operator's receiver, nothing else, and none is lost."""

import base64
import hashlib
import hmac
import http.server
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time

from daemon import Daemon, QuietServer
from machine import patience
from sip import Message, fresh
from suite import check, probe

from .wake import call, pushed, sleeper

RECEIVER = os.path.join(os.path.dirname(__file__), "..", "..", "..", "docs", "examples", "event-receiver.py")
# The number of events in the probe of kills; etc/trust events-survive-kills with EVENTS=10000 sends the whole number.
EVENTS = int(os.environ.get("EVENTS", "400"))
KILLS = 10


def secret_file(t, name):
    """A file with a new secret, and the key in it."""
    path = os.path.join(t.suite.folder, name + ".secret")
    key = t.random.randbytes(32)
    with open(path, "w") as file:
        file.write("whsec_" + base64.b64encode(key).decode() + "\n")
    os.chmod(path, 0o600)
    return path, key


def settings(port, files, **more):
    values = {"url": f"http://127.0.0.1:{port}/events-PLANTED", "secret-files": "[" + ", ".join(files) + "]",
              "plain-http": True, "receivers": "[127.0.0.0/8]", "node": "trust"}
    return {"events": dict(values, **more)}


class Receiver:
    """A receiver in this process, with an answer that the probe chooses. It checks nothing by itself."""

    def __init__(self, port=0):
        receiver = self
        self.changed = threading.Condition()
        self.requests = []
        # Sends the answer to a request.
        self.answer = lambda handler: handler.plain(204)

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                with receiver.changed:
                    receiver.requests.append((self.path, dict(self.headers), body))
                    receiver.changed.notify_all()
                try:
                    receiver.answer(self)
                except OSError:
                    self.close_connection = True

            do_GET = do_POST

            def plain(self, status, fields=(), body=b""):
                self.send_response(status)
                for name, value in fields:
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *arguments):
                pass

        self.server = QuietServer(("127.0.0.1", port), Handler)
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def events(self):
        with self.changed:
            return [event for _, _, body in self.requests for event in json.loads(body)]

    def wait(self, wanted, timeout=10.0):
        """Whether the requests satisfy a condition in time."""
        limit = time.monotonic() + patience(timeout)
        with self.changed:
            while not wanted():
                if time.monotonic() >= limit:
                    return False
                self.changed.wait(min(0.1, max(0.0, limit - time.monotonic())))
        return True

    def has(self, kind, count=1, timeout=10.0):
        return self.wait(lambda: sum(event["type"] == "sippushd." + kind for event in self.events()) >= count, timeout)

    def close(self):
        self.server.shutdown()
        self.server.server_close()


class Example:
    """The example receiver of docs/Events.md, which prints each event once into a file."""

    def __init__(self, t, port, secrets, name):
        self.t, self.port, self.secrets = t, port, secrets
        self.out = os.path.join(t.suite.folder, name + ".out")
        self.state = os.path.join(t.suite.folder, name + ".state")
        self.process = None

    def start(self):
        words = [sys.executable, RECEIVER, "--port", str(self.port), "--state", self.state]
        for path in self.secrets:
            words += ["--secret-file", path]
        with open(self.out, "ab") as out:
            self.process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.PIPE)
        line = self.process.stderr.readline()
        check(b"listening" in line, f"control: the example receiver does not start: {line}")
        return self

    def events(self):
        try:
            with open(self.out, "rb") as file:
                # A line whose end is missing was cut off by a kill.
                return [json.loads(line) for line in file.read().split(b"\n")[:-1]]
        except FileNotFoundError:
            return []

    def wait(self, wanted, timeout=10.0):
        limit = time.monotonic() + patience(timeout)
        while time.monotonic() < limit:
            if wanted(self.events()):
                return True
            time.sleep(0.05)
        return False

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.process.stderr.close()

    def close(self):
        if self.process.poll() is None:
            self.kill()


def of_call(events, call_id):
    return [event["type"].removeprefix("sippushd.") for event in events if event["data"].get("callId") == call_id]


def given_up(t, name, caller):
    """Makes a call to a phone that sleeps, and cancels the call."""
    request = caller.make("INVITE", f"sip:{name}@example.net", "700")
    caller.send(request)
    check(caller.response(request.call_id, "INVITE", 6, final=False), "control: no 100 for the call")
    caller.send(caller.cancel(request))
    answer = caller.response(request.call_id, "INVITE", 6)
    check(answer and answer.status == 487, f"control: the cancelled call got {answer}")
    caller.send(caller.ack_failure(request, answer))
    return request


def signature(key, headers, body):
    signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
    return "v1," + base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()


@probe("T45.1", "events-tell-no-secret", alone=True)
def no_secret(t):
    """The example receiver gets the events of a call, of a device and of a dead token, and no event has a secret."""
    t.needs("events.url")
    path, _ = secret_file(t, "events-secret")
    receiver = t.own(Example(t, t.suite.free_port(), [path], "events-told").start())
    t.daemon = daemon = Daemon("events-told", t.suite, settings(receiver.port, [path])).start()
    try:
        phone, name, password, token = sleeper(t)
        caller, request = call(t, name)
        check(t.suite.provider.wait(token), "control: no push for the call")
        answer = phone.register(name, password, params=pushed(token))
        check(answer and answer.status == 200, f"control: the phone cannot register: {answer}")
        invite = phone.request("INVITE", request.call_id)
        phone.respond(invite, 200, tag="b")
        check(caller.response(request.call_id, "INVITE"), "control: the call was not answered")
        missed = given_up(t, name, caller)
        answer = phone.register(name, password, params=pushed(token), expires=0)
        check(answer and answer.status == 200, f"control: the phone cannot sign out: {answer}")
        dead = t.phone()
        other, other_password = t.registered(dead, params=pushed(dead_token := fresh("dead")))
        _, lost = call(t, other)
        check(receiver.wait(lambda events: sum(event["type"] == "sippushd.device.removed" for event in events) >= 2),
              f"the events were {receiver.events()}")
        check(receiver.wait(lambda events: len(of_call(events, lost.call_id)) == 2), "the call to a dead token has no end")
        events = receiver.events()
        check(of_call(events, request.call_id) == ["call.held", "call.woken", "call.answered"],
              f"the answered call had {of_call(events, request.call_id)}")
        check(of_call(events, missed.call_id) in (["call.held", "call.missed"], ["call.missed"]),
              f"the call given up had {of_call(events, missed.call_id)}")
        removals = [event["data"]["reason"] for event in events if event["type"] == "sippushd.device.removed"]
        check(sorted(removals) == ["signed-out", "token-dead"], f"the devices were removed because of {removals}")
        numbers = [int(event["id"]) for event in events]
        check(numbers == sorted(set(numbers)), "the numbers of the events do not rise")
        check(all(event["specversion"] == "1.0" and event["source"] == "/sippushd/trust" for event in events),
              f"an event is no CloudEvent: {events}")
        text = json.dumps(events)
        for word in (token, dead_token, password, other_password, "PLANTED"):
            check(word not in text, f"an event has the secret {word}: {text}")
        stored = b"".join(open(os.path.join(folder, file), "rb").read()
                          for folder, _, files in os.walk(os.path.join(daemon.folder, "sippushd.db-events")) for file in files)
        check(token.encode() not in stored and password.encode() not in stored, "the log of events has a secret")
        with open(path) as file:
            check(file.read().strip()[6:] not in daemon.log() and "events-PLANTED" not in daemon.log(),
                  "the log has the secret of the receiver, or the path of its URL")
    finally:
        daemon.stop()
    return f"{len(events)} events of two calls, two devices and a dead token: in order, signed, and without tokens, passwords and secrets"


@probe("T45.2", "events-cannot-be-forged", alone=True)
def forged(t):
    """The example receiver refuses forged, changed, old and unsigned requests, and takes a replayed request only once."""
    path, key = secret_file(t, "events-forged")
    receiver = t.own(Example(t, t.suite.free_port(), [path], "events-forged").start())
    body = json.dumps([{"specversion": "1.0", "id": "5", "source": "/sippushd/x", "type": "sippushd.call.missed", "data": {}}]).encode()

    def post(sign=key, stamp=None, sent=body, signed=body, drop=()):
        headers = {"webhook-id": "5-5", "webhook-timestamp": str(stamp or int(time.time())), "Content-Length": str(len(sent))}
        headers["webhook-signature"] = signature(sign, headers, signed)
        for name in drop:
            del headers[name]
        text = "POST / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n" + "".join(f"{a}: {b}\r\n" for a, b in headers.items()) + "\r\n"
        with socket.create_connection(("127.0.0.1", receiver.port), patience(5)) as connection:
            connection.sendall(text.encode() + sent)
            return int(connection.makefile("rb").readline().split()[1])

    now = int(time.time())
    check(post(sign=bytes(32)) == 401, "a request with another secret was taken")
    check(post(sent=body.replace(b"missed", b"forged")) == 401, "a changed request was taken")
    check(post(stamp=now - 3600) == 401, "an old request was taken")
    check(post(stamp=now + 3600) == 401, "a request from the future was taken")
    check(post(drop=["webhook-signature"]) == 401, "a request without a signature was taken")
    check(post(drop=["webhook-timestamp"]) == 401, "a request without a time was taken")
    check(not receiver.events(), f"a forged request was printed: {receiver.events()}")
    check(post() == 204 and post() == 204, "control: the right request was refused")
    check(len(receiver.events()) == 1, f"a replayed request was printed again: {receiver.events()}")
    return "six forged requests get 401, and a replay is printed once"


@probe("T45.3", "events-secret-rotates", alone=True)
def rotates(t):
    """The secret changes without a gap: with two secrets, each request has a signature for each."""
    t.needs("events.secret-files")
    (old, old_key), (new, new_key) = secret_file(t, "events-old"), secret_file(t, "events-new")
    receiver = t.own(Receiver())
    t.daemon = daemon = Daemon("events-rotate", t.suite, settings(receiver.port, [old])).start()
    try:
        def signatures(count):
            t.registered(t.phone(), params=pushed(fresh("token")))
            check(receiver.has("device.registered", count), "the event did not arrive")
            _, headers, body = receiver.requests[-1]
            return headers["webhook-signature"].split(" "), signature(old_key, headers, body), signature(new_key, headers, body)

        def reload(files):
            daemon.values = settings(receiver.port, files)
            daemon.write_settings()
            lines = daemon.log().count("settings reloaded")
            daemon.process.send_signal(signal.SIGHUP)
            limit = time.monotonic() + patience(10)
            while daemon.log().count("settings reloaded") == lines and time.monotonic() < limit:
                time.sleep(0.05)
            check(daemon.log().count("settings reloaded") > lines, "control: no reload")

        shown, first, second = signatures(1)
        check(shown == [first], f"one secret, but {shown}")
        reload([old, new])
        shown, first, second = signatures(2)
        check(shown == [first, second], f"two secrets, but {shown}")
        reload([new])
        shown, first, second = signatures(3)
        check(shown == [second], f"the new secret alone, but {shown}")
        # A secret that cannot be used leaves the earlier secret in use.
        with open(new, "w") as file:
            file.write("whsec_short")
        reload([new])
        check("the settings of events were not applied" in daemon.log(), "the useless secret leaves no line")
        shown, first, second = signatures(4)
        check(shown == [second], "a useless secret replaced the earlier one")
    finally:
        daemon.stop()
    return "one signature, then both, then the new one; a useless file changes nothing"


@probe("T45.4", "events-go-nowhere-else", alone=True)
def nowhere_else(t):
    """A receiver that redirects inside, answers 10 MB, is slow or is one of our own listeners, costs calls nothing."""
    t.needs("events.url")
    path, _ = secret_file(t, "events-else")
    inside = t.own(Receiver())
    receiver = t.own(Receiver())
    receiver.answer = lambda handler: handler.plain(302, [("Location", f"http://127.0.0.1:{inside.port}/inside")])
    t.daemon = daemon = Daemon("events-else", t.suite, settings(receiver.port, [path])).start()
    try:
        phone, name, password, token = sleeper(t)
        caller = t.phone(trusted=True)
        check(receiver.wait(lambda: receiver.requests), "control: no request")

        def wait_for(reason):
            limit = time.monotonic() + patience(10)
            while daemon.metric("sippushd_events_failed_requests_total") < reason and time.monotonic() < limit:
                time.sleep(0.1)
            return daemon.metric("sippushd_events_failed_requests_total") >= reason

        check(wait_for(1), "the redirect did not count as a failure")
        check(not inside.requests, f"the daemon followed a redirect: {inside.requests}")
        check("follows no redirects" in daemon.log(), "the redirect leaves no line")
        endless = b"x" * (10 << 20)
        receiver.answer = lambda handler: handler.plain(200, body=endless)
        seen = daemon.metric("sippushd_events_failed_requests_total")
        before = daemon.memory()
        check(wait_for(seen + 1), "the answer of 10 MB did not count as a failure")
        check(daemon.memory() - before < 8192, "the daemon read the answer of 10 MB")
        # The receiver accepts the request and says nothing, and meanwhile calls go on.
        release = threading.Event()
        receiver.answer = lambda handler: (release.wait(patience(20)), handler.plain(204))
        begin = time.monotonic()
        given_up(t, name, caller)
        check(time.monotonic() - begin < patience(3), "a slow receiver delayed a call")
        receiver.answer = lambda handler: handler.plain(204)
        release.set()
        check(receiver.has("call.missed", 1, 40), "the events did not arrive after the troubles")

        # Our own listeners get no event.
        for place in (daemon.api_port, daemon.admin_port, daemon.port):
            daemon.values = settings(place, [path])
            daemon.write_settings()
            lines = daemon.log().count("settings reloaded")
            daemon.process.send_signal(signal.SIGHUP)
            limit = time.monotonic() + patience(10)
            while daemon.log().count("settings reloaded") == lines and time.monotonic() < limit:
                time.sleep(0.05)
            served = daemon.metric("sippushd_http_requests_total")
            seen = daemon.metric("sippushd_events_failed_requests_total")
            given_up(t, name, caller)
            check(wait_for(seen + 1), f"events to our own port {place} did not fail")
            check("/events-PLANTED" not in daemon.log(), "a listener of the daemon got its own events")
        check(daemon.metric("sippushd_events_dropped_total") == 0, "events were dropped")
    finally:
        daemon.stop()
    return "no redirect was followed, 10 MB were not read, a silent receiver delays no call, and our own listeners get nothing"


@probe("T45.5", "events-wait-for-the-receiver", alone=True)
def waits(t):
    """The receiver is away over a restart: the events wait on the disk."""
    t.needs("events.url")
    path, _ = secret_file(t, "events-away")
    port = t.suite.free_port()
    t.daemon = daemon = Daemon("events-away", t.suite, settings(port, [path])).start()
    try:
        phone, name, password, token = sleeper(t)
        caller = t.phone(trusted=True)
        requests = [given_up(t, name, caller) for _ in range(20)]
        check(daemon.metric("sippushd_events_waiting") >= 40, "the events do not wait")
        check("the receiver of events does not accept them" in daemon.log(), "the absence of the receiver leaves no line")
        daemon.stop()
        daemon.launch()
        check(daemon.metric("sippushd_events_waiting") >= 40, "a restart lost the events")
        receiver = t.own(Receiver(port))
        check(receiver.wait(lambda: all(len(of_call(receiver.events(), one.call_id)) >= 2 for one in requests), 30),
              f"the receiver got {len(receiver.events())} events")
        check(daemon.metric("sippushd_events_waiting") == 0, "delivered events still wait")
        check(all(len(json.loads(body)) <= 256 and len(body) <= 300_000 for _, _, body in receiver.requests), "a request is too large")
        names = os.listdir(os.path.join(daemon.folder, "sippushd.db-events"))
        check(len([one for one in names if one.endswith(".events")]) <= 1, f"delivered files stay: {names}")
    finally:
        daemon.stop()
    return "40 events wait over a restart, and arrive when the receiver is back"


@probe("T45.6", "events-storm-leaves-room", alone=True)
def storm(t):
    """One user's storm of registrations fills the log while the receiver is away; the events of others keep their place."""
    t.needs("events.max-size")
    path, _ = secret_file(t, "events-storm")
    port = t.suite.free_port()
    t.daemon = daemon = Daemon("events-storm", t.suite, {**settings(port, [path], **{"max-size": 1}), "auth": "off"}).start()
    try:
        quiet = t.phone()
        first = fresh("quiet")
        check(quiet.register(first, params=pushed(fresh("token"))).status == 200, "control: no 200")
        loud = t.stream()
        user = fresh("loud")
        raws, count = [], 0
        # Each pair of REGISTERs adds and removes a device.
        limit = time.monotonic() + patience(90)
        while daemon.metric("sippushd_events_dropped_total", reason="share") < 200 and time.monotonic() < limit:
            for _ in range(250):
                token = fresh("token")
                for expires in (600, 0):
                    contact = f"<sip:{user}@{loud.local()};transport=tcp{pushed(token)}>"
                    request = loud.make("REGISTER", "sip:example.net", user, to=f"sip:{user}@example.net", contact=contact)
                    request.add("Expires", str(expires))
                    loud.send(request)
                    check(loud.response(request.call_id, "REGISTER", 10), "control: no response to a REGISTER")
                count += 2
        check(daemon.metric("sippushd_events_dropped_total", reason="share") >= 200, f"{count} events of one user were all kept")
        check(daemon.metric("sippushd_events_dropped_total", reason="full") == 0, "the storm displaced events of others")
        check("fill their share of the event log" in daemon.log(), "the loss leaves no line")
        last = fresh("quiet")
        check(quiet.register(last, params=pushed(fresh("token"))).status == 200, "control: no 200")
        receiver = t.own(Receiver(port))
        check(receiver.wait(lambda: {f"{first}@example.net", f"{last}@example.net"} <= {
            event.get("subject") for event in receiver.events()}, 60), "the events of the others did not arrive")
        check(receiver.has("events.dropped", 1, 30), "the receiver was not told of the loss")
        told = [event["data"] for event in receiver.events() if event["type"] == "sippushd.events.dropped"]
        check(all(one["reason"] == "share" and one["count"] > 0 for one in told), f"the losses were {told}")
    finally:
        daemon.stop()
    return f"{count} events of one user: the others' first and last events arrive, and the receiver hears of the loss"


@probe("T45.7", "events-survive-kills", alone=True)
def kills(t):
    """The receiver is killed ten times, and the daemon three times, while events come: each event arrives, in order for each
    call. EVENTS=10000 sends the whole number."""
    t.needs("events.url")
    path, _ = secret_file(t, "events-kills")
    receiver = t.own(Example(t, t.suite.free_port(), [path], "events-kills").start())
    t.daemon = daemon = Daemon("events-kills", t.suite, {
        **settings(receiver.port, [path]), "log": {"level": "info"}, "call": {"ring-timeout": "4s"}}).start()
    begun = []
    try:
        phone, name, password, token = sleeper(t)
        caller = t.phone(trusted=True)
        calls = EVENTS // 2
        for number in range(calls):
            if number % max(1, calls // KILLS) == calls // KILLS // 2:
                receiver.kill()
                receiver.start()
            kills_daemon = number % (calls // 3) == calls // 6
            request = caller.make("INVITE", f"sip:{name}@example.net", "700")
            caller.send(request)
            check(caller.response(request.call_id, "INVITE", 6, final=False), f"control: no 100 for call {number}")
            begun.append(request.call_id)
            if kills_daemon:
                # The daemon is killed right after its 100, so the call has an event of which the daemon itself knows no more.
                daemon.kill()
                daemon.launch()
            caller.send(caller.cancel(request))
            answer = caller.response(request.call_id, "INVITE", 8)
            check(answer, f"control: call {number} got no final response")
            caller.send(caller.ack_failure(request, answer))
        ended = ("call.missed", "call.refused")

        def is_whole(events):
            told = {}
            for event in events:
                told.setdefault(event["data"].get("callId"), []).append(event["type"].removeprefix("sippushd."))
            return all(told.get(one, [])[:1] == ["call.held"] and told[one][-1] in ended for one in begun)

        whole = receiver.wait(is_whole, 60)
        events = receiver.events()
        broken = [(one, of_call(events, one)) for one in begun if not is_whole(
            [event for event in events if event["data"].get("callId") == one]) and of_call(events, one)[:2] != ["call.held", "call.missed"]]
        check(whole, f"{len(broken)} of {calls} calls lack events: {broken[:5]}")
        check(daemon.metric("sippushd_events_dropped_total") == 0, "events were dropped")
        numbers = [int(event["id"]) for event in events]
        check(numbers == sorted(numbers), "the numbers do not rise")
    finally:
        daemon.stop()
    return f"{len(events)} events of {calls} calls, {KILLS} kills of the receiver and 3 of the daemon: none lost, each call in order"
