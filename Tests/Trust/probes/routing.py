"""T9.1 to T9.5, T9.9 and T9.10: where requests may go."""

import time

from daemon import Daemon
from sip import Dialog, Listener, Phone, Stream, credentials, fresh
from suite import check, probe


def call(t, name, caller=None, method="INVITE", fields=(), body=b""):
    caller = caller or t.phone(trusted=True)
    request = caller.make(method, f"sip:{name}@example.net", body=body)
    for field, value in fields:
        request.set(field, value)
    caller.send(request)
    return caller, request


def end(caller, request):
    caller.send(caller.cancel(request))


@probe("T9.1", "contact-is-no-order", "direct")
def contact_elsewhere(t):
    """Contacts name a third party, the PBX or loopback. Calls still go to the source address of the REGISTER."""
    third, pbx = t.trap(), t.trap(trusted=True)
    inside = t.trap(host="127.0.0.1")
    targets = {
        "a third party": f"<sip:USER@{third.host}:{third.port}>",
        "the PBX": f"<sip:USER@{pbx.host}:{pbx.port}>",
        "the PBX with a number": f"<sip:0900123456@{pbx.host}:{pbx.port};user=phone>",
        "loopback": f"<sip:USER@127.0.0.1:{inside.port}>",
        "loopback by name": f"<sip:USER@localhost:{inside.port}>",
        "TCP": f"<sip:USER@{third.host}:{third.port};transport=tcp>",
        "maddr": f"<sip:USER@PHONE;maddr={third.host}>",
        "maddr and port": f"<sip:USER@{third.host}:{third.port};maddr={third.host}>",
        "IPv4 in IPv6": f"<sip:USER@[::ffff:{third.host}]:{third.port}>",
        "received": f"<sip:USER@PHONE;received={third.host}:{third.port}>",
        "received in quotes": f'<sip:USER@PHONE>;received="sip:{third.host}:{third.port}"',
        "fs_path": f"<sip:USER@PHONE;fs_path=sip:{third.host}:{third.port}>",
        "alias": f"<sip:USER@PHONE;alias={third.host}~{third.port}~1>",
        "a Route in it": f"<sip:USER@PHONE?Route=%3Csip:{third.host}:{third.port}%3Blr%3E>",
    }
    arrived = 0
    for what, contact in targets.items():
        phone = t.phone()
        name, password = t.daemon.user()
        answer = phone.register(name, password, contact=contact.replace("USER", name).replace("PHONE", phone.local()))
        check(answer is not None, f"{what}: no answer to REGISTER")
        if answer.status != 200:
            continue
        caller, request = call(t, name)
        invite = phone.request("INVITE", request.call_id, 3)
        check(not third.caught() and not pbx.caught() and not inside.caught(),
              f"Contact with {what}: {third.caught() or pbx.caught() or inside.caught()}")
        check(invite, f"Contact with {what}: the phone itself got nothing ({caller.response(request.call_id, timeout=0.5)})")
        check("route" not in dict(invite.fields), f"Contact with {what}: the INVITE has Route {invite.get('route')}")
        phone.respond(invite, 486, tag="b")
        arrived += 1
    check(arrived >= 8, f"control: only {arrived} of {len(targets)} such REGISTERs were accepted")
    return f"{len(targets)} Contacts at other addresses: {arrived} calls came to the source of the REGISTER, none elsewhere"


@probe("T9.1", "dead-connection-goes-nowhere-else", "direct")
def dead_stream_elsewhere(t):
    third, pbx, inside = t.trap(), t.trap(trusted=True), t.trap(host="127.0.0.1")
    for what, trap in (("a third party", third), ("the PBX", pbx), ("loopback", inside)):
        for transport in ("", ";transport=tcp", ";transport=udp"):
            for push in ("", ";pn-provider=fcm;pn-param=p;pn-prid=" + fresh("token")):
                stream = t.stream()
                name, password = t.daemon.user()
                answer = stream.register(name, password, contact=f"<sip:{name}@{trap.host}:{trap.port}{transport}{push}>")
                check(answer is not None, "no answer to REGISTER")
                stream.close()
                if answer.status != 200:
                    continue
                time.sleep(0.15)
                caller, request = call(t, name)
                time.sleep(0.35)
                check(not trap.caught(), f"a dead connection and a Contact at {what}{transport}: {trap.caught()}")
                end(caller, request)
    return "with the TCP connection gone nothing goes to a third party, the PBX or loopback, with push and without"


