"""SIP for the probes: messages as text, and agents over UDP and TCP. The module shares no code with the daemon."""

import hashlib
import itertools
import random
import re
import socket
import threading
import time

from machine import patience

COMPACT = {
    "v": "via", "f": "from", "t": "to", "i": "call-id", "m": "contact", "l": "content-length", "c": "content-type",
    "k": "supported", "s": "subject", "e": "content-encoding",
}

_numbers = itertools.count(1)
# The random numbers of the agents; the suite sets their seed. The order of the threads stays random.
chance = random.Random(1)


def fresh(prefix):
    """A text that is used only once in this run."""
    return f"{prefix}{next(_numbers)}x{chance.getrandbits(40):010x}"


class Message:
    """A received message; `raw` has its bytes, for checks of text that a parser may overlook."""

    def __init__(self, raw, source=None):
        self.raw = raw
        self.source = source
        self.time = time.monotonic()
        head, _, self.body = raw.partition(b"\r\n\r\n")
        lines = re.sub(r"\r\n[ \t]+", " ", head.decode("utf-8", "replace")).split("\r\n")
        self.start = lines[0]
        self.fields = []
        for line in lines[1:]:
            name, _, value = line.partition(":")
            name = name.strip().lower()
            self.fields.append((COMPACT.get(name, name), value.strip()))
        words = self.start.split(" ", 2)
        self.is_response = self.start.startswith("SIP/2.0 ")
        self.status = int(words[1]) if self.is_response and len(words) > 1 and words[1].isdigit() else None
        self.method = None if self.is_response else words[0]
        self.uri = words[1] if not self.is_response and len(words) > 1 else None

    def get(self, name):
        return next((value for field, value in self.fields if field == name.lower()), None)

    def all(self, name):
        return [value for field, value in self.fields if field == name.lower()]

    @property
    def call_id(self):
        return self.get("call-id")

    @property
    def cseq_method(self):
        return (self.get("cseq") or " ").split()[-1] if self.get("cseq") else None

    @property
    def branch(self):
        found = re.search(r";branch=([^;,\s]+)", self.get("via") or "")
        return found.group(1) if found else None

    def tag(self, field):
        found = re.search(r";\s*tag=([^;\s>]+)", self.get(field) or "")
        return found.group(1) if found else None

    def contact_uri(self):
        found = re.search(r"<([^>]*)>", self.get("contact") or "")
        return found.group(1) if found else self.get("contact")

    def routes(self, name="record-route"):
        return [part.strip() for value in self.all(name) for part in re.split(r",(?=\s*<)", value)]

    def head_lines(self):
        """The lines of the head, divided at any carriage return or line feed, as by the most lenient reader."""
        return re.split(rb"[\r\n]+", self.raw.partition(b"\r\n\r\n")[0])

    def __repr__(self):
        return f"<{self.start} from {self.source}>"


class Request:
    """A request to be sent; `fields` may be changed, and `lines` are written unchanged after the fields."""

    def __init__(self, method, uri, fields, body=b"", lines=()):
        self.method, self.uri, self.fields, self.lines = method, uri, list(fields), list(lines)
        self.body = body.encode() if isinstance(body, str) else body

    def get(self, name):
        return next((value for field, value in self.fields if field.lower() == name.lower()), None)

    def set(self, name, value):
        for index, (field, _) in enumerate(self.fields):
            if field.lower() == name.lower():
                self.fields[index] = (field, value)
                return self
        self.fields.append((name, value))
        return self

    def add(self, name, value):
        self.fields.append((name, value))
        return self

    def without(self, name):
        self.fields = [(field, value) for field, value in self.fields if field.lower() != name.lower()]
        return self

    @property
    def call_id(self):
        return self.get("Call-ID")

    def copy(self):
        return Request(self.method, self.uri, self.fields, self.body, self.lines)

    def renewed(self):
        """A copy of the request as a new transaction, with another Via branch and the next CSeq."""
        copy = self.copy()
        number, method = self.get("CSeq").split()
        copy.set("CSeq", f"{int(number) + 1} {method}")
        return copy.set("Via", re.sub(r"branch=[^;]+", "branch=" + fresh("z9hG4bK"), self.get("Via")))

    def bytes(self):
        lines = [f"{self.method} {self.uri} SIP/2.0"]
        lines += [f"{name}: {value}" for name, value in self.fields]
        text = "\r\n".join(lines).encode() + b"\r\n"
        for line in self.lines:
            text += (line if isinstance(line, bytes) else line.encode()) + b"\r\n"
        if self.get("Content-Length") is None:
            text += f"Content-Length: {len(self.body)}\r\n".encode()
        return text + b"\r\n" + self.body


