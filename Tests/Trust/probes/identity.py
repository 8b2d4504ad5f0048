"""T5 to T8, T9.6 to T9.8 and T19: the identity of clients."""

import re
import shutil
import time

from daemon import CountedDaemon
from sip import answer_challenge, challenges, credentials, fresh
from suite import Skipped, check, probe


def challenged(agent, request):
    answer = agent.exchange(request)
    check(answer and answer.status in (401, 407), f"control: {request.method} was not challenged: {answer}")
    return answer


@probe("T5", "only-the-user-changes-contacts", "digest")
def other_contacts(t):
    victim, thief = t.phone(), t.phone()
    victim_name, _ = t.registered(victim)
    name, password = t.registered(thief)
    tries = [
        {"to": f"<sip:{victim_name}@example.net>"},
        {"to": f"<sip:{victim_name}@example.net>", "from": f"<sip:{victim_name}@example.net>;tag=1"},
        {"to": f"<sip:{victim_name}@example.net>", "contact": "*"},
        {"to": f"<sip:{name}@example.net>, <sip:{victim_name}@example.net>"},
        {"to": f"<sip:%{ord(victim_name[0]):x}{victim_name[1:]}@example.net>"},
        {"to": f"<SIP:{victim_name}@EXAMPLE.NET>"},
        {"to": f"<sip:{victim_name}@example.net>", "username": f"{victim_name}@example.net"},
    ]
    for one in tries:
        request = thief.make("REGISTER", "sip:example.net", name, contact=one.get("contact", f"<sip:{name}@{thief.local()}>"))
        request.set("To", one["to"]).set("Expires", "0" if one.get("contact") == "*" else "600")
        if "from" in one:
            request.set("From", one["from"])
        answer = thief.exchange(request)
        if answer is not None and answer.status in (401, 407):
            again = request.renewed()
            again.add(*credentials(answer, name, password, "REGISTER", request.uri))
            answer = thief.exchange(again)
        check(answer is None or answer.status in (400, 401, 403, 404), f"{one}: {answer and answer.start}")
    caller = t.phone(trusted=True)
    request = caller.make("INVITE", f"sip:{victim_name}@example.net")
    caller.send(request)
    invite = victim.request("INVITE", request.call_id)
    check(invite, "control: the victim's contact is gone")
    victim.respond(invite, 486, tag="b")
    check(not thief.request("INVITE", request.call_id, 0.5), "the thief got the victim's call")
    return f"{len(tries)} REGISTERs for another user with one's own password: refused, the victim's contact stands"


@probe("T5", "two-contacts-one-of-another", "digest")
def two_contacts(t):
    victim, thief, caller = t.phone(), t.phone(), t.phone(trusted=True)
    victim_name, _ = t.registered(victim)
    name, password = t.daemon.user()
    answer = thief.register(name, password, contact=f"<sip:{name}@{thief.local()}>, <sip:{victim_name}@{victim.local()}>")
    check(answer is not None, "no answer to REGISTER with two Contacts")
    request = caller.make("INVITE", f"sip:{name}@example.net")
    caller.send(request)
    got = victim.request("INVITE", request.call_id, 0.9)
    check(not got, "a call to the thief's own name rang at the victim's address")
    caller.send(caller.cancel(request))
    return f"a second Contact at another user's phone ({answer.status}) brings that phone nothing"


@probe("T6", "replay", "digest")
def replay(t):
    phone, thief = t.phone(), t.phone()
    name, password = t.daemon.user()
    answer = phone.register(name, password)
    check(answer and answer.status == 200, f"control: {answer}")
    seen = phone.last_register

    # The stranger sends the same text from another address, as a new transaction.
    again = seen.renewed()
    answer = thief.exchange(again)
    check(answer is None or answer.status in (400, 401, 403), f"credentials shown twice: {answer and answer.start}")
    # The stranger puts his own Contact into the request.
    again = again.renewed().set("Contact", f"<sip:{name}@{thief.local()}>")
    answer = thief.exchange(again)
    check(answer is None or answer.status in (400, 401, 403), f"with another Contact: {answer and answer.start}")

    # The stranger uses a captured answer that its owner has not used yet, with another Contact.
    request = phone.make("REGISTER", "sip:example.net", name, contact=f"<sip:{name}@{phone.local()}>", to=f"sip:{name}@example.net")
    answer = challenged(phone, request)
    field, value = credentials(answer, name, password, "REGISTER", request.uri)
    stolen = request.renewed().set("Contact", f"<sip:{name}@{thief.local()}>").add(field, value)
    answer = thief.exchange(stolen)
    check(answer is None or answer.status in (400, 401, 403), f"unused credentials with another Contact: {answer and answer.start}")
    return "credentials shown again, from elsewhere, or with another Contact are refused"


