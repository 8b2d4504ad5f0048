"""T9.11 to T9.19, T20.7 and T27.4: which requests reach phones, which identities they may claim, and what the PBX may answer."""

import re

from sip import Dialog, credentials, fresh
from suite import check, probe

from .dialog import Call, outgoing, works
from .wake import pushed, talking

COMMANDS = [
    ("NOTIFY", [("Event", "check-sync;reboot=true"), ("Subscription-State", "active")]),
    ("NOTIFY", [("o", "talk"), ("Subscription-State", "active")]),
    ("NOTIFY", [("Event", "message-summary"), ("Subscription-State", "active")]),
    ("REFER", [("Refer-To", "<sip:0900123456@example.net>")]),
    ("FOO", []),
]


def pair(t):
    """Two phones of two users, each with name and password."""
    caller, callee = t.phone(), t.phone()
    return caller, t.registered(caller), callee, t.registered(callee)


def refused(t, agent, request, victim, status, what, user=None):
    """Sends the request, and after a challenge again with the password. The daemon must refuse the request with a
    Warning, and must not forward it."""
    answer = agent.exchange(request, 3)
    if answer is not None and answer.status == 407 and user:
        request = request.renewed().add(*credentials(answer, *user, request.method, request.uri))
        answer = agent.exchange(request, 3)
    got = victim.take(lambda m: m.method and m.call_id == request.call_id, 0.3)
    check(not got, f"{what} arrived: {got}")
    check(answer and answer.status == status, f"{what}: {answer and answer.start} instead of {status}")
    check(answer.get("warning"), f"{what}: {status} without a Warning")
    return answer


def passes(agent, request, victim, what, user=None):
    """Sends the request, and after a challenge again with the password. The request must arrive and get a response."""
    if user:
        answer = agent.exchange(request)
        check(answer and answer.status == 407, f"{what}: {answer and answer.start}")
        request = request.renewed().add(*credentials(answer, *user, request.method, request.uri))
    agent.send(request)
    got = victim.request(request.method, request.call_id)
    check(got, f"{what} does not arrive ({agent.response(request.call_id, timeout=0.5)})")
    victim.respond(got, 486 if request.method == "INVITE" else 200, tag=fresh("t"))
    answer = agent.response(request.call_id, request.method)
    if request.method == "INVITE" and answer:
        agent.send(agent.ack_failure(request, answer))
    return got


@probe("T9.11", "users-do-not-command-phones", "direct")
def commands(t):
    caller, user, callee, (name, _) = pair(t)
    uri = f"sip:{name}@example.net"
    before = t.daemon.metric("sippushd_requests_refused_total", rule="needs-trust")
    for method, fields in COMMANDS:
        refused(t, caller, caller.make(method, uri, user[0], fields=fields), callee, 403, f"a user's {method} {fields}", user)
    check(t.daemon.metric("sippushd_requests_refused_total", rule="needs-trust") > before, "no counter rose")
    check(re.search(r"request refused.*NOTIFY", t.daemon.log()), "no line in the log says that a NOTIFY was refused")
    for method in ("INVITE", "MESSAGE", "OPTIONS", "SUBSCRIBE", "PUBLISH"):
        passes(caller, caller.make(method, uri, user[0]), callee, f"control: a user's {method}", user)
    pbx = t.phone(trusted=True)
    for method, fields in COMMANDS:
        passes(pbx, pbx.make(method, uri, fields=fields), callee, f"the PBX's {method} {fields}")
    return f"{len(COMMANDS)} commands of a user with a password are 403, with a Warning, a line and a counter; the PBX's arrive, and a user's calls and messages"


@probe("T9.11", "users-do-not-command-by-way-of-the-pbx", "digest")
def by_the_pbx(t):
    caller = t.phone()
    user = t.registered(caller)
    for method, fields in COMMANDS:
        refused(t, caller, caller.make(method, "sip:700@example.net", user[0], fields=fields), t.daemon.pbx, 403,
                f"a phone's {method} {fields}", user)
    passes(caller, caller.make("MESSAGE", "sip:700@example.net", user[0]), t.daemon.pbx, "control: a MESSAGE", user)
    return "a phone's NOTIFY and REFER outside a dialog do not reach the PBX, which might pass them on"


