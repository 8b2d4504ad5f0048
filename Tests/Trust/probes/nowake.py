"""T36: calls for which no phone wakes up."""

from daemon import Daemon
from probes.silence import explained
from probes.wake import call, pushed, sleeper
from sip import fresh
from suite import check, probe

BOX = "sip:vm-{{user}}@pbx.example.net"


def own_daemon(t, name, action, pbx_host=None, **settings):
    values = {"call": {"ring-timeout": "2s", "no-wake": {"action": action, "to": BOX}}, **settings}
    daemon = t.daemon = Daemon(name, t.suite, values, pbx_host)
    t.suite.daemons[name] = daemon
    return daemon.start()


def line_of(daemon, call_id, text):
    """The log line of a call, or an empty text."""
    return next((line for line in daemon.log().splitlines() if text in line and call_id in line), "")


@probe("T36.2", "forward-goes-to-the-upstream")
def forward_goes_to_the_upstream(t):
    """No phone wakes up, so the INVITE goes to the voicemail box at the PBX. If the PBX sends the INVITE for the
    voicemail box back, the daemon refuses it."""
    t.needs("call.no-wake.action")
    daemon = own_daemon(t, "forwarding", "forward", "127.2.0.11")
    pbx = daemon.pbx
    _, name, _, token = sleeper(t)
    caller, request = call(t, name, pbx)
    check(t.suite.provider.wait(token), "control: no push for the call")
    got = pbx.request("INVITE", request.call_id, 10)
    check(got, "no INVITE for the box")
    check(got.uri == f"sip:vm-{name}@pbx.example.net", f"the Request-URI is {got.uri}")
    check("pn-" not in got.raw.decode(), "push parameters leave with the forward")
    diversion = got.get("diversion") or ""
    check(f"<sip:{name}@example.net>;reason=unavailable" in diversion, f"the Diversion is {diversion}")
    check(int(got.get("max-forwards")) < 70, "the forward has as many hops left as the call had")
    pbx.respond(got, 200, tag="box")
    answer = caller.response(request.call_id, "INVITE")
    check(answer and answer.status == 200, f"the caller got {answer}")
    again = pbx.make("INVITE", f"sip:{name}@example.net", "700")
    again.add("Diversion", f"<sip:{name}@example.net>;reason=unavailable;counter=1")
    pbx.send(again)
    answer = pbx.response(again.call_id, "INVITE")
    check(answer and answer.status == 482, f"a forwarded call that comes back got {answer}")
    return "the forward goes to the upstream alone, names who sent it on, and is refused when it comes back"


@probe("T36.3", "redirect-for-trusted-peers-alone")
def redirect_for_trusted_peers_alone(t):
    """Only callers behind trusted peers get 302, because a phone would send its credentials to any server that a 302
    names."""
    t.needs("call.no-wake.action")
    own_daemon(t, "redirecting", "redirect", auth="off")
    _, name, _, _ = sleeper(t)
    trusted, request = call(t, name)
    answer = trusted.response(request.call_id, "INVITE", 10)
    check(answer and answer.status == 302, f"control: the PBX got {answer}")
    check(answer.get("contact") == f"<sip:vm-{name}@pbx.example.net>", f"its Contact is {answer.get('contact')}")
    trusted.send(trusted.ack_failure(request, answer))
    phone, request = call(t, name, t.phone())
    answer = phone.response(request.call_id, "INVITE", 10)
    check(answer and answer.status == 480, f"a phone got {answer}")
    check("vm-" not in answer.raw.decode(), "the phone learns the URI")
    return "the PBX is redirected, and a phone gets 480"


@probe("T36.9", "user-without-a-phone")
def user_without_a_phone(t):
    """If a known user has no contact, call.no-wake applies immediately. A call to an unknown user still gets 404."""
    t.needs("call.no-wake.action")
    daemon = own_daemon(t, "nobodys", "forward", "127.2.0.12")
    pbx = daemon.pbx
    never, _ = daemon.user()
    phone, gone, password, _ = sleeper(t)
    answer = phone.register(gone, password, contact="*", expires=0)
    check(answer and answer.status == 200, f"control: signing out got {answer}")
    for name in (never, gone):
        caller, request = call(t, name, pbx)
        got = pbx.request("INVITE", request.call_id, 6)
        check(got, f"no forward for {name}, who has no phone")
        check(got.uri == f"sip:vm-{name}@pbx.example.net", f"the Request-URI is {got.uri}")
        pbx.respond(got, 200, tag="box")
        answer = caller.response(request.call_id, "INVITE")
        check(answer and answer.status == 200, f"the caller got {answer}")
        check("code=---F" in line_of(daemon, request.call_id, "call ended"), "the line has another code")
        said = daemon.command("explain", request.call_id).stdout
        check("had no device, so call.no-wake forwarded the call" in said, f"explain says: {said}")
    caller, request = call(t, fresh("unknown"), pbx)
    answer = caller.response(request.call_id, "INVITE")
    check(answer and answer.status == 404, f"an unknown user got {answer}")
    check(not pbx.request("INVITE", request.call_id, 0.2), "a call to an unknown user is forwarded")
    # A phone's call for which no phone wakes is not forwarded, and the phone does not get the forward's URI.
    phone, name, password, _ = sleeper(t)
    request = phone.make("INVITE", f"sip:{never}@example.net", name)
    answer = phone.with_credentials(request, name, password)
    sent = pbx.request("INVITE", request.call_id, 6)
    check(sent and "vm-" not in sent.uri, f"a phone's call went to {sent and sent.uri}")
    return "users without a phone are forwarded at once, unknown ones get 404, and explain and the log say so"


