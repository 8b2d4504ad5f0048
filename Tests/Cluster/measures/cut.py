"""The nodes cannot reach one another, the database, or neither, for some time."""

import collections
import re
import time

import network
from . import say, times
from place import NODES

SETTINGS = "call:\n    pushes-per-device: 0\n"
CUTS = True
# The promised limit of a wake without a NOTIFY, in seconds.
POLLING = 0.3
# The seconds after a cut within which everything works again.
RECOVERY = 15.0
KNOWN = 40
SETTLED = 2.0


def run(world, what="link", seconds=60):
    if what in ("link", "both"):
        polling(world, seconds)
    for cut in ("link", "database", "both"):
        if what == cut:
            outage(world, cut, seconds)
    world.settle()
    say("Nothing false happened during the cut, and everything works after it.")


class Callee:
    """One user, whom the PBX calls again and again. The phone registers upon each push, and is busy."""

    def __init__(self, world, name, node):
        self.world, self.device, self.node, self.number = world, world.phones.add(name), node, 0

    def call(self, at, visits, wait=0.0, limit=9.0):
        """Calls the user at a node. The phone registers at the nodes `visits`, one after the other, upon its push."""
        self.number += 1
        call = self.world.pbx.call(self.device.user, at, f"{self.device.user}-{self.number}", "declined")
        call.at, call.visits, call.registers = at, visits, []
        call.on_invite = lambda leg: leg.answer(486)
        call.is_free = False

        def visit(index):
            if index < len(visits) and not call.invites:
                call.registers.append(time.monotonic())
                self.device.register(visits[index], insists=False)
                self.world.loop.at(1.0, lambda: visit(index + 1))

        self.device.on_push = lambda pushed: pushed is call and not call.registers and self.world.loop.at(wait, lambda: visit(0))
        self.world.loop.at(limit, lambda: call.finals or call.cancel())
        return call


def finish(world, calls, limit=15):
    world.run_until(lambda: all(call.finals for call in calls),
                    lambda: "calls have no end: " + "; ".join(call.describe() for call in calls if not call.finals)[:1500], limit)


def judge(world, call, wanted=(486,)):
    if call.status not in wanted:
        world.complain(f"{call.status} instead of {wanted}: {call.describe()}")
    if call.doubled:
        world.complain(f"the phone got the INVITE twice: {call.describe()}")


def polling(world, seconds):
    """The NOTIFYs of node b are lost, so node a finds the contacts by its polls."""
    callees = [Callee(world, f"poll{number}", "b") for number in range(KNOWN)]
    world.phones.register_all([one.device for one in callees], "b")
    cut = network.Cut(*network.notices_of_b(world.place.ports)).begin()
    calls, end, turns = [], time.monotonic() + seconds, collections.deque((one, None) for one in callees)
    try:
        while time.monotonic() < end:
            # A REGISTER wakes all calls of its user. So a user gets the next call only after the end of the last one.
            one, last = turns.popleft()
            if not last or last.finals:
                # The phone returns at any time between two polls.
                last = one.call("a", ["b"], world.random.uniform(0.05, 0.55))
                calls.append(last)
            turns.append((one, last))
            world.loop.run(0.05)
        finish(world, calls)
    finally:
        cut.end()
    for call in calls:
        judge(world, call)
        if call.invites and not call.registers:
            world.complain(f"the phone got the INVITE before its REGISTER: {call.describe()}")
    woken = sorted((call for call in calls if call.invites and call.registers), key=waited)
    say(times(f"without NOTIFYs of node b for {seconds} s, from the REGISTER at b to the INVITE of the call at a", map(waited, woken)))
    if woken and waited(woken[int(len(woken) * 0.99)]) > POLLING:
        world.complain(f"the p99 of wakes by polling is longer than {POLLING * 1000:.0f} ms, such as {woken[-1].describe()}")
    # The nodes connect again.
    world.loop.run(SETTLED)


def waited(call):
    """The seconds from the REGISTER to the INVITE."""
    return call.invites[0][0] - call.registers[0]