@probe("T9.12", "dialog-methods-need-a-dialog", "direct")
def dialog_methods(t):
    caller, user, callee, (name, _) = pair(t)
    pbx = t.phone(trusted=True)
    for method in ("BYE", "PRACK", "INFO", "UPDATE"):
        for agent, who in ((caller, user), (pbx, None), (t.phone(), None)):
            refused(t, agent, agent.make(method, f"sip:{name}@example.net", user[0]), callee, 481, f"{method} without a To tag", who)
    call = Call(t)
    check(works(call.of_pbx, call.phone), "control: an INFO inside a call does not arrive")
    return "BYE, PRACK, INFO and UPDATE without a To tag are 481 from phones, the PBX and strangers"


ANSWERING = [
    "Answer-Mode: Auto", "answer-mode : Auto", "Priv-Answer-Mode: Auto", "P-Auto-Answer: normal", "Auto-Answer: yes", "Answer-After: 0",
    "Alert-Info: <http://x.invalid>;info=alert-autoanswer;delay=0", "Alert-Info: Ring Answer", "alert-info: ring-answer",
    "Alert-Info: Auto Answer", "Alert-Info: <http://127.0.0.1/Bellcore-dr1>;info=RingAnswer", "Alert-Info: intercom=true",
    "Alert-Info:\r\n <x>;\r\n info=alert-autoanswer", "Alert-Info: <urn:alert:source:external>;info=alert-autoanswer",
    "Call-Info: <sip:x>;answer-after=0", "Call-Info: <sip:x>; Answer-After = 0", "CALL-INFO:<sip:x>;purpose=info;\r\n answer-after=0",
    "Call-Info: answer-after=0", "Call-Info: <sip:x;answer-after=0>", "Call-Info: <sip:x>;purpose=icon, <sip:y>;answer-after=0",
]


def found(message, line):
    """Whether the most lenient SIP parser finds the header field in the message."""
    flat = re.sub(rb"\r\n[ \t]+", b" ", message.raw).lower()
    return re.search(rb"(?m)^" + re.escape(line.partition(":")[0].strip().lower().encode()) + rb"\s*:", flat)


def answering(t, callee, target):
    caller = t.phone()
    user = t.registered(caller)
    for line in ANSWERING:
        got = passes(caller, caller.make("INVITE", f"sip:{target}@example.net", user[0], lines=[line, "Subject: stays"]), callee,
                     f"a call with {line!r}", user)
        check(not found(got, line), f"{line!r} of a phone arrives: {got.head_lines()}")
        check(got.get("subject") == "stays", "control: another field does not arrive")
    for line in ("Alert-Info: <urn:alert:source:external>", "Call-Info: <http://x.invalid/a.png>;purpose=icon"):
        got = passes(caller, caller.make("INVITE", f"sip:{target}@example.net", user[0], lines=[line]), callee, f"a call with {line!r}", user)
        check(found(got, line), f"{line!r} is harmless, and does not arrive")
    return f"{len(ANSWERING)} ways to let a phone answer by itself are taken off; tones of RFC 7462 and pictures arrive"


@probe("T9.13", "nobody-lets-a-phone-answer", "direct")
def answer_phone(t):
    callee = t.phone()
    name, _ = t.registered(callee)
    return answering(t, callee, name)


@probe("T9.13", "nobody-lets-a-phone-answer-by-way-of-the-pbx", "digest")
def answer_pbx(t):
    return answering(t, t.daemon.pbx, "700")


@probe("T9.13", "pbx-pages", "direct")
def paging(t):
    """The header fields that an intercom of the PBX needs arrive unchanged. The daemon removes header fields with
    commands from a phone's response."""
    callee, pbx = t.phone(), t.phone(trusted=True)
    name, _ = t.registered(callee)
    for line in ANSWERING:
        request = pbx.make("INVITE", f"sip:{name}@example.net", lines=[line])
        pbx.send(request)
        got = callee.request("INVITE", request.call_id)
        check(got and line.encode() + b"\r\n" in got.raw, f"{line!r} of the PBX arrives as {got and got.head_lines()}")
        callee.respond(got, 180, tag="a", lines=[line])
        ringing = pbx.take(lambda m: m.status == 180 and m.call_id == request.call_id, 3)
        check(ringing and not found(ringing, line), f"{line!r} in a phone's 180 arrives: {ringing}")
        callee.respond(got, 486, tag="a")
        answer = pbx.response(request.call_id, "INVITE")
        pbx.send(pbx.ack_failure(request, answer))
    return f"{len(ANSWERING)} ways to page arrive from the PBX byte for byte; in a phone's answer they are taken off"