@probe("T6", "count-uri-and-nonce", "digest")
def digest_rules(t):
    phone = t.phone()
    name, password = t.daemon.user()
    base = lambda: phone.make("REGISTER", "sip:example.net", name, contact=f"<sip:{name}@{phone.local()}>",  # noqa: E731
                              to=f"sip:{name}@example.net")
    request = base()
    answer = challenged(phone, request)
    pick = next(c for c in challenges(answer) if c.get("algorithm", "MD5").upper() in ("MD5", "SHA-256"))

    def show(nc=1, uri="sip:example.net", change=None, challenge=pick):
        value = answer_challenge(challenge, name, password, "REGISTER", uri, nc)
        again = request.renewed()
        again.set("CSeq", f"{int(time.time() * 1000) % 2**30} REGISTER")
        again.add(pick["field"], change(value) if change else value)
        return phone.exchange(again)

    refused = lambda answer: answer is None or 400 <= answer.status < 500  # noqa: E731
    check(refused(show(uri="sip:elsewhere.invalid")), "a digest for another URI was accepted")
    check(refused(show(challenge=dict(pick, nonce="0" * len(pick["nonce"])))), "an invented nonce was accepted")
    flipped = pick["nonce"][:-1] + ("A" if pick["nonce"][-1] != "A" else "B")
    check(refused(show(challenge=dict(pick, nonce=flipped[1:] + flipped[0]))), "a garbled nonce was accepted")
    check(refused(show(challenge=dict(pick, realm="example.org"))), "a digest for another realm was accepted")
    check(refused(show(change=lambda v: re.sub(r"response=\"\w+\"", 'response=""', v))), "an empty response was accepted")
    check(refused(show(change=lambda v: re.sub(r", qop=auth, cnonce=\"\w+\", nc=\w+", "", v))), "a digest without qop was accepted")
    good = show(nc=2)
    check(good and good.status == 200, f"control: nc=2 got {good}")
    check(refused(show(nc=2)), "nc=2 was accepted twice")
    check(refused(show(nc=1)), "nc=1 was accepted after 2")
    good = show(nc=3)
    check(good and good.status == 200, f"control: nc=3 got {good}")
    return "another uri, realm or nonce, no response, no qop, and nc that does not rise are refused"


@probe("T6", "credentials-of-a-call", "digest")
def replayed_call(t):
    """Toll fraud with the credentials of one call that an attacker has seen."""
    caller, thief = t.phone(), t.phone()
    name, password = t.registered(caller)
    request = caller.make("INVITE", "sip:700@example.net", name)
    answer = challenged(caller, request)
    field, value = credentials(answer, name, password, "INVITE", request.uri)

    def dial(agent, uri, method="INVITE"):
        again = agent.make(method, uri, name)
        again.add(field, value)
        agent.send(again)
        got = t.daemon.pbx.request(method, again.call_id, 1.0)
        if got:
            t.daemon.pbx.respond(got, 486, tag="b")
        return got

    for uri in ("sip:0900123456@example.net", "sip:0900123456@example.net;x=sip:700@example.net", "sip:700@example.org", "tel:0900123456"):
        check(not dial(thief, uri), f"credentials for sip:700@example.net brought an INVITE for {uri} to the PBX")
    check(not dial(thief, request.uri, "MESSAGE"), "credentials for INVITE brought a MESSAGE to the PBX")
    # After their owner has used them, the credentials are invalid, even for a call to the same number.
    check(dial(caller, request.uri), "control: its owner's call does not arrive")
    check(not dial(thief, request.uri), "the credentials of a call brought a second call to the PBX")
    check(not dial(caller, request.uri), "the credentials of a call brought a second call of their owner to the PBX")
    return "credentials of one INVITE open no other number, no other method, and no second call"


