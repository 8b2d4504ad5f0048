"""T50: several nodes. The attacker has no certificate of a node, or sees a flow token. Nodes and their database stop and die."""

import glob
import hashlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
import uuid

import postgresql
from daemon import Daemon, merge
from edge import Authority, SecureStream, context
from machine import patience
from sip import Dialog, Phone, Stream, credentials, fresh, hang_up
from suite import Skipped, check, probe

from .domains import key_of
from .wake import pushed

# The seconds without a sign of life after which a node counts as dead (docs/Cluster.md).
DEAD = 5.0


def until(condition, timeout=6.0, pause=0.02):
    """The first true value of the condition, or its last value after the timeout."""
    limit = time.monotonic() + patience(timeout)
    while True:
        value = condition()
        if value or time.monotonic() > limit:
            return value
        time.sleep(pause)


class Server:
    """A private PostgreSQL server, which listens on a socket in a temporary folder."""

    def __init__(self):
        self.programs, missing = postgresql.programs("initdb", "postgres", "psql")
        if missing:
            raise Skipped("PostgreSQL's server programs are not installed")
        try:
            user = postgresql.owner()
        except KeyError:
            raise Skipped(f"the user {postgresql.USER} does not exist") from None
        self.prefix = postgresql.prefix(user)
        self.folder = tempfile.mkdtemp(prefix="trust-pg-")
        postgresql.give(self.folder, user)
        self.data = os.path.join(self.folder, "data")
        subprocess.run([*self.prefix, self.program("initdb"), "-D", self.data, "-A", "trust", "-U", "sippushd", "-E", "UTF8", "--no-sync"],
                       check=True, capture_output=True, stdin=subprocess.DEVNULL, timeout=patience(60), cwd=self.folder)
        self.launch()

    def launch(self):
        with open(os.path.join(self.folder, "log"), "ab") as log:
            self.process = subprocess.Popen(
                [*self.prefix, self.program("postgres"), "-D", self.data, "-k", self.folder, "-c", "listen_addresses=", "-c",
                 "max_connections=300"], stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.folder)
        if not until(lambda: self.psql("postgres", "SELECT 1", fails=True) == "1", 30, 0.1):
            raise RuntimeError("PostgreSQL did not start")

    def program(self, name):
        return os.path.join(self.programs, name)

    def psql(self, database, text, fails=False):
        done = subprocess.run([self.program("psql"), "-X", "-h", self.folder, "-U", "sippushd", "-d", database, "-Atq",
                               "-c", "SET bytea_output = 'escape'", "-c", text], capture_output=True, text=True, timeout=patience(20))
        if done.returncode and not fails:
            raise RuntimeError(f"psql: {done.stderr.strip()[-300:]}")
        return done.stdout.strip()

    def family(self):
        """The numbers of all processes of the server."""
        found = []
        for path in glob.glob("/proc/[0-9]*/stat"):
            try:
                with open(path) as file:
                    words = file.read().rpartition(")")[2].split()
            except OSError:
                continue
            if int(words[1]) == self.process.pid:
                found.append(int(path.split("/")[2]))
        return [self.process.pid] + found

    def tell(self, number):
        for process in self.family():
            try:
                os.kill(process, number)
            except ProcessLookupError:
                pass

    def alive(self):
        return self.process.poll() is None

    def end(self, how=signal.SIGQUIT):
        self.tell(signal.SIGCONT)
        if self.alive():
            self.process.send_signal(how)
            try:
                self.process.wait(patience(20))
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()

    def stop(self):
        self.end()
        shutil.rmtree(self.folder, ignore_errors=True)


class NodeAuthority(Authority):
    """The certificate authority of the nodes, made by `sippushd cluster cert`."""

    def __init__(self, suite, folder):
        self.suite, self.folder = suite, folder
        self.file, self.key = os.path.join(folder, "ca.pem"), os.path.join(folder, "ca.key")

    def node(self, name, host):
        """Makes a node's certificate. Returns the paths of certificate and key."""
        done = subprocess.run([self.suite.program, "cluster", "cert", "--ca", self.folder, "--node", name, "--address", host],
                              capture_output=True, text=True, timeout=patience(30))
        check(done.returncode == 0, f"cluster cert: {done.stderr}")
        return os.path.join(self.folder, f"{name}.pem"), os.path.join(self.folder, f"{name}.key")

    def marked(self, name, host, purpose):
        """Makes a certificate for the host with another purpose than a node's."""
        base = os.path.join(self.folder, name)
        self.openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", f"/CN={name}", "-keyout",
                     base + "-key.pem", "-out", base + ".csr")
        with open(base + ".ext", "w") as file:
            file.write(f"subjectAltName=IP:{host}\nextendedKeyUsage={purpose}\n")
        self.openssl("x509", "-req", "-in", base + ".csr", "-CA", self.file, "-CAkey", self.key, "-days", "30", "-extfile",
                     base + ".ext", "-out", base + ".pem")
        return base + ".pem", base + "-key.pem"


class Node(Daemon):
    """A daemon that shares its database with other daemons."""

    def __init__(self, cluster, letter, host, name=None, **settings):
        super().__init__(f"{cluster.name}-{letter}", cluster.suite, settings)
        self.host, self.cluster, self.key_name = host, cluster, f"probe-{letter}"
        self.node = name or f"node-{letter}"
        self.node_port = cluster.suite.free_port()
        self.pair = cluster.authority.node(f"{cluster.name}-{letter}", host)

    def settings(self):
        base = super().settings()
        merge(base, {
            "call": {"ring-timeout": "40s"},
            "postgresql": {"connection": f"host={self.cluster.server.folder} user=sippushd dbname={self.cluster.database}"},
            "cluster": {"node": self.node, "listen": f"{self.host}:{self.node_port}", "cert-file": self.pair[0],
                        "key-file": self.pair[1], "ca-file": self.cluster.authority.file},
        })
        merge(base, self.values)
        return base

    def phone(self, t, trusted=False, host=None):
        return t.own(Phone(host or t.address(trusted), self.address))

    def stream(self, t, trusted=False):
        return t.own(Stream(t.address(trusted), self.address))

    @property
    def place(self):
        return self.host, self.node_port

    def link(self, t, pair=None, host=None):
        """A connection to the nodes' listener with the given certificate."""
        return t.own(SecureStream(host or "127.0.0.1", self.place, context(self.cluster.authority, pair), self.host))

    def launch_only(self):
        """Starts the program, which must end by itself."""
        try:
            self.write_settings()
            self.launch()
        except RuntimeError:
            pass

    def pause(self):
        self.process.send_signal(signal.SIGSTOP)

    def go_on(self):
        self.process.send_signal(signal.SIGCONT)

    def stop(self, how=signal.SIGTERM):
        if self.process and self.process.poll() is None:
            self.go_on()
        super().stop(how)


class Cluster:
    """Two nodes with a database of their own."""

    lock = threading.Lock()
    places = iter(range(1, 250))

    @classmethod
    def server_of(cls, suite):
        with cls.lock:
            server = getattr(suite, "postgresql", None)
            if isinstance(server, Skipped):
                raise server
            if server is None:
                try:
                    server = Server()
                    suite.authority = NodeAuthority(suite, suite.folder_of("node-authority"))
                except Skipped as reason:
                    suite.postgresql = reason
                    raise
                suite.postgresql = suite.daemons["postgresql"] = server
            return server

    def __init__(self, t, name, **settings):
        t.needs("cluster.node", "postgresql.connection")
        self.name, self.suite, self.server = name, t.suite, self.server_of(t.suite)
        self.authority = t.suite.authority
        self.database = name.replace("-", "_")
        with self.lock:
            self.server.psql("postgres", f"CREATE DATABASE {self.database} TEMPLATE template0")
            number = next(self.places)
            self.a, self.b = (Node(self, letter, f"127.9.{number}.{last}", **settings) for letter, last in (("a", 1), ("b", 2)))
            for node in (self.a, self.b):
                t.suite.daemons[node.name] = node
            # The suite stops its daemons in this order, and the database last.
            t.suite.daemons.pop("postgresql", None)
            t.suite.daemons["postgresql"] = self.server
        starts = [threading.Thread(target=node.start) for node in (self.a, self.b)]
        for start in starts:
            start.start()
        for start in starts:
            start.join()
        self.met()

    def met(self):
        """Waits until each node knows the other."""
        for node in (self.a, self.b):
            check(node.process and until(lambda: "another node of the cluster is here" in node.log(), 20), f"control: {node.name} met no other node: {node.log()[-400:]}")

    def sql(self, text):
        return self.server.psql(self.database, text)

    def path(self, name):
        """The Path of the user's contact in the database, and the flow token in it."""
        text = self.sql(f"SELECT path FROM binding WHERE username = '{name}'")
        found = re.search(r"sip:([^@>]+)@", text)
        check(found, f"control: the Path in the database is {text!r}")
        return text, found.group(1)

    def user(self):
        return self.a.user()

    @classmethod
    def shared(cls, t):
        """Two nodes that several probes use at the same time. No probe harms them."""
        with shared_lock:
            found = getattr(t.suite, "shared_nodes", None)
            if found is None:
                found = t.suite.shared_nodes = cls(t, "nodes")
        return found


shared_lock = threading.Lock()


class Sleeper:
    """A user with one phone, which has registered at a node, and has a push token unless `wakes` is false."""

    def __init__(self, t, node, agent=None, wakes=True, user=None, **options):
        self.t, self.agent = t, agent or node.phone(t)
        self.token = fresh("token") if wakes else None
        self.name, self.password = user or node.cluster.user()
        self.register(**options)

    @property
    def params(self):
        return pushed(self.token) if self.token else ""

    def register(self, agent=None, **options):
        self.agent = agent or self.agent
        answer = self.agent.register(self.name, self.password, params=self.params, **options)
        check(answer and answer.status == 200, f"control: REGISTER got {answer}")
        return answer

    def woken(self, count=1, timeout=6.0):
        return self.t.suite.provider.wait(self.token, count, timeout)


def invites(agent, call_id):
    """All INVITEs of the call that the agent has got, without retransmissions."""
    with agent.changed:
        found = {m.branch for m in agent.history if m.method == "INVITE" and m.call_id == call_id}
    return len(found)


def call(t, node, name, caller=None):
    caller = caller or node.phone(t, trusted=True)
    request = caller.make("INVITE", f"sip:{name}@example.net", "700")
    caller.send(request)
    return caller, request


def answered(phone, caller, request, timeout=6.0):
    """The phone answers the call, and the caller gets the 200."""
    invite = phone.request("INVITE", request.call_id, timeout)
    check(invite, f"the phone got no INVITE; the caller got {caller.response(request.call_id, timeout=0.1)}")
    phone.respond(invite, 200, tag="b")
    answer = caller.response(request.call_id, "INVITE", timeout)
    check(answer and answer.status == 200, f"the caller got {answer}")
    caller.send(Dialog.of_caller(caller, request, answer).make("ACK", cseq=1))
    check(phone.request("ACK", request.call_id, timeout), "the phone got no ACK")


