"""T10 and T11, and calls to phones that sleep, wake up and change their address."""

import concurrent.futures
import json
import os
import subprocess
import time

from daemon import Daemon
from machine import patience
from sip import Dialog, credentials, fresh
from suite import check, probe


def pushed(token):
    return f";pn-provider=fcm;pn-param=p;pn-prid={token}"


def sleeper(t, agent=None):
    """Registers a phone with a push token. Returns the phone, its user's name and password, and the token."""
    phone = agent or t.phone()
    token = fresh("token")
    name, password = t.registered(phone, params=pushed(token))
    return phone, name, password, token


def call(t, name, caller=None, user="700"):
    caller = caller or t.phone(trusted=True)
    request = caller.make("INVITE", f"sip:{name}@example.net", user)
    caller.send(request)
    return caller, request


def talking(t, phone):
    """Makes a call that wakes the phone and that the phone answers. Returns the call, and the caller's view of the
    dialog."""
    phone, name, password, token = sleeper(t, phone)
    caller, request = call(t, name)
    check(t.suite.provider.wait(token), "control: no push for the call")
    answer = phone.register(name, password, params=pushed(token))
    check(answer and answer.status == 200, f"control: the phone cannot register: {answer}")
    invite = phone.request("INVITE", request.call_id)
    check(invite, "control: no INVITE at the phone")
    phone.respond(invite, 200, tag="b")
    answer = caller.response(request.call_id, "INVITE")
    check(answer and answer.status == 200, f"control: the caller got {answer}")
    dialog = Dialog.of_caller(caller, request, answer)
    caller.send(dialog.make("ACK", cseq=1))
    check(phone.request("ACK", request.call_id), "control: no ACK at the phone")
    return name, password, token, caller, request, dialog


@probe("T10", "tokens-are-bytes", "direct")
def tokens(t):
    """Push parameters contain hostile texts, which must not appear in certain fields of pushes, answers and logs."""
    phone = t.phone()
    odd = fresh("t") + '%22,%22x%22:%22y%0d%0aX-Evil:%20z/../%7b%7bcaller%7d%7d%25'
    user = t.daemon.user()
    answer = phone.register(*user, params=pushed(odd))
    check(answer and answer.status == 555 and answer.get("warning"), f"quotes and line ends in a token got {answer}")
    check(odd[:12].encode() not in answer.raw, f"the refusal repeats the token: {answer.raw}")
    # pn-param may contain any bytes.
    name, password, token = sleeper(t, phone)[1:]
    meant = pushed(token).replace("pn-param=p", "pn-param=" + odd)
    answer = phone.register(name, password, params=meant)
    check(answer and answer.status == 200, f"an odd param got {answer}")
    caller, request = call(t, name)
    check(t.suite.provider.wait(token), "control: no push with an odd param")
    with t.suite.provider.changed:
        got = next(push for push in t.suite.provider.pushes if push[1].get("to") == token)
    check(set(got[1]) <= {"to", "priority", "data", "time_to_live"} and "X-Evil" not in got[2], f"the param became more than a param: {got[1:3]}")
    caller.send(caller.cancel(request))
    # Other devices of the user, and the caller, do not get the first device's token.
    second, token = t.phone(), fresh("secret-token-")
    name, password, token = sleeper(t, second)[1:]
    other = t.phone()
    answer = other.register(name, password)
    check(answer and answer.status == 200, f"control: {answer}")
    check(token.encode() not in answer.raw, "the 200 to one device shows another device's token")
    caller, request = call(t, name)
    invite = other.request("INVITE", request.call_id)
    check(invite, "control: no INVITE at the other device")
    check(token.encode() not in invite.raw, "an INVITE shows another device's token")
    other.respond(invite, 180, tag="o")
    ringing = caller.take(lambda m: m.call_id == request.call_id and m.status == 180, 3)
    check(ringing and token.encode() not in ringing.raw, f"the caller: {ringing}")
    caller.send(caller.cancel(request))
    # A phone that only refreshes its contact gets its own token in the answer, and no other.
    third, own, call_id = t.phone(), fresh("own-token-"), fresh("refresh")
    for number in (1, 11):
        answer = third.register(name, password, params=pushed(own), call_id=call_id, cseq=number)
        check(answer and answer.status == 200, f"control: {answer}")
        check(own.encode() in answer.raw and token.encode() not in answer.raw, f"REGISTER {number} is answered with other tokens than its own")
    long = t.phone()
    user = t.daemon.user()
    answer = long.register(*user, params=pushed("x" * 5000))
    if answer and answer.status == 200:
        caller, request = call(t, user[0])
        invite = long.request("INVITE", request.call_id)
        check(not t.suite.provider.of("x" * 5000), "a token of 5,000 bytes was pushed to")
        if invite:
            long.respond(invite, 486, tag="l")
    return "quotes, line ends and braces stay one JSON text; no other device and no caller sees a token; one of 5,000 bytes is none"


