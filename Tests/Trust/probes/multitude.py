"""Probes of rule T28.6: thousands of calls wait at the same time."""

import base64
import collections
import random
import selectors
import socket
import struct
import time

from machine import patience
from sip import Message, fresh, hang_up
from suite import check, probe
from .store import own_daemon
from .wake import pushed

PHONES = 1100
CALLS_EACH = 3
# The maximum number of unanswered requests. A request without an answer is repeated after half a second.
OUTSTANDING = 64
AGAIN = 0.5
# The value from <linux/in.h>, for which Python has no name.
IP_PKTINFO = 8


class Crossroads:
    """One socket for many addresses of the loopback network. Each phone has its own address, so that signs of life are
    not confused."""

    def __init__(self):
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
        self.socket.setsockopt(socket.IPPROTO_IP, IP_PKTINFO, 1)
        self.socket.bind(("0.0.0.0", 0))
        self.socket.setblocking(False)
        self.port = self.socket.getsockname()[1]

    def send(self, raw, host, target):
        info = struct.pack("=i4s4s", 0, socket.inet_aton(host), bytes(4))
        self.socket.sendmsg([raw], [(socket.IPPROTO_IP, IP_PKTINFO, info)], 0, target)

    def receive(self):
        """A message, and the address to which it was sent; None if no message waits."""
        try:
            raw, data, _, source = self.socket.recvmsg(65536, 64)
        except BlockingIOError:
            return None
        return Message(raw, source), socket.inet_ntoa(data[0][2][8:12])

    def close(self):
        hang_up(self.socket)