# --- T50.1: the nodes' listener


@probe("T50.1", "nodes-listener-needs-a-node")
def listener(t):
    """The attacker connects to the nodes' listener without a certificate, with wrong certificates, and with plain bytes."""
    cluster = Cluster.shared(t)
    node, known = cluster.b, Sleeper(t, cluster.b, wakes=False)
    path, token = cluster.path(known.name)
    route = re.search(r"<[^>]*>", path).group(0)

    def message(agent):
        return agent.make("MESSAGE", f"sip:{known.name}@example.net", fields=[("Route", route)])

    # Control: a node's certificate with the same request.
    proved = node.link(t, cluster.a.pair, cluster.a.host)
    request = message(proved)
    proved.send(request)
    got = known.agent.request("MESSAGE", request.call_id)
    check(got, f"control: a node's MESSAGE did not arrive: {proved.response(request.call_id, timeout=0.3)}")
    known.agent.respond(got, 200, tag="m")
    check(proved.response(request.call_id), "control: the node got no response")

    foreign = Authority(t.suite.folder_of("foreign-nodes"), "sippushd cluster CA")
    names = f"IP:{cluster.a.host},DNS:node-a"
    pairs = {
        "no certificate": None,
        "a certificate of another authority with the name of a node": foreign.issue("node-a", names),
        "a certificate for servers only": cluster.authority.marked("servers-only", cluster.a.host, "serverAuth"),
        "a certificate for mail": cluster.authority.marked("mail", cluster.a.host, "emailProtection"),
        "an expired certificate": cluster.authority.issue("expired", names, seconds=-30),
    }
    for what, pair in pairs.items():
        for host in (cluster.a.host, t.address(), t.address(trusted=True)):
            try:
                attacker = node.link(t, pair, host)
            except OSError:
                continue
            request = message(attacker)
            attacker.send(request)
            check(attacker.wait_closed(6), f"{what} from {host}: the connection stays open")
            check(not attacker.history, f"{what} from {host} got {attacker.history}")
    plain = t.own(Stream(t.address(trusted=True), node.place))
    plain.send(message(plain))
    check(plain.wait_closed(10), "plain bytes: the connection stays open")
    check(not plain.history, f"plain bytes got {plain.history}")
    datagrams = t.own(Phone(t.address(trusted=True), node.place))
    request = message(datagrams)
    datagrams.send(request)
    check(not datagrams.response(request.call_id, timeout=0.3), "the port of the nodes answers over UDP")
    arrived = [m for m in known.agent.history if m.method == "MESSAGE"]
    check(len(arrived) == 1, f"the phone got {arrived}")
    return f"{len(pairs)} kinds of certificates, plain TCP and UDP: no answer, and nothing at the phone"


class FalseNode:
    """Accepts TLS connections at a node's address with the given certificate, and keeps all bytes."""

    def __init__(self, place, pair):
        self.socket = socket.create_server(place)
        self.made, self.handshakes, self.bytes = context(pair=pair, server=True), 0, b""
        self.connections = 0
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                plain, _ = self.socket.accept()
            except OSError:
                return
            self.connections += 1
            threading.Thread(target=self.serve, args=(plain,), daemon=True).start()

    def serve(self, plain):
        plain.settimeout(10)
        try:
            with self.made.wrap_socket(plain, server_side=True) as sealed:
                self.handshakes += 1
                while some := sealed.recv(4096):
                    self.bytes += some
        except OSError:
            pass

    def close(self):
        hang_up(self.socket)


# --- T50.2: flow tokens


@probe("T50.2", "flow-tokens-are-no-keys")
def no_keys(t):
    """A stranger and a phone send requests with the flow token of another phone to the public listeners of both nodes."""
    cluster = Cluster.shared(t)
    victim = Sleeper(t, cluster.b, cluster.b.stream(t), wakes=False)
    path, token = cluster.path(victim.name)
    place = f"{cluster.b.host}:{cluster.b.node_port}"
    answers = []
    for node in (cluster.a, cluster.b):
        attacker = Sleeper(t, node, node.stream(t), wakes=False)
        stranger = node.phone(t)
        shapes = [f"<sip:{token}@{place};transport=tls;lr>", f"<sip:{token}@{node.host}:{node.port};lr>", f"<sip:{token}@example.net;lr>",
                  f"<sip:{node.host}:{node.port};lr>, <sip:{token}@{place};transport=tls;lr>"]
        targets = [f"sip:{fresh('nobody')}@example.net", f"sip:{attacker.name}@example.net"]
        for method in ("INVITE", "MESSAGE"):
            for shape in shapes:
                for agent in (stranger, attacker.agent):
                    for target in targets:
                        request = agent.make(method, target, attacker.name, fields=[("Route", shape)])
                        if agent is stranger:
                            agent.send(request)
                            answers.append(agent.response(request.call_id, method, 6))
                        else:
                            agent.send(request)
                            answer = agent.response(request.call_id, method, 6, final=True) if target is targets[0] else None
                            if answer and answer.status in (401, 407):
                                again = request.renewed()
                                again.add(*credentials(answer, attacker.name, attacker.password, method, request.uri))
                                agent.send(again)
                                answers.append(agent.response(request.call_id, method, 6))
            # The token as the Request-URI.
            for uri in (f"sip:{token}@{place};transport=tls;lr", f"sip:{token}@{node.host}:{node.port};lr", f"sip:{token}@example.net"):
                answer, _ = attacker.agent.with_credentials(
                    attacker.agent.make(method, uri, attacker.name), attacker.name, attacker.password)
                answers.append(answer)
    check(all(answers), f"{answers.count(None)} of {len(answers)} requests got no answer")
    taken = [answer for answer in answers if answer.status < 300]
    check(not taken, f"requests with a token got {taken[:3]}")
    check(not [m for m in victim.agent.history if not m.is_response], f"the phone got {victim.agent.history}")
    # Control: the phone still gets calls through the other node.
    answered(victim.agent, *call(t, cluster.a, victim.name))
    return f"{len(answers)} requests with a token in Route and Request-URI: refused, and nothing at the phone"


@probe("T50.2", "changed-flow-tokens")
def changed(t):
    """A proved node sends requests with changed tokens."""
    cluster = Cluster.shared(t)
    victim = Sleeper(t, cluster.b, cluster.b.stream(t), wakes=False)
    path, token = cluster.path(victim.name)
    other = cluster.path(Sleeper(t, cluster.a, wakes=False).name)[1]
    proved = cluster.b.link(t, cluster.a.pair, cluster.a.host)
    place = f"{cluster.b.host}:{cluster.b.node_port}"
    texts = []
    for index in range(len(token)):
        text = list(token)
        text[index] = t.random.choice([c for c in "ABCDEFabcdef0123456789-_" if c != text[index]])
        texts.append("".join(text))
    texts += [token[:count] for count in range(1, len(token), 3)] + [token + "A", token * 2, "A" * len(token), other, "x" * 4000]
    routes = [f"<sip:{text}@{place};transport=tls;lr>" for text in texts]
    routes += [f"<sip:{token}@{cluster.a.host}:{cluster.a.node_port};transport=tls;lr>", f"<sip:{token}@{place};transport=tls>",
               f"<sip:{cluster.b.host}:{cluster.b.node_port};transport=tls;lr>", None]
    requests = {}
    for route in routes:
        request = proved.make("MESSAGE", f"sip:{victim.name}@example.net", fields=[("Route", route)] if route else [])
        requests[request.call_id] = route
        proved.send(request)
    wrong = []
    for call_id, route in requests.items():
        answer = proved.response(call_id)
        if not answer or answer.status < 400 or answer.status >= 500:
            wrong.append((route, answer))
    check(not wrong, f"{len(wrong)} of {len(routes)} changed tokens: {wrong[:2]}")
    check(not [m for m in victim.agent.history if not m.is_response], f"the phone got {victim.agent.history}")
    answered(victim.agent, *call(t, cluster.a, victim.name))
    return f"{len(routes)} changed, cut and foreign tokens from a proved node: refused"


# --- T50.3: Path and Contact of phones


@probe("T50.3", "phones-write-no-path")
def no_path(t):
    """A phone registers with a Path of its own, and with Contacts that look like a node's Path."""
    cluster = Cluster.shared(t)
    victim = Sleeper(t, cluster.b, cluster.b.stream(t), wakes=False)
    path, token = cluster.path(victim.name)
    uri = f"sip:{token}@{cluster.b.host}:{cluster.b.node_port};transport=tls;lr"
    trap = t.trap()
    for node in (cluster.a, cluster.b):
        name, password = cluster.user()
        phone = node.stream(t)
        for forged in (f"<{uri}>", f"<sip:{trap.host}:{trap.port};lr>", f"<sip:{trap.host}:{trap.port};lr>, <{uri}>"):
            answer = phone.register(name, password, fields=[("Path", forged), ("Supported", "path, outbound")])
            check(answer and answer.status == 403, f"a forged Path got {answer}")
        check(cluster.sql(f"SELECT count(*) FROM binding WHERE username = '{name}'") == "0", "a contact with a forged Path is stored")
        instance = ';+sip.instance="<urn:uuid:00000000-0000-1000-8000-%012x>";reg-id=1' % t.random.getrandbits(48)
        contacts = [f"<{uri}>{instance}", f"<{uri};ob>", f"<sip:{name}@{phone.local()};transport=tcp?Route=%3C{uri.replace(';', '%3B').replace('=', '%3D')}%3E>"]
        seen = []
        for contact in contacts:
            name, password = cluster.user()
            phone = node.stream(t)
            answer = phone.register(name, password, contact=contact)
            if not answer or answer.status != 200:
                seen.append(answer and answer.status)
                continue
            seen.append(200)
            stored, own = cluster.path(name)
            check(own != token, f"the token of another phone is stored: {stored}")
            check(f"@{node.host}:{node.node_port};" in stored and stored.count("sip:") == 1, f"the stored Path is {stored}")
            for at in (cluster.a, cluster.b):
                caller, request = call(t, at, name)
                invite = phone.request("INVITE", request.call_id)
                check(invite, f"control: a call at {at.name} got {caller.response(request.call_id, timeout=0.3)}")
                phone.respond(invite, 486, tag="b")
                check(caller.response(request.call_id), "control: the caller got no response")
        check(all(seen), f"a REGISTER got no answer: {seen}")
    check(not [m for m in victim.agent.history if not m.is_response], f"the other phone got {victim.agent.history}")
    check(not trap.caught(), f"the trap caught {trap.caught()}")
    return f"a forged Path gets 403; Contacts with a token (REGISTER {seen}) lead to their own phones; the stored Path is the node's"


