"""Phones and a PBX on loopback, in one event loop. They send SIP to the nodes, and record what the nodes do with each call."""

import json
import os
import random
import re
import time

import place as places
from database import Database
from loop import Loop
from nodes import Nodes
from party import Party
from place import NODES, Place, Trouble
from sip import fresh

# The nodes trust this address: it is the PBX.
PBX = "127.0.1.1"
PHONES = "127.0.0.1"
T1, T2 = 0.5, 4.0


class World:
    """Two servers of PostgreSQL, two nodes, the push sandbox, many phones and a PBX."""

    def __init__(self, settings="", seed=1):
        folder = os.environ.get("RUN_FOLDER", "run")
        os.makedirs(folder, mode=0o700, exist_ok=True)
        self.random = random.Random(seed)
        self.place = Place(folder, os.environ.get("BINARIES", ".build/release"))
        self.place.empty()
        self.database = Database(self.place)
        self.place.check_ports()
        self.nodes = Nodes(self.place, self.database, settings)
        self.loop = Loop()
        self.doors = {node: (host, self.place.ports["SIP_PORT"]) for node, host in NODES.items()}
        self.node_at = {door: node for node, door in self.doors.items()}
        # When each node was last killed or stopped.
        self.ended_at = dict.fromkeys(NODES, 0.0)
        self.calls, self.complaints = {}, []
        # The programs that are being stopped.
        self.stopping = set()
        # Whether a node that found no database at its start is started again, as by systemd.
        self.restarts = False
        self.pushes_read = 0

    def start(self):
        self.database.start()
        self.nodes.start()
        self.phones, self.pbx = Phones(self, PHONES), Exchange(self, PBX)
        self.loop.at(0.0, self.read_pushes)
        self.loop.at(0.0, self.watch)

    def watch(self):
        """Complains about a program that has ended by itself."""
        for name, process in list(self.place.running.items()):
            if process.poll() is not None and name not in self.stopping:
                del self.place.running[name]
                if self.restarts and name in NODES and "sippushd: store postgresql" in self.place.log(name)[-1500:]:
                    # The database was away at the start. systemd starts the node again (Restart=on-failure, RestartSec=100ms).
                    self.loop.at(0.1, lambda name=name: self.launch(name))
                    continue
                self.complain(f"{name} has ended by itself with {process.returncode}: {self.place.log(name)[:1500]}")
        self.loop.at(0.2, self.watch)

    def end(self):
        self.place.stop()
        self.database.remove()

    # --- nodes

    def lives(self, node):
        return node in self.place.running

    def living(self):
        return [node for node in NODES if self.lives(node)]

    def tell_all(self, text):
        """Writes an event into the story of each call that has not ended."""
        for call in self.calls.values():
            if not call.finals:
                call.tell(text)

    def kill(self, node):
        self.place.kill(node)
        self.ended_at[node] = time.monotonic()
        self.tell_all(f"kill -9 of {node}")

    def launch(self, node):
        self.nodes.launch(node)
        self.tell_all(f"start of {node}")

    def terminate(self, node, timeout=60):
        """Ends the node as `systemctl stop` does, while phones and PBX go on. Returns the seconds until its end."""
        begin, process = time.monotonic(), self.place.running[node]
        self.stopping.add(node)
        process.terminate()
        self.tell_all(f"SIGTERM to {node}")
        self.run_until(lambda: process.poll() is not None, f"node {node} does not end after SIGTERM", timeout)
        del self.place.running[node]
        self.stopping.discard(node)
        self.ended_at[node] = time.monotonic()
        if process.returncode != 0:
            self.complain(f"node {node} ended with {process.returncode} after SIGTERM")
        return time.monotonic() - begin

    def restart(self, node):
        """Starts the node again, while phones and PBX go on. Returns the seconds until it takes requests."""
        begin = time.monotonic()
        self.launch(node)
        self.run_until(lambda: "started and accepts requests" in self.place.log(node), f"node {node} does not start", 20)
        return time.monotonic() - begin

    def node_of(self, address):
        return self.node_at.get(address)

    # --- pushes

    def read_pushes(self):
        """Passes each new push to the phones. The sandbox writes the pushes into a file."""
        with open(self.place.path("pushes.jsonl"), "rb") as file:
            file.seek(self.pushes_read)
            # The last line may still be incomplete.
            whole, mark, _ = file.read().rpartition(b"\n")
        self.pushes_read += len(whole + mark)
        for line in whole.splitlines():
            push = json.loads(line)
            if push.get("status") == 200 and push.get("type") == "invite":
                self.pushed(push)
        self.loop.at(0.01, self.read_pushes)

    def pushed(self, push):
        device = self.phones.by_token.get(push["token"])
        call = self.calls.get(push["body"]["message"]["data"].get("call_id"))
        if call:
            call.pushes.append(push["time"] / 1000)
            call.tell(f"push {push['token']}")
        if device:
            device.called.add(call.id if call else None)
            device.on_push(call)

    # --- waiting

    def run_until(self, condition, complaint, timeout):
        self.loop.run(places.patience(timeout), condition)
        if not condition():
            raise Trouble(f"{complaint() if callable(complaint) else complaint} after {timeout:.0f} s")

    def complain(self, text):
        self.complaints.append(text)

    def settle(self):
        """Raises the first complaints. All are in the file `complaints` of the run's folder."""
        if self.complaints:
            path = self.place.write("".join(f"{text}\n" for text in self.complaints), "complaints")
            raise Trouble("\n    | ".join([f"{len(self.complaints)} complaints, all in {path}"] + self.complaints[:12]))

    def query(self, sql):
        return self.database.query(self.database.writer, sql)