def outage(world, what, seconds):
    link, database = what in ("link", "both"), what in ("database", "both")
    callees = [Callee(world, f"{node}{number}", node) for node in NODES for number in range(KNOWN // 2)]
    for node in NODES:
        world.phones.register_all([one.device for one in callees if one.node == node], node)
    # Each node has read each user once.
    for node in NODES:
        calls = [one.call(node, [one.node]) for one in callees]
        finish(world, calls)
        for call in calls:
            judge(world, call)
    ports = world.place.ports
    cut = network.Cut(*(network.link(ports) if link else []), *(network.database(ports) if database else [])).begin()
    begun, wall = time.monotonic(), time.time()
    same, across, strangers, refreshes, late = [], [], [], [], []
    try:
        turn = 0
        while time.monotonic() < begun + seconds:
            one, node = callees[turn % len(callees)], "ab"[turn % 2]
            if turn // 2 % 2 == 0:
                same.append(one.call(one.node, [one.node]))
            elif link:
                # The phone moves to the node of the call, where a REGISTER needs the database.
                other = "b" if one.node == "a" else "a"
                across.append(one.call(other, [one.node, other]))
            else:
                across.append(one.call("b" if one.node == "a" else "a", [one.node]))
            new = world.phones.add(f"n{what}{turn}")
            new.register(node, insists=False)
            new.asked = time.monotonic()
            strangers.append(new)
            turn += 1
            world.loop.run(0.25)
        finish(world, same + across, 60)
        world.run_until(lambda: not any(new.waiting for new in strangers), "REGISTERs have no answer", 20)
        say(f"cut for {time.monotonic() - begun:.0f} s: " + ", ".join(network_words(link, database)))
    finally:
        cut.end()
    ended = time.monotonic()
    lines(world, wall, time.time())

    for call in same:
        judge(world, call)
    for call in across:
        # Without the database, no node learns that something waits at the other node (docs/Cluster.md). Such a call waits until the
        # PBX gives up.
        judge(world, call, (486,) if not database else (486, 487))
    counts = collections.Counter(new.last_status for new in strangers)
    say(f"{len(same)} calls at the phones' own nodes: " + shown(same))
    say(f"{len(across)} calls at the other nodes: " + shown(across))
    say(f"{len(strangers)} REGISTERs of new phones: " + ", ".join(f"{count} times {status}" for status, count in counts.items()))
    if database:
        wrong = [new.user for new in strangers if new.last_status != 503]
    else:
        wrong = [new.user for new in strangers if new.last_status != 200]
    if wrong:
        world.complain(f"{len(wrong)} REGISTERs of new phones got {counts}")
    recover(world, ended, callees, strangers, database)


def network_words(link, database):
    return ["the link between the nodes"] * link + ["the way of both nodes to the database"] * database


def shown(calls):
    counts = collections.Counter(call.status for call in calls)
    return ", ".join(f"{count} times {status}" for status, count in sorted(counts.items(), key=str))


def lines(world, begin, end):
    """The log of each node has each kind of line at most once a second. Some lines of a kind may come at once at the beginning."""
    for node in NODES:
        stamps = re.findall(r"(?m)^\d+-\d+-\d+T(\d+):(\d+):(\d+)\S* (\w+) (.*)", world.place.log(node))
        day = begin - begin % 86400
        inside = [(int(h) * 3600 + int(m) * 60 + int(s) + day, text) for h, m, s, level, text in stamps]
        inside = [(when, text) for when, text in inside if begin - 1 <= when <= end]
        each = collections.Counter(when for when, _ in inside)
        most = max(each.values(), default=0)
        say(f"node {node} wrote {len(inside)} lines into its log in {end - begin:.0f} s, at most {most} in a second")
        kinds = collections.Counter(re.split(r" [\w-]+=", text)[0] for _, text in inside)
        often = {kind: count for kind, count in kinds.items() if count > end - begin + 10}
        if often:
            world.complain(f"node {node} wrote kinds of lines more than once a second: {often}")


def recover(world, ended, callees, strangers, database):
    """After the cut, everything works again."""
    # A phone that got 503 has no contact, neither in the database nor for calls.
    refused = {new.user for new in strangers if new.last_status == 503}
    newcomers = []
    for node in NODES:
        new = world.phones.add(f"after{node}")
        new.register(node)
        newcomers.append(new)
    world.run_until(lambda: all(new.acknowledged for new in newcomers), "no REGISTER of a new phone gets 200 after the cut", RECOVERY + 10)
    say(f"new phones get 200 at both nodes {max(new.registered_at for new in newcomers) - ended:.1f} s after the cut")
    while True:
        calls = [one.call("b" if one.node == "a" else "a", [one.node], limit=4) for one in callees[:4] + callees[-4:]]
        finish(world, calls)
        if all(call.status == 486 for call in calls):
            break
        if time.monotonic() - ended > RECOVERY:
            world.complain(f"calls at the other node fail {time.monotonic() - ended:.0f} s after the cut: {calls[0].describe()} {shown(calls)}")
            return
    say(f"calls at the other node wake their phones again {time.monotonic() - ended:.1f} s after the cut")
    calls = [one.call("b" if one.node == "a" else "a", [one.node]) for one in callees]
    finish(world, calls)
    for call in calls:
        judge(world, call)
    stored = set(world.query("SELECT convert_from(username, 'UTF8') FROM binding").split())
    if refused & stored:
        world.complain(f"{len(refused & stored)} contacts are stored although their phones got 503")
    lost = {device.user for device in world.phones.devices.values() if device.acknowledged} - stored
    if lost:
        world.complain(f"{len(lost)} contacts are lost although their phones got 200")
