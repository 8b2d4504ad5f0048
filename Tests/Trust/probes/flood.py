"""T4: nobody can use the proxy to flood others."""

import concurrent.futures
import time

from sip import fresh
from suite import check, probe
from .reading import alive


def shapes(agent):
    """Short and malformed requests. The answer to a short request is large in proportion."""
    host = agent.local()

    def short(method, uri="sip:example.net", more="", via=None, user="a", body=""):
        via = via or f"SIP/2.0/UDP {host};branch={fresh('z9hG4bK')}"
        return (f"{method} {uri} SIP/2.0\r\nv:{via}\r\nf:<sip:{user}@example.net>;tag=1\r\nt:<sip:{user}@example.net>\r\n"
                f"i:{fresh('')}\r\nCSeq:1 {method}\r\nMax-Forwards:9\r\n{more}\r\n{body}").encode()

    yield "short REGISTER", short("REGISTER", more=f"m:<sip:a@{host}>\r\n", user="r")
    yield "REGISTER without Contact", short("REGISTER")
    yield "short INVITE", short("INVITE", f"sip:a@example.net", f"m:<sip:a@{host}>\r\n")
    yield "INVITE without Contact", short("INVITE", "sip:a@example.net")
    yield "INVITE to nobody", short("INVITE", "sip:nobody@example.net")
    yield "INVITE elsewhere", short("INVITE", "sip:a@elsewhere.invalid")
    yield "INVITE sips", short("INVITE", "sips:a@example.net")
    yield "INVITE tel", short("INVITE", "tel:+1")
    yield "OPTIONS", short("OPTIONS")
    yield "OPTIONS of a user", short("OPTIONS", "sip:a@example.net")
    for method in ("MESSAGE", "SUBSCRIBE", "PUBLISH", "NOTIFY", "REFER", "INFO", "BYE", "UPDATE", "PRACK", "CANCEL", "ACK", "FOO"):
        yield method, short(method, "sip:a@example.net")
    yield "required extension", short("INVITE", "sip:a@example.net", "Require:x\r\n")
    yield "REGISTER with a required extension", short("REGISTER", more="Require:x\r\n")
    yield "proxy required extension", short("INVITE", "sip:a@example.net", "Proxy-Require:x,y,z\r\n")
    yield "Max-Forwards 0", short("INVITE", "sip:a@example.net").replace(b"Max-Forwards:9", b"Max-Forwards:0")
    yield "OPTIONS with Max-Forwards 0", short("OPTIONS").replace(b"Max-Forwards:9", b"Max-Forwards:0")
    yield "no CSeq", short("OPTIONS").replace(b"CSeq:1 OPTIONS\r\n", b"")
    yield "another version", short("OPTIONS").replace(b"SIP/2.0\r\nv", b"SIP/3.0\r\nv")
    yield "Route to itself", short("INVITE", "sip:a@example.net", "Route:<sip:127.0.0.1;lr>\r\n")
    yield "wrong credentials", short("REGISTER", more='Authorization:Digest username="a",realm="example.net",nonce="n",uri="sip:example.net",response="r"\r\n')
    yield "wrong length", short("OPTIONS", more="l:9999\r\n")
    yield "rport", short("REGISTER", via=f"SIP/2.0/UDP {host};rport;branch=z9hG4bKr")
    yield "no branch", short("REGISTER", via=f"SIP/2.0/UDP {host}")
    yield "Max-Breadth 0", short("INVITE", "sip:a@example.net", "Max-Breadth:0\r\n")
    yield "a response", (f"SIP/2.0 200 OK\r\nv:SIP/2.0/UDP {host};branch=z9hG4bKx\r\nf:<sip:a@b>;tag=1\r\nt:<sip:a@b>;tag=2\r\n"
                         f"i:1\r\nCSeq:1 INVITE\r\n\r\n").encode()
    yield "keep-alive", b"\r\n\r\n"
    yield "keep-alives", b"\r\n\r\n" * 20
    yield "one byte", b"\0"
    yield "nonsense", b"hello there\r\n\r\n"
    yield "only a start line", b"REGISTER sip:example.net SIP/2.0\r\n\r\n"
    yield "STUN", bytes.fromhex("000100002112a442") + b"abcdefghijkl"
    yield "invitation over and over", None


