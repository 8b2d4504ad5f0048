"""T35: every refusal leaves a line at the default log level, a counter, and a timeline record that explain finds."""

import http.server
import json
import os
import signal
import socket
import subprocess
import threading
import time

from daemon import QuietServer
from machine import patience
from sip import fresh
from suite import check, probe
from .routing import call
from .store import own_daemon


def quiet(t, name, **settings):
    """A daemon at the default log level."""
    return own_daemon(t, name, log={"level": "notice"}, **settings)


def line_with(daemon, *words, timeout=8.0):
    """The first log line that contains all of the given words."""
    limit = time.monotonic() + patience(timeout)
    while time.monotonic() < limit:
        for line in daemon.log().splitlines():
            if all(word in line for word in words):
                return line
        time.sleep(0.05)
    return None


def wait_until(truth, timeout=8.0):
    limit = time.monotonic() + patience(timeout)
    while not truth() and time.monotonic() < limit:
        time.sleep(0.05)
    return truth()


def explained(daemon, name, *words, timeout=8.0):
    """The output of explain for a name, as soon as it contains all the given words, or after the timeout."""
    limit = time.monotonic() + patience(timeout)
    while True:
        answer = daemon.command("explain", name)
        text = answer.stdout + answer.stderr
        if all(word in text for word in words) or time.monotonic() > limit:
            return text
        time.sleep(0.1)


@probe("T35.1", "forgotten-pbx")
def forgotten_pbx(t):
    """The PBX is not listed under `trusted`, which is the most common first mistake."""
    daemon = quiet(t, "forgotten").start()
    name, _ = daemon.user()
    pbx = t.phone()
    caller, request = call(t, name, caller=pbx)
    answer = caller.response(request.call_id)
    check(answer and answer.status == 407, f"control: the INVITE got {answer}")
    line = line_with(daemon, "call refused", pbx.host, "status=407")
    check(line and " notice " in line and "trusted" in line, f"no line at the default level tells of it: {line}")
    for asked in (request.call_id, pbx.host, name):
        text = explained(daemon, asked, "407", "trusted", pbx.host)
        check("list it under trusted" in text and pbx.host in text, f"explain {asked} says: {text}")
    check(daemon.metric("sippushd_calls_refused_total", reason="not-trusted") == 1, "no counter says that it was refused")
    daemon.kill()
    daemon.launch()
    text = explained(daemon, request.call_id, "trusted")
    check("list it under trusted" in text, f"after a kill explain says: {text}")
    return "a PBX without trust: a line at notice, a counter, and explain by Call-ID, address and user, also after kill -9"


@probe("T35.1", "each-refusal-is-told")
def each_refusal(t):
    daemon = quiet(t, "refusals-told", call={"ring-timeout": "20s"}, limits={"calls-per-account": 1}).start()
    name, password = daemon.user()
    other, _ = daemon.user()
    phone = t.phone()
    check(phone.register(name, password).status == 200, "control: REGISTER")
    pbx = t.phone(trusted=True)

    def refused(status, reason, number, method=None, **fields):
        caller, request = method() if method else call(t, number, caller=pbx, fields=fields.items())
        answer = caller.response(request.call_id)
        check(answer and answer.status == status, f"control: {reason}: the INVITE got {answer}")
        line = line_with(daemon, "call refused", f"status={status}", request.call_id)
        check(line, f"{reason}: no line for {status}: {daemon.log()[-600:]}")
        text = explained(daemon, request.call_id, str(status), "=>")
        check("=>" in text and str(status) in text, f"{reason}: explain says {text}")
        check(daemon.metric("sippushd_calls_refused_total", reason=reason) == 1, f"{reason}: no counter")
        return text

    refused(404, "unknown-user", "nobody")
    text = explained(daemon, "nobody", "404")
    check("no user is called" in text, f"explain by number says {text}")

    def foreign():
        request = pbx.make("INVITE", "sip:someone@elsewhere.example")
        pbx.send(request)
        return pbx, request

    refused(403, "foreign-domain", None, foreign)
    refused(480, "no-contact", other)
    first, request = call(t, name, caller=pbx)
    check(phone.request("INVITE", request.call_id), "control: the first call rings")
    refused(486, "callee-limit", name)
    # The daemon refuses strangers, each with its own address.
    for status, edit in (
            (483, lambda request: request.set("Max-Forwards", "0")), (420, lambda request: request.add("Proxy-Require", "none")),
            (400, lambda request: request.set("CSeq", "1 BYE")), (400, lambda request: request.add("Call-ID", "another")),
            (403, lambda request: setattr(request, "uri", "sip:someone@elsewhere.example")), (407, lambda request: None)):
        stranger = t.phone()
        request = stranger.make("INVITE", f"sip:{name}@example.net")
        edit(request)
        stranger.send(request)
        line = line_with(daemon, "call refused", f"status={status}", request.call_id)
        check(line, f"no line for the {status} of a stranger: {daemon.log()[-600:]}")
        check(f"source={stranger.host}:" in line and "code=---D" in line, f"the line of the {status} is {line}")
        text = explained(daemon, request.call_id, str(status), "=>")
        check("=>" in text and str(status) in text, f"explain of the {status} says {text}")
        count = sum(request.call_id in line for line in daemon.log().splitlines())
        check(count == 1, f"{count} lines for the {status}")
    message = pbx.make("MESSAGE", "sip:nobody@example.net")
    pbx.send(message)
    answer = pbx.response(message.call_id)
    check(answer and answer.status == 404, f"control: the MESSAGE got {answer}")
    check(not any("call " in line and message.call_id in line for line in daemon.log().splitlines()), "a MESSAGE has a line of a call")
    return "400, 403, 404, 407, 420, 480, 483 and 486, of PBX and strangers: each with its line, its counter, and what explain says to do"