@probe("T9.1", "flow-of-the-registration", "direct")
def own_flow(t):
    stream = t.stream()
    name, _ = t.registered(stream)
    caller, request = call(t, name)
    invite = stream.request("INVITE", request.call_id)
    check(invite, "control: the INVITE did not come on the connection of the REGISTER")
    stream.respond(invite, 486, tag="b")
    phone = t.phone()
    name, _ = t.registered(phone, contact="<sip:USER@10.99.99.99:5060>")
    caller, request = call(t, name)
    invite = phone.request("INVITE", request.call_id)
    check(invite, "behind a NAT (private Contact) the INVITE did not come to the source of the REGISTER")
    check("10.99.99.99" in invite.uri, f"the Request-URI is not the Contact: {invite.uri}")
    phone.respond(invite, 486, tag="b")
    return "TCP: the connection of the REGISTER; UDP: its source, with the Contact as Request-URI"


@probe("T9.2", "asleep-is-pushed", "direct")
def asleep(t):
    token = fresh("token")
    stream = t.stream()
    name, password = t.registered(stream, params=f";pn-provider=fcm;pn-param=p;pn-prid={token}")
    stream.reset()
    time.sleep(0.2)
    caller, request = call(t, name)
    check(t.suite.provider.wait(token), "the sleeping phone was not pushed")
    check(not caller.response(request.call_id, "INVITE", 0.9), "the caller got a final answer while the phone was waking")
    again = t.stream()
    answer = again.register(name, password, params=f";pn-provider=fcm;pn-param=p;pn-prid={token}")
    check(answer and answer.status == 200, f"control: {answer}")
    invite = again.request("INVITE", request.call_id)
    check(invite, "the woken phone got no INVITE")
    again.respond(invite, 200, tag="b")
    answer = caller.response(request.call_id, "INVITE")
    check(answer and answer.status == 200, f"the caller got {answer}")
    return "connection reset, call: push, held, and the INVITE on the new connection"


@probe("T9.2", "new-connection-to-the-source", "direct")
def new_connection(t):
    host = t.address()
    listener = t.own(Listener(host, 0))
    stream = t.stream(host)
    name, password = t.daemon.user()
    other = t.trap()
    answer = stream.register(name, password, contact=f"<sip:{name}@{other.host}:{listener.port};transport=tcp>")
    check(answer and answer.status == 200, f"control: {answer}")
    stream.close()
    time.sleep(0.2)
    caller, request = call(t, name)
    invite = listener.request("INVITE", request.call_id, 4)
    check(invite, f"no new connection to the Contact's port at the REGISTER's address ({caller.response(request.call_id, timeout=0.5)})")
    check(not other.caught(), f"the Contact's own address got {other.caught()}")
    end(caller, request)
    return "without push: a new connection to the Contact's port at the source address of the REGISTER"


