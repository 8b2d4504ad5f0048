"""Node a is killed with the flows of all phones, and while calls of a PBX wait there."""

import time

from . import say, times

# The seconds after the kill in which each phone must get a push.
REACHABLE = 35.0
SETTINGS = "call:\n    pushes-per-device: 0\n"
# The ends of the held calls in turn: the phone answers, the phone declines, the caller gives up.
KINDS = ("answered", "answered", "declined", "cancelled")
WANTED = {"answered": 200, "declined": 486, "cancelled": 487}


def run(world, phones=5000, held=500):
    devices = [world.phones.add(f"k{number}") for number in range(phones)]
    start = time.monotonic()
    world.phones.register_all(devices, "a")
    say(f"{phones} phones registered at node a in {time.monotonic() - start:.1f} s")

    calls = []
    for number, device in enumerate(devices[:held]):
        calls.append(world.pbx.call(device.user, "a", f"held-{device.user}", KINDS[number % len(KINDS)]))
        world.loop.run(0.001)
    world.run_until(lambda: all(call.pushes for call in calls),
                    lambda: f"{sum(not call.pushes for call in calls)} of {held} held calls have no push", 30)
    say(f"{held} calls wait at node a, each with its push")

    for call, device in zip(calls, devices):
        device.on_push = lambda _, call=call, device=device: returns(world, call, device)
        call.on_invite = lambda leg: rings(world, leg)
    first = {call: len(call.pushes) for call in calls}
    world.kill("a")
    killed = time.monotonic()
    wall = time.time()

    # Every other phone gets a call at node b. It registers there by its push, and is busy.
    late = []
    rest = devices[held:]
    for number, device in enumerate(rest):
        device.on_push = lambda _, device=device: device.register("b")
        call = world.pbx.call(device.user, "b", f"late-{device.user}", "declined")
        call.on_invite = lambda leg: leg.answer(486)
        late.append(call)
        # The calls come within twenty seconds.
        world.loop.run(max(0.0, killed + 20.0 * (number + 1) / len(rest) - time.monotonic()))
    world.run_until(lambda: all(call.finals for call in late + calls), lambda: unfinished(late + calls), 60)
    # BYEs of the answered calls, and INVITEs that come twice.
    world.loop.run(2)

    pushed = [max(call.pushes[:1]) - wall for call in late if call.pushes]
    again = [call.pushes[first[call]] - wall for call in calls if len(call.pushes) > first[call]]
    say(times("from kill -9 of node a to the second push of a held call", again))
    if late:
        say(times("from a call at node b to the push, after the kill", [call.pushes[0] - call.wall for call in late if call.pushes]))
        say(f"{len(pushed)} of {len(rest)} other phones got a push for a call at node b, the last {max(pushed, default=0):.1f} s after the kill")
    counts = {}
    for call in calls + late:
        counts[call.status] = counts.get(call.status, 0) + 1
        if call.status != WANTED[call.kind]:
            world.complain(f"{call.status} instead of {WANTED[call.kind]}: {call.describe()}")
        if len({final for final in call.finals}) > 1:
            world.complain(f"ended twice: {call.finals} {call.describe()}")
        if call.doubled:
            world.complain(f"the phone got the INVITE twice: {call.describe()}")
        if call.kind == "answered" and call.bye_status != 200:
            world.complain(f"the BYE got {call.bye_status}: {call.describe()}")
        if not call.pushes or call in late and call.pushes[0] - wall > REACHABLE:
            world.complain(f"the phone got no push within {REACHABLE:.0f} s: {call.describe()}")
    say("final responses: " + ", ".join(f"{count} times {status}" for status, count in sorted(counts.items(), key=str)))
    world.settle()
    say(f"All {phones} phones can be called, all {held} held calls ended as caller and phone wanted, and no phone got a call twice.")


def returns(world, call, device):
    """The phone gets the push of the node that took the call over, and the caller may give up."""
    if call.kind == "cancelled":
        call.cancel()
    else:
        device.register("b")


def rings(world, leg):
    leg.ring()
    if leg.call.kind == "declined":
        world.loop.at(0.2, lambda: leg.answer(486))
    elif leg.call.kind == "answered":
        leg.call.on_final = lambda status: status == 200 and world.loop.at(0.2, leg.call.hang_up)
        world.loop.at(0.2, lambda: leg.answer(200))


def unfinished(calls):
    left = [call for call in calls if not call.finals]
    return f"{len(left)} of {len(calls)} calls have no end, such as {left[0].describe() if left else ''}"