@probe("T35.1", "strangers-do-not-fill-the-log")
def flood_of_refusals(t):
    """A thousand refused calls from strangers cause only a few log lines and timeline records. During a flood of
    strangers' calls, the refusal of a PBX is reported."""
    daemon = quiet(t, "scanned").start()
    strangers = [t.phone() for _ in range(20)]
    for round in range(50):
        for stranger in strangers:
            stranger.send(stranger.make("INVITE", f"sip:{9000 + round}@example.net"))
    # The log reports the refusal of a stranger after three seconds without a password. The reports about strangers use
    # up the strangers' part of the log lines.
    check(wait_until(lambda: daemon.log().count("status=407") >= 5), f"control: {daemon.log().count('status=407')} lines")
    pbx = t.phone(trusted=True)
    caller, request = call(t, "nobody", caller=pbx)
    answer = caller.response(request.call_id)
    check(answer and answer.status == 404, f"control: the PBX got {answer}")
    check(line_with(daemon, "call refused", "status=404", request.call_id), "the PBX's refusal has no line")
    check("no user is called" in explained(daemon, request.call_id, "404"), "the PBX's refusal has no record")
    time.sleep(4)
    lines = [line for line in daemon.log().splitlines() if "call refused" in line and "status=407" in line]
    check(0 < len(lines) <= 30, f"{len(lines)} lines for 1,000 calls")
    return f"1,000 calls of 20 strangers: {len(lines)} lines, and the PBX's refusal is told of beside them"


@probe("T35.2", "wrong-password-is-told")
def wrong_password(t):
    daemon = quiet(t, "guessed").start()
    name, password = daemon.user()
    phone = t.phone()
    answer = phone.register(name, password + "x")
    check(answer and answer.status == 401, f"control: a wrong password got {answer}")
    line = line_with(daemon, "REGISTER refused", name, phone.host)
    check(line and " notice " in line and "wrong user or password" in line, f"no line at the default level: {line}")
    check(password not in daemon.log(), "the password is in the log")
    text = explained(daemon, f"{name}@example.net", "wrong user or password")
    check("wrong user or password" in text and phone.host in text, f"explain says {text}")
    check(daemon.metric("sippushd_registers_total", outcome="refused") == 1, "registers_total does not count it")
    check(phone.register(name, password).status == 200, "control: the right one")
    return "a wrong password: a line at notice, registers_total, and explain with the address"