@probe("T20.4", "back-to-the-source", "direct")
def dialog_to_the_source(t):
    """A request inside a call goes where a new call goes: to the Contact's port at the REGISTER's source address, for a
    phone without push."""
    host = t.address()
    listener = t.own(Listener(host, 0))
    stream = t.stream(host)
    name, password = t.daemon.user()
    other = t.trap()
    contact = f"<sip:{name}@{other.host}:{listener.port};transport=tcp>"
    answer = stream.register(name, password, contact=contact)
    check(answer and answer.status == 200, f"control: {answer}")
    caller, request = call(t, name)
    invite = stream.request("INVITE", request.call_id)
    check(invite, "control: no INVITE on the connection of the REGISTER")
    stream.respond(invite, 200, tag="b", contact=contact)
    answer = caller.response(request.call_id, "INVITE")
    check(answer and answer.status == 200, f"control: the caller got {answer}")
    dialog = Dialog.of_caller(caller, request, answer)
    caller.send(dialog.make("ACK", cseq=1))
    check(stream.request("ACK", request.call_id, 3), "control: no ACK on the connection of the REGISTER")
    stream.reset()
    time.sleep(0.2)
    bye = dialog.make("BYE")
    caller.send(bye)
    got = listener.request("BYE", bye.call_id, 4)
    check(got, f"the BYE did not come on a new connection ({caller.response(bye.call_id, 'BYE', 0.5)})")
    got.source.respond(got, 200)
    answer = caller.response(bye.call_id, "BYE")
    check(answer and answer.status == 200, f"the answer to the BYE: {answer}")
    # No connection is opened to a phone with a push token; the phone is woken, and the request waits for it (T27).
    sleepy = t.stream(host)
    sleepy_name, _ = t.registered(
        sleepy, contact=f"<sip:USER@{host}:{listener.port};transport=tcp;pn-provider=fcm;pn-param=p;pn-prid={fresh('token')}>")
    caller, request = call(t, sleepy_name)
    time.sleep(0.2)
    sleepy.send(b"\r\n\r\n")
    invite = sleepy.request("INVITE", request.call_id)
    check(invite, "control: no INVITE after a keep-alive")
    sleepy.respond(invite, 200, tag="s")
    answer = caller.response(request.call_id, "INVITE")
    check(answer and answer.status == 200, f"control: the caller got {answer}")
    dialog = Dialog.of_caller(caller, request, answer)
    caller.send(dialog.make("ACK", cseq=1))
    sleepy.request("ACK", request.call_id, 3)
    sleepy.reset()
    time.sleep(0.2)
    bye = dialog.make("BYE")
    caller.send(bye)
    answer = caller.response(bye.call_id, "BYE", 22)
    check(answer and answer.status == 480, f"a BYE to a phone with push that does not come: {answer}")
    check(not listener.request("BYE", bye.call_id, 0.3), "a connection was opened to a phone with push")
    check(not other.caught(), f"the Contact's own address got {other.caught()}")
    return "BYE after the connection was reset: without push on a new connection to the source of the REGISTER, with push 480 when it has not come in 20 s"


@probe("T9.3", "path", "direct")
def path(t):
    trap = t.trap()
    tricks = [[("Path", f"<sip:{trap.host}:{trap.port};lr>")], [("PATH", f"<sip:{trap.host}:{trap.port};lr>")],
              [("Path ", f"<sip:{trap.host}:{trap.port};lr>")], [("Path", f"\r\n <sip:{trap.host}:{trap.port};lr>")],
              [("path", f"<sip:127.0.0.1:{t.daemon.port};lr>")], [("Path", "")]]
    for fields in tricks:
        phone = t.phone()
        name, password = t.daemon.user()
        answer = phone.register(name, password, fields=fields + [("Supported", "path")])
        empty = fields[0][1] == ""
        check(answer and (answer.status in (400, 403) or empty), f"a phone's {fields}: {answer and answer.start}")
        if answer.status == 200:
            caller, request = call(t, name)
            time.sleep(0.3)
            end(caller, request)
    check(not trap.caught(), f"the Path of a phone was followed: {trap.caught()}")
    # A trusted edge proxy registers for a phone behind it.
    edge = t.phone(trusted=True)
    name, password = t.daemon.user()
    answer = edge.register(name, password, contact=f"<sip:{name}@10.1.2.3:5060>",
                           fields=[("Path", f"<sip:edge@{edge.local()};lr>"), ("Supported", "path")])
    check(answer and answer.status == 200, f"a trusted edge's Path: {answer and answer.start}")
    check("edge@" in (answer.get("path") or ""), f"the Path is not in the answer: {answer.fields}")
    caller, request = call(t, name)
    invite = edge.request("INVITE", request.call_id)
    check(invite, "the edge got no INVITE")
    check("edge@" in (invite.get("route") or ""), f"the INVITE has no Route of the Path: {invite.fields}")
    edge.respond(invite, 486, tag="b")
    return f"{len(tricks)} spellings of a phone's own Path are refused; that of a trusted edge is followed"


