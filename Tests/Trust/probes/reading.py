"""T1 to T3: SIP messages that cannot be parsed."""

import os
import random
import re
import time

from sip import Stream, fresh
from suite import FAULTS, PROBES, TIMINGS, check, probe


def alive(t, agent=None):
    agent = agent or t.phone()
    answer = agent.exchange(agent.make("OPTIONS", "sip:example.net"))
    check(answer, "the daemon does not answer OPTIONS any more")
    return answer


def complete(agent, method="OPTIONS", changes=(), lines=(), body=""):
    request = agent.make(method, "sip:example.net", body=body)
    for name, value in changes:
        request = request.without(name) if value is None else request.set(name, value)
    request.lines = list(lines)
    return request


@probe("T1", "malformed-400", "digest")
def malformed(t):
    """Requests with one malformed part that can still be answered."""
    cases = {
        "no CSeq": [("CSeq", None)],
        "another method in CSeq": [("CSeq", "1 INVITE")],
        "CSeq without a number": [("CSeq", "x OPTIONS")],
        "CSeq beyond 2^31": [("CSeq", "99999999999999999999 OPTIONS")],
        "no To": [("To", None)],
        "no From": [("From", None)],
        "no Call-ID": [("Call-ID", None)],
        "From that is no address": [("From", "<sip:>>;tag=1")],
        "To with nothing but a parameter": [("To", "<tel:;pn-prid=x>")],
        "Max-Forwards that is no number": [("Max-Forwards", "many")],
        "Max-Forwards below zero": [("Max-Forwards", "-1")],
        "Content-Length below zero": [("Content-Length", "-1")],
        "Content-Length beyond the datagram": [("Content-Length", "500")],
        "Contact that is no address": [("Contact", "<sip:a@b")],
    }
    shown = 0
    for name, changes in cases.items():
        agent = t.phone()
        request = complete(agent, "REGISTER" if "Contact" in name else "OPTIONS", changes)
        agent.send(request)
        answer = agent.take(lambda m: m.is_response, 1.5)
        check(answer is None or 400 <= answer.status < 500, f"{name}: {answer and answer.start}")
        if answer and answer.status == 400:
            shown += 1
    check(shown >= 6, f"only {shown} of {len(cases)} broken requests got 400")
    alive(t)
    return f"{len(cases)} broken requests: {shown} got 400, the others nothing or another 4xx, none 2xx"


@probe("T1", "two-of-one-field", "digest")
def doubled(t):
    for name, value in (("Call-ID", "other"), ("CSeq", "7 OPTIONS"), ("From", "<sip:eve@example.net>;tag=2"),
                        ("To", "<sip:eve@example.net>"), ("Max-Forwards", "3"), ("Content-Length", "4")):
        agent = t.phone()
        agent.send(complete(agent, lines=[f"{name}: {value}"]))
        answer = agent.take(lambda m: m.is_response, 1.5)
        check(answer is None or answer.status >= 400, f"two {name}: {answer and answer.start}")
    return "requests with two of a field that may stand once are refused"


@probe("T1", "bare-line-ends", "digest")
def bare_ends(t):
    """Line ends that only some SIP parsers take for the end of a header field."""
    for end in (b"\n", b"\r", b"\0", b"\r\r\n", b"\x0b", b"\xe2\x80\xa8"):
        phone, callee = t.phone(), t.daemon.pbx
        name, password = t.registered(phone)
        request = phone.make("INVITE", "sip:700@example.net", name, lines=[
            b"Subject: lunch" + end + b"P-Asserted-Identity: <sip:evil-boss@example.net>"])
        answer, sent = None, request
        first = phone.exchange(request, 2.5)
        if first is not None and first.status in (401, 407):
            from sip import credentials
            sent = request.renewed()
            sent.add(*credentials(first, name, password, "INVITE", request.uri))
            phone.send(sent)
        arrived = callee.request("INVITE", request.call_id, 1.0)
        if arrived:
            callee.respond(arrived, 486, tag="b")
            bad = [line for line in arrived.head_lines()
                   if line.lower().startswith(b"p-asserted-identity") and b"evil-boss" in line]
            check(not bad, f"a line end {end!r} in a field brought the PBX a field of the phone: {bad}")
    alive(t)
    return "no line end but CRLF makes another field: LF, CR, NUL, CR CR LF, VT and U+2028 inside a value are refused or harmless"


