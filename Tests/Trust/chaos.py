"""Random faults from outside: callers, phones and a provider on loopback, and a daemon that is killed again and again.

All simulated phones and callers run in one thread with one event loop. Phones, callers and the provider record all that
the daemon acknowledged: a 200 to a REGISTER, an accepted push, a final response. At the end, the simulated parties check
that no acknowledged fact was lost or doubled."""

import collections
import contextlib
import http.client
import json
import os
import random
import select
import socket
import sqlite3
import ssl
import threading
import time

import edge
from loop import Loop
from sip import Message, fresh

RING_TIMEOUT = 5.0
T1, T2 = 0.5, 4.0
# The interval of OPTIONS requests, whose answers show how far the daemon has read its sockets.
TICK = 0.02
# The page cache of the daemon's store, in KiB.
STORE_CACHE = 16384


class Datagrams:
    transport = "UDP"

    def __init__(self, world, host, owner):
        self.world, self.owner = world, owner
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
        self.socket.bind((host, 0))
        self.socket.setblocking(False)
        self.host, self.port = self.socket.getsockname()
        self.isOpen = True
        world.loop.watch(self.socket, self.readable)

    def readable(self, _):
        while True:
            try:
                raw, _ = self.socket.recvfrom(65536)
            except OSError:
                return
            if raw.strip(b"\r\n\0"):
                self.owner.received(Message(raw))

    def is_there(self):
        return True

    def send(self, text):
        try:
            self.socket.sendto(text.encode(), self.world.daemon.address)
        except OSError:
            pass


class Run:
    """One run of the daemon: the time of its first answer, and the time until which it has handled all input."""

    def __init__(self, begin=None):
        self.begin, self.reached = begin, None

    def heard(self, instant):
        return self.begin is not None and self.reached is not None and self.begin <= instant <= self.reached


class Ticks:
    """Sends the daemon one OPTIONS after the other. After two answered OPTIONS, the daemon has read all that arrived
    before the first of them. The proof by two OPTIONS works without a clock, even if the daemon is slow."""

    transport = "UDP"

    def __init__(self, world, host):
        self.world, self.sent, self.before = world, None, None
        self.way = Datagrams(world, host, self)
        self.next()

    def next(self, attempt=0):
        if attempt:
            self.before = None
        self.id, self.sent = fresh("tick"), time.monotonic()
        self.way.send(request("OPTIONS", "sip:example.net", self.way, fresh("z9hG4bK"), "pbx", "sip:example.net", self.id, 1, "f"))
        self.world.loop.at(1.0, lambda asked=self.id: asked == self.id and self.next(attempt + 1))

    def received(self, message):
        if message.call_id != self.id:
            return
        run = self.world.runs[-1]
        if run.begin is None:
            run.begin = time.monotonic()
        if self.before is not None:
            run.reached = self.before
        self.before, self.id = self.sent, None
        self.world.loop.at(TICK, self.next)

    def killed(self):
        """An answer from a killed daemon proves nothing about its next run."""
        self.before, self.id = None, None


class Connection:
    """One TCP connection to the daemon, which notifies its owner of its end."""

    transport = "TCP"

    def __init__(self, world, host, owner):
        self.world, self.owner = world, owner
        self.rest, self.isOpen, self.host, self.port = b"", False, host, 0
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.settimeout(1)
        self.socket.bind((host, 0))
        try:
            self.open()
        except OSError:
            self.socket.close()
            return
        self.socket.setblocking(False)
        self.host, self.port = self.socket.getsockname()
        self.isOpen = True
        world.loop.watch(self.socket, self.readable)

    def open(self):
        self.socket.connect(self.world.daemon.address)

    def read(self):
        """The bytes that have arrived; `None` if none wait; empty at the end."""
        try:
            return self.socket.recv(65536)
        except BlockingIOError:
            return None
        except OSError:
            return b""

    def readable(self, _):
        some = self.read()
        if some is None:
            return
        if not some:
            return self.close(True)
        self.rest += some
        while True:
            self.rest = self.rest.lstrip(b"\r\n")
            head, mark, body = self.rest.partition(b"\r\n\r\n")
            if not mark:
                return
            message = Message(head + mark)
            length = int(message.get("content-length") or 0)
            if len(body) < length:
                return
            self.rest = body[length:]
            self.owner.received(message)

    def is_there(self):
        """Whether the daemon still has the connection open, even if the owner has not noticed its end."""
        try:
            return socket.socket.recv(self.socket, 1, socket.MSG_PEEK | socket.MSG_DONTWAIT) != b""
        except BlockingIOError:
            return True
        except OSError:
            return False

    def send(self, text):
        if not self.isOpen:
            return
        try:
            self.socket.sendall(text.encode())
        except OSError:
            self.close(True)

    def close(self, tell=False):
        if not self.isOpen:
            return
        self.isOpen = False
        self.world.loop.forget(self.socket)
        self.socket.close()
        if tell:
            self.owner.ended()