@probe("T6", "nonces-end", "narrow")
def nonces_end(t):
    phone = t.phone()
    name, password = t.daemon.user()
    request = phone.make("REGISTER", "sip:example.net", name, contact=f"<sip:{name}@{phone.local()}>", to=f"sip:{name}@example.net")
    answer = challenged(phone, request)
    time.sleep(6.5)
    again = request.renewed()
    again.add(*credentials(answer, name, password, "REGISTER", request.uri))
    answer = phone.exchange(again)
    check(answer and answer.status == 401, f"a nonce of 6.5 s with a lifetime of 5 s: {answer}")
    stale = [c.get("stale") for c in challenges(answer)]
    check("true" in [str(s).lower() for s in stale], f"the new challenge does not say stale: {stale}")
    return "a nonce older than digest.nonce-lifetime gets 401 with stale=true"


def lengths(answer):
    """The size of the answer without random texts and texts from the request."""
    return len(re.sub(rb"(?i)(nonce=\"[^\"]*\"|tag=[^;>\s]*)", b"", answer.raw))


@probe("T7", "users-are-not-told", "digest")
def users(t):
    existing, _ = t.daemon.user("aa" + fresh("")[-8:])
    missing = "zz" + fresh("")[-8:]
    missing = (missing + "0" * 20)[:len(existing)]
    compared = 0
    for method, uri in (("REGISTER", "sip:example.net"), ("INVITE", None), ("OPTIONS", None), ("MESSAGE", None),
                        ("SUBSCRIBE", None), ("BYE", None), ("INFO", None)):
        found = []
        for name in (existing, missing):
            agent = t.phone()
            request = agent.make(method, uri or f"sip:{name}@example.net", "same", to=f"sip:{name}@example.net")
            first = agent.exchange(request, 3)
            result = [first and (first.status, lengths(first))]
            if first and first.status in (401, 407):
                again = request.renewed()
                again.add(*credentials(first, name, "wrong", method, request.uri))
                second = agent.exchange(again, 3)
                result.append(second and (second.status, lengths(second)))
            found.append(result)
            compared += 1
        local = lambda results: [r and (r[0], r[1]) for r in results]  # noqa: E731
        check(len(found[0]) == len(found[1]), f"{method}: {found}")
        for one, other in zip(local(found[0]), local(found[1])):
            same = one == other or (one and other and one[0] == other[0] and abs(one[1] - other[1]) <= 8)
            check(same, f"{method} tells a user who exists from one who does not (status, length): {found}")
    return f"{compared // 2} methods, without and with a wrong password: same status and length for users and nobody"


def counted(t, limits):
    """The probe's own daemon, whose instructions valgrind counts."""
    missing = [tool for tool in CountedDaemon.tools if not shutil.which(tool)]
    if missing:
        raise Skipped(f"instructions are counted by valgrind; {', '.join(missing)} is not installed")
    t.daemon = t.suite.daemons["counted"] = CountedDaemon("counted", t.suite, {"limits": limits, "log": {"level": "notice"}})
    return t.daemon.start()


@probe("T7", "users-are-not-told-by-work", alone=True)
def work(t):
    """A wrong password costs as many instructions for an unknown user as for a known one, also in a foreign domain over
    HTTP."""
    count = 8
    # Without limits for wrong passwords, the daemon checks each password.
    daemon = counted(t, {"wrong-logins-per-source": 0, "wrong-logins-per-user": 0})
    existing, _ = daemon.user()
    missing = fresh("u")[:len(existing)]
    agent, source = t.phone(), t.address()

    def over_sip(name):
        request = agent.make("REGISTER", "sip:example.net", name, contact=f"<sip:{name}@{agent.local()}>", to=f"sip:{name}@example.net")
        answer = agent.exchange(request, 20)
        check(answer and answer.status == 401, f"control: {name} got {answer}")
        again = request.renewed()
        again.add(*credentials(answer, name, "wrong", "REGISTER", request.uri))
        answer = agent.exchange(again, 20)
        check(answer and answer.status == 401, f"control: a wrong password of {name} got {answer}")

    def over_http(name):
        status, _, _ = daemon.http("POST", "/v1/push-tokens", f'{{"username":"{name}","password":"guess","selector":"S:1"}}',
                                   {"Content-Type": "application/json"}, port=daemon.api_port, source=source, timeout=20)
        check(status in (401, 403), f"control: {name} got {status}")

    told = []
    for ask, names in ((over_sip, (existing, missing)),
                       (over_http, (f"{existing}@example.net", f"{missing}@example.net", f"{existing}@example.com"))):
        for name in names * 2:
            ask(name)
        counts = {name: [] for name in names}
        for _ in range(7):
            for name in names:
                daemon.instructions()
                for _ in range(count):
                    ask(name)
                counts[name].append(daemon.instructions() / count)
        # The least number of instructions counts, because the daemon's timers sometimes cause additional work.
        least = {name: min(values) for name, values in counts.items()}
        words = ", ".join(f"{least[name]:.0f}" for name in names)
        check(max(least.values()) <= 1.05 * min(least.values()), f"{ask.__name__}: {names} take {words} instructions: {counts}")
        told.append(f"{ask.__name__} {words}")
    daemon.kill()
    return f"instructions for a wrong password: {'; '.join(told)}"


