"""T24: TLS and WebSocket."""

import os
import re
import signal
import socket
import ssl
import struct
import subprocess
import threading
import time

from daemon import Daemon
from edge import Authority, SecureStream, WebSocket, connected, context, Sealed
from machine import patience
from probes.wake import call, pushed, sleeper
from sip import Dialog, Listener, Stream, fresh
from suite import Failed, check, probe


def secure(t, trusted=False, host=None, **options):
    return t.own(SecureStream(host or t.address(trusted), (t.daemon.host, t.daemon.tls_port), **options))


def browser(t, is_secure=False, host=None, **options):
    port = t.daemon.wss_port if is_secure else t.daemon.ws_port
    return t.own(WebSocket(host or t.address(), (t.daemon.host, port), secure=is_secure, **options))


KINDS = {"tls": secure, "ws": browser, "wss": lambda t, **options: browser(t, True, **options)}


def talk(t, caller, request, phone):
    """Runs a call from the INVITE at the phone to the call's end."""
    invite = phone.request("INVITE", request.call_id)
    check(invite, "no INVITE at the phone")
    via = invite.get("via")
    check(f"SIP/2.0/{phone.transport} " in via, f"the Via says {via}")
    check(b"pn-" not in invite.raw, "the INVITE shows push parameters")
    phone.respond(invite, 180, "Ringing", tag="callee")
    check(caller.take(lambda m: m.status == 180, 5), "the caller hears no 180")
    phone.respond(invite, 200, "OK", tag="callee")
    answer = caller.response(request.call_id, "INVITE")
    check(answer and answer.status == 200, f"the caller got {answer}")
    of_caller = Dialog.of_caller(caller, request, answer)
    caller.send(of_caller.make("ACK", cseq=1))
    check(phone.request("ACK", request.call_id), "no ACK at the phone")
    # The phone ends the call along its route.
    bye = Dialog.of_callee(phone, invite, "callee").make("BYE")
    phone.send(bye)
    at_caller = caller.request("BYE", request.call_id)
    check(at_caller, "no BYE at the caller")
    caller.respond(at_caller, 200, "OK")
    ended = phone.response(request.call_id, "BYE")
    check(ended and ended.status == 200, f"the BYE got {ended}")


def wakes(kind):
    def run(t):
        make = KINDS[kind]
        phone, name, password, token = sleeper(t, make(t))
        phone.close()
        time.sleep(0.3)
        caller, request = call(t, name)
        check(t.suite.provider.wait(token), "no push")
        again = make(t)
        answer = again.register(name, password, params=pushed(token))
        check(answer and answer.status == 200, f"the phone's return got {answer}")
        talk(t, caller, request, again)
        # The phone is awake, so the INVITE goes to its connection immediately.
        caller, request = call(t, name)
        invite = again.request("INVITE", request.call_id)
        check(invite, "no second INVITE")
        again.respond(invite, 180, "Ringing", tag="c")
        check(caller.take(lambda m: m.status == 180, 5), "the caller hears no second 180")
        caller.send(caller.cancel(request))
        check(again.request("CANCEL", request.call_id), "no CANCEL at the phone")
        again.respond(invite, 487, tag="c")
        check(caller.response(request.call_id, "INVITE").status == 487, "the cancelled call has another end")
    return run


def moves(kind):
    def run(t):
        """A phone whose connection breaks while it rings gets the call on its next connection, and only once."""
        make = KINDS[kind]
        phone, name, password, token = sleeper(t, make(t))
        caller, request = call(t, name)
        check(t.suite.provider.wait(token), "no push")
        answer = phone.register(name, password, params=pushed(token))
        check(answer and answer.status == 200, f"the phone's return got {answer}")
        invite = phone.request("INVITE", request.call_id)
        check(invite, "no INVITE at the phone")
        phone.respond(invite, 180, tag="b")
        phone.close()
        time.sleep(0.3)
        again = make(t)
        answer = again.register(name, password, params=pushed(token))
        check(answer and answer.status == 200, f"the phone's second return got {answer}")
        invite = again.request("INVITE", request.call_id)
        check(invite, "no INVITE on the next connection")
        check(not again.request("INVITE", request.call_id, 0.7), "the INVITE came twice")
        again.respond(invite, 200, tag="b")
        answer = caller.response(request.call_id, "INVITE")
        check(answer and answer.status == 200, f"the caller got {answer}")
        check(len(t.suite.provider.of(token)) == 1, "the phone was woken twice")
    return run


def misses(kind):
    def run(t):
        """A phone that returns gets a push about a call that was cancelled while it slept."""
        make = KINDS[kind]
        phone, name, password, token = sleeper(t, make(t))
        phone.close()
        time.sleep(0.3)
        for user in ("700", "701"):
            caller, request = call(t, name, user=user)
            check(caller.take(lambda m: m.status == 100, 5), "no 100")
            time.sleep(0.2)
            caller.send(caller.cancel(request))
            answer = caller.response(request.call_id, "INVITE")
            check(answer and answer.status == 487, f"the cancelled call got {answer}")
        before = len(t.suite.provider.of(token))
        again = make(t)
        answer = again.register(name, password, params=pushed(token))
        check(answer and answer.status == 200, f"the phone's return got {answer}")
        check(t.suite.provider.wait(token, before + 1), "no push of missed calls")
        told = str(t.suite.provider.of(token)[-1])
        check("700" in told and "701" in told, f"the push tells {told}")
        check(not again.request("INVITE", timeout=0.7), "a call that is over reaches the phone")
    return run