class SecureConnection(Connection):
    """A TLS connection to the daemon, with the owner's certificate if it has one."""

    transport = "TLS"

    def open(self):
        self.socket.connect((self.world.daemon.host, self.world.daemon.tls_port))
        self.socket = self.world.context(self.owner).wrap_socket(self.socket, server_hostname="sip.example.net")

    def read(self):
        whole = b""
        while True:
            try:
                some = self.socket.recv(65536)
            except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
                return whole or None
            except OSError:
                some = b""
            if not some:
                # The next read also finds the end of the connection.
                return whole
            whole += some

    def send(self, text):
        data = text.encode()
        while data and self.isOpen:
            try:
                data = data[self.socket.send(data):]
            except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
                select.select([], [self.socket], [], 0.1)
            except OSError:
                self.close(True)


def connect(world, owner):
    """Opens a connection for a party that does not use datagrams."""
    return (SecureConnection if owner.transport == "TLS" else Connection)(world, owner.host, owner)


def request(method, uri, way, branch, user, to, call_id, cseq, from_tag, to_tag=None, more=""):
    to = f"<{to}>" + (f";tag={to_tag}" if to_tag else "")
    return (f"{method} {uri} SIP/2.0\r\nVia: SIP/2.0/{way.transport} {way.host}:{way.port};branch={branch};rport\r\n"
            f"Max-Forwards: 70\r\nFrom: <sip:{user}@example.net>;tag={from_tag}\r\nTo: {to}\r\nCall-ID: {call_id}\r\n"
            f"CSeq: {cseq} {method}\r\n{more}Content-Length: 0\r\n\r\n")


def answer(message, status, tag, more=""):
    text = f"SIP/2.0 {status} Whatever\r\n"
    for name, value in message.fields:
        if name in ("via", "from", "call-id", "cseq", "record-route"):
            text += f"{name}: {value}\r\n"
        if name == "to":
            text += f"To: {value}" + ("" if "tag=" in value else f";tag={tag}") + "\r\n"
    return text + more + "Content-Length: 0\r\n\r\n"


class Call:
    """A call as its caller sees it, with a history of its events."""

    def tell(self, line):
        self.story.append(f"{time.monotonic() - self.begun:.3f} {line}")

    def __init__(self, world, caller, user, kind):
        self.world, self.caller, self.user, self.kind = world, caller, user, kind
        self.id, self.branch, self.tag = fresh("chaos"), fresh("z9hG4bK"), fresh("f")
        self.begun = time.monotonic()
        self.provisional, self.finals, self.cancelled, self.cancel_done = False, [], False, False
        self.pushes, self.story = [], []
        self.invited = set()
        # The Via branches of the INVITEs that phones got before the call's end. The daemon repeats an INVITE until a phone
        # answers, because the phone may have crashed.
        self.branches = set()
        self.way = None

    @property
    def over(self):
        return bool(self.finals)

    def send(self, attempt=0):
        if self.provisional or self.over:
            return
        self.way = self.caller.way()
        if self.way:
            self.via = self.way
            self.way.send(self.text("INVITE", 1, f"Contact: <sip:pbx@{self.way.host}:{self.way.port};transport={self.way.transport.lower()}>\r\n"))
        if attempt < 12:
            wait = min(T1 * 2 ** attempt, T2) if not self.way or self.way.transport == "UDP" else 2.0
            self.world.loop.at(wait, lambda: self.send(attempt + 1))

    def text(self, method, cseq, more=""):
        return request(method, f"sip:{self.user}@example.net", self.via, self.branch, "pbx", f"sip:{self.user}@example.net",
                       self.id, cseq, self.tag, more=more)

    def cancel(self, attempt=0):
        if self.over and not self.cancelled or self.cancel_done or attempt > 20:
            return
        if not self.provisional:
            # On a stalled machine, the response may come late, and the caller repeats the INVITE until then.
            if time.monotonic() - self.begun < 40:
                self.world.loop.at(0.2, lambda: self.cancel(attempt))
            return
        self.cancelled = True
        way = self.caller.way()
        if way:
            way.send(self.text("CANCEL", 1))
        self.world.loop.at(min(T1 * 2 ** attempt, T2), lambda: self.cancel(attempt + 1))

    def received(self, message):
        self.tell(f"caller: {message.start} {message.get('cseq')}")
        if message.cseq_method == "CANCEL":
            self.cancel_done = True
        if message.cseq_method != "INVITE":
            return
        if message.status < 200:
            self.provisional = True
            return
        final = (message.status, message.tag("to"))
        if final not in self.finals:
            self.finals.append(final)
            self.world.ended(self)
        way = self.caller.way()
        if not way:
            return
        if message.status >= 300:
            ack = self.text("ACK", 1).replace(f"To: <sip:{self.user}@example.net>", f"To: {message.get('to')}", 1)
            return way.send(ack)
        routes = "".join(f"Route: {route}\r\n" for route in reversed(message.routes()))
        way.send(request("ACK", message.contact_uri(), way, fresh("z9hG4bK"), "pbx", f"sip:{self.user}@example.net", self.id,
                         1, self.tag, message.tag("to"), routes))