def uri_of(user, host):
    return f"sip:{user}@{host}"


def hang_up(connection, how=socket.SHUT_RDWR):
    """Closes the connection. Without shutdown, a reader that waits in the kernel would keep the port."""
    try:
        connection.shutdown(how)
    except OSError:
        pass
    connection.close()


class Inbox:
    """The messages that an agent received. Repetitions of a message (RFC 3261 timers) are kept separately."""

    def __init__(self):
        self.changed = threading.Condition()
        self.messages, self.repeats, self.received_bytes, self.received_count = [], [], 0, 0
        self.seen, self.history = set(), []
        self.closed = False

    def arrived(self, raw, source):
        with self.changed:
            self.received_bytes += len(raw)
            if not raw.strip(b"\r\n\0 "):
                return
            self.received_count += 1
            message = Message(raw, source)
            key = (message.start, message.call_id, message.branch, message.get("cseq"), message.tag("to"))
            self.history.append(message)
            if key in self.seen:
                self.repeats.append(message)
            else:
                self.seen.add(key)
                self.messages.append(message)
            self.changed.notify_all()

    def ended(self):
        with self.changed:
            self.closed = True
            self.changed.notify_all()

    def take(self, want=lambda message: True, timeout=6.0):
        """The first message that meets the condition, or None after the timeout."""
        limit = time.monotonic() + patience(timeout)
        with self.changed:
            while True:
                for index, message in enumerate(self.messages):
                    if want(message):
                        return self.messages.pop(index)
                rest = limit - time.monotonic()
                if rest <= 0:
                    return None
                self.changed.wait(rest)

    def request(self, method, call_id=None, timeout=6.0):
        return self.take(lambda m: m.method == method and call_id in (None, m.call_id), timeout)

    def response(self, call_id, method=None, timeout=6.0, final=True):
        return self.take(
            lambda m: m.is_response and m.call_id == call_id and method in (None, m.cseq_method)
            and (not final or m.status >= 200), timeout)

    def wait_closed(self, timeout):
        limit = time.monotonic() + patience(timeout)
        with self.changed:
            while not self.closed and time.monotonic() < limit:
                self.changed.wait(limit - time.monotonic())
            return self.closed


