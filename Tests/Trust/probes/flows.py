"""T26 and T27: phones with several SIP flows, requests for one device, and requests that wake a phone inside a call."""

import concurrent.futures
import copy
import itertools
import re
import time
import uuid

from daemon import Daemon
from probes.wake import call, pushed, sleeper, talking
from sip import Dialog, fresh
from suite import check, probe

OUTBOUND = ("Supported", "path, outbound, gruu")


class Device:
    """A phone that keeps several TCP connections, and registers each with its own reg-id."""

    def __init__(self, t, token=None):
        self.t, self.token = t, token
        self.instance = f"urn:uuid:{uuid.uuid4()}"
        self.name, self.password = t.daemon.user()
        self.answer = None

    def register(self, number, agent=None, expires=600, fields=(OUTBOUND,), **options):
        agent = agent or self.t.stream()
        uri = f"sip:{self.name}@{agent.local()}{agent.uri_transport()}{pushed(self.token) if self.token else ''}"
        self.answer = agent.register(
            self.name, self.password, contact=f'<{uri}>;+sip.instance="<{self.instance}>";reg-id={number}', expires=expires,
            fields=fields, **options)
        return agent

    def registered(self, number, **options):
        agent = self.register(number, **options)
        check(self.answer and self.answer.status == 200, f"flow {number} got {self.answer}")
        return agent


def rings(agent, request, what):
    invite = agent.request("INVITE", request.call_id)
    check(invite, f"no INVITE {what}")
    return invite


@probe("T26.1", "several-flows", "direct")
def several(t):
    device = Device(t)
    first = device.registered(1)
    check("outbound" in (device.answer.get("require") or ""), f"the 200 does not say that flows count: {device.answer.raw}")
    time.sleep(0.05)
    second = device.registered(2)
    check(len(device.answer.all("contact")) == 2, f"not both flows are contacts: {device.answer.all('contact')}")
    caller, request = call(t, device.name)
    rings(second, request, "on the flow that registered last")
    check(not first.request("INVITE", request.call_id, 0.7), "both flows got the INVITE")
    second.reset()
    invite = rings(first, request, "on the other flow when that connection has ended")
    first.respond(invite, 180, tag="b")
    # The ended flow registers again while the phone rings on the other flow, where the call must stay.
    second = device.registered(2)
    check(not second.request("INVITE", request.call_id, 0.7), "a flow that registers takes a call from another that rings")
    first.respond(invite, 200, tag="b")
    answer = caller.response(request.call_id, "INVITE")
    check(answer and answer.status == 200, f"the caller got {answer}")
    dialog = Dialog.of_caller(caller, request, answer)
    caller.send(dialog.make("ACK", cseq=1))
    check(first.request("ACK", request.call_id), "no ACK on the flow of the dialog")
    first.reset()
    time.sleep(0.3)
    caller.send(dialog.make("BYE", cseq=2))
    check(second.request("BYE", request.call_id), "a BYE is lost with the flow that its dialog was made on")


@probe("T26.1", "several-flows-asleep", "direct")
def asleep(t):
    """All flows of the phone are dead. The daemon sends one push, and sends the call on the first flow that registers
    again."""
    device = Device(t, fresh("flows"))
    agents = [device.registered(number) for number in (1, 2, 3)]
    for agent in agents:
        agent.reset()
    time.sleep(0.3)
    caller, request = call(t, device.name)
    check(t.suite.provider.wait(device.token), "no push")
    back = device.registered(2)
    invite = rings(back, request, "on the flow that came back")
    other = device.registered(1)
    check(not other.request("INVITE", request.call_id, 0.7), "the other flow got the INVITE as well")
    back.respond(invite, 486, tag="b")
    check(caller.response(request.call_id, "INVITE").status == 486, "the caller hears nothing of the 486")
    check(len(t.suite.provider.of(device.token)) == 1, f"{len(t.suite.provider.of(device.token))} pushes for one phone")
    # The phone signs out flow by flow, and can be reached until the last flow has signed out.
    device.register(1, other, expires=0, cseq=9)
    check(device.answer.status == 200 and len(device.answer.all("contact")) == 2, f"after one has gone: {device.answer}")
    device.register(2, back, expires=0, cseq=9)
    device.register(3, back, expires=0, cseq=9)
    caller, request = call(t, device.name)
    check(caller.response(request.call_id, "INVITE").status == 480, "a phone that has signed out is called")