@probe("T35.3", "store-that-is-gone")
def store_gone(t):
    """If the store was used before and is missing, the daemon does not start with an empty store, and its message
    says what to do."""
    daemon = quiet(t, "storeless").start()
    path = daemon.settings()["store"]
    check(line_with(daemon, "the store did not exist; the daemon created a new store", path), "the first start does not say that it created a new store")
    name, password = daemon.user()
    daemon.stop()
    for end in ("", "-wal", "-shm"):
        if os.path.exists(path + end):
            os.rename(path + end, path + end + ".away")
    started = subprocess.run([daemon.suite.program, "serve", "--config", daemon.config], capture_output=True, text=True, timeout=60)
    check(started.returncode == 1 and path in started.stderr and "remove" in started.stderr, f"serve without the store: {started}")
    check(not os.path.exists(path), "the refused start made a store")
    added = daemon.command("user", "add", "late@example.net", "--password-stdin", stdin="secret\n")
    check(added.returncode == 1 and not os.path.exists(path), f"user add made a store: {added}")
    # When the store's files are back, the daemon has all data again.
    for end in ("", "-wal", "-shm"):
        if os.path.exists(path + end + ".away"):
            os.rename(path + end + ".away", path + end)
    daemon.launch()
    check(t.phone().register(name, password).status == 200, "control: the store that came back has its users")
    daemon.stop()
    for end in ("", "-wal", "-shm"):
        if os.path.exists(path + end):
            os.remove(path + end)
    os.remove(path + ".lock")
    daemon.launch()
    return "a missing store stops the start with a sentence; put back it serves; without the lock's file an empty one begins"


@probe("T35.4", "certificate-that-expires")
def certificate_expires(t):
    daemon = own_daemon(t, "expiring", log={"level": "notice"})
    folder = os.path.join(daemon.folder, "cert")
    os.makedirs(folder)
    key, cert = os.path.join(folder, "key.pem"), os.path.join(folder, "cert.pem")

    def renew(days):
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                        "-keyout", key, "-out", cert, "-days", str(days), "-subj", "/CN=example.net"], check=True,
                       capture_output=True)

    renew(3)
    daemon.values["api"] = {"cert-file": cert, "key-file": key}
    daemon.start()
    check(line_with(daemon, "warning a certificate expires soon", cert), f"no warning at the start: {daemon.log()[-500:]}")
    left = daemon.metric("sippushd_certificate_expiry_timestamp_seconds", file=cert) - time.time()
    check(2 * 86400 < left < 4 * 86400, f"the gauge says {left} s from now")
    # At each SIGHUP, the problem is reported again, for the current certificate.
    renew(5)
    daemon.process.send_signal(signal.SIGHUP)
    check(wait_until(lambda: daemon.log().count("warning a certificate expires soon") == 2), f"no warning at SIGHUP: {daemon.log()[-500:]}")
    check(wait_until(lambda: daemon.log().count("settings reloaded") == 1), "control: SIGHUP")
    renew(300)
    daemon.process.send_signal(signal.SIGHUP)
    check(wait_until(lambda: daemon.log().count("settings reloaded") == 2), "control: SIGHUP")
    left = daemon.metric("sippushd_certificate_expiry_timestamp_seconds", file=cert) - time.time()
    check(left > 200 * 86400, f"after the renewal the gauge says {left} s from now")
    return "a warning at the start and at SIGHUP, and the date as a gauge, which follows the renewal"


