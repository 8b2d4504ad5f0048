"""T20: nobody gets access only because of a dialog token."""

import base64
import binascii
import re
import time

from sip import Dialog, credentials, fresh
from suite import check, probe


class Call:
    """An answered call from the PBX to a phone, with both sides' views of the dialog."""

    def __init__(self, t, phone=None, pbx=None, user=None):
        self.t = t
        self.phone = phone or t.phone()
        self.pbx = pbx or t.phone(trusted=True)
        self.name, self.password = user or t.registered(self.phone)
        request = self.pbx.make("INVITE", f"sip:{self.name}@example.net", "700")
        self.pbx.send(request)
        invite = self.phone.request("INVITE", request.call_id)
        check(invite, "control: no INVITE at the phone")
        self.phone_tag = fresh("t")
        self.phone.respond(invite, 200, tag=self.phone_tag)
        answer = self.pbx.response(request.call_id, "INVITE")
        check(answer and answer.status == 200, f"control: the caller got {answer}")
        check(answer.routes(), "control: no Record-Route in the answer")
        self.invite, self.answer, self.request = invite, answer, request
        self.of_pbx = Dialog.of_caller(self.pbx, request, answer)
        self.of_phone = Dialog.of_callee(self.phone, invite, self.phone_tag)
        self.pbx.send(self.of_pbx.make("ACK", cseq=1))
        check(self.phone.request("ACK", request.call_id, 3), "control: the ACK did not arrive")


def outgoing(t, phone=None, user=None):
    """Makes a call from a phone through the upstream, which answers. Returns both dialogs, and the phone's name and
    password."""
    phone = phone or t.phone()
    name, password = user or t.registered(phone)
    request = phone.make("INVITE", "sip:700@example.net", name)
    answer = phone.exchange(request)
    check(answer and answer.status == 407, f"control: {answer}")
    again = request.renewed().add(*credentials(answer, name, password, "INVITE", request.uri))
    phone.send(again)
    invite = t.daemon.pbx.request("INVITE", request.call_id)
    check(invite, "control: no INVITE at the PBX")
    t.daemon.pbx.respond(invite, 200, tag="pbx", contact=f"<sip:700@{t.daemon.pbx.local()}>")
    answer = phone.response(request.call_id, "INVITE")
    check(answer and answer.status == 200, f"control: {answer}")
    of_phone = Dialog.of_caller(phone, again, answer)
    phone.send(of_phone.make("ACK", cseq=int(again.get("CSeq").split()[0])))
    check(t.daemon.pbx.request("ACK", request.call_id, 3), "control: no ACK at the PBX")
    return phone, (name, password), of_phone, Dialog.of_callee(t.daemon.pbx, invite, "pbx")


def works(dialog, other, method="INFO"):
    request = dialog.make(method)
    dialog.agent.send(request)
    got = other.request(method, request.call_id, 4)
    if got:
        other.respond(got, 200)
        # The response is taken out of the queue, because the next probe would otherwise take it for its own.
        dialog.agent.response(request.call_id, method, 2)
    return got


