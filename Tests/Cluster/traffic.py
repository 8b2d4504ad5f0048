"""Calls of every kind and new phones without a pause, while nodes and servers end and start again."""

import collections
import time

RING_TIMEOUT = 15
SETTINGS = f"call:\n    pushes-per-device: 0\n    ring-timeout: {RING_TIMEOUT}s\n"
KINDS = ("answered", "answered", "answered", "declined", "cancelled", "unheard")
# The final responses that the PBX must get. Nobody answers the call of a phone that hears no push.
WANTED = {"answered": (200,), "declined": (486,), "cancelled": (487,), "unheard": (480, 408, 487)}
# The seconds after the end of a node in which another node takes over its calls.
TAKEOVER = 9.0


class Traffic:
    def __init__(self, world, users, rate):
        self.world, self.rate, self.random = world, rate, world.random
        self.devices = [world.phones.add(f"t{number}") for number in range(users)]
        self.free = list(self.devices)
        self.newcomers, self.calls, self.number = [], [], 0
        self.is_running, self.away = False, []
        self.count = collections.Counter()
        for turn, node in enumerate("ab"):
            world.phones.register_all(self.devices[turn::2], node)

    def begin(self):
        self.is_running = True
        self.call()
        self.newcomer()

    def stop(self):
        """Ends the traffic, and waits until all calls have ended."""
        self.is_running = False
        world = self.world
        limit = time.monotonic() + RING_TIMEOUT + 2 * TAKEOVER
        world.loop.run(limit - time.monotonic(), lambda: all(call.finals for call in self.calls) and all(n.acknowledged for n in self.newcomers))
        world.loop.run(2)

    def node(self):
        return self.random.choice(self.world.living() or ["a"])

    def newcomer(self):
        """Registers a phone that no node knows, and that nobody calls."""
        if not self.is_running:
            return
        device = self.world.phones.add(f"new{len(self.newcomers)}")
        device.register(self.node())
        self.newcomers.append(device)
        self.world.loop.at(0.1, self.newcomer)

    def call(self):
        if not self.is_running:
            return
        self.world.loop.at(self.random.expovariate(self.rate), self.call)
        if not self.free:
            self.count["no phone free"] += 1
            return
        device = self.free.pop(self.random.randrange(len(self.free)))
        self.number += 1
        kind = self.random.choice(KINDS)
        call = self.world.pbx.call(device.user, self.node(), f"t-{self.number}-{device.user}", kind, tries_other=True)
        self.calls.append(call)
        device.on_push = lambda pushed: self.pushed(device, pushed)
        call.on_invite = self.invited
        call.on_final = lambda status: self.ended(call, device, status)
        if kind == "cancelled":
            self.world.loop.at(self.random.uniform(0.1, 2.0), call.cancel)
        if kind == "unheard":
            # A phone that rings is not the daemon's to end.
            self.world.loop.at(RING_TIMEOUT + TAKEOVER, call.cancel)
        # A call without any trace is not made again, because its node was killed before it had read the INVITE.
        self.world.loop.at(RING_TIMEOUT + 2 * TAKEOVER, lambda: call.finals or self.release(device))

    def pushed(self, device, call):
        if call and call.kind != "unheard" and not call.finals:
            self.world.loop.at(self.random.uniform(0.01, 0.3), lambda: device.register(self.node()))

    def invited(self, leg):
        world, call = self.world, leg.call
        if call.kind == "unheard":
            # The phone's owner does not hear the phone either.
            return leg.ring()
        world.loop.at(self.random.uniform(0.005, 0.05), leg.ring)
        if call.kind == "answered":
            world.loop.at(self.random.uniform(0.1, 1.0), lambda: leg.answer(200))
        elif call.kind == "declined":
            world.loop.at(self.random.uniform(0.1, 1.0), lambda: leg.answer(486))

    def ended(self, call, device, status):
        if status == 200:
            self.world.loop.at(self.random.uniform(0.1, 1.0), call.hang_up)
        self.world.loop.at(2.5, lambda: self.release(device))

    def release(self, device):
        if device not in self.free:
            self.free.append(device)

    # --- the judgement

    def judge(self, ends):
        """Complains about calls and contacts. `ends` has the times at which a node or the primary ended."""
        for call in self.calls:
            self.judge_call(call, ends)
        stored = set(self.world.query("SELECT convert_from(username, 'UTF8') FROM binding").split())
        acknowledged = [device.user for device in self.devices + self.newcomers if device.acknowledged]
        lost = [user for user in acknowledged if user not in stored]
        if lost:
            self.world.complain(f"{len(lost)} acknowledged contacts are lost, such as {lost[:3]}")
        waiting = [device.user for device in self.newcomers if not device.acknowledged]
        if waiting:
            self.world.complain(f"{len(waiting)} new phones got no 200 to the end, such as {waiting[:3]}")
        return len(acknowledged)

    def judge_call(self, call, ends):
        world = self.world
        over = call.over_at or time.monotonic()
        around = [end for end in ends if call.begun - TAKEOVER <= end <= over + TAKEOVER]
        if not call.finals:
            if call.pushes or call.invites:
                self.count["without an end"] += 1
                return world.complain(f"a call without an end: {call.describe()}")
            self.count["ended with their node before it had read them"] += 1
            return
        self.count[f"{call.kind}: {call.status}"] += 1
        if call.status not in WANTED[call.kind]:
            if call.status == 503 and self.was_away(call.begun, over):
                self.count["503 while the database was away"] += 1
            elif not (call.kind == "cancelled" and call.status in (480, 408) and around):
                world.complain(f"{call.status} instead of {WANTED[call.kind]}: {call.describe()}")
        if len(call.finals) > 1:
            self.complain_or_count("ended twice", call, around)
        if call.doubled:
            ended = [end for end in ends for when, first, _ in call.doubled if first - TAKEOVER <= end <= when]
            self.complain_or_count("the phone got the INVITE twice", call, ended or call.moved)
        if len(call.pushes) > 1 + len(around):
            world.complain(f"{len(call.pushes)} pushes: {call.describe()}")
        if len(call.pushes) > 1:
            self.count["pushed again"] += 1
        if call.kind == "answered" and call.status == 200 and call.bye_status != 200:
            self.complain_or_count(f"the BYE got {call.bye_status}", call, around)
        late = [when for when, _, _ in call.invites if call.over_at and when > call.over_at + 1.0]
        if late:
            self.complain_or_count("the phone got an INVITE after the end of the call", call, around)

    def complain_or_count(self, what, call, excuse):
        """Counts only, if the limits in docs/Cluster.md admit this around the end of a node."""
        if excuse:
            self.count[what + " around the end of a node"] += 1
        else:
            self.world.complain(f"{what}: {call.describe()}")

    def was_away(self, begin, end):
        return any(first - 1 <= end and begin <= last + 6 for first, last in self.away)

    def told(self):
        return "\n".join(f"  {count:6} {what}" for what, count in sorted(self.count.items()))