@probe("T35.5", "device-show-is-true")
def device_show(t):
    daemon = quiet(t, "showing").start()
    name, password = daemon.user()
    stream, token = t.stream(), fresh("token")
    # The phone's User-Agent is long, and changes the reading direction. A control byte in the User-Agent would be refused
    # with 400.
    agent = "Probe/1.0 (\u202eder) "

    def register(cseq, said):
        answer = stream.register(name, password, params=f";pn-provider=fcm;pn-param=p;pn-prid={token}", call_id=call_id,
                                 cseq=cseq, fields=[("User-Agent", said)])
        check(answer and answer.status == 200, f"control: REGISTER got {answer}")

    call_id = fresh("reg")
    register(1, agent + "x" * 500)

    def shown(*words, timeout=6.0):
        limit = time.monotonic() + timeout
        while True:
            answer = daemon.command("device", "show", name)
            if all(word in answer.stdout for word in words) or time.monotonic() > limit:
                return answer.stdout
            time.sleep(0.1)

    check(" awake " in shown(" awake "), f"while it is connected: {shown()}")
    datagrams, (silent, secret) = t.phone(), daemon.user()
    answer = datagrams.register(silent, secret, params=f";pn-provider=fcm;pn-param=p;pn-prid={fresh('token')}")
    check(answer and answer.status == 200, f"control: REGISTER got {answer}")
    text = daemon.command("device", "show", silent).stdout
    check(" unknown " in text and " awake " not in text, f"of a phone that registered over UDP: {text}")

    def says(text, words):
        escaped = words.replace("\u202e", "\\u{202e}")
        check("\u202e" not in text and escaped in text, f"no {escaped} in device show: {text!r}")
        check("x" * 129 not in text, f"the User-Agent has no end: {text!r}")
        status, body = daemon.admin("GET", f"/v1/users/{name}@example.net/devices")
        said = json.loads(body)[0].get("userAgent", "")
        check(status == 200 and said.startswith(words) and len(said) <= 128, f"over HTTP: {status} {body}")

    says(shown("Probe/1.0"), agent)
    daemon.kill()
    daemon.launch()
    text = shown(" asleep ")
    says(text, agent)
    check(" asleep " in text and " awake " not in text, f"after kill -9 and a restart, without its connection: {text}")
    pbx = t.phone(trusted=True)
    caller, request = call(t, name, caller=pbx)
    check(daemon.suite.provider.wait(token), "control: the push")
    caller.send(caller.cancel(request))
    text = shown("accepted")
    check("accepted" in text and "fcm" in text, f"the app and the last push: {text}")
    # The app was updated. The app's REGISTER changes only the User-Agent; the daemon writes the new User-Agent later.
    stream = t.stream()
    register(11, "Probe/2.0")
    register(21, "Probe/2.1")
    check("Probe/2.1" in shown("Probe/2.1"), f"the renewed app is not shown: {shown()}")
    daemon.stop()
    daemon.launch()
    check("Probe/2.1" in shown("Probe/2.1"), f"after a restart the renewed app is not shown: {shown()}")
    nobody = daemon.command("device", "show", "nobody")
    check(nobody.returncode == 1 and "nobody" in nobody.stderr, f"device show nobody: {nobody}")
    other, _ = daemon.user()
    empty = daemon.command("device", "show", other)
    check(empty.returncode == 0 and "has no device" in empty.stdout, f"a user without a device: {empty}")
    return "awake while connected, unknown over UDP, asleep after kill -9; User-Agent, app and last push; nobody is an error"


@probe("T35.6", "audit-names-what-was-changed")
def audit(t):
    daemon = quiet(t, "audited").start()
    name, _ = daemon.user()
    line = line_with(daemon, "an API request made a change", f"object={name}@example.net", "api-key=probe")
    check(line, f"a user who was added: {daemon.log()[-500:]}")
    phone, token = t.phone(), fresh("secret-token-")
    user, password = daemon.user()
    answer = phone.register(user, password, params=f";pn-provider=fcm;pn-param=p;pn-prid={token}")
    check(answer and answer.status == 200, f"control: REGISTER got {answer}")
    device = json.loads(daemon.command("device", "show", user, "--json").stdout)[0]["name"]
    removed = daemon.command("device", "remove", user, device)
    check(removed.returncode == 0, f"control: {removed}")
    line = line_with(daemon, "an API request made a change", "method=DELETE", f"{user}@example.net {device}", "control socket")
    check(line, f"a device that was removed: {daemon.log()[-500:]}")
    check(token not in daemon.log(), "the log has a token")
    removed = daemon.command("user", "remove", name)
    check(removed.returncode == 0, f"control: {removed}")
    line = line_with(daemon, "an API request made a change", "method=DELETE", f"object={name}@example.net", f"control socket, uid {os.getuid()}")
    check(line, f"a user who was removed: {daemon.log()[-500:]}")
    # The tested commands change no user.
    copy = os.path.join(daemon.folder, "copy.db")
    for command, route, words in (
        (("backup", copy), "/v1/backup", copy), (("message", "remove", "7"), "/v1/messages", "message 7"),
        (("held", "end", "nobody"), "/v1/held", "call nobody"), (("feedback", "pull"), "/v1/feedback/pull", "feedback service"),
        (("provider", "disable", "fcm", "--yes"), "/v1/providers", "object=fcm"), (("drain",), "/v1/drain", "the daemon"),
    ):
        daemon.command(*command)
        line = line_with(daemon, "an API request made a change", route, words, f"control socket, uid {os.getuid()}")
        check(line, f"{command}: {daemon.log()[-500:]}")
    return "lines for changes name what was changed, and the key or the user of the machine who did it; no token"


