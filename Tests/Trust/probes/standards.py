"""T23: requirements of RFC 3261 and related RFCs, so that no client waits for an answer that never comes."""

import re
import time

from daemon import Daemon
from sip import Dialog, challenges, credentials, fresh
from suite import check, probe
from .dialog import outgoing
from .routing import call
from .store import own_daemon
from .wake import sleeper

LARGE = b"v=0\r\n" + b"a=x-long:" + b"y" * 1500 + b"\r\n"


@probe("T23.1", "no-hops-left", "direct")
def hops(t):
    phone, caller = t.phone(), t.phone(trusted=True)
    name, _ = t.registered(phone)
    methods = ["INVITE", "MESSAGE", "BYE", "SUBSCRIBE", "NOTIFY", "REFER", "INFO", "UPDATE", "PRACK", "PUBLISH", "CANCEL", "FOO"]
    for method in methods:
        answer = caller.exchange(caller.make(method, f"sip:{name}@example.net", max_forwards=0), 2)
        check(answer and answer.status == 483, f"{method} with Max-Forwards 0: {answer and answer.start}")
    answer = caller.exchange(caller.make("OPTIONS", f"sip:{name}@example.net", max_forwards=0), 2)
    check(answer and answer.status == 200 and answer.get("allow"), f"OPTIONS with Max-Forwards 0: {answer and answer.start}")
    check(not phone.take(lambda m: m.method, 0.3), "something with Max-Forwards 0 was passed on")
    request = caller.make("MESSAGE", f"sip:{name}@example.net", max_forwards=1)
    caller.send(request)
    got = phone.request("MESSAGE", request.call_id, 2)
    check(got and got.get("max-forwards") == "0", f"control: Max-Forwards 1 arrives as {got and got.get('max-forwards')}")
    phone.respond(got, 200)
    return f"{len(methods)} methods with Max-Forwards 0 are 483, OPTIONS is answered here"


@probe("T23.1", "unknown-extensions", "direct")
def extensions(t):
    phone, caller = t.phone(), t.phone(trusted=True)
    name, password = t.registered(phone)

    def refused(answer, what, *tags):
        check(answer and answer.status == 420, f"{what}: {answer and answer.start}")
        told = sorted(tag.strip() for value in answer.all("unsupported") for tag in value.split(","))
        check(told == sorted(tags), f"{what}: Unsupported says {told}")

    for field, tags in (("Require", ["answermode"]), ("Require", ["precondition"]), ("Require", ["path", "gruu", "outbound", "x", "y"])):
        value = ", ".join(tags)
        unknown = [tag for tag in tags if tag not in ("path", "gruu", "outbound")]
        answer = phone.register(name, password, fields=[(field, value)])
        refused(answer, f"REGISTER with {field}: {value}", *unknown)
        refused(caller.exchange(caller.make("OPTIONS", "sip:example.net", fields=[(field, value)]), 2),
                f"OPTIONS with {field}: {value}", *unknown)
    refused(caller.exchange(caller.make("MESSAGE", f"sip:{name}@example.net", fields=[("Proxy-Require", "x"), ("Proxy-Require", "y")]), 2),
            "MESSAGE with Proxy-Require", "x", "y")
    answer = phone.register(name, password, fields=[("Require", "path"), ("Supported", "path, outbound")])
    check(answer and answer.status == 200, f"control: REGISTER with Require: path: {answer and answer.start}")
    check("outbound" not in (answer.get("require") or ""), "outbound is promised for a contact that is no flow")
    _, request = call(t, name, caller, fields=[("Require", "100rel")])
    invite = phone.request("INVITE", request.call_id)
    check(invite and invite.get("require") == "100rel", "control: an INVITE's Require is for the phone")
    phone.respond(invite, 486, tag="b")
    return "Require in REGISTER and OPTIONS, and Proxy-Require: 420, with exactly the unknown tags in Unsupported"


