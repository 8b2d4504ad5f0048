"""T36: calls that nobody wakes for."""

from daemon import Daemon
from probes.wake import call, sleeper
from suite import check, probe

BOX = "sip:vm-{{user}}@pbx.example.net"


def own_daemon(t, name, action, pbx_host=None, **settings):
    values = {"call": {"ring-timeout": "2s", "no-wake": {"action": action, "to": BOX}}, **settings}
    daemon = t.daemon = Daemon(name, t.suite, values, pbx_host)
    t.suite.daemons[name] = daemon
    return daemon.start()


@probe("T36.2", "forward-goes-to-the-upstream")
def forward_goes_to_the_upstream(t):
    """Nobody wakes: the INVITE goes to the PBX for the box, and comes back to nobody."""
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
    """A 302 to a phone would have it show its password wherever the URI leads."""
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