def guess(agent, name, password, count):
    """Sends wrong passwords as fast as the daemon answers, with as few nonces as it allows. Returns the answers."""
    answers = []
    for _ in range(count):
        request = agent.make("REGISTER", "sip:example.net", name, contact=f"<sip:{name}@{agent.local()}>", to=f"sip:{name}@example.net")
        answer = agent.exchange(request, 1.5)
        if answer is None or answer.status not in (401, 407):
            answers.append(answer)
            continue
        again = request.renewed()
        again.add(*credentials(answer, name, password, "REGISTER", request.uri))
        answers.append(agent.exchange(again, 1.5))
    return answers


@probe("T8", "passwords-are-not-guessed", "direct")
def guessing(t):
    name, password = t.daemon.user()
    own = t.phone()
    answer = own.register(name, password)
    check(answer and answer.status == 200, f"control: {answer}")
    thief = t.phone()
    answers = guess(thief, name, "wrong", 40)
    check(not any(a and a.status == 200 for a in answers), "a wrong password was accepted")
    # Beyond the limit, the daemon checks not even the right password, so guessing is useless.
    [answer] = guess(thief, name, password, 1)
    check(answer is None or answer.status != 200, "after 40 wrong passwords the right one from the same source was accepted at once")
    shown = "silence" if answer is None else answer.start.split(" ", 1)[1]
    # Attackers at other addresses guess the password of the same user.
    for _ in range(6):
        guess(t.phone(), name, "wrong", 9)
    [answer] = guess(t.phone(), name, password, 1)
    check(answer is None or answer.status != 200, "94 wrong passwords of many sources within a minute did not stop the next source")
    answer = own.register(name, password)
    check(answer and answer.status == 200, f"the user was locked out from his own known address: {answer and answer.start}")
    other = t.phone()
    other_name, other_password = t.daemon.user()
    answer = other.register(other_name, other_password)
    check(answer and answer.status == 200, f"another user from another source: {answer and answer.start}")
    return f"after 40 wrong passwords a source gets {shown} for the right one, also many sources against one user; the user's own address and others are let in"


@probe("T8", "one-limit-for-sip-and-http", "direct")
def one_limit(t):
    name, password = t.daemon.user()
    thief = t.phone()

    def report(source):
        status, _, _ = t.daemon.http("POST", "/v1/push-tokens",
                                     f'{{"username":"{name}","password":"{password}","selector":"S:1"}}',
                                     {"Content-Type": "application/json"}, port=t.daemon.api_port, source=source)
        return status

    check(report(t.address()) == 200, "control: the right password over HTTP is not accepted")
    guess(thief, name, "wrong", 30)
    status = report(thief.host)
    check(status == 429, f"30 wrong passwords over SIP, then the right one over HTTP from the same address: {status}")
    return "a source that guessed over SIP gets 429 over HTTP, too"


IDENTITY = ["P-Asserted-Identity", "P-Preferred-Identity", "Remote-Party-ID", "Diversion", "History-Info",
            "P-Charging-Vector", "P-Charging-Function-Addresses", "P-Access-Network-Info"]


def spelled(name):
    """Spellings of a header field that a parser may accept and a filter may miss."""
    value = "<sip:evil-boss@example.net>"
    yield f"{name}: {value}"
    yield f"{name.lower()}: {value}"
    yield f"{name.upper()}:{value}"
    yield f"{name} : {value}"
    yield f"{name}\t:\t{value}"
    yield f"{name}:\r\n {value}"
    yield f"{name}:\r\n\t\r\n {value}"
    yield f"{name}\r\n : {value}"
    yield f" {name}: {value}"
    yield f"{name}: <sip:other@example.net>, {value}"
    yield f"{name}: \"evil-boss\" {value}"
    yield f"{name}\0: {value}"
    yield f"{name}\x0b: {value}"
    yield f"\x00{name}: {value}"