@probe("T23.2", "trying-after-a-while", "direct")
def trying(t):
    phone, caller = t.phone(), t.phone(trusted=True)
    name, _ = t.registered(phone)
    slow = caller.make("MESSAGE", f"sip:{name}@example.net")
    begin = time.monotonic()
    caller.send(slow)
    got = phone.request("MESSAGE", slow.call_id)
    check(got, "control: no MESSAGE at the phone")
    time.sleep(3.3)
    caller.send(slow)
    provisional = caller.response(slow.call_id, timeout=20, final=False)
    check(provisional and provisional.status == 100, f"after 3.5 s: {provisional and provisional.start}")
    late = provisional.time - begin
    check(late > 3.3, f"a MESSAGE had {provisional.start} after {late:.1f} s")
    phone.respond(got, 200)
    check(caller.response(slow.call_id, timeout=2), "control: the late answer does not arrive")
    _, invite = call(t, name, caller)
    at_once = caller.response(invite.call_id, timeout=10, final=False)
    check(at_once and at_once.status == 100, f"an INVITE had {at_once and at_once.start} instead of 100 at once")
    phone.respond(phone.request("INVITE", invite.call_id), 486, tag="b")
    return f"a MESSAGE that is not answered gets 100 after {late:.1f} s and nothing before; an INVITE at once"


@probe("T23.3", "large-requests", "digest")
def large(t):
    """Large requests to phones on UDP, and to a PBX with UDP and TCP on one port."""
    pbx, phone = t.daemon.pbx, t.phone()
    name, password = t.registered(phone)
    request = phone.make("INVITE", "sip:700@example.net", name, body=LARGE)
    answer = phone.exchange(request)
    check(answer and answer.status == 407, f"control: {answer}")
    again = request.renewed().add(*credentials(answer, name, password, "INVITE", request.uri))
    phone.send(again)
    got = pbx.tcp.request("INVITE", request.call_id)
    check(got and got.body == LARGE, "a large INVITE did not come by TCP")
    check("/TCP" in got.get("via"), f"its Via is {got.get('via')}")
    got.source.respond(got, 486, tag="p")
    answer = phone.response(request.call_id, "INVITE")
    check(answer and answer.status == 486, f"the phone got {answer}")
    phone.send(phone.ack_failure(again, answer))
    check(not pbx.take(lambda m: m.call_id == request.call_id, 0.2), "the large INVITE came as a datagram as well")
    # The dialog of this call began over UDP.
    phone, _, of_phone, of_pbx = outgoing(t)
    update = of_phone.make("INVITE", body=LARGE)
    phone.send(update)
    got = pbx.tcp.request("INVITE", update.call_id)
    check(got and got.body == LARGE, "a large re-INVITE did not come by TCP")
    got.source.respond(got, 488)
    answer = phone.response(update.call_id, "INVITE")
    check(answer and answer.status == 488, f"the phone got {answer}")
    phone.send(phone.ack_failure(update, answer))
    small = of_phone.make("INFO")
    phone.send(small)
    got = pbx.request("INFO", small.call_id, 3)
    check(got, "control: a small request does not come as a datagram")
    pbx.respond(got, 200)
    # A large request to the phone uses the phone's flow, whatever the size.
    info = of_pbx.make("INFO", body=LARGE)
    pbx.send(info)
    got = phone.request("INFO", info.call_id)
    check(got and got.body == LARGE, "a large request for a phone on UDP did not arrive")
    phone.respond(got, 200)
    return "requests over 1,300 bytes reach the PBX by TCP, also inside a dialog; small ones, and those to a phone on UDP, do not"


