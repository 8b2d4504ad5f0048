"""T31: the lists of missed calls that a phone gets."""

import socket
import threading
import time

from suite import check, probe

from .wake import call, pushed, sleeper
from .web import app, register_device


def kinds(t, token):
    return [push.get("data", {}).get("type") for push in t.suite.provider.of(token)]


def given_up(t, name, token, count=1):
    """Makes a call, waits for its push to the phone, and cancels the call."""
    caller, request = call(t, name)
    check(t.suite.provider.wait(token, count), "control: no push for the call")
    caller.send(caller.cancel(request))
    check(caller.response(request.call_id, "INVITE", 3), "control: no 487")
    return request


@probe("T31.1", "list-beside-a-late-invite", "narrow")
def list_beside(t):
    """With push.fcm.after-end invite-cancel and ECSS-10's payload, the phone also gets the list of missed calls (R22)."""
    t.needs("push.fcm.after-end", "missed-calls.after-late-invite")
    for answers in (False, True):
        old, name, password, token = sleeper(t)
        request = given_up(t, name, token)
        new = t.phone()
        answer = new.register(name, password, params=pushed(token))
        check(answer and answer.status == 200, f"control: {answer}")
        invite = new.request("INVITE", request.call_id, 3)
        check(invite, "control: no late INVITE")
        if answers:
            new.respond(invite, 180, tag="b")
            cancel = new.request("CANCEL", request.call_id, 3)
            check(cancel, "control: the late INVITE was not cancelled")
            new.respond(cancel, 200)
            new.respond(invite, 487, tag="b")
        check(t.suite.provider.wait(token, 2, 3), f"no list of missed calls beside the late INVITE; the phone {'answers' if answers else 'ignores'} it")
        lists = [push["data"]["calls"] for push in t.suite.provider.of(token) if push.get("data", {}).get("type") == "missed_calls"]
        check(len(lists) == 1 and len(lists[0]) == 1, f"the lists were {lists}")
        # The provider has accepted the list, so the daemon does not report the call again.
        again = t.phone()
        answer = again.register(name, password, params=pushed(token))
        check(answer and answer.status == 200, f"control: {answer}")
        check(not t.suite.provider.wait(token, 3, 0.7), f"the pushes were {kinds(t, token)}")
    return "a phone that comes too late has the list with the call at once, whether it answers the late INVITE or says nothing; once"


@probe("T31.2", "end-while-push-is-under-way", "open")
def under_way(t):
    """With push.fcm.after-end push, the caller cancels before the provider has answered."""
    t.needs("push.fcm.after-end")
    old, name, password, token = sleeper(t, t.stream())
    old.close()
    held = t.suite.provider.hold(token)
    request = given_up(t, name, token)
    check(not t.suite.provider.wait(token, 2, 0.5), "the phone was told before anybody knew that it had been called")
    held.set()
    check(t.suite.provider.wait(token, 2, 3), "the provider took the push after the call's end, and the phone was not told of that end")
    check(kinds(t, token) == ["invite", "call_ended"], f"the pushes were {kinds(t, token)}")
    limit = time.monotonic() + 5
    while True:
        told = t.daemon.command("explain", request.call_id).stdout
        if "accepted the push" in told or time.monotonic() > limit:
            break
    check("accepted the push" in told, f"explain does not know that the provider took the push: {told}")
    return "the provider's answer comes after the caller has given up: it is on record, and the phone is told of the end, once"


class Closer:
    """Answers one request on each connection, keeps the connection, and closes it at the next request."""

    def __init__(self, host):
        self.socket = socket.create_server((host, 0))
        self.host, self.port = self.socket.getsockname()
        self.requests, self.unanswered = [], 0
        self.changed = threading.Condition()
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                connection, _ = self.socket.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(connection,), daemon=True).start()

    def serve(self, connection):
        with connection, connection.makefile("rb") as stream:
            for number in range(2):
                line, length = stream.readline(), 0
                if not line:
                    return
                while (field := stream.readline().strip()):
                    name, _, value = field.partition(b":")
                    if name.lower() == b"content-length":
                        length = int(value)
                stream.read(length)
                with self.changed:
                    self.requests.append(line.split()[1].decode())
                    self.unanswered += number
                    self.changed.notify_all()
                if number == 0:
                    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")

    def wait(self, count, timeout=6.0):
        with self.changed:
            return self.changed.wait_for(lambda: len(self.requests) >= count, timeout)

    def close(self):
        self.socket.close()


@probe("T31.3", "webhook-once", "digest")
def webhook_once(t):
    """A receiver closes a kept connection without answering the webhook on it."""
    receiver = t.own(Closer("127.3.0.4"))
    identifier, token = app(t)
    for number in range(1, 7):
        status = register_device(t, identifier, token, "100", f"http://{receiver.host}:{receiver.port}/{number}")
        check(status == 202, f"control: {status}")
        check(receiver.wait(number), f"webhook {number} did not come: {receiver.requests}")
    check(not receiver.wait(7, 0.7), f"the receiver got {receiver.requests}")
    check(receiver.requests == [f"/{number}" for number in range(1, 7)], f"the receiver got {receiver.requests}")
    check(receiver.unanswered >= 2, "control: no connection was used twice")
    return f"6 webhooks, {receiver.unanswered} of them over a kept connection that was closed unanswered: each came once"