@probe("T35.7", "check-config-says-so")
def check_config(t):
    daemon = own_daemon(t, "checked")

    def checked(text):
        path = os.path.join(daemon.folder, "checked.yaml")
        with open(path, "w") as file:
            file.write(text)
        answer = subprocess.run([daemon.suite.program, "check-config", "--config", path], capture_output=True, text=True)
        return answer.returncode, answer.stdout + answer.stderr

    control = f"control: {daemon.folder}/checked.sock\nstore: {daemon.folder}/checked.db\n"
    listen = f'listen: ["udp:{daemon.host}:{daemon.port}"]\n'
    for what, text, words in (
        ("no domain", "domains: []\n", "at least one domain"),
        ("a host name without client-ca-file", "domains: [example.net]\ntrusted: [pbx.example.net]\n", "client-ca-file"),
        ("wrong ids", "domains: [example.net]\npush: {apns: {enabled: true, key-file: /k, team-id: team, key-id: ABC123DEFG}}\n",
         "ten characters"),
    ):
        status, said = checked(text + control + listen)
        check(status == 1 and words in said, f"{what}: {status} {said}")
    plain = "domains: [example.net]\n" + control + listen
    status, said = checked(plain)
    check(status == 0 and "no provider is enabled" in said and "another program" not in said, f"without a provider: {said}")
    apps = "push: {fcm: {enabled: true, server-key: x, body-format: legacy, apps: {second: {enabled: true, server-key: y}}}}\n"
    status, said = checked(plain + apps)
    check(status == 0 and "push.fcm.apps.second: without params no device belongs" in said, f"an app that no device belongs to: {status} {said}")
    taken = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    try:
        taken.bind((daemon.host, daemon.port))
        status, said = checked(plain)
        check(status == 0 and f"udp:{daemon.host}:{daemon.port}: another program" in said, f"a port that is taken: {said}")
    finally:
        taken.close()
    return "no domain, a name that nobody can prove and wrong ids are refused; no provider, an app without devices and a taken port are said"


@probe("T35.8", "command-right-after-the-start")
def right_after_start(t):
    """A command that is given while the daemon starts gets an answer. The command does not report that another sippushd
    has the store."""
    daemon = quiet(t, "starting").start()
    for number in range(8):
        daemon.stop()
        with open(daemon.log_path, "ab") as log:
            daemon.process = subprocess.Popen([daemon.suite.program, "serve", "--config", daemon.config], stdin=subprocess.DEVNULL,
                                              stdout=log, stderr=log)
        time.sleep(0.02 * number)
        added = daemon.command("user", "add", f"early{number}@example.net", "--password-stdin", stdin="secret\n")
        check(added.returncode == 0, f"user add {20 * number} ms after the start: {added}")
    listed = daemon.command("user", "list").stdout
    check(all(f"early{number}@" in listed for number in range(8)), f"not all are there: {listed}")
    return "user add at 8 moments of the start: each is done"