def leaks(message, allowed=()):
    """The lines of the head with an identity field, as the most lenient reader sees them."""
    found = []
    for line in message.head_lines():
        name = re.sub(rb"[^a-z-]", b"", line.partition(b":")[0].lower())
        if b"evil-boss" in line and any(name.startswith(field.lower().encode()[:12]) for field in IDENTITY):
            found.append(line)
    # A folded line belongs to the header field in the line above.
    flat = re.sub(rb"\r\n[ \t]+", b" ", message.raw).lower()
    for field in IDENTITY:
        for part in re.findall(rb"(?m)^" + field.lower().encode() + rb"[\s\x00]*:[^\r\n]*evil-boss[^\r\n]*", flat):
            found.append(part)
    return found


def calls_with(t, lines, toward):
    """Sends an INVITE with the given lines from a phone that has authenticated by its password. Returns the message that
    arrives, if any."""
    caller = t.phone()
    name, password = t.registered(caller)
    if toward == "pbx":
        callee, target = t.daemon.pbx, "700"
    else:
        callee = t.phone()
        target, _ = t.registered(callee)
    results = []
    for line in lines:
        request = caller.make("INVITE", f"sip:{target}@example.net", name)
        # A malformed line must not change the answer to the first request, so it comes with the credentials.
        answer = caller.exchange(request, 4)
        if answer is None or answer.status not in (401, 407):
            results.append((line, None))
            continue
        again = request.renewed()
        again.add(*credentials(answer, name, password, "INVITE", request.uri))
        again.lines = [line]
        caller.send(again)
        arrived = callee.request("INVITE", request.call_id, 0.7)
        if arrived is None and not caller.response(again.call_id, "INVITE", 0.2):
            caller.send(again)
            arrived = callee.request("INVITE", request.call_id, 0.7)
        if arrived:
            callee.respond(arrived, 486, tag="b")
        results.append((line, arrived))
    return name, results


def identity_probe(t, toward):
    count, let_through = 0, 0
    for field in IDENTITY:
        # The probe tests one field with all spellings, and each other field with three.
        lines = list(spelled(field)) if field in ("P-Asserted-Identity", "Remote-Party-ID") else list(spelled(field))[:6:2]
        name, results = calls_with(t, lines, toward)
        for line, arrived in results:
            count += 1
            if arrived is None:
                continue
            let_through += 1
            check(not leaks(arrived), f"{line!r} reached the {toward} as {leaks(arrived)[:2]}")
            if toward == "pbx":
                asserted = " ".join(arrived.all("p-asserted-identity"))
                check(f"sip:{name}@example.net" in asserted, f"the PBX was told {asserted!r} instead of {name}")
        check(results[0][1] is not None, f"control: the call with {results[0][0]!r} did not arrive")
    return f"{count} spellings of {len(IDENTITY)} fields: {let_through} calls arrived, none with what the phone claimed"


@probe("T9.7", "identity-toward-pbx", "digest")
def identity_upstream(t):
    return identity_probe(t, "pbx") + "; P-Asserted-Identity says who was proved"


@probe("T9.7", "identity-toward-phones", "direct")
def identity_phones(t):
    return identity_probe(t, "phone")


@probe("T9.7", "identity-in-answers-and-dialogs", "digest")
def identity_later(t):
    """Identity fields in the 200 of a called phone, and in its re-INVITE."""
    phone, pbx = t.phone(), t.phone(trusted=True)
    name, password = t.registered(phone)
    request = pbx.make("INVITE", f"sip:{name}@example.net")
    pbx.send(request)
    invite = phone.request("INVITE", request.call_id)
    check(invite, "control: no INVITE")
    lines = [f"{field}: <sip:evil-boss@example.net>" for field in IDENTITY]
    phone.respond(invite, 180, tag="b", lines=lines)
    ringing = pbx.take(lambda m: m.status == 180 and m.call_id == request.call_id, 3)
    phone.respond(invite, 200, tag="b", lines=lines)
    answer = pbx.response(request.call_id, "INVITE")
    check(answer and answer.status == 200, f"control: {answer}")
    for message in (ringing, answer):
        check(message is None or not leaks(message), f"the phone's {message and message.status} told the PBX {message and leaks(message)[:2]}")
    from sip import Dialog
    dialog = Dialog.of_caller(pbx, request, answer)
    pbx.send(dialog.make("ACK", cseq=1))
    back = Dialog.of_callee(phone, invite, "b")
    again = back.make("INVITE", lines=lines)
    reply = phone.send(again)
    got = pbx.request("INVITE", again.call_id, 2)
    check(got, f"control: the re-INVITE did not arrive ({phone.response(again.call_id, timeout=0.5)})")
    check(not leaks(got), f"a re-INVITE told the PBX {leaks(got)[:2]}")
    pbx.respond(got, 488, tag="x")
    return f"{len(IDENTITY)} fields in 180, 200 and re-INVITE of a phone do not reach the PBX"