@probe("T26.1", "ten-flows-at-once", "digest")
def ten(t):
    """Ten flows register, end and come back at the same moment. The phone is one device, and gets one INVITE and one
    push."""
    device = Device(t, fresh("ten"))

    def at_once(what, some):
        with concurrent.futures.ThreadPoolExecutor(len(some)) as pool:
            return list(pool.map(what, some))

    def register(number):
        agent = t.stream()
        # Each thread has its own copy of the device object, because each REGISTER gets its own answer.
        own = copy.copy(device)
        own.registered(number, agent=agent)
        return agent

    def invited(agents, request):
        """Returns the agents that got the INVITE, and lets them answer 486."""
        time.sleep(0.7)
        got = [(agent, agent.request("INVITE", request.call_id, 0.01)) for agent in agents]
        for agent, invite in got:
            if invite:
                agent.respond(invite, 486, tag="b")
        return [agent for agent, invite in got if invite]

    agents = at_once(register, range(1, 11))
    answer = register_again(device, 10, agents[9])
    check(len(answer.all("contact")) == 10, f"{len(answer.all('contact'))} contacts")
    caller, request = call(t, device.name)
    check(t.suite.provider.wait(device.token), "control: no push")
    check(not invited(agents, request), "a phone that shall be woken is called before it is there")
    register_again(device, 4, agents[3])
    check(invited(agents, request) == [agents[3]], "the call is not where the phone has registered last")
    check(caller.response(request.call_id, "INVITE").status == 486, "control: the call does not end")
    at_once(lambda agent: agent.reset(), agents)
    time.sleep(0.3)
    caller, request = call(t, device.name)
    check(t.suite.provider.wait(device.token, 2), "no push when all flows have ended")
    agents = at_once(register, range(1, 11))
    got = invited(agents, request)
    check(len(got) == 1, f"{len(got)} of the ten flows got the INVITE")
    check(len(t.suite.provider.of(device.token)) == 2, f"{len(t.suite.provider.of(device.token))} pushes for two calls")


def register_again(device, number, agent):
    device.registered(number, agent=agent)
    return device.answer


@probe("T26.4", "flow-timer", "lively")
def flow_timer(t):
    """With registrar.flow-timer 3s, a silent connection with a SIP flow is closed after ten more seconds, but a
    connection without a flow stays."""
    begin = time.monotonic()
    device = Device(t)
    busy, silent = device.registered(1), device.registered(2)
    check(device.answer.get("flow-timer") == "3", f"the 200 says {device.answer.get('flow-timer')}")
    plain = t.stream()
    t.registered(plain)
    while not silent.closed and time.monotonic() < begin + 60:
        busy.send(b"\r\n\r\n")
        silent.wait_closed(1.5)
    took = time.monotonic() - begin
    check(silent.closed and took > 12, f"the silent connection is {'closed' if silent.closed else 'open'} after {took:.1f} s")
    check(not busy.closed, "a connection with keep-alives is closed")
    check(not plain.closed, "one without a flow is closed")
    caller, request = call(t, device.name)
    rings(busy, request, "on the flow that is left")
    return f"after {took:.0f} s"


@probe("T26.4", "flow-timer-udp", "lively")
def flow_timer_udp(t):
    """Over UDP, no connection can be closed. A phone's silent flow is used only after its second flow, until a sign of
    life comes on the silent flow."""
    device = Device(t)
    busy, silent = device.registered(1), device.registered(2, agent=t.phone())

    def called(expected, other, what):
        caller, request = call(t, device.name)
        invite = rings(expected, request, what)
        check(not other.request("INVITE", request.call_id, 0.7), f"the other flow got it, too: {what}")
        expected.respond(invite, 486, tag="b")
        check(caller.response(request.call_id, "INVITE").status == 486, "control: the call does not end")

    called(silent, busy, "on the flow that registered last")
    begin = time.monotonic()
    while time.monotonic() < begin + 14.5:
        busy.send(b"\r\n\r\n")
        time.sleep(1.5)
    called(busy, silent, "on the flow that is alive")
    silent.send(b"\0\1\0\0\x21\x12\xa4\x42" + t.random.randbytes(12))
    time.sleep(0.3)
    called(silent, busy, "on the flow that shows life again")


