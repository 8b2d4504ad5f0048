"""T33: beside a PBX."""

import http.server
import json
import threading
import time

from daemon import Daemon, QuietServer
from probes.standards import LARGE
from sip import Dialog, Phone, credentials, fresh
from suite import check, probe

HERE, THERE = "127.0.0.2", "127.0.0.3"


def own_daemon(t, name, settings, pbx_host=None):
    daemon = t.daemon = Daemon(name, t.suite, settings, pbx_host)
    t.suite.daemons[name] = daemon
    return daemon


def called(t, phone, user, body=b"", to="700"):
    """A call of a phone that shows its password; gives the request that should reach the PBX."""
    name, password = user
    request = phone.make("INVITE", f"sip:{to}@example.net", name, body=body)
    answer = phone.exchange(request)
    check(answer and answer.status == 407, f"control: {answer}")
    again = request.renewed().add(*credentials(answer, name, password, "INVITE", request.uri))
    phone.send(again)
    return again


@probe("T33.1", "calls-leave-from-the-listener")
def leaves_from_the_listener(t):
    """A machine with several addresses: SIP is spoken at one that is not the kernel's choice."""
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
        answer = phone.response(request.call_id, "INVITE")
        check(answer and answer.status == 486, f"the phone got {answer}")
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
                sources.append(self.client_address[0])
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
    daemon = own_daemon(t, "sources", {"push": {
        "source-address": THERE, "fcm": {"endpoint": f"http://127.0.0.1:{server.server_address[1]}"}}})
    daemon.start()
    phone, pbx = t.phone(), t.phone(trusted=True)
    name, _ = t.registered(phone, params=";pn-provider=fcm;pn-param=p;pn-prid=" + fresh("tok"))
    pbx.send(pbx.make("INVITE", f"sip:{name}@example.net"))
    with changed:
        changed.wait_for(lambda: sources, 6)
    server.shutdown()
    check(sources, "control: no push came")
    check(set(sources) == {THERE}, f"the push came from {sources}")
    return f"a push leaves from {THERE}, as push.source-address says"


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
        answer = phone.response(request.call_id, "INVITE")
        check(answer and answer.status >= 500, f"the phone got {answer}")
        phone.send(phone.ack_failure(request, answer))
        again = pbx.take(lambda m: m.call_id == request.call_id and m.method == "INVITE", 0.5)
        check(not again, f"the call was made again after 503: {again}")
        again = pbx.tcp.take(lambda m: m.call_id == request.call_id and m.method == "INVITE", 0.2)
        check(not again, f"the call was made again after 503: {again}")
    # What is not a call neither.
    name, password = user
    message = phone.make("MESSAGE", "sip:700@example.net", name, body=LARGE)
    answer = phone.exchange(message)
    again = message.renewed().add(*credentials(answer, name, password, "MESSAGE", message.uri))
    phone.send(again)
    got = pbx.tcp.request("MESSAGE", message.call_id)
    check(got, "a large MESSAGE did not come by TCP")
    got.source.respond(got, 503, tag="p")
    check(not pbx.request("MESSAGE", message.call_id, 0.5), "a MESSAGE was sent again after 503")
    return "a 503 of the PBX ends the call: the PBX gets it once"


@probe("T33.3", "large-inside-a-call")
def large_inside_a_call(t):
    """Asterisk writes ;transport=TCP into its Contact as soon as one request of the dialog has come by TCP."""
    daemon = own_daemon(t, "reinvites", {}, "127.2.0.7")
    pbx = daemon.start().pbx
    phone = t.phone()
    user = t.registered(phone)
    request = called(t, phone, user)
    got = pbx.request("INVITE", request.call_id)
    check(got, "control: a small INVITE does not come as a datagram")
    pbx.respond(got, 200, tag="pbx", contact=f"<sip:700@{pbx.local()};transport=TCP>")
    answer = phone.response(request.call_id, "INVITE")
    check(answer and answer.status == 200, f"the phone got {answer}")
    dialog = Dialog.of_caller(phone, request, answer)
    phone.send(dialog.make("ACK", cseq=int(request.get("CSeq").split()[0])))
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
    # A PBX that called over TCP, and whose Contact names no transport, is answered over TCP.
    trunk, phone = t.stream(trusted=True), t.phone()
    name, _ = t.registered(phone)
    invite = trunk.make("INVITE", f"sip:{name}@example.net", contact=f"<sip:pbx@{trunk.local()}>")
    trunk.send(invite)
    got = phone.request("INVITE", invite.call_id)
    check(got, "control: no INVITE at the phone")
    tag = fresh("t")
    phone.respond(got, 200, tag=tag)
    answer = trunk.response(invite.call_id, "INVITE")
    check(answer and answer.status == 200, f"control: the PBX got {answer}")
    trunk.send(Dialog.of_caller(trunk, invite, answer).make("ACK", cseq=1))
    check(phone.request("ACK", invite.call_id, 3), "control: no ACK")
    bye = Dialog.of_callee(phone, got, tag).make("BYE")
    phone.send(bye)
    came = trunk.request("BYE", bye.call_id, 3)
    check(came, "a BYE left the transport of its dialog")
    trunk.respond(came, 200)
    answer = phone.response(bye.call_id, "BYE")
    check(answer and answer.status == 200, f"the phone got {answer}")
    return "inside a call the Contact's transport counts, whatever the size; without one a peer that came by TCP stays there"