@probe("T4.5", "many-contacts-are-cheap", "digest", alone=True, timing=True)
def contacts(t):
    """A REGISTER of twelve contacts (registrar.max-contacts) with fifty parameters each, while twelve are stored."""
    name, password = t.daemon.user()
    phone = t.stream()

    def register(turn, contacts=12):
        request = phone.make("REGISTER", "sip:example.net", name, to=f"sip:{name}@example.net", fields=[("Expires", "600")],
                             call_id=call_id, cseq=2 * turn + 1)
        for number in range(contacts):
            # The contacts differ only in the last parameter, and come in another order each time.
            some = [f"p{index}=value{index}" for index in range(49)] + [f"which=a{number}"]
            some = some[turn % 50:] + some[:turn % 50]
            request.add("Contact", f"<sip:{name}@{phone.local()};{';'.join(some)}>")
        answer, _ = phone.with_credentials(request, name, password)
        check(answer and answer.status == 200, f"control: {answer and answer.start}")
        check(len(answer.all("contact")) == 12, f"control: {len(answer.all('contact'))} contacts")

    call_id, batches, count = fresh("many"), 5, 10
    register(0)

    def cost(first, contacts):
        """The cost of the cheapest of several batches. A busy machine makes single batches slower, but never faster."""
        batch_costs = []
        for batch in range(batches):
            before = t.daemon.work()
            for turn in range(first + batch * count, first + (batch + 1) * count):
                register(turn, contacts)
            batch_costs.append((t.daemon.work() - before) / count * 1000)
        return min(batch_costs)

    many, none = cost(1, 12), cost(1 + batches * count, 0)
    # On a slow machine, the batches with and without contacts both take longer.
    check(many <= max(2, 8 * none), f"a REGISTER of 12 contacts with 50 parameters takes {many:.1f} ms of processor time, "
                                    f"one without {none:.1f}")
    return (f"a REGISTER of 12 contacts with 50 parameters each, and its challenge, take {many:.2f} ms of processor time; "
            f"one without {none:.2f}")


def settled(t):
    """Waits until the daemon has answered all earlier requests over UDP, and the answers have been read."""
    fence = t.phone()
    check(fence.exchange(fence.make("OPTIONS", "sip:example.net"), 60), "control: the daemon answers no OPTIONS")
    time.sleep(0.3)


def amplification(t, wait=6.0):
    worst, name_of_worst, total = 0.0, "", 0

    def one(shape):
        name, raw, agent = shape
        sent = 0
        if raw is None:
            raw = next(r for n, r in shapes(agent) if n == "short INVITE")
            for _ in range(20):
                agent.send(raw)
                sent += len(raw)
        else:
            agent.send(raw)
            sent = len(raw)
        time.sleep(wait)
        return name, agent.received_bytes / sent, agent.received_count, sent

    count = len(list(shapes(t.phone())))
    prepared = []
    for index in range(count):
        agent = t.phone()
        name, raw = list(shapes(agent))[index]
        prepared.append((name, raw, agent))
    with concurrent.futures.ThreadPoolExecutor(count) as pool:
        results = list(pool.map(one, prepared))
    over = [f"{name} {factor:.1f} times ({datagrams} datagrams for {sent} bytes)"
            for name, factor, datagrams, sent in results if factor > 3.0]
    name_of_worst, worst = max(((name, factor) for name, factor, _, _ in results), key=lambda pair: pair[1])
    answered = sum(1 for _, factor, _, _ in results if factor > 0)
    check(answered > 15, f"control: only {answered} of {count} shapes were answered")
    check(not over, "; ".join(over))
    return f"{count} shapes of request, 6 s each: at most {worst:.2f} times the bytes came back ({name_of_worst})"


@probe("T4.1", "amplification", "digest")
def amplification_digest(t):
    return amplification(t)


@probe("T4.1", "amplification-auth-off", "open")
def amplification_open(t):
    return amplification(t)


