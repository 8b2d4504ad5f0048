"""T33: a daemon beside a PBX."""

import http.server
import json
import threading
import time

from daemon import Daemon, QuietServer
from machine import patience
from probes.standards import LARGE
from probes.web import app, register_device
from sip import Dialog, Phone, credentials, fresh
from suite import check, probe

HERE, THERE = "127.0.0.2", "127.0.0.3"


def own_daemon(t, name, settings, pbx_host=None):
    daemon = t.daemon = Daemon(name, t.suite, settings, pbx_host)
    t.suite.daemons[name] = daemon
    return daemon


def called(t, phone, user, body=b"", to="700", method="INVITE"):
    """Sends a call, or another request, from a phone that authenticates by its password. Returns the request that should
    reach the PBX."""
    name, password = user
    request = phone.make(method, f"sip:{to}@example.net", name, body=body)
    answer = phone.exchange(request)
    check(answer and answer.status == 407, f"control: {answer}")
    again = request.renewed().add(*credentials(answer, name, password, method, request.uri))
    phone.send(again)
    return again


def ended(phone, request, statuses, timeout=6.0):
    """Expects the final response of the call at the phone, and acknowledges it."""
    answer = phone.response(request.call_id, "INVITE", timeout)
    check(answer and answer.status in statuses, f"the phone got {answer}")
    phone.send(phone.ack_failure(request, answer))
    return answer


def connected(agent, request):
    """Expects the answer of the call at the caller, and acknowledges it. Returns the caller's dialog."""
    answer = agent.response(request.call_id, "INVITE")
    check(answer and answer.status == 200, f"the caller got {answer}")
    dialog = Dialog.of_caller(agent, request, answer)
    agent.send(dialog.make("ACK", cseq=int(request.get("CSeq").split()[0])))
    return dialog


@probe("T33.1", "calls-leave-from-the-listener")
def leaves_from_the_listener(t):
    """The daemon's machine has several addresses, and SIP uses one that the kernel would not choose."""
    daemon = own_daemon(t, "addresses", {}, "127.2.0.5")
    daemon.host = HERE
    other = t.suite.free_port()
    daemon.values = {"listen": f'["udp:{HERE}:{daemon.port}", "tcp:{HERE}:{daemon.port}", '
                               f'"udp:{THERE}:{other}", "tcp:{THERE}:{other}"]'}
    daemon.start()
    for host, port in ((HERE, daemon.port), (THERE, other), (HERE, daemon.port)):
        phone = t.own(Phone(t.address(), (host, port)))
        user = t.registered(phone)
        request = called(t, phone, user, LARGE)
        got = daemon.pbx.tcp.request("INVITE", request.call_id)
        check(got, "a large INVITE did not come by TCP")
        check(f"/TCP {host}:{port}" in got.get("via"), f"the Via says {got.get('via')}")
        source = got.source.socket.getpeername()[0]
        check(source == host, f"Via names {host}, and the connection comes from {source}")
        got.source.respond(got, 486, tag="p")
        ended(phone, request, [486])
    check(len(daemon.pbx.tcp.streams) == 2, f"{len(daemon.pbx.tcp.streams)} connections for two addresses")
    return "a connection leaves from the address that its Via names, one for each of the two addresses"


