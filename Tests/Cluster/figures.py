"""Measures a cluster of two nodes and two PostgreSQL servers on this machine; docs/Cluster.md has the figures.

    python3 Tests/Cluster/figures.py wake [CALLS]          how fast a REGISTER at node b wakes an INVITE at node a
    python3 Tests/Cluster/figures.py failovers [ROUNDS]    whether a failover of the database loses acknowledged contacts
    python3 Tests/Cluster/figures.py kill [PHONES] [CALLS] what follows when a node with held calls is killed

BINARIES names the folder with the programs, RUN_FOLDER a folder for files (default: run). The figures depend on the machine, and on
what else runs there. The script fails only if something is lost or doubled.
"""

import multiprocessing
import os
import shutil
import socket
import statistics
import sys
import time

sys.dont_write_bytecode = True

from database import Database  # noqa: E402
from nodes import Nodes  # noqa: E402
from place import NODES, SERVERS, Place, Trouble  # noqa: E402

CRLF = "\r\n"


def register(user, local, number, expires=3600):
    host, port = local
    return CRLF.join([
        "REGISTER sip:example.net SIP/2.0", f"Via: SIP/2.0/UDP {host}:{port};rport;branch=z9hG4bKr{user}x{number}", "Max-Forwards: 70",
        f"From: <sip:{user}@example.net>;tag=r", f"To: <sip:{user}@example.net>", f"Call-ID: r-{user}", f"CSeq: {number} REGISTER",
        f"Contact: <sip:{user}@{host}:{port};pn-provider=fcm;pn-param=demo;pn-prid=token-{user}>", f"Expires: {expires}",
        "Content-Length: 0", "", ""]).encode()


def invite(user, local, call_id):
    host, port = local
    body = f"v=0{CRLF}o=- 1 1 IN IP4 {host}{CRLF}s=-{CRLF}c=IN IP4 {host}{CRLF}t=0 0{CRLF}m=audio 4000 RTP/AVP 0{CRLF}"
    return CRLF.join([
        f"INVITE sip:{user}@example.net SIP/2.0", f"Via: SIP/2.0/UDP {host}:{port};rport;branch=z9hG4bKi{call_id}", "Max-Forwards: 70",
        "From: <sip:103@example.net>;tag=c", f"To: <sip:{user}@example.net>", f"Call-ID: {call_id}", "CSeq: 1 INVITE",
        f"Contact: <sip:103@{host}:{port}>", "Content-Type: application/sdp", f"Content-Length: {len(body)}", "", body]).encode()


def reply(request, status):
    """The response to a received request, with the fields that RFC 3261 section 8.2.6 copies."""
    kept = [line for line in request.decode().split(CRLF + CRLF)[0].split(CRLF)[1:]
            if line.split(":")[0].lower() in ("via", "from", "to", "call-id", "cseq", "record-route")]
    kept = [line + ";tag=p" if line.lower().startswith("to:") and ";tag=" not in line else line for line in kept]
    return CRLF.join([f"SIP/2.0 {status}", *kept, "Content-Length: 0", "", ""]).encode()


def field(message, name):
    for line in message.split(b"\r\n"):
        if line.lower().startswith(name + b":"):
            return line.split(b":", 1)[1].strip().decode()
    return ""


class Agent:
    """A UDP socket of phones and callers."""

    def __init__(self, host="127.0.0.1"):
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind((host, 0))
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8 << 20)
        self.local = self.socket.getsockname()

    def send(self, data, to):
        self.socket.sendto(data, to)

    def receive(self, timeout):
        """The next message; `None` after the time limit in seconds."""
        self.socket.settimeout(max(timeout, 0.0001))
        try:
            return self.socket.recvfrom(65536)[0]
        except OSError:
            return None

    def drain(self, handle, until):
        while (left := until - time.monotonic()) > 0:
            message = self.receive(left)
            if message is not None and handle(message):
                return