@probe("T4.1", "replies-go-to-the-source", "digest")
def reflection(t):
    """Via, received, rport and maddr name a victim, to which the daemon must send nothing."""
    victim, agent = t.trap(), t.phone()
    place = f"{victim.host}:{victim.port}"
    vias = [
        f"SIP/2.0/UDP {place};branch={fresh('z9hG4bK')}",
        f"SIP/2.0/UDP {agent.local()};maddr={victim.host};branch={fresh('z9hG4bK')}",
        f"SIP/2.0/UDP {agent.host}:{victim.port};received={victim.host};branch={fresh('z9hG4bK')}",
        f"SIP/2.0/UDP {agent.local()};received={victim.host};rport={victim.port};branch={fresh('z9hG4bK')}",
        f"SIP/2.0/TCP {place};branch={fresh('z9hG4bK')}",
        f"SIP/2.0/UDP {agent.local()};branch={fresh('z9hG4bK')}, SIP/2.0/UDP {place};branch={fresh('z9hG4bK')}",
    ]
    for method in ("OPTIONS", "INVITE", "REGISTER", "MESSAGE"):
        for via in vias:
            request = agent.make(method, "sip:example.net" if method == "REGISTER" else "sip:x@example.net")
            agent.send(request.set("Via", via))
        # The second request is also malformed, because answers to such requests take another path through the program.
        agent.send(agent.make(method, "sip:example.net").set("Via", vias[1]).without("CSeq"))
    time.sleep(2)
    settled(t)
    check(not victim.caught(), f"the victim got {victim.caught()[:3]}")
    check(agent.received_count > 4, "control: the sender got no answers")
    return "answers go to where the request came from, whatever Via, maddr, received and rport say"


@probe("T4.2", "challenges-leave-nothing", "digest")
def stateless(t):
    agent = t.phone()
    name, _ = t.daemon.user()
    before = t.daemon.metric("sippushd_transactions")
    calls = []
    for number in range(3000):
        request = agent.make("INVITE", f"sip:{name}@example.net")
        calls.append(request)
        agent.send(request)
        if number % 100 == 99:
            time.sleep(0.02)
    settled(t)
    after = t.daemon.metric("sippushd_transactions")
    answers = [m for m in agent.history if m.status in (401, 407)]
    check(len(answers) > 500, f"control: {len(answers)} challenges for 3,000 INVITEs")
    check(after - before < 300, f"3,000 unproved INVITEs left {after - before:.0f} transactions")
    count = len(agent.history)
    # Timer A or G would repeat the message after half a second.
    time.sleep(1.5)
    settled(t)
    check(len(agent.history) == count and not agent.repeats, f"{len(agent.history) - count + len(agent.repeats)} challenges were repeated by a timer")
    # A repeated INVITE is answered again, because the daemon does not remember a challenged INVITE.
    again = t.phone()
    request = again.make("INVITE", f"sip:{name}@example.net")
    for expected in (1, 2):
        again.send(request)
        settled(t)
        check(len(again.history) == expected, f"the {expected}. copy of an INVITE: {len(again.history)} challenges")
    check(again.history[0].tag("to") is not None, "a challenge without a tag in To")
    again.send(again.ack_failure(request, again.history[0]))
    settled(t)
    check(len(again.history) == 2, "the ACK of a challenge was answered")
    return f"3,000 unproved INVITEs left {max(after - before, 0):.0f} transactions; no challenge is repeated, each copy is challenged anew"


@probe("T4.3", "no-answer-to-answers", "digest")
def answers_to_answers(t):
    agent = t.phone()
    name, _ = t.daemon.user()
    token = "<sip:127.0.0.1:%d;lr;d=AAAAAAAAAAAAAAAA>" % t.daemon.port
    via = f"SIP/2.0/UDP 127.0.0.1:{t.daemon.port};branch={fresh('z9hG4bK')}"
    for status in (100, 180, 200, 302, 401, 407, 487, 500, 603, 999, 0):
        for own in (True, False):
            vias = ([("Via", via)] if own else []) + [("Via", f"SIP/2.0/UDP {agent.local()};branch={fresh('z9hG4bK')}")]
            lines = [f"SIP/2.0 {status} Whatever"] + [f"{n}: {v}" for n, v in vias]
            lines += [f"From: <sip:{name}@example.net>;tag=1", f"To: <sip:{name}@example.net>;tag=2", f"Call-ID: {fresh('r')}",
                      "CSeq: 1 INVITE", "Contact: <sip:a@127.0.0.1>", "Content-Length: 0", "", ""]
            agent.send("\r\n".join(lines).encode())
    for uri, fields in ((f"sip:{name}@example.net", []), ("sip:nobody@example.net", []), ("sip:127.0.0.1", []),
                        (f"sip:{name}@example.net", [("Route", token)]), ("sips:x@example.net", []),
                        ("sip:x@elsewhere.invalid", [("Require", "x")]), ("sip:example.net", [("Max-Forwards", "0")])):
        ack = agent.make("ACK", uri)
        for field, value in fields:
            ack.set(field, value)
        agent.send(ack)
        agent.send(ack.copy().without("CSeq"))
        agent.send(ack.copy().set("Content-Length", "77"))
    time.sleep(2)
    check(not agent.history, f"got {[m.start for m in agent.history[:3]]}")
    alive(t, agent)
    return "22 responses and 21 ACKs, good and broken, with our Via and without, were answered by nothing"