# --- T50.4: notices of registrations


@probe("T50.4", "foreign-registration-notices")
def notices(t):
    """Phones, strangers and a PBX send NOTIFYs of the registration event package to the public listeners, and a flood."""
    cluster = Cluster.shared(t)
    sleeper = Sleeper(t, cluster.b)
    caller, request = call(t, cluster.a, sleeper.name)
    check(sleeper.woken(), "control: no push for the call")
    before = reads(cluster)
    senders = [cluster.a.phone(t), cluster.a.phone(t, trusted=True), cluster.a.stream(t), cluster.a.stream(t, trusted=True),
               Sleeper(t, cluster.a, cluster.a.stream(t)).agent]
    body = (f'<?xml version="1.0"?><reginfo xmlns="urn:ietf:params:xml:ns:reginfo" version="0" state="partial"><registration '
            f'aor="sip:{sleeper.name}@example.net" id="a" state="active"/></reginfo>')
    uri = f"sip:{cluster.a.host}:{cluster.a.node_port};transport=tls"
    count = 0
    for turn in range(120):
        for agent in senders:
            notify = agent.make("NOTIFY", uri, to=f"sip:{sleeper.name}@example.net", contact=f"<sip:{agent.local()}>",
                                fields=[("Event", "reg"), ("Subscription-State", "active")], body=body)
            notify.set("Content-Type", "application/reginfo+xml")
            agent.send(notify)
            count += 1
    taken = []
    for agent in senders:
        until(lambda: len([m for m in agent.history if m.is_response]) >= 120, 6)
        taken += [m for m in agent.history if m.is_response and m.cseq_method == "NOTIFY" and m.status < 300]
    check(not taken, f"{len(taken)} foreign NOTIFYs got {taken[:1]}")
    check(not invites(sleeper.agent, request.call_id), "a foreign NOTIFY released the call")
    asked = reads(cluster) - before
    check(len(t.suite.provider.of(sleeper.token)) == 1, f"{len(t.suite.provider.of(sleeper.token))} pushes for one call")
    check(not caller.response(request.call_id, timeout=0.1), "the call has ended")
    sleeper.register(cluster.b.phone(t))
    answered(sleeper.agent, caller, request)
    check(invites(sleeper.agent, request.call_id) == 1, "the call came twice")
    return f"{count} foreign NOTIFYs release nothing and push nothing; the database saw {asked} index scans meanwhile; the call rings once"


def reads(cluster):
    """The number of scans of contacts and accounts that the database has counted."""
    return int(cluster.sql("SELECT coalesce(sum(coalesce(idx_scan, 0) + seq_scan), 0) FROM pg_stat_user_tables WHERE relname IN ('binding', 'account')"))


# --- T50.5: a node that stands still


@probe("T50.5", "node-stands-still")
def stands_still(t):
    """The node with the phones' flows is stopped (SIGSTOP), and goes on."""
    cluster = Cluster(t, "nodes-still", call={"ring-timeout": "15s"})
    a, b = cluster.a, cluster.b
    push, plain = Sleeper(t, b, b.stream(t)), Sleeper(t, b, b.stream(t), wakes=False)
    old = push.agent
    answered(plain.agent, *call(t, a, plain.name))
    b.pause()
    begin = time.monotonic()
    try:
        first, second = call(t, a, push.name), call(t, a, plain.name)
        check(push.woken(1, 8), f"no push while the phone's node stands still; the caller got {first[0].history}")
        push_after = time.monotonic() - begin
        push.register(a.stream(t))
        answered(push.agent, *first)
        answer = second[0].response(second[1].call_id, "INVITE", 36)
        check(answer, "the caller of a phone without push got no final response within the 32 s of RFC 3261")
        final_after = time.monotonic() - begin
    finally:
        b.go_on()
    # The node reads what waits in its connections.
    until(lambda: "another node of the cluster is here" in a.log().partition("a node of the cluster has ended")[2], 10)
    late = plain.agent.request("INVITE", second[1].call_id, 2)
    if late:
        plain.agent.respond(late, 180, tag="p")
        check(plain.agent.request("CANCEL", late.call_id, 4), f"the caller got {answer.status} after {final_after:.1f} s; then the phone rings, and nobody cancels it")
    check(invites(old, first[1].call_id) + invites(push.agent, first[1].call_id) == 1, "the call came twice")
    return (f"push after {push_after:.1f} s, {answer.status} for a phone without push after {final_after:.1f} s; nothing twice"
            + ("; a late INVITE is cancelled" if late else ""))


@probe("T50.5", "holder-stands-still")
def holder(t):
    """The node that holds a call is stopped longer than a dead node's five seconds, and goes on after the take-over."""
    cluster = Cluster(t, "nodes-holder")
    a, b = cluster.a, cluster.b
    sleeper, other = Sleeper(t, b), Sleeper(t, b)
    caller, request = call(t, a, sleeper.name)
    second, again = call(t, a, other.name)
    check(sleeper.woken() and other.woken(), "control: no push for the call")
    a.pause()
    try:
        check(until(lambda: "a node of the cluster has ended" in b.log(), 3 * DEAD), "control: the other node noticed nothing")
        check(sleeper.woken(2, 4), "no push after the take-over")
        # One phone returns before the node goes on, the other phone afterwards.
        sleeper.register(b.phone(t))
        invite = sleeper.agent.request("INVITE", request.call_id)
        check(invite, "the taken call does not ring")
        sleeper.agent.respond(invite, 180, tag="b")
    finally:
        a.go_on()
    check(until(lambda: "another node of the cluster is here" in b.log().partition("a node of the cluster has ended")[2], 10), "control: the node does not return")
    other.register(b.phone(t))
    invite = other.agent.request("INVITE", again.call_id)
    check(invite, "the second taken call does not ring")
    other.agent.respond(invite, 180, tag="b")
    until(lambda: invites(sleeper.agent, request.call_id) > 1 and invites(other.agent, again.call_id) > 1, 2)
    counts = [invites(sleeper.agent, request.call_id), invites(other.agent, again.call_id)]
    check(counts == [1, 1], f"the phones got their calls {counts} times: the node that stood still rings for calls that the other node has taken")
    return "two calls of a node that stood still ring once each"


# --- T50.6: a node that dies


@probe("T50.6", "node-is-killed")
def killed(t):
    """The node that holds calls is killed, somebody takes its address, and the node starts again."""
    cluster = Cluster(t, "nodes-killed", call={"ring-timeout": "16s"}, push={"fcm": {"after-end": "invite-cancel"}})
    a, b = cluster.a, cluster.b
    sleeper, missed = Sleeper(t, b), Sleeper(t, b)
    plain, dozing = Sleeper(t, a, a.stream(t), wakes=False), Sleeper(t, a, a.stream(t))
    _, old = cluster.path(dozing.name)
    caller, request = call(t, a, sleeper.name)
    waiting, lost = call(t, a, missed.name)
    check(sleeper.woken() and missed.woken(), "control: no push for the call")
    a.kill()
    begin = time.monotonic()
    # Another program with the node's address and a false certificate gets nothing.
    authority = Authority(t.suite.folder_of("false-node"), "sippushd cluster CA")
    false = t.own(FalseNode(a.place, authority.issue("false", f"IP:{a.host},DNS:node-a")))
    lone, dropped = call(t, b, plain.name)
    dozes = call(t, b, dozing.name)
    check(dozing.woken(1, 10), "no push for a phone whose flow was at the killed node")
    dozes[0].send(dozes[0].cancel(dozes[1]))
    check(sleeper.woken(2, DEAD + 5), "no push after the take-over")
    after = time.monotonic() - begin
    check(after > 1, f"the push came after {after:.1f} s, so the node did not hold the call")
    check(missed.woken(2), "no push after the take-over")
    # The caller of the other call gives up, at the node to which the address has moved.
    waiting.send(waiting.cancel(lost), b.address)
    over = waiting.response(lost.call_id, "INVITE", 4)
    check(over and over.status == 487, f"the caller of a taken call gave up and got {over}")
    missed.register(b.phone(t))

    def lists():
        return [push["data"] for push in t.suite.provider.of(missed.token) if push.get("data", {}).get("type") == "missed_calls"]

    check(until(lists, 6), f"the missed call of a killed node is lost; the pushes were {t.suite.provider.of(missed.token)}")
    check(len(lists()) == 1 and len(lists()[0]["calls"]) == 1, f"the lists were {lists()}")
    # The taken call waits until the end of its first ring time.
    sleeper.register()
    invite = sleeper.agent.request("INVITE", request.call_id)
    check(invite, "the taken call does not ring")
    sleeper.agent.respond(invite, 486, tag="b")
    end = lone.response(dropped.call_id, "INVITE", 20)
    check(end, "the caller of a phone at the killed node got no final response within ring-timeout and 4 s")
    check(not false.handshakes and not false.bytes, f"a false node got {false.handshakes} connections and {false.bytes[:200]}")
    false.close()
    check(len(t.suite.provider.of(sleeper.token)) == 2, f"{len(t.suite.provider.of(sleeper.token))} pushes for one call")
    a.launch()
    check(until(lambda: "another node of the cluster is here" in b.log().partition("a node of the cluster has ended")[2], 10), "control: the node does not return")
    # The token of the killed run.
    proved = a.link(t, b.pair, b.host)
    answer = proved.exchange(proved.make("MESSAGE", f"sip:{dozing.name}@example.net", fields=[
        ("Route", f"<sip:{old}@{a.host}:{a.node_port};transport=tls;lr>")]))
    check(answer and answer.status == 430, f"the token of an ended run got {answer}")
    count = len(t.suite.provider.of(dozing.token))
    caller, request = call(t, b, dozing.name)
    check(dozing.woken(count + 1), "no push for a phone with the token of an ended run")
    dozing.register(a.stream(t))
    answered(dozing.agent, caller, request)
    check(invites(sleeper.agent, request.call_id) <= 1, "the taken call came twice")
    return f"pushed again after {after:.1f} s, rings once; {end.status} for a phone without push; a false node gets nothing; an old token gets 430; the missed call is kept"


def gone(other):
    """Waits until a node has noticed that the other node ended."""
    check(until(lambda: "a node of the cluster has ended" in other.log(), 3 * DEAD), "control: the other node noticed nothing")


