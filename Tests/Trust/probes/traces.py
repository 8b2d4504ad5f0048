"""T42: traces contain no secrets."""

import hashlib
import json
import os
import re
import shutil
import signal
import socket
import struct
import subprocess
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from daemon import Daemon
from machine import patience
from sip import fresh
from suite import Skipped, check, probe

SECRET = "S3CR3T"


class Collector:
    """Receives HEP3 packets over UDP, and reads their chunks strictly: types, lengths, values, and sngrep's order."""

    # The lengths of the chunks with numbers and addresses.
    SIZES = {0x01: 1, 0x02: 1, 0x03: 4, 0x04: 4, 0x05: 16, 0x06: 16, 0x07: 2, 0x08: 2, 0x09: 4, 0x0a: 4, 0x0b: 1, 0x0c: 4}

    def __init__(self, port):
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
        self.socket.bind(("127.0.0.1", port))
        self.raw, self.packets, self.faults = [], [], []
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        while True:
            try:
                packet = self.socket.recv(1 << 16)
            except OSError:
                return
            self.raw.append(packet)
            try:
                self.packets.append(self.chunks(packet))
            except (AssertionError, KeyError, struct.error) as error:
                self.faults.append(f"{error!r} in {packet[:300]!r}")

    @classmethod
    def chunks(cls, packet):
        head, length = packet[:4], struct.unpack("!H", packet[4:6])[0]
        assert head == b"HEP3" and length == len(packet), "a malformed packet"
        found, at = {}, 6
        while at < length:
            vendor, kind, size = struct.unpack("!HHH", packet[at:at + 6])
            assert vendor == 0 and size >= 6 and at + size <= length, "a malformed chunk"
            assert kind not in found and size - 6 == cls.SIZES.get(kind, size - 6), f"a wrong chunk {kind}"
            found[kind] = packet[at + 6:at + size]
            at += size
        addresses = {b"\x02": [0x03, 0x04], b"\x0a": [0x05, 0x06]}[found[0x01]]
        key = [0x0e] if 0x0e in found else []
        log = [0x11] if found[0x0b] == b"\x64" else []
        order = [0x01, 0x02, 0x07, 0x08, 0x09, 0x0a, 0x0b, 0x0c] + addresses + key + [0x0f, 0x13] + log
        assert list(found) == order, f"the chunks are in the order {list(found)}"
        assert found[0x02] in (b"\x06", b"\x11") and found[0x0b] in (b"\x01", b"\x64"), "an unknown protocol"
        assert struct.unpack("!I", found[0x0a])[0] < 1_000_000, "more than a million microseconds"
        return found

    def wait(self, want, timeout=6.0):
        limit = time.monotonic() + patience(timeout)
        while time.monotonic() < limit:
            for packet in list(self.packets):
                if want(packet):
                    return packet
            time.sleep(0.02)
        return None

    def message(self, start, call_id):
        return self.wait(lambda packet: packet.get(0x0b) == b"\x01" and packet[0x0f].startswith(start)
                         and call_id.encode() in packet[0x0f])

    def log(self, word, call_id):
        return self.wait(lambda packet: packet.get(0x0b) == b"\x64" and word in packet[0x0f]
                         and packet.get(0x11) == call_id.encode())

    def close(self):
        self.socket.close()


class Watch:
    """The command `sippushd trace`, by which an operator sees a user's messages."""

    def __init__(self, daemon, name):
        self.path = os.path.join(daemon.folder, "watch")
        self.file = open(self.path, "w")
        self.process = subprocess.Popen(
            [daemon.suite.program, "trace", f"{name}@example.net", "--for", "60s", "--full", "--config", daemon.config],
            stdin=subprocess.DEVNULL, stdout=self.file, stderr=self.file)
        check(self.shows("waiting for messages"), f"control: the trace does not begin: {self.text()}")

    def text(self):
        with open(self.path) as file:
            return file.read()

    def shows(self, wanted, timeout=6.0):
        limit = time.monotonic() + patience(timeout)
        while time.monotonic() < limit and wanted not in self.text():
            time.sleep(0.05)
        return wanted in self.text()

    def close(self):
        self.process.terminate()
        self.process.wait(patience(10))
        self.file.close()