# Texts that Firebase's legacy interface accepts instead of a token.
NO_GOOGLE_TOKENS = ("%2Ftopics%2Fall", "/topics/all", "'a'%20in%20topics", "a%26b", "a.b", "a%00")


@probe("T10.2", "topics-are-no-tokens")
def topics(t):
    """A push to a topic would ring all devices of an app, so only tokens that the provider can have made are accepted."""
    t.daemon = t.suite.daemons["forms"] = Daemon("forms", t.suite, {
        "push": {"http": {"enabled": True, "apps": {"gateway": {"url": f"http://127.0.0.1:{t.suite.provider.port}/"}}}},
        "api": {"push-tokens": {"provider": "direct"}}})
    t.daemon.start()
    phone = t.phone()
    user = t.daemon.user()
    refused = [pushed(prid) for prid in NO_GOOGLE_TOKENS]
    refused += [f";pn-provider=http;pn-param=gateway;pn-prid=a%0d%0ab", ";pn-provider=http;pn-param=other;pn-prid=t",
                ";pn-provider=http;pn-prid=t", ";pn-provider=nobody;pn-prid=t"]
    for params in refused:
        answer = phone.register(*user, params=params)
        check(answer and answer.status == 555, f"{params} got {answer}")
        check(answer.get("warning") and answer.get("warning").startswith("399 "), f"{params}: no Warning in {answer.raw}")
        named = params.split("pn-provider=")[1].split(";")[0]
        check(not any(f'"{named}"' in row for row in answer.all("feature-caps")), f"{params}: the 555 offers {named} itself")
    check(not t.suite.provider.of("/topics/all"), "a topic was pushed to")
    # Base64 of a topic is not accepted as a token of apps' servers either.
    for text in ("L3RvcGljcy9hbGw=",):
        status, body, _ = t.daemon.http("POST", "/v1/push-tokens", json.dumps(
            {"username": user[0], "selector": "s", "token_msgs": text, "appid_msgs": "p"}),
            {"Content-Type": "application/json"}, port=t.daemon.api_port, key=t.daemon.key)
        check(status == 422 and "token of FCM" in body, f"a reported topic got {status} {body}")
    # A real token is accepted.
    token = fresh("cX_1:APA91b-")
    answer = phone.register(*user, params=pushed(token))
    check(answer and answer.status == 200 and any('"fcm"' in row for row in answer.all("feature-caps")), f"control: {answer}")
    call(t, user[0])
    check(t.suite.provider.wait(token), "control: no push")