@probe("T1", "quoted-control-bytes", "digest")
def quoted_control(t):
    """The grammar allows a control byte after a backslash in a quoted name. The sender of an escaped control byte gets an
    answer, and nobody else gets the message."""
    for byte in (b"\x07", b"\x01", b"\x7f", b"\0", b"\x1b"):
        agent = t.phone()
        for field in ("From", "To"):
            request = agent.make("OPTIONS", "sip:example.net")
            value = request.get(field)
            raw = request.bytes().replace(f"{field}: ".encode(), f"{field}: ".encode() + b'"a\\' + byte + b'" ', 1)
            agent.send(raw)
            answer = agent.response(request.call_id, "OPTIONS", 2)
            check(answer and answer.status in (200, 400), f"{byte!r} quoted in {field} got {answer} ({value})")
        request = agent.make("OPTIONS", "sip:example.net")
        agent.send(request.bytes().replace(b"From: ", b'From: "a' + byte + b'" ', 1))
        check(not agent.response(request.call_id, "OPTIONS", 0.4), f"{byte!r} that is not quoted is sent back")
    alive(t)


@probe("T1", "random-bytes", "digest")
def random_bytes(t):
    chance = random.Random(20261122)
    agent = t.phone()
    template = agent.make("REGISTER", "sip:example.net", contact="<sip:a@127.0.0.1>", fields=[
        ("Authorization", 'Digest username="a", realm="example.net", nonce="x", uri="sip:example.net", response="y"'),
        ("Route", "<sip:127.0.0.1;lr>"), ("Supported", "path, outbound"), ("Expires", "60")])
    for number in range(2500):
        raw = bytearray(template.renewed().bytes())
        for _ in range(chance.randint(1, 8)):
            place = chance.randrange(len(raw))
            action = chance.random()
            if action < 0.5:
                raw[place] = chance.choice(b"\0\r\n:;,<>\"%@ =?&\xff" + bytes([chance.randrange(256)]))
            elif action < 0.75:
                del raw[place:place + chance.randint(1, 30)]
            else:
                raw[place:place] = raw[place:place + chance.randint(1, 40)] * chance.randint(1, 6)
        agent.send(bytes(raw[:60000]))
        if number % 250 == 249:
            time.sleep(0.05)
    alive(t)
    good = [m for m in agent.history if m.status and 200 <= m.status < 300]
    check(not good, f"a garbled REGISTER got {good[0].start if good else ''}")
    check(t.daemon.alive(), "the daemon is gone")
    return f"2500 garbled REGISTERs: {len(agent.history)} answers, no 2xx, and it still serves"


@probe("T2", "stream-lengths", "digest")
def stream_lengths(t):
    """Bytes follow a message whose Content-Length is invalid. A message inside the bytes after an invalid Content-Length
    must never be answered."""
    hidden = "OPTIONS sip:example.net SIP/2.0\r\nVia: SIP/2.0/TCP h;branch=z9hG4bKh\r\nFrom: <sip:h@h>;tag=1\r\n" \
             "To: <sip:example.net>\r\nCall-ID: hidden{}\r\nCSeq: 1 OPTIONS\r\nMax-Forwards: 7\r\nContent-Length: 0\r\n\r\n"
    cases = ["-1", "+10", "0x10", "5 5", "5, 5", "1e2", "", " ", "99999999999999999999", "4294967296", "18446744073709551616", "٣"]
    closed = 0
    for value in cases:
        stream = t.stream()
        mark = fresh("")
        request = complete(stream, body="")
        stream.send(request.set("Content-Length", value).bytes() + hidden.format(mark).encode())
        answer = stream.take(lambda m: m.is_response and m.call_id == "hidden" + mark, 0.4)
        check(not answer, f"Content-Length {value!r}: what followed was answered with {answer and answer.start}")
        answer = stream.take(lambda m: m.is_response, 0.1)
        check(answer is None or answer.status in (400, 413, 513), f"Content-Length {value!r} got {answer and answer.start}")
        if stream.wait_closed(1.5):
            closed += 1
    check(closed == len(cases), f"only {closed} of {len(cases)} connections were closed")
    stream = t.stream()
    request = complete(stream)
    request.lines = ["Content-Length: 0", "Content-Length: 5"]
    mark = fresh("")
    stream.send(request.bytes() + hidden.format(mark).encode())
    check(not stream.take(lambda m: m.call_id == "hidden" + mark, 0.5), "two lengths: what followed was answered")
    check(stream.wait_closed(1.5), "two lengths: the connection stayed")
    # The body of a valid message contains another message, which the daemon must not read.
    stream = t.stream()
    mark = fresh("")
    good = complete(stream, "OPTIONS", body=hidden.format(mark))
    check(stream.exchange(good), "control: a good message with a body got nothing")
    check(not stream.take(lambda m: m.call_id == "hidden" + mark, 0.5), "a message in a body was answered")
    return f"{closed + 1} lying lengths: 400 and closed; a message hidden behind or inside a body was never read"