class Agent(Inbox):
    """A party with its own address, which sends its requests to `target`."""

    transport = None

    def local(self):
        return f"{self.host}:{self.port}"

    def make(self, method, uri, user="probe", domain="example.net", to=None, contact=True, call_id=None, cseq=1,
             from_tag=None, to_tag=None, body=b"", lines=(), max_forwards=70, fields=()):
        to = to or re.sub(r";.*", "", uri)
        parts = [
            ("Via", f"SIP/2.0/{self.transport} {self.local()};branch={fresh('z9hG4bK')};rport"),
            ("Max-Forwards", str(max_forwards)),
            ("From", f"<sip:{user}@{domain}>;tag={from_tag or fresh('f')}"),
            ("To", f"<{to}>" + (f";tag={to_tag}" if to_tag else "")),
            ("Call-ID", call_id or fresh("call")),
            ("CSeq", f"{cseq} {method}"),
        ]
        if contact is True and method in ("INVITE", "UPDATE", "SUBSCRIBE"):
            contact = f"<sip:{user}@{self.local()}{self.uri_transport()}>"
        if contact and contact is not True:
            parts.append(("Contact", contact))
        parts += list(fields)
        if body:
            parts.append(("Content-Type", "application/sdp"))
        return Request(method, uri, parts, body, lines)

    def uri_transport(self):
        return "" if self.transport == "UDP" else ";transport=tcp"

    def exchange(self, request, timeout=6.0):
        """Sends the request, over UDP repeatedly, and waits for the final response."""
        limit = time.monotonic() + patience(timeout)
        wait = 1.0
        while True:
            self.send(request)
            rest = limit - time.monotonic()
            answer = self.response(request.call_id, request.method,
                                   rest if self.transport != "UDP" else min(wait, max(rest, 0.05)))
            if answer or time.monotonic() >= limit or self.transport != "UDP":
                if answer and request.method == "INVITE" and answer.status >= 300:
                    self.send(self.ack_failure(request, answer))
                return answer
            wait *= 2

    def ack_failure(self, request, answer):
        ack = self.make("ACK", request.uri)
        for name in ("Via", "From", "Call-ID"):
            ack.set(name, request.get(name))
        number = request.get("CSeq").split()[0]
        ack.set("To", answer.get("to")).set("CSeq", f"{number} ACK")
        for name, value in request.fields:
            if name == "Route":
                ack.add(name, value)
        return ack

    def cancel(self, request, fields=()):
        cancel = self.make("CANCEL", request.uri)
        for name in ("Via", "From", "To", "Call-ID"):
            cancel.set(name, request.get(name))
        cancel.set("CSeq", request.get("CSeq").split()[0] + " CANCEL")
        for name, value in request.fields:
            if name == "Route":
                cancel.add(name, value)
        for name, value in fields:
            cancel.add(name, value)
        return cancel

    def with_credentials(self, request, user, password, timeout=6.0, nc=1, uri=None):
        """Sends the request and answers a challenge. Returns the final response, and its request."""
        answer = self.exchange(request, timeout)
        if answer is None or answer.status not in (401, 407):
            return answer, request
        again = request.renewed()
        name, value = credentials(answer, user, password, request.method, uri or request.uri, nc)
        again.add(name, value)
        return self.exchange(again, timeout), again

    def register(self, user, password=None, contact=None, domain="example.net", expires=600, params="", fields=(),
                 registrar=None, timeout=6.0, call_id=None, cseq=1):
        """Sends a REGISTER with `params` in the Contact's URI. Returns the final response."""
        contact = contact or f"<sip:{user}@{self.local()}{self.uri_transport()}{params}>"
        request = self.make("REGISTER", f"sip:{registrar or domain}", user, domain, to=f"sip:{user}@{domain}",
                            contact=contact, call_id=call_id, cseq=cseq)
        request.add("Expires", str(expires))
        for name, value in fields:
            request.add(name, value)
        answer, self.last_register = self.with_credentials(request, user, password or "", timeout)
        return answer

    def respond(self, request, status, reason="Whatever", tag=None, contact=True, fields=(), body=b"", lines=()):
        """Answers a received request, at the address from which it came."""
        text = [f"SIP/2.0 {status} {reason}"]
        for name, value in request.fields:
            if name in ("via", "from", "call-id", "cseq") or (name == "record-route" and status < 300):
                text.append(f"{name.title()}: {value}")
            if name == "to":
                text.append(f"To: {value}" + (f";tag={tag}" if tag and "tag=" not in value else ""))
        if contact is True and status < 300 and request.method in ("INVITE", "UPDATE"):
            contact = f"<sip:phone@{self.local()}{self.uri_transport()}>"
        if contact and contact is not True:
            text.append(f"Contact: {contact}")
        text += [f"{name}: {value}" for name, value in fields]
        raw = "\r\n".join(text).encode() + b"\r\n"
        for line in lines:
            raw += (line if isinstance(line, bytes) else line.encode()) + b"\r\n"
        raw += f"Content-Length: {len(body)}\r\n\r\n".encode() + body
        self.reply_raw(raw, request)