@probe("T23.3", "large-requests-without-tcp")
def large_without(t):
    daemon = t.daemon = Daemon("datagrams", t.suite, {}, "127.2.0.4")
    t.suite.daemons["datagrams"] = daemon
    daemon.pbx.tcp.close()
    daemon.start()
    phone = t.phone()
    name, password = t.registered(phone)
    request = phone.make("INVITE", "sip:700@example.net", name, body=LARGE)
    answer = phone.exchange(request)
    again = request.renewed().add(*credentials(answer, name, password, "INVITE", request.uri))
    phone.send(again)
    got = daemon.pbx.request("INVITE", request.call_id, 3)
    check(got and got.body == LARGE, "a large INVITE did not arrive where TCP is refused")
    daemon.pbx.respond(got, 200, tag="p", contact=f"<sip:700@{daemon.pbx.local()}>")
    answer = phone.response(request.call_id, "INVITE")
    check(answer and answer.status == 200, f"the phone got {answer}")
    dialog = Dialog.of_caller(phone, again, answer)
    phone.send(dialog.make("ACK", cseq=int(again.get("CSeq").split()[0])))
    update = dialog.make("INVITE", body=LARGE)
    phone.send(update)
    got = daemon.pbx.request("INVITE", update.call_id, 3)
    check(got and got.body == LARGE, "a large re-INVITE did not arrive where TCP is refused")
    daemon.pbx.respond(got, 200, contact=f"<sip:700@{daemon.pbx.local()}>")
    return "where the PBX refuses TCP, large requests arrive as datagrams, inside a dialog too"


@probe("T23.4", "cancel-of-nothing", "direct")
def stray_cancel(t):
    phone, caller = t.phone(), t.phone(trusted=True)
    name, _ = t.registered(phone)
    lost = caller.make("INVITE", f"sip:{name}@example.net")
    caller.send(caller.cancel(lost))
    got = phone.request("CANCEL", lost.call_id, 3)
    check(got, "a CANCEL that matches nothing was not passed on (RFC 3261 section 16.10)")
    phone.respond(got, 481, tag="x")
    answer = caller.response(lost.call_id, "CANCEL", 3)
    check(answer and answer.status == 481 and "tag=x" in answer.get("to"), f"the phone's 481 did not come back: {answer and answer.fields}")
    for agent, user in ((caller, fresh("nobody")), (t.phone(), name)):
        lost = agent.make("INVITE", f"sip:{user}@example.net")
        agent.send(agent.cancel(lost))
        answer = agent.response(lost.call_id, "CANCEL", 3)
        check(answer and answer.status == 481, f"a CANCEL of nothing got {answer and answer.start}")
    check(not phone.request("CANCEL", timeout=0.3), "a stranger's CANCEL reached the phone")
    return "a CANCEL that matches nothing goes on to the phone; to nobody, and from a stranger, it is 481"


@probe("T23.5", "expired-is-unavailable", "open")
def expired(t):
    phone = t.phone()
    name = fresh("u")
    answer = phone.register(name, expires=1)
    check(answer and answer.status == 200, f"control: {answer and answer.start}")
    caller, request = call(t, name)
    invite = phone.request("INVITE", request.call_id)
    check(invite, "control: the phone is not called while it is registered")
    phone.respond(invite, 486, tag="b")
    time.sleep(1.6)
    for user, status in ((name, 480), (fresh("nobody"), 404)):
        caller = t.phone(trusted=True)
        answer = caller.exchange(caller.make("INVITE", f"sip:{user}@example.net"), 3)
        check(answer and answer.status == status, f"{user}: {answer and answer.start} instead of {status}")
    return "with auth: off, a user whose contact has expired is 480, one who never was there 404"


@probe("T23.6", "challenges-for-old-clients", "digest")
def offered(t):
    def offers(agent):
        phone = t.phone()
        request = phone.make("REGISTER", "sip:example.net", "x", to="sip:x@example.net", contact=f"<sip:x@{phone.local()}>")
        if agent:
            request.add("User-Agent", agent)
        answer = phone.exchange(request, 2)
        check(answer and answer.status == 401, f"{agent}: {answer and answer.start}")
        rows = answer.all("www-authenticate")
        check(all(len(re.findall("(?i)digest ", row)) == 1 for row in rows), f"{agent}: two challenges in one field")
        return [c.get("algorithm") for c in challenges(answer)]

    for agent in (None, "baresip v1.0.0 (x86_64/linux)", "SIPp/v3.6.1", "sipp"):
        check(offers(agent) == ["MD5"], f"{agent} is offered {offers(agent)}")
    for agent in ("Linphone/5.1.65 (belle-sip/5.1.65)", "baresip v3.16.0 (x86_64/Linux)", "Acme 1"):
        check(offers(agent) == ["SHA-256", "MD5"], f"{agent} is offered {offers(agent)}")
    return "a client that is known to fail, or says nothing, is offered MD5 alone; others SHA-256 first, each in a field of its own"