@probe("T10.3", "foreign-apps-are-refused")
def foreign(t):
    """A REGISTER with the topic, team or project of another app is refused, and the earlier contact stays."""
    key = os.path.join(t.suite.folder, fresh("apns") + ".p8")
    subprocess.run(["openssl", "genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256", "-out", key],
                   check=True, capture_output=True)
    apns = {"enabled": True, "key-file": key, "team-id": "AAAAAAAAAA", "key-id": "BBBBBBBBBB",
            "endpoint": "https://127.0.0.1:9", "topics": "[com.example.phone]"}
    t.daemon = t.suite.daemons["foreign-apps"] = Daemon("foreign-apps", t.suite, {"push": {"apns": apns, "fcm": {"params": "[mine]"}}})
    t.daemon.start()
    token = "0a" * 32
    phone, user = t.phone(), t.daemon.user()

    def told(params):
        answer = phone.register(*user, params=params)
        return answer.status, answer.get("warning") or ""

    for params, status, word in (
            (f";pn-provider=apns;pn-prid={token}", 200, ""),
            (f";pn-provider=apns;pn-prid={token};pn-param=AAAAAAAAAA.com.example.phone.voip", 200, ""),
            (f";pn-provider=apns;pn-prid={token[:40]};pn-param=AAAAAAAAAA.com.example.phone", 555, "64 hexadecimal"),
            (f";pn-provider=apns;pn-prid={token};pn-param=AAAAAAAAAA.com.example.other", 555, "topic"),
            (f";pn-provider=apns;pn-prid={token};pn-param=CCCCCCCCCC.com.example.phone", 555, "team"),
            (";pn-provider=fcm;pn-prid=t;pn-param=theirs", 555, "project"),
            (";pn-provider=fcm;pn-prid=t;pn-param=mine", 200, "")):
        got = told(params)
        check(got[0] == status and word in got[1], f"{params} got {got}")
    # With a second topic in the settings, the phone must name its topic. The daemon keeps earlier contacts, and the log
    # reports them.
    t.daemon.values["push"]["apns"]["topics"] = "[com.example.phone, com.example.second]"
    t.daemon.values["push"]["fcm"]["params"] = "[other]"
    t.daemon.write_settings()
    t.daemon.stop()
    t.daemon.launch()
    got = told(f";pn-provider=apns;pn-prid={token}")
    check(got[0] == 555 and "TEAM.TOPIC" in got[1], f"without pn-param it got {got}")
    lines = [line for line in t.daemon.log().splitlines() if "the daemon sends no pushes to some stored contacts" in line]
    check(any("FCM project" in line and "push.fcm.params" in line for line in lines), f"the log says {lines}")
    rows = json.loads(t.daemon.command("device", "show", user[0], "--json").stdout)
    check(any("fcm" in (row.get("token") or "") for row in rows), f"the contact is gone: {rows}")


def rings(agent, request, seconds):
    """The different INVITEs of the call that arrive within the given seconds, even on a busy machine."""
    limit, branches = time.monotonic() + seconds, []
    while time.monotonic() < limit:
        invite = agent.request("INVITE", request.call_id, min(0.9, max(0.01, limit - time.monotonic())))
        if invite:
            branches.append(invite)
    return branches


@probe("T11.1", "pushes-per-device", "direct")
def per_device(t):
    phone, name, password, token = sleeper(t)

    def pushes():
        return [p for p in t.suite.provider.of(token) if p.get("data", {}).get("type") == "invite"]

    for number in range(8):
        # Each caller has a limit, so the calls have several callers.
        caller, request = call(t, name, user=f"70{number}")
        # The push of a call that ends before it was sent is withdrawn.
        limit = time.monotonic() + patience(6 if number < 3 else 0.1)
        while len(pushes()) <= number and time.monotonic() < limit:
            time.sleep(0.02)
        caller.send(caller.cancel(request))
    time.sleep(0.8)
    invitations = pushes()
    check(len(invitations) == 3, f"8 calls in a minute made {len(invitations)} pushes; call.pushes-per-device is 3")
    return "8 calls to one device in a minute: 3 pushes, as call.pushes-per-device says"


def proved_call(t, caller, name, password, target, from_value=None):
    request = caller.make("INVITE", f"sip:{target}@example.net", name)
    if from_value:
        request.set("From", from_value + ";tag=" + fresh("f"))
    answer = caller.exchange(request, 3)
    if answer and answer.status in (401, 407):
        again = request.renewed().add(*credentials(answer, name, password, "INVITE", request.uri))
        caller.send(again)
        return again
    return request