@probe("T9.3", "route-of-the-pbx", "direct")
def further_route(t):
    """The PBX routes a call through the daemon and an edge proxy. The edge proxy gets the call, even if the phone has a
    connection of its own."""
    edge, caller = t.phone(trusted=True), t.phone(trusted=True)
    ours, further = f"<sip:127.0.0.1:{t.daemon.port};lr>", f"<sip:{edge.local()};lr>"
    for gone in (False, True):
        phone = t.stream()
        name, _ = t.registered(phone)
        if gone:
            phone.close()
            time.sleep(0.2)
        _, request = call(t, name, caller, fields=[("Route", f"{ours}, {further}")])
        invite = edge.request("INVITE", request.call_id, 3)
        check(invite, f"the edge got no INVITE ({caller.response(request.call_id, timeout=0.3)})")
        check(invite.uri.startswith(f"sip:{name}@") and "example.net" not in invite.uri, f"with the Request-URI {invite.uri}")
        check(invite.routes("route") == [further], f"with the Route {invite.all('route')}")
        edge.respond(invite, 486, tag="e")
        answer = caller.response(request.call_id, "INVITE", 3)
        check(answer and answer.status == 486, f"the caller got {answer}")
        check(gone or not phone.request("INVITE", request.call_id, 0.2), "the phone got the INVITE as well")
    stranger = t.trap()
    phone = t.phone()
    name, password = t.registered(phone)
    caller = t.phone()
    user = t.registered(caller)
    request = caller.make("INVITE", f"sip:{name}@example.net", user[0], fields=[("Route", f"<sip:{stranger.host}:{stranger.port};lr>")])
    caller.send(request)
    again = request.renewed().add(*credentials(caller.response(request.call_id), *user, "INVITE", request.uri))
    caller.send(again)
    invite = phone.request("INVITE", request.call_id, 3)
    check(invite and not invite.get("route") and not stranger.caught(), f"a phone's Route was followed: {invite and invite.fields} {stranger.caught()}")
    phone.respond(invite, 486, tag="b")
    return "a Route of the PBX beyond us decides the next hop, with the phone's connection there and gone; a phone's does not"


@probe("T9.4", "not-to-our-own-listeners", "direct", alone=True)
def own_listeners(t):
    """A phone registers from the daemon's own address, with the daemon's own port in its Contact."""
    name, password = t.daemon.user()
    stream = t.stream("127.0.0.1")
    answer = stream.register(name, password, contact=f"<sip:{name}@127.0.0.1:{t.daemon.port};transport=tcp>")
    check(answer is not None, "no answer to REGISTER")
    stream.close()
    api = t.daemon.user()
    second = t.stream("127.0.0.1")
    second.register(*api, contact=f"<sip:{api[0]}@127.0.0.1:{t.daemon.admin_port};transport=tcp>")
    second.close()
    time.sleep(0.2)
    results = []
    for user in (name, api[0]):
        refused = t.daemon.metric("sippushd_http_refused_total")
        caller, request = call(t, user)
        answer = caller.response(request.call_id, "INVITE", 10)
        check(answer and answer.status >= 400, f"a Contact at our own listener: {answer and answer.start}")
        check(answer.status != 482 and answer.status != 483, f"the INVITE came back to us: {answer.start}")
        after = t.daemon.metric("sippushd_http_refused_total")
        check(after == refused, "the INVITE was sent to our own HTTP listener")
        results.append(answer.status)
    return f"Contacts at our SIP and HTTP listeners from our own address: the caller gets {results}, nothing comes back to us"


@probe("T9.4", "not-to-trusted-on-a-phones-word", "digest")
def not_to_trusted(t):
    """A phone with a password names a trusted peer that is not the upstream, in every header field that it can write."""
    peer = t.trap(trusted=True)
    phone = t.phone()
    name, password = t.registered(phone)
    place = f"{peer.host}:{peer.port}"
    cases = [
        (f"sip:0900123@{place}", []), (f"sip:0900123@example.net;maddr={peer.host}", []), (f"sip:0900123@{place};transport=tcp", []),
        ("sip:0900123@example.net", [("Route", f"<sip:{place};lr>")]),
        ("sip:0900123@example.net", [("Route", f"<sip:127.0.0.1:{t.daemon.port};lr>, <sip:{place};lr>")]),
        (f"sip:127.0.0.1:{t.daemon.port};lr", [("Route", f"<sip:{place};lr>")]),
    ]
    for uri, fields in cases:
        for method in ("INVITE", "MESSAGE", "OPTIONS", "BYE"):
            request = phone.make(method, uri, name, fields=fields)
            answer = phone.exchange(request, 1.0)
            if answer and answer.status in (401, 407):
                again = request.renewed()
                again.add(*credentials(answer, name, password, method, uri))
                phone.send(again)
            got = t.daemon.pbx.request(method, request.call_id, 0.1)
            if got:
                t.daemon.pbx.respond(got, 486, tag="b")
    time.sleep(0.4)
    check(not peer.caught(), f"a trusted peer that is not the upstream got {peer.caught()[:3]}")
    return f"{len(cases)} ways to name a trusted peer, by 4 methods: it got nothing"