@probe("T42.1", "no-secret-in-any-trace", alone=True)
def no_secret(test):
    test.needs("hep.collector")
    collector = test.own(Collector(port := test.suite.free_port()))
    key = os.path.join(test.suite.folder, "hep-key")
    with open(key, "w") as file:
        file.write("collector-key\n")
    daemon = Daemon("traces", test.suite, {
        "hep": {"collector": f"udp:127.0.0.1:{port}", "node": "trust", "password-file": key}})
    daemon.start()
    watch = None
    try:
        test.daemon = daemon
        token = "tokenAAAA" + SECRET * 8
        phone = test.phone()
        # The password contains the secret as well.
        name, password = daemon.user(password=f"pw{SECRET}")
        watch = Watch(daemon, name)
        answer = phone.register(name, password, params=f";pn-provider=fcm;pn-prid={token};pn-param=p{SECRET * 3}")
        check(answer and answer.status == 200, f"control: REGISTER got {answer}")
        register = answer.call_id
        check(collector.message(b"REGISTER", register), "the REGISTER has no copy")
        check(collector.message(b"SIP/2.0 401", register), "the challenge has no copy")
        check(collector.message(b"SIP/2.0 200", register), "the 200 has no copy")

        # A call for the sleeping phone: INVITE, push, wake, end.
        pbx = test.phone(trusted=True)
        invite = pbx.make("INVITE", f"sip:{name}@example.net", user="caller")
        invite.add("Authorization", f'Digest username="x", response="{SECRET}"')
        invite.add("X-Auth-Token", SECRET)
        pbx.send(invite)
        check(test.suite.provider.wait(token), "control: no push was sent")
        check(collector.message(b"INVITE", invite.call_id), "the INVITE has no copy")
        check(collector.log(b'"push":"sent"', invite.call_id), "the push has no log line")
        check(collector.log(b'"push":"accepted"', invite.call_id), "the provider's answer has no log line")
        pbx.send(pbx.cancel(invite))
        check(collector.message(b"SIP/2.0 487", invite.call_id), "the 487 has no copy")
        check(collector.log(b'"call":', invite.call_id), "the end of the call has no log line")

        # Sends a MESSAGE to the phone, and malformed messages.
        text = pbx.make("MESSAGE", f"sip:{name}@example.net", user="caller")
        text.add("Content-Type", "text/plain")
        text.body = SECRET.encode()
        pbx.send(text)
        check(collector.message(b"MESSAGE", text.call_id), "the MESSAGE has no copy")
        for number, line in enumerate([
                f"Authorization: Bearer {SECRET}", f"Authorization {SECRET}", f"Contact: <sip:a:{SECRET}@h;PN-PRID={SECRET}>",
                f"Proxy-Authorization: Digest\n response={SECRET}", f"Cookie: {SECRET}"]):
            call = fresh("broken")
            phone.send((f"REGISTER sip:example.net SIP/2.0\r\nVia: SIP/2.0/UDP h;branch=z9hG4bKb{number}\r\n{line}\r\n"
                        f"Call-ID: {call}\r\nContent-Type: text/plain\r\n\r\n{SECRET}").encode())
            check(collector.message(b"REGISTER", call), f"the broken message {number} has no copy")

        check(not collector.faults, f"a packet is malformed: {collector.faults[:1]}")
        for packet in collector.packets:
            check(packet.get(0x0e) == b"collector-key", "a packet has not the collector's key")
        for packet in collector.raw:
            check(SECRET.encode() not in packet, f"a copy has a secret: {packet[:3000]!r}")

        # The operator's commands show the same messages, without secrets.
        for wanted in (f"-->  REGISTER sip:example.net SIP/2.0  [{register}]", "<--  SIP/2.0 401", '"push":"sent"',
                       "<--  SIP/2.0 487", "[" + text.call_id + "]", "    Call-ID: " + invite.call_id):
            check(watch.shows(wanted), f"the trace does not show {wanted}: {watch.text()[-3000:]}")
        check(SECRET not in watch.text(), "the trace has a secret: " + watch.text()[:3000])
        top = daemon.command("top", "--once").stdout
        check("requests/s" in top and SECRET not in top, f"top prints {top}")
    finally:
        if watch:
            watch.close()
        daemon.stop()