class Multitude:
    """A PBX with thousands of calls, and their phones."""

    def __init__(self, t, daemon, seed):
        self.random = random.Random(seed)
        self.target = daemon.address
        self.pbx, self.phones = t.own(Crossroads()), t.own(Crossroads())
        self.pbx_host = t.address(True)
        self.users = [fresh("m") for _ in range(PHONES)]
        self.host_of = {user: f"127.5.{number // 250}.{1 + number % 250}" for number, user in enumerate(self.users)}
        self.numbers = collections.Counter()
        # By Call-ID: the sent INVITEs, the INVITEs and answers of the phones, and the responses at the PBX.
        self.sent, self.got, self.declines, self.finals = {}, {}, {}, collections.defaultdict(list)
        self.wrong = []
        # Unanswered requests, by Call-ID and method: the time of the next repetition, and the text.
        self.under_way = {}
        self.selector = selectors.DefaultSelector()
        for one in (self.pbx, self.phones):
            self.selector.register(one.socket, selectors.EVENT_READ, one)

    # --- making messages

    def registration(self, user):
        host, self.numbers[user] = self.host_of[user], self.numbers[user] + 1
        call_id = f"r{user}"
        raw = (f"REGISTER sip:example.net SIP/2.0\r\nVia: SIP/2.0/UDP {host}:{self.phones.port};branch={fresh('z9hG4bK')}\r\nMax-Forwards: 70\r\n"
               f"From: <sip:{user}@example.net>;tag=f\r\nTo: <sip:{user}@example.net>\r\nCall-ID: {call_id}\r\n"
               f"CSeq: {self.numbers[user]} REGISTER\r\nContact: <sip:{user}@{host}:{self.phones.port}{pushed('token-' + user)}>\r\n"
               "Expires: 3600\r\nContent-Length: 0\r\n\r\n").encode()
        return (call_id, "REGISTER"), lambda: self.phones.send(raw, host, self.target)

    def invitation(self, user):
        """Makes INVITEs that all differ. Some INVITEs have lines in common with others, and some have none; some are
        short, and some have several kilobytes."""
        call_id = fresh("crowd")
        kind = self.random.randrange(4)
        if kind == 0:
            body = b""
        elif kind == 1:
            body = base64.b64encode(self.random.randbytes(self.random.randrange(1, 6000)))
        else:
            body = "".join(f"a=rtpmap:{self.random.randrange(96, 128)} codec{self.random.randrange(20)}/8000\r\n"
                           for _ in range(self.random.randrange(1, 60))).encode()
        extra = "".join(f"X-Note-{self.random.randrange(9)}: {self.random.choice(self.users)}\r\n" for _ in range(self.random.randrange(6)))
        host, port = self.pbx_host, self.pbx.port
        raw = (f"INVITE sip:{user}@example.net SIP/2.0\r\nVia: SIP/2.0/UDP {host}:{port};branch=z9hG4bK{call_id}\r\nMax-Forwards: 70\r\n"
               f"From: \"{self.random.randrange(10**6)}\" <sip:7{self.random.randrange(1000)}@example.net>;tag=f{call_id}\r\n"
               f"To: <sip:{user}@example.net>\r\nCall-ID: {call_id}\r\nCSeq: {self.random.randrange(1, 10**6)} INVITE\r\n"
               f"Contact: <sip:pbx@{host}:{port}>\r\n{extra}Subject: {self.random.random()}\r\nContent-Type: application/sdp\r\n"
               f"Content-Length: {len(body)}\r\n\r\n").encode() + body
        self.sent[call_id] = (user, raw)
        return (call_id, "INVITE"), lambda: self.pbx.send(raw, host, self.target)

    def cancellation(self, call_id):
        raw = b"CANCEL" + self.follower(call_id, b"CANCEL")
        return (call_id, "CANCEL"), lambda: self.pbx.send(raw, self.pbx_host, self.target)

    def follower(self, call_id, method, to=None):
        """The part of a CANCEL or ACK after the method: the Request-URI, and header fields of the INVITE."""
        lines = self.sent[call_id][1].partition(b"\r\n\r\n")[0].split(b"\r\n")
        kept = [line for line in lines[1:] if line.startswith((b"Via:", b"From:", b"Call-ID:", b"Max-Forwards:"))]
        to = to or next(line for line in lines if line.startswith(b"To:"))
        number = next(line for line in lines if line.startswith(b"CSeq:")).split()[1]
        return lines[0][6:] + b"\r\n" + b"\r\n".join(kept + [to, b"CSeq: %s %s" % (number, method)]) + b"\r\nContent-Length: 0\r\n\r\n"

    # --- the network

    def run(self, requests, until, seconds):
        """Sends the requests, a few at a time, until the condition is true. Unanswered requests are repeated."""
        requests, limit = collections.deque(requests), time.monotonic() + patience(seconds)
        while requests or self.under_way or not until():
            now = time.monotonic()
            if now > limit:
                return False
            while requests and len(self.under_way) < OUTSTANDING:
                key, send = requests.popleft()
                self.under_way[key] = (now + AGAIN, send)
                send()
            for key, (when, send) in list(self.under_way.items()):
                if when < now:
                    self.under_way[key] = (now + AGAIN, send)
                    send()
            for key, _ in self.selector.select(0.05):
                while arrived := key.data.receive():
                    (self.at_pbx if key.data is self.pbx else self.at_phone)(*arrived)
        return True

    def at_pbx(self, message, _):
        if not message.is_response:
            return
        self.under_way.pop((message.call_id, message.cseq_method), None)
        if message.cseq_method == "INVITE" and message.status >= 200:
            if message.status not in self.finals[message.call_id]:
                self.finals[message.call_id].append(message.status)
            to = f"To: {message.get('to')}".encode()
            self.pbx.send(b"ACK" + self.follower(message.call_id, b"ACK", to), self.pbx_host, self.target)

    def at_phone(self, message, host):
        if message.is_response:
            if message.status >= 200:
                self.under_way.pop((message.call_id, message.cseq_method), None)
                if message.status != 200:
                    self.wrong.append(f"REGISTER got {message}")
        elif message.method == "INVITE":
            if message.call_id not in self.got:
                self.got[message.call_id] = host
                self.compare(message, host)
            rows = "".join(f"Via: {value}\r\n" for value in message.all("via"))
            answer = (f"SIP/2.0 486 Busy Here\r\n{rows}From: {message.get('from')}\r\nTo: {message.get('to')};tag=p\r\n"
                      f"Call-ID: {message.call_id}\r\nCSeq: {message.get('cseq')}\r\nContent-Length: 0\r\n\r\n").encode()
            self.phones.send(answer, host, self.target)

    def compare(self, message, host):
        """Expects that the caller's text is unchanged, except for added header fields, the Request-URI and Max-Forwards."""
        if message.call_id not in self.sent:
            return self.wrong.append(f"an INVITE that nobody sent: {message}")
        user, raw = self.sent[message.call_id]
        meant = Message(raw)
        if host != self.host_of[user]:
            self.wrong.append(f"a call for {self.host_of[user]} came to {host}")
        if message.body != meant.body:
            self.wrong.append(f"another body: {message.body[:80]} for {meant.body[:80]}")
        missing = [field for field in meant.fields if field[0] != "max-forwards" and field not in message.fields]
        if missing:
            self.wrong.append(f"lost or changed on the way: {missing}")


