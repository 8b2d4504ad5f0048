"""T42: traces tell no secrets."""

import os
import shutil
import socket
import struct
import subprocess
import threading
import time

from daemon import Daemon
from machine import patience
from sip import fresh
from suite import Skipped, check, probe

SECRET = "S3CR3T"


class Collector:
    """Receives HEP3 packets over UDP, and reads their chunks as the specification says."""

    def __init__(self, port):
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
        self.socket.bind(("127.0.0.1", port))
        self.raw, self.packets = [], []
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        while True:
            try:
                packet = self.socket.recv(1 << 16)
            except OSError:
                return
            self.raw.append(packet)
            self.packets.append(self.chunks(packet))

    @staticmethod
    def chunks(packet):
        head, length = packet[:4], struct.unpack("!H", packet[4:6])[0]
        assert head == b"HEP3" and length == len(packet), "a malformed packet"
        found, at = {}, 6
        while at < length:
            vendor, kind, size = struct.unpack("!HHH", packet[at:at + 6])
            assert vendor == 0 and size >= 6, "a malformed chunk"
            found[kind] = packet[at + 6:at + size]
            at += size
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
    """The command `sippushd trace` of an operator who watches a user."""

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

        # A text for the phone, and messages that nobody can read.
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

        for packet in collector.packets:
            check(packet.get(0x0e) == b"collector-key", "a packet has not the collector's key")
        for packet in collector.raw:
            check(SECRET.encode() not in packet, f"a copy has a secret: {packet[:3000]!r}")

        # The operator's commands show the same, without secrets.
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

        # sngrep may not listen yet when the first call comes.
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