PRIVATE = ["P-Asserted-Service", "P-Served-User", "P-Called-Party-ID", "P-Preferred-Service", "P-Profile-Key", "P-Charge-Info",
           "P-Associated-URI", "P-Visited-Network-ID", "P-User-Database", "P-DCS-Billing-Info", "P-Answer-State",
           "P-Private-Network-Indication", "P-Alerting-Mode", "P-Made-Up"]


@probe("T9.14", "only-harmless-private-fields", "digest")
def private(t):
    caller = t.phone()
    user = t.registered(caller)
    for name in PRIVATE:
        lines = [f"{name}: <sip:evil-boss@example.net>", f"{name.lower()} :\r\n <sip:evil-boss@example.net>", "P-Early-Media: supported"]
        got = passes(caller, caller.make("INVITE", "sip:700@example.net", user[0], lines=lines), t.daemon.pbx, f"a call with {name}", user)
        check(b"evil-boss" not in got.raw, f"{name} of a phone arrives: {got.head_lines()}")
        check(got.get("p-early-media") == "supported", "P-Early-Media is harmless, and does not arrive")
    call = Call(t)
    back = call.of_phone.make("INFO", lines=[f"{name}: evil-boss" for name in PRIVATE])
    call.phone.send(back)
    got = call.pbx.request("INFO", back.call_id, 3)
    check(got and b"evil-boss" not in got.raw, f"inside a call: {got and got.head_lines()}")
    call.pbx.respond(got, 200)
    return f"{len(PRIVATE)} fields with P- of a phone do not reach the PBX, inside a call neither; P-Early-Media does"


@probe("T9.15", "no-commands-inside-calls", "direct")
def inside_calls(t):
    """The daemon refuses a NOTIFY of `talk` in the dialog of a 180, because the NOTIFY would make the called phone
    answer."""
    caller, user, callee, (name, _) = pair(t)
    request = caller.make("INVITE", f"sip:{name}@example.net", user[0])
    answer = caller.exchange(request)
    check(answer and answer.status == 407, f"control: {answer}")
    again = request.renewed().add(*credentials(answer, *user, "INVITE", request.uri))
    caller.send(again)
    invite = callee.request("INVITE", request.call_id)
    check(invite, "control: no INVITE")
    callee.respond(invite, 180, tag="ring", contact=f"<sip:{name}@{callee.local()}>")
    ringing = caller.take(lambda m: m.status == 180 and m.call_id == request.call_id)
    check(ringing, "control: no 180")
    dialog = Dialog.of_caller(caller, again, ringing)
    for event in ("talk", "hold", "check-sync;reboot=true", "ACTION-URI"):
        for field in ("Event", "o"):
            refused(t, caller, dialog.make("NOTIFY", fields=[(field, event)]), callee, 403, f"a caller's NOTIFY of {event}")
    told = dialog.make("NOTIFY", fields=[("Event", "refer"), ("Subscription-State", "active")])
    caller.send(told)
    check(callee.request("NOTIFY", told.call_id, 3), "control: a NOTIFY about a transfer does not arrive")
    caller.send(caller.cancel(again))
    call = Call(t)
    talk = call.of_pbx.make("NOTIFY", fields=[("Event", "talk")])
    call.pbx.send(talk)
    check(call.phone.request("NOTIFY", talk.call_id, 3), "the PBX's NOTIFY of talk does not arrive")
    return "talk, hold, check-sync and ACTION-URI of a caller who rings are 403; refer arrives, and so does the PBX's talk"


def renamed(t, dialog, other, name, names):
    """Requests of one side of a dialog, with other names in From."""
    count = 0
    for value in names:
        for method in ("UPDATE", "INVITE", "INFO", "MESSAGE"):
            request = dialog.make(method)
            request.set("From", re.sub(r"^[^;]*(?=;tag=)", value, dialog.local))
            refused(t, dialog.agent, request, other, 403, f"{method} from {value}")
            count += 1
    check(works(dialog, other, "UPDATE"), "control: an UPDATE with the right name does not arrive")
    return count