class Phone(Agent):
    """An agent that uses UDP."""

    transport = "UDP"

    def __init__(self, host, target, port=0):
        super().__init__()
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 21)
        self.socket.bind((host, port))
        self.host, self.port = self.socket.getsockname()
        self.target = target
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        while True:
            try:
                raw, source = self.socket.recvfrom(65536)
            except ConnectionError:
                continue
            except OSError:
                return self.ended()
            self.arrived(raw, source)

    def send(self, message, to=None):
        raw = message if isinstance(message, bytes) else message.bytes()
        self.socket.sendto(raw, to or self.target)

    def reply_raw(self, raw, request):
        self.socket.sendto(raw, request.source)

    def close(self):
        hang_up(self.socket)


class Stream(Agent):
    """An agent that uses one TCP connection, which it opened or a listener accepted."""

    transport = "TCP"

    def __init__(self, host, target, accepted=None, timeout=6.0, read=True, port=0):
        super().__init__()
        if accepted:
            self.socket = accepted
        else:
            self.socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
            self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.socket.settimeout(8 * timeout)
            if port:
                self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self.socket.bind((host, port))
            self.socket.connect(target)
        self.socket.settimeout(None)
        self.host, self.port = self.socket.getsockname()[:2]
        self.target = target
        self.rest = b""
        self.keep_alives = 0
        if read:
            threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        while True:
            try:
                some = self.socket.recv(65536)
            except OSError:
                some = b""
            if not some:
                return self.ended()
            self.rest += some
            self.cut()

    def cut(self):
        while True:
            if self.rest.startswith(b"\r\n"):
                self.keep_alives += 1
                self.rest = self.rest[2:]
                continue
            head, mark, body = self.rest.partition(b"\r\n\r\n")
            if not mark:
                return
            length = re.search(rb"(?im)^(?:content-length|l)[ \t]*:[ \t]*(\d+)", head)
            length = int(length.group(1)) if length else 0
            if len(body) < length:
                return
            self.arrived(head + mark + body[:length], self.target)
            self.rest = body[length:]

    def send(self, message, to=None):
        raw = message if isinstance(message, bytes) else message.bytes()
        try:
            self.socket.sendall(raw)
        except OSError:
            self.ended()

    def reply_raw(self, raw, request):
        self.send(raw)

    def close(self):
        hang_up(self.socket)

    def reset(self):
        """Ends the connection with an RST, like a broken network."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        hang_up(self.socket, socket.SHUT_RD)


class Listener(Inbox):
    """Accepts TCP connections; `take` returns the messages from all connections."""

    def __init__(self, host, port):
        super().__init__()
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind((host, port))
        self.socket.listen(64)
        self.host, self.port = self.socket.getsockname()
        self.streams = []
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                accepted, peer = self.socket.accept()
            except OSError:
                return
            stream = Stream(None, peer, accepted, read=False)
            stream.arrived = lambda raw, source, stream=stream: self.message(raw, stream)
            with self.changed:
                self.streams.append(stream)
                self.changed.notify_all()
            threading.Thread(target=stream.read, daemon=True).start()

    def message(self, raw, stream):
        self.arrived(raw, stream)

    def accepted(self, timeout=6.0):
        limit = time.monotonic() + patience(timeout)
        with self.changed:
            while not self.streams and time.monotonic() < limit:
                self.changed.wait(limit - time.monotonic())
            return list(self.streams)

    def close(self):
        hang_up(self.socket)
        for stream in self.streams:
            stream.close()


class Trap:
    """An address at which no message may arrive: UDP and TCP on one port."""

    def __init__(self, host):
        for _ in range(50):
            self.udp = Phone(host, None)
            try:
                self.tcp = Listener(host, self.udp.port)
                break
            except OSError:
                self.udp.close()
        self.host, self.port = host, self.udp.port

    def caught(self):
        """The datagrams and connections that have arrived at the trap."""
        found = [f"{m.start} by UDP" for m in self.udp.history]
        found += [f"a TCP connection from {s.target}" for s in self.tcp.streams]
        return found

    def close(self):
        self.udp.close()
        self.tcp.close()


class Dialog:
    """One side's view of a dialog, which sends requests inside the dialog."""

    def __init__(self, agent, call_id, local, remote, target, routes, cseq=100):
        self.agent, self.call_id, self.local, self.remote = agent, call_id, local, remote
        self.target, self.routes, self.cseq = target, routes, cseq

    @classmethod
    def of_caller(cls, agent, request, answer):
        return cls(agent, request.call_id, request.get("From"), answer.get("to"), answer.contact_uri(),
                   list(reversed(answer.routes())), int(request.get("CSeq").split()[0]))

    @classmethod
    def of_callee(cls, agent, invite, tag):
        return cls(agent, invite.call_id, invite.get("to") + f";tag={tag}", invite.get("from"), invite.contact_uri(),
                   invite.routes())

    def make(self, method, agent=None, cseq=None, fields=(), body=b"", lines=()):
        agent = agent or self.agent
        if method != "ACK" and cseq is None:
            self.cseq += 1
        request = agent.make(method, self.target, call_id=self.call_id, cseq=cseq or self.cseq, body=body, lines=lines)
        request.set("From", self.local).set("To", self.remote)
        for route in self.routes:
            request.add("Route", route)
        for name, value in fields:
            request.add(name, value)
        return request

    def token_routes(self):
        return self.routes