@probe("T9.7", "strip-headers", "digest")
def strip(t):
    if not any("strip-headers" in name for name in t.suite.settings.known):
        check(False, "there is no setting strip-headers")
    name, results = calls_with(t, ["X-Evil: evil-boss", "x-evil : evil-boss", "X-EVIL:\r\n evil-boss"], "pbx")
    arrived = [m for _, m in results if m]
    check(arrived, "control: no call arrived")
    bad = [m for m in arrived if b"evil-boss" in m.raw]
    check(not bad, f"a field of strip-headers reached the PBX: {[l for l in bad[0].head_lines() if b'evil' in l] if bad else ''}")
    return "fields of strip-headers do not reach the PBX, however they are written"


@probe("T9.6", "from-is-the-proved-user", "digest")
def own_from(t):
    caller = t.phone()
    name, password = t.registered(caller)
    other, _ = t.daemon.user()
    t.daemon.user(name, "example.org")
    cases = [f"<sip:{other}@example.net>", "<sip:evil-boss@example.net>", f"<sip:{name}@elsewhere.invalid>", f"<sip:{name}@127.2.0.1>",
             "<tel:+31201234567>", f'"evil" <sip:%65vil-boss@example.net>', f"<sip:{name}@example.net@elsewhere.invalid>",
             f"<sip:{name}@example.org>", "<sip:example.net>", f"<sips:{other}@example.net>", "<sip:anonymous@example.net>"]
    reached = []
    for value in cases:
        request = caller.make("INVITE", "sip:700@example.net", name)
        request.set("From", value + ";tag=" + fresh("f"))
        answer, sent = caller.with_credentials(request, name, password, 2.5)
        arrived = t.daemon.pbx.request("INVITE", request.call_id, 0.3)
        if arrived:
            t.daemon.pbx.respond(arrived, 486, tag="b")
            reached.append(f"{value} ({' '.join(arrived.all('p-asserted-identity')) or 'no P-Asserted-Identity'})")
        else:
            # The daemon's second domain has a realm of its own, for which the phone has no password.
            refusals = (400, 403, 404, 416) + ((401, 407) if "example.org" in value else ())
            check(answer is not None and answer.status in refusals, f"From {value}: {answer and answer.start}")
    check(not reached, f"a From that is not the proved user reached the PBX: {reached}")
    request = caller.make("INVITE", "sip:700@example.net", name)
    caller_answer = caller.exchange(request)
    again = request.renewed()
    again.add(*credentials(caller_answer, name, password, "INVITE", request.uri))
    caller.send(again)
    arrived = t.daemon.pbx.request("INVITE", request.call_id)
    check(arrived, "control: with its own From the call does not arrive")
    t.daemon.pbx.respond(arrived, 486, tag="b")
    # The fields of a phone that wants to stay anonymous (RFC 3323) are not refused, and hide no identity from the daemon.
    request = caller.make("INVITE", "sip:700@example.net", name).set(
        "From", '"Anonymous" <sip:anonymous@anonymous.invalid>;tag=' + fresh("f")).add("Privacy", "id")
    answer = challenged(caller, request)
    again = request.renewed()
    again.add(*credentials(answer, name, password, "INVITE", request.uri))
    caller.send(again)
    arrived = t.daemon.pbx.request("INVITE", request.call_id, 1.5)
    note = "an anonymous From is refused"
    if arrived:
        t.daemon.pbx.respond(arrived, 486, tag="b")
        asserted = " ".join(arrived.all("p-asserted-identity"))
        check(f"sip:{name}@example.net" in asserted, f"an anonymous call told the PBX {asserted!r}")
        note = "an anonymous From arrives with who was proved"
    return f"{len(cases)} other Froms are 403, also the same name in another domain of ours; {note}"


