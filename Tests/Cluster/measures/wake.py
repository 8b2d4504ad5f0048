"""How fast a REGISTER at node b wakes an INVITE at node a, beside 1,000 REGISTERs a second of other phones."""

import time

from . import say, times
from load import Load

SETTINGS = "call:\n    pushes-per-device: 0\n"
# The REGISTERs a second of other phones.
RATE = 1000


def run(world, calls=500, rate=RATE):
    running = Load(rate, list(world.doors.values()), "load", users=2000)
    devices = [world.phones.add(f"w{number}") for number in range(calls)]
    world.loop.run(3)
    took, pushed = [], []
    try:
        for device in devices:
            device.register("b")
            world.run_until(lambda: not device.waiting, "no 200 for a REGISTER", 10)
            call = world.pbx.call(device.user, "a", f"call-{device.user}", "declined")
            call.on_invite = lambda leg: leg.answer(486)
            world.run_until(lambda: call.pushes, "no push for a call", 10)
            pushed.append(call.pushes[0] - call.wall)
            begin = time.monotonic()
            device.register("b")
            world.run_until(lambda: call.invites, lambda: f"a call did not reach its phone: {call.describe()}", 10)
            took.append(call.invites[0][0] - begin)
            world.run_until(lambda: call.finals, "a call has no end", 10)
    finally:
        sent, acknowledged, statuses = running.stop()
    say(f"beside {sent} REGISTERs of {len(acknowledged)} other phones, answered "
        + ", ".join(f"{count} times {status}" for status, count in sorted(statuses.items())))
    say(times("from the INVITE to the push", pushed))
    say(times("from the REGISTER at b to the INVITE at the phone", took))
    say(f"All {calls} calls reached their phones.")