@probe("T42.1", "traces-read-by-sngrep", alone=True)
def read_by_sngrep(test):
    """sngrep reads the chunks in a fixed order, and writes the messages of a call to a file."""
    test.needs("hep.collector")
    if not shutil.which("sngrep"):
        raise Skipped("sngrep is not installed")
    port = test.suite.free_port()
    file = os.path.join(test.suite.folder, "sngrep.pcap")
    errors = open(os.path.join(test.suite.folder, "sngrep.log"), "w+")
    reader = subprocess.Popen(["sngrep", "-N", "-q", "-L", f"udp:127.0.0.1:{port}", "-O", file],
                              stdin=subprocess.DEVNULL, stdout=errors, stderr=errors,
                              env=dict(os.environ, TERM="xterm", HOME=test.suite.folder))
    daemon = Daemon("traces-sngrep", test.suite, {"hep": {"collector": f"udp:127.0.0.1:{port}"}})
    daemon.start()
    try:
        test.daemon = daemon
        phone, pbx = test.phone(), test.phone(trusted=True)
        name, _ = test.registered(phone)
        call = fresh("sngrep")

        def seen():
            try:
                with open(file, "rb") as capture:
                    return capture.read()
            except OSError:
                return b""

        # The probe repeats the call, because sngrep may not listen yet when the first call comes.
        limit, number = time.monotonic() + patience(20), 0
        while time.monotonic() < limit and b"SIP/2.0 486" not in seen():
            number += 1
            check(reader.poll() is None, f"sngrep ended: {open(errors.name).read()[:400]}")
            invite = pbx.make("INVITE", f"sip:{name}@example.net", user="caller", call_id=f"{call}-{number}")
            pbx.send(invite)
            got = phone.request("INVITE", f"{call}-{number}")
            check(got, "control: the phone got no INVITE")
            phone.respond(got, 486, "Busy Here", tag="busy")
            answer = pbx.response(f"{call}-{number}", "INVITE")
            check(answer and answer.status == 486, f"control: INVITE got {answer}")
            pbx.send(pbx.ack_failure(invite, answer))
            time.sleep(0.3)
        text = seen()
        for wanted in (b"INVITE sip:" + name.encode(), b"SIP/2.0 100", b"SIP/2.0 486", b"ACK sip:", call.encode()):
            check(wanted in text, f"sngrep shows no {wanted}: {len(text)} bytes")
    finally:
        daemon.stop()
        reader.terminate()
        reader.wait(patience(10))
        errors.close()


class SpanCollector:
    """An OTLP/HTTP collector. The collector reads the requests strictly, as opentelemetry-proto describes their JSON form.

    `reply` gets the handler and the number of earlier requests, and answers the request.
    """

    def __init__(self, port, reply=None):
        self.raw, self.fields, self.faults, self.spans = [], [], [], []
        outer, lock = self, threading.Lock()

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                with lock:
                    number = len(outer.raw)
                    outer.raw.append(body)
                    outer.fields.append(dict(self.headers))
                try:
                    found = outer.read(self, body)
                except (AssertionError, KeyError, TypeError, ValueError) as error:
                    outer.faults.append(f"{error!r} in {body[:2000]!r}")
                    found = []
                if reply is None or reply(self, number):
                    with lock:
                        outer.spans.extend(found)
                    if reply is None:
                        Handler.answer(self, 200)

            def answer(self, status, body=b"{}", **fields):
                self.send_response(status)
                for name, value in fields.items():
                    self.send_header(name.replace("_", "-"), value)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        self.answer = Handler.answer
        self.server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    @staticmethod
    def attributes(values):
        found = {}
        for each in values:
            assert set(each) == {"key", "value"} and each["key"] not in found, each
            (kind, value), = each["value"].items()
            assert kind in ("stringValue", "intValue") and isinstance(value, str), each
            found[each["key"]] = int(value) if kind == "intValue" else value
        return found

    def read(self, request, body):
        assert request.path == "/v1/traces" and request.headers["Content-Type"] == "application/json"
        (resource,), found = json.loads(body)["resourceSpans"], []
        assert self.attributes(resource["resource"]["attributes"])["service.name"] == "sippushd"
        (scope,) = resource["scopeSpans"]
        assert scope["scope"]["name"] == "sippushd" and 0 < len(scope["spans"]) <= 512
        for span in scope["spans"]:
            assert re.fullmatch("[0-9a-f]{32}", span["traceId"]) and re.fullmatch("[0-9a-f]{16}", span["spanId"])
            assert re.fullmatch("[0-9a-f]{16}", span.get("parentSpanId", "0" * 16))
            assert span["kind"] in (1, 2, 3) and span["name"]
            start, end = span["startTimeUnixNano"], span["endTimeUnixNano"]
            assert isinstance(start, str) and isinstance(end, str)
            assert abs(int(start) / 1e9 - time.time()) < 3600 and int(start) <= int(end)
            for event in span.get("events", []):
                assert int(start) <= int(event["timeUnixNano"]) and isinstance(event["timeUnixNano"], str)
            assert span.get("status", {"code": 2})["code"] == 2
            span["attributes"] = self.attributes(span.get("attributes", []))
            found.append(span)
        return found

    def call(self, call_id, name="INVITE", timeout=20.0):
        """Waits for a span of this call."""
        trace = hashlib.sha256(call_id.encode()).hexdigest()[:32]
        limit = time.monotonic() + patience(timeout)
        while time.monotonic() < limit:
            for span in list(self.spans):
                if span["traceId"] == trace and span["name"] == name:
                    return span
            time.sleep(0.05)
        return None

    def roots(self, call_id):
        trace = hashlib.sha256(call_id.encode()).hexdigest()[:32]
        return [span for span in list(self.spans) if span["traceId"] == trace and span["name"] == "INVITE"]

    def close(self):
        self.server.shutdown()
        self.server.server_close()


