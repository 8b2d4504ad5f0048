"""The part of etc/run for --cluster: two servers of PostgreSQL, two nodes and the push sandbox on loopback addresses.

    cluster.py FOLDER BINARIES [--demo]      FOLDER has the lock of etc/run, BINARIES the programs
"""

import os
import signal
import sys
import time

sys.dont_write_bytecode = True

from database import Database  # noqa: E402
from nodes import Nodes  # noqa: E402
from place import NODES, SANDBOX, SERVERS, Place, Trouble  # noqa: E402
from story import Story  # noqa: E402


def main(folder, binaries, demo):
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: sys.exit(130))
    place = Place(folder, binaries)
    database = None
    try:
        place.empty()
        database = Database(place)
        place.check_ports()
        nodes = Nodes(place, database)
        timed("PostgreSQL, a primary and a synchronous standby: started", database.start)
        timed("The push sandbox and two nodes: started", nodes.start)
        if demo:
            title(4, "The story: a phone, two nodes, a failover")
            Story(place, database, nodes).play()
            title(5, "What next")
            say_what_next_after_demo(place)
        else:
            title(4, "What next")
            say_what_next(place, database, nodes)
            return watch(place, database, nodes)
    except Trouble as trouble:
        print(f"etc/run --cluster: {trouble}", file=sys.stderr)
        if place.running:
            print(f"The logs are in {shown(place.folder)}.", file=sys.stderr)
        return 1
    finally:
        # A second Ctrl-C must not leave programs behind.
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        place.stop()
        if database:
            database.remove()
    return 0


def title(number, text):
    print(f"\n== {number}. {text}", flush=True)


def timed(what, work):
    start = time.monotonic()
    work()
    print(f"{what} in {time.monotonic() - start:.1f} s", flush=True)


def shown(path):
    """The path as it is shortest from here."""
    return min(path, os.path.relpath(path), key=len)


def say_what_next(place, database, nodes):
    sip, process = place.ports["SIP_PORT"], {name: one.pid for name, one in place.running.items()}
    sippushd = shown(place.program("sippushd"))
    for name, address, words in (
            ("primary", f"{SERVERS['primary']}:{database.port}", "PostgreSQL, takes all commits"),
            ("standby", f"{SERVERS['standby']}:{database.port}", "PostgreSQL, confirms each commit"),
            ("a", f"{NODES['a']}:{sip}", "node a, UDP and TCP"), ("b", f"{NODES['b']}:{sip}", "node b, UDP and TCP"),
            ("push-sandbox", f"{SANDBOX}:{place.ports['FCM_PORT']}", "in place of Apple and Google")):
        print(f"  {name:12}  {address:16} process {process[name]:<7}  {words}")
    print(f"""
Ctrl-C ends all of them. In another terminal:

  sip-scenarios/replay story --target {NODES["a"]}:{sip} --record {shown(place.path("pushes.jsonl"))} --config {shown(nodes.config("a"))}
      a call wakes a sleeping phone at node a, with its ladder
  {sippushd} held list --config {shown(nodes.config("a"))}    calls that wait at both nodes, asked at node a
  tail -f {shown(place.path("pushes.jsonl"))}    every push that a provider would have got
  tail -f {shown(place.path("a.log"))} {shown(place.path("b.log"))}    what the nodes say
  kill -9 {process["b"]}    node b ends; its phones register at node a
  {sippushd} serve --config {shown(nodes.config("b"))}    node b starts again
  kill -9 {process["primary"]}    the primary ends; this script promotes the standby

Register any softphone, without a password, as sip:bob@example.net through the proxy {NODES["b"]}:{sip}. Call
sip:bob@example.net through the proxy {NODES["a"]}:{sip}. etc/run --cluster --demo plays such calls.""", flush=True)


def say_what_next_after_demo(place):
    print(f"""\
  etc/run --cluster            the same servers and nodes, until Ctrl-C, for phones of yours
  docs/Cluster.md              how to set up nodes on several machines
  less {shown(place.path("a.log"))}     what node a said""", flush=True)


def watch(place, database, nodes):
    """Reports programs that end, and promotes the standby in place of a failover manager."""
    while place.running:
        for name, process in list(place.running.items()):
            if process.poll() is None:
                continue
            del place.running[name]
            print(f"{name} (process {process.pid}) has ended.", flush=True)
            if name == "primary" and "standby" in place.running:
                timed("The standby is promoted", database.promote)
                print("The promoted server has no standby: its synchronous_standby_names is empty, so that commits do not wait.",
                      flush=True)
        time.sleep(0.1)
    print("No program runs any more.", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2], "--demo" in sys.argv[3:]))