class Caller:
    """A PBX over UDP, or over TCP or TLS with one connection at a time. The daemon trusts the PBX by its address or its
    certificate."""

    def __init__(self, world, host, transport, pair=None):
        self.world, self.host, self.transport, self.pair = world, host, transport, pair
        self.name = transport + (" by certificate" if pair else "")
        self.calls = {}
        self.connection = Datagrams(world, host, self) if transport == "UDP" else None

    def way(self):
        if self.transport != "UDP" and not (self.connection and self.connection.isOpen):
            self.connection = connect(self.world, self)
            if self.connection.isOpen:
                # The PBX registers no users, and shows by an OPTIONS that it is reachable again.
                self.connection.send(request("OPTIONS", "sip:example.net", self.connection, fresh("z9hG4bK"), "pbx",
                                             "sip:example.net", fresh("o"), 1, fresh("f")))
        return self.connection if self.connection.isOpen else None

    def ended(self):
        self.world.loop.at(random.uniform(0.02, 0.3), self.back)

    def back(self):
        if not self.way():
            self.world.loop.at(0.05, self.back)

    def received(self, message):
        if message.is_response:
            call = self.calls.get(message.call_id)
            if call:
                call.received(message)
        elif message.method != "ACK" and self.connection.isOpen:
            self.connection.send(answer(message, 200, "pbx"))