@probe("T33.1", "pushes-leave-from-their-source")
def pushes_leave_from_their_source(t):
    t.needs("push.source-address", "api.device-registration.webhook-source-address")
    sources, changed = [], threading.Condition()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            with changed:
                sources.append((self.path, self.client_address[0]))
                changed.notify_all()
            answer = json.dumps({"success": 1, "failure": 0, "results": [{"message_id": "1"}]}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *arguments):
            pass

    server = QuietServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    place = f"http://127.0.0.1:{server.server_address[1]}"
    daemon = own_daemon(t, "sources", {
        "push": {"source-address": THERE, "fcm": {"endpoint": place}},
        "api": {"device-registration": {
            "webhook-source-address": "127.0.0.9", "webhook-receivers": "[127.0.0.1/32]", "webhook-plain-http": True}}})
    daemon.start()
    phone, pbx = t.phone(), t.phone(trusted=True)
    name, _ = t.registered(phone, params=";pn-provider=fcm;pn-param=p;pn-prid=" + fresh("tok"))
    pbx.send(pbx.make("INVITE", f"sip:{name}@example.net"))
    with changed:
        changed.wait_for(lambda: sources, patience(6))
        check(sources, "control: no push came")
        check({source for _, source in sources} == {THERE}, f"the push came from {sources}")
    status = register_device(t, *app(t), "100", place + "/webhook")
    check(status == 202, f"control: a device got {status}")
    with changed:
        changed.wait_for(lambda: any(path == "/webhook" for path, _ in sources), patience(6))
    server.shutdown()
    hooks = {source for path, source in sources if path == "/webhook"}
    check(hooks, "control: no webhook came")
    check(hooks == {"127.0.0.9"}, f"the webhook came from {hooks}")
    return f"a push leaves from {THERE}, a webhook from 127.0.0.9, as the settings say"


@probe("T33.2", "a-503-calls-once")
def a_503_calls_once(t):
    daemon = own_daemon(t, "unavailable", {}, "127.2.0.6")
    pbx = daemon.start().pbx
    phone = t.phone()
    user = t.registered(phone)
    for ring in (False, True):
        request = called(t, phone, user, LARGE)
        got = pbx.tcp.request("INVITE", request.call_id)
        check(got, "a large INVITE did not come by TCP")
        if ring:
            got.source.respond(got, 180, tag="p")
        got.source.respond(got, 503, tag="p", fields=[("Reason", "Q.850;cause=34")])
        ended(phone, request, range(500, 600))
        again = pbx.take(lambda m: m.call_id == request.call_id and m.method == "INVITE", 0.5)
        check(not again, f"the call was made again after 503: {again}")
        again = pbx.tcp.take(lambda m: m.call_id == request.call_id and m.method == "INVITE", 0.2)
        check(not again, f"the call was made again after 503: {again}")
    # A 503 of the PBX is final for a large MESSAGE too.
    message = called(t, phone, user, LARGE, method="MESSAGE")
    got = pbx.tcp.request("MESSAGE", message.call_id)
    check(got, "a large MESSAGE did not come by TCP")
    got.source.respond(got, 503, tag="p")
    check(not pbx.request("MESSAGE", message.call_id, 0.5), "a MESSAGE was sent again after 503")
    return "a 503 of the PBX ends the call: the PBX gets it once"