@probe("T11.2", "pushes-per-caller", "direct")
def per_caller(t):
    caller = t.phone()
    name, password = t.registered(caller)
    sleepers = [sleeper(t) for _ in range(8)]
    for index, (_, target, _, _) in enumerate(sleepers):
        shown = [None, f'"A{index}" <sip:{name}@example.net>', f"<sip:{name}@example.net;x={index}>",
                 f"<SIP:{name}@EXAMPLE.NET>", f"<sip:{name}@example.net:{5060 + index}>"][index % 5]
        request = proved_call(t, caller, name, password, target, shown)
        time.sleep(0.15)
        caller.send(caller.cancel(request))
    time.sleep(0.8)
    woken = sum(1 for _, _, _, token in sleepers if t.suite.provider.of(token))
    check(1 <= woken <= 4, f"one caller with 8 spellings of From woke {woken} phones; call.pushes-per-caller is 4")
    other = t.phone()
    other_name, other_password = t.registered(other)
    _, target, _, token = sleeper(t)
    request = proved_call(t, other, other_name, other_password, target)
    check(t.suite.provider.wait(token), "another caller wakes nobody either")
    other.send(other.cancel(request))
    return f"8 calls of one proved user with changing Froms woke {woken} phones (call.pushes-per-caller: 4); another user wakes his"


def flood_of_calls(t, greedy, count, body=b""):
    """Calls of one account, with its password, to a sleeping phone. Returns the requests, and the statuses of the refused
    calls."""
    name, password = t.registered(greedy)
    _, target, _, _ = sleeper(t)
    requests = []
    for _ in range(count):
        request = greedy.make("INVITE", f"sip:{target}@example.net", name, body=body)
        answer = greedy.exchange(request.copy(), 3)
        check(answer, "no answer to INVITE")
        again = request.renewed().add(*credentials(answer, name, password, "INVITE", request.uri))
        greedy.send(again)
        requests.append(again)
    time.sleep(1)
    statuses = []
    for request in requests:
        answer = greedy.response(request.call_id, "INVITE", 0.02)
        if answer:
            greedy.send(greedy.ack_failure(request, answer))
            statuses.append(answer.status)
    return requests, statuses


@probe("T11.3", "a-share-of-the-calls", "narrow")
def share(t):
    """With limits.calls-per-account 20, calls of others are accepted while one account has used up its limit."""
    t.needs("limits.calls-per-account")
    greedy = t.phone()
    requests, statuses = flood_of_calls(t, greedy, 45)
    refused = len(statuses)
    held = len(requests) - refused
    check(refused >= 25, f"one account has {held} calls")
    other, other_target, _, other_token = sleeper(t)
    caller, request = call(t, other_target)
    through = t.suite.provider.wait(other_token, timeout=3)
    answer = caller.response(request.call_id, "INVITE", 0.2)
    check(through and answer is None, f"the PBX does not get through: {answer and answer.start}")
    caller.send(caller.cancel(request))
    third = t.phone()
    third_name, third_password = t.registered(third)
    again = proved_call(t, third, third_name, third_password, other_target)
    answer = third.response(again.call_id, "INVITE", 0.9)
    check(answer is None, f"another account does not get through: {answer and answer.start}")
    third.send(third.cancel(again))
    for request in requests:
        greedy.send(greedy.cancel(request))
    return f"of 45 calls of one account {held} were held, {refused} refused with {sorted(set(statuses))}; the PBX and another account get through"


@probe("T11.3", "a-share-of-the-bytes", "narrow")
def share_bytes(t):
    t.needs("limits.held-bytes")
    greedy = t.stream()
    requests, refused = flood_of_calls(t, greedy, 19, body="v=0\r\n" + "a=x\r\n" * 12000)
    check(refused, f"one account holds {len(requests)} bodies of 60 KB; its share is 1 MiB")
    _, other_target, _, other_token = sleeper(t)
    caller, request = call(t, other_target)
    check(t.suite.provider.wait(other_token, timeout=3), f"a small call of the PBX does not get through: {caller.response(request.call_id, timeout=0.5)}")
    caller.send(caller.cancel(request))
    for request in requests:
        greedy.send(greedy.cancel(request))
    return f"19 INVITEs of 60 KB, a share of 1 MiB: {len(refused)} refused with {sorted(set(refused))}; a call of the PBX gets through"