@probe("T9.5", "preloaded-route", "digest")
def preloaded(t):
    third = t.trap()
    phone = t.phone()
    name, password = t.registered(phone)
    own = f"<sip:127.0.0.1:{t.daemon.port};lr>"
    away = f"<sip:{third.host}:{third.port};lr>"
    routes = [[own], [away], [own + ", " + away], [own + "," + own], [own, own, away], [away, own],
              [own.replace("sip:", "sip:x@"), away], [f"<sip:example.net;lr>, {away}"],
              [f"<sip:{third.host}:{third.port}>"]]
    arrived = 0
    for route in routes:
        request = phone.make("INVITE", "sip:700@example.net", name, fields=[("Route", value) for value in route])
        answer = phone.exchange(request, 2)
        if answer and answer.status in (401, 407):
            again = request.renewed()
            again.add(*credentials(answer, name, password, "INVITE", request.uri))
            phone.send(again)
        got = t.daemon.pbx.request("INVITE", request.call_id, 0.8)
        if got:
            arrived += 1
            t.daemon.pbx.respond(got, 486, tag="b")
            check(got.get("route") is None, f"Route {route}: the PBX got Route {got.get('route')}")
            check(got.uri.startswith("sip:700@"), f"Route {route}: the PBX got {got.uri}")
    check(arrived >= 2, f"control: {arrived} calls with a preloaded Route arrived")
    check(not third.caught(), f"a Route led to {third.caught()}")
    return f"{len(routes)} preloaded Routes, with our address once, twice and not at all: {arrived} calls arrived, without Route; nothing went elsewhere"


@probe("T9.5", "only-upstream-or-our-users", "digest")
def no_open_relay(t):
    third = t.trap()
    stranger = t.phone()
    place = f"{third.host}:{third.port}"
    for method in ("INVITE", "MESSAGE", "OPTIONS", "SUBSCRIBE", "BYE", "ACK", "CANCEL", "REFER", "NOTIFY", "FOO"):
        for uri in (f"sip:x@{place}", f"sip:{place}", f"sip:x@example.net;maddr={third.host}", f"sip:x@{place};transport=tcp"):
            for fields in ([], [("Route", f"<sip:{place};lr>")], [("Route", f"<sip:127.0.0.1:{t.daemon.port};lr>, <sip:{place};lr>")]):
                request = stranger.make(method, uri, fields=fields)
                stranger.send(request)
                got = t.daemon.pbx.take(lambda m: m.call_id == request.call_id, 0)
                check(not got, f"a stranger's {method} {uri} reached the PBX")
    time.sleep(1)
    reached = [m for m in t.daemon.pbx.history if m.call_id in {a.call_id for a in stranger.history}]
    check(not third.caught() and not reached, f"a stranger's request was relayed: {third.caught()[:3]} {reached[:3]}")
    check(len(stranger.history) > 20, "control: the stranger got no answers")
    return "120 requests of a stranger to other hosts, by Request-URI, maddr and Route: relayed nowhere"


@probe("T9.9", "sips-not-unprotected", "direct")
def sips(t):
    phone = t.phone()
    name, password = t.registered(phone)
    warned = 0
    for uri in (f"sips:{name}@example.net", f"SIPS:{name}@example.net", f"sips:{name}@example.net;transport=udp"):
        for trusted in (True, False):
            caller = t.phone(trusted=trusted)
            request = caller.make("INVITE", uri, to=uri)
            answer = caller.exchange(request, 3)
            check(answer is not None and answer.status >= 400, f"{uri}: {answer and answer.start}")
            if trusted:
                check(answer.status == 480, f"{uri} from the PBX: {answer.start} instead of 480")
                check(answer.get("warning"), "480 without Warning")
                warned += 1
            check(not phone.request("INVITE", request.call_id, 0.3), f"{uri} was sent over UDP")
    caller, request = call(t, name)
    invite = phone.request("INVITE", request.call_id)
    check(invite, "control: sip: does not arrive")
    phone.respond(invite, 486, tag="b")
    return f"sips: from the PBX is {warned} times 480 with a Warning, and never sent over UDP"


