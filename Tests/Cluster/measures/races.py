"""An INVITE comes to node a, and a REGISTER of the called phone to node b, within a millisecond, in random order."""

import time

from . import say, times
from place import Trouble

SETTINGS = "call:\n    pushes-per-device: 0\n"
# The number of races at the same time, each with a user of its own.
SLOTS = 40
# The longest time from the REGISTER after the push to the INVITE. The call's node reads the contacts four times a second, even if
# the NOTIFY of the phone's node is lost (docs/Cluster.md). The rest of the time is for a busy machine.
LATE = 1.5


class Slot:
    """One user, who has one race after the other."""

    def __init__(self, races, device):
        self.races, self.world, self.device = races, races.world, device

    def begin(self):
        races, world = self.races, self.world
        number = races.next()
        if number is None:
            return
        self.call = None
        gap = world.random.uniform(0, 0.001)
        invites_first = world.random.random() < 0.5
        # In half of the races, the phone does what RFC 8599 demands: it registers as soon as it gets the push.
        self.delay = 0.0 if world.random.random() < 0.5 else 0.5
        self.device.on_push = self.pushed
        self.started, self.second = time.monotonic(), None

        def invite():
            self.call = world.pbx.call(self.device.user, "a", f"race-{number}", "declined")
            self.call.on_invite, self.call.on_final = self.rings, self.ended

        steps = [invite, lambda: self.device.register("b")]
        for step in steps if invites_first else reversed(steps):
            step()
            time.sleep(gap)
            gap = 0
        races.count["INVITE first" if invites_first else "REGISTER first"] += 1
        world.loop.at(12.0, lambda call=self.call: self.check(call))

    def pushed(self, call):
        if call is self.call:
            self.world.loop.at(self.delay, lambda: self.registers_again(call))

    def registers_again(self, call):
        if call is self.call and not call.invites:
            self.second = time.monotonic()
            self.device.register("b")

    def rings(self, leg):
        if self.second:
            took = time.monotonic() - self.second
            self.races.after_second.append(took)
            self.races.count["woken by the REGISTER after the push"] += 1
            if took > LATE:
                self.races.late += 1
                self.world.complain(f"a late wake: {leg.call.describe()}")
        else:
            self.races.after_first.append(time.monotonic() - self.started)
            self.races.count["woken by the REGISTER of the race"] += 1
        # The phone rings for a moment, in which a second INVITE may come.
        self.world.loop.at(0.15, lambda: leg.answer(486))

    def ended(self, status):
        call = self.call
        self.races.statuses[status] += 1
        self.races.done += 1
        self.world.loop.at(0.05, lambda: self.finish(call))

    def finish(self, call):
        if status_is_wrong(call) or call.doubled:
            self.world.complain(("the phone got the INVITE twice: " if call.doubled else "") + call.describe())
        self.races.doubled += bool(call.doubled)
        del self.world.calls[call.id]
        self.device.legs.pop(call.id, None)
        self.begin()

    def check(self, call):
        """A call without an end after so long is a lost wake."""
        if not call.finals:
            self.races.lost += 1
            self.races.done += 1
            self.world.complain(f"a lost wake: {call.describe()}")
            call.cancel()
            self.world.loop.at(1.0, self.begin)


def status_is_wrong(call):
    return call.status != 486 or not call.invites


class Races:
    def __init__(self, world, total):
        import collections
        self.world, self.total, self.started, self.done = world, total, 0, 0
        self.lost = self.late = self.doubled = 0
        self.count, self.statuses = collections.Counter(), collections.Counter()
        self.after_first, self.after_second = [], []

    def next(self):
        if self.started == self.total:
            return None
        self.started += 1
        return self.started


def run(world, total=10000):
    devices = [world.phones.add(f"r{number}") for number in range(SLOTS)]
    world.phones.register_all(devices, "b")
    races = Races(world, total)
    begin = time.monotonic()
    for number, device in enumerate(devices):
        world.loop.at(0.01 * number, Slot(races, device).begin)
    shown = 0
    while races.done < total:
        before = races.done
        world.run_until(lambda: races.done > before, "no race has ended", 30)
        if races.done // 1000 > shown:
            shown = races.done // 1000
            say(f"  {races.done} races, {len(world.complaints)} complaints")
    say(f"{total} races in {time.monotonic() - begin:.0f} s: " + ", ".join(f"{count} {what}" for what, count in sorted(races.count.items())))
    say(times("from the beginning of a race to the INVITE, without a second REGISTER", races.after_first))
    say(times("from the REGISTER after the push to the INVITE", races.after_second))
    say(f"{races.lost} lost wakes, {races.late} late wakes, {races.doubled} doubled INVITEs; final responses: "
        + ", ".join(f"{count} times {status}" for status, count in sorted(races.statuses.items())))
    world.settle()
    if races.lost or races.doubled:
        raise Trouble("a wake is lost or an INVITE doubled")
    say(f"No wake of {total} races is lost or late, and no phone got a call twice.")