def challenges(answer):
    """The challenges of a 401 or 407, each as a dictionary with the name of the field for the answer."""
    found = []
    for name, answer_name in (("www-authenticate", "Authorization"), ("proxy-authenticate", "Proxy-Authorization")):
        for value in answer.all(name):
            for part in re.split(r"(?i)(?:^|,\s*)digest\s+", value):
                if not part.strip():
                    continue
                items = {key.lower(): quoted if quoted else plain
                         for key, quoted, plain in re.findall(r'(\w+)\s*=\s*(?:"([^"]*)"|([^,\s]+))', part)}
                items["field"] = answer_name
                found.append(items)
    return found


HASHES = {"MD5": hashlib.md5, "SHA-256": hashlib.sha256, "SHA-512-256": lambda text: hashlib.new("sha512_256", text)}


def credentials(answer, user, password, method, uri, nc=1, cnonce=None, response=None, realm=None, pick=None):
    """The header field and value that answer a digest challenge by its first known algorithm."""
    known = [c for c in challenges(answer) if c.get("algorithm", "MD5").upper() in HASHES and (not pick or pick(c))]
    if not known:
        raise ValueError(f"no challenge that can be answered in {answer.start}: {answer.fields}")
    return known[0]["field"], answer_challenge(known[0], user, password, method, uri, nc, cnonce, response, realm)


def answer_challenge(challenge, user, password, method, uri, nc=1, cnonce=None, response=None, realm=None):
    algorithm = challenge.get("algorithm", "MD5")
    realm = realm or challenge["realm"]
    cnonce = cnonce or fresh("c")

    def h(text):
        return HASHES[algorithm.upper()](text.encode()).hexdigest()

    secret = h(f"{user}:{realm}:{password}")
    qop = "auth" if "qop" in challenge else None
    if response is None:
        middle = f"{nc:08x}:{cnonce}:auth:" if qop else ""
        response = h(f"{secret}:{challenge['nonce']}:{middle}" + h(f"{method}:{uri}"))
    value = f'Digest username="{user}", realm="{realm}", nonce="{challenge["nonce"]}", uri="{uri}", response="{response}"'
    if "algorithm" in challenge:
        value += f", algorithm={algorithm}"
    if "opaque" in challenge:
        value += f', opaque="{challenge["opaque"]}"'
    if qop:
        value += f', qop=auth, cnonce="{cnonce}", nc={nc:08x}'
    return value