@probe("T50.6", "node-is-killed-while-a-phone-rings")
def killed_while_ringing(t):
    """The node that got an INVITE is killed while a phone at the other node rings. The phone answers, and its user hangs up."""
    cluster = Cluster(t, "nodes-ringing")
    a, b = cluster.a, cluster.b
    phone, second = Sleeper(t, b, b.stream(t), wakes=False), Sleeper(t, b, b.stream(t), wakes=False)
    caller, request = call(t, a, phone.name)
    early, cancelled = call(t, a, second.name)
    ringing = phone.agent.request("INVITE", request.call_id)
    other = second.agent.request("INVITE", cancelled.call_id)
    check(ringing and other, "control: a phone got no INVITE")
    for agent, invite in ((phone.agent, ringing), (second.agent, other)):
        agent.respond(invite, 180, tag="b")
    check(caller.response(request.call_id, "INVITE", final=False) and early.response(cancelled.call_id, "INVITE", final=False), "control: no 180 for a caller")
    # The node writes the state of its calls a few milliseconds later.
    until(lambda: cluster.sql("SELECT count(*) FROM held_call WHERE changes <> ''") == "2", 4)
    a.kill()
    # One caller gives up before the other node knows that the call's node has ended.
    early.send(early.cancel(cancelled), b.address)
    gone(b)
    check(second.agent.request("CANCEL", cancelled.call_id, 6), "the phone of a cancelled call rings on")
    second.agent.respond(other, 487, tag="b")
    over = early.response(cancelled.call_id, "INVITE", 6)
    check(over and over.status == 487, f"the caller that gave up got {over}")
    phone.agent.respond(ringing, 200, tag="b")
    answer = caller.response(request.call_id, "INVITE", 6)
    check(answer and answer.status == 200, f"the phone answered, and the caller got {answer}")
    dialog = Dialog.of_caller(caller, request, answer)
    caller.send(dialog.make("ACK", cseq=1), b.address)
    check(phone.agent.request("ACK", request.call_id), "the phone got no ACK")
    counts = [invites(phone.agent, request.call_id), invites(second.agent, cancelled.call_id)]
    check(counts == [1, 1], f"the phones got their calls {counts} times")
    return "the answer of a ringing phone and an early CANCEL reach their callers and phones through the other node"


def phone_calls(caller, name, call_id=None):
    """A phone calls a user, and answers the challenge. Returns the second INVITE."""
    request = caller.agent.make("INVITE", f"sip:{name}@example.net", caller.name)
    if call_id:
        request.set("Call-ID", call_id)
    answer = caller.agent.exchange(request)
    check(answer and answer.status == 407, f"control: the phone's call got {answer}")
    caller.agent.send(caller.agent.ack_failure(request, answer))
    again = request.renewed()
    again.add(*credentials(answer, caller.name, caller.password, "INVITE", again.uri))
    caller.agent.send(again)
    return again


@probe("T50.6", "phones-call-through-a-killed-node")
def phones_call(t):
    """Two phones call through a node that is killed: one over UDP, one over TCP. An attacker uses the Call-ID of the first call."""
    cluster = Cluster(t, "nodes-phones")
    a, b = cluster.a, cluster.b
    first, second, attacker = Sleeper(t, a, wakes=False), Sleeper(t, a, a.stream(t), wakes=False), Sleeper(t, a, wakes=False)
    called, missed = Sleeper(t, b), Sleeper(t, b)

    def stored():
        return cluster.sql(f"SELECT count(*) FROM held_call WHERE username IN ('{called.name}', '{missed.name}') AND changes <> ''")

    request = phone_calls(first, called.name)
    phone_calls(second, missed.name)
    check(called.woken() and missed.woken(), "control: no push for the call of a phone")
    check(until(lambda: stored() == "2", 4), f"the database has {stored()} of two calls of phones")
    # The call of the attacker ends before the node does.
    copy = phone_calls(attacker, called.name, request.call_id)
    attacker.agent.response(copy.call_id, "INVITE", 1)
    attacker.agent.send(attacker.agent.cancel(copy))
    check(attacker.agent.response(copy.call_id, "INVITE", 3), "control: the attacker's call does not end")
    until(lambda: stored() == "2", 2)
    check(stored() == "2", "a call with the Call-ID of another phone has deleted its stored call")
    a.kill()
    gone(b)
    check(called.woken(2, 6), "the call of a phone is not taken over: no second push")
    called.register(b.phone(t))
    invite = called.agent.request("INVITE", request.call_id)
    check(invite, "the call of a phone over UDP does not ring after the takeover")
    called.agent.respond(invite, 200, tag="b")
    answer = first.agent.response(request.call_id, "INVITE", 6)
    check(answer and answer.status == 200, f"the calling phone got {answer}")
    fresh_agent = b.phone(t)
    missed.register(fresh_agent)

    def lists():
        return [push["data"] for push in t.suite.provider.of(missed.token) if push.get("data", {}).get("type") == "missed_calls"]

    check(until(lists, 6), f"the call of a phone over TCP is lost; the pushes were {t.suite.provider.of(missed.token)}")
    check(not any(m.method == "INVITE" for m in fresh_agent.history), "a phone rings for a caller that has lost its connection")
    return "the call over UDP rings and its answer reaches the caller; the call over TCP is in the list of missed calls; a copied Call-ID deletes nothing"


@probe("T50.5", "phones-call-at-a-node-that-stood-still")
def phones_call_still(t):
    """A phone calls over TCP, its node is stopped until another node has taken the call for lost, and goes on."""
    cluster = Cluster(t, "nodes-phones-still")
    a, b = cluster.a, cluster.b
    caller, called = Sleeper(t, a, a.stream(t), wakes=False), Sleeper(t, b)
    request = phone_calls(caller, called.name)
    check(called.woken(), "control: no push for the call of a phone")
    until(lambda: cluster.sql(f"SELECT count(*) FROM held_call WHERE username = '{called.name}' AND changes <> ''") == "1", 4)
    a.pause()
    try:
        gone(b)
        fresh_agent = b.phone(t)
        called.register(fresh_agent)
    finally:
        a.go_on()
    answer = caller.agent.response(request.call_id, "INVITE", 8)
    check(answer and answer.status == 487, f"the caller of a call that another node has ended got {answer}")
    check(until(lambda: "another node has ended the call of a phone here" in a.log(), 2), "the node has no line about the ended call")
    check(not invites(fresh_agent, request.call_id), "the phone rings for a call that another node has ended")
    return "the caller gets 487, the log has a line, and the called phone does not ring"


@probe("T50.9", "long-call-ids")
def long_call_ids(t):
    """A phone with a password calls with Call-IDs that fit into no index of the database, while others register and call."""
    cluster = Cluster(t, "nodes-long")
    a, b = cluster.a, cluster.b
    attacker, called, other = Sleeper(t, a, a.stream(t), wakes=False), Sleeper(t, b), Sleeper(t, b)
    failures = 0
    for number in range(12):
        random = "".join(uuid.uuid4().hex for _ in range(120))
        request = phone_calls(attacker, called.name, f"{random}{number}")
        answer = a.phone(t).register(*cluster.user(), timeout=6)
        failures += not answer or answer.status != 200
        attacker.agent.send(attacker.agent.cancel(request))
    check(not failures, f"{failures} of 12 new contacts were refused while a phone called with long Call-IDs")
    check("the database does not answer" not in a.log(), "the node lost the database because of a long Call-ID")
    caller, request = call(t, a, other.name)
    check(other.woken(), "a call after the long Call-IDs got no push")
    return "12 calls with Call-IDs of 3,840 characters refuse no contact, and the node keeps the database"


@probe("T50.6", "cancel-of-another-tenant")
def foreign_cancel(t):
    """The attacker is the PBX of another tenant, and knows the branch of a held INVITE. The INVITE's node is killed, and the
    attacker sends a CANCEL to the other node before the caller does."""
    own, foreign = "127.2.41.1", "127.2.41.2"
    cluster = Cluster(t, "nodes-tenants", domains="[example.net, b.example]", trusted="[127.2.9.0/24]",
                      tenants={"example.net": {"trusted": f"[{own}]"}, "b.example": {"trusted": f"[{foreign}]"}})
    a, b = cluster.a, cluster.b
    waits, given_up = Sleeper(t, b), Sleeper(t, b)
    caller, attacker = a.phone(t, host=own), b.phone(t, host=foreign)
    calls = [call(t, a, one.name, caller)[1] for one in (waits, given_up)]
    check(waits.woken() and given_up.woken(), "control: no push for a call")
    a.kill()
    for request in calls:
        attacker.send(caller.cancel(request), b.address)
    until(lambda: any(m.is_response for m in attacker.history), 0.3)
    caller.send(caller.cancel(calls[1]), b.address)
    gone(b)
    over = caller.response(calls[1].call_id, "INVITE", 6)
    check(over and over.status == 487, f"the caller's CANCEL came after the attacker's, and the caller got {over}")
    check(waits.woken(2, 6), "a CANCEL of another tenant's PBX stopped the second push")
    waits.register(b.phone(t))
    check(waits.agent.request("INVITE", calls[0].call_id), "a CANCEL of another tenant's PBX ended the call")
    statuses = sorted({m.status for m in attacker.history if m.is_response})
    check(statuses in ([], [481]), f"the attacker's CANCELs got {statuses}")
    return f"the call waits on and its phone gets a second push, the caller's own CANCEL counts; the attacker gets {statuses or 'nothing'}"


# --- T50.7: once for each phone