def headers_file(test, name):
    path = os.path.join(test.suite.folder, name)
    with open(path, "w") as file:
        file.write(f"Authorization: Bearer {SECRET}-collector\nX-Scope-OrgID: tenant\n")
    return path


def refused_call(test, name, phone, call_id=None):
    """A call that the phone refuses."""
    pbx = test.phone(trusted=True)
    invite = pbx.make("INVITE", f"sip:{name}@example.net", user="caller", call_id=call_id)
    pbx.send(invite)
    got = phone.request("INVITE", invite.call_id)
    check(got, "control: the phone got no INVITE")
    phone.respond(got, 486, "Busy Here", tag="busy")
    answer = pbx.response(invite.call_id, "INVITE")
    check(answer and answer.status == 486, f"control: INVITE got {answer}")
    pbx.send(pbx.ack_failure(invite, answer))
    return invite.call_id


@probe("T42.5", "no-secret-in-any-span", alone=True)
def no_secret_in_spans(test):
    test.needs("otlp.url")
    collector = test.own(SpanCollector(port := test.suite.free_port()))
    key = headers_file(test, "otlp-headers")
    daemon = Daemon("spans", test.suite, {"otlp": {"url": f"http://127.0.0.1:{port}", "headers-file": key}})
    daemon.start()
    try:
        test.daemon = daemon
        token = "tokenSPAN" + SECRET * 8
        phone = test.phone()
        name, password = daemon.user(password=f"pw{SECRET}")
        answer = phone.register(name, password, params=f";pn-provider=fcm;pn-prid={token};pn-param=p{SECRET * 3}")
        check(answer and answer.status == 200, f"control: REGISTER got {answer}")

        pbx = test.phone(trusted=True)
        invite = pbx.make("INVITE", f"sip:{name}@example.net", user="caller")
        invite.set("From", f'"Name {SECRET}" <sip:caller-{SECRET}@example.net>;tag=a{SECRET}')
        invite.add("Authorization", f'Digest username="x", response="{SECRET}"')
        invite.add("P-Asserted-Identity", f'"{SECRET}" <sip:{SECRET}@example.net>')
        invite.body = SECRET.encode()
        pbx.send(invite)
        check(test.suite.provider.wait(token), "control: no push was sent")
        answer = phone.register(name, password, params=f";pn-provider=fcm;pn-prid={token};pn-param=p{SECRET * 3}")
        check(answer and answer.status == 200, f"control: the second REGISTER got {answer}")
        got = phone.request("INVITE", invite.call_id)
        check(got, "control: the woken phone got no INVITE")
        phone.respond(got, 486, f"Busy {SECRET}", tag="busy")
        root, push, wake, ring = (collector.call(invite.call_id, part) for part in ("INVITE", "push", "wake", "ring"))
        check(root and push and wake and ring, f"spans are missing: {[span['name'] for span in collector.spans]}")
        for child in (push, wake, ring):
            check(child["parentSpanId"] == root["spanId"], f"{child['name']} has another parent")
        check("parentSpanId" not in root, "the root has a parent")
        check(root["attributes"]["sip.call_id"] == invite.call_id, "the root has not the Call-ID")
        check(root["attributes"]["sip.status_code"] == 486, f"the root has {root['attributes']}")
        check(push["attributes"]["sippushd.provider"] == "fcm", f"the push has {push['attributes']}")
        check(push["attributes"]["sippushd.push.result"] == "accepted", f"the push has {push['attributes']}")
        check(wake["attributes"]["sippushd.wake"] == "register", f"the wake has {wake['attributes']}")
        starts = [int(span["startTimeUnixNano"]) for span in (root, push, wake, ring)]
        check(starts == sorted(starts), f"the steps are in another order: {starts}")
        check(any(start % 1_000_000 for start in starts), "no span has microseconds")
        told = daemon.command("explain", invite.call_id).stdout
        check(root["traceId"] in told, f"explain does not show the trace id: {told}")

        # A stranger's refused call has no spans.
        stranger = test.phone()
        refused = stranger.make("INVITE", f"sip:nobody@{SECRET.lower()}.invalid", user="stranger")
        stranger.send(refused)
        check(stranger.response(refused.call_id, "INVITE"), "control: the stranger got no response")
        other = pbx.make("INVITE", "sip:nobody@example.net", user="caller")
        pbx.send(other)
        check(collector.call(other.call_id), "the refused call of the PBX has no span")
        check(not collector.roots(refused.call_id), "the stranger's call has a span")

        check(not collector.faults, f"a request is malformed: {collector.faults[:1]}")
        for fields in collector.fields:
            check(fields.get("Authorization") == f"Bearer {SECRET}-collector", "a request has not the collector's key")
        for body in collector.raw:
            check(SECRET.encode() not in body, f"a span has a secret: {body[:3000]!r}")
            check(name.encode() not in body, "a span names the user, although otlp.users is false")
        check(f"{SECRET}-collector" not in daemon.log(), "the log has the collector's key")
    finally:
        daemon.stop()