class Phones:
    """The phones of many users. Each phone has a socket of its own, because any message on a phone's flow shows that the phone is
    awake."""

    def __init__(self, world, host):
        self.world, self.host, self.devices, self.by_token = world, host, {}, {}

    def add(self, user):
        device = self.devices[user] = Device(self, user)
        self.by_token[device.token] = device
        return device

    def register_all(self, devices, node, timeout=120, window=200):
        """Registers the devices at the node, some hundred at a time."""
        waiting, world = list(reversed(devices)), self.world
        open_ones = []

        def step():
            nonlocal open_ones
            open_ones = [device for device in open_ones if device.waiting]
            while waiting and len(open_ones) < window:
                open_ones.append(waiting.pop())
                open_ones[-1].register(node)
            return not waiting and not open_ones

        limit = time.monotonic() + places.patience(timeout)
        while not step():
            if time.monotonic() > limit:
                raise Trouble(f"{len(waiting) + len(open_ones)} REGISTERs got no 200")
            world.loop.run(0.005)


class Device(Party):
    """The phone of a user. It sleeps until somebody calls `on_push`, and then does what the call's kind says."""

    def __init__(self, phones, user):
        super().__init__(phones.world.loop, phones.host, 1 << 16)
        self.world, self.user, self.token = phones.world, user, f"token-{user}"
        self.number, self.waiting, self.node = 0, None, None
        self.acknowledged, self.last_status = False, None
        self.registered_at = 0.0
        # The legs of each call: by Call-ID, in the order of their arrival.
        self.legs = {}
        # The Call-IDs of calls for which the phone got a push and has not got the INVITE.
        self.called = set()
        self.on_push = lambda call: None

    def received(self, message):
        if not message.is_response:
            self.requested(message)
        elif message.cseq_method == "REGISTER":
            self.registered(message)

    # --- REGISTER

    def register(self, node, insists=True):
        """Registers at the node. A phone that insists tries a living node again until a node answers 200."""
        self.number += 1
        self.waiting, self.insists, self.node = self.number, insists, node
        self.send_register(self.number, 0)

    def send_register(self, number, attempt):
        if self.waiting != number:
            return
        if attempt >= 2 and self.insists and not self.world.lives(self.node):
            return self.again()
        if attempt > 9:
            return self.again() if self.insists else None
        user = self.user
        request = self.make(
            "REGISTER", "sip:example.net", user, call_id=f"r-{user}", cseq=number, from_tag="r", to=f"sip:{user}@example.net",
            contact=f"<sip:{user}@{self.local()};pn-provider=fcm;pn-param=demo;pn-prid={self.token}>", fields=[("Expires", "3600")])
        request.set("Via", re.sub(r"branch=[^;]+", f"branch=z9hG4bKr{user}x{number}", request.get("Via")))
        self.send(request, self.world.doors[self.node])
        self.world.loop.at(min(T1 * 2 ** attempt, 2.0), lambda: self.send_register(number, attempt + 1))

    def again(self):
        living = self.world.living() or [self.node]
        self.register(self.world.random.choice(living))

    def registered(self, message):
        number = int(message.get("cseq").split()[0])
        if number != self.waiting or message.status < 200:
            return
        self.waiting, self.last_status = None, message.status
        # A phone also registers for its later calls, which are no part of the story of a call that has ended.
        self.called = {call_id for call_id in self.called if call_id in self.world.calls and not self.world.calls[call_id].finals}
        for call_id in self.called:
            self.world.calls[call_id].tell(f"phone {self.user}: {message.status} to REGISTER from {self.world.node_of(message.source)}")
        if message.status == 200:
            self.acknowledged, self.registered_at = True, time.monotonic()
            return
        if self.insists:
            self.waiting = -1
            self.world.loop.at(self.world.random.uniform(0.2, 0.6), lambda: self.waiting == -1 and self.again())

    # --- calls

    def requested(self, message):
        call = self.world.calls.get(message.call_id)
        if call:
            call.tell(f"phone {self.user}: {message.start.split()[0]} from {self.world.node_of(message.source)}")
        if message.method == "INVITE":
            return self.invited(message, call)
        legs = self.legs.get(message.call_id, [])
        leg = next((leg for leg in legs if leg.invite.branch == message.branch), None)
        if message.method == "ACK":
            # The ACK to a 2xx has a branch of its own.
            for one in [leg] if leg else legs:
                one.acknowledged()
        elif message.method == "CANCEL":
            self.respond(message, 200, tag="p")
            if leg and leg.final is None:
                leg.answer(487)
        else:
            if message.method == "BYE" and call:
                call.ended_by_bye = True
            self.respond(message, 200, tag="p")

    def invited(self, message, call):
        self.called.discard(message.call_id)
        legs = self.legs.setdefault(message.call_id, [])
        known = next((leg for leg in legs if leg.invite.branch == message.branch), None)
        if known:
            return known.repeat()
        leg = Leg(self, message, call)
        former = legs[-1] if legs else None
        legs.append(leg)
        if call:
            call.invites.append((time.monotonic(), self.user, self.world.node_of(message.source)))
        if former and not former.is_void():
            # The phone rings already, and gets the call again (RFC 3261 section 8.2.2.2).
            if call:
                call.doubled.append((time.monotonic(), former.begun, self.user))
            return leg.answer(482)
        if call:
            call.on_invite(leg)