def sign_of_life(t, agent, keep_alive):
    phone, name, password, token = sleeper(t, agent)
    caller, request = call(t, name)
    check(t.suite.provider.wait(token), "control: no push")
    early = rings(phone, request, 0.5)
    check(not early, "control: the INVITE came before any sign of life")
    keep_alive(phone)
    invite = phone.request("INVITE", request.call_id, 3)
    check(invite, "a keep-alive on the registered flow does not bring the INVITE")
    phone.respond(invite, 180, tag="b")
    # The phone registers a moment later because of the push, and does not ring a second time.
    answer = phone.register(name, password, params=pushed(token))
    check(answer and answer.status == 200, f"control: {answer}")
    more = rings(phone, request, 1)
    check(not more, f"the phone rang {1 + len(more)} times")
    phone.respond(invite, 200, tag="b")
    answer = caller.response(request.call_id, "INVITE")
    check(answer and answer.status == 200, f"the caller got {answer}")
    return answer


@probe("T22.1", "sign-of-life-udp", "direct")
def life_udp(t):
    sign_of_life(t, t.phone(), lambda phone: phone.send(b"\r\n\r\n"))
    return "a keep-alive from the source of the REGISTER releases the held call; a REGISTER after it rings no second time"


@probe("T22.1", "sign-of-life-tcp", "direct")
def life_tcp(t):
    sign_of_life(t, t.stream(), lambda stream: stream.send(b"\r\n\r\n"))
    return "a keep-alive on the connection of the REGISTER releases the held call; a REGISTER after it rings no second time"


@probe("T22.1", "sign-of-life-of-another", "direct")
def life_other(t):
    phone, name, password, token = sleeper(t)
    caller, request = call(t, name)
    check(t.suite.provider.wait(token), "control: no push")
    for agent in (t.phone(), t.phone(phone.host), t.stream(phone.host)):
        agent.send(b"\r\n\r\n")
        agent.send(agent.make("OPTIONS", "sip:example.net", name))
    got = rings(phone, request, 1.2)
    check(not got, "a keep-alive from another source released the call")
    phone.send(b"\r\n\r\n")
    invite = phone.request("INVITE", request.call_id, 3)
    check(invite, "control: its own does not release it")
    phone.respond(invite, 486, tag="b")
    return "keep-alives and requests from another address or port of the phone's host do not release its call"


@probe("T22.1", "ring-live-flow-within", "open")
def live_flow(t):
    """A flow with a recent sign of life gets the INVITE immediately, together with the push. The phone rings once."""
    t.needs("call.ring-live-flow-within")
    for phone in (t.phone(), t.stream()):
        phone, name, password, token = sleeper(t, phone)
        phone.send(b"\r\n\r\n")
        time.sleep(0.2)
        caller, request = call(t, name)
        invite = phone.request("INVITE", request.call_id, 2)
        check(invite, "the live flow did not get the INVITE at once")
        check(t.suite.provider.wait(token), "no push beside it")
        phone.respond(invite, 180, tag="b")
        answer = phone.register(name, password, params=pushed(token))
        check(answer and answer.status == 200, f"control: {answer}")
        check(not rings(phone, request, 1), "the phone rang twice")
        phone.respond(invite, 200, tag="b")
        answer = caller.response(request.call_id, "INVITE")
        check(answer and answer.status == 200, f"the caller got {answer}")
    return "UDP and TCP: INVITE at once, the push beside it, one ring although the push made the phone register"