@probe("T42.6", "span-collector-out-of-order", alone=True)
def collector_out_of_order(test):
    """A collector that is away, silent, floods, redirects, or quotes the daemon's key."""
    test.needs("otlp.url")
    port, state = test.suite.free_port(), {"mode": "silent", "elsewhere": 0}

    def reply(handler, number):
        mode = state["mode"]
        if mode == "silent":
            time.sleep(patience(30))
        elif mode == "flood":
            handler.send_response(200)
            handler.send_header("Content-Length", str(1 << 40))
            handler.end_headers()
            try:
                for _ in range(64):
                    handler.wfile.write(b"x" * (1 << 20))
            except OSError:
                state["cut"] = True
        elif mode == "redirect":
            collector.answer(handler, 307, Location=f"http://127.0.0.1:{state['other']}/v1/traces")
        elif mode == "refuse":
            quoted = handler.headers.get("Authorization", "")
            collector.answer(handler, 400, json.dumps({"code": 3, "message": f"bad key {quoted}"}).encode())
        else:
            collector.answer(handler, 200)
            return True
        return False

    other = test.own(SpanCollector(test.suite.free_port()))
    state["other"] = other.server.server_address[1]
    key = headers_file(test, "otlp-headers-broken")
    daemon = Daemon("spans-broken", test.suite, {
        "otlp": {"url": f"http://127.0.0.1:{port}", "headers-file": key, "queue": 512},
        "limits": {"registers-per-source": 0}})
    daemon.start()
    collector = None
    try:
        test.daemon = daemon
        phone = test.phone()
        name, _ = test.registered(phone)

        def dropped():
            return daemon.metric("sippushd_otlp_spans_dropped_total")

        def turn(mode):
            """Changes what the collector does, and ends the daemon's pause by SIGHUP."""
            state["mode"] = mode
            daemon.process.send_signal(signal.SIGHUP)

        def until(holds, text, timeout=30.0):
            limit = time.monotonic() + patience(timeout)
            while time.monotonic() < limit and not holds():
                time.sleep(0.1)
            check(holds(), text)

        # The collector is away.
        refused_call(test, name, phone)
        until(lambda: "spans do not reach the OTLP collector" in daemon.log(), "no line tells that the collector is away")
        # While the collector is silent, calls are served, and the queue is bounded.
        collector = SpanCollector(port, reply)
        until(lambda: collector.raw, "the daemon does not come back to the collector")
        before = daemon.memory()
        started = time.monotonic()
        for _ in range(20):
            refused_call(test, name, phone)
        check(time.monotonic() - started < patience(20), "the silent collector delays calls")
        # Many refused calls of the PBX fill the queue.
        pbx = test.phone(trusted=True)
        for number in range(1500):
            pbx.send(pbx.make("INVITE", f"sip:nobody{number}@example.net", user="caller"))
            if number % 50 == 49:
                time.sleep(0.1)
        until(lambda: dropped() > 0, "no span was dropped, although the queue is full")
        check(daemon.log().count("so the oldest are dropped") == 1, "the full queue is told more than once a minute")
        check(daemon.memory() - before < 30_000, f"the memory grew by {daemon.memory() - before} KiB")
        # The collector answers with a flood of bytes.
        lost = dropped()
        turn("flood")
        until(lambda: dropped() > lost, "the flooded batch was not dropped", 60)
        check(daemon.memory() - before < 30_000, "a flooding collector costs memory")
        # The collector redirects the daemon.
        lost = dropped()
        turn("redirect")
        refused_call(test, name, phone)
        until(lambda: dropped() > lost, "the redirected batch was not dropped", 60)
        check(not other.raw, "the daemon followed the redirect")
        # The collector refuses the request, and quotes the key.
        lost = dropped()
        turn("refuse")
        refused_call(test, name, phone)
        until(lambda: dropped() > lost, "the refused batch was not dropped", 60)
        check(f"{SECRET}-collector" not in daemon.log(), "the log has the key that the collector quotes")
        # The collector works again.
        turn("good")
        good = refused_call(test, name, phone)
        check(collector.call(good, timeout=60), "the collector gets no spans after all this")
        check(not collector.faults, f"a request is malformed: {collector.faults[:1]}")
        check(daemon.alive(), "the daemon ended")
    finally:
        state["mode"] = "good"
        daemon.stop()
        if collector:
            collector.close()


