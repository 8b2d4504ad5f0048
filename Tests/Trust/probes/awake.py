"""Probes of the threat T34: phones that are awake although they send nothing."""

import time

from machine import patience
from sip import fresh
from suite import check, probe
from .flows import Device
from .wake import call, pushed, sleeper


def questions(phone, seconds):
    """The number of OPTIONS that arrive within the given seconds."""
    count, until = 0, time.monotonic() + patience(seconds)
    while (left := until - time.monotonic()) > 0:
        count += phone.take(lambda m: m.method == "OPTIONS", left) is not None
    return count


@probe("T34.1", "asked-phone-rings-at-once", "direct")
def asked(t):
    """When a push is sent, an open connection gets an OPTIONS. If the phone answers the OPTIONS, the call arrives on the
    same connection, and only once."""
    t.needs("call.ask-connections")
    phone, name, password, token = sleeper(t, t.stream())
    caller, request = call(t, name)
    question = phone.take(lambda m: m.method == "OPTIONS", 3)
    check(question, "the open connection was not asked")
    check(token.encode() not in question.raw and b"sip:700@" not in question.raw, f"the question says too much: {question.raw}")
    check(phone.request("INVITE", request.call_id, 0.5) is None, "the INVITE came before the phone said anything")
    check(t.suite.provider.wait(token), "no push beside the question")
    phone.respond(question, 405, tag="q")
    invite = phone.request("INVITE", request.call_id, 2)
    check(invite, "the answer did not let the call out")
    phone.respond(invite, 180, tag="b")
    answer = phone.register(name, password, params=pushed(token))
    check(answer and answer.status == 200, f"control: {answer}")
    check(phone.request("INVITE", fresh("none"), 0.1) is None and phone.take(
        lambda m: m.method == "INVITE" and m.branch != invite.branch, 0.5) is None, "the phone rang twice")
    phone.respond(invite, 200, tag="b")
    answer = caller.response(request.call_id, "INVITE")
    check(answer and answer.status == 200, f"the caller got {answer}")
    return "asked on its connection, the INVITE after the answer, one ring"


@probe("T34.1", "who-is-not-asked", "direct")
def not_asked(t):
    """The daemon sends no OPTIONS over UDP, to another user's connection, or a second time before the phone has answered."""
    t.needs("call.ask-connections")
    phone, name, *_ = sleeper(t, t.phone())
    caller, request = call(t, name)
    check(questions(phone, 0.7) == 0, "a phone on UDP was asked")
    caller.send(caller.cancel(request))
    phone, name, *_ = sleeper(t, t.stream())
    other = t.stream(phone.host)
    calls = [call(t, name) for _ in range(3)]
    check(questions(phone, 1) == 1, "three calls did not share one question")
    check(questions(other, 0.2) == 0, "a connection that is not the phone's was asked")
    for number, (caller, request) in enumerate(calls):
        check(phone.request("INVITE", request.call_id, 0.1) is None, f"call {number} did not wait")
        caller.send(caller.cancel(request))
    return "nobody over UDP, one question for three calls, none to another connection of that host"


@probe("T34.1", "one-question-for-ten-flows", "digest")
def ten_flows(t):
    """A phone with ten connections gets one OPTIONS, on the flow that registered last. The daemon sends the INVITE only after an
    answer to the OPTIONS on the phone's flow."""
    t.needs("call.ask-connections")
    device = Device(t, fresh("asked"))
    agents = [device.registered(number) for number in range(1, 10)]
    time.sleep(0.05)
    agents.append(device.registered(10))
    stranger, eve = t.stream(agents[0].host), t.stream()
    t.registered(eve, params=pushed(fresh("eve")))

    def asked(request, best):
        question = best.take(lambda m: m.method == "OPTIONS", 3)
        check(question, "the best flow was not asked")
        for number, agent in enumerate(agents, 1):
            more = agent.take(lambda m: m.method in ("OPTIONS", "INVITE"), 0.1)
            check(more is None, f"flow {number} got a further {more}")
        return question

    def invited(request, seconds):
        return [number for number, agent in enumerate(agents, 1) if agent.request("INVITE", request.call_id, seconds)]

    caller, request = call(t, device.name)
    question = asked(request, agents[9])
    # Strangers who know the OPTIONS's Via branch answer it, one of them on his own flow.
    for agent in (stranger, eve, t.phone(agents[9].host)):
        agent.respond(question, 200, tag="eve")
    check(invited(request, 0.1) == [], "a stranger's answer let the call out")
    agents[9].respond(question, 200, tag="q")
    check(agents[9].request("INVITE", request.call_id, 2), "the answer of the flow that was asked did not let the call out")
    check(invited(request, 0.1) == [], "another flow rang as well")
    caller.send(caller.cancel(request))
    # The flow that registered last has ended, so the next flow gets the OPTIONS.
    agents.pop().reset()
    time.sleep(0.3)
    caller, request = call(t, device.name)
    question = asked(request, agents[8])
    agents[8].respond(question, 405, tag="q")
    check(agents[8].request("INVITE", request.call_id, 2), "the answer of the next flow did not let the call out")
    caller.send(caller.cancel(request))
    return "one OPTIONS on the best of ten flows, none by a stranger's answer, and on the next when that had ended"


