"""The nodes are restarted one after the other under calls, as for an upgrade.

If OLD_BINARIES names a folder with an older version, the nodes begin with this version. The first round upgrades one node after the
other, the next round goes back, and so on."""

import os
import time

from . import say
from place import NODES, Trouble
from traffic import SETTINGS, Traffic  # noqa: F401

RATE = 20
USERS = 400
# The seconds without a node, and with both nodes before the next restart.
STOPPED, BOTH = 3.0, 4.0


OLD = os.environ.get("OLD_BINARIES")


def prepare(world):
    if OLD:
        world.nodes.folders = dict.fromkeys(NODES, OLD)


def run(world, rounds=2, rate=RATE):
    traffic = Traffic(world, USERS, rate)
    traffic.begin()
    world.loop.run(BOTH)
    ends, begun = [], time.monotonic()
    for number in range(rounds):
        for node in NODES:
            if OLD:
                world.nodes.folders[node] = OLD if number % 2 else None
            took = world.terminate(node)
            ends += [time.monotonic() - took, time.monotonic()]
            world.loop.run(STOPPED)
            ready = world.restart(node)
            version = "" if not OLD else " with the old version" if number % 2 else " with the new version"
            say(f"node {node} stopped after {took:.1f} s, and takes requests {ready:.1f} s after its start{version}")
            world.loop.run(BOTH)
    lasted = time.monotonic() - begun
    traffic.stop()
    contacts = traffic.judge(ends)
    say(f"{2 * rounds} restarts in {lasted:.0f} s, {len(traffic.calls)} calls:")
    say(traffic.told())
    world.settle()
    left = traffic.count["without an end"] + traffic.count["ended with their node before it had read them"]
    if left:
        raise Trouble(f"{left} calls have no end")
    say(f"No call is without an end, and none of {contacts} acknowledged contacts is lost.")