for kind in KINDS:
    probe("T24", f"{kind}-wakes-and-rings", "edge")(wakes(kind))
    probe("T24", f"{kind}-moves", "edge")(moves(kind))
    probe("T24", f"{kind}-misses", "edge")(misses(kind))


@probe("T24.1", "old-tls-is-refused", "edge")
def old_tls(t):
    target = f"{t.daemon.host}:{t.daemon.tls_port}"

    def works(*options):
        done = subprocess.run(["openssl", "s_client", "-connect", target, "-quiet", *options], input=b"", timeout=20,
                              capture_output=True)
        return done.returncode == 0

    check(works("-tls1_2") and works("-tls1_3"), "control: TLS 1.2 and 1.3 do not work")
    low = ["-cipher", "ALL:@SECLEVEL=0"]
    check(not works("-tls1_1", *low) and not works("-tls1", *low), "TLS 1.1 or 1.0 is spoken")
    for cipher in ("AES128-SHA", "AES256-GCM-SHA384", "ECDHE-ECDSA-AES128-SHA"):
        check(not works("-tls1_2", "-cipher", cipher + ":@SECLEVEL=0"), f"{cipher} is spoken")


@probe("T24.1", "no-renegotiation", "edge")
def renegotiation(t):
    child = subprocess.Popen(
        ["openssl", "s_client", "-connect", f"{t.daemon.host}:{t.daemon.tls_port}", "-tls1_2"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    time.sleep(1)
    child.stdin.write(b"R\n")
    child.stdin.flush()
    time.sleep(1)
    child.stdin.close()
    text = child.stdout.read().decode("utf-8", "replace")
    child.wait(10)
    check("Secure Renegotiation IS supported" in text or "RENEGOTIATING" in text, f"control: {text[-300:]}")
    check("no renegotiation" in text.lower(), f"it was renegotiated: {text[-300:]}")


@probe("T24.1", "what-is-no-tls", "edge")
def not_tls(t):
    """Plain SIP on the TLS port, or a TLS handshake on the TCP port, gets no answer, and the connection ends soon."""
    for port, first in ((t.daemon.tls_port, b"OPTIONS sip:example.net SIP/2.0\r\nContent-Length: 0\r\n\r\n"),
                        (t.daemon.port, b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + t.random.randbytes(500))):
        with connected(t.address(), (t.daemon.host, port)) as plain:
            plain.sendall(first)
            plain.settimeout(12)
            answer = b""
            try:
                while some := plain.recv(4096):
                    answer += some
            except ConnectionError:
                pass
            except TimeoutError:
                raise Failed(f"port {port} kept the connection")
            check(b"SIP/2.0 2" not in answer, f"port {port} answered {answer!r}")


@probe("T24.1", "half-a-handshake", "edge")
def half(t):
    with connected(t.address(), (t.daemon.host, t.daemon.tls_port)) as plain:
        plain.sendall(b"\x16\x03\x01")
        plain.settimeout(15)
        begin = time.monotonic()
        try:
            check(plain.recv(100) == b"", "an answer to half a greeting")
        except ConnectionError:
            pass
        return f"closed after {time.monotonic() - begin:.1f} s"


@probe("T24.2", "certificate-by-name", "edge")
def names(t):
    authority = t.daemon.authority
    for name in ("sip.example.net", "sip.example.org"):
        phone = secure(t, made=context(authority), name=name)
        shown = phone.socket.certificate
        check(("DNS", name) in shown["subjectAltName"], f"for {name} it shows {shown}")
        check(phone.socket.protocol == "sip/2", "no ALPN")
    try:
        secure(t, made=context(authority), name="sip.example.com")
    except OSError as error:
        check("Hostname mismatch" in str(error), str(error))
    else:
        raise Failed("a certificate for a name that it does not have")


@probe("T24.2", "tickets", "edge")
def tickets(t):
    made = context(t.daemon.authority)
    made.maximum_version = ssl.TLSVersion.TLSv1_2
    first = secure(t, made=made)
    session = first.socket.session
    check(session.has_ticket, "no session ticket")
    first.close()
    before = t.daemon.metric("sippushd_tls_handshakes_total", outcome="resumed")
    second = secure(t, made=made, session=session)
    check(second.socket.is_resumed, "the ticket is not taken")
    answer = second.exchange(second.make("OPTIONS", "sip:example.net"))
    check(answer and answer.status == 200, f"{answer}")
    check(t.daemon.metric("sippushd_tls_handshakes_total", outcome="resumed") > before, "it is not counted")


@probe("T24.3", "renewed-certificate", alone=True)
def renewed(t):
    """On SIGHUP, the daemon loads new certificate files. Connections stay open, and a broken file changes nothing."""
    daemon = t.daemon = t.own(EdgeDaemon("renewal", t.suite, {"auth": "off"}))
    daemon.start()
    old = secure(t, made=context(daemon.authority))
    old_web = browser(t, True, made=context(daemon.authority, protocols=("http/1.1",)))
    check(old_web.status == 101, f"control: {old_web.head}")

    def serial(port=daemon.tls_port):
        with connected(t.address(), (daemon.host, port)) as plain:
            return Sealed(plain, context(daemon.authority), "sip.example.net").certificate["serialNumber"]

    first = serial()
    daemon.authority.issue("server", "DNS:sip.example.net,DNS:example.net")
    check(serial() == first, "new files without a signal")
    daemon.reload()
    second = serial()
    check(second != first and serial(daemon.wss_port) == second, "the new certificate is not shown")
    for phone in (old, old_web):
        answer = phone.exchange(phone.make("OPTIONS", "sip:example.net"))
        check(answer and answer.status == 200, f"an old connection: {answer}")
    with open(os.path.join(daemon.authority.folder, "server.pem"), "w") as file:
        file.write("nonsense")
    text = daemon.reload()
    check("certificate was not reloaded" in text, text[-300:])
    check(serial() == second, "a broken file changed the certificate")


@probe("T24.4", "trusted-by-certificate", "edge")
def trusted(t):
    """An INVITE to a user without a password, from a peer whose certificate has a trusted name from the authority."""
    _, name, _, token = sleeper(t)
    authority = t.daemon.authority
    stranger = Authority(os.path.join(t.daemon.folder, "pki", "stranger"), "stranger")
    pairs = {
        "trusted name": (authority.issue("pbx", "DNS:pbx.example.net"), True),
        "trusted name in a URI": (authority.issue("pbx-uri", "URI:sip:pbx.example.net,DNS:other.example.net"), True),
        "another name": (authority.issue("other", "DNS:other.example.net"), False),
        "a user of the name": (authority.issue("user", "URI:sip:eve@pbx.example.net,DNS:x.example.net"), False),
        "the name beside other URIs": (authority.issue("both", "URI:sip:other.example.net,DNS:pbx.example.net"), False),
        "a stranger's authority": (stranger.issue("pbx", "DNS:pbx.example.net"), False),
        "no certificate": (None, False),
    }
    for what, (pair, is_trusted) in pairs.items():
        peer = secure(t, made=context(authority, pair))
        request = peer.make("INVITE", f"sip:{name}@example.net", "700")
        peer.send(request)
        # Peers that are not trusted are asked for a password before anything else.
        answer = peer.take(lambda m: m.is_response and m.call_id == request.call_id)
        check(answer and answer.status == (100 if is_trusted else 407), f"{what}: {answer}")
        if is_trusted:
            peer.send(peer.cancel(request))
    check(t.suite.provider.wait(token), "control: no push for the trusted ones")


@probe("T24.14", "tickets-end-with-their-authority", alone=True)
def tickets_end(t):
    """A TLS ticket makes no peer trusted if its authority is no longer in the settings, or its certificate has expired."""
    folder = os.path.join(t.suite.folder, "former-pki")
    former, present = Authority(folder, "former"), Authority(folder, "present")
    believed = os.path.join(folder, "believed.pem")

    def believe(authority):
        with open(authority.file) as source, open(believed, "w") as file:
            file.write(source.read())

    believe(former)
    daemon = t.daemon = t.own(EdgeDaemon("former", t.suite, {"tls": {"client-ca-file": believed}}))
    daemon.start()
    _, name, _, _ = sleeper(t)

    def call_by(made, session=None):
        """Sends an INVITE, and returns its final response and the TLS session."""
        peer = secure(t, made=made, session=session)
        request = peer.make("INVITE", f"sip:{name}@example.net", "700")
        peer.send(request)
        answer = peer.take(lambda m: m.call_id == request.call_id and m.status in (100, 407), 6)
        if answer and answer.status == 100:
            peer.send(peer.cancel(request))
            peer.response(request.call_id, "INVITE")
        session = peer.socket.session
        peer.close()
        return answer and answer.status, session

    for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
        believe(former)
        daemon.reload()
        made = context(daemon.authority, former.issue("pbx", "DNS:pbx.example.net"))
        made.maximum_version = made.minimum_version = version
        status, session = call_by(made)
        check(status == 100 and session and session.has_ticket, f"control: {version.name}: {status}")
        status, _ = call_by(made, session)
        check(status == 100, f"control: {version.name}: the peer that comes back: {status}")
        believe(present)
        daemon.reload()
        status, _ = call_by(made, session)
        check(status == 407, f"{version.name}: a ticket of a former authority: {status}")
        believe(former)
        daemon.reload()
        made = context(daemon.authority, former.issue("pbx-soon", "DNS:pbx.example.net", seconds=6))
        ends = time.monotonic() + 7.5
        made.maximum_version = made.minimum_version = version
        status, session = call_by(made)
        check(status == 100, f"control: {version.name}: a certificate that ends soon: {status}")
        time.sleep(max(0, ends - time.monotonic()))
        status, _ = call_by(made, session)
        check(status == 407, f"{version.name}: a ticket of a certificate that has ended: {status}")


def secure_pbx(t, host, port, pair):
    """A PBX that accepts connections over TLS."""
    class SecureListener(Listener):
        def accept(self):
            import threading
            made = context(pair=pair, server=True)
            while True:
                try:
                    plain, peer = self.socket.accept()
                    sealed = Sealed(plain, made, server=True)
                except OSError:
                    if self.socket.fileno() < 0:
                        return
                    continue
                stream = Stream(None, peer, sealed, read=False)
                stream.transport = "TLS"
                stream.arrived = lambda raw, source, stream=stream: self.message(raw, stream)
                with self.changed:
                    self.streams.append(stream)
                    self.changed.notify_all()
                threading.Thread(target=stream.read, daemon=True).start()

    return t.own(SecureListener(host, port))


@probe("T24.5", "upstream-by-name", alone=True)
def upstream(t):
    """A call continues over TLS only if the PBX has a certificate for its address."""
    for what, alternatives, works in (("its own", "IP:127.2.0.9", True), ("another's", "DNS:pbx.example.net", False)):
        port = t.suite.free_port()
        daemon = t.daemon = t.own(EdgeDaemon(
            "up-" + fresh("d"), t.suite, {"upstream": f"sip:127.2.0.9:{port};transport=tls"}))
        daemon.start()
        pbx = secure_pbx(t, "127.2.0.9", port, daemon.authority.issue("upstream", alternatives))
        phone = secure(t)
        name, password = t.registered(phone)
        request = phone.make("INVITE", "sip:900@example.net", name)
        answer = phone.exchange(request, 3)
        check(answer and answer.status == 407, f"control: {answer}")
        again = request.renewed()
        from sip import credentials
        again.add(*credentials(answer, name, password, "INVITE", again.uri))
        phone.send(again)
        invite = pbx.request("INVITE", again.call_id, 4)
        if works:
            check(invite and "SIP/2.0/TLS " in invite.get("via"), f"{what} certificate: {invite}")
            pbx.streams[-1].respond(invite, 486, "Busy Here", tag="p")
            final = phone.response(again.call_id, "INVITE")
            check(final and final.status == 486, f"the phone got {final}")
        else:
            check(invite is None, f"{what} certificate: the PBX got the call")
            final = phone.response(again.call_id, "INVITE")
            check(final and final.status == 500, f"{what} certificate: the phone got {final}")
            check("TLS handshake failed" in daemon.log(), "the log says nothing of it")


@probe("T24.6", "sips-is-protected-everywhere", "edge")
def sips(t):
    """A sips: contact is accepted and called only over TLS."""
    phone = secure(t)
    name, password = t.daemon.user()
    contact = f"<sips:{name}@{phone.local()};transport=tls>"
    answer = phone.register(name, password, contact=contact)
    check(answer and answer.status == 200, f"REGISTER over TLS got {answer}")
    plain = t.phone()
    answer = plain.register(name, password, contact=f"<sips:{name}@{plain.local()}>")
    check(answer and answer.status == 403, f"REGISTER over UDP got {answer}")
    caller, request = call(t, name)
    invite = phone.request("INVITE", request.call_id)
    check(invite and invite.uri.startswith("sips:") and "SIP/2.0/TLS" in invite.get("via"), f"sip: to a sips: phone: {invite}")
    check(all(route.startswith("<sips:") for route in invite.routes()[:1]), f"Record-Route: {invite.routes()}")
    caller.send(caller.cancel(request))
    caller = t.phone(trusted=True)
    request = caller.make("INVITE", f"sips:{name}@example.net", "700")
    answer = caller.exchange(request)
    check(answer and answer.status == 480 and "380" in (answer.get("warning") or ""), f"sips: over UDP got {answer}")
    peer = secure(t, trusted=True)
    request = peer.make("INVITE", f"sips:{name}@example.net", "700")
    peer.send(request)
    invite = phone.request("INVITE", request.call_id)
    check(invite and invite.uri.startswith("sips:"), f"sips: over TLS: {invite}")
    peer.send(peer.cancel(request))
    # A sips: address does not reach a phone without a sips: contact.
    other = secure(t)
    second, password = t.registered(other)
    request = peer.make("INVITE", f"sips:{second}@example.net", "700")
    answer = peer.exchange(request)
    check(answer and answer.status == 480, f"sips: to a sip: contact got {answer}")


# MARK: Before SIP


@probe("T24.9", "proxy-header", "edge")
def proxy_header(t):
    """The PROXY header of a load balancer gives the address of the peer. A load balancer must send a PROXY header, and
    other peers must not."""
    claimed = t.address(trusted=True)
    line = f"PROXY TCP4 {claimed} {t.daemon.host} 40000 5060\r\n".encode()
    packed = socket.inet_aton(claimed) + socket.inet_aton(t.daemon.host) + struct.pack(">HH", 40000, 5060)
    binary = b"\r\n\r\n\0\r\nQUIT\n\x21\x11" + struct.pack(">H", len(packed)) + packed
    _, name, _, _ = sleeper(t)

    def trusted_by(header, host, port, made=None, pieces=1):
        plain = connected(host, (t.daemon.host, port))
        for index in range(pieces):
            plain.sendall(header[len(header) * index // pieces:len(header) * (index + 1) // pieces])
            if pieces > 1:
                time.sleep(0.05)
        try:
            agent = t.own(Stream(host, plain.getpeername(), Sealed(plain, made, "sip.example.net") if made else plain))
        except OSError:
            return "closed"
        request = agent.make("INVITE", f"sip:{name}@example.net", "700")
        agent.send(request)
        answer = agent.take(lambda m: m.call_id == request.call_id, 4)
        if answer is not None and answer.status in (100, 180):
            agent.send(agent.cancel(request))
        return "closed" if answer is None and agent.wait_closed(9) else answer and answer.status

    balancer = "127.4.0.1"
    for what, header, pieces in (("text", line, 1), ("bytes", binary, 1), ("text in pieces", line, 5)):
        found = trusted_by(header, balancer, t.daemon.port, pieces=pieces)
        check(found == 100, f"{what}: {found}")
    found = trusted_by(line, balancer, t.daemon.tls_port, context())
    check(found == 100, f"before TLS: {found}")
    check(trusted_by(b"", balancer, t.daemon.port) == "closed", "a balancer without a header is served")
    check(trusted_by(b"PROXY TCP4 x y 1 2\r\n", balancer, t.daemon.port) == "closed", "a broken header is served")
    for header in (line, binary):
        found = trusted_by(header, t.address(), t.daemon.port)
        check(found in ("closed", 400, 407, None), f"from anybody: {found}")


@probe("T24.10", "stun-keep-alive", "edge")
def stun(t):
    """The answer to STUN contains the sender's address, is short, and is sent only for Binding requests."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as phone:
        phone.bind((t.address(), 0))
        phone.settimeout(2)
        question = b"\0\1\0\0\x21\x12\xa4\x42" + t.random.randbytes(12)
        phone.sendto(question, t.daemon.address)
        answer = phone.recv(2000)
        host, port = phone.getsockname()
        expected = struct.pack(">BBHI", 0, 1, port ^ 0x2112, struct.unpack(">I", socket.inet_aton(host))[0] ^ 0x2112a442)
        check(answer[:2] == b"\1\1" and answer[4:20] == question[4:] and answer[24:] == expected, f"{answer!r}")
        phone.settimeout(0.7)
        for wrong in (b"\0\1\0\0" + t.random.randbytes(16), b"\1\1\0\0" + question[4:], question[:-1], b"\0\1", b"\0" * 28):
            phone.sendto(wrong, t.daemon.address)
            try:
                raise Failed(f"{wrong!r} got {phone.recv(2000)!r}")
            except TimeoutError:
                pass


@probe("T24.11", "half-a-proxy-header", "edge")
def half_header(t):
    """A load balancer sends half a header, and leaves the connection open or closes it. The daemon serves other peers,
    and closes the connection."""
    binary = b"\r\n\r\n\0\r\nQUIT\n\x21\x11"
    opened = []
    for port in (t.daemon.port, t.daemon.tls_port, t.daemon.ws_port):
        for half in (b"PROXY TCP4 192.0.2.1", binary):
            plain = connected("127.4.0.2", (t.daemon.host, port))
            plain.sendall(half)
            opened.append(plain)
            left = connected("127.4.0.2", (t.daemon.host, port))
            left.sendall(half)
            left.shutdown(socket.SHUT_WR)
            opened.append(left)
            left.settimeout(3)
            try:
                check(left.recv(10) == b"", "an answer to half a header")
            except TimeoutError:
                raise Failed(f"port {port}: a connection that its peer has closed stays")
    try:
        for make in (lambda: t.stream(), lambda: secure(t), lambda: browser(t)):
            agent = make()
            answer = agent.exchange(agent.make("OPTIONS", "sip:example.net"), 4)
            check(answer and answer.status == 200, f"{agent.transport} beside half a header: {answer}")
        before = t.daemon.metric("sippushd_connections_dropped_total", reason="no-proxy-header")
        check(before >= 6, f"{before} connections without a header are counted")
        check("no-proxy-header" in t.daemon.log(), "the log says nothing of it")
    finally:
        for plain in opened:
            plain.close()


@probe("T24.11", "farewells-keep-nobody-waiting", alone=True)
def farewells(t):
    """A client that sends on after its WebSocket was closed delays no other client, and loses its connection."""
    daemon = t.daemon = t.own(EdgeDaemon("farewells", t.suite, {"auth": "off"}))
    daemon.start()

    def shout(phone):
        try:
            while True:
                phone.socket.sendall(b"\0" * 65536)
        except OSError:
            pass

    phones = [browser(t) for _ in range(12)]
    crowd = [threading.Thread(target=shout, args=(phone,), daemon=True) for phone in phones]
    for phone in phones:
        phone.frame(b"not masked", masked=False)
    for one in crowd:
        one.start()
    limit = time.monotonic() + 6
    while not all(phone.codes for phone in phones) and time.monotonic() < limit:
        time.sleep(0.01)
    agent = t.stream()
    answer = agent.exchange(agent.make("OPTIONS", "sip:example.net"), 6)
    speaking = sum(one.is_alive() for one in crowd)
    check(answer and answer.status == 200, f"beside those who speak on: {answer}")
    check(speaking, "another connection is answered only when the last of them is cut off")
    for one in crowd:
        one.join(10)
    check(not any(one.is_alive() for one in crowd), "they are never cut off")
    return f"{speaking} of {len(crowd)} still spoke when another was answered"


# MARK: WebSocket


@probe("T24.7", "websocket-handshake", "edge")
def handshake(t):
    good = browser(t)
    check(good.status == 101 and good.accepted and "sec-websocket-protocol: sip" in good.head.lower(), good.head)
    wrong = {
        "no upgrade": ({"Upgrade": None}, 426), "another upgrade": ({"Upgrade": "h2c"}, 426),
        "version 8": ({"Sec-WebSocket-Version": "8"}, 426), "no version": ({"Sec-WebSocket-Version": None}, 426),
        "no key": ({"Sec-WebSocket-Key": None}, 400), "a short key": ({"Sec-WebSocket-Key": "AAAA"}, 400),
        "no protocol": ({"Sec-WebSocket-Protocol": None}, 400),
        "another protocol": ({"Sec-WebSocket-Protocol": "msrp, sipx"}, 400),
        "another origin": ({"Origin": "https://evil.example.net"}, 403),
        "a null origin": ({"Origin": "null"}, 403),
    }
    for what, (fields, status) in wrong.items():
        found = browser(t, fields=fields)
        check(found.status == status, f"{what}: {found.head.splitlines()[:1]}")
    check("sec-websocket-version: 13" in browser(t, fields={"Sec-WebSocket-Version": "8"}).head.lower(), "no version is named")
    check(browser(t, fields={"Sec-WebSocket-Protocol": "msrp, sip"}).status == 101, "sip among others")
    check(browser(t, fields={"Origin": None}).status == 101, "a client without an origin")


@probe("T24.7", "websocket-beside-the-api", "edge")
def beside_api(t):
    """With websocket.api-path, the API's address accepts WebSockets on the given path, and serves the API on all others."""
    target = (t.daemon.host, t.daemon.api_port)
    phone = t.own(WebSocket(t.address(), target, path="/sip"))
    check(phone.status == 101 and phone.accepted, phone.head)
    name, password = t.registered(phone)
    caller, request = call(t, name)
    invite = phone.request("INVITE", request.call_id)
    check(invite and f"SIP/2.0/WS {t.daemon.host}:{t.daemon.api_port}" in invite.get("via"), f"{invite}: {invite and invite.get('via')}")
    caller.send(caller.cancel(request))
    for path, status in (("/", 404), ("/sip/x", 404), ("/v1/dead-tokens", 401)):
        other = t.own(WebSocket(t.address(), target, path=path))
        check(other.status == status, f"{path}: {other.head.splitlines()[:1]}")
    status, _, _ = t.daemon.http("GET", "/sip", port=t.daemon.api_port)
    check(status == 426, f"GET /sip got {status}")
    status, _, _ = t.daemon.http("GET", "/healthz", port=t.daemon.api_port)
    check(status == 200, f"GET /healthz got {status}")


@probe("T24.7", "websocket-frames", "edge")
def frames(t):
    """A frame that breaks RFC 6455 ends the connection, perhaps with the close code for the error. The daemon accepts all
    frames that follow RFC 6455."""
    def options(phone):
        return phone.make("OPTIONS", "sip:example.net")

    def pieces(s):
        # If a connection is closed with unread bytes, the kernel resets the connection, and the close frame is lost.
        for number in range(200):
            if s.closed:
                break
            s.frame(b"x" * (60000 if number < 2 else 1000), opcode=1 if number == 0 else 0, final=False)
            time.sleep(0 if number < 2 else 0.02)

    broken = {
        "not masked": (lambda s: s.frame(options(s).bytes(), masked=False), 1002),
        "a reserved bit": (lambda s: s.frame(options(s).bytes(), reserved=4), 1002),
        "an unknown opcode": (lambda s: s.frame(b"x", opcode=3), 1002),
        "a long ping": (lambda s: s.frame(b"x" * 126, opcode=9), None),
        "a fragmented ping": (lambda s: s.frame(b"x", opcode=9, final=False), None),
        "a continuation of nothing": (lambda s: s.frame(b"x", opcode=0), 1002),
        "a new message inside another": (lambda s: (s.frame(b"x", final=False), s.frame(b"y")), 1002),
        "text that is none": (lambda s: s.frame(b"\xff\xfe"), 1007),
        "too long by its head": (lambda s: s.frame(b"", size=1 << 40), 1009),
        "too long in pieces": (pieces, 1009),
        "a close with one byte": (lambda s: s.frame(b"x", opcode=8), None),
    }
    for what, (act, code) in broken.items():
        phone = browser(t)
        act(phone)
        check(phone.wait_closed(6), f"{what}: the connection stays")
        check(phone.codes == [code], f"{what}: {phone.codes}")
    phone = browser(t)
    request = options(phone)
    raw = request.bytes()
    for index in range(0, len(raw), 7):
        phone.frame(raw[index:index + 7], opcode=1 if index == 0 else 0, final=index + 7 >= len(raw))
        if index == 70:
            phone.frame(b"between", opcode=9)
    answer = phone.response(request.call_id, "OPTIONS")
    check(answer and answer.status == 200, f"in pieces: {answer}")
    check(b"between" in phone.pongs, f"no pong between: {phone.pongs}")
    request = options(phone)
    phone.frame(request.bytes(), opcode=2)
    check(phone.response(request.call_id, "OPTIONS"), "a binary frame is not served")
    # Without Content-Length, a SIP message over WebSocket ends with its frame (RFC 7118 section 5.2.4).
    request = options(phone)
    phone.send(re.sub(rb"Content-Length: 0\r\n", b"", request.bytes()))
    check(phone.response(request.call_id, "OPTIONS"), "without Content-Length")
    phone.send(b"\r\n\r\n")
    phone.frame(b"\x03\xe8", opcode=8)
    check(phone.wait_closed(6) and phone.codes in ([1000], [None]), f"a close: {phone.codes}")


@probe("T24.12", "websocket-small-frames", alone=True)
def small_frames(t):
    """A message in frames of one byte takes as much memory as one in a single frame. The daemon answers pings between two
    messages."""
    daemon = t.daemon = t.own(EdgeDaemon("frames", t.suite, {"auth": "off", "limits": {"first-request": "120s"}}))
    daemon.start()
    many, size = 32, 50_000

    def cut(raw, last):
        # With a mask of zero, the bytes are sent unchanged.
        frames = b"".join(bytes([1 if index == 0 else 0, 0x81, 0, 0, 0, 0, byte]) for index, byte in enumerate(raw[:-1]))
        return frames, bytes([0x80, 0x81, 0, 0, 0, 0, raw[-1]]) if last else b""

    phones = [browser(t) for _ in range(many)]
    check(all(phone.status == 101 for phone in phones), "control: no WebSockets")
    request = phones[0].make("OPTIONS", "sip:example.net", body=b"x" * size)
    frames, last = cut(request.bytes(), True)
    before = daemon.memory()
    for phone in phones:
        phone.socket.sendall(frames)
        phone.frame(b"all of it", opcode=9)
    limit = time.monotonic() + 240
    while not all(phone.pongs for phone in phones) and time.monotonic() < limit:
        time.sleep(0.1)
    check(all(phone.pongs for phone in phones), "no pong between the frames")
    grown = (daemon.memory() - before) * 1024
    # Connections and their socket buffers use a part of the measured memory.
    check(grown < many * (3 * size + 100_000), f"{many} half messages of {size} bytes take {grown >> 10} KiB")
    for phone in phones[:3]:
        phone.socket.sendall(last)
        answer = phone.response(request.call_id, "OPTIONS")
        check(answer and answer.status == 200, f"the whole message got {answer}")
    return f"{grown >> 10} KiB for {many} half messages of {size} bytes"


@probe("T24.13", "websocket-address-is-not-trusted", "edge")
def address_is_no_proof(t):
    """Any web page may be behind a reverse proxy with a trusted address, so over WebSocket only a certificate makes a
    peer trusted."""
    _, name, _, token = sleeper(t)
    for is_secure in (False, True):
        page = browser(t, is_secure, host=t.address(trusted=True))
        request = page.make("INVITE", f"sip:{name}@example.net", "700")
        answer = page.exchange(request)
        check(answer and answer.status == 407, f"an INVITE over {page.transport} from a trusted address got {answer}")
    page = t.own(WebSocket(t.address(trusted=True), (t.daemon.host, t.daemon.api_port), path="/sip"))
    answer = page.exchange(page.make("INVITE", f"sip:{name}@example.net", "700"))
    check(answer and answer.status == 407, f"an INVITE at the API's path from a trusted address got {answer}")
    check(not t.suite.provider.of(token), "a web page has woken the phone")
    pair = t.daemon.authority.issue("web-pbx", "DNS:pbx.example.net")
    peer = browser(t, True, made=context(t.daemon.authority, pair, protocols=("http/1.1",)))
    request = peer.make("INVITE", f"sip:{name}@example.net", "700")
    peer.send(request)
    check(t.suite.provider.wait(token), "control: a certificate does not count over WebSocket")
    peer.send(peer.cancel(request))
    # check-config warns of trusted addresses together with WebSockets.
    text = t.daemon.command("check-config")
    check(text.returncode == 0 and "WebSocket" in text.stdout + text.stderr, f"check-config: {text.stdout} {text.stderr}")


@probe("T24.7", "websocket-close-is-heard", "edge")
def close_heard(t):
    """Much data follows a frame that breaks the rules. The peer still gets the close code, and has two seconds to close
    too."""
    for is_secure in (False, True):
        phone = browser(t, is_secure)
        begin = time.monotonic()
        phone.frame(b"not masked", masked=False)
        try:
            phone.socket.sendall(b"\0" * 300_000)
        except OSError as error:
            raise Failed(f"the connection is gone while the peer still speaks: {error}") from error
        check(phone.wait_closed(20), "it stays open")
        check(phone.codes == [1002] and not phone.was_reset, f"codes {phone.codes}, {'reset' if phone.was_reset else 'closed'}")
        while time.monotonic() < begin + 30:
            try:
                # The client writes unencrypted bytes to the socket, because the daemon does not read its data any more.
                os.write(phone.socket.fileno(), b"\0")
            except OSError:
                break
            time.sleep(0.1)
        took = time.monotonic() - begin
        check(1.5 < took < 30, f"the peer could speak for {took:.1f} s more")


@probe("T24.8", "websocket-peer-that-is-gone", "edge")
def silent(t):
    """With websocket.ping-interval 5s, a client that answers pings stays connected. A client that does not answer loses
    its connection, and its phone counts as asleep."""
    begin = time.monotonic()
    quiet, good = browser(t), browser(t)
    quiet.answers_pings = False
    # Without a request, the daemon would close both connections after limits.first-request, 6 s.
    for phone in (quiet, good):
        answer = phone.exchange(phone.make("OPTIONS", "sip:example.net"))
        check(answer and answer.status == 200, f"control: {answer}")
    check(quiet.wait_closed(60), f"it stays without a pong ({quiet.pings} pings)")
    check(time.monotonic() - begin > 7, "it was closed for something else than its silence")
    check(quiet.pings >= 1 and quiet.codes == [1008], f"{quiet.pings} pings, codes {quiet.codes}")
    check(not good.closed and good.pings >= 1, "one that answers is closed")
    return f"after {time.monotonic() - begin:.0f} s"


@probe("T24.8", "websocket-many-messages", "edge")
def many(t):
    """Many small messages arrive from a client that reads answers slowly. While a client reads slowly, the daemon serves
    other clients, and in the end it answers all messages."""
    flood, other = browser(t), browser(t)
    requests = [flood.make("OPTIONS", "sip:example.net") for _ in range(600)]
    for request in requests:
        flood.send(request)
    answer = other.exchange(other.make("OPTIONS", "sip:example.net"), 30)
    check(answer and answer.status == 200, f"another connection: {answer}")
    limit = time.monotonic() + 60
    while flood.received_count < 600 and time.monotonic() < limit:
        time.sleep(0.05)
    check(flood.received_count == 600, f"{flood.received_count} of 600 answers")


class EdgeDaemon(Daemon):
    """A daemon with TLS and WebSocket addresses, and an authority of its own."""

    def __init__(self, name, suite, settings, pbx_host=None):
        super().__init__(name, suite, settings, pbx_host, edge=True)

    def reload(self):
        """Sends SIGHUP, and waits for the end of the reload."""
        offset = len(self.log())
        self.process.send_signal(signal.SIGHUP)
        limit = time.monotonic() + patience(6)
        while "settings reloaded" not in self.log()[offset:] and time.monotonic() < limit:
            time.sleep(0.02)
        return self.log()[offset:]

    def close(self):
        self.stop()


@probe("T30.7", "tokens-without-tls")
def tokens_without_tls(t):
    """A load balancer reports that phones come from the internet. The log warns once in a run about a push token that
    comes without TLS."""
    daemon = t.daemon = t.own(EdgeDaemon("plain-tokens", t.suite, {"log": {"level": "notice"}}))
    daemon.start()

    def phone(claimed, made=None):
        plain = connected("127.4.0.7", (daemon.host, daemon.tls_port if made else daemon.port))
        plain.sendall(f"PROXY TCP4 {claimed} {daemon.host} 40000 5060\r\n".encode())
        return t.own(Stream("127.4.0.7", plain.getpeername(), Sealed(plain, made, "sip.example.net") if made else plain))

    def lines():
        return daemon.log().count("without TLS")

    t.registered(phone("93.184.216.34"))
    t.registered(phone("10.20.30.40"), params=pushed(fresh("token")))
    t.registered(phone("93.184.216.34", context()), params=pushed(fresh("token")))
    check(lines() == 0, f"a contact without a token, one of a private network, or one over TLS is told of: {daemon.log()[-300:]}")
    for _ in range(3):
        t.registered(phone("93.184.216.34"), params=pushed(fresh("token")))
    check(lines() == 1, f"{lines()} lines for three tokens without TLS")
    said = next(line for line in daemon.log().splitlines() if "without TLS" in line)
    check(" notice " in said and "tls:" in said and "93.184.216.34" in said, f"no cure: {said}")
    daemon.stop()
    daemon.launch()
    t.registered(phone("93.184.216.34"), params=pushed(fresh("token")))
    check(lines() == 2, f"{lines()} lines in two runs")
    return "one line at notice for each run, with the cure; none for TLS, private networks and contacts without a token"