class Leg:
    """An INVITE at a phone."""

    def __init__(self, device, invite, call):
        self.device, self.invite, self.call, self.begun = device, invite, call, time.monotonic()
        self.final, self.last, self.is_acknowledged = None, None, False
        self.node = device.world.node_of(invite.source)

    def is_void(self):
        """Whether the INVITE's node has ended since, so that nobody waits for the answer."""
        return self.device.world.ended_at.get(self.node, 0) > self.begun or self.final in (482, 487)

    def respond(self, status):
        self.last = status
        phone = self.device
        if self.call and not self.call.finals:
            self.call.tell(f"phone {phone.user}: responds {status}, INVITE {phone.legs[self.invite.call_id].index(self) + 1}")
        phone.respond(self.invite, status, tag=f"p{phone.user}", contact=f"<sip:{phone.user}@{phone.local()}>")

    def ring(self):
        if self.final is None:
            self.respond(180)

    def answer(self, status, attempt=0):
        if self.final is None:
            self.final = status
        if self.is_acknowledged or attempt > 10:
            return
        self.respond(self.final)
        self.device.world.loop.at(min(T1 * 2 ** attempt, T2), lambda: self.answer(status, attempt + 1))

    def repeat(self):
        if self.last:
            self.respond(self.last)

    def acknowledged(self):
        self.is_acknowledged = self.is_acknowledged or self.final is not None


class Exchange(Party):
    """A PBX, which the nodes trust by its address."""

    def __init__(self, world, host):
        super().__init__(world.loop, host, 8 << 20)
        self.world = world

    def call(self, user, node, call_id, kind, tries_other=False):
        call = Call(self, user, node, call_id, kind, tries_other)
        self.world.calls[call_id] = call
        call.invite()
        return call

    def received(self, message):
        call = self.world.calls.get(message.call_id)
        if call and message.is_response:
            call.responded(message)
        elif call and message.method == "BYE":
            self.respond(message, 200)