@probe("T36.10", "spoofed-life-is-no-wake")
def spoofed_life_is_no_wake(t):
    """Datagrams that anybody can send with a phone's address do not change what the daemon learned about the phone."""
    t.needs("call.no-wake.learn")
    values = {"call": {"ring-timeout": "9s", "no-wake": {"learn": True}, "pushes-per-device": 100, "pushes-per-caller": 100},
              "limits": {"calls-per-account": 50}}
    daemon = t.daemon = Daemon("learning", t.suite, values)
    t.suite.daemons["learning"] = daemon
    daemon.start()
    spoofs = [b"\r\n\r\n", b"\0\1\0\0\x21\x12\xa4\x42" + b"0" * 12, b"garbage",
              b"SIP/2.0 200 OK\r\nVia: SIP/2.0/UDP 127.0.0.1;branch=z9hG4bKguess\r\nFrom: <sip:a@b>;tag=1\r\n"
              b"To: <sip:c@d>;tag=2\r\nCall-ID: guess\r\nCSeq: 1 OPTIONS\r\nContent-Length: 0\r\n\r\n"]

    def told(wakes):
        phone, name, password, token = sleeper(t)
        for number in range(10):
            _, request = call(t, name, user=str(700 + number))
            check(t.suite.provider.wait(token, number + 1), "control: no push for the call")
            explained(daemon, request.call_id, "the provider accepted the push")
            wakes(phone, name, password, token, request)
        caller, request = call(t, name)
        answer = caller.response(request.call_id, "INVITE", 12)
        check(answer and answer.status == 480, f"the last call got {answer}")
        return daemon.command("explain", request.call_id).stdout

    def registers(phone, name, password, token, request):
        answer = phone.register(name, password, params=pushed(token))
        check(answer and answer.status == 200, f"control: the phone cannot register: {answer}")
        invite = phone.request("INVITE", request.call_id)
        check(invite, "control: no INVITE at the phone")
        phone.respond(invite, 486, tag="busy")

    def spoofed(phone, name, password, token, request):
        for raw in spoofs:
            phone.send(raw)
        # The daemon has sent the INVITE after the phone's sign of life. A sleeping phone does not answer the INVITE that
        # follows its sign of life.
        check(phone.request("INVITE", request.call_id), "control: no INVITE after the sign of life")

    said = told(registers)
    check("the time of its earlier wakes" in said, f"control: ten wakes bound no wait: {said}")
    said = told(spoofed)
    check("the time of its earlier wakes" not in said, f"spoofed datagrams count as wakes: {said}")
    return "CRLF, STUN, garbage and a stray response from the phone's address are no wakes"


@probe("T36.11", "late-answer-is-hung-up")
def late_answer(t):
    """The destination of a forward answers after an operator has ended the call."""
    t.needs("call.no-wake.action")
    daemon = own_daemon(t, "late-answer", "forward", "127.2.0.13")
    pbx = daemon.pbx
    name, _ = daemon.user()
    caller, request = call(t, name)
    got = pbx.request("INVITE", request.call_id, 6)
    check(got, "control: no forward")
    status, text = daemon.admin("DELETE", f"/v1/held/{request.call_id}?status=603")
    check(status == 200, f"control: the operator's end got {status} {text}")
    answer = caller.response(request.call_id, "INVITE")
    check(answer and answer.status == 603, f"the caller got {answer}")
    caller.send(caller.ack_failure(request, answer))
    pbx.respond(got, 200, tag="box")
    for method in ("ACK", "BYE"):
        sent = pbx.request(method, request.call_id)
        check(sent, f"no {method} for the late 200")
        check("tag=box" in sent.get("to"), f"the {method} has the To {sent.get('to')}")
    pbx.respond(sent, 200)
    pbx.respond(got, 200, tag="box")
    check(pbx.request("ACK", request.call_id), "no ACK for the repeated 200")
    check(not pbx.request("BYE", request.call_id, 0.3), "a second BYE")
    again = caller.response(request.call_id, "INVITE", 0.3)
    check(not again, f"the caller got {again} after the end")
    return "a 200 after the operator's end gets ACK and BYE, its copy another ACK, and the caller hears nothing of it"