def load(rate, doors, prefix, users, stop, acknowledged):
    """Registers `users` users in turn, at `rate` REGISTERs a second; without a limit of users, each REGISTER has a new user. Puts the
    users of the 200s into the queue at the end."""
    agent, number, done = Agent(), 0, set()
    start = time.monotonic()
    while not stop.is_set():
        due = int((time.monotonic() - start) * rate)
        while number < due:
            user = f"{prefix}{number % users if users else number}"
            agent.send(register(user, agent.local, number // users + 1 if users else 1), doors[number % len(doors)])
            number += 1
        while (message := agent.receive(0.0005)) is not None:
            if message.startswith(b"SIP/2.0 200"):
                done.add(field(message, b"call-id")[2:])
    agent.drain(lambda m: m.startswith(b"SIP/2.0 200") and done.add(field(m, b"call-id")[2:]), time.monotonic() + 1)
    acknowledged.put((number, sorted(done)))


class Load:
    def __init__(self, rate, doors, prefix, users=0):
        self.stopping, self.queue = multiprocessing.Event(), multiprocessing.Queue()
        self.process = multiprocessing.Process(target=load, args=(rate, doors, prefix, users, self.stopping, self.queue))
        self.process.start()

    def stop(self):
        """Returns the number of sent REGISTERs, and the users whose REGISTER got 200."""
        self.stopping.set()
        result = self.queue.get(timeout=60)
        self.process.join()
        return result


class Cluster:
    def __init__(self):
        folder = os.environ.get("RUN_FOLDER", "run")
        os.makedirs(folder, mode=0o700, exist_ok=True)
        self.place = Place(folder, os.environ.get("BINARIES", ".build/release"))
        self.place.empty()
        self.database = Database(self.place)
        self.place.check_ports()
        self.nodes = Nodes(self.place, self.database)
        self.database.start()
        self.nodes.start()
        self.doors = {node: (host, self.place.ports["SIP_PORT"]) for node, host in NODES.items()}

    def pushes(self):
        return {push["token"]: push for push in self.nodes.pushes() if push.get("status") == 200}

    def end(self):
        self.place.stop()
        self.database.remove()


def line(what, values):
    ordered = sorted(values)
    print(f"{what}: p50 {statistics.median(ordered) * 1000:.1f} ms, p99 {ordered[int(len(ordered) * 0.99)] * 1000:.1f} ms, "
          f"longest {ordered[-1] * 1000:.1f} ms ({len(ordered)} times)", flush=True)


def wake(cluster, calls=500):
    """Each phone registers at b, gets a call at a and so a push, and registers at b again."""
    running = Load(1000, [cluster.doors["a"], cluster.doors["b"]], "load", users=2000)
    phone, caller, took, lost = Agent(), Agent(), [], 0
    time.sleep(3)
    for number in range(calls):
        user = f"w{number}"
        phone.send(register(user, phone.local, 1), cluster.doors["b"])
        phone.drain(lambda m: m.startswith(b"SIP/2.0 200") and field(m, b"call-id") == f"r-{user}", time.monotonic() + 2)
        caller.send(invite(user, caller.local, f"call-{user}"), cluster.doors["a"])
        # The call waits when the caller has the 100 or 180 and the push was sent.
        time.sleep(0.05)
        while phone.receive(0.001) is not None:
            pass
        start, found = time.monotonic(), []
        phone.send(register(user, phone.local, 2), cluster.doors["b"])

        def came(message):
            if message.startswith(b"INVITE ") and field(message, b"call-id") == f"call-{user}":
                found.append(time.monotonic() - start)
                phone.send(reply(message, "486 Busy Here"), cluster.doors["b"])
                return True
            return False

        phone.drain(came, time.monotonic() + 5)
        took += found
        lost += not found
        while caller.receive(0.0005) is not None:
            pass
    sent, acknowledged = running.stop()
    print(f"beside {sent} REGISTERs of {len(acknowledged)} other phones", flush=True)
    line("from the REGISTER at b to the INVITE at the phone", took)
    if lost:
        raise Trouble(f"{lost} of {calls} calls did not reach their phones")


def failovers(cluster, rounds=20):
    """The primary is killed under 500 REGISTERs a second of new phones, and the standby is promoted."""
    primary, standby, lost, total, away = "primary", "standby", 0, 0, []
    database, place = cluster.database, cluster.place
    for number in range(rounds):
        running = Load(500, list(cluster.doors.values()), f"f{number}x")
        time.sleep(2)
        start = time.monotonic()
        place.kill(primary)
        database.run("pg_ctl", "promote", "-D", database.data(standby), "-w", "-t", "30", "-s")
        probe, answered = Agent(), []
        while not answered:
            user = f"p{number}x{int((time.monotonic() - start) * 1000)}"
            probe.send(register(user, probe.local, 1), cluster.doors["a"])
            probe.drain(lambda m: m.startswith(b"SIP/2.0 ") and (m.startswith(b"SIP/2.0 200") and answered.append(1) or True),
                        time.monotonic() + 0.3)
            if not answered:
                time.sleep(0.05)
        away.append(time.monotonic() - start)
        time.sleep(0.5)
        sent, acknowledged = running.stop()
        stored = set(database.query(standby, f"SELECT convert_from(username, 'UTF8') FROM binding WHERE username LIKE 'f{number}x%'").split())
        missing = [user for user in acknowledged if user not in stored]
        lost, total = lost + len(missing), total + len(acknowledged)
        # The old primary becomes the new standby.
        shutil.rmtree(database.data(primary), ignore_errors=True)
        database.run("pg_basebackup", "-h", SERVERS[standby], "-p", str(database.port), "-U", "sippushd", "-D", database.data(primary), "-R",
                     "-c", "fast")
        database.query(standby, "ALTER SYSTEM SET synchronous_standby_names = 'ANY 1 (*)'")
        database.query(standby, "SELECT pg_reload_conf()")
        with open(os.path.join(database.data(primary), "postgresql.auto.conf"), "a") as file:
            file.write("synchronous_standby_names = ''\n")
        database.start_server(primary)
        place.await_that(lambda: database.query(standby, "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'quorum'") == "1",
                         "the new standby is not synchronous", name=primary)
        primary, standby = standby, primary
    print(f"{rounds} failovers: {total} REGISTERs of new phones got 200, {lost} of them are lost", flush=True)
    line("from the end of the primary to the first 200 of a new phone", away)
    if lost:
        raise Trouble(f"{lost} acknowledged contacts are lost")


def kill(cluster, phones=5000, calls=500):
    """Node a is killed with held calls, and node b goes on with them."""
    agent, caller = Agent(), Agent()
    users = [f"k{number}" for number in range(phones)]

    def all_register(some, door, number):
        answered = set()
        for part in range(0, len(some), 50):
            for user in some[part:part + 50]:
                agent.send(register(user, agent.local, number), door)
            agent.drain(lambda m: answered.add(field(m, b"call-id")) if m.startswith(b"SIP/2.0 200") else hold(m), time.monotonic() + 0.05)
        for _ in range(20):
            rest = [user for user in some if f"r-{user}" not in answered]
            if not rest:
                return
            for user in rest:
                agent.send(register(user, agent.local, number), door)
            agent.drain(lambda m: answered.add(field(m, b"call-id")) if m.startswith(b"SIP/2.0 200") else hold(m), time.monotonic() + 0.5)
        raise Trouble(f"{len(rest)} REGISTERs got no 200")

    rung = {}

    def hold(message):
        if message.startswith(b"INVITE "):
            rung.setdefault(field(message, b"call-id"), set()).add(field(message, b"via"))
            agent.send(reply(message, "486 Busy Here"), cluster.doors["b"])

    all_register(users, cluster.doors["b"], 1)
    for user in users[:calls]:
        caller.send(invite(user, caller.local, f"call-{user}"), cluster.doors["a"])
        caller.receive(0.002)
    cluster.place.await_that(lambda: sum(token in {f"token-{user}" for user in users[:calls]} for token in cluster.pushes()) >= calls,
                             "not each held call has its push", 30)
    before = len(cluster.nodes.pushes())
    start = time.monotonic()
    cluster.place.kill("a")
    cluster.place.await_that(lambda: len(cluster.nodes.pushes()) - before >= calls, "node b does not push again for each held call", 60)
    print(f"{time.monotonic() - start:.1f} s after kill -9 of node a, node b has pushed again for all {calls} held calls", flush=True)
    start = time.monotonic()
    all_register(users[:calls], cluster.doors["b"], 2)
    agent.drain(lambda m: hold(m) or len(rung) >= calls, time.monotonic() + 20)
    doubled = sum(len(vias) > 1 for vias in rung.values())
    print(f"{len(rung)} of {calls} phones that register at node b get their call, {doubled} get it twice, within {time.monotonic() - start:.1f} s", flush=True)
    before = len(cluster.nodes.pushes())
    start = time.monotonic()
    others = users[calls:]
    for user in others:
        caller.send(invite(user, caller.local, f"late-{user}"), cluster.doors["b"])
        caller.receive(0.002)
    cluster.place.await_that(lambda: len(cluster.nodes.pushes()) - before >= len(others), "not each phone gets a push", 60)
    print(f"the other {len(others)} phones get a push for a call at node b within {time.monotonic() - start:.1f} s", flush=True)
    if len(rung) < calls or doubled:
        raise Trouble("a held call is lost or doubled")


def main(name, *numbers):
    cluster = Cluster()
    try:
        {"wake": wake, "failovers": failovers, "kill": kill}[name](cluster, *map(int, numbers))
    except Trouble as trouble:
        print(f"figures: {trouble}", file=sys.stderr)
        return 1
    finally:
        cluster.end()
    return 0


if __name__ == "__main__":
    if len(sys.argv) < 2 or sys.argv[1] not in ("wake", "failovers", "kill"):
        print(__doc__.strip(), file=sys.stderr)
        sys.exit(64)
    sys.exit(main(*sys.argv[1:]))
