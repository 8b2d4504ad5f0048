"""T30: more requests than can be served, and fewer resources than are needed."""

import os
import resource
import signal
import socket
import subprocess
import threading
import time

from sip import fresh, hang_up
from suite import Skipped, check, probe
from .store import own_daemon, registered_now
from .wake import pushed


class Backlog:
    """The bytes that wait in the kernel's buffer of the daemon's UDP socket. The buffer must not become full, because the
    kernel would then drop preferred requests too."""

    # More bytes than the daemon reads in one iteration of its loop, and fewer than the smallest buffer holds. For one
    # REGISTER, the kernel counts more than a thousand bytes.
    SOME, MOST = 48 << 10, 96 << 10

    def __init__(self, port):
        self.place = ":%04X" % port

    def waiting(self):
        with open("/proc/net/udp") as file:
            # The table also has the socket that reserves the port.
            rows = [line.split() for line in file if line.split()[1].endswith(self.place)]
        return max((int(row[4].split(":")[1], 16) for row in rows), default=0)

    def has_room(self):
        return self.waiting() < self.MOST


class Flood:
    """REGISTERs for unknown users, and their answers. One thread sends the REGISTERs as fast as the buffer has room."""

    def __init__(self, target, host):
        self.target = target
        self.backlog = Backlog(target[1])
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
        self.socket.bind((host, 0))
        self.stop, self.may_send = threading.Event(), threading.Event()
        self.sent, self.refused, self.others, self.waits = 0, 0, 0, []
        self.threads = [threading.Thread(target=one, daemon=True) for one in (self.send, self.read)]

    def start(self):
        for thread in self.threads:
            thread.start()
        return self

    def send(self):
        host, port = self.socket.getsockname()
        text = ("REGISTER sip:example.net SIP/2.0\r\nVia: SIP/2.0/UDP %s:%d;branch=z9hG4bK%%d;rport\r\nMax-Forwards: 70\r\n"
                "From: <sip:n%%d@example.net>;tag=f\r\nTo: <sip:n%%d@example.net>\r\nCall-ID: n%%d\r\nCSeq: 1 REGISTER\r\n"
                "Contact: <sip:n%%d@%s:%d>\r\nExpires: 600\r\nContent-Length: 0\r\n\r\n" % (host, port, host, port))
        while not self.stop.is_set():
            if not self.may_send.wait(0.2) or self.sent % 16 == 0 and not self.backlog.has_room():
                time.sleep(0.001)
                continue
            self.sent += 1
            try:
                self.socket.sendto((text % ((self.sent,) * 5)).encode(), self.target)
            except OSError:
                pass

    def read(self):
        while not self.stop.is_set():
            try:
                raw = self.socket.recv(4096)
            except OSError:
                return
            if raw.startswith(b"SIP/2.0 503"):
                self.refused += 1
                place = raw.find(b"Retry-After: ")
                if place >= 0 and len(self.waits) < 5000:
                    self.waits.append(int(raw[place + 13:raw.find(b"\r", place)]))
            else:
                self.others += 1

    def end(self):
        self.stop.set()
        self.threads[0].join()

    def close(self):
        self.stop.set()
        self.socket.close()