@probe("T50.7", "each-phone-once")
def once(t):
    """Ten phones of one user return at both nodes at once."""
    cluster = Cluster.shared(t)
    user = cluster.user()
    phones = [Sleeper(t, (cluster.a, cluster.b)[number % 2], user=user) for number in range(10)]
    caller, request = call(t, cluster.a, user[0])
    check(all(phone.woken(1, 8) for phone in phones), "control: not each phone got a push")
    # Half of the phones return at the other node.
    fresh_agents = [(cluster.a, cluster.b)[number // 2 % 2].phone(t) for number in range(10)]
    threads = [threading.Thread(target=lambda phone=phone, agent=agent: agent.register(user[0], user[1], params=phone.params))
               for phone, agent in zip(phones, fresh_agents)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    got = [agent.request("INVITE", request.call_id) for agent in fresh_agents]
    check(all(got), f"{got.count(None)} of 10 phones got no INVITE")
    for agent, invite in zip(fresh_agents, got):
        agent.respond(invite, 180, tag=fresh("b"))
    until(lambda: any(invites(agent, request.call_id) > 1 for agent in fresh_agents), 0.7)
    counts = [invites(agent, request.call_id) for agent in fresh_agents]
    check(counts == [1] * 10, f"the phones got the call {counts} times: {[[(m.branch, m.values('Via') if hasattr(m, 'values') else '') for m in agent.history if m.method == 'INVITE' and not m.is_response] for agent in fresh_agents if invites(agent, request.call_id) != 1]}")
    old = sum(invites(phone.agent, request.call_id) for phone in phones)
    check(not old, f"{old} INVITEs on flows that the phones have left")
    caller.send(caller.cancel(request))
    for agent in fresh_agents:
        check(agent.request("CANCEL", request.call_id), "a phone got no CANCEL")
    return "ten phones that return at two nodes get the call once each, and its CANCEL"


@probe("T50.7", "caller-repeats-at-both-nodes", fault=True)
def repeats(t):
    """A caller sends the same INVITE, and later the same CANCEL, to both nodes."""
    cluster = Cluster.shared(t)
    sleeper = Sleeper(t, cluster.b)
    caller, request = call(t, cluster.a, sleeper.name)
    check(sleeper.woken(), "control: no push for the call")
    caller.send(request, cluster.b.address)
    caller.send(request, cluster.a.address)
    check(caller.take(lambda m: m.is_response and m.call_id == request.call_id, 2), "control: no answer at all")
    until(lambda: len(t.suite.provider.of(sleeper.token)) > 1, 0.7)
    sleeper.register(cluster.b.phone(t))
    invite = sleeper.agent.request("INVITE", request.call_id)
    check(invite, "the phone got no INVITE")
    sleeper.agent.respond(invite, 180, tag="b")
    until(lambda: invites(sleeper.agent, request.call_id) > 1, 1)
    count, pushes = invites(sleeper.agent, request.call_id), len(t.suite.provider.of(sleeper.token))
    for node in (cluster.a, cluster.b):
        caller.send(caller.cancel(request), node.address)
    check(sleeper.agent.request("CANCEL", request.call_id), "the phone got no CANCEL")
    check(count == 1, f"the phone got the call {count} times, with {pushes} pushes")
    return f"one INVITE, {pushes} pushes, one CANCEL"


# --- T50.8: a database that hangs


def register_status(phone, user):
    """The status of a REGISTER's final response, or None."""
    answer = phone.register(*user, timeout=8)
    return answer and answer.status


def returns(t, node, user):
    """Waits until the node accepts new contacts again."""
    check(until(lambda: register_status(node.phone(t), user) == 200, 15, 0.2), f"no REGISTER gets 200 at {node.name} after the database is back")


@probe("T50.8", "database-hangs", alone=True)
def hangs(t):
    """PostgreSQL stands still (SIGSTOP), and goes on."""
    cluster = Cluster(t, "nodes-hang")
    a, b = cluster.a, cluster.b
    awake, sleeper, new, unread = Sleeper(t, a, a.stream(t), wakes=False), Sleeper(t, b), cluster.user(), cluster.user()
    far = Sleeper(t, b, b.stream(t), wakes=False)
    for one in (awake, far):
        answered(one.agent, *call(t, a, one.name))
    held, waits = call(t, b, sleeper.name)
    check(sleeper.woken(), "control: no push for the call")
    for node in (a, b):
        check(node.phone(t).register(new[0], "wrong").status == 401, "control: a wrong password is not refused")
    faults, times = [], []
    cluster.server.tell(signal.SIGSTOP)
    try:
        for node in (a, b):
            begin = time.monotonic()
            answer = node.phone(t).register(*new, timeout=8)
            times.append(time.monotonic() - begin)
            check(answer and answer.status == 503, f"a new contact got {answer} at {node.name} while the database hangs")
            check((answer.get("retry-after") or "").isdigit(), "the 503 has no Retry-After")
        check(max(times) < patience(4), f"the 503 came after {max(times):.1f} s")
        # Node B has never read this user. A 401 would tell the phone that its right password is wrong.
        status = register_status(b.phone(t), unread)
        if status != 503:
            faults.append(f"the right password of a user whom the node has not read got {status}")
        begin = time.monotonic()
        for where, one in (("the same node", awake), ("the other node", far)):
            caller, request = call(t, a, one.name)
            check(until(lambda: invites(one.agent, request.call_id)), f"no INVITE for a known phone at {where} while the database hangs; the caller got {caller.history}")
            answered(one.agent, caller, request)
        calls = time.monotonic() - begin
        check(calls < patience(6), f"two calls with known contacts took {calls:.1f} s")
    finally:
        cluster.server.tell(signal.SIGCONT)
    returns(t, b, new)
    sleeper.register()
    answered(sleeper.agent, held, waits)
    if invites(sleeper.agent, waits.call_id) != 1:
        faults.append("the held call rang twice")
    answered(far.agent, *call(t, a, far.name))

    def reaches():
        # Node A may answer 503 until it has read the user again.
        caller, request = call(t, a, sleeper.name)
        until(lambda: len(t.suite.provider.of(sleeper.token)) > 1 or invites(sleeper.agent, request.call_id) or any((m.status or 0) >= 200 for m in caller.history), 3)
        caller.send(caller.cancel(request))
        return len(t.suite.provider.of(sleeper.token)) > 1 or invites(sleeper.agent, request.call_id)

    check(until(reaches, 8, 0.3), "neither push nor INVITE for new calls after the database goes on")
    check(not faults, "; ".join(faults))
    return f"503 after {max(times):.1f} s with Retry-After, two calls in {calls:.1f} s; afterwards the held call rings once"


@probe("T50.8", "database-restarts", alone=True)
def restarts(t):
    """PostgreSQL is away for longer than the five seconds of a dead node, while each node holds a call."""
    cluster = Cluster(t, "nodes-away")
    a, b = cluster.a, cluster.b
    sleepers, new = [Sleeper(t, a), Sleeper(t, b)], cluster.user()
    calls = [call(t, node, one.name) for node, one in zip((b, a), sleepers)]
    check(all(one.woken() for one in sleepers), "control: no push for a call")
    cluster.server.end(signal.SIGINT)
    begin = time.monotonic()
    try:
        check(register_status(a.phone(t), new) == 503, "a new contact did not get 503 while the database is away")
        until(lambda: time.monotonic() - begin > DEAD + 1, DEAD + 2)
    finally:
        cluster.server.launch()
    for node in (a, b):
        returns(t, node, new)
    # Both nodes have given a sign of life again.
    until(lambda: cluster.sql("SELECT count(*) FROM node WHERE place <> '' AND seen > clock_timestamp() - interval '2 seconds'") == "2", 6, 0.2)
    pushes = [len(t.suite.provider.of(one.token)) for one in sleepers]
    for one, node in zip(sleepers, (a, b)):
        one.register(node.phone(t))
    for one, (_, request) in zip(sleepers, calls):
        invite = one.agent.request("INVITE", request.call_id)
        check(invite, "a held call does not ring after the database is back")
        one.agent.respond(invite, 180, tag="b")
    until(lambda: any(invites(one.agent, request.call_id) > 1 for one, (_, request) in zip(sleepers, calls)), 2)
    counts = [invites(one.agent, request.call_id) for one, (_, request) in zip(sleepers, calls)]
    stuck = [node.name for node in (a, b) if "deadlock" in node.log()]
    check(not stuck, f"the nodes' signs of life were in a deadlock: {stuck}; {pushes} pushes and {counts} INVITEs")
    check(counts == [1, 1] and pushes == [1, 1], f"two held calls had {pushes} pushes and {counts} INVITEs: a living node counted as dead when the database was back")
    return "each of two held calls has one push and one INVITE, although no node could give a sign of life"


# --- T50.9: strangers and the database


@probe("T50.9", "strangers-read-little")
def strangers(t):
    """A stranger sends 2,000 REGISTERs with wrong digests, and INVITEs for unknown users with invented credentials."""
    cluster = Cluster(t, "nodes-strangers")
    a, b = cluster.a, cluster.b
    sleeper, known = Sleeper(t, b), cluster.user()
    caller, request = call(t, a, sleeper.name)
    check(sleeper.woken(), "control: no push for the call")
    time.sleep(1.2)  # The database's counters are a second late.
    before, writes = reads(cluster), written(cluster)
    stranger = a.phone(t)
    waiting, sent = 0, 0
    for burst in range(40):
        for number in range(50):
            name = known[0] if number % 2 else fresh("nobody")
            register = stranger.make("REGISTER", "sip:example.net", name, to=f"sip:{name}@example.net", contact=f"<sip:{name}@{stranger.local()}>")
            register.add("Authorization", invented(name, "sip:example.net", t))
            stranger.send(register)
            if number % 2 == 0:
                invite = stranger.make("INVITE", f"sip:{fresh('nobody')}@example.net", name)
                invite.add("Proxy-Authorization", invented(name, invite.uri, t))
                stranger.send(invite)
                sent += 1
            sent += 1
        until(lambda: stranger.received_count >= sent * 0.9, 0.5, 0.005)
        if burst % 8 == 7:
            waiting = max(waiting, int(cluster.sql("SELECT count(*) FROM waiting")))
    # The legitimate phone returns in the middle of the burst's work.
    start = time.monotonic()
    sleeper.register(b.phone(t))
    answered(sleeper.agent, caller, request)
    served = time.monotonic() - start
    check(served < patience(4), f"the phone got its call after {served:.1f} s")
    time.sleep(1.2)
    asked, wrote = reads(cluster) - before, written(cluster) - writes
    accepted = [m for m in stranger.history if m.is_response and 200 <= m.status < 300]
    check(not accepted, f"the stranger got {accepted[:1]}")
    check(wrote <= 2, f"{sent} requests of a stranger wrote {wrote} rows of waiting users, {waiting} at a time, and made {asked} scans")
    check(asked < sent / 2, f"{sent} requests of a stranger made {asked} scans of contacts and accounts")
    return f"{sent} requests with invented credentials: {asked} scans, {wrote} written rows; the phone got its call after {served:.1f} s"


def invented(name, uri, t):
    """Credentials without a nonce of the daemon."""
    nonce, answer = ("%032x" % t.random.getrandbits(128) for _ in range(2))
    return (f'Digest username="{name}", realm="example.net", nonce="{nonce}", uri="{uri}", response="{answer}", algorithm=MD5, '
            'qop=auth, cnonce="c", nc=00000001')


def written(cluster):
    """The number of rows that the database has inserted for waiting users and calls."""
    return int(cluster.sql("SELECT coalesce(sum(n_tup_ins), 0) FROM pg_stat_user_tables WHERE relname IN ('waiting', 'held_call')"))


# --- T50.10: nodes that do not fit


@probe("T50.10", "one-name-one-node")
def one_name(t):
    """A second daemon starts with the name of a living node, and a daemon starts with other domains."""
    cluster = Cluster.shared(t)
    sleeper = Sleeper(t, cluster.a)
    double = Node(cluster, "double", "127.9.254.1", "node-a")
    t.suite.daemons[double.name] = double
    try:
        double.launch_only()
    finally:
        double.stop()
    check(double.process.returncode not in (0, None), f"a second node with one name ran: {double.process.returncode}")
    told = double.log().strip().splitlines()[-1]
    odd = Node(cluster, "odd", "127.9.254.2", "node-odd", domains="[example.net]")
    odd.values["listen"] = f'["udp:{odd.host}:{odd.port}"]'
    t.suite.daemons[odd.name] = odd
    odd.launch_only()
    lines = [line for line in odd.log().splitlines() if re.search(r" (warning|error) ", line) and "LimitNOFILE" not in line]
    fits = "starts without a word" if odd.alive() and not lines else f"says {lines}" if odd.alive() else "does not start"
    odd.stop()
    caller, request = call(t, cluster.a, sleeper.name)
    check(sleeper.woken(), "the first node is harmed")
    caller.send(caller.cancel(request))
    check("cluster.node" in told, f"the message does not name the setting cluster.node: {told[-200:]}")
    return f"the second daemon ends with: {told[-140:]}; a node with other domains and listeners {fits}"


# --- T50.11: passwords


@probe("T50.11", "credentials-at-both-nodes")
def both(t):
    """Somebody replays a phone's REGISTER at the other node, and uses a password that was changed at the other node."""
    cluster = Cluster.shared(t)
    name, password = cluster.user()
    host = t.address()
    phone = cluster.a.phone(t, host=host)
    check(phone.register(name, password).status == 200, "control: no 200")
    captured = phone.last_register
    replayed = []
    for node in (cluster.a, cluster.b):
        thief = node.phone(t, host=host)
        again = captured.copy()
        again.set("Via", re.sub(r"branch=[^;]+", "branch=" + fresh("z9hG4bK"), again.get("Via"))).set("Call-ID", fresh("thief"))
        again.set("Contact", f"<sip:thief@{thief.local()}>")
        answer = thief.exchange(again)
        replayed.append(answer and answer.status)
    # A password changed at A is wrong at B at once.
    user = cluster.user()
    check(cluster.b.phone(t).register(*user).status == 200, "control: no 200")
    cluster.a.user(user[0], password="another-PLANTED-password")
    answer = cluster.b.phone(t).register(*user)
    check(answer and answer.status in (401, 403), f"the old password got {answer} at the other node")
    check(cluster.b.phone(t).register(user[0], "another-PLANTED-password").status == 200, "the new password is refused at the other node")
    status, text = cluster.a.admin("DELETE", f"/v1/users/{user[0]}@example.net")
    answer = cluster.b.phone(t).register(user[0], "another-PLANTED-password")
    check(answer and answer.status in (401, 403), f"a removed user got {answer} at the other node (DELETE: {status} {text})")
    check(replayed[0] != 200, f"a replayed REGISTER got {replayed[0]} at its own node")
    check(replayed[1] != 200, f"a REGISTER that was replayed at the other node from the same address got {replayed[1]}")
    return f"a replayed REGISTER gets {replayed}; changed and removed passwords are wrong at the other node at once"


# --- T50.12: ids


@probe("T50.12", "contacts-of-two-nodes-stay-apart")
def ids(t):
    """Phones of the same users, and phones of others, register alternately at two nodes."""
    cluster = Cluster(t, "nodes-ids")
    users = []
    for turn in range(4):
        here, there = (cluster.a, cluster.b) if turn % 2 else (cluster.b, cluster.a)
        both, others = cluster.user(), [cluster.user(), cluster.user()]
        phones = [Sleeper(t, here, user=both), Sleeper(t, there, user=both)]
        users.append((both[0], phones))
        for node, user in zip((here, there), others):
            users.append((user[0], [Sleeper(t, node, user=user)]))
    wrong = []
    for name, phones in users:
        count = int(cluster.sql(f"SELECT count(*) FROM binding WHERE username = '{name}'"))
        if count != len(phones):
            wrong.append(f"{count} of {len(phones)}")
    check(not wrong, f"{len(wrong)} of {len(users)} users have lost contacts that had got 200 ({', '.join(wrong)}), so two nodes gave one id twice")
    for name, phones in users:
        caller, request = call(t, cluster.a, name)
        check(all(phone.woken() for phone in phones), "a phone gets no push for a call")
        caller.send(caller.cancel(request))
    return f"{sum(len(phones) for _, phones in users)} contacts of {len(users)} users: all are stored, and all get a push"


# --- T50.13: changes of operators

# The time in seconds within which a change of an operator reaches all nodes (docs/Cluster.md).
NEWS = 2.0


def within(limit, condition):
    """Returns the seconds until the condition was true, or stops the probe after the limit."""
    start = time.monotonic()
    while not condition():
        check(time.monotonic() - start <= patience(limit), f"not after {limit} s")
        time.sleep(0.02)
    return time.monotonic() - start


@probe("T50.13", "operators-change-all-nodes")
def operators(t):
    """The owner of a removed API key, app or link uses it at the other node. A provider is switched off at the other node."""
    cluster = Cluster(t, "nodes-operators", limits={"wrong-logins-per-source": 0}, api={"provisioning": {
        "url": "https://localhost:9", "sip-server": "sip:localhost:5061;transport=tls"}})
    a, b, times = cluster.a, cluster.b, []
    key = "spd_" + "k" * 43
    allowed = lambda node: node.http("GET", "/v1/apikeys", key=key)[0] == 200
    for turn in range(3):
        here, there = (a, b) if turn % 2 else (b, a)
        status, text = here.admin("PUT", "/v1/apikeys", {
            "name": "planted", "hash": hashlib.sha256(key.encode()).hexdigest(), "scopes": "admin"})
        check(status == 200 and allowed(here), f"control: no key: {status} {text}")
        times.append(within(NEWS, lambda: allowed(there)))
        check(here.admin("DELETE", "/v1/apikeys/planted")[0] == 200 and not allowed(here), "control: the key is not removed")
        times.append(within(NEWS, lambda: not allowed(there)))
        # A late read of an older state must not bring the key back.
        end = time.monotonic() + NEWS
        while time.monotonic() < end:
            check(not allowed(here) and not allowed(there), "a removed key is accepted again")
            time.sleep(0.05)
    # Apps
    app = {"name": "shop", "id": str(uuid.uuid4()), "org": "Example", "hash": "0" * 64, "user": "{{user}}@example.net"}
    named = lambda node: "shop" in node.admin("GET", "/v1/apps")[1]
    status, text = a.admin("PUT", "/v1/apps", app)
    check(status == 200, f"control: no app: {status} {text}")
    times.append(within(NEWS, lambda: named(b)))
    check(b.admin("DELETE", "/v1/apps/shop")[0] == 200, "the other node cannot remove the app")
    times.append(within(NEWS, lambda: not named(a)))
    # Links
    name, _ = cluster.user()
    status, text = b.admin("POST", f"/v1/users/{name}@example.net/provisioning", {"newPassword": True})
    check(status == 200, f"a node that has never read the user makes no link: {status} {text}")
    path = "/provision/" + json.loads(text)["url"].rsplit("/", 1)[1]
    listed = lambda node: name in node.admin("GET", "/v1/provisioning")[1]
    times.append(within(NEWS, lambda: listed(a)))
    check(a.admin("DELETE", f"/v1/users/{name}@example.net/provisioning")[0] == 200, "the other node cannot revoke the link")
    times.append(within(NEWS, lambda: not listed(b)))
    answer = b.http("GET", path, headers={"User-Agent": "Linphone/5"}, port=b.api_port)
    check(answer[0] == 404, f"a revoked link gets {answer[0]} at the other node")
    # Push providers
    on = lambda node: json.loads(node.admin("GET", "/v1/providers")[1])[0]["isEnabled"]
    check(on(a) and on(b), "control: the provider is off")
    check(a.admin("POST", "/v1/providers/fcm/disable")[0] == 200, "control: the provider is not switched off")
    times.append(within(NEWS, lambda: not on(b)))
    check(b.admin("POST", "/v1/providers/fcm/enable")[0] == 200, "the other node cannot switch the provider on")
    times.append(within(NEWS, lambda: on(a)))
    # Users, over the HTTP API with a user's password
    name, password = cluster.user()
    check(b.admin("GET", f"/v1/users/{name}@example.net")[0] == 200, "a node does not know a user of the other node")
    check(a.admin("DELETE", f"/v1/users/{name}@example.net")[0] == 200, "control: the user is not removed")
    status, _ = b.admin("GET", f"/v1/users/{name}@example.net")
    check(status == 404, f"a removed user gets {status} at the other node")
    return f"{len(times)} changes reach the other node after at most {max(times):.2f} s"


@probe("T50.13", "operators-while-the-database-is-away", alone=True)
def operators_away(t):
    """An operator removes a key while one node does not reach the database."""
    cluster = Cluster(t, "nodes-operators-away", limits={"wrong-logins-per-source": 0})
    a, b = cluster.a, cluster.b
    key = "spd_" + "m" * 43
    allowed = lambda node: node.http("GET", "/v1/apikeys", key=key)[0] == 200
    value = {"name": "planted", "hash": hashlib.sha256(key.encode()).hexdigest(), "scopes": "admin"}
    check(a.admin("PUT", "/v1/apikeys", value)[0] == 200, "control: no key")
    within(NEWS, lambda: allowed(b))
    cluster.server.tell(signal.SIGSTOP)
    check(until(lambda: "the database does not answer this node" in b.log(), 10), "the log does not report the outage")
    check(allowed(b), "a node without the database refuses a key that it knows")
    cluster.server.tell(signal.SIGCONT)
    # Another writer than the daemons changes the key, and the node must see the change after the outage.
    cluster.sql("BEGIN; DELETE FROM api_key; UPDATE revision SET number = number + 1 WHERE name = 'api-keys'; COMMIT")
    took = within(NEWS + 2, lambda: not allowed(b))
    return f"the key is refused {took:.2f} s after the change"


# --- T50.14: limits of the whole cluster


def paced(t, pause):
    """Yields the numbers of steps, one in each pause."""
    start, step = time.monotonic(), 0
    while True:
        delay = start + step * pause - time.monotonic()
        if delay > 0:
            time.sleep(delay)
        yield step
        step += 1


@probe("T50.14", "guesses-at-both-nodes")
def guesses(t):
    """The attacker tries half of its wrong passwords at each node: from one address for many users, and from many addresses for
    one user."""
    cluster = Cluster(t, "nodes-guesses", limits={"wrong-logins-per-source": 10, "wrong-logins-per-user": 14})
    nodes = (cluster.a, cluster.b)

    def checked(count, pause, attempt):
        """The number of guesses whose password a node has checked, and the statuses of the last guesses."""
        statuses, start = [], time.monotonic()
        for step in paced(t, pause):
            if step == count:
                return statuses.count(401), statuses[-6:], time.monotonic() - start
            statuses.append(attempt(step, nodes[step % 2]))

    source = t.address()
    agents = [node.phone(t, host=source) for node in nodes]

    def by_source(step, node):
        answer = agents[step % 2].register(f"guessed{step}", "wrong")
        return answer and answer.status

    by_one, last, took = checked(40, 0.3, by_source)
    # A burst of ten guesses, and ten in each minute. For two seconds, a node does not know the guesses at the other node.
    most = 10 + took / 6 + 2 / 0.6
    check(8 <= by_one <= most + 1, f"{by_one} of 40 guesses from one address were checked in {took:.1f} s, at most {most:.0f} expected")
    check(set(last) == {503}, f"the last guesses got {last}")
    status, text, _ = cluster.b.http("POST", "/v1/push-tokens", '{"username":"u","password":"guess","selector":"S:1"}',
                                     {"Content-Type": "application/json"}, port=cluster.b.api_port, source=source)
    check(status == 429, f"a guess over HTTP from the same address got {status}")
    name, password = cluster.user()
    known = cluster.a.phone(t)
    check(known.register(name, password).status == 200, "control: no 200")

    def by_user(step, node):
        answer = node.phone(t).register(name, "wrong")
        return answer and answer.status

    by_many, last, took = checked(50, 0.25, by_user)
    most = 14 + took * 14 / 60 + 2 / 0.5
    check(12 <= by_many <= most + 1, f"{by_many} of 50 guesses for one user were checked in {took:.1f} s, at most {most:.0f} expected")
    check(set(last) == {503}, f"the last guesses got {last}")
    check(known.register(name, password).status == 200, "the user is locked out at its own address")
    # A node that restarts does not forget the guesses.
    cluster.b.stop(signal.SIGKILL)
    cluster.b.start()
    check(until(lambda: (cluster.b.phone(t, host=source).register("guessed", "wrong") or answer_none).status == 503, 3, 0.3),
          "after its restart, a node has forgotten the guesses of the last minute")
    rows = int(cluster.sql("SELECT coalesce(max(length(counts)), 0) FROM told_count"))
    check(rows < 15 * 600, f"a row of counts has {rows} bytes")
    return f"{by_one} of 40 guesses from one address and {by_many} of 50 for one user are checked at two nodes together"


class answer_none:
    status = None


@probe("T50.14", "pushes-at-both-nodes")
def pushes(t):
    """PBXs call one phone at both nodes again and again."""
    cluster = Cluster(t, "nodes-pushes", call={"pushes-per-device": 6}, limits={"caller-share": 100, "calls-per-account": 100})
    phone = Sleeper(t, cluster.a)
    callers = [node.phone(t, trusted=True) for node in (cluster.a, cluster.b)]
    start = time.monotonic()
    for step in paced(t, 0.4):
        if step == 24:
            break
        request = callers[step % 2].make("INVITE", f"sip:{phone.name}@example.net", str(700 + step))
        callers[step % 2].send(request)
    took = time.monotonic() - start
    count = 0
    while phone.woken(count + 1, 1.0):
        count += 1
    # A burst of six pushes, and six in each minute. For two seconds, a node does not know the pushes of the other node.
    most = 6 + took / 10 + 2 / 0.8
    check(5 <= count <= most + 1, f"the phone got {count} pushes for 24 calls in {took:.1f} s, at most {most:.0f} expected")
    return f"the phone gets {count} pushes for 24 calls at two nodes in {took:.0f} s"


@probe("T50.14", "calls-at-both-nodes")
def calls_at_both(t):
    """A caller holds as many calls to one user as the limits allow at one node, and then calls the user at the other node."""
    cluster = Cluster(t, "nodes-calls", limits={"calls-per-account": 8, "trusted-share": 0})
    a, b = cluster.a, cluster.b
    sleeper = Sleeper(t, a)
    first, second = a.phone(t, trusted=True), b.phone(t, trusted=True)

    def status(caller, user):
        """The response to a new call in the name of a user: 100 if the call waits."""
        request = caller.make("INVITE", f"sip:{sleeper.name}@example.net", user)
        caller.send(request)
        answer = until(lambda: next((m for m in caller.history if m.status and m.call_id == request.call_id), None), 6)
        check(answer, "control: a call got no response")
        if answer.status >= 300:
            caller.send(caller.ack_failure(request, answer))
        return answer.status, request

    def is_refused(caller, user):
        """Whether a new call is refused. A call that waits ends at once, so that it uses up no limit."""
        code, request = status(caller, user)
        if code == 100:
            caller.send(caller.cancel(request))
        return code == 486

    # One caller may use half of a user's eight calls.
    waiting = [status(first, "700") for _ in range(4)]
    check([code for code, _ in waiting] == [100] * 4, f"control: the first calls got {[code for code, _ in waiting]}")
    check(status(first, "700")[0] == 486, "control: the fifth call at the same node waits")
    check(until(lambda: is_refused(second, "700"), 6, 0.5), "the other node takes the caller's calls too")
    # A call that was cancelled at the other node ends within moments.
    code, other = until(lambda: next((found for found in [status(second, "701")] if found[0] == 100), None), 4, 0.5) or (486, None)
    check(code == 100, f"another caller at the other node got {code}")
    for _, request in waiting:
        first.send(first.cancel(request))
    check(until(lambda: status(second, "702")[0] == 100, 8, 0.5), "calls that have ended still count at the other node")
    # The node that holds calls dies. Its calls count at the other node, which continues them.
    third = [status(first, "703") for _ in range(3)]
    check([code for code, _ in third] == [100] * 3, f"control: further calls got {[code for code, _ in third]}")
    a.kill()
    check(until(lambda: status(second, "704")[0] == 100, 12, 0.5), "the other node refuses calls for good after the end of a node")
    second.send(second.cancel(other))
    return "the limit holds at both nodes, and no longer than the calls"


# --- T50.15: operators' questions


def held(node):
    """The calls in `held list` at a node by Call-ID, and the lines about nodes that did not answer."""
    done = node.command("held", "list", "--json")
    check(done.returncode == 0, f"held list: {done.stderr}")
    return {call["callID"]: call for call in json.loads(done.stdout or "[]")}, done.stderr


@probe("T50.15", "operators-ask-any-node")
def any_node(t):
    """An operator asks each of two nodes about a call at the other node, and ends the call there."""
    cluster = Cluster(t, "nodes-asked")
    a, b = cluster.a, cluster.b
    asleep, awake = Sleeper(t, a), Sleeper(t, b, agent=b.stream(t))
    (caller, request), (other, second) = call(t, a, asleep.name), call(t, b, asleep.name)
    check(asleep.woken(), "control: no push")
    both = sorted([(request.call_id, "node-a"), (second.call_id, "node-b")])

    def trouble(node):
        """The faults in the answers of the node; nothing if all are right."""
        found, said = held(node)
        places = sorted((name, found[name]["node"]) for name in found)
        if places != both or said:
            return f"{node.node} shows {places} {said}"
        table = node.command("held", "list").stdout
        if "node-a" not in table or "node-b" not in table:
            return f"the table at {node.node} names no node: {table}"
        for asked in (request, second):
            text = node.command("explain", asked.call_id).stdout
            if asked.call_id not in text:
                return f"explain at {node.node} does not know the call: {text}"
        report = json.loads(node.admin("GET", f"/v1/explain?name={asleep.name}%40example.net")[1])
        places = sorted((one["callID"], one["node"]) for one in report["held"])
        if places != both or not report["contacts"]:
            return f"explain at {node.node}: {places}, {len(report['contacts'])} contacts"
        status, text = node.admin("GET", f"/v1/users/{awake.name}@example.net/devices")
        if status != 200 or [(one["state"], one["node"]) for one in json.loads(text)] != [("awake", "node-b")]:
            return f"device show at {node.node}: {status} {text}"
        page = json.loads(node.admin("GET", "/v1/held?limit=1")[1])
        if len(page["calls"]) > 2 or page["total"] != 2 or "missingNodes" in page:
            return f"a page of one call at {node.node}: {page}"
        return None

    for node in (a, b):
        # On a busy machine, a node may need more than its second to answer.
        check(until(lambda: not trouble(node), 10), trouble(node))
    done = b.command("held", "end", request.call_id, "--status", "486")
    check(done.returncode == 0, f"held end at the other node: {done.stderr}")
    answer = caller.response(request.call_id, "INVITE", 6)
    check(answer and answer.status == 486, f"the caller got {answer}")
    place = "node-a"
    check(f"{request.call_id} at {place}" in b.log(), f"the log of node b does not name the call: {b.log()[-400:]}")
    found, _ = held(a)
    check(list(found) == [second.call_id], f"node a still shows {list(found)}")
    done = a.command("held", "end", "nobody-knows-this")
    check(done.returncode != 0 and "no such call" in done.stderr, f"an unknown call: {done.stderr}")
    other.send(other.cancel(second))
    return "both nodes show, explain and end the calls of both"


@probe("T50.15", "call-at-two-nodes")
def two_nodes(t):
    """A caller sends one INVITE to two nodes, and an operator ends one of both calls."""
    cluster = Cluster.shared(t)
    sleeper = Sleeper(t, cluster.a)
    caller = cluster.a.phone(t, trusted=True)
    request = caller.make("INVITE", f"sip:{sleeper.name}@example.net", "700")
    caller.send(request)
    twin = cluster.b.phone(t, trusted=True)
    copy = request.copy()
    copy.set("Via", request.get("Via").replace(f"{caller.host}:{caller.port}", f"{twin.host}:{twin.port}"))
    twin.send(copy)
    check(until(lambda: len([1 for one in json.loads(cluster.a.admin("GET", "/v1/held?limit=1000")[1])["calls"]
                             if one["callID"] == request.call_id]) == 2), "control: the call does not wait at two nodes")
    done = cluster.b.command("held", "end", request.call_id)
    check(done.returncode != 0 and "node-a" in done.stderr and "node-b" in done.stderr, f"an ambiguous call: {done.stderr}")
    done = cluster.b.command("held", "end", request.call_id, "--node", "node-a")
    check(done.returncode == 0, f"held end --node: {done.stderr}")
    left = [one["node"] for one in json.loads(cluster.a.admin("GET", "/v1/held?limit=1000")[1])["calls"] if one["callID"] == request.call_id]
    check(left == ["node-b"], f"the call still waits at {left}")
    answer = caller.response(request.call_id, "INVITE", 6)
    check(answer and answer.status == 480, f"the caller got {answer}")
    done = cluster.a.command("held", "end", request.call_id, "--node", "node-c")
    check(done.returncode != 0 and "node-c" in done.stderr, f"an unknown node: {done.stderr}")
    check(cluster.a.command("held", "end", request.call_id).returncode == 0, "the other call cannot be ended")
    return "the refusal names both nodes, and --node ends one of both calls"


# --- T50.16: nodes that do not answer


@probe("T50.16", "silent-node-is-named", alone=True)
def silent(t):
    """A node stands still, and then dies, while operators ask the other node."""
    cluster = Cluster(t, "nodes-silent")
    a, b = cluster.a, cluster.b
    sleeper, away = Sleeper(t, a), Sleeper(t, b, agent=b.stream(t))
    caller, request = call(t, a, sleeper.name)
    check(sleeper.woken(), "control: no push")
    b.pause()
    try:
        start = time.monotonic()
        found, said = held(a)
        took = time.monotonic() - start
        check(list(found) == [request.call_id], f"the own call is missing: {found}")
        check("node-b" in said, f"held list does not name the silent node: {said!r}")
        check(took < patience(3), f"held list took {took:.1f} s")
        text = a.command("explain", sleeper.name).stdout
        check("node-b" in text and "did not answer" in text, f"explain does not name the silent node: {text}")
        status, text = a.admin("GET", f"/v1/users/{away.name}@example.net/devices")
        device = json.loads(text)[0]
        check(device["state"] == "unknown" and device["node"] == "node-b" and device["nodeProblem"], f"the device of the silent node: {device}")
        shown = a.command("device", "show", away.name)
        check("node-b" in shown.stderr and "did not answer" in shown.stderr, f"device show: {shown.stderr!r}")
        done = a.command("held", "end", "elsewhere")
        check(done.returncode != 0 and "node-b" in done.stderr, f"held end does not name the silent node: {done.stderr}")
        # Questions at once wait for the silent node together.
        start = time.monotonic()
        threads = [threading.Thread(target=a.admin, args=("GET", "/v1/held")) for _ in range(10)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        together = time.monotonic() - start
        check(together < patience(4), f"ten questions took {together:.1f} s")
        other, second = call(t, a, sleeper.name)
        check(until(lambda: second.call_id in held(a)[0]), "a new call at the asked node does not wait")
    finally:
        b.go_on()
    check(until(lambda: not held(a)[1]), f"the node that goes on is still missing: {held(a)[1]}")
    b.process.kill()
    b.process.wait()
    found, said = held(a)
    check("node-b" in said, f"held list does not name the dead node: {said!r}")
    check(until(lambda: "has ended or does not reach the database" in held(a)[1], 12, 0.5), f"the dead node is forgotten: {held(a)[1]!r}")
    check("did not answer an operator's question" in a.log(), "the log has no line")
    b.start()
    cluster.met()
    check(until(lambda: not held(a)[1]), f"the restarted node is still missing: {held(a)[1]}")
    return f"a silent node is named after {took:.1f} s, and ten questions at once take {together:.1f} s"


@probe("T50.16", "node-without-database-is-asked", alone=True)
def without_database(t):
    """A node holds a call, and loses its way to the database. The other node takes it for dead."""
    cluster = Cluster(t, "nodes-cut")
    a, b = cluster.a, cluster.b
    sleeper = Sleeper(t, b, wakes=True)
    caller, request = call(t, b, sleeper.name)
    check(sleeper.woken(), "control: no push")
    cluster.sql("UPDATE node SET seen = clock_timestamp() - interval '1 hour' WHERE name = 'node-b'")
    cluster.sql("DELETE FROM node WHERE name = 'node-b'")
    found, said = held(a)
    check(found.get(request.call_id, {}).get("node") == "node-b", f"the call of the node is missing: {found} {said}")
    return "the call of a node that left the list of nodes is shown"


# --- T50.17: who may ask


def asks(t, node, method, path, pair=None, host=None, fields=(), protocols=("http/1.1",)):
    """The status and the body of a request at the nodes' listener; `None` without an answer."""
    try:
        plain = socket.create_connection(node.place, patience(5), source_address=(host or "127.0.0.1", 0))
    except OSError:
        return None
    try:
        made = context(node.cluster.authority, pair, protocols)
        secure = made.wrap_socket(plain, server_hostname=node.host)
        head = f"{method} {path} HTTP/1.1\r\nHost: {node.host}\r\nConnection: close\r\n" + "".join(f"{n}: {v}\r\n" for n, v in fields) + "\r\n"
        secure.sendall(head.encode())
        answer = b""
        while some := secure.recv(65536):
            answer += some
    except OSError:
        return None
    finally:
        plain.close()
    top, _, body = answer.partition(b"\r\n\r\n")
    return (int(top.split()[1]), body.decode()) if top.startswith(b"HTTP/1.1 ") else None


@probe("T50.17", "only-nodes-ask-nodes")
def only_nodes(t):
    """The attacker asks the nodes' listener over HTTP without a node's certificate. A node asks for more than nodes may."""
    cluster = Cluster.shared(t)
    a, b = cluster.a, cluster.b
    sleeper = Sleeper(t, a)
    caller, request = call(t, a, sleeper.name)
    check(sleeper.woken(), "control: no push")
    got = asks(t, a, "GET", "/v1/held?limit=1000", b.pair, b.host)
    check(got and got[0] == 200 and request.call_id in got[1], f"control: a node's question got {got}")
    check(asks(t, b, "GET", "/v1/held?limit=1000", a.pair, a.host)[1].find(request.call_id) < 0, "a node that a node asks has asked others")
    foreign = Authority(t.suite.folder_of("foreign-askers"), "sippushd cluster CA")
    names = f"IP:{b.host},DNS:node-b"
    pairs = {
        "no certificate": None,
        "a certificate of another authority": foreign.issue("node-b", names),
        "a certificate for servers only": cluster.authority.marked("servers-ask", b.host, "serverAuth"),
        "an expired certificate": cluster.authority.issue("expired-asker", names, seconds=-30),
    }
    routes = [("GET", "/v1/held"), ("GET", f"/v1/explain?name={sleeper.name}"), ("DELETE", f"/v1/held/{request.call_id}"),
              ("GET", f"/v1/users/{sleeper.name}@example.net/devices")]
    for what, pair in pairs.items():
        for host in (b.host, t.address(trusted=True)):
            for method, path in routes:
                got = asks(t, a, method, path, pair, host)
                check(got is None, f"{what} from {host}: {method} {path} got {got}")
    for method, path in [("GET", "/v1/users"), ("PUT", "/v1/users"), ("GET", "/v1/keys"), ("GET", "/metrics"), ("POST", "/v1/drain"),
                         ("DELETE", f"/v1/users/{sleeper.name}@example.net"), ("GET", "/v1/messages"), ("GET", "/"), ("GET", "/v1/live"),
                         ("DELETE", f"/v1/users/{sleeper.name}@example.net/bucket"), ("POST", "/v1/providers/fcm/disable")]:
        got = asks(t, a, method, path, b.pair, b.host)
        check(got and got[0] == 404, f"a node may ask for {method} {path}: {got}")
    got = asks(t, a, "GET", "/v1/held", b.pair, b.host, [("Sippushd-Domains", "example.org")])
    check(got and got[0] == 200 and request.call_id not in got[1], f"a question for another domain shows {got}")
    for text in ("", "a,,b", " "):
        got = asks(t, a, "GET", "/v1/held", b.pair, b.host, [("Sippushd-Domains", text)])
        check(got and got[0] == 400, f"the domains {text!r} got {got}")
    for junk in (b"\0" * 200, b"INVITE sip:x SIP/2.0\r\n\r\n", b"GET " + b"a" * 70000):
        try:
            plain = socket.create_connection(a.place, patience(5))
            secure = context(cluster.authority, b.pair, ("http/1.1",)).wrap_socket(plain, server_hostname=a.host)
            secure.sendall(junk)
            secure.recv(4096)
            plain.close()
        except OSError:
            pass
    check(request.call_id in held(b)[0], "node b no longer sees the call at node a")
    caller.send(caller.cancel(request))
    return f"{len(pairs)} kinds of certificates get no answer, and a node gets only the routes for nodes"


@probe("T50.17", "keys-with-domains-at-other-nodes")
def domain_keys(t):
    """A key for one domain asks a node about calls of another domain at the other node."""
    cluster = Cluster.shared(t)
    sleeper = Sleeper(t, cluster.a)
    caller, request = call(t, cluster.a, sleeper.name)
    check(sleeper.woken(), "control: no push")
    seen = {}
    for domain in ("example.net", "example.org"):
        key = key_of(cluster.b, fresh("key"), "admin", domain)
        seen[domain] = request.call_id in cluster.b.http("GET", "/v1/held?limit=1000", key=key)[1]
        if domain == "example.org":
            status, text, _ = cluster.b.http("DELETE", f"/v1/held/{request.call_id}", key=key)
            check(status == 404, f"a key for {domain} ends a call of example.net: {status} {text}")
            text = cluster.b.http("GET", f"/v1/explain?name={request.call_id}", key=key)[1]
            check(not json.loads(text)["held"], f"a key for {domain} explains a call of example.net: {text}")
    check(seen["example.net"], f"control: a key for example.net does not see the call: {seen}")
    check(not seen["example.org"], "a key for example.org sees a call of example.net")
    caller.send(caller.cancel(request))
    return f"seen by keys: {seen}"


# --- T50.18: the duties of one node


@probe("T50.18", "duties-move")
def duties(t):
    """The node with the duties and with two phones is killed. The other node wakes one phone for its refresh, removes the
    contact of the other phone, and sends no push twice."""
    cluster = Cluster(t, "nodes-duties", registrar={"refresh-push": "180s", "min-expires": "10s"})
    held = "this node has the duties of the cluster"
    check(until(lambda: any(held in node.log() for node in (cluster.a, cluster.b)), 10), "no node has the duties")
    first, other = (cluster.a, cluster.b) if held in cluster.a.log() else (cluster.b, cluster.a)
    check(held not in other.log(), "both nodes have the duties")
    begin = time.monotonic()
    plain = Sleeper(t, first, wakes=False, expires=20)
    asleep, moved = Sleeper(t, first, expires=200), Sleeper(t, first, expires=200)

    def stored(name):
        return int(cluster.sql(f"SELECT count(*) FROM binding WHERE username = '{name}'"))

    check(stored(plain.name) == 1, "control: the contact is not stored")
    first.kill()
    killed = time.monotonic()
    moved.register(other.phone(t))
    check(until(lambda: held in other.log(), 12), f"the duties do not move: {other.log()[-400:]}")
    took = time.monotonic() - killed
    # The killed node starts again, with another run. The duties stay, and its contacts of before are the other node's.
    first.launch()
    within(45, lambda: stored(plain.name) == 0)
    after = time.monotonic() - begin
    check(after > 15, f"the contact was removed {after:.0f} s after the REGISTER, before its expiry")
    check(asleep.woken(1, 40), "no refresh push for a phone whose node has ended")
    woken = time.monotonic() - begin
    check(19 < woken < 60, f"the refresh push came after {woken:.0f} s")
    count = len(t.suite.provider.of(asleep.token))
    asleep.register(other.phone(t))
    time.sleep(12)
    pushes = t.suite.provider.of(asleep.token)
    check(len(pushes) == count == 1, f"{len(pushes)} refresh pushes for one expiry")
    check(not t.suite.provider.of(moved.token), "a phone that has registered at the other node got a refresh push")
    check(stored(asleep.name) == stored(moved.name) == 1, "a contact that was refreshed is gone")
    check(held not in first.log().rpartition("another node of the cluster is here")[2], "the restarted node has the duties too")
    return f"the duties move after {took:.1f} s, the refresh push comes after {woken:.0f} s, the expired contact goes"