@probe("T22.6", "after-the-end", "narrow")
def after_end(t):
    """With push.fcm.after-end invite-cancel, a phone that got a push and registers too late gets the INVITE and its
    CANCEL."""
    t.needs("push.fcm.after-end")
    for make in (t.phone, t.stream):
        old, name, password, token = sleeper(t, make())
        caller, request = call(t, name)
        check(t.suite.provider.wait(token), "control: no push")
        caller.send(caller.cancel(request, [("Reason", "Q.850;cause=16")]))
        check(caller.response(request.call_id, "INVITE", 3), "control: no 487")
        new = make()
        answer = new.register(name, password, params=pushed(token))
        check(answer and answer.status == 200, f"control: {answer}")
        invite = new.request("INVITE", request.call_id, 3)
        check(invite, "the phone that came after the call's end got no INVITE")
        new.respond(invite, 180, tag="b")
        cancel = new.request("CANCEL", request.call_id, 3)
        check(cancel, "the INVITE after the call's end was not cancelled")
        new.respond(cancel, 200)
        new.respond(invite, 487, tag="b")
        again = make()
        answer = again.register(name, password, params=pushed(token))
        check(not again.request("INVITE", request.call_id, 0.7), "the ended call was told twice")
    check(not caller.take(lambda m: m.is_response and m.call_id == request.call_id and m.status in (180, 200)
                          and m.cseq_method == "INVITE", 0.2), "the caller heard of it")
    return "a phone that was pushed and comes after the caller gave up gets the INVITE and its CANCEL, once; the caller hears nothing"


@probe("T22.6", "told-by-push", "open")
def told_by_push(t):
    """With push.fcm.after-end push, a phone that got a push but has not registered gets a push about the call's end
    immediately."""
    t.needs("push.fcm.after-end")
    old, name, password, token = sleeper(t, t.stream())
    old.close()
    time.sleep(0.3)
    caller, request = call(t, name)
    check(t.suite.provider.wait(token), "control: no push")
    # The end of a call is reported only after the provider has accepted the call's push.
    time.sleep(0.3)
    caller.send(caller.cancel(request))
    check(t.suite.provider.wait(token, 2), "the phone was not told that the call is over")
    kinds = [push.get("data", {}).get("type") for push in t.suite.provider.of(token)]
    check(kinds == ["invite", "call_ended"], f"the pushes were {kinds}")
    new = t.stream()
    answer = new.register(name, password, params=pushed(token))
    check(answer and answer.status == 200, f"control: {answer}")
    check(not new.request("INVITE", request.call_id, 0.7), "the ended call rings")
    return "a push that says call_ended follows the call's at once; the phone that comes gets no INVITE"


@probe("T22.1", "both-flows-meet", "open")
def two_flows(t):
    """A phone gets the INVITE on its old flow and on its new one, answers the second with 482, and the call continues."""
    t.needs("call.ring-live-flow-within")
    old, name, password, token = sleeper(t, t.stream())
    old.send(b"\r\n\r\n")
    time.sleep(0.2)
    caller, request = call(t, name)
    invite = old.request("INVITE", request.call_id, 2)
    check(invite, "control: no INVITE on the live flow")
    new = t.stream(old.host)
    answer = new.register(name, password, params=pushed(token))
    check(answer and answer.status == 200, f"control: {answer}")
    again = new.request("INVITE", request.call_id, 0.9)
    if again:
        new.respond(again, 482, tag="n")
    time.sleep(0.3)
    early = caller.response(request.call_id, "INVITE", 0.3)
    check(early is None, f"a 482 of the phone ended the call: {early}")
    cancelled = old.request("CANCEL", request.call_id, 0.2)
    old.respond(invite, 200, tag="o")
    answer = caller.response(request.call_id, "INVITE", 3)
    if not cancelled:
        check(answer and answer.status == 200, f"the phone answered on its first flow and the caller got {answer}")
    else:
        caller.send(caller.cancel(request))
    return "a 482 on the second flow does not end the call" + (", answered on the first" if not cancelled else "")