@probe("T42.7", "spans-once-over-restarts", alone=True)
def once(test):
    """SIGHUP and a stop lose no span and repeat none. After kill -9, the call that waits keeps its trace id."""
    test.needs("otlp.url")
    first = test.own(SpanCollector(test.suite.free_port()))
    second = test.own(SpanCollector(test.suite.free_port()))

    def url(collector):
        return f"http://127.0.0.1:{collector.server.server_address[1]}"

    daemon = Daemon("spans-restart", test.suite, {"otlp": {"url": url(first)}})
    daemon.start()
    try:
        test.daemon = daemon
        phone = test.phone()
        name, password = test.registered(phone)
        calls = []
        for number in range(12):
            calls.append(refused_call(test, name, phone))
            if number in (3, 7):
                daemon.values["otlp"]["url"] = url(second if number == 3 else first)
                daemon.write_settings()
                count = daemon.log().count("settings reloaded")
                daemon.process.send_signal(signal.SIGHUP)
                limit = time.monotonic() + patience(10)
                while time.monotonic() < limit and daemon.log().count("settings reloaded") == count:
                    time.sleep(0.05)
        # The last spans still wait for their batch when the daemon stops.
        started = time.monotonic()
        daemon.stop()
        check(time.monotonic() - started < patience(10), "the spans delay the end of the daemon")
        for call in calls:
            found = first.roots(call) + second.roots(call)
            check(len(found) == 1, f"the call {calls.index(call)} has {len(found)} root spans")

        # A call waits for a sleeping phone while the daemon is killed.
        daemon.launch()
        token = fresh("tokenKILL")
        sleeper, pbx = test.phone(), test.phone(trusted=True)
        user, secret = daemon.user()
        answer = sleeper.register(user, secret, params=f";pn-provider=fcm;pn-prid={token};pn-param=p")
        check(answer and answer.status == 200, f"control: REGISTER got {answer}")
        invite = pbx.make("INVITE", f"sip:{user}@example.net", user="caller")
        pbx.send(invite)
        check(test.suite.provider.wait(token), "control: no push was sent")
        daemon.kill()
        daemon.launch()
        answer = sleeper.register(user, secret, params=f";pn-provider=fcm;pn-prid={token};pn-param=p")
        check(answer and answer.status == 200, f"control: REGISTER after the restart got {answer}")
        got = sleeper.request("INVITE", invite.call_id)
        check(got, "control: the woken phone got no INVITE after the restart")
        sleeper.respond(got, 486, "Busy Here", tag="busy")
        root, ring = first.call(invite.call_id), first.call(invite.call_id, "ring")
        check(root and ring, "the resumed call has no spans")
        check(len(first.roots(invite.call_id)) == 1, "the resumed call has several roots")
        check(ring["parentSpanId"] == root["spanId"], "the ring has another parent")
        check(int(root["endTimeUnixNano"]) > int(root["startTimeUnixNano"]), "the root has no duration")
        check(not first.faults and not second.faults, f"a request is malformed: {(first.faults + second.faults)[:1]}")
    finally:
        daemon.stop()