@probe("T34.2", "silent-phone-is-waited-for", "open")
def silent(t):
    """If a phone gave a sign of life but does not answer its INVITE, the call waits for the phone. If the phone's token
    is dead, the call ends immediately."""
    t.needs("call.ring-live-flow-within")
    phone, token = t.phone(), fresh("dead")
    name, _ = t.registered(phone, params=pushed(token))
    phone.send(b"\r\n\r\n")
    time.sleep(0.2)
    caller, request = call(t, name)
    check(phone.request("INVITE", request.call_id, 2), "control: the live flow did not get the INVITE")
    answer = caller.response(request.call_id, "INVITE", 8)
    check(answer and answer.status == 480, f"the dead token did not end the call: {answer}")
    return "480 to the caller when the phone had said nothing for three seconds and its token was dead"


@probe("T34.3", "message-is-pushed-beside-its-try", "direct")
def message(t):
    """A phone on UDP that has just registered gets a MESSAGE directly, together with a push."""
    phone, name, password, token = sleeper(t)
    caller = t.phone(trusted=True)
    request = caller.make("MESSAGE", f"sip:{name}@example.net", "700")
    request.add("Content-Type", "text/plain")
    request.body = b"hello"
    caller.send(request)
    got = phone.request("MESSAGE", request.call_id, 2)
    check(got, "control: no MESSAGE at the phone")
    # The phone answers within three seconds, so no push is sent because of its silence.
    time.sleep(0.5)
    phone.respond(got, 200, tag="m")
    check(t.suite.provider.wait(token, timeout=2), "no push beside the try")
    answer = caller.response(request.call_id, "MESSAGE")
    check(answer and answer.status == 200, f"the sender got {answer}")
    return "the push left before the phone had been silent for three seconds"


@probe("T34.4", "held-end-is-heard-at-once", "direct")
def ended(t):
    """`sippushd held end` ends the call for its caller while a phone rings. A phone that answers afterwards gets a BYE."""
    phone, name, password, token = sleeper(t)
    caller, request = call(t, name)
    answer = phone.register(name, password, params=pushed(token))
    check(answer and answer.status == 200, f"control: {answer}")
    invite = phone.request("INVITE", request.call_id, 3)
    check(invite, "control: no INVITE")
    phone.respond(invite, 180, tag="b")
    check(caller.take(lambda m: m.call_id == request.call_id and m.status == 180, 3), "control: no 180")
    done = t.daemon.command("held", "end", request.call_id, "--status", "486")
    check(done.returncode == 0, f"held end: {done.stderr}")
    answer = caller.response(request.call_id, "INVITE", 2)
    check(answer and answer.status == 486, f"the caller got {answer}")
    check(phone.request("CANCEL", request.call_id, 2), "the phone was not cancelled")
    # The phone answers as if it had not received the CANCEL yet.
    phone.respond(invite, 200, tag="b")
    check(phone.request("ACK", request.call_id, 2) and phone.request("BYE", request.call_id, 2), "the phone that answered was not hung up")
    check(caller.take(lambda m: m.call_id == request.call_id and m.status == 200, 0.5) is None, "the caller got a 200 after its 486")
    return "486 to the caller before the phone's 487, and ACK and BYE to the phone that answered"