@probe("T33.3", "large-inside-a-call")
def large_inside_a_call(t):
    """Asterisk writes ;transport=TCP into its Contact after one request of the dialog has come over TCP."""
    daemon = own_daemon(t, "reinvites", {}, "127.2.0.7")
    pbx = daemon.start().pbx
    phone = t.phone()
    user = t.registered(phone)
    request = called(t, phone, user)
    got = pbx.request("INVITE", request.call_id)
    check(got, "control: a small INVITE does not come as a datagram")
    pbx.respond(got, 200, tag="pbx", contact=f"<sip:700@{pbx.local()};transport=TCP>")
    dialog = connected(phone, request)
    check(pbx.tcp.request("ACK", request.call_id, 3), "the ACK does not go where the Contact says")
    for body, what in ((LARGE, "large"), (b"", "small")):
        update = dialog.make("INVITE", body=body)
        phone.send(update)
        got = pbx.tcp.request("INVITE", update.call_id)
        check(got and got.body == body, f"a {what} re-INVITE did not come by TCP: {pbx.request('INVITE', update.call_id, 0.2)}")
        got.source.respond(got, 200, contact=f"<sip:700@{pbx.local()};transport=TCP>")
        answer = phone.response(update.call_id, "INVITE")
        check(answer and answer.status == 200, f"the phone got {answer}")
        phone.send(dialog.make("ACK", cseq=int(update.get("CSeq").split()[0])))
        check(pbx.tcp.request("ACK", request.call_id, 3), "the ACK did not follow")
    check(not pbx.take(lambda m: m.call_id == request.call_id, 0.3), "something of it came as a datagram")
    # A PBX that called over TCP gets its requests over TCP, even if its Contact names no transport.
    trunk, phone = t.stream(trusted=True), t.phone()
    name, _ = t.registered(phone)
    invite = trunk.make("INVITE", f"sip:{name}@example.net", contact=f"<sip:pbx@{trunk.local()}>")
    trunk.send(invite)
    got = phone.request("INVITE", invite.call_id)
    check(got, "control: no INVITE at the phone")
    tag = fresh("t")
    phone.respond(got, 200, tag=tag)
    connected(trunk, invite)
    check(phone.request("ACK", invite.call_id, 3), "control: no ACK")
    bye = Dialog.of_callee(phone, got, tag).make("BYE")
    phone.send(bye)
    came = trunk.request("BYE", bye.call_id, 3)
    check(came, "a BYE left the transport of its dialog")
    trunk.respond(came, 200)
    answer = phone.response(bye.call_id, "BYE")
    check(answer and answer.status == 200, f"the phone got {answer}")
    return "inside a call the Contact's transport counts, whatever the size; without one a peer that came by TCP stays there"


def wait_for(truth, timeout, text):
    limit = time.monotonic() + timeout
    while not truth():
        check(time.monotonic() < limit, text)
        time.sleep(0.05)


@probe("T33.4", "upstream-away")
def upstream_away(t):
    """The PBX's program stops without closing messages, and starts again later."""
    t.needs("upstream-check.interval", "upstream-check.patience")
    daemon = own_daemon(t, "deserted", {"upstream-check": {"interval": "2s", "patience": "1s"}}, "127.2.0.9")
    pbx = daemon.start().pbx
    phone = t.phone()
    user = t.registered(phone)
    wait_for(lambda: pbx.probes > 0, 6, "the PBX is not asked whether it is there")
    request = called(t, phone, user)
    got = pbx.request("INVITE", request.call_id)
    check(got, "control: no INVITE while the PBX is there")
    pbx.respond(got, 486, tag="p")
    ended(phone, request, [486])
    pbx.answers = False
    # The call to the stopped PBX shows the daemon that the PBX does not answer.
    request = called(t, phone, user)
    begin = time.monotonic()
    check(pbx.request("INVITE", request.call_id), "control: no INVITE when the PBX has just gone")
    answer = ended(phone, request, [503], 10)
    first = time.monotonic() - begin
    check(answer.get("retry-after") and "does not answer" in (answer.get("warning") or ""),
          f"the 503 says {answer.get('retry-after')}, {answer.get('warning')}")
    # From now on, the daemon knows that the PBX has stopped.
    request = called(t, phone, user)
    begin = time.monotonic()
    ended(phone, request, [503], 10)
    second = time.monotonic() - begin
    check(second < 5, f"the caller waited {second:.1f} s although it is known that the PBX is away")
    check(not pbx.request("INVITE", request.call_id, 0.3), "a call that was refused went to the PBX")
    wait_for(lambda: any("call refused" in line and "status=503" in line and request.call_id in line
                         for line in daemon.log().splitlines()), 6, "a call that was refused with 503 has no line")
    check(daemon.metric("sippushd_calls_refused_total", reason="upstream-away") >= 1, "a call that was refused with 503 is not counted")
    check("the upstream does not answer" in daemon.log(), "the log does not say that the upstream is away")
    status, text, _ = daemon.http("GET", "/readyz")
    check(status == 200 and json.loads(text)["status"] == "degraded", f"/readyz says {status} {text}")
    check(daemon.metric("sippushd_upstream_up", server=f"{pbx.host}:{pbx.port}") == 0, "the metric does not say so")
    pbx.answers = True
    wait_for(lambda: "the upstream answers again" in daemon.log(), 10, "the PBX is back, and nobody notices")
    check(daemon.metric("sippushd_upstream_up", server=f"{pbx.host}:{pbx.port}") == 1, "the metric does not say that it is back")
    check(json.loads(daemon.http("GET", "/readyz")[1])["status"] == "ready", "/readyz does not say that it is back")
    request = called(t, phone, user)
    got = pbx.request("INVITE", request.call_id)
    check(got, "no call although the PBX is back")
    pbx.respond(got, 200, tag="pbx", contact=f"<sip:700@{pbx.local()}>")
    check(phone.response(request.call_id, "INVITE").status == 200, "the call was not answered")
    return f"the first caller hears 503 after {first:.1f} s, later ones after {second:.1f} s, and calls go through when it is back"