@probe("T23.6", "sha-512-256")
def longest_hash(t):
    """digest.algorithms names SHA-512-256 first. The users were added with SHA-512-256 first, so each of them has a
    SHA-512-256 hash."""
    daemon = t.daemon = Daemon("sha512", t.suite, {"digest": {"algorithms": "[SHA-512-256, SHA-256, MD5]"}})
    t.suite.daemons["sha512"] = daemon
    daemon.start()
    name, password = daemon.user()
    for wanted in ("SHA-512-256", "SHA-256", "MD5"):
        phone = t.phone()
        request = phone.make("REGISTER", "sip:example.net", name, to=f"sip:{name}@example.net", contact=f"<sip:{name}@{phone.local()}>",
                             fields=[("User-Agent", "Acme")])
        answer = phone.exchange(request)
        offered = [c.get("algorithm") for c in challenges(answer)]
        check(offered == ["SHA-512-256", "SHA-256", "MD5"], f"offered is {offered}")
        for secret, status in (("wrong", 401), (password, 200)):
            request = request.renewed().without("Authorization")
            request.add(*credentials(answer, name, secret, "REGISTER", request.uri, pick=lambda c: c["algorithm"] == wanted))
            answer = phone.exchange(request)
            check(answer and answer.status == status, f"{wanted} with {secret}: {answer and answer.start}")
    return "SHA-512-256, SHA-256 and MD5 are offered in this order, and each is taken with the right password alone"


@probe("T23.6", "two-phones-challenge", "direct")
def merged(t):
    """Both phones of a user challenge the caller: one 407 contains both challenges (RFC 3261 section 16.7 item 7)."""
    first, second = t.phone(), t.phone()
    name, password = t.registered(first)
    check(second.register(name, password).status == 200, "control: REGISTER")
    caller, request = call(t, name)
    for phone, field, realm in ((first, "Proxy-Authenticate", "one"), (second, "WWW-Authenticate", "two")):
        invite = phone.request("INVITE", request.call_id)
        check(invite, "control: no INVITE")
        phone.respond(invite, 407 if field.startswith("P") else 401, tag=realm, fields=[
            (field, f'Digest realm="{realm}", nonce="n", algorithm=MD5, qop="auth"')])
    answer = caller.response(request.call_id, "INVITE")
    check(answer and answer.status in (401, 407), f"the caller got {answer and answer.start}")
    found = sorted(c["realm"] for c in challenges(answer))
    check(found == ["one", "two"], f"the caller got the challenges of {found}")
    caller.send(caller.ack_failure(request, answer))
    again = request.renewed()
    for challenge in challenges(answer):
        again.add(challenge["field"], f'Digest username="c", realm="{challenge["realm"]}", nonce="n", uri="{request.uri}", response="0"')
    caller.send(again)
    for phone in (first, second):
        invite = phone.request("INVITE", request.call_id)
        check(invite, "the call with both answers did not arrive")
        shown = " ".join(invite.all("authorization") + invite.all("proxy-authorization"))
        check('"one"' in shown and '"two"' in shown, f"an answer was taken off: {shown}")
        phone.respond(invite, 486, tag="b")
    return "two phones that challenge: one answer with both challenges, and both answers reach both phones"