def move(t, make, leave, ringing):
    old, name, password, token = sleeper(t, make())
    caller, request = call(t, name)
    check(t.suite.provider.wait(token), "control: no push")
    check(old.register(name, password, params=pushed(token)).status == 200, "control: REGISTER")
    invite = old.request("INVITE", request.call_id)
    check(invite, "control: the woken phone got no INVITE")
    if ringing:
        old.respond(invite, 180, tag="old")
        check(caller.take(lambda m: m.status == 180 and m.call_id == request.call_id, 3), "control: no 180")
    leave(old)
    time.sleep(0.3)
    new = make()
    answer = new.register(name, password, params=pushed(token))
    check(answer and answer.status == 200, f"control: {answer}")
    got = [new.request("INVITE", request.call_id)] + rings(new, request, 2)
    early = caller.response(request.call_id, "INVITE", 0.05)
    check(early is None, f"the caller was told {early and early.start} while the phone moved")
    check(len(got) == 1, f"the phone at its new address rang {len(got)} times")
    new.respond(got[0], 200, tag="new")
    answer = caller.response(request.call_id, "INVITE")
    check(answer and answer.status == 200, f"the caller got {answer}")


@probe("T22.2", "move-udp", "direct")
def move_udp(t):
    for ringing in (False, True):
        move(t, t.phone, lambda phone: None, ringing)
    return "UDP: a phone that registers from a new address before and while it rings gets the call there, once"


@probe("T22.2", "move-tcp", "direct")
def move_tcp(t):
    for leave in (lambda stream: stream.reset(), lambda stream: stream.close(), lambda stream: None):
        for ringing in (False, True):
            move(t, t.stream, leave, ringing)
    return "TCP: reset, closed or silent, before and while it rings: the call comes on the new connection, once"


@probe("T22.3", "cancel-reasons", "direct")
def reasons(t):
    missed = {}
    for what, reason in (("SIP;cause=200", "SIP;cause=200;text=\"Call completed elsewhere\""), ("Q.850;cause=26", "Q.850 ; cause=26"),
                         ("none", None), ("Q.850;cause=16", "Q.850;cause=16")):
        phone, name, password, token = sleeper(t)
        caller, request = call(t, name)
        check(t.suite.provider.wait(token), "control: no push")
        caller.send(caller.cancel(request, [("Reason", reason)] if reason else []))
        check(caller.response(request.call_id, "INVITE", 3), "control: no 487")
        status, text = t.daemon.admin("GET", f"/v1/users/{name}@example.net/bucket")
        check(status == 200, f"bucket: {status} {text}")
        missed[what] = "700" in text
    check(not missed["SIP;cause=200"], "answered elsewhere (SIP;cause=200) became a missed call")
    check(not missed["Q.850;cause=26"], "answered elsewhere (Q.850;cause=26) became a missed call")
    check(missed["none"] and missed["Q.850;cause=16"], f"control: a caller who hung up is no missed call: {missed}")
    return "a held call that was answered elsewhere is no missed call, in either form; one that was given up is"


@probe("T22.4", "eleven-devices", "digest")
def eleven(t):
    name, password = t.daemon.user()
    phones = [(t.phone(), fresh("token")) for _ in range(11)]
    for phone, token in phones:
        answer = phone.register(name, password, params=pushed(token))
        check(answer and answer.status == 200, f"control: REGISTER got {answer and answer.start}")
    # Each phone registers from a new address, so that all phones cause writes to the store at the same moment.
    phones = [(t.phone(), token) for _, token in phones]
    ready = []
    for phone, token in phones:
        request = phone.make("REGISTER", "sip:example.net", name, to=f"sip:{name}@example.net",
                             contact=f"<sip:{name}@{phone.local()}{pushed(token)}>", fields=[("Expires", "600")])
        answer = phone.exchange(request)
        check(answer and answer.status == 401, f"control: {answer}")
        ready.append((phone, request.renewed().add(*credentials(answer, name, password, "REGISTER", request.uri))))
    caller, invite = call(t, name)
    for _, token in phones:
        check(t.suite.provider.wait(token), "control: a device was not pushed")
    for phone, request in ready:
        phone.send(request)
    answers = [phone.response(request.call_id, "REGISTER") for phone, request in ready]
    statuses = [a and a.status for a in answers]
    check(statuses == [200] * 11, f"eleven devices that wake at once: {statuses}")
    for phone, _ in phones:
        check(phone.request("INVITE", invite.call_id, 4), f"a woken device got no INVITE, the caller {caller.history}")
    caller.send(caller.cancel(invite))
    return "eleven devices of one user that register at once are all served, and all ring"