@probe("T30.1", "calls-before-registers", alone=True)
def calls_first(t):
    """The probe stops the daemon until enough packets wait, and until each packet has waited for twice limits.queueing
    (20 ms). The result therefore does not depend on the speed of the machine. The waiting packets are REGISTERs of
    unknown users."""
    t.needs("limits.queueing")
    daemon = own_daemon(t, "crowded", auth="off", limits={"queueing": "20ms", "registers-per-source": 0}, call={"ring-timeout": "90s"}, log={"level": "info"}).start()
    phone, name, password, token = registered_now(t)
    bystanders = [registered_now(t) for _ in range(8)]
    caller = t.phone(trusted=True)
    request = caller.make("INVITE", f"sip:{name}@example.net")
    caller.send(request)
    check(t.suite.provider.wait(token), "control: no push")
    halt, backlog = threading.Event(), Backlog(daemon.port)

    def until(reached, seconds):
        limit = time.monotonic() + seconds
        while not reached() and not halt.is_set() and time.monotonic() < limit:
            time.sleep(0.002)

    def throttle():
        while not halt.is_set():
            daemon.process.send_signal(signal.SIGSTOP)
            for flood in floods:
                flood.may_send.set()
            # More packets wait than the daemon reads in one iteration, because it checks the waiting time after a full
            # batch.
            until(lambda: backlog.waiting() >= backlog.SOME, 5)
            for flood in floods:
                flood.may_send.clear()
            time.sleep(0.04)
            # Except for packets of phones and callers, all packets have now waited longer than limits.queueing.
            daemon.process.send_signal(signal.SIGCONT)
            until(lambda: backlog.waiting() < backlog.SOME // 16, 0.1)

    floods = [t.own(Flood(daemon.address, t.address())).start() for _ in range(2)]
    thread = threading.Thread(target=throttle)
    thread.start()
    try:
        limit = time.monotonic() + 60
        until(lambda: sum(flood.refused for flood in floods) >= 300, 60)
        refused = sum(flood.refused for flood in floods)
        check(refused >= 300, f"after 60 s {refused} REGISTERs were refused, {sum(f.others for f in floods)} served")
        # The daemon also refuses most REGISTERs of known users.
        refresh = None
        while (refresh is None or refresh.status != 503) and time.monotonic() < limit:
            bystander = t.random.choice(bystanders)
            refresh = bystander[0].register(*bystander[1:3], params=pushed(bystander[3]), timeout=3)
        check(refresh and refresh.status == 503, f"control: a phone that no call waits for got {refresh}")
        # The phone wakes up while the call waits. The kernel may drop the phone's packets, so the phone repeats them.
        answer = phone.register(name, password, params=pushed(token), timeout=30)
        check(answer and answer.status == 200, f"the REGISTER of the phone that a call waits for got {answer}")
        invite = phone.request("INVITE", timeout=30)
        check(invite, "the held call did not reach its phone")
        phone.respond(invite, 200, tag="p")
        deadline, answer = time.monotonic() + 30, None
        while answer is None and time.monotonic() < deadline:
            answer = caller.response(request.call_id, timeout=0.5)
            if answer is None:
                phone.respond(invite, 200, tag="p")
        check(answer and answer.status == 200, f"the caller got {answer}")
        until(lambda: sum(flood.refused for flood in floods) >= refused + 100, 30)
        later = sum(flood.refused for flood in floods)
        check(later >= refused + 100, f"control: {later - refused} REGISTERs were refused while the phone woke")
        refused = later
    finally:
        for flood in floods:
            flood.end()
        halt.set()
        thread.join()
        daemon.process.send_signal(signal.SIGCONT)
    waits = [wait for flood in floods for wait in flood.waits]
    check(min(waits) >= 5 and max(waits) <= 120, f"Retry-After from {min(waits)} to {max(waits)}")
    middle = sorted(waits)[len(waits) // 2]
    check(40 <= middle <= 85, f"Retry-After is not spread evenly: half of them up to {middle} s")
    # The flood has ended, so the daemon serves all requests again.
    end = time.monotonic()
    while True:
        newcomer = t.phone()
        answer = newcomer.register(fresh("late"), "", timeout=2)
        if answer and answer.status == 200:
            break
        check(time.monotonic() - end < 60, f"60 s after the load a new phone gets {answer}")
        time.sleep(0.2)
    check("overloaded" in daemon.log(), "the log does not say that it was overloaded")
    return (f"{refused} REGISTERs refused for 5 to 120 s while a held call was woken and taken; {time.monotonic() - end:.1f} s after the load "
            "a new phone was served")


@probe("T30.2", "no-descriptors-left")
def descriptors(t):
    """Opens 200 connections to a daemon that may open 160 descriptors."""
    daemon = own_daemon(t, "poor", limits={"connections-per-source": 1000, "first-request": "60s"}, log={"level": "notice"})
    daemon.prepare = lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (160, 160))
    daemon.start()
    early = t.stream(trusted=True)
    phone, name, password, token = registered_now(t)
    crowd = []
    for _ in range(200):
        one = socket.socket()
        one.settimeout(3)
        one.bind((t.address(), 0))
        try:
            one.connect(daemon.address)
            one.setblocking(False)
        except OSError:
            pass
        crowd.append(one)
    # A daemon becomes idle when it has handled all connections, but never in an endless loop.
    for _ in range(20):
        work = daemon.work()
        time.sleep(2)
        used = daemon.work() - work
        if used < 0.5:
            break
    check(used < 0.5, f"while nothing happens it works {used:.1f} s in 2")
    question = early.make("OPTIONS", "sip:example.net")
    early.send(question)
    answer = early.response(question.call_id)
    check(answer and answer.status == 200, f"on a connection from before: {answer}")
    caller = t.phone(trusted=True)
    request = caller.make("INVITE", f"sip:{name}@example.net")
    caller.send(request)
    check(t.suite.provider.wait(token), "a call over UDP led to no push: no descriptor was left for it")
    caller.send(caller.cancel(request))
    check(daemon.command("held", "list").returncode == 0, "no descriptor was left for the control socket")
    for one in crowd:
        one.close()
    time.sleep(0.5)
    late = t.stream()
    question = late.make("OPTIONS", "sip:example.net")
    late.send(question)
    answer = late.response(question.call_id)
    check(answer and answer.status == 200, f"with room again: {answer}")
    return f"200 connections to a process of 160 descriptors: calls, pushes, commands and old connections go on, {used:.2f} s of work in 2 s"


@probe("T30.3", "memory-is-short")
def memory(t):
    """limits.memory is less than the memory that the daemon uses. Strangers get no connections, but everything else is
    served."""
    t.needs("limits.memory")
    daemon = own_daemon(t, "tight", limits={"memory": 8388608}).start()
    phone, name, password, token = registered_now(t)
    stranger = t.stream()
    check(stranger.wait_closed(20), "a stranger's connection stays open")
    peer = t.stream(trusted=True)
    question = peer.make("OPTIONS", "sip:example.net")
    peer.send(question)
    answer = peer.response(question.call_id)
    check(answer and answer.status == 200, f"the trusted peer's connection: {answer}")
    check("memory is short" in daemon.log(), "the log does not say why")
    return "with less memory than it needs it takes the PBX's connections and datagrams, and no stranger's connection"


@probe("T30.4", "provider-away")
def provider_away(t):
    """The push provider's server stops for a while. A call waits until its ring timeout and becomes a missed call, which
    is reported later."""
    port = t.suite.free_port()
    daemon = own_daemon(t, "lonely", call={"ring-timeout": "5s"},
                        push={"fcm": {"endpoint": f"http://127.0.0.1:{port}"}}).start()
    phone, name, password, token = registered_now(t)
    other = t.phone()
    awake, _ = t.registered(other)
    caller = t.phone(trusted=True)
    calls = []
    for _ in range(8):
        request = caller.make("INVITE", f"sip:{name}@example.net")
        caller.send(request)
        calls.append(request)
    # Phones that need no push are not affected.
    request = caller.make("INVITE", f"sip:{awake}@example.net")
    begin = time.monotonic()
    caller.send(request)
    invite = other.request("INVITE", timeout=10)
    check(invite, "a phone that is awake does not ring while the provider is away")
    quick = time.monotonic() - begin
    other.respond(invite, 486, tag="o")
    for request in calls:
        answer = caller.response(request.call_id, timeout=30)
        check(answer and answer.status == 480, f"a call whose push cannot be sent got {answer}")
    provider = type(t.suite.provider)()
    bridge = t.own(Bridge(port, provider.port))
    limit = time.monotonic() + 60
    answer = phone.register(name, password, params=pushed(token))
    check(answer and answer.status == 200, f"control: REGISTER got {answer}")
    # The list of missed calls is sent when the provider works again, or when the phone registers again.
    while not provider.wait(token, timeout=3) and time.monotonic() < limit:
        phone.register(name, password, params=pushed(token))
    found = [push for push in provider.of(token) if sum(str(push).count(call.call_id) for call in calls) or "missed" in str(push).lower()]
    check(provider.of(token), "with the provider back nothing is pushed")
    bridge.close()
    return (f"8 calls got 480 after their time while a phone that needed no push rang in {quick:.2f} s; the provider, back again, was told "
            f"of the missed calls ({len(provider.of(token))} push{', by their names' if found else ''})")


class Bridge:
    """A TCP relay: listens on a port and forwards the bytes."""

    def __init__(self, port, target):
        self.listener = socket.create_server(("127.0.0.1", port))
        self.target = target
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                one, _ = self.listener.accept()
            except OSError:
                return
            other = socket.create_connection(("127.0.0.1", self.target))
            for pair in ((one, other), (other, one)):
                threading.Thread(target=self.pass_on, args=pair, daemon=True).start()

    @staticmethod
    def pass_on(source, sink):
        try:
            while some := source.recv(65536):
                sink.sendall(some)
        except OSError:
            pass
        sink.close()

    def close(self):
        self.listener.close()


@probe("T30.5", "names-nobody-knows")
def names(t):
    """No name server knows the PBX's name. Calls to the PBX fail, and calls from the PBX work."""
    daemon = own_daemon(t, "nameless", auth="off", upstream="sip:pbx.sippushd-probe.invalid").start()
    phone = t.phone()
    name, _ = t.registered(phone)
    outgoing = phone.make("INVITE", "sip:700@example.net", name)
    begin = time.monotonic()
    phone.send(outgoing)
    caller = t.phone(trusted=True)
    incoming = caller.make("INVITE", f"sip:{name}@example.net")
    caller.send(incoming)
    invite = phone.request("INVITE", incoming.call_id, timeout=10)
    check(invite, "while a name is looked up a call for a phone does not ring")
    phone.respond(invite, 486, tag="o")
    answer = phone.response(outgoing.call_id, timeout=60)
    check(answer and answer.status >= 400, f"a call to a name that nobody knows got {answer}")
    return f"a call to it got {answer.status} after {time.monotonic() - begin:.1f} s, and another phone rang meanwhile"


class NameServer:
    """A name server for one daemon. The server gets all queries, and answers only when the probe permits it."""

    def __init__(self, host, folder):
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        try:
            self.socket.bind((host, 53))
        except PermissionError as error:
            raise Skipped("port 53 of a loopback address needs rights that this process has not") from error
        self.asked, self.address = 0, None
        self.path = os.path.join(folder, "resolv.conf")
        with open(self.path, "w") as file:
            file.write(f"nameserver {host}\n")
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        while True:
            try:
                raw, source = self.socket.recvfrom(2000)
            except OSError:
                return
            if not raw:
                return
            self.asked += 1
            if self.address:
                self.socket.sendto(self.answer(raw), source)

    def answer(self, raw):
        """The answer to a DNS query, with the address if the query asks for an address (RFC 1035 section 4.1)."""
        end = raw.index(b"\0", 12) + 5
        is_address = raw[end - 4:end - 2] == b"\0\1"
        records = b"\xc0\x0c\0\1\0\1\0\0\0\x3c\0\4" + socket.inet_aton(self.address) if is_address else b""
        return raw[:2] + b"\x81\x80\0\1" + (b"\0\1" if is_address else b"\0\0") + b"\0\0\0\0" + raw[12:end] + records

    def launch(self):
        """Starts the daemon with a resolv.conf of its own."""
        return {"before": UNSHARE + ["sh", "-c", 'mount --bind "$0" /etc/resolv.conf && exec "$@"', self.path]}

    def close(self):
        hang_up(self.socket)


UNSHARE = ["unshare", "--mount"] + ([] if os.getuid() == 0 else ["--map-root-user"])


@probe("T30.5", "name-server-hangs")
def name_server_hangs(t):
    """The name server answers no query at first, and answers later. Calls to names end in time, and all other calls work."""
    if subprocess.run(UNSHARE + ["mount", "--bind", "/etc/hosts", "/etc/resolv.conf"], capture_output=True).returncode:
        raise Skipped("no file can be put in the place of /etc/resolv.conf here")
    daemon = own_daemon(t, "hanging", auth="off")
    pbx = t.phone(trusted=True)
    daemon.values["upstream"] = f"sip:pbx.sippushd-probe.test:{pbx.port}"
    server = daemon.manager = t.own(NameServer(t.address(), daemon.folder))
    daemon.start()
    phone, awake, caller = t.phone(), t.phone(), t.phone(trusted=True)
    name, _ = t.registered(phone)
    other, _ = t.registered(awake)
    sleeper, sleeping, password, token = registered_now(t)
    begin = time.monotonic()
    # Ten calls of a phone to the PBX, whose name must be looked up, and ten calls of a trusted peer, each to another name.
    waiting = [(phone, phone.make("INVITE", f"sip:7{number}@example.net", name)) for number in range(10)]
    for number in range(10):
        request = caller.make("INVITE", f"sip:8{number}@example.net")
        waiting.append((caller, request.add("Route", f"<sip:way{number}.sippushd-probe.test;lr>")))
    for party, request in waiting:
        party.send(request)
    limit = time.monotonic() + 30
    while server.asked < 2 and time.monotonic() < limit:
        time.sleep(0.05)
    check(server.asked >= 2, f"control: the name server was asked {server.asked} times")
    def ended(party, request):
        return any(m.is_response and m.call_id == request.call_id and m.status >= 200 for m in list(party.history))

    slowest, hung = 0.0, 0
    for _ in range(10):
        for party in (phone, caller):
            asked = time.monotonic()
            answer = party.exchange(party.make("OPTIONS", "sip:example.net"), 10)
            check(answer and answer.status == 200, f"while names hang OPTIONS got {answer}")
            slowest = max(slowest, time.monotonic() - asked)
            hung = hung or sum(1 for one, request in waiting if not ended(one, request))
    incoming = caller.make("INVITE", f"sip:{other}@example.net")
    caller.send(incoming)
    invite = awake.request("INVITE", incoming.call_id, timeout=10)
    check(invite, "while names hang a phone that is awake does not ring")
    awake.respond(invite, 486, tag="o")
    held = caller.make("INVITE", f"sip:{sleeping}@example.net")
    caller.send(held)
    check(t.suite.provider.wait(token, timeout=10), "while names hang a phone that sleeps is not pushed")
    check(hung, "control: no call waited for a name any more when others were answered")
    ends = []
    for party, request in waiting:
        answer = party.response(request.call_id, timeout=max(0.1, begin + 60 - time.monotonic()))
        check(answer and answer.status >= 400, f"a call to a name got {answer} after {time.monotonic() - begin:.1f} s")
        ends.append(time.monotonic() - begin)
    # The name server answers again, and calls work without a restart.
    server.address = pbx.host
    limit = time.monotonic() + 60
    back, call = time.monotonic(), None
    while call is None and time.monotonic() < limit:
        outgoing = phone.make("INVITE", "sip:700@example.net", name)
        phone.send(outgoing)
        call = pbx.request("INVITE", outgoing.call_id, timeout=1)
    check(call, "60 s after the name server answers again no call reaches the PBX")
    return (f"20 calls to names ended after {min(ends):.1f} to {max(ends):.1f} s; meanwhile answers took {slowest:.2f} s at most, a phone rang and one "
            f"was woken; {time.monotonic() - back:.1f} s after the name server was back a call reached the PBX")


@probe("T30.6", "store-away")
def store_away(t):
    """An operator moves the database to another place, and back again."""
    daemon = own_daemon(t, "moved").start()
    phone, name, password, token = registered_now(t)
    path = daemon.settings()["store"]
    fresh_user = daemon.user()
    os.rename(path, path + ".away")
    newcomer = t.phone()
    answer = newcomer.register(*fresh_user, params=pushed(fresh("token")))
    check(answer and answer.status == 503 and answer.get("retry-after"), f"with the database gone a new contact got {answer}")
    answer = phone.register(name, password, params=pushed(token))
    check(answer and answer.status == 200, f"a refresh got {answer}")
    caller = t.phone(trusted=True)
    request = caller.make("INVITE", f"sip:{name}@example.net")
    caller.send(request)
    check(t.suite.provider.wait(token), "a call led to no push")
    caller.send(caller.cancel(request))
    os.rename(path + ".away", path)
    limit, answer = time.monotonic() + 60, None
    while time.monotonic() < limit:
        answer = newcomer.register(*fresh_user, params=pushed(fresh("token")), timeout=3)
        if answer and answer.status == 200:
            break
        time.sleep(0.3)
    check(answer and answer.status == 200, f"with the database back a new contact got {answer}")
    return "without its database it refuses what is to be kept, serves calls and refreshes, and goes on when it is back"