@probe("T2", "datagrams", "digest")
def datagrams(t):
    """One datagram is one message, and bytes after the message's length are ignored."""
    phone = t.phone()
    mark = fresh("second")
    first, second = complete(phone), complete(phone).set("Call-ID", mark)
    phone.send(first.bytes() + second.bytes())
    check(phone.response(first.call_id, timeout=2), "control: the first message of a datagram was not answered")
    check(not phone.response(mark, timeout=0.7), "a second message in a datagram was answered")
    phone.send(complete(phone, body="12345").set("Content-Length", "50"))
    answer = phone.take(lambda m: m.is_response, 2)
    check(answer is None or answer.status == 400, f"a datagram shorter than its length: {answer and answer.start}")
    return "a second message behind the first one's length is not read; a datagram shorter than its length is 400"


@probe("T3", "too-much", "digest")
def too_much(t):
    stream = t.stream()
    stream.send(complete(stream, lines=["Subject: " + "x" * 17000]))
    answer = stream.take(lambda m: m.is_response, 3)
    check(answer is None or answer.status in (400, 413, 513), f"a head of 17 KiB got {answer and answer.start}")
    check(answer or stream.closed, "a head of 17 KiB got no answer and the connection stayed")
    head = answer.status if answer else "closed"
    stream = t.stream()
    stream.send(complete(stream, body="b" * 66000))
    answer = stream.take(lambda m: m.is_response, 3)
    check(answer is not None and answer.status in (413, 513), f"a body of 66,000 bytes got {answer and answer.start}")
    body = answer.status
    phone = t.phone()
    phone.send(complete(phone, lines=[f"X-{n}: y" for n in range(2000)]))
    answer = phone.take(lambda m: m.is_response, 2)
    check(answer is None or answer.status >= 400, f"2,000 fields got {answer and answer.start}")
    phone = t.phone()
    name, password = t.registered(phone)
    contacts = ", ".join(f"<sip:{name}@{phone.host}:{20000 + n}>" for n in range(13))
    answer = phone.register(name, password, contact=contacts)
    check(answer and answer.status in (400, 403), f"13 contacts of 12 got {answer and answer.start}")
    answer = phone.exchange(phone.make("OPTIONS", f"sip:{'n' * 5000}@example.net", to="sip:x@example.net"), 3)
    check(answer is None or answer.status >= 400, f"a Request-URI of 5,000 bytes got {answer and answer.start}")
    answer = phone.register(name, password, contact=f"<sip:{'n' * 20000}@h>", timeout=3)
    check(answer is None or answer.status >= 400, f"a Contact of 20,000 bytes got {answer and answer.start}")
    alive(t)
    return f"17 KiB of head: {head}; 66,000 bytes of body: {body}; 2,000 fields, 13 contacts, 5,000 bytes of Request-URI: refused"


@probe("Trust", "each-probe-is-in-the-page")
def page(t):
    """docs/Trust.md names each probe in the row of its rule, and no other probe."""
    with open(os.path.join(os.path.dirname(__file__), "..", "..", "..", "docs", "Trust.md")) as file:
        text = file.read()
    named = set(re.findall(r"`trust ([a-z0-9-]+)`", text))
    known = {name: rule for rule, name, *_ in PROBES + TIMINGS + FAULTS if rule != "Trust"}
    check(named == set(known), f"only in the page: {sorted(named - set(known))}; not in it: {sorted(set(known) - named)}")
    for line in text.splitlines():
        rule = re.match(r"\| (T\d+(?:\.\d+)?) ", line)
        for name in re.findall(r"`trust ([a-z0-9-]+)`", line):
            check(not rule or known[name] == rule.group(1), f"{name} shows {known[name]} and stands beside {rule and rule.group(1)}")
    return f"{len(known)} probes, each beside its rule"