@probe("T22.7", "refresh-push", "lively")
def refresh_push(t):
    """With registrar.refresh-push 180s, a phone gets one push when its registration is nearly over, and no other phone
    gets a push."""
    asleep, in_time, later = fresh("asleep"), fresh("intime"), fresh("later")
    begin = time.monotonic()
    t.registered(t.phone(), params=pushed(asleep), expires=184)
    short = t.phone()
    answer = short.register(*t.daemon.user(), params=pushed(fresh("short")), expires=179)
    check(answer and answer.status == 423 and answer.get("min-expires") == "180", f"a time that ends before its refresh got {answer}")
    t.registered(short, expires=120)
    phone = t.phone()
    name, password = t.registered(phone, params=pushed(in_time), expires=200, call_id="refresh@" + in_time)
    again = phone.register(name, password, params=pushed(in_time), call_id="refresh@" + in_time, cseq=9)
    check(again and again.status == 200, f"control: {again}")
    t.registered(t.phone(), params=pushed(later))
    check(t.suite.provider.wait(asleep, timeout=60), "the phone is not woken")
    took = time.monotonic() - begin
    check(took > 3.5, f"the phone is woken {took:.1f} s before its time")
    push = t.suite.provider.of(asleep)[0]
    check(push.get("data", {}).get("type") != "invite", f"the push is one for a call: {push}")
    check(not t.suite.provider.wait(asleep, 2, timeout=10), "it is woken twice for one end")
    for token, who in ((in_time, "that has refreshed"), (later, "that has time")):
        check(not t.suite.provider.of(token), f"a phone {who} is woken")
    return f"after {took:.0f} s"


@probe("T26.2", "first-hop-without-flows", "direct")
def first_hop(t):
    """Between the phone and the daemon is a proxy that does not support flows (RFC 5626)."""
    device = Device(t)
    via = ("Via", "SIP/2.0/UDP 127.9.9.9;branch=z9hG4bKinner")
    device.register(1, t.phone(), fields=(OUTBOUND, via))
    check(device.answer and device.answer.status == 439, f"it got {device.answer}")
    # A phone that asks for no flows may come through any proxy, and its reg-id has no meaning.
    phone = device.register(1, t.phone(), fields=(via,))
    check(device.answer and device.answer.status == 200 and not device.answer.get("require"), f"it got {device.answer}")
    device.register(2, phone, fields=(via,))
    check(len(device.answer.all("contact")) == 1, f"a number that does not count made a flow: {device.answer.all('contact')}")
    caller, request = call(t, device.name)
    invite = rings(phone, request, "at the phone")
    # Only an edge proxy answers 430 because of a flow, so the caller gets the phone's 430 unchanged.
    phone.respond(invite, 430, tag="b")
    check(caller.response(request.call_id, "INVITE").status == 430, "a phone's 430 is taken for an edge's")


@probe("T26.3", "gruu", "direct")
def gruu(t):
    """A GRUU leads only to its device, and does not show the user or the device."""
    device = Device(t, fresh("gruu"))
    phone = device.registered(1)
    contact = device.answer.get("contact")
    public, temporary = (re.search(name + r'="([^"]*)"', contact) for name in ("pub-gruu", "temp-gruu"))
    check(public and temporary, f"no GRUUs in {contact}")
    public, temporary = public.group(1), temporary.group(1)
    check(device.name not in temporary and device.instance[9:] not in temporary, f"the temporary one tells: {temporary}")
    other = t.phone()
    check(other.register(device.name, device.password).status == 200, "control: the other phone cannot register")
    for kind in ("pub-gruu", "temp-gruu"):
        # A REGISTER with another Call-ID creates a new temporary GRUU, and makes earlier temporary GRUUs invalid.
        uri = re.search(kind + r'="([^"]*)"', device.answer.get("contact")).group(1)
        caller = t.phone(trusted=True)
        request = caller.make("INVITE", uri, "700")
        caller.send(request)
        check(t.suite.provider.wait(device.token, 1 if kind == "pub-gruu" else 2), f"no push for {uri}")
        device.registered(1, agent=phone)
        invite = rings(phone, request, f"for {uri}")
        check(b"gr=" not in invite.raw.split(b"\r\n")[0] and b"tgruu" not in invite.raw.split(b"\r\n")[0],
              f"the phone is called {invite.raw.splitlines()[0]}")
        check(not other.request("INVITE", request.call_id, 0.7), f"{uri} leads to another device")
        phone.respond(invite, 486, tag="b")
        check(caller.response(request.call_id, "INVITE").status == 486, "the call has another end")
    # Nobody can forge a temporary GRUU, neither by changing a letter nor with a value that was encrypted for another
    # purpose.
    body = temporary.split("tgruu.")[1].split("@")[0]
    changed = body[:-1] + ("A" if body[-1] != "A" else "B")
    for bad in (changed, body[:10], "", "A" * 400, "%00"):
        caller = t.phone(trusted=True)
        answer = caller.exchange(caller.make("OPTIONS", f"sip:tgruu.{bad}@example.net;gr", "700"))
        check(answer and answer.status in (400, 404), f"{bad[:20]} got {answer}")
    # A contact that is the user's own GRUU would be called forever.
    answer = phone.register(device.name, device.password, contact=f"<{public}>")
    check(answer and answer.status == 403, f"a contact that leads back here got {answer}")