@probe("T33.5", "outgoing-calls-are-told")
def outgoing_calls_are_told(t):
    daemon = own_daemon(t, "calling", {}, "127.2.0.10")
    pbx = daemon.start().pbx
    phone = t.phone()
    user = t.registered(phone)
    number = "7" + fresh("")[-6:].translate(str.maketrans("abcdef", "123456"))
    request = called(t, phone, user, to=number)
    got = pbx.request("INVITE", request.call_id)
    check(got, "control: no INVITE at the PBX")
    pbx.respond(got, 180, "Ringing", tag="pbx")
    check(phone.take(lambda m: m.status == 180 and m.call_id == request.call_id, 3), "control: it does not ring")
    said = daemon.command("explain", number).stdout
    check("not finished yet" in said and "ringing began" in said, f"an active call is not explained: {said}")
    # The call continues after a crash, and has one timeline record.
    daemon.kill()
    daemon.launch()
    got = pbx.request("INVITE", request.call_id, 0.9) or got
    pbx.respond(got, 486, tag="pbx")
    ended(phone, request, [486], 8)
    for name in (number, f"{user[0]}@example.net", request.call_id, phone.host):
        said = daemon.command("explain", name).stdout
        check(f"to sip:{number}@example.net" in said and "refused with 486" in said, f"explain {name}: {said}")
        check(said.count(f"to sip:{number}@example.net") == 1, f"explain {name} shows it twice: {said}")
    check(daemon.metric("sippushd_outgoing_calls_ended_total", outcome="refused") == 1, "it is not counted")
    return "explain finds a phone's call by number, user, Call-ID and address, while it rings and over kill -9"


@probe("T33.6", "advertise-is-tried")
def advertise_is_tried(t):
    """The daemon warns of a name in `advertise` that has no address or another machine's, and accepts a name of its own
    address."""
    lost = own_daemon(t, "nowhere", {"advertise": "nowhere.invalid"}, "127.2.0.11").start()
    wait_for(lambda: "the daemon cannot resolve the host name in the setting 'advertise'" in lost.log(), 15, "the log does not say that advertise leads nowhere")
    found = own_daemon(t, "somewhere", {"advertise": "localhost"}, "127.2.0.12").start()
    wait_for(lambda: "a test request to the address in the setting 'advertise' has reached this daemon" in found.log(), 15, "the daemon does not find itself by its name")
    check("cannot resolve the host name in the setting 'advertise'" not in found.log(), "a good name is called a bad one")
    silent = t.trap(host="127.0.0.1")
    away = own_daemon(t, "astray", {"advertise": f"localhost:{silent.port}"}, "127.2.0.13").start()
    wait_for(lambda: "a test request to the address in the setting 'advertise' did not reach this daemon" in away.log(), 60,
             "the log does not say that advertise leads elsewhere")
    return "a name without an address, and one that leads elsewhere, are warnings; one that leads here is asked by OPTIONS"