@probe("T35.9", "provider-away-is-told")
def provider_away(t):
    port = t.suite.free_port()
    daemon = own_daemon(t, "unreached", log={"level": "notice"},
                        push={"fcm": {"endpoint": f"http://127.0.0.1:{port}"}}, call={"ring-timeout": "20s"})
    daemon.start()
    pbx = t.phone(trusted=True)

    def wake():
        phone = t.phone()
        name, password = daemon.user()
        answer = phone.register(name, password, params=f";pn-provider=fcm;pn-param=p;pn-prid={fresh('token')}", expires=60)
        check(answer and answer.status == 200, f"control: REGISTER got {answer}")
        phone.close()
        call(t, name, caller=pbx)
        time.sleep(0.25)

    for number in range(7):
        wake()
    check(line_with(daemon, "push provider cannot be reached", "fcm", timeout=15), "no line when the circuit opens")
    text = daemon.command("provider", "list").stdout
    check("not reached" in text and "last error:" in text and "UNDER WAY" in text, f"provider list: {text}")

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            body = b'{"success": 1, "failure": 0, "results": [{"message_id": "1"}]}'
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *arguments):
            pass

    server = QuietServer(("127.0.0.1", port), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    wake()
    check(line_with(daemon, "the push provider can be reached again", "fcm", timeout=15), "no line when the circuit closes")
    server.shutdown()
    return "a line when the circuit opens and when it closes, and provider list has the last error"


class FaultyProxy:
    """An HTTP proxy for CONNECT. At first it refuses or does not answer, as the probe chooses, and later it connects to
    the provider."""

    def __init__(self):
        self.behaviour = "502"
        self.heads = []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(connection,), daemon=True).start()

    def serve(self, connection):
        try:
            head = b""
            while b"\r\n\r\n" not in head:
                some = connection.recv(65536)
                if not some:
                    return
                head += some
            self.heads.append(head)
            if self.behaviour == "hangs":
                while connection.recv(65536):
                    pass
            elif self.behaviour == "leads":
                host, _, port = head.split()[1].decode().rpartition(":")
                with socket.create_connection((host, int(port))) as server:
                    connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
                    threading.Thread(target=self.copy, args=(server, connection), daemon=True).start()
                    self.copy(connection, server)
            else:
                connection.sendall(f"HTTP/1.1 {self.behaviour} No\r\nContent-Length: 0\r\n\r\n".encode())
        except OSError:
            pass
        finally:
            connection.close()

    def copy(self, source, target):
        try:
            while some := source.recv(65536):
                target.sendall(some)
        except OSError:
            pass

    def close(self):
        self.listener.close()


@probe("T35.10", "faulty-proxy-is-blamed")
def faulty_proxy(t):
    """If a proxy refuses or does not answer, the circuit breaker of its provider opens. The log names the HTTP proxy as
    the cause, not the push provider."""
    for behaviour, words in (("502", "cannot reach this server (502)"), ("hangs", "does not answer in time"),
                             ("407", "refuses our login (407)")):
        proxy = t.own(FaultyProxy())
        proxy.behaviour = behaviour
        daemon = own_daemon(t, f"proxied-{behaviour}", log={"level": "notice"}, call={"ring-timeout": "40s"},
                            push={"proxy": f"http://user:PLANTED-proxy@127.0.0.1:{proxy.port}"})
        daemon.start()
        pbx = t.phone(trusted=True)

        def wake(count=1):
            phone = t.phone()
            for _ in range(count):
                name, password = daemon.user()
                answer = phone.register(name, password, params=f";pn-provider=fcm;pn-param=p;pn-prid={fresh('token')}", expires=60)
                check(answer and answer.status == 200, f"control: REGISTER got {answer}")
                call(t, name, caller=pbx)
                # Simultaneous failures of requests count as one failure.
                time.sleep(0.25)

        wake(7)
        if behaviour == "407":
            # If the proxy refuses the login, the push ends immediately, because a later attempt would fail too.
            line = line_with(daemon, "the daemon cannot connect to the push provider: correct the settings of the app", words, timeout=30)
        else:
            line = line_with(daemon, "push provider cannot be reached", words, timeout=60)
        check(line, f"{behaviour}: no line that blames the proxy: {daemon.log()[-1500:]}")
        check(f"the proxy 127.0.0.1:{proxy.port}" in line, f"{behaviour}: the line names another culprit: {line}")
        text = daemon.command("provider", "list").stdout
        check(f"the proxy 127.0.0.1:{proxy.port}" in text and words in text, f"{behaviour}: provider list says {text}")
        check("PLANTED-proxy" not in daemon.log() + text, f"{behaviour}: the password is shown")
        check(proxy.heads and all(head.startswith(b"CONNECT ") for head in proxy.heads), f"control: {proxy.heads[:1]}")
        if behaviour == "502":
            proxy.behaviour = "leads"
            wake()
            check(line_with(daemon, "the push provider can be reached again", "fcm", timeout=20), "no line when the proxy leads again")
        daemon.stop()
    return "a proxy with 502, 407 or without any answer is blamed in the log and in provider list, and the breaker closes again"