@probe("T23.7", "final-with-too-few-vias", "direct")
def few_vias(t):
    """Some phones answer an INVITE with the Via of its CANCEL."""
    phone = t.phone()
    name, _ = t.registered(phone)
    caller = t.phone(trusted=True)
    request = caller.make("INVITE", f"sip:{name}@example.net")
    request.fields.insert(1, ("Via", f"SIP/2.0/UDP 192.0.2.1:5060;branch={fresh('z9hG4bK')}"))
    caller.send(request)
    invite = phone.request("INVITE", request.call_id)
    check(invite and len(invite.all("via")) == 3, f"control: {invite}")
    phone.respond(invite, 180, tag="b")
    check(caller.take(lambda m: m.status == 180, 3), "control: no 180")
    caller.send(caller.cancel(request))
    cancel = phone.request("CANCEL", request.call_id, 3)
    check(cancel and len(cancel.all("via")) == 1, f"control: {cancel}")
    phone.respond(cancel, 200)
    invite.fields = [f for f in invite.fields if f[0] != "via"] + [("via", cancel.get("via"))]
    phone.respond(invite, 487, tag="b")
    check(phone.request("ACK", request.call_id, 2), "the 487 with one Via was not acknowledged")
    answer = caller.response(request.call_id, "INVITE", 2)
    check(answer and answer.status == 487, f"the caller got {answer}")
    check(len(answer.all("via")) == 2 and request.get("Via").split(";rport")[0] in answer.get("via"), f"with the Vias {answer.all('via')}")
    return "a 487 that has the Via of the CANCEL is matched by its branch: the caller gets it, with the Vias of his request"


@probe("T23.7", "operator-ends-a-call", "direct")
def held_end(t):
    found = {}
    for status in (None, 486, 480, 600, 603):
        phone, name, password, token = sleeper(t)
        caller, request = call(t, name)
        check(t.suite.provider.wait(token), "control: no push")
        done = t.daemon.command("held", "end", request.call_id, *(["--status", str(status)] if status else []))
        check(done.returncode == 0, f"held end: {done.stderr}")
        answer = caller.response(request.call_id, "INVITE", 3)
        found[status] = answer and answer.start
    check(found[486] == "SIP/2.0 486 Busy Here", f"held end --status 486 sends {found[486]}")
    check(found[603] == "SIP/2.0 603 Decline" and found[600] == "SIP/2.0 600 Busy Everywhere", f"{found}")
    check(all(text and "Unknown" not in text for text in found.values()), f"{found}")
    return "held end sends " + ", ".join(text[8:] for text in found.values())


@probe("T23.8", "refusals-in-the-log")
def in_the_log(t):
    """A refused REGISTER causes a log line with user, source, status and reason (docs/Troubleshooting.md)."""
    # All clients share the limit of log lines, so this daemon refuses nobody else.
    own_daemon(t, "refusing").start()
    phone = t.phone()
    name, password = t.daemon.user()
    login = t.daemon.user()
    foreign = phone.make("REGISTER", "sip:example.net", name, to=f"sip:{name}@example.net", contact=f"<sip:{name}@{phone.local()}>")
    cases = [
        ("403", "another user", lambda: phone.with_credentials(foreign, *login)[0]),
        ("423", "the requested expiry is too short", lambda: phone.register(name, password, expires=1)),
        ("401", "wrong user or password", lambda: t.phone().register(name, "wrong")),
        ("555", "push provider", lambda: phone.register(name, password, params=";pn-provider=nobody;pn-param=p;pn-prid=x")),
        ("404", "To names no user of this daemon", lambda: phone.register(name, password, domain="elsewhere.example", registrar="example.net")),
    ]
    for status, reason, act in cases:
        before = len(t.daemon.log())
        answer = act()
        check(answer and str(answer.status) == status, f"control: {answer and answer.start} instead of {status}")
        lines = [line for line in t.daemon.log()[before:].splitlines() if "REGISTER refused" in line and reason in line]
        check(lines, f"no line in the log for {status} ({reason})")
        check(status in lines[0] and " notice " in lines[0] and name in lines[0], f"the line does not tell user and status: {lines[0]}")
    return f"{len(cases)} refused REGISTERs: each a line at notice with its user, status and reason"