class Phone:
    """One device, which sleeps until it gets a push, registers, rings, and then behaves according to the kind of the
    call."""

    pair = None

    def __init__(self, world, number, user, transport, token):
        self.world, self.user, self.transport, self.token = world, user, transport, token
        self.host = f"127.1.{number // 200 + 1}.{number % 200 + 1}"
        self.connection = Datagrams(world, self.host, self) if transport == "UDP" else None
        self.registered_as, self.cseq, self.waiting = fresh("reg"), 0, None
        self.acknowledged, self.woken = False, 0.0
        self.dialogs = {}

    def ended(self):
        if time.monotonic() - self.woken < RING_TIMEOUT or any(
                d["final"] is None or not d["acknowledged"] for d in self.dialogs.values()):
            # The phone knows about the call, because it rings or has just got a push.
            self.world.loop.at(random.uniform(0.1, 0.6), self.register)

    def register(self, attempt=0, number=None):
        if number is None:
            self.cseq += 1
            number = self.waiting = self.cseq
        if self.waiting != number or attempt > 30:
            return
        if self.transport != "UDP" and not (self.connection and self.connection.isOpen):
            self.connection = connect(self.world, self)
        if self.connection.isOpen:
            push = f";pn-provider=fcm;pn-param=p;pn-prid={self.token}" if self.token else ""
            way = self.connection
            contact = f"<sip:{self.user}@{way.host}:{way.port};transport={self.transport.lower()}{push}>"
            uri = f"sip:{self.user}@example.net"
            self.connection.send(request(
                "REGISTER", "sip:example.net", way, f"z9hG4bK{self.registered_as}x{number}", self.user, uri, self.registered_as,
                number, "r", more=f"Contact: {contact}\r\nExpires: 3600\r\n"))
        wait = min(T1 * 2 ** attempt, 2.0) if self.connection.isOpen else 0.1
        self.world.loop.at(wait, lambda: self.register(attempt + 1, number))

    def pushed(self):
        self.woken = time.monotonic()
        self.world.loop.at(random.uniform(0.01, 0.5), self.register)

    def tell(self, line):
        call = self.world.busy.get(self.user)
        if call:
            call.tell(f"phone {self.transport} {'open' if self.connection.isOpen else 'closed'}: {line}")

    def received(self, message):
        self.tell(f"gets {message.start} {message.get('cseq')} {(message.branch or '')[-6:]}")
        if message.is_response:
            if message.cseq_method == "REGISTER" and message.status == 200 and (message.get("cseq") or "").split()[0] == str(self.waiting):
                self.waiting = None
                if not self.acknowledged:
                    self.acknowledged = True
                    self.world.acknowledged.append(self)
            return
        if message.method == "INVITE":
            self.invited(message)
        elif message.method == "CANCEL":
            self.connection.send(answer(message, 200, "p"))
            dialog = self.dialogs.get(message.call_id)
            if dialog and dialog["final"] is None and dialog["branch"] == message.branch:
                self.decide(message.call_id, message.branch, 487)
        elif message.method == "ACK":
            dialog = self.dialogs.get(message.call_id)
            # The ACK of a refusal has the Via branch of its INVITE, but the ACK of a 200 has another branch.
            if dialog and message.branch not in dialog["met"]:
                dialog["acknowledged"] = True
        else:
            self.connection.send(answer(message, 200, "p"))

    def invited(self, message):
        call = self.world.calls.get(message.call_id)
        if call and not call.over:
            call.branches.add(message.branch)
        dialog = self.dialogs.get(message.call_id)
        if dialog and dialog["branch"] == message.branch:
            if dialog["last"]:
                self.connection.send(dialog["last"])
            return
        if dialog and dialog["final"] is None and self.connection is dialog["way"]:
            # The phone already rings for the call, and gets the INVITE again with another Via branch (RFC 3261 section
            # 8.2.2.2).
            self.world.count["482 of a phone"] += 1
            dialog["met"].add(message.branch)
            return self.connection.send(answer(message, 482, "p"))
        if dialog and dialog["final"] in (200, 486, 603):
            dialog["met"].add(message.branch)
            return self.connection.send(answer(message, dialog["final"] if dialog["final"] != 200 else 482, "p"))
        if call:
            call.invited.add(self.user)
            late = call.over and self.world.loop.round > call.over_round + 1 and time.monotonic() - call.over_at > 1
            if late and message.branch not in call.branches:
                self.world.complain(call, f"is offered to a phone {time.monotonic() - call.over_at:.1f} s after its end")
        self.dialogs[message.call_id] = {"branch": message.branch, "invite": message, "final": None, "last": None,
                                         "acknowledged": False, "met": set(), "way": self.connection, "since": time.monotonic(), "said": []}
        self.world.loop.at(random.uniform(0.005, 0.1), lambda: self.ring(message))
        kind = call.kind if call else "declined"
        if kind in ("answered", "several"):
            self.world.loop.at(random.uniform(0.1, 1.0), lambda: self.decide(message.call_id, message.branch, 200))
        if kind == "declined":
            self.world.loop.at(random.uniform(0.1, 1.0), lambda: self.decide(message.call_id, message.branch, 486))

    def ring(self, message):
        dialog = self.dialogs.get(message.call_id)
        # After a crash, the phone remembers no calls.
        if dialog and dialog["final"] is None and dialog["branch"] == message.branch:
            dialog["last"] = answer(message, 180, "p")
            self.connection.send(dialog["last"])

    def decide(self, call_id, branch, status):
        dialog = self.dialogs.get(call_id)
        if dialog and dialog["final"] is None and dialog["branch"] == branch:
            dialog["final"] = status
            contact = f"Contact: <sip:{self.user}@{self.connection.host}:{self.connection.port};transport={self.transport.lower()}>\r\n"
            dialog["last"] = answer(dialog["invite"], status, "p", contact if status == 200 else "")
            dialog["acknowledged"] = False
            self.repeat(call_id, branch)

    def repeat(self, call_id, branch, attempt=0):
        dialog = self.dialogs.get(call_id)
        if not dialog or dialog["acknowledged"] or dialog["branch"] != branch or attempt > 11:
            return
        self.tell(f"sends {dialog['final']} {branch[-6:]}")
        call = self.world.calls.get(call_id)
        if self.connection.isOpen and self.connection.is_there() and not (call and call.over):
            dialog["said"].append((time.monotonic(), self.world.loop.round))
        self.connection.send(dialog["last"])
        self.world.loop.at(min(T1 * 2 ** attempt, T2), lambda: self.repeat(call_id, branch, attempt + 1))