@probe("T28.6", "thousands-wait-over-kill", alone=True)
def thousands(t):
    """Thousands of calls wait. Some of the calls end, some are answered, and the daemon is killed. After the kill, the
    phones of the remaining calls register."""
    seed = t.random.getrandbits(32)
    daemon = own_daemon(t, "multitude", auth="off", call={"ring-timeout": "90s"}, log={"level": "notice"}).start()
    crowd = Multitude(t, daemon, seed)
    early, late = crowd.users[::2], crowd.users[1::2]
    check(crowd.run(map(crowd.registration, crowd.users), lambda: True, 40), f"control: {len(crowd.under_way)} phones are not registered")
    order = crowd.users * CALLS_EACH
    crowd.random.shuffle(order)
    check(crowd.run(map(crowd.invitation, order), lambda: True, 60), f"control: {len(crowd.under_way)} INVITEs have no 100")
    waiting = [call_id for call_id in crowd.sent if not crowd.finals.get(call_id)]
    check(len(waiting) == PHONES * CALLS_EACH, f"of {PHONES * CALLS_EACH} calls {len(waiting)} wait, the others got {crowd.finals}")

    def calls_of(users):
        users = set(users)
        return [call_id for call_id, (user, _) in crowd.sent.items() if user in users and call_id not in cancelled]

    def ended(calls, status):
        return lambda: all(crowd.finals.get(call_id) == [status] for call_id in calls)

    def serve(users, when):
        calls = calls_of(users)
        done = crowd.run(map(crowd.registration, users), ended(calls, 486), 40)
        left = [call_id for call_id in calls if crowd.finals.get(call_id) != [486]]
        check(done, f"{when}: {len(left)} of {len(calls)} calls have no end, {sum(1 for one in left if one not in crowd.got)} of them no INVITE")
        check(not crowd.wrong, f"{when}, seed {seed}: {len(crowd.wrong)} things are wrong, such as {crowd.wrong[:2]}")
        return len(calls)

    cancelled = set(crowd.random.sample(waiting, 200))
    check(crowd.run(map(crowd.cancellation, cancelled), ended(cancelled, 487), 20), "calls that were cancelled have no 487")
    before = serve(early, "before kill -9")
    time.sleep(0.2)
    daemon.kill()
    daemon.launch()
    after = serve(late, "after kill -9")
    check(not cancelled & set(crowd.got), "a phone got the INVITE of a call that was cancelled")
    return (f"{len(waiting)} calls waited at once; {before} phones' INVITEs before kill -9 and {after} after it were what their callers had sent, "
            f"and {len(cancelled)} calls ended with their CANCEL")