@probe("T9.8", "credentials", "digest")
def own_credentials(t):
    caller = t.phone()
    name, password = t.registered(caller)
    foreign = 'Digest username="x", realm="pbx.example", nonce="n", uri="sip:700@example.net", response="foreign-response"'
    request = caller.make("INVITE", "sip:700@example.net", name)
    answer = challenged(caller, request)
    field, value = credentials(answer, name, password, "INVITE", request.uri)
    response = re.search(r'response="(\w+)"', value).group(1).encode()
    spellings = [
        [f"{field}: {value}", f"Proxy-Authorization: {foreign}"],
        [f"Proxy-Authorization: {foreign}", f"{field.lower()}: {value}"],
        [f"{field.upper()} : {value}", f"Proxy-Authorization: {foreign}"],
        [f"{field}:\r\n {value}", f"Authorization: {foreign}"],
    ]
    shown = 0
    for lines in spellings:
        request = caller.make("INVITE", "sip:700@example.net", name)
        answer = challenged(caller, request)
        field, value = credentials(answer, name, password, "INVITE", request.uri)
        response = re.search(r'response="(\w+)"', value).group(1).encode()
        again = request.renewed()
        again.lines = [re.sub(r'Digest username="' + name + r'".*', value, line, flags=re.S) for line in lines]
        caller.send(again)
        arrived = t.daemon.pbx.request("INVITE", request.call_id, 1.5)
        if not arrived:
            continue
        shown += 1
        t.daemon.pbx.respond(arrived, 486, tag="b")
        check(response not in arrived.raw, f"the PBX saw the phone's credentials for our realm, written {lines}")
        check(b"foreign-response" in arrived.raw, f"credentials for the PBX's realm were taken off: {lines}")
    check(shown >= 2, f"control: {shown} of {len(spellings)} calls arrived")
    return f"{shown} orders and spellings: ours are taken off, those for the PBX's realm arrive"


@probe("T19", "challenges-are-passed-on", "digest")
def passed_on(t):
    """The PBX challenges the phone's request. Nobody except the phone can answer the challenge in the phone's name."""
    caller = t.phone()
    name, password = t.registered(caller)
    request = caller.make("INVITE", "sip:700@example.net", name)
    answer = challenged(caller, request)
    ours = credentials(answer, name, password, "INVITE", request.uri)
    again = request.renewed().add(*ours)
    caller.send(again)
    arrived = t.daemon.pbx.request("INVITE", request.call_id)
    check(arrived, "control: no INVITE at the PBX")
    t.daemon.pbx.respond(arrived, 407, tag="p", fields=[
        ("Proxy-Authenticate", 'Digest realm="pbx.example", nonce="pbx-nonce", algorithm=MD5, qop="auth"')])
    answer = caller.response(request.call_id, "INVITE")
    check(answer and answer.status == 407, f"the phone got {answer}")
    mine = [c for c in challenges(answer) if c.get("realm") == "pbx.example"]
    check(mine, f"the PBX's challenge did not arrive: {answer.fields}")
    caller.send(caller.ack_failure(again, answer))
    check(not t.daemon.pbx.request("INVITE", request.call_id, 0.5), "somebody tried again in the phone's name")
    third = again.renewed()
    # The phone sends two answers: one to the daemon with the next count, and one to the PBX.
    third.fields = [f for f in third.fields if f[0] != ours[0]]
    challenge = challenged(caller, third)
    fourth = third.renewed().add(*credentials(challenge, name, password, "INVITE", request.uri))
    fourth.add("Proxy-Authorization", answer_challenge(mine[0], "x", "y", "INVITE", request.uri))
    caller.send(fourth)
    arrived = t.daemon.pbx.request("INVITE", request.call_id, 3)
    check(arrived, "the call with both credentials did not arrive: a PBX that challenges cannot be reached")
    check("pbx-nonce" in " ".join(arrived.all("proxy-authorization")), "the answer to the PBX's challenge was taken off")
    t.daemon.pbx.respond(arrived, 486, tag="b")
    return "a PBX's 407 reaches the phone, its answer reaches the PBX, and we answered nothing ourselves"