@probe("T26.5", "names-that-change")
def names(t):
    """pn-purr values and temporary GRUUs are new in each answer, and do not show which of them belong to one phone.
    Earlier pn-purr values and temporary GRUUs stay valid."""
    t.daemon = t.suite.daemons["names"] = Daemon("names", t.suite, {"registrar": {"announce-purr": True}})
    t.daemon.start()
    device, call_id, numbers = Device(t, fresh("names")), fresh("names"), itertools.count(1, 10)

    def again():
        device.registered(1, agent=phone, call_id=call_id, cseq=next(numbers))

    phone = t.stream()
    seen = {"temp-gruu": [], "pnspurr": []}
    for _ in range(6):
        again()
        text = " ".join(device.answer.all("contact") + device.answer.all("feature-caps"))
        for kind, found in seen.items():
            name = re.search(kind + r'="([^"]*)"', text)
            check(name, f"no {kind} in {text}")
            found.append(name.group(1))
    for kind, found in seen.items():
        check(len(set(found)) == len(found), f"{kind} is the same twice: {found}")
        bodies = [name.split("tgruu.")[-1].split("@")[0] for name in found]
        for one, other in zip(bodies, bodies[1:]):
            same = sum(a == b for a, b in zip(one, other))
            check(same < len(one) / 2, f"{kind}: {one} and {other} are alike")
    uris = [seen["temp-gruu"][0], seen["temp-gruu"][-1]]
    uris += [f"sip:{device.name}@127.0.0.1;pn-purr={purr}" for purr in (seen["pnspurr"][0], seen["pnspurr"][-1])]
    for uri in uris:
        caller = t.phone(trusted=True)
        request = caller.make("INVITE", uri, "700")
        caller.send(request)
        again()
        invite = rings(phone, request, f"for {uri}")
        phone.respond(invite, 486, tag="b")
        check(caller.response(request.call_id, "INVITE").status == 486, "the call has another end")
    # A REGISTER with a new Call-ID makes all earlier temporary GRUUs invalid.
    device.registered(1, agent=phone)
    caller = t.phone(trusted=True)
    answer = caller.exchange(caller.make("OPTIONS", seen["temp-gruu"][-1], "700"))
    check(answer and answer.status == 404, f"a temporary GRUU of an earlier Call-ID got {answer}")


@probe("T27.1", "wake-inside-a-call", "direct")
def inside(t):
    """A phone loses its connection in the middle of a call. A request inside the call wakes the phone, and waits for it."""
    phone = t.stream()
    name, password, token, caller, request, dialog = talking(t, phone)
    phone.reset()
    time.sleep(0.3)
    # A stranger who has seen all messages cannot wake the phone.
    stranger = t.phone()
    forged = dialog.make("BYE", agent=stranger, cseq=7)
    check(stranger.exchange(forged).status == 403, "a stranger ends the call")
    info, bye = dialog.make("INFO", cseq=2), dialog.make("BYE", cseq=3)
    caller.send(info)
    caller.send(bye)
    check(t.suite.provider.wait(token, 2), "no push for what waits")
    back = t.stream()
    check(back.register(name, password, params=pushed(token)).status == 200, "control: the phone cannot come back")
    for sent in (info, bye):
        got = back.request(sent.method, request.call_id)
        check(got, f"the {sent.method} does not reach the phone that came back")
        back.respond(got, 200, tag="b")
        answer = caller.response(request.call_id, sent.method)
        check(answer and answer.status == 200, f"the {sent.method} got {answer}")
    check(len(t.suite.provider.of(token)) == 2, f"{len(t.suite.provider.of(token))} pushes in all")
