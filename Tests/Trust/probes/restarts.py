"""T29.5: calls while the daemon is restarted again and again."""

import collections
import heapq
import os
import selectors
import signal
import socket
import threading
import time

from manager import Manager
from sip import Message, fresh
from suite import check, probe
from .store import own_daemon

RATE = 100
PAUSE = 2.0
# How long a phone sleeps after a call wakes it.
SLEEP = 1.0
# Whether calls that wait for a phone at the end of the daemon continue in the next run.
KEPT = True


class Crowd:
    """Callers and phones in one thread: a steady rate of calls over UDP, and over TCP on connections of their own.

    Each fourth phone sleeps, and registers a second after each call for it. All phones answer at once, and repeat the
    answer until their caller has received it (RFC 3261 section 13.3.1.4); no ACK is sent. A call ends when its caller has
    a final response; without one within 40 s, the call counts as a call without an end. A caller whose connection ends
    repeats its request on another connection."""

    def __init__(self, target, awake, asleep):
        self.target, self.awake, self.asleep = target, awake, asleep
        self.waking, self.answers = [], []
        self.again_count = 0
        self.selector = selectors.DefaultSelector()
        self.caller = self.datagrams("127.2.0.40")
        self.phone = self.datagrams("127.1.0.40")
        # Each phone that sleeps has an address of its own, so that signs of life are not confused.
        self.beds = {user: self.datagrams("127.1.0.41") for user in asleep}
        self.calls, self.ends = {}, collections.Counter()
        self.refused, self.connections, self.begun = 0, 0, 0
        self.times = []
        # The history of each open call and of each call without a final response, also by user.
        self.stories, self.users, self.unfinished = collections.defaultdict(list), {}, []

    def tell(self, call_id, line):
        if call_id in self.calls:
            self.stories[call_id].append((time.monotonic(), line))

    def tell_user(self, user, line):
        for call_id in self.users.get(user, ()):
            self.tell(call_id, line)

    def datagrams(self, host):
        one = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
        one.bind((host, 0))
        one.setblocking(False)
        self.selector.register(one, selectors.EVENT_READ, None)
        return one

    # --- the network

    @staticmethod
    def request(method, uri, via, call_id, number, user="pbx", to_tag=None, contact=None, extra=""):
        to = f"<{uri.split(';')[0]}>" + (f";tag={to_tag}" if to_tag else "")
        text = (f"{method} {uri} SIP/2.0\r\nVia: {via}\r\nMax-Forwards: 70\r\nFrom: <sip:{user}@example.net>;tag=f{call_id}\r\n"
                f"To: {to}\r\nCall-ID: {call_id}\r\nCSeq: {number} {method}\r\n")
        if contact:
            text += f"Contact: {contact}\r\n"
        return (text + extra + "Content-Length: 0\r\n\r\n").encode()

    def register(self, user):
        """Registers without waiting for the answer. If the REGISTER is lost, the phone keeps sleeping."""
        push = f";pn-provider=fcm;pn-param=p;pn-prid=token-{user}" if user in self.asleep else ""
        phone = self.beds.get(user, self.phone)
        self.tell_user(user, "REGISTER")
        host, port = phone.getsockname()
        branch = fresh("z9hG4bK")
        phone.sendto(self.request("REGISTER", "sip:example.net", f"SIP/2.0/UDP {host}:{port};branch={branch}", "r" + user, self.number(),
                                       user, contact=f"<sip:{user}@{host}:{port}{push}>", extra="Expires: 3600\r\n").replace(
            b"To: <sip:example.net>", f"To: <sip:{user}@example.net>".encode()), self.target)

    def number(self):
        self.last = getattr(self, "last", 0) + 1
        return self.last

    def begin(self):
        call_id = fresh("load")
        sleeps, by_tcp = self.begun % 4 == 2, self.begun % 4 == 3
        users = self.asleep if sleeps else self.awake
        user = users[self.begun // 4 % len(users)]
        self.begun += 1
        if sleeps:
            # The phone's REGISTER is sent twice, as if the first got no response.
            for times in (1, 2):
                heapq.heappush(self.waking, (time.monotonic() + times * SLEEP, user))
        stream = None
        if by_tcp:
            stream = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
            stream.bind(("127.2.0.40", 0))
            stream.settimeout(5)
            self.connections += 1
            try:
                stream.connect(self.target)
            except OSError:
                self.refused += 1
                self.ends["refused"] += 1
                stream.close()
                return
            stream.setblocking(False)
        host, port = (stream or self.caller).getsockname()
        via = f"SIP/2.0/{'TCP' if stream else 'UDP'} {host}:{port};branch=z9hG4bK{call_id}"
        raw = self.request("INVITE", f"sip:{user}@example.net", via, call_id, 1,
                           contact=f"<sip:pbx@{host}:{port}{';transport=tcp' if stream else ''}>")
        now = time.monotonic()
        self.calls[call_id] = call = {"id": call_id, "begin": now, "next": now + 0.5, "wait": 0.5, "raw": raw, "stream": stream, "final": False,
                                      "sleeps": sleeps, "user": user}
        self.users.setdefault(user, set()).add(call_id)
        if stream:
            self.selector.register(stream, selectors.EVENT_READ, call_id)
        self.send(call)

    def send(self, call):
        self.tell(call["id"], "INVITE")
        try:
            if call["stream"]:
                call["stream"].sendall(call["raw"])
            else:
                self.caller.sendto(call["raw"], self.target)
        except OSError:
            pass

    def turn(self, wait):
        for key, _ in self.selector.select(wait):
            one = key.fileobj
            if key.data:
                self.stream_ready(one, key.data)
                continue
            for _ in range(64):
                try:
                    raw, source = one.recvfrom(65536)
                except OSError:
                    break
                message = Message(raw, source)
                if message.is_response:
                    self.answered(message)
                elif message.method == "INVITE":
                    self.tell(message.call_id, "at the phone")
                    self.answer(message, source, one)

    def stream_ready(self, stream, call_id):
        try:
            raw = stream.recv(65536)
        except OSError:
            raw = b""
        call = self.calls.get(call_id)
        if not raw:
            self.tell(call_id, "connection ended")
            self.selector.unregister(stream)
            stream.close()
            if call and not call["final"]:
                # The connection has ended together with the daemon's process. Like a PBX, the caller connects again, and
                # repeats the same transaction.
                self.again(call_id, call)
            return
        for part in raw.split(b"SIP/2.0 ")[1:]:
            self.answered(Message(b"SIP/2.0 " + part))

    def again(self, call_id, call):
        self.again_count += 1
        stream = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        stream.bind(("127.2.0.40", 0))
        stream.settimeout(5)
        self.connections += 1
        try:
            stream.connect(self.target)
        except OSError:
            self.refused += 1
            stream.close()
            return self.over(call_id, call, "refused")
        stream.setblocking(False)
        call["stream"] = stream
        self.selector.register(stream, selectors.EVENT_READ, call_id)
        self.send(call)

    def answer(self, message, source, phone):
        """Lets a phone answer each call immediately."""
        lines = ["SIP/2.0 200 OK"]
        for name, value in message.fields:
            if name in ("via", "from", "call-id", "cseq", "record-route"):
                lines.append(f"{name}: {value}")
            elif name == "to":
                lines.append(f"To: {value}" + ("" if "tag=" in value else ";tag=p" + (message.call_id or "")))
        host, port = phone.getsockname()
        lines.append(f"Contact: <sip:phone@{host}:{port}>")
        self.say(message.call_id, ("\r\n".join(lines) + "\r\nContent-Length: 0\r\n\r\n").encode(), source, phone, 0.5)

    def say(self, call_id, raw, source, phone, wait):
        """Sends a 200, and repeats it until the caller has received it."""
        try:
            phone.sendto(raw, source)
        except OSError:
            pass
        heapq.heappush(self.answers, (time.monotonic() + wait, call_id, raw, source, phone, min(2 * wait, 4)))

    def say_again(self):
        _, call_id, raw, source, phone, wait = heapq.heappop(self.answers)
        if call_id in self.calls:
            self.tell(call_id, "200 again")
            self.say(call_id, raw, source, phone, wait)

    def answered(self, message):
        call = self.calls.get(message.call_id)
        if call is None or message.cseq_method != "INVITE":
            return
        self.tell(message.call_id, message.status)
        if message.status < 200:
            call["next"] = time.monotonic() + 60
            return
        self.acknowledge(call, message)
        if not call["final"]:
            self.over(message.call_id, call, message.status)

    def acknowledge(self, call, message):
        """Stops the repetitions of an answered call, for which the test sends no ACK."""
        if message.status >= 300 and call["stream"] is None:
            text = call["raw"].decode().split("\r\n")
            lines = [text[0].replace("INVITE", "ACK", 1)]
            lines += [line for line in text[1:] if line.startswith(("Via", "From", "Call-ID", "Max-"))]
            lines += [f"To: {message.get('to')}", "CSeq: 1 ACK", "Content-Length: 0", "", ""]
            self.caller.sendto("\r\n".join(lines).encode(), self.target)

    def over(self, call_id, call, how):
        call["final"] = True
        self.ends[how] += 1
        self.times.append(time.monotonic() - call["begin"])
        if call["stream"]:
            try:
                self.selector.unregister(call["stream"])
            except (KeyError, ValueError):
                pass
            call["stream"].close()
        story = self.stories.pop(call_id, [])
        if str(how).startswith("no end"):
            self.unfinished.append((how, call["begin"], story))
        self.users[call["user"]].discard(call_id)
        del self.calls[call_id]

    def told(self, restarts):
        """The histories of the calls without an end, in seconds since their beginnings; `restarts` has the times of the
        restarts."""
        text = ""
        for how, begin, story in self.unfinished[:4]:
            events = story + [(at, line) for pair in restarts for at, line in zip(pair, ("SIGTERM", "started"))
                              if -1 < at - begin < 24]
            text += f"\n    {how}: " + ", ".join(f"{at - begin:.3f} {line}" for at, line in sorted(events, key=lambda e: e[0])[:60])
        return text

    def tick(self):
        """Timer A: repeats the INVITE until a response comes, at least a provisional one."""
        now = time.monotonic()
        for call_id, call in list(self.calls.items()):
            if now - call["begin"] > 40:
                self.over(call_id, call, "no end, asleep" if call["sleeps"] else "no end")
            elif call["stream"] is None and now >= call["next"]:
                call["wait"] = min(call["wait"] * 2, 4)
                call["next"] = now + call["wait"]
                self.send(call)

    def run(self, seconds):
        begin = time.monotonic()
        next_call, next_tick = begin, begin
        while time.monotonic() - begin < seconds or self.calls:
            now = time.monotonic()
            while next_call <= now and now - begin < seconds:
                self.begin()
                next_call += 1 / RATE
            while self.waking and self.waking[0][0] <= now:
                self.register(heapq.heappop(self.waking)[1])
            while self.answers and self.answers[0][0] <= now:
                self.say_again()
            if now >= next_tick:
                self.tick()
                next_tick = now + 0.05
            self.turn(max(0.0, min(next_call, next_tick) - time.monotonic()))

    def close(self):
        for key in list(self.selector.get_map().values()):
            key.fileobj.close()
        self.selector.close()


@probe("T29.5", "restarts-under-load")
def restarts(t):
    """A restart every 2 s under 100 calls a second, a quarter of them on TCP connections of their own."""
    seconds = float(os.environ.get("RESTART_SECONDS", "60"))
    daemon = own_daemon(t, "restarted", auth="off", log={"level": "notice"}, call={"ring-timeout": "20s", "pushes-per-device": 0, "skip-push-within": "0s"})
    daemon.manager = t.own(Manager(daemon.folder))
    daemon.start()
    awake, asleep = [fresh("a") for _ in range(40)], [fresh("s") for _ in range(200)]
    crowd = t.own(Crowd(daemon.address, awake, asleep))
    for user in awake + asleep:
        crowd.register(user)
    time.sleep(0.5)
    stop, restarts_done = threading.Event(), []

    def restart():
        while not stop.wait(PAUSE):
            begin = time.monotonic()
            daemon.stop(signal.SIGTERM)
            daemon.launch()
            restarts_done.append((begin, time.monotonic()))

    thread = threading.Thread(target=restart)
    thread.start()
    try:
        crowd.run(seconds)
    finally:
        stop.set()
        thread.join()
    ends, count = crowd.ends, len(restarts_done)
    check(count >= seconds / 4, f"control: {count} restarts")
    slow = sorted(crowd.times)[-max(1, len(crowd.times) // 100)]
    said = (f"{count} restarts of {max(end - begin for begin, end in restarts_done):.1f} s at most in {seconds:.0f} s, {crowd.begun} calls, {crowd.connections} connections: "
            f"{crowd.refused} refused, {crowd.again_count} came again; ends {dict(ends)}, 99 % within {slow:.1f} s")
    check(crowd.refused == 0, said)
    check(not KEPT or ends["no end"] + ends["no end, asleep"] == 0, said + crowd.told(restarts_done))
    check(ends[200] > 0.5 * crowd.begun, said)
    return said