@probe("T20.1", "opaque-and-short", "digest")
def opaque(t):
    call = Call(t)
    longest = 0
    secrets = [call.pbx.host, call.phone.host, str(call.pbx.port), str(call.phone.port), call.name]
    for value in call.invite.routes() + call.answer.routes():
        longest = max(longest, len(value))
        plain = re.sub(r"127\.0\.0\.1:\d+", "", value)
        texts = [plain.encode()]
        for piece in re.findall(r"[A-Za-z0-9+/_~.-]{8,}", plain):
            for text in (piece, piece[1:], piece[2:], piece[3:]):
                for decode in (base64.urlsafe_b64decode, base64.b32decode, binascii.unhexlify):
                    try:
                        texts.append(decode(text[:len(text) // 4 * 4].replace("~", "=").encode()))
                    except (ValueError, binascii.Error):
                        pass
        for agent in (call.pbx, call.phone):
            packed = bytes(int(part) for part in agent.host.split("."))
            for needle in [agent.host.encode(), packed, packed[::-1]] + [b":%d" % agent.port]:
                check(not any(needle in text for text in texts), f"the token shows {agent.host}:{agent.port}: {value}")
    routes = Call(t, pbx=call.pbx).answer.routes()
    check(routes != call.answer.routes(), "two calls have the same token")
    check(longest < 110, f"Record-Route is {longest} characters long")
    del secrets
    return f"neither side's address is in the token, in text, base64, base32 or hexadecimal; Record-Route has {longest} characters"


@probe("T20.2", "bound-to-call-and-tags", "digest")
def bound(t):
    call, other = Call(t), Call(t)
    check(works(call.of_pbx, call.phone), "control: INFO from the PBX does not arrive")
    check(works(call.of_phone, call.pbx), "control: INFO from the phone does not arrive")
    tricks = {
        "another Call-ID": lambda r: r.set("Call-ID", fresh("call")),
        "the other call's Call-ID": lambda r: r.set("Call-ID", other.request.call_id),
        "an invented tag of the caller": lambda r: r.set("To", re.sub("tag=.*", "tag=" + fresh("x"), r.get("To"))),
        "the tags swapped": lambda r: r.set("From", re.sub("tag=.*", "tag=" + call.pbx_tag, r.get("From"))).set(
            "To", re.sub("tag=.*", "tag=" + call.phone_tag, r.get("To"))),
        "both tags the same": lambda r: r.set("From", re.sub("tag=.*", "tag=" + call.pbx_tag, r.get("From"))),
        "a token cut short": lambda r: r.set("Route", re.sub(r"[A-Za-z0-9_-]{6}@", "@", r.get("Route"), count=1)),
        "a token with another letter": lambda r: r.set("Route", flip(r.get("Route"))),
        "the other call's token": lambda r: r.set("Route", other.of_phone.routes[0]),
    }
    call.pbx_tag = re.search("tag=([^;>]+)", call.request.get("From")).group(1)
    for what, change in tricks.items():
        for method in ("INFO", "BYE", "INVITE"):
            request = change(call.of_phone.make(method))
            call.phone.send(request)
            answer = call.phone.response(request.call_id, method, 2)
            got = call.pbx.request(method, request.call_id, 0.1)
            check(not got, f"{method} with {what} reached the PBX")
            if method == "INVITE" and answer:
                call.phone.send(call.phone.ack_failure(request, answer))
            check(answer is None or answer.status >= 400, f"{method} with {what}: {answer and answer.start}")
    check(works(call.of_phone, call.pbx), "control: afterwards INFO from the phone does not arrive")
    return f"{len(tricks)} other Call-IDs, tags and tokens by 3 methods: nothing arrives"


def flip(route):
    found = list(re.finditer(r"[A-Za-z0-9_-]{20,}", route))
    if not found:
        return route
    place = found[-1].start() + 9
    return route[:place] + ("A" if route[place] != "A" else "B") + route[place + 1:]


@probe("T20.3", "no-dialog-no-way", "digest")
def no_dialog(t):
    """A Record-Route value without a dialog lets nobody call, because anybody could otherwise call any number (toll
    fraud)."""
    phone, user, of_phone, of_pbx = outgoing(t)
    stranger = t.phone()
    count = 0
    for agent in (stranger, phone):
        for routes in (of_phone.routes, of_pbx.routes):
            for method in ("INVITE", "MESSAGE", "REFER", "SUBSCRIBE", "OPTIONS", "ACK"):
                for uri in ("sip:0900123456@example.net", f"sip:0900123456@{t.daemon.pbx.local()}",
                            f"sip:0900123456@{t.daemon.pbx.host}:22"):
                    request = agent.make(method, uri, "evil-boss")
                    for route in routes:
                        request.add("Route", route)
                    if count % 2:
                        request.set("Call-ID", of_phone.call_id)
                    agent.send(request)
                    got = t.daemon.pbx.take(lambda m: m.uri and "0900123456" in m.uri, 0.02)
                    check(not got, f"{method} {uri} without To tag, with a token seen once, reached the PBX")
                    count += 1
    got = t.daemon.pbx.take(lambda m: m.uri and "0900123456" in m.uri, 0.9)
    check(not got, f"{got} reached the PBX")
    request = stranger.make("INVITE", "sip:0900123456@example.net")
    for route in of_phone.routes:
        request.add("Route", route)
    answer = stranger.exchange(request, 2)
    check(answer and answer.status == 403, f"a request with our token and no To tag: {answer and answer.start} instead of 403")
    check(works(of_phone, t.daemon.pbx), "control: INFO in the dialog does not arrive")
    return f"{count} requests with a token and without a To tag, from the phone and from elsewhere: 403, none arrives"


@probe("T20.4", "only-from-its-two-sides", "digest")
def sides(t):
    call = Call(t)
    stranger = t.phone()
    # A client has the IP address of the phone and the port number of the PBX.
    neighbour = t.phone(call.phone.host, port=call.pbx.port) if call.pbx.port != call.phone.port else t.phone()
    count = 0
    for agent in (stranger, neighbour):
        for dialog, victim, side in ((call.of_pbx, call.phone, "PBX"), (call.of_phone, call.pbx, "phone")):
            if agent is neighbour and side == "phone":
                continue
            for method in ("BYE", "INFO", "INVITE", "REFER", "MESSAGE", "UPDATE"):
                request = dialog.make(method, agent=agent)
                agent.send(request)
                answer = agent.response(request.call_id, method, 2)
                got = victim.request(method, request.call_id, 0.1)
                check(not got, f"a stranger's {method} in the name of the {side} reached the other side")
                check(answer and answer.status in (401, 403, 407), f"a stranger's {method} as the {side}: {answer and answer.start}")
                if method == "INVITE":
                    agent.send(agent.ack_failure(request, answer))
                count += 1
            ack = dialog.make("ACK", agent=agent, cseq=1)
            agent.send(ack)
            check(not victim.request("ACK", call.request.call_id, 0.4), f"a stranger's ACK as the {side} arrived")
    # Requests of the phone with the PBX's name in From are also refused.
    request = call.of_pbx.make("BYE", agent=call.phone)
    call.phone.send(request)
    check(not call.phone.request("BYE", request.call_id, 0.7), "the phone's BYE in the name of the PBX came back to it")
    # Any trusted peer may send the request, because a PBX can have several addresses.
    second = t.phone(trusted=True)
    request = call.of_pbx.make("INFO", agent=second)
    second.send(request)
    got = call.phone.request("INFO", request.call_id, 3)
    check(got, f"another address of the PBX is refused: {second.response(request.call_id, timeout=0.5)}")
    call.phone.respond(got, 200)
    check(works(call.of_phone, call.pbx, "BYE"), "control: the phone's own BYE does not arrive")
    return f"{count} requests of strangers in the name of either side: 403 or 407, ACKs dropped; another trusted address passes"


@probe("T20.4", "phone-that-moved", "digest")
def moved(t):
    call = Call(t)
    new = t.phone()
    # A new address does not identify the phone, but the password does.
    request = call.of_phone.make("INFO", agent=new)
    new.send(request)
    answer = new.response(request.call_id, "INFO")
    check(answer and answer.status in (401, 407), f"an unknown address is not asked for the password: {answer}")
    again = request.renewed().add(*credentials(answer, call.name, call.password, "INFO", request.uri))
    new.send(again)
    got = call.pbx.request("INFO", request.call_id, 3)
    check(got, f"with the right password the INFO does not arrive: {new.response(again.call_id, timeout=0.5)}")
    call.pbx.respond(got, 200)
    # The password of another user does not identify the phone.
    thief = t.phone()
    other, other_password = t.daemon.user()
    request = call.of_phone.make("BYE", agent=thief)
    thief.send(request)
    answer = thief.response(request.call_id, "BYE")
    if answer and answer.status in (401, 407):
        again = request.renewed().add(*credentials(answer, other, other_password, "BYE", request.uri))
        answer = thief.exchange(again)
    check(answer is None or answer.status >= 400, f"a BYE with another user's password: {answer.start}")
    check(not call.pbx.request("BYE", request.call_id, 0.4), "a BYE with another user's password arrived")
    # A phone that has registered from its new address needs no password.
    answer = new.register(call.name, call.password, contact=f"<sip:{call.name}@{call.phone.local()}>")
    check(answer and answer.status == 200, f"control: {answer}")
    back = Dialog(new, call.of_phone.call_id, call.of_phone.local, call.of_phone.remote, call.of_phone.target, call.of_phone.routes, 300)
    check(works(back, call.pbx), "the phone's present flow is refused")
    got = works(call.of_pbx, new)
    check(got, "a request of the PBX does not reach the phone at its present flow")
    return "a new address is asked for the password and passes with it; another user's does not count; after REGISTER it passes without"


@probe("T20.4", "signed-out-and-removed", "direct")
def gone(t):
    """Strangers with an old dialog token do not reach a phone that has signed out."""
    call = Call(t)
    answer = call.phone.register(call.name, call.password, expires=0)
    check(answer and answer.status == 200, f"control: {answer}")
    stranger = t.phone()
    for method in ("INVITE", "MESSAGE", "INFO", "BYE"):
        request = call.of_pbx.make(method, agent=stranger)
        stranger.send(request)
        answer = stranger.response(request.call_id, method, 2)
        check(not call.phone.request(method, request.call_id, 0.2), f"a stranger's {method} reached a phone that had signed out")
        check(answer and answer.status in (403, 407, 401), f"{method}: {answer and answer.start}")
    check(works(call.of_pbx, call.phone, "BYE"), "the call of a phone that signed out cannot be ended")
    return "after the phone signed out strangers get 403; the PBX can still end the call"


@probe("T20.4", "spoofed-phone-at-the-pbx", "digest")
def spoofed_port(t):
    """Attackers use the upstream's port number at another address, or are a phone that writes the PBX's From."""
    phone, user, of_phone, of_pbx = outgoing(t)
    fake = t.phone(t.address(), port=t.daemon.pbx.port)
    for method in ("BYE", "INVITE", "INFO"):
        request = of_pbx.make(method, agent=fake)
        fake.send(request)
        answer = fake.response(request.call_id, method, 2)
        check(not phone.request(method, request.call_id, 0.2), f"{method} from the PBX's port at another address reached the phone")
        check(answer is None or answer.status >= 400, f"{method}: {answer and answer.start}")
    check(works(of_pbx, phone, "BYE"), "control: the PBX's own BYE does not arrive")
    return "the PBX's port number at another address opens nothing"


@probe("T20.5", "tokens-end", "fading")
def end_of_life(t):
    t.needs("call.dialog-lifetime")
    idle, busy = Call(t), Call(t)
    for _ in range(5):
        time.sleep(1.4)
        check(works(busy.of_phone, busy.pbx), "a dialog with traffic every 1.4 s ended although its token lives 4 s")
    request = idle.of_phone.make("INVITE")
    idle.phone.send(request)
    answer = idle.phone.response(request.call_id, "INVITE", 2)
    check(not idle.pbx.request("INVITE", request.call_id, 0.2), "after 7 s a token of 4 s still passed an INVITE")
    check(answer and answer.status >= 400, f"after its end: {answer}")
    return f"a token of 4 s: {answer.status} after 7 s without traffic; traffic every 1.4 s keeps it"


@probe("T20.4", "request-uri-leads-nowhere", "digest")
def request_uri(t):
    return led_astray(t, t.trap(), t.trap(host="127.0.0.1"))


@probe("T20.4", "no-other-port-of-the-pbx", "digest")
def other_port(t):
    return led_astray(t, t.trap(host=t.daemon.pbx.host), t.trap(trusted=True))


def led_astray(t, *traps):
    """Requests inside the dialog have the right tags from the right side. The targets of the requests depend on the
    token, not on URI, Route or Contact."""
    phone, user, of_phone, of_pbx = outgoing(t)
    arrived = count = 0
    for trap in traps:
        place = f"{trap.host}:{trap.port}"
        for uri, more in ((f"sip:700@{place}", []), (f"sip:700@{place};transport=tcp", []), (f"sip:700@{t.daemon.pbx.local()};maddr={trap.host}", []),
                          (of_phone.target, [f"<sip:{place};lr>"]), (of_phone.target, [f"<sip:{place}>"]),
                          (of_phone.target, of_phone.routes + [f"<sip:{place};lr>"])):
            for method in ("INFO", "INVITE"):
                request = of_phone.make(method, fields=[("Route", route) for route in more])
                request.uri = uri
                phone.send(request)
                got = t.daemon.pbx.request(method, request.call_id, 0.15)
                count += 1
                if got:
                    arrived += 1
                    t.daemon.pbx.respond(got, 488 if method == "INVITE" else 200, tag="x")
    time.sleep(0.5)
    caught = [c for trap in traps for c in trap.caught()]
    check(not caught, f"a request inside a dialog was sent to {caught[:3]}")
    check(works(of_phone, t.daemon.pbx), "control: INFO in the dialog does not arrive")
    return f"{count} in-dialog requests with other hosts and ports in Request-URI and Route: {arrived} came to the PBX's side, none elsewhere"


@probe("T20.4", "contact-in-an-answer-leads-nowhere", "digest")
def answer_contact(t):
    """A phone answers a call with the Contact of a foreign host, to which the PBX's ACK and BYE do not go."""
    phone = t.phone()
    name, password = t.registered(phone)
    for trap in (t.trap(), t.trap(trusted=True), t.trap(host="127.0.0.1")):
        pbx = t.phone(trusted=True)
        request = pbx.make("INVITE", f"sip:{name}@example.net", "700")
        pbx.send(request)
        invite = phone.request("INVITE", request.call_id)
        check(invite, "control: no INVITE")
        phone.respond(invite, 200, tag="b", contact=f"<sip:{name}@{trap.host}:{trap.port}>")
        answer = pbx.response(request.call_id, "INVITE")
        check(answer and answer.status == 200, f"control: {answer}")
        dialog = Dialog.of_caller(pbx, request, answer)
        pbx.send(dialog.make("ACK", cseq=1))
        ack = phone.request("ACK", request.call_id, 2)
        check(not trap.caught(), f"ACK went to the Contact in the phone's answer: {trap.caught()}")
        check(ack, "the ACK did not come to the phone")
        bye = dialog.make("BYE")
        pbx.send(bye)
        got = phone.request("BYE", request.call_id, 2)
        check(not trap.caught() and got, f"BYE: {trap.caught()}, phone {got}")
        phone.respond(got, 200)
    return "Contacts at a third party, a trusted peer and loopback in a phone's 200: ACK and BYE come to the phone"