@probe("T22.4", "one-token-one-device", "direct")
def one_device(t):
    phone, name, password, token = sleeper(t)
    again = t.phone()
    answer = again.register(name, password, params=pushed(token))
    check(answer and answer.status == 200, f"control: {answer}")
    contacts = [value for value in answer.all("contact") for value in value.split(",") if "pn-prid" in value]
    check(len(contacts) == 1, f"one token, two addresses: {len(contacts)} contacts")
    return "a token that registers from another address is the same device"


@probe("T25.1", "messages-wait", "direct")
def messages(t):
    """Messages for a sleeping phone: who may send them, how many may wait, how often they wake the phone, and which
    phones get them."""
    phone, name, password, token = sleeper(t)

    def write(agent, words, user):
        request = agent.make("MESSAGE", f"sip:{name}@example.net", user, body=words)
        return request, agent.exchange(request, 9)

    stranger = t.phone()
    _, answer = write(stranger, b"from a stranger", "stranger")
    check(answer and answer.status == 407, f"a stranger's message got {answer and answer.start}")
    check(not phone.request("MESSAGE", timeout=0.3), "a stranger's message reached the phone")
    # The phone does not answer, and counts as asleep.
    pbx = t.phone(trusted=True)
    kept = [write(pbx, words, "700") for words in (b"one", b"two", b"three")]
    statuses = [answer and answer.status for _, answer in kept]
    check(statuses == [202, 202, 503], f"three messages of one sender, who may leave two: {statuses}")
    kept += [write(pbx, words, "701") for words in (b"four", b"five")]
    other, answer = write(pbx, b"six", "702")
    check(answer and answer.status == 480, f"a fifth message for one user, who may have four: {answer and answer.start}")
    time.sleep(0.5)
    pushes = [p for p in t.suite.provider.of(token) if p.get("data", {}).get("type") == "message"]
    check(len(pushes) == 1, f"{len(kept)} messages made {len(pushes)} pushes")
    status, text = t.daemon.admin("GET", f"/v1/messages?user={name}@example.net")
    check(status == 200 and text.count("receivedAt") == 4, f"messages that wait: {status} {text}")
    check("four" not in text and token not in text, "the list shows what a message says, or a token")
    listed = t.daemon.command("message", "list", f"{name}@example.net")
    check(listed.returncode == 0 and len(listed.stdout.splitlines()) == 5, f"message list: {listed.stdout}{listed.stderr}")
    explained = t.daemon.command("explain", f"{name}@example.net")
    check("4 messages" in explained.stdout, f"explain: {explained.stdout}{explained.stderr}")
    # Another user who registers gets none of the messages. The called phone gets all messages, one after the other, at its
    # current address.
    somebody = t.phone()
    t.registered(somebody, params=pushed(fresh("token")))
    check(not somebody.request("MESSAGE", timeout=0.5), "another user's phone got a message")
    back = t.phone()
    answer = back.register(name, password, params=pushed(token))
    check(answer and answer.status == 200, f"control: {answer}")
    words = []
    for _ in range(4):
        message = back.request("MESSAGE", timeout=3)
        check(message, f"the phone is back and got {words}")
        check(not back.request("MESSAGE", timeout=0.2), "a message came before the one before it was answered")
        words.append(message.body)
        back.respond(message, 200, tag="b")
    check(words == [b"one", b"two", b"four", b"five"], f"the phone got {words}")
    return "a stranger leaves no message; one sender leaves two, a user has four; one push; the phone gets them in order"