@probe("T9.10", "connection-reuse")
def reuse(t):
    """A PBX that sends `alias` gets its calls on the connection that it opened. An untrusted peer gets no calls by
    writing `alias` into its Via."""
    pbx = t.own(Listener(t.address(trusted=True), t.suite.free_port()))
    place = f"{pbx.host}:{pbx.port}"
    daemon = t.daemon = Daemon("alias", t.suite, {"upstream": f"sip:{place};transport=tcp"})
    t.suite.daemons["alias"] = daemon.start()
    phone = t.phone()
    name, password = t.registered(phone)

    def says_alias(stream):
        request = stream.make("OPTIONS", "sip:example.net")
        request.set("Via", f"SIP/2.0/TCP {place};branch={fresh('z9hG4bK')};alias")
        answer = stream.exchange(request)
        check(answer and answer.status == 200, f"control: {answer}")

    def called():
        request = phone.make("INVITE", "sip:700@example.net", name)
        answer = phone.exchange(request)
        check(answer and answer.status == 407, f"control: {answer}")
        phone.send(request.renewed().add(*credentials(answer, name, password, "INVITE", request.uri)))
        return request

    trunk, stranger = t.stream(host=pbx.host), t.stream()
    says_alias(stranger)
    says_alias(trunk)
    request = called()
    invite = trunk.request("INVITE", request.call_id)
    check(invite, "the call is not on the connection that the PBX has opened")
    check(not pbx.streams, "a connection was made all the same")
    trunk.respond(invite, 486, tag="pbx")
    check(phone.response(request.call_id, "INVITE").status == 486, "control: the call does not end")
    trunk.close()
    time.sleep(0.3)
    says_alias(stranger)
    request = called()
    check(pbx.request("INVITE", request.call_id), "no call by a connection of our own when that has ended")
    check(not stranger.history or not stranger.request("INVITE", request.call_id, 0.3), "a stranger has got the PBX's call")


@probe("T9.9", "sips-upstream", "digest")
def sips_upstream(t):
    phone = t.phone()
    name, password = t.registered(phone)
    request = phone.make("INVITE", "sips:700@example.net", name)
    answer = phone.exchange(request, 3)
    if answer and answer.status in (401, 407):
        again = request.renewed()
        again.add(*credentials(answer, name, password, "INVITE", request.uri))
        answer = phone.exchange(again, 3)
    got = t.daemon.pbx.request("INVITE", request.call_id, 0.5)
    check(not got, "sips: went to the PBX over UDP")
    check(answer and answer.status == 480 and answer.get("warning"), f"sips: from a proved phone got {answer and answer.start}")
    return "a proved phone's sips: does not go to the PBX over UDP: 480 with a Warning"


@probe("T22.5", "cancel-from-elsewhere", "digest")
def cancel_from_elsewhere(t):
    """A CANCEL with the INVITE's Via branch, but from another address, must not end a call."""
    token = fresh("token")
    phone, caller = t.phone(), t.phone(trusted=True)
    name, password = t.registered(phone, params=f";pn-provider=fcm;pn-param=p;pn-prid={token}")
    request = caller.make("INVITE", f"sip:{name}@example.net")
    caller.send(request)
    check(t.suite.provider.wait(token), "control: no push")
    for host in (t.address(), t.address()):
        stranger = t.phone(host)
        cancel = caller.cancel(request)
        stranger.send(cancel)
        answer = stranger.response(request.call_id, "CANCEL", 1)
    final = caller.response(request.call_id, "INVITE", 0.9)
    check(final is None, f"a CANCEL from another address ended the call: {final}")
    answer = phone.register(name, password, params=f";pn-provider=fcm;pn-param=p;pn-prid={token}")
    invite = phone.request("INVITE", request.call_id)
    check(invite, "control: the call is gone")
    phone.respond(invite, 486, tag="b")
    return "a CANCEL with the right branch from another address does not end a held call"


