"""Measures a cluster of two nodes and two PostgreSQL servers on this machine; docs/Cluster.md has the figures.

    python3 Tests/Cluster/figures.py MEASUREMENT [NUMBERS]

    wake [CALLS]            how fast a REGISTER at node b wakes an INVITE at node a
    failovers [ROUNDS]      whether a failover of the database loses acknowledged contacts
    kill [PHONES] [CALLS]   the end of a node with phones and held calls by kill -9
    races [RACES] [SEED]    INVITEs at node a and REGISTERs at node b within a millisecond
    cut link|database|both [SECONDS]    calls and REGISTERs while the nodes cannot reach one another, the database, or neither; needs root
    upgrade [ROUNDS]        restarts of one node after the other under calls; with OLD_BINARIES, the nodes begin with these programs, each
                            odd round upgrades the nodes, and each even round goes back
    chaos [ROUNDS] [SEED]   kill -9 of nodes and of the primary at random instants under calls
    contacts [COUNT]        look-ups, size of a contact and memory of the nodes with very many contacts in the database
    tls                     TLS to the database with the check of its name, and a start without a database

BINARIES names the folder with the programs, RUN_FOLDER a folder for files (default: run). The figures depend on the machine, and on
what else runs there. The script fails only if something is lost, doubled or wrong, or later than docs/Cluster.md promises.
"""

import importlib
import signal
import sys

sys.dont_write_bytecode = True

import network  # noqa: E402
from place import Trouble  # noqa: E402
from world import World  # noqa: E402

MEASUREMENTS = ("wake", "failovers", "kill", "races", "cut", "upgrade", "chaos", "contacts", "tls")


def main(name, *words):
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: sys.exit(130))
    measure = importlib.import_module(f"measures.{name}")
    if getattr(measure, "CUTS", False):
        network.enter()
    numbers = [int(word) if word.isdigit() else word for word in words]
    world = None
    try:
        world = World(getattr(measure, "SETTINGS", ""), measure.seed(*numbers) if hasattr(measure, "seed") else 1)
        if hasattr(measure, "prepare"):
            measure.prepare(world)
        world.start()
        measure.run(world, *numbers)
    except Trouble as trouble:
        print(f"figures: {trouble}", file=sys.stderr)
        return 1
    finally:
        # A second Ctrl-C must not leave programs behind.
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        if world:
            world.end()
    return 0


if __name__ == "__main__":
    if len(sys.argv) < 2 or sys.argv[1] not in MEASUREMENTS:
        print(__doc__.strip(), file=sys.stderr)
        sys.exit(64)
    sys.exit(main(*sys.argv[1:]))