@probe("T20.7", "nobody-becomes-another-in-a-call", "digest")
def names(t):
    others = ["<sip:evil-boss@example.net>", '"Boss" <sip:evil-boss@example.net>', "<tel:+31201234567>", "<sip:anonymous@anonymous.invalid>"]
    call = Call(t)
    count = renamed(t, call.of_phone, call.pbx, call.name, others + [f"<sip:{call.name}@elsewhere.invalid>"])
    phone, (name, _), of_phone, of_pbx = outgoing(t)
    count += renamed(t, of_phone, t.daemon.pbx, name, others + [f'"The Boss" <sip:{name}@example.net>'])
    # A display name that the caller has not used for the called phone is removed, and the request is forwarded.
    for value in (f'"Boss" <sip:{call.name}@example.net>', f"Boss <sip:{call.name}@example.net>"):
        for method in ("UPDATE", "INVITE", "INFO"):
            request = call.of_phone.make(method)
            request.set("From", re.sub(r"^[^;]*(?=;tag=)", value, call.of_phone.local))
            call.phone.send(request)
            got = call.pbx.request(method, request.call_id, 3)
            check(got, f"{method} from {value} does not arrive")
            check("Boss" not in got.get("from") and call.name in got.get("from"), f"the PBX is told of {got.get('from')}")
            call.pbx.respond(got, 486 if method == "INVITE" else 200)
            answer = call.phone.response(request.call_id, method, 3)
            check(answer and answer.status == (486 if method == "INVITE" else 200), f"{method} from {value}: {answer}")
            if method == "INVITE":
                call.phone.send(call.phone.ack_failure(request, answer))
    # By RFC 4916, the PBX may change the connected party.
    moved = call.of_pbx.make("UPDATE")
    moved.set("From", re.sub(r"^[^;]*(?=;tag=)", '"Desk" <sip:104@example.net>', call.of_pbx.local))
    call.pbx.send(moved)
    got = call.phone.request("UPDATE", moved.call_id, 3)
    check(got and "104@" in got.get("from"), f"the PBX's connected identity does not arrive: {got}")
    call.phone.respond(got, 200)
    # A BYE ends the call, even with other names.
    bye = of_phone.make("BYE")
    bye.set("From", re.sub(r"^[^;]*(?=;tag=)", "<sip:another@example.net>", of_phone.local))
    phone.send(bye)
    check(t.daemon.pbx.request("BYE", bye.call_id, 3), "a BYE with another name does not arrive")
    check(t.daemon.metric("sippushd_requests_refused_total", rule="other-name") >= count, "the counter did not rise")
    return f"{count} requests of a calling and of a called phone with another name in From are 403; the PBX may change its own, and each BYE passes"


@probe("T27.4", "phone-that-does-not-come-ends-no-call", "direct")
def not_coming(t):
    """A request for a phone that does not register gets 500 with Retry-After, because a 480 would end the call (RFC 5057)."""
    phone = t.stream()
    name, password, token, caller, request, dialog = talking(t, phone)
    phone.reset()
    again = dialog.make("INVITE", cseq=2)
    caller.send(again)
    answer = caller.response(again.call_id, "INVITE", 14)
    check(answer and answer.status == 500 and answer.get("retry-after"), f"a re-INVITE to a phone that does not come: {answer} {answer and answer.fields}")
    caller.send(caller.ack_failure(again, answer))
    back = t.stream()
    check(back.register(name, password, params=pushed(token)).status == 200, "control: the phone cannot come back")
    info = dialog.make("INFO", cseq=3)
    caller.send(info)
    got = back.request("INFO", info.call_id)
    check(got, "the call does not go on afterwards")
    back.respond(got, 200, tag="b")
    # If the phone has signed out, INFO and UPDATE get a 500 with Retry-After, and a BYE gets no Retry-After.
    gone = t.stream()
    name, password = t.registered(gone)
    call = Call(t, phone=gone, user=(name, password))
    check(gone.register(name, password, expires=0).status == 200, "control: it cannot sign out")
    gone.reset()
    for method in ("INFO", "UPDATE", "BYE"):
        lost = call.of_pbx.make(method)
        call.pbx.send(lost)
        answer = call.pbx.response(lost.call_id, method, 5)
        check(answer and answer.status in ((480, 500) if method == "BYE" else (500,)), f"{method} to a phone that is gone: {answer}")
        check(bool(answer.get("retry-after")) == (method != "BYE"), f"{method}: Retry-After is {answer.get('retry-after')}")
    return "re-INVITE, INFO and UPDATE are 500 with Retry-After, and the call goes on when the phone is back; a BYE ends it"