def looping(t):
    """Contacts that lead back to the daemon, as an attacker can write them."""
    port = t.daemon.port
    return [f"sip:USER@127.0.0.1:{port}", f"sip:USER@localhost:{port}", f"sip:USER@127.1:{port}",
            f"sip:USER@127.0.0.1:{port};transport=tcp", f"sip:USER@example.net", f"sip:USER@0.0.0.0:{port}"]


@probe("T4.4", "loop-through-contacts", "direct")
def loop(t):
    """One MESSAGE to a user with six contacts that lead back to the daemon."""
    results = []
    for streams in (False, True):
        name, password = t.daemon.user()
        host = t.address()
        agents = []
        for uri in looping(t):
            agent = t.stream(host) if streams else t.phone(host)
            answer = agent.register(name, password, contact="<" + uri.replace("USER", name) + ">")
            check(answer and answer.status in (200, 400, 403), f"REGISTER of {uri} got {answer and answer.start}")
            agents.append(agent)
        for agent in agents if streams else []:
            agent.close()
        time.sleep(0.3)
        before = t.daemon.metric("sippushd_sip_requests_total", method="MESSAGE")
        caller = t.phone(trusted=True)
        caller.send(caller.make("MESSAGE", f"sip:{name}@example.net", body="x"))
        time.sleep(2.5)
        made = t.daemon.metric("sippushd_sip_requests_total", method="MESSAGE") - before
        # Other probes of this daemon send no MESSAGE. The sending agent may have repeated the MESSAGE once.
        check(made <= 3, f"one MESSAGE became {made:.0f} at our own listeners")
        results.append(made)
    return "one MESSAGE to six contacts that name our own listeners, over UDP and dead TCP, did not come back"


@probe("T4.4", "max-breadth", "direct")
def breadth(t):
    name, password = t.daemon.user()
    phones = [t.phone() for _ in range(5)]
    for phone in phones:
        answer = phone.register(name, password)
        check(answer and answer.status == 200, f"control: REGISTER got {answer}")

    def call(value):
        caller = t.phone(trusted=True)
        request = caller.make("INVITE", f"sip:{name}@example.net")
        if value is not None:
            request.set("Max-Breadth", value)
        caller.send(request)
        check(caller.response(request.call_id, "INVITE", 20, final=False), "control: an INVITE has no answer")
        settled(t)
        rang = [(p, m) for p in phones for m in [p.request("INVITE", request.call_id, 0.01)] if m]
        answer = None if rang else next((m for m in caller.history if m.status and m.status >= 200), None)
        for phone, invite in rang:
            phone.respond(invite, 486, tag="b")
        return len(rang), answer, [m.get("max-breadth") for _, m in rang]

    free, answer, _ = call(None)
    check(free == 5, f"control: without Max-Breadth {free} of 5 phones rang ({answer})")
    two, answer, values = call("2")
    rest = f"{two} at once" if two else f"none, the caller gets {answer and answer.status}"
    check(two or (answer and answer.status == 440), f"Max-Breadth 2: no phone rang and the caller got {answer}")
    check(two <= 2, f"Max-Breadth 2: {two} phones rang at once")
    check(sum(int(v) for v in values if v) <= 2, f"Max-Breadth 2 was given on as {values}")
    none, answer, _ = call("0")
    check(none == 0 and answer and answer.status == 440, f"Max-Breadth 0: {none} rang, {answer and answer.start}")
    wild, answer, values = call("99999999999999999999999")
    check(wild <= 5 and t.daemon.alive(), "a huge Max-Breadth")
    check(all(v is None or int(v) <= 255 for v in values), f"a huge Max-Breadth was given on as {values}")
    return f"5 phones: Max-Breadth 2 rings {rest}; 0 is 440; a huge one is given on as {values[0] if values else '-'} each"