@probe("T9.20", "answer-by-the-next-connection", "digest")
def next_connection(t):
    """A phone whose connection has ended may answer on a new connection from the same address, and from no other."""
    token = fresh("token")
    phone, caller = t.stream(), t.phone(trusted=True)
    name, password = t.registered(phone, params=f";pn-provider=fcm;pn-param=p;pn-prid={token}")
    caller, request = call(t, name, caller)
    check(t.suite.provider.wait(token), "control: no push")
    answer = phone.register(name, password, params=f";pn-provider=fcm;pn-param=p;pn-prid={token}")
    check(answer and answer.status == 200, f"control: {answer}")
    invite = phone.request("INVITE", request.call_id)
    check(invite, "control: no INVITE at the phone")
    phone.respond(invite, 180, tag="b")
    check(caller.take(lambda m: m.call_id == request.call_id and m.status == 180, 3), "control: no 180")
    phone.reset()
    time.sleep(0.3)
    eve = t.stream()
    t.registered(eve)
    for what, agent in (
            ("another port", t.stream(phone.host)), ("another address", t.stream()), ("another user's phone", eve),
            ("a datagram from that place", t.phone(phone.host, port=phone.port))):
        agent.respond(invite, 200, tag="eve")
        heard = caller.take(lambda m: m.is_response and m.call_id == request.call_id and m.status >= 200, 0.5)
        check(heard is None, f"{what}: the caller hears {heard} of somebody who has seen the branch")
    back = t.stream(phone.host, port=phone.port)
    back.respond(invite, 200, tag="b")
    answer = caller.response(request.call_id, "INVITE")
    check(answer and answer.status == 200 and answer.tag("to") == "b", f"the phone's own answer by its next connection: {answer}")
    caller.send(Dialog.of_caller(caller, request, answer).make("ACK", cseq=1))
    return "200 by the next connection from the same port; nothing from another port, another address, another user or UDP"


@probe("T9.20", "responses-from-elsewhere", "digest")
def responses_from_elsewhere(t):
    """The right Via branch is not enough: a response is accepted only from the target of its request."""
    # First, a call to a phone.
    token = fresh("token")
    phone, caller = t.phone(), t.phone(trusted=True)
    name, password = t.registered(phone, params=f";pn-provider=fcm;pn-param=p;pn-prid={token}")
    caller, request = call(t, name, caller)
    check(t.suite.provider.wait(token), "control: no push")
    phone.register(name, password, params=f";pn-provider=fcm;pn-param=p;pn-prid={token}")
    invite = phone.request("INVITE", request.call_id)
    check(invite, "control: no INVITE at the phone")
    eve = t.phone()
    t.registered(eve)
    beside = t.phone(phone.host)
    over_tcp = t.stream(phone.host)
    refused = t.daemon.metric("sippushd_sip_rejected_total", reason="response-from-elsewhere")
    for agent in (t.phone(), eve, beside, over_tcp, t.phone(trusted=True)):
        for status in (180, 200, 603):
            agent.respond(invite, status, tag="eve")
    heard = caller.take(lambda m: m.is_response and m.call_id == request.call_id and m.status != 100, 0.9)
    check(heard is None, f"the caller hears {heard} of somebody who has seen the branch")
    counted = t.daemon.metric("sippushd_sip_rejected_total", reason="response-from-elsewhere") - refused
    check(counted >= 15, f"{counted} refused responses are counted")
    check("it did not come from the address to which the daemon sent the request" in t.daemon.log(), "the log says nothing of it")
    phone.respond(invite, 200, tag="b")
    answer = caller.response(request.call_id, "INVITE")
    check(answer and answer.status == 200 and answer.tag("to") == "b", f"the phone's own answer: {answer}")
    caller.send(Dialog.of_caller(caller, request, answer).make("ACK", cseq=1))

    # The second part tests a call to the PBX, which may answer from another port of its address, or on its own connection.
    pbx = t.daemon.pbx
    for what, answering in (("its port", pbx), ("another port", t.phone(pbx.host)), ("a connection", t.stream(pbx.host))):
        request = phone.make("INVITE", "sip:900@example.net", name)
        first = phone.exchange(request, 3)
        check(first and first.status == 407, f"control: {first}")
        again = request.renewed()
        again.add(*credentials(first, name, password, "INVITE", again.uri))
        phone.send(again)
        invite = pbx.request("INVITE", again.call_id)
        check(invite, "control: no INVITE at the PBX")
        t.phone().respond(invite, 200, tag="eve")
        eve.respond(invite, 603, tag="eve")
        heard = phone.take(lambda m: m.is_response and m.call_id == again.call_id and m.status != 100, 0.5)
        check(heard is None, f"the phone hears {heard} of somebody who has seen the branch")
        answering.respond(invite, 486, tag="p")
        final = phone.response(again.call_id, "INVITE")
        check(final and final.status == 486, f"an answer of the PBX from {what}: {final}")
        phone.send(phone.ack_failure(again, final))
    return "15 forged responses at a phone and 6 at the PBX change nothing; the PBX may use another port or connection"