class Call:
    """A call of the PBX, with what the PBX and the phones have seen."""

    def __init__(self, pbx, user, node, call_id, kind, tries_other):
        self.pbx, self.world, self.user, self.node, self.id, self.kind = pbx, pbx.world, user, node, call_id, kind
        self.begun, self.wall = time.monotonic(), time.time()
        self.request = pbx.make("INVITE", f"sip:{user}@example.net", "103", call_id=call_id, body=(
            "v=0\r\no=- 1 1 IN IP4 127.0.1.1\r\ns=-\r\nc=IN IP4 127.0.1.1\r\nt=0 0\r\nm=audio 4000 RTP/AVP 0\r\n"))
        self.statuses, self.finals, self.over_at = [], [], None
        self.pushes, self.invites, self.doubled, self.story = [], [], [], []
        self.cancelling = self.cancelled = self.ended_by_bye = False
        self.bye = self.bye_status = None
        # Whether the PBX tries another node if its node has ended without an answer, and whether it has done so.
        self.tries_other, self.moved = tries_other, False
        self.on_invite, self.on_final = lambda leg: leg.ring(), lambda status: None

    def tell(self, text):
        self.story.append(f"{time.monotonic() - self.begun:.3f} {text}")

    def door(self):
        """The call's node, or another node to which the address would have moved."""
        node = self.node if self.world.lives(self.node) else next(iter(self.world.living()), self.node)
        return self.world.doors[node]

    def invite(self, attempt=0):
        if self.statuses or attempt > 6:
            return
        if attempt >= 2 and self.tries_other and not self.world.lives(self.node) and self.world.living():
            # A PBX that gets no answer tries the next address, as a transaction of its own (RFC 3263 section 4.3).
            self.node, self.moved, attempt = self.world.living()[0], True, 0
            self.request.set("Via", re.sub(r"branch=[^;]+", "branch=" + fresh("z9hG4bK"), self.request.get("Via")))
        self.tell(f"pbx: INVITE to {self.node}")
        self.pbx.send(self.request, self.world.doors[self.node])
        self.world.loop.at(T1 * 2 ** attempt, lambda: self.invite(attempt + 1))

    def cancel(self, attempt=0):
        if self.finals or self.cancelled or attempt > 12:
            return
        self.cancelling = True
        if self.statuses:
            self.pbx.send(self.pbx.cancel(self.request), self.door())
        self.world.loop.at(min(T1 * 2 ** attempt, T2), lambda: self.cancel(attempt + 1))

    def responded(self, message):
        self.tell(f"pbx: {message.status} to {message.cseq_method} from {self.world.node_of(message.source)}")
        if message.cseq_method == "CANCEL":
            # A node that does not know the call yet may take it over later.
            self.cancelled = self.cancelled or message.status == 200
        elif message.cseq_method == "BYE":
            self.bye_status = message.status if message.status >= 200 else self.bye_status
        elif message.cseq_method == "INVITE":
            self.statuses.append(message.status)
            if message.status >= 200:
                self.final(message)

    def final(self, message):
        first = not self.finals
        if (message.status, message.tag("to")) not in self.finals:
            self.finals.append((message.status, message.tag("to")))
        if message.status >= 300:
            self.pbx.send(self.pbx.ack_failure(self.request, message), message.source)
        else:
            self.answer = message
            self.pbx.send(self.in_dialog("ACK", 1), self.way())
        if first:
            self.over_at = time.monotonic()
            self.on_final(message.status)

    def in_dialog(self, method, cseq):
        request = self.pbx.make(method, self.answer.contact_uri(), call_id=self.id, cseq=cseq)
        request.set("From", self.request.get("From")).set("To", self.answer.get("to"))
        for route in reversed(self.answer.routes()):
            request.add("Route", route)
        return request

    def way(self):
        """The address of the first Route, or of a living node if the Route's node has ended."""
        routes = self.answer.routes()
        found = re.search(r"@?([\d.]+):(\d+)", routes[-1]) if routes else None
        node = self.world.node_of((found.group(1), int(found.group(2)))) if found else None
        return self.world.doors[node] if node and self.world.lives(node) else self.door()

    def hang_up(self, attempt=0):
        if attempt == 0:
            self.bye = self.in_dialog("BYE", 2)
        if self.bye_status or attempt > 9:
            return
        self.pbx.send(self.bye, self.way())
        self.world.loop.at(min(T1 * 2 ** attempt, T2), lambda: self.hang_up(attempt + 1))

    @property
    def status(self):
        return self.finals[0][0] if self.finals else None

    def describe(self):
        story = self.story if len(self.story) <= 40 else self.story[:20] + ["..."] + self.story[-20:]
        return f"call {self.id} ({self.kind}): " + "; ".join(story)
