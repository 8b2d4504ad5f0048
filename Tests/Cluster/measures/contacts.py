"""Very many contacts in the database: the time of a look-up, the size of a contact, and the memory of a node."""

import os
import random
import time

from . import say, times
from place import SERVERS, NODES

SETTINGS = "call:\n    pushes-per-device: 0\n"
# The promises of docs/Cluster.md.
LOOKUP, SIZE = 0.002, 700
# The calls of users whom no node has read before.
CALLS = 500
# The model of all contacts. Each copy has a name of the same length.
MODEL = "c0000000"
FIRST = 1 << 62
# The daemon's question for one user.
QUESTION = r"""\set n random(1, {count})
SELECT b.* FROM (SELECT * FROM unnest(ARRAY[('c' || lpad(:n::text, 7, '0'))::bytea], ARRAY['example.net'::bytea]) AS u(username, domain)) AS u
JOIN binding b ON b.domain = u.domain AND b.username = u.username ORDER BY b.id;
"""


def run(world, count=1000000):
    model = world.phones.add(MODEL)
    model.register("b")
    world.run_until(lambda: model.acknowledged, "no 200 for the model", 10)
    world.loop.run(1)
    before = {node: memory(world, node) for node in NODES}
    fill(world, count)
    size = int(world.query("SELECT pg_total_relation_size('binding')"))
    say(f"{count} contacts of {size / (count + 1):.0f} bytes with their indexes, {size / 1e6:.0f} MB altogether")

    took = lookups(world, count)
    say(times("look-up of a user by SQL, one connection", took))
    filled = {node: memory(world, node) for node in NODES}
    pushed = calls(world, count)
    say(times(f"from the INVITE at node a to the push, for {len(pushed)} users whom no node has read", pushed))
    called = {node: memory(world, node) for node in NODES}
    for node in NODES:
        world.terminate(node)
    for node in NODES:
        say(f"node {node} takes requests {world.restart(node):.1f} s after its start with {count} contacts")
    world.loop.run(1)
    started = {node: memory(world, node) for node in NODES}
    for node in NODES:
        say(f"memory of node {node}: {before[node]} KiB with one contact, {filled[node]} KiB with all, {called[node]} KiB after the calls, "
            f"{started[node]} KiB after a restart")

    if took[int(len(took) * 0.99)] > LOOKUP:
        world.complain(f"the p99 of look-ups is longer than {LOOKUP * 1000:.0f} ms")
    if size / count > SIZE and count >= 10000:
        world.complain(f"a contact takes more than {SIZE} bytes")
    if max(filled.values()) - min(before.values()) > 20000 or max(started.values()) - min(before.values()) > 20000:
        world.complain("a node holds contacts in memory that it was not asked about")
    world.settle()
    say(f"The nodes call any of {count} users, and hold none of the contacts that they have not read.")


def fill(world, count):
    """Multiplies the row that the daemon has written."""
    begin = time.monotonic()
    columns = world.query("SELECT string_agg(column_name, ',' ORDER BY ordinal_position) FROM information_schema.columns "
                          "WHERE table_name = 'binding' AND table_schema = current_schema()").split(",")
    name = "('c' || lpad(n::text, 7, '0'))"
    changed = {"id": f"{FIRST} + n", "username": f"{name}::bytea", "call_id": f"('r-' || {name})::bytea",
               "contact": f"replace(convert_from(contact, 'UTF8'), '{MODEL}', {name})::bytea"}
    values = ", ".join(changed.get(column, column) for column in columns)
    step = 100000
    for first in range(1, count + 1, step):
        world.query(f"INSERT INTO binding SELECT {values} FROM binding, generate_series({first}, {min(first + step - 1, count)}) AS n "
                    f"WHERE username = '{MODEL}'")
    world.query("VACUUM ANALYZE binding")
    say(f"{count} contacts written in {time.monotonic() - begin:.0f} s")


def lookups(world, count):
    """The times of look-ups in seconds, measured by pgbench over TCP."""
    database = world.database
    script = world.place.write(QUESTION.format(count=count), "lookup.sql")
    folder = world.place.path("lookups")
    os.makedirs(folder, exist_ok=True)
    words = [os.path.join(database.programs, "pgbench"), "-n", "-M", "prepared", "-T", "10", "-l", "--log-prefix", os.path.join(folder, "log"),
             "-f", script, "-h", SERVERS[database.writer], "-p", str(database.port), "-U", "sippushd", "sippushd"]
    from place import run as run_program
    run_program(words, env=database.environment)
    took = []
    for name in os.listdir(folder):
        with open(os.path.join(folder, name)) as file:
            took += [int(line.split()[2]) / 1e6 for line in file]
    return sorted(took)


def calls(world, count):
    """Calls users whom no node has read yet. Each phone registers by its push, and is busy."""
    chance, took = random.Random(1), []
    for number in chance.sample(range(1, count + 1), min(CALLS, count)):
        device = world.phones.add(f"c{number:07}")
        # The CSeq must be above the CSeq of the model.
        device.number = 1
        device.on_push = lambda _, device=device: device.register("b")
        call = world.pbx.call(device.user, "a", f"call-{device.user}", "declined")
        call.on_invite = lambda leg: leg.answer(486)
        world.run_until(lambda: call.finals, lambda: f"a call has no end: {call.describe()}", 20)
        if call.status != 486 or not call.pushes:
            world.complain(f"{call.status}: {call.describe()}")
        took.append(call.pushes[0] - call.wall if call.pushes else 0.0)
        world.loop.run(0.05, lambda: not device.waiting)
        device.close()
    return took


def memory(world, node):
    with open(f"/proc/{world.place.running[node].pid}/status") as file:
        return int(next(line.split()[1] for line in file if line.startswith("VmRSS")))