@probe("T9.17", "challenge-that-nobody-can-answer", "digest")
def challenge(t):
    """The daemon removes answers in its own realm, so a phone would answer a PBX's challenge in that realm without end."""
    caller = t.phone()
    name, password = t.registered(caller)
    for method, status, field in (("MESSAGE", 407, "Proxy-Authenticate"), ("INVITE", 401, "WWW-Authenticate")):
        request = caller.make(method, "sip:700@example.net", name)
        answer = caller.exchange(request)
        check(answer and answer.status == 407, f"control: {answer}")
        again = request.renewed().add(*credentials(answer, name, password, method, request.uri))
        caller.send(again)
        got = t.daemon.pbx.request(method, request.call_id)
        check(got, f"control: no {method} at the PBX")
        t.daemon.pbx.respond(got, status, tag="p", fields=[(field, 'Digest realm="example.net", nonce="pbx", algorithm=MD5, qop="auth"')])
        answer = caller.response(request.call_id, method)
        check(answer and answer.status == 502 and answer.get("warning"), f"the phone got {answer} {answer and answer.fields}")
        check(not answer.all("proxy-authenticate") and not answer.all("www-authenticate"), "the challenge is in it")
        if method == "INVITE":
            caller.send(caller.ack_failure(again, answer))
    line = re.search(r"notice a peer challenges phones in this daemon's own realm.*", t.daemon.log())
    check(line, "no line in the log")
    for word in (t.daemon.pbx.local(), "example.net", "its own realm"):
        check(word in line.group(0), f"the line does not say {word}: {line.group(0)}")
    check(t.daemon.metric("sippushd_unanswerable_challenges_total") >= 2, "the counter did not rise")
    return "a PBX's 407 and 401 in our realm are 502 with a Warning; the log names the PBX, the method, the realm and the cure"


@probe("T9.18", "reason-of-a-503", "digest")
def reason(t):
    caller = t.phone()
    name, password = t.registered(caller)
    request = caller.make("INVITE", "sip:700@example.net", name)
    answer = caller.exchange(request)
    again = request.renewed().add(*credentials(answer, name, password, "INVITE", request.uri))
    caller.send(again)
    got = t.daemon.pbx.request("INVITE", request.call_id)
    check(got, "control: no INVITE at the PBX")
    t.daemon.pbx.respond(got, 503, tag="p", fields=[("Reason", 'Q.850;cause=34;text="No circuit"')])
    answer = caller.response(request.call_id, "INVITE")
    check(answer and answer.status == 500, f"a 503 of the PBX arrives as {answer}")
    check("cause=34" in (answer.get("reason") or ""), f"its Reason is lost: {answer.fields}")
    caller.send(caller.ack_failure(again, answer))
    return "the PBX's 503 arrives as 500, with its Reason"


@probe("T9.19", "redial-what-the-pbx-wrote", "digest")
def redial(t):
    """A phone that calls back from its list of calls dials the PBX's own host."""
    caller = t.phone()
    user = t.registered(caller)
    pbx = t.daemon.pbx
    for uri in (f"sip:103@{pbx.host}", f"sip:103@{pbx.local()}", f"sip:103@{pbx.host}:5060"):
        got = passes(caller, caller.make("INVITE", uri, user[0]), pbx, f"a call to {uri}", user)
        check(got.uri == uri, f"{uri} arrives as {got.uri}")
    for uri in (f"sip:103@{t.address()}", f"sip:103@{pbx.host}:22", f"sip:103@{t.address(trusted=True)}"):
        request = caller.make("INVITE", uri, user[0])
        answer = caller.exchange(request, 3)
        check(answer and answer.status == 403, f"{uri}: {answer}")
        check(not pbx.request("INVITE", request.call_id, 0.2), f"{uri} arrives at the PBX")
    return "calls to the PBX's own address reach it, at the ports of SIP and its own; those to other hosts and ports are 403"