class Provider:
    """A push provider with Firebase's legacy format over HTTP/1.1, in the event loop of the phones."""

    def __init__(self, world):
        self.world = world
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(("127.0.0.1", 0))
        self.socket.listen(128)
        self.socket.setblocking(False)
        self.port = self.socket.getsockname()[1]
        world.loop.watch(self.socket, self.accept)

    def accept(self, _):
        """Accepts connections. A connection belongs to the daemon's current run, because the next run starts only after
        all its connections are accepted."""
        while True:
            try:
                one, _ = self.socket.accept()
            except BlockingIOError:
                return
            one.setblocking(False)
            rest, run = [b""], self.world.runs[-1]
            self.world.loop.watch(one, lambda _, one=one, rest=rest, run=run: self.readable(one, rest, run))

    def readable(self, one, rest, run):
        try:
            some = one.recv(65536)
        except BlockingIOError:
            return
        except OSError:
            some = b""
        if not some:
            self.world.loop.forget(one)
            return one.close()
        rest[0] += some
        while True:
            head, mark, body = rest[0].partition(b"\r\n\r\n")
            if not mark:
                return
            length = next((int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")), 0)
            if len(body) < length:
                return
            push, rest[0] = body[:length], body[length:]
            self.world.loop.at(random.uniform(0.001, 0.02), lambda push=push: self.taken(one, json.loads(push), run))

    def taken(self, one, push, run):
        reply = b'{"multicast_id":1,"success":1,"failure":0,"canonical_ids":0,"results":[{"message_id":"0:1"}]}'
        try:
            one.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(reply) + reply)
        except OSError:
            pass
        self.world.pushed(push, run)


class World:
    # The time after which a caller without any response gives up. The phone that rang may have crashed.
    patience = None
    KINDS = ("answered", "answered", "declined", "cancelled", "held", "several", "ringing", "cancelled-ringing")

    def __init__(self, seed, rate, say=lambda line: None):
        random.seed(seed)
        self.rate, self.say = rate, say
        self.loop = Loop()
        self.provider = Provider(self)
        self.calls, self.acknowledged, self.complaints = {}, [], []
        self.count, self.ready = collections.Counter(), []
        self.kills, self.runs = [], [Run()]
        self.phones, self.busy, self.newcomers = {}, {}, 0
        self.is_calling = True
        self.daemon, self.contexts = None, {}

    def context(self, owner):
        """The TLS context of a party, with full handshakes only, as after a restart of a PBX."""
        if owner.pair not in self.contexts:
            self.contexts[owner.pair] = edge.context(self.daemon.authority, owner.pair)
        return self.contexts[owner.pair]

    def settings(self):
        return {"auth": "off", "call": {"ring-timeout": f"{RING_TIMEOUT:.0f}s", "pushes-per-device": 0, "pushes-per-caller": 0},
                "log": {"level": "notice"}, "registrar": {"max-contacts": 4},
                "push": {"fcm": {"enabled": True, "body-format": "legacy", "server-key": "k",
                                 "endpoint": f"http://127.0.0.1:{self.provider.port}"}}}

    def complain(self, call, text):
        self.complaints.append(f"{call.id} ({call.kind}, {call.caller.name}, to {call.user}, begun {self.when(call.begun)}): {text}\n    "
                               + "\n    ".join(call.story[:60]))

    def when(self, instant):
        kill = max((k for k in self.kills if k <= instant), default=None)
        after = min((k for k in self.kills if k > instant), default=None)
        return (f"{instant - kill:.3f} s after a kill, " if kill else "") + (f"{after - instant:.3f} s before one" if after else "")

    # --- people and phones

    def populate(self, users):
        certificate = self.daemon.authority.issue("chaos-pbx", "DNS:pbx.example.net")
        self.callers = [Caller(self, "127.2.0.50", "UDP"), Caller(self, "127.2.0.51", "TCP"), Caller(self, "127.2.0.53", "TLS"),
                        Caller(self, "127.3.0.54", "TLS", certificate)]
        for number in range(users):
            user = f"c{number}"
            transport = "TCP" if number % 4 == 3 else "TLS" if number % 4 == 1 else "UDP"
            devices = [Phone(self, 2 * number, user, transport, fresh("token"))]
            if number % 3 == 0:
                devices.append(Phone(self, 2 * number + 1, user, "UDP", None if number % 6 else fresh("token")))
            self.phones[user] = devices
            for device in devices:
                device.register()
        self.ticks = Ticks(self, "127.2.0.55")
        self.loop.run(60, lambda: all(p.acknowledged for ps in self.phones.values() for p in ps))
        self.tokens = {p.token: p for ps in self.phones.values() for p in ps if p.token}

    def call(self):
        if not self.is_calling:
            return
        self.loop.at(random.expovariate(self.rate), self.call)
        free = [user for user in self.phones if user not in self.busy]
        if not free:
            self.count["nobody free"] += 1
            return
        user = random.choice(free)
        call = Call(self, random.choice(self.callers), user, random.choice(self.KINDS))
        self.busy[user] = call
        self.calls[call.id] = call
        call.caller.calls[call.id] = call
        call.send()
        if self.patience:
            self.loop.at(self.patience, call.cancel)
        if call.kind == "cancelled":
            self.loop.at(random.uniform(0.05, 1.5), call.cancel)
        if call.kind == "held":
            # A phone without pushes rings longer than callers wait.
            self.loop.at(RING_TIMEOUT + 3, call.cancel)
        if call.kind in ("cancelled-ringing", "ringing"):
            self.loop.at(random.uniform(1.0, 3.0), call.cancel)

    def newcomer(self):
        """Registers a new user."""
        if not self.is_calling:
            return
        self.newcomers += 1
        phone = Phone(self, 30_000 + self.newcomers % 20_000, f"n{self.newcomers}", "UDP", fresh("token"))
        phone.register()
        self.loop.at(8, lambda: (self.loop.forget(phone.connection.socket), phone.connection.socket.close()))
        self.loop.at(0.05, self.newcomer)

    def ended(self, call):
        call.over_at, call.over_round = time.monotonic(), self.loop.round
        self.loop.at(1.5, lambda: self.busy.pop(call.user, None))

    def pushed(self, push, run):
        now = time.monotonic()
        phone = self.tokens.get(push.get("to")) if hasattr(self, "tokens") else None
        if not phone or push.get("data", {}).get("type") != "invite":
            return
        call = self.busy.get(phone.user)
        if not call:
            return
        earlier = [(when, former) for token, when, former in call.pushes if token == phone.token]
        if earlier:
            self.count["pushes sent again"] += 1
            if any(former is not run and former.heard(when) for when, former in earlier):
                self.complain(call, f"was pushed again {now - earlier[0][0]:.2f} s after the first, and that run knew that it was taken")
        call.pushes.append((phone.token, now, run))
        call.tell("push")
        if call.kind != "held" and not earlier:
            phone.pushed()

    # --- the daemon

    def kill(self):
        self.daemon.process.kill()
        self.kills.append(time.monotonic())
        for call in self.busy.values():
            call.tell("kill -9")
        self.daemon.process.wait()
        self.ticks.killed()
        self.provider.accept(None)
        for connection in [c.connection for c in self.callers if c.transport != "UDP"]:
            if connection and connection.isOpen:
                connection.readable(None)
        self.loop.run(random.uniform(0.0, 0.2))
        start = time.monotonic()
        self.runs.append(Run())
        self.daemon.spawn()
        probe = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        probe.bind(("127.2.0.52", 0))
        probe.settimeout(0.01)

        class Way:
            transport, (host, port) = "UDP", probe.getsockname()

        while time.monotonic() - start < 120:
            try:
                probe.sendto(request("OPTIONS", "sip:example.net", Way, fresh("z9hG4bK"), "pbx", "sip:example.net", fresh("o"), 1,
                                     "f").encode(), self.daemon.address)
                probe.recv(2000)
                break
            except OSError:
                self.loop.run(0.005)
        self.runs[-1].begin = time.monotonic()
        self.ready.append(self.runs[-1].begin - start)
        self.ticks.next(1)
        probe.close()

    def verify_contacts(self, phones):
        """Expects that the daemon knows every contact whose REGISTER it answered with 200."""
        connection = http.client.HTTPConnection("127.0.0.1", self.daemon.admin_port, timeout=60)
        for phone in phones:
            connection.request("GET", f"/v1/users/{phone.user}@example.net/devices", headers={"Authorization": f"Bearer {self.daemon.key}"})
            body = connection.getresponse().read()
            self.count["contacts looked for"] += 1
            wanted = sum(1 for other in self.acknowledged if other.user == phone.user)
            if len(json.loads(body) or []) < wanted:
                self.complaints.append(f"a contact of {phone.user}, acknowledged with 200, is gone: {body!r}")
        connection.close()

    def finish(self):
        """Stops making new calls, and waits until all calls have ended."""
        self.is_calling = False
        limit = RING_TIMEOUT + 40
        self.loop.run(limit, lambda: all(c.over or not (c.pushes or c.invited) for c in self.calls.values())
                      and not any(c.cancelled and not c.over for c in self.calls.values()))
        # A second copy of a message that the daemon sent twice would arrive within three seconds.
        self.loop.run(3)

    def has_no_way(self, call):
        """Whether a phone has answered, but sent each 200 on a connection that a kill had broken or was about to break."""
        for dialog in (phone.dialogs.get(call.id) for phone in self.phones[call.user]):
            if dialog and dialog["final"] == 200 and not any(
                    self.was_heard(instant) and call.over_round > turn + 1 for instant, turn in dialog["said"]):
                return True
            # The phone had no time to decide about the call.
            if dialog and not dialog["said"] and call.over_at - dialog["since"] < 1.1:
                return True
        return False

    def was_heard(self, instant):
        """Whether the daemon has certainly handled all input that had arrived before the given time."""
        return any(run.heard(instant) for run in self.runs)

    def judge(self):
        for call in self.calls.values():
            begun = bool(call.pushes or call.invited)
            statuses = [status for status, _ in call.finals]
            name = call.kind + " " + call.caller.name
            if not call.finals:
                if begun:
                    self.complain(call, f"has no end; {len(call.pushes)} pushes, INVITE at {call.invited or 'nobody'}, cancelled {call.cancelled}")
                    self.count["no end"] += 1
                else:
                    self.count["killed before they were written"] += 1
                continue
            self.count[f"{name}: {statuses[0]}"] += 1
            # All REGISTERs of a phone that is not reached in time may have been sent while no daemon ran.
            if call.kind in ("answered", "several") and statuses[0] != 200 and self.has_no_way(call):
                self.count["answered while no connection was open"] += 1
            elif call.kind in ("answered", "several") and statuses[0] != 200 and call.invited:
                self.complain(call, f"was to be answered, and ended with {statuses}; INVITE at {call.invited or 'nobody'}, "
                                    f"pushes {[round(when - call.begun, 2) for _, when, _ in call.pushes]}, ended {self.when(call.over_at)}")
            if len(set(call.finals)) > 1:
                # The 200 of a second phone that has not got its CANCEL yet is forwarded too (RFC 3261 section 16.7).
                if statuses.count(200) == len(statuses):
                    self.count["200 of two phones"] += 1
                elif self.was_heard(call.over_at):
                    self.complain(call, f"ended more than once: {call.finals}")
                else:
                    self.count["ended twice around a kill"] += 1
        for user, phones in self.phones.items():
            for phone in phones:
                for call_id, dialog in phone.dialogs.items():
                    call = self.calls.get(call_id)
                    if call and call.over and dialog["final"] is None and time.monotonic() - call.over_at > 6:
                        if phone.connection is dialog["way"]:
                            self.complain(call, f"is over, and {phone.transport} phone rings on")
                            self.count["ring on"] += 1


class Soak(World):
    """A run without kills: hours of calls, phones that crash and move, and an operator who requests lists and figures."""

    patience = 30

    def crash(self):
        """Lets the app of a phone crash, which loses its calls, and starts again later or after a push."""
        if not self.is_calling:
            return
        phone = random.choice(random.choice(list(self.phones.values())))
        phone.dialogs.clear()
        if phone.transport != "UDP" and phone.connection:
            phone.connection.close()
        if random.random() < 0.5:
            self.loop.at(random.uniform(0.1, 3.0), phone.register)
        self.loop.at(0.1, self.crash)

    def look(self):
        """Requests lists, figures and explanations over HTTP. A thread sends the requests, because a slow answer must not
        delay the calls."""
        users = list(self.phones)
        while self.is_calling:
            connection = http.client.HTTPConnection("127.0.0.1", self.daemon.admin_port, timeout=60)
            user = users[self.count["questions over HTTP"] // 4 % len(users)]
            for path in (f"/v1/users/{user}@example.net/devices", "/metrics", "/v1/held", f"/v1/explain/{user}@example.net"):
                connection.request("GET", path, headers={"Authorization": f"Bearer {self.daemon.key}"})
                connection.getresponse().read()
                self.count["questions over HTTP"] += 1
            connection.close()
            time.sleep(0.2)

    def forget(self):
        """Forgets old calls, so that only the daemon's memory grows."""
        if not self.is_calling:
            return
        now = time.monotonic()
        for call_id, call in list(self.calls.items()):
            if call.over and now - call.over_at > 40:
                del self.calls[call_id], call.caller.calls[call_id]
                self.count["calls"] += 1
            elif now - call.begun > 120:
                self.complain(call, "has no end")
                del self.calls[call_id], call.caller.calls[call_id]
        for phones in self.phones.values():
            for phone in phones:
                phone.dialogs = {c: d for c, d in phone.dialogs.items() if now - d["since"] < 60}
        self.loop.at(5, self.forget)


def stored(daemon):
    """The size of all pages of the store in KiB, whether they are written back or not."""
    with contextlib.closing(sqlite3.connect(f"file:{daemon.folder}/sippushd.db?mode=ro", uri=True)) as store:
        return store.execute("PRAGMA page_count").fetchone()[0] * store.execute("PRAGMA page_size").fetchone()[0] // 1024


def soak(daemon_of, seed, seconds, rate, users=60, say=print):
    """Runs for `seconds`, and measures memory and descriptors ten times in each half.

    The result says whether the second half needs no more memory and descriptors than the first. The store has a page
    cache of STORE_CACHE KiB. Until the page cache is full, memory may grow by the size of the pages."""
    world = Soak(seed, rate)
    world.daemon = daemon_of(world.settings())
    world.daemon.start()
    world.populate(users)
    for begin in (world.call, world.crash, world.forget):
        begin()
    operator = threading.Thread(target=world.look, daemon=True)
    operator.start()
    samples = []
    for _ in range(20):
        world.loop.run(seconds / 20)
        samples.append((world.daemon.memory(), len(os.listdir(f"/proc/{world.daemon.process.pid}/fd")), world.count["calls"],
                        stored(world.daemon)))
        say("  %8d KiB %5d descriptors %8d calls %8d KiB of store" % samples[-1])
    alive, world.is_calling = operator.is_alive(), False
    operator.join()
    grown = max(sample[0] for sample in samples[15:]) - max(sample[0] for sample in samples[10:15])
    cached = min(samples[-1][3], STORE_CACHE) - min(samples[14][3], STORE_CACHE)
    more = max(sample[1] for sample in samples[10:]) - max(sample[1] for sample in samples[:10])
    calls = max(1, samples[-1][2] - samples[14][2])
    for line in world.complaints[:20]:
        say("  " + line)
    say(f"soak: {seconds} s, {world.count['calls']} calls, {world.count['questions over HTTP']} questions over HTTP: in the last quarter "
        f"{grown} KiB more memory than in the one before, {grown * 1024 / calls:.0f} bytes for each of its calls, {cached} KiB of it for the store's cache; "
        f"in the second half {more} more descriptors; {len(world.complaints)} complaints")
    if not alive:
        say("  the operator had no answer")
    return alive and grown - cached < 1024 and more <= 8 and not world.complaints


def play(daemon_of, seed, rounds, rate, users=60, say=print):
    """Runs all rounds.

    `daemon_of(settings)` returns a daemon that has not been started. The result says whether there were no complaints."""
    world = World(seed, rate)
    world.daemon = daemon_of(world.settings())
    world.daemon.start()
    world.populate(users)
    world.call()
    world.newcomer()
    checked = 0
    for number in range(rounds):
        world.loop.run(random.uniform(0.1, 1.6))
        world.kill()
        world.verify_contacts(world.acknowledged[checked:])
        checked = len(world.acknowledged)
        if number % 50 == 49:
            say(f"  round {number + 1}: {len(world.calls)} calls, {len(world.complaints)} complaints")
    world.finish()
    world.verify_contacts(world.acknowledged[checked:])
    world.judge()
    for line in world.complaints[:40]:
        say("  " + line)
    ready = sorted(world.ready)
    say(f"chaos: seed {seed}, {rounds} rounds of kill -9, {len(world.calls)} calls, {world.count.pop('contacts looked for')} contacts: "
        f"{len(world.complaints)} complaints; ready after {ready[len(ready) // 2]:.2f} s, at most {ready[-1]:.2f} s")
    for name, count in sorted(world.count.items()):
        say(f"  {count:6} {name}")
    return not world.complaints
