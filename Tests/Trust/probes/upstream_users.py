"""T38: users who are kept registered at a PBX that owns them."""

import hashlib
import re
import socket
import struct
import subprocess
import threading
import time

from daemon import Daemon
from machine import patience
from probes.load import UNSHARE, NameServer
from probes.users import Hook
from probes.wake import pushed, sleeper
from sip import Message, Phone, fresh
from suite import Skipped, check, probe


class Registrar(Phone):
    """A PBX that registers users with the passwords of the daemon. Probes change how the PBX answers."""

    def __init__(self, host, port, target):
        super().__init__(host, target, port)
        self.grant, self.status, self.challenges, self.listed = 60, None, True, []
        # The contact of each user, and all REGISTERs with a contact, in the order in which they came.
        self.contacts, self.registers = {}, []
        # The passwords that the PBX checks; other users may have any credentials.
        self.passwords, self.wrong = {}, []
        self.answers = True
        usual = self.arrived
        self.arrived = lambda raw, source: self.asked(raw, source) or usual(raw, source)
        self.lock = threading.Lock()

    def asked(self, raw, source):
        if not raw.startswith((b"REGISTER ", b"OPTIONS ")):
            return False
        if not self.answers:
            return True
        request = Message(raw, source)
        if request.method == "OPTIONS":
            self.respond(request, 200, "OK", tag="probe")
            return True
        user = re.search(r"sip:([^@]+)@", request.get("to")).group(1)
        with self.lock:
            self.registers.append(request)
            if self.status:
                self.respond(request, self.status, tag="pbx")
            elif self.challenges and not request.get("authorization"):
                self.respond(request, 401, tag="pbx", fields=[
                    ("WWW-Authenticate", f'Digest realm="example.net", nonce="{fresh("n")}", qop="auth"')])
            elif user in self.passwords and not self.is_right(request, user):
                self.wrong.append(user)
                self.respond(request, 403, tag="pbx")
            else:
                self.accept(request, user)
        return True

    def is_right(self, request, user):
        items = dict(re.findall(r'(\w+)="?([^",]*)', request.get("authorization")))

        def h(text):
            return hashlib.md5(text.encode()).hexdigest()

        secret = h(f"{user}:example.net:{self.passwords[user]}")
        middle = ":".join(items.get(key, "") for key in ("nonce", "nc", "cnonce", "qop"))
        return items.get("response") == h(f"{secret}:{middle}:" + h(f"REGISTER:{items.get('uri')}"))

    def accept(self, request, user):
        contact = request.contact_uri()
        if contact:
            if request.get("expires") == "0":
                self.contacts.pop(user, None)
            else:
                self.contacts[user] = contact
        own = [f"<{self.contacts[user]}>;expires={self.grant}"] if user in self.contacts else []
        self.respond(request, 200, "OK", tag="pbx", fields=[("Contact", one) for one in self.listed + own])

    def contact(self, user, timeout=10.0):
        """The contact that the daemon has registered for the user at the PBX."""
        limit = time.monotonic() + patience(timeout)
        while time.monotonic() < limit:
            with self.lock:
                if user in self.contacts:
                    return self.contacts[user]
            time.sleep(0.02)
        return None

    def lacks(self, user, timeout=5.0):
        """Waits until the user's contact is gone, and returns whether it went in time."""
        return until(lambda: user not in self.contacts, timeout)

    def ends(self, user):
        """The REGISTERs with credentials that end the user's registration."""
        return [one for one in self.of(user) if one.get("expires") == "0" and one.get("authorization")]

    def call(self, token, daemon, **more):
        request = self.make("INVITE", f"sip:{token}@{daemon.host}:{daemon.port}", "700", **more)
        self.send(request)
        return request

    def of(self, user):
        with self.lock:
            return [one for one in self.registers if f"sip:{user}@" in one.get("to")]


def until(truth, timeout=5.0):
    """Whether the condition becomes true in time."""
    limit = time.monotonic() + patience(timeout)
    while not truth():
        if time.monotonic() > limit:
            return False
        time.sleep(0.02)
    return True


class Names(NameServer):
    """A name server with SRV records (RFC 2782): one name leads to several servers, the preferred one first."""

    def __init__(self, host, folder, name, servers):
        self.services = [(f"s{number}.{name}", place) for number, place in enumerate(servers)]
        self.name = name
        super().__init__(host, folder)
        self.address = host

    def answer(self, raw):
        end = raw.index(b"\0", 12) + 5
        labels, place = [], 12
        while raw[place]:
            labels.append(raw[place + 1:place + 1 + raw[place]].decode().lower())
            place += 1 + raw[place]
        asked, kind = ".".join(labels), struct.unpack(">H", raw[end - 4:end - 2])[0]
        rows = []
        if kind == 33 and asked == f"_sip._udp.{self.name}":
            for number, (target, server) in enumerate(self.services):
                words = b"".join(bytes([len(part)]) + part.encode() for part in target.split(".")) + b"\0"
                rows.append(struct.pack(">HHH", 10 * (number + 1), 0, server.port) + words)
        if kind == 1:
            rows = [socket.inet_aton(server.host) for target, server in self.services if target == asked]
        body = b"".join(b"\xc0\x0c" + struct.pack(">HHIH", kind, 1, 60, len(row)) + row for row in rows)
        return raw[:2] + b"\x81\x80\0\1" + struct.pack(">H", len(rows)) + b"\0\0\0\0" + raw[12:end] + body


def own_daemon(t, name, host, **settings):
    t.needs("register-upstream")
    daemon = Daemon(name, t.suite, {})
    pbx = t.own(Registrar(host, t.suite.free_port(), daemon.address))
    daemon.values = {"register-upstream": {"example.net": {"upstream": f"sip:{host}:{pbx.port}"}}, **settings}
    t.daemon = t.suite.daemons[name] = daemon
    daemon.start()
    return daemon, pbx


def token_of(contact):
    return re.match(r"sip:([A-Z2-7]{20})@", contact or "").group(1)


def refused(agent, uri, method="INVITE"):
    request = agent.make(method, uri, "700")
    answer = agent.exchange(request)
    if answer and method == "INVITE":
        agent.send(agent.ack_failure(request, answer))
    return answer


@probe("T38.1", "wrong-passwords-stay-here")
def wrong_passwords_stay_here(t):
    """A client that registers at the daemon with another user's name and guessed passwords causes no REGISTER to the PBX."""
    daemon, pbx = own_daemon(t, "pbx-guesses", "127.2.0.31")
    name, _ = daemon.user()
    thief = t.phone()
    for _ in range(10):
        thief.register(name, fresh("wrong"), params=pushed(fresh("token")))
    time.sleep(patience(1))
    check(not pbx.of(name), f"the PBX got {len(pbx.of(name))} REGISTERs")
    return "ten wrong passwords: the PBX hears nothing"


@probe("T38.2", "refused-password-is-tried-once")
def refused_password_is_tried_once(t):
    """If the PBX has another password, the daemon tries its password only once, because retries would lock the account at
    the PBX."""
    daemon, pbx = own_daemon(t, "refused", "127.2.0.32")
    pbx.status = 403
    phone, name, password, token = sleeper(t)
    limit = time.monotonic() + patience(6)
    while time.monotonic() < limit and not pbx.of(name):
        time.sleep(0.05)
    check(len(pbx.of(name)) == 1, f"control: the PBX got {len(pbx.of(name))} REGISTERs")
    for _ in range(5):
        answer = phone.register(name, password, params=pushed(token))
        check(answer and answer.status == 200, f"control: {answer}")
    time.sleep(patience(1))
    check(len(pbx.of(name)) == 1, f"the PBX got {len(pbx.of(name))} REGISTERs")
    told = daemon.command("explain", f"{name}@example.net").stdout
    check(told.startswith("not known at the PBX since ") and "(403)" in told.splitlines()[0], f"explain begins: {told[:160]}")
    pbx.status = None
    daemon.user(name, password=password + "x")
    check(pbx.contact(name), "a new password does not register the user")
    return "one REGISTER, explain says why, and a new password is tried"


@probe("T38.3", "token-is-for-its-pbx-alone")
def token_is_for_its_pbx_alone(t):
    """A guessed or overheard token reaches the user only from the token's own PBX."""
    daemon, pbx = own_daemon(t, "tokens", "127.2.0.33")
    _, name, _, device = sleeper(t)
    token = token_of(pbx.contact(name))
    here = f"{daemon.host}:{daemon.port}"
    other = t.phone(trusted=True)
    known, guessed = refused(other, f"sip:{token}@{here}"), refused(other, f"sip:{'A' * 20}@{here}")
    check(known and known.status == 404, f"another trusted peer got {known}")
    check(guessed and guessed.status == known.status and len(guessed.raw) - len(known.raw) in range(-60, 61),
          "a guess gets another answer than a token")
    stranger = refused(t.phone(), f"sip:{token}@{here}")
    check(stranger and stranger.status in (403, 404, 407), f"a stranger got {stranger}")
    check(not t.suite.provider.of(device), "a push was sent")
    options = pbx.make("OPTIONS", f"sip:{token}@{here}", "700")
    answer = pbx.exchange(options)
    check(answer and answer.status == 200, f"control: OPTIONS of the PBX got {answer}")
    check(not t.suite.provider.of(device), "OPTIONS sent a push")
    call = pbx.make("INVITE", f"sip:{token}@{here}", "700")
    pbx.send(call)
    check(t.suite.provider.wait(device), "control: a call of the PBX sends no push")
    push = str(t.suite.provider.of(device)[0])
    check(token not in push, f"the push is {push}")
    pbx.send(pbx.cancel(call))
    check(token not in daemon.log(), "the log has the token")
    told = daemon.command("explain", f"{name}@example.net").stdout
    check(token not in told, "explain shows the token")
    return "404 for all but the PBX, whose call wakes the phone; log, push and explain name the user"


@probe("T38.4", "stranger-answers-for-the-pbx")
def stranger_answers_for_the_pbx(t):
    """An attacker sends responses to the daemon's REGISTERs, from another source address or with another Via branch."""
    daemon, pbx = own_daemon(t, "stranger", "127.2.0.34")
    pbx.answers = False
    _, name, _, _ = sleeper(t)
    seen = []
    pbx.asked, usual = (lambda raw, source: seen.append((raw, source)) or True), pbx.asked
    limit = time.monotonic() + patience(8)
    while time.monotonic() < limit and not [raw for raw, _ in seen if raw.startswith(b"REGISTER")]:
        time.sleep(0.05)
    register = next((Message(raw, source) for raw, source in seen if raw.startswith(b"REGISTER")), None)
    check(register, "control: no REGISTER")
    stranger = t.phone()
    stranger.respond(register, 403, tag="x")
    forged = Message(register.raw.replace(register.branch.encode(), b"z9hG4bKforged"), register.source)
    pbx.respond(forged, 403, tag="x")
    time.sleep(patience(0.5))
    check(daemon.metric("sippushd_upstream_bindings", state="refused") == 0, "a stranger's 403 counts")
    pbx.respond(register, 403, tag="x")
    limit = time.monotonic() + patience(5)
    while time.monotonic() < limit and daemon.metric("sippushd_upstream_bindings", state="refused") == 0:
        time.sleep(0.05)
    check(daemon.metric("sippushd_upstream_bindings", state="refused") == 1, "control: the PBX's own 403 does not count")
    return "an answer counts only with the source address and the branch of the request"


@probe("T38.5", "a-pbx-that-lies-about-times")
def pbx_that_lies(t):
    """The daemon copes with a PBX that grants one second or ten years, or that lists the contacts of others."""
    daemon, pbx = own_daemon(t, "liar", "127.2.0.35")
    pbx.grant = 1
    pbx.listed = ["<sip:desk@10.0.0.9>;expires=1", "*", "<sip:AAAAAAAAAAAAAAAAAAAA@10.0.0.9>;expires=0"]
    _, name, _, _ = sleeper(t)
    check(pbx.contact(name), "control: not registered")
    time.sleep(3)
    binds = [one for one in pbx.of(name) if one.get("contact")]
    check(len(binds) <= 4, f"{len(binds)} REGISTERs in three seconds")
    pbx.grant = 315360000
    _, other, _, _ = sleeper(t)
    check(pbx.contact(other), "a grant of ten years: not registered")
    shown = daemon.command("upstream", "show", f"{other}@example.net", "--json").stdout
    check(re.search(r'"remaining" ?: ?(\d+)', shown), f"upstream show prints {shown}")
    check(int(re.search(r'"remaining" ?: ?(\d+)', shown).group(1)) <= 3600, f"the daemon believes in ten years: {shown}")
    return "a second makes no flood, ten years count as an hour, and contacts of others are ignored"


@probe("T38.6", "restart-keeps-the-token")
def restart_keeps_the_token(t):
    """The token of a user stays the same after kill -9, until the user's last device is gone."""
    daemon, pbx = own_daemon(t, "again", "127.2.0.36")
    phone, name, password, token = sleeper(t)
    first = pbx.contact(name)
    check(first, "control: not registered")
    before = max(int(one.get("cseq").split()[0]) for one in pbx.of(name))
    daemon.kill()
    pbx.contacts.clear()
    daemon.launch()
    check(pbx.contact(name) == first, f"{pbx.contacts.get(name)} after the restart, {first} before")
    check(int(pbx.of(name)[-1].get("cseq").split()[0]) > before, "CSeq does not rise over the restart")
    call_ids = {one.call_id for one in pbx.of(name)}
    check(len(call_ids) == 1, f"{len(call_ids)} Call-IDs")
    phone.register(name, password, expires=0, params=pushed(token))
    limit = time.monotonic() + patience(5)
    while time.monotonic() < limit and name in pbx.contacts:
        time.sleep(0.05)
    check(name not in pbx.contacts, "the PBX still has the contact of a user without a phone")
    return "the same token and Call-ID, a higher CSeq, and no contact after the sign-out"


@probe("T38.7", "phones-answer-the-pbx")
def phones_answer_the_pbx(t):
    """The PBX itself asks phones for their passwords, and does not rely on the daemon."""
    daemon, pbx = own_daemon(t, "asks", "127.2.0.37")
    phone, name, _, _ = sleeper(t)
    check(pbx.contact(name), "control: not registered")
    request = phone.make("INVITE", "sip:700@example.net", name)
    phone.send(request)
    got = pbx.request("INVITE", request.call_id)
    check(got, "the call of a registered phone does not reach the PBX")
    check(f"sip:{name}@" in got.get("from") and not got.get("p-asserted-identity"), f"From {got.get('from')}")
    pbx.respond(got, 401, tag="p", fields=[("WWW-Authenticate", 'Digest realm="example.net", nonce="ofThePBX", qop="auth"')])
    answer = phone.response(request.call_id, "INVITE")
    check(answer and answer.status == 401 and "ofThePBX" in answer.get("www-authenticate"), f"the phone got {answer}")
    phone.send(phone.ack_failure(request, answer))
    again = request.renewed()
    again.add("Authorization", f'Digest username="{name}", realm="example.net", nonce="ofThePBX", uri="sip:700@example.net", '
                               f'response="{"0" * 32}", qop=auth, nc=00000001, cnonce="c"')
    phone.send(again)
    got = pbx.request("INVITE", request.call_id)
    check(got and "ofThePBX" in (got.get("authorization") or ""), "the PBX does not get the phone's answer")
    pbx.respond(got, 486, tag="p")
    phone.send(phone.ack_failure(again, phone.response(request.call_id, "INVITE")))
    stranger = t.phone()
    other = stranger.make("INVITE", "sip:700@example.net", name)
    answer = stranger.exchange(other)
    check(answer and answer.status == 407, f"another address with this From got {answer}")
    check(not pbx.request("INVITE", other.call_id, 0.5), "its call reached the PBX")
    # The PBX has asked phones for a password once, so one call without a challenge must not make the daemon ask all phones.
    call_without_challenge(phone, pbx, name)
    later = phone.make("INVITE", "sip:702@example.net", name)
    phone.send(later)
    got = pbx.request("INVITE", later.call_id)
    check(got, "after one call without a challenge the PBX gets no calls")
    pbx.respond(got, 486, tag="p")
    phone.send(phone.ack_failure(later, phone.response(later.call_id, "INVITE")))
    # Another PBX never asks for a password, so after its first answer the daemon itself asks the phones.
    daemon, pbx = own_daemon(t, "asks-nobody", "127.2.0.44")
    phone, name, _, _ = sleeper(t)
    check(pbx.contact(name), "control: not registered at the second PBX")
    call_without_challenge(phone, pbx, name)
    asked = phone.make("INVITE", "sip:702@example.net", name)
    answer = phone.exchange(asked)
    check(answer and answer.status == 407, f"after a call without a challenge the phone got {answer}")
    return "challenge and answer pass, strangers are asked here, and a PBX without challenges is noticed"


def call_without_challenge(phone, pbx, name):
    """Makes a call that the PBX answers with 180 and then refuses, without asking for a password."""
    request = phone.make("INVITE", "sip:701@example.net", name)
    phone.send(request)
    got = pbx.request("INVITE", request.call_id)
    check(got, "control: the PBX gets no call")
    pbx.respond(got, 180, tag="p")
    pbx.respond(got, 486, tag="p")
    phone.send(phone.ack_failure(request, phone.response(request.call_id, "INVITE")))


@probe("T38.2", "password-changed-at-the-pbx")
def password_changed(t):
    """The operator of the PBX gives a user a new password. The daemon must not try the old password again and again."""
    daemon, pbx = own_daemon(t, "changed", "127.2.0.47")
    pbx.grant = 20
    phone, name, password, token = sleeper(t)
    check(pbx.contact(name), "control: not registered")
    # First, the daemon learns that the PBX answers queries of contacts.
    check(until(lambda: any(not one.get("contact") for one in pbx.of(name)), 25), "control: no question for the contacts")
    time.sleep(patience(0.3))
    pbx.passwords[name] = new = fresh("pw-PLANTED-")
    check(until(lambda: pbx.wrong, 25), "control: the registration was not renewed with the old password")
    for _ in range(3):
        phone.register(name, password, params=pushed(token))
    time.sleep(patience(2))
    check(pbx.wrong == [name], f"the PBX got {len(pbx.wrong)} wrong passwords")
    lines = [line for line in daemon.log().splitlines() if "the PBX refuses to register a user" in line and name in line]
    check(len(lines) == 1, f"{len(lines)} log lines about the refused password")
    with pbx.lock:
        pbx.contacts.pop(name, None)
    daemon.user(name, password=new)
    check(pbx.contact(name), "the new password does not register the user")
    check(pbx.wrong == [name], "the old password was tried again")
    return "one REGISTER with the old password, one log line, and the new password registers the user"


@probe("T38.6", "last-device-gone")
def last_device_gone(t):
    """Three ends of a registration: both of two devices sign out, one after the other; the only push token dies; an
    operator removes the user."""
    daemon, pbx = own_daemon(t, "goodbyes", "127.2.0.48")
    one, name, password, token = sleeper(t)
    two, other = t.phone(), fresh("token")
    answer = two.register(name, password, params=pushed(other))
    check(answer and answer.status == 200, f"control: {answer}")
    contact = pbx.contact(name)
    check(contact, "control: not registered")
    one.register(name, password, expires=0, params=pushed(token))
    time.sleep(patience(1))
    check(pbx.contacts.get(name) == contact and not pbx.ends(name), "one of two devices signed out, and the PBX lost the user")
    call = pbx.call(token_of(contact), daemon)
    check(t.suite.provider.wait(other), "the remaining device gets no push")
    check(not t.suite.provider.of(token), "the device that signed out gets a push")
    pbx.send(pbx.cancel(call))
    two.register(name, password, expires=0, params=pushed(other))
    check(pbx.lacks(name) and pbx.ends(name), "the last device signed out, and the PBX still has the contact")

    phone, dying, password, token = t.phone(), None, None, fresh("dead")
    dying, password = t.registered(phone, params=pushed(token))
    contact = pbx.contact(dying)
    check(contact, "control: not registered")
    begin = time.monotonic()
    call = pbx.call(token_of(contact), daemon)
    check(t.suite.provider.wait(token), "control: no push")
    check(pbx.lacks(dying) and pbx.ends(dying), "the token is dead, and the PBX still has the contact")
    took = time.monotonic() - begin
    answer = pbx.response(call.call_id, "INVITE")
    check(answer and answer.status in (404, 480), f"the call for the dead token got {answer}")

    _, removed, _, _ = sleeper(t)
    contact = pbx.contact(removed)
    check(contact, "control: not registered")
    done = daemon.command("user", "remove", f"{removed}@example.net")
    check(done.returncode == 0, f"control: {done.stderr}")
    check(pbx.lacks(removed) and pbx.ends(removed), "the user is removed, and the PBX still has the contact")
    answer = refused(pbx, f"sip:{token_of(contact)}@{daemon.host}:{daemon.port}")
    check(answer and answer.status in (404, 480), f"the token of a removed user got {answer}")
    return f"the contact stays for the second device; then Expires 0 after the sign-out, {took:.1f} s after the call that showed the dead token, and after the removal"


def notify(pbx, token, daemon, text, event="message-summary", fields=()):
    request = pbx.make("NOTIFY", f"sip:{token}@{daemon.host}:{daemon.port}", "mwi", body=text, fields=[
        ("Event", event), ("Subscription-State", "terminated"), *fields])
    return pbx.exchange(request)


@probe("T38.8", "mwi-waits-for-the-phone")
def mwi_waits(t):
    """The PBX reports the number of voice messages while the phone sleeps, and the daemon is killed in between."""
    daemon, pbx = own_daemon(t, "mwi", "127.2.0.49")
    phone, name, password, token = sleeper(t, t.stream())
    call_token = token_of(pbx.contact(name))
    phone.close()
    answer = refused(pbx, f"sip:{call_token}@{daemon.host}:{daemon.port}", "OPTIONS")
    check(answer and answer.status == 200, f"OPTIONS got {answer}")
    for number in (1, 2, 3):
        answer = notify(pbx, call_token, daemon, f"Voice-Message: {number}/0")
        check(answer and answer.status == 200, f"NOTIFY {number} got {answer}")
    answer = notify(pbx, call_token, daemon, "Voice-Message: 66/0", event="other")
    check(answer and answer.status == 200, f"NOTIFY of another event got {answer}")
    stranger = notify(t.phone(trusted=True), call_token, daemon, "Voice-Message: 99/0")
    check(stranger and stranger.status == 404, f"the NOTIFY of another peer got {stranger}")
    check(not t.suite.provider.of(token), "OPTIONS or NOTIFY sent a push")
    daemon.kill()
    daemon.launch()
    back = t.stream()
    answer = back.register(name, password, params=pushed(token))
    check(answer and answer.status == 200, f"control: {answer}")
    got = []
    while True:
        one = back.request("NOTIFY", timeout=2 if got else 6)
        if not one:
            break
        got.append(one.body.decode())
        back.respond(one, 200, tag="m")
    check(got == ["Voice-Message: 3/0", "Voice-Message: 66/0"], f"the phone got {got}")
    back.close()
    answer = notify(pbx, call_token, daemon, "Voice-Message: 4/0", fields=[("Priority", "urgent")])
    check(answer and answer.status == 200, f"an urgent NOTIFY got {answer}")
    check(t.suite.provider.wait(token), "control: an urgent NOTIFY sends no push")
    return "200 without a push; after kill -9 the phone gets the latest of each event; an urgent one wakes"


@probe("T38.8", "mwi-is-stored-before-the-last-is-dropped")
def mwi_survives(t):
    """kill -9 at any moment while one NOTIFY after the other arrives: a NOTIFY that got 200 is never lost."""
    daemon, pbx = own_daemon(t, "mwi-kills", "127.2.0.50")
    phone, name, password, token = sleeper(t, t.stream())
    call_token = token_of(pbx.contact(name))
    phone.close()
    answer = notify(pbx, call_token, daemon, "Voice-Message: 0/0")
    check(answer and answer.status == 200, f"control: NOTIFY got {answer}")
    number = 0
    for _ in range(6):
        killer = threading.Timer(t.random.uniform(0.01, 0.2), daemon.process.kill)
        killer.start()
        while daemon.alive():
            number += 1
            one = pbx.make("NOTIFY", f"sip:{call_token}@{daemon.host}:{daemon.port}", "mwi", body=f"Voice-Message: {number}/0",
                           fields=[("Event", "message-summary"), ("Subscription-State", "terminated")])
            pbx.send(one)
            answer = pbx.response(one.call_id, "NOTIFY", 0.3)
            if answer and answer.status == 200:
                last = number
        killer.join()
        daemon.process.wait()
        daemon.launch()
    back = t.stream()
    back.register(name, password, params=pushed(token))
    got = back.request("NOTIFY")
    check(got, f"no NOTIFY is left after {number} of them and six kills")
    left = int(re.search(r"(\d+)/0", got.body.decode()).group(1))
    check(left >= last, f"the phone gets NOTIFY {left}, and {last} got 200")
    back.respond(got, 200, tag="m")
    return f"{number} NOTIFYs and six kills: the phone gets the last one that was acknowledged, or a later one"


@probe("T38.9", "registers-have-a-rate")
def registers_have_a_rate(t):
    """Many users register at the same time, and an operator orders new registrations of all users. The daemon must not
    flood the PBX, and must register called users first."""
    daemon, pbx = own_daemon(t, "rate", "127.2.0.51")
    daemon.stop()
    daemon.values["register-upstream"]["example.net"]["rate"] = 10
    daemon.start()
    users = [sleeper(t)[1] for _ in range(30)]
    check(all(pbx.contact(name, 30) for name in users), "control: not all users are registered")
    called = users[-3]
    call = pbx.call(token_of(pbx.contacts[called]), daemon)
    check(pbx.take(lambda m: m.call_id == call.call_id and m.status in (100, 180, 183)), "control: the call was not taken")
    pbx.send(pbx.cancel(call))
    before = len(pbx.registers)
    for _ in range(3):
        done = daemon.command("upstream", "retry", "example.net")
        check(done.returncode == 0, f"control: {done.stderr}")
    ordered = time.monotonic()
    check(until(lambda: len({one.get("to") for one in pbx.registers[before:]}) == len(users), 30), "not all users were registered again")
    again = pbx.registers[before:]
    # A REGISTER that asks the PBX for a user's contacts may come in between.
    order = [re.search(r"sip:([^@]+)@", one.get("to")).group(1) for one in again if one.get("contact")]
    check(called in order[:2], f"the user who was called is at place {order.index(called)}")
    # On a busy machine, a user may be registered again before the last command. The last command then registers this
    # user once more.
    early = {re.search(r"sip:([^@]+)@", one.get("to")).group(1) for one in again if one.time <= ordered}
    check(all(order.count(name) <= 3 for name in users if name not in early), "three orders made more than one registration of a user")
    times = [one.time for one in pbx.registers]
    worst = max(sum(1 for other in times if begin <= other < begin + 1) for begin in times)
    check(worst <= 14, f"{worst} REGISTERs in one second")
    return f"at most {worst} REGISTERs a second of 10 allowed, one registration for three orders, and the called user first"


@probe("T38.10", "pbx-sends-the-call-back")
def pbx_sends_the_call_back(t):
    """A user forwards all calls to himself at the PBX, which passes the INVITE on to his own contact, again and again."""
    daemon, pbx = own_daemon(t, "circle", "127.2.0.52")
    phone, name, password, _ = sleeper(t)
    other = fresh("token")
    asleep = t.stream()
    answer = asleep.register(name, password, params=pushed(other))
    check(answer and answer.status == 200, f"control: {answer}")
    asleep.close()
    token = token_of(pbx.contact(name))
    request = phone.make("INVITE", f"sip:{name}@example.net", name, max_forwards=20)
    phone.send(request)
    got = pbx.request("INVITE", request.call_id)
    check(got, "control: the call does not reach the PBX")
    # The PBX sends the INVITE back unchanged, and then to the user's contact, as a proxy does.
    for number in range(40):
        copy = got.raw
        if number:
            copy = copy.replace(got.start.encode(), f"INVITE sip:{token}@{daemon.host}:{daemon.port} SIP/2.0".encode())
        branch = f"Via: SIP/2.0/UDP {pbx.host}:{pbx.port};branch={fresh('z9hG4bK')}\r\nVia:".encode()
        copy = re.sub(rb"(?i)\r\nVia:", b"\r\n" + branch, copy, count=1)
        hops = max(0, int(got.get("max-forwards")) - number)
        copy = re.sub(rb"(?i)Max-Forwards: *\d+", f"Max-Forwards: {hops}".encode(), copy)
        pbx.send(copy)
    time.sleep(patience(2))
    pushes = len(t.suite.provider.of(other))
    check(pushes <= 1, f"{pushes} pushes for one call that goes in a circle")
    refusals = {m.status for m in list(pbx.history) if m.is_response and m.call_id == request.call_id and m.status >= 400}
    check(refusals & {482, 483, 404}, f"the circle is not ended: {refusals}")
    # The daemon repeats the first INVITE, because the PBX does not answer it.
    sent = {m.branch for m in list(pbx.history) if m.method == "INVITE" and m.call_id == request.call_id}
    check(len(sent) == 1, f"the PBX got {len(sent)} INVITEs of one call")
    check(daemon.alive(), "the daemon ended")
    return f"{pushes} push, no INVITE goes round again, and the circle ends with {sorted(refusals)}"


@probe("T38.11", "next-server-of-the-pbx")
def next_server(t):
    """The first of two servers is silent, then answers 503, and works again after each fault."""
    if subprocess.run(UNSHARE + ["mount", "--bind", "/etc/hosts", "/etc/resolv.conf"], capture_output=True).returncode:
        raise Skipped("no file can be put in the place of /etc/resolv.conf here")
    t.needs("register-upstream")
    daemon = t.daemon = t.suite.daemons["two-servers"] = Daemon("two-servers", t.suite, {})
    first = t.own(Registrar("127.2.0.53", t.suite.free_port(), daemon.address))
    second = t.own(Registrar("127.2.0.54", t.suite.free_port(), daemon.address))
    name = "pbx.sippushd-probe.test"
    daemon.manager = t.own(Names(t.address(), daemon.folder, name, [first, second]))
    daemon.values = {"register-upstream": {"example.net": {"upstream": f"sip:{name};transport=udp"}},
                     "upstream-check": {"interval": "1s", "patience": "1s"}}
    daemon.start()
    _, user, _, token = sleeper(t)
    contact = first.contact(user)
    check(contact, "control: not registered at the preferred server")
    check(not second.of(user), "registered at both servers")
    # The registration lasts for a minute, and the daemon moves the users before their next refresh.
    begin = time.monotonic()
    first.answers = False
    check(second.contact(user, 20) == contact, "the first server is silent, and the user is not registered at the second one")
    took = time.monotonic() - begin
    call = second.call(token_of(contact), daemon)
    check(t.suite.provider.wait(token), "a call of the second server wakes nobody")
    second.send(second.cancel(call))
    first.contacts.clear()
    first.answers = True
    check(first.contact(user, 20) == contact, "the first server answers again, and the user is not registered there")
    first.status = 503
    _, late, _, _ = sleeper(t)
    check(second.contact(late, 20), "the first server answers 503, and the user is not registered at the second one")
    second.status = 503
    _, later, _, _ = sleeper(t)
    time.sleep(patience(2))
    check(daemon.alive() and later not in second.contacts, "control: both servers refuse")
    first.status = second.status = None
    check(until(lambda: later in first.contacts or later in second.contacts, 30), "with the servers back, the user is not registered")
    return f"registered at the second server {took:.1f} s after the first fell silent, at the first when it was back, at the second after a 503"


@probe("T38.12", "passwords-of-a-hook")
def passwords_of_a_hook(t):
    """The users of the PBX are behind an HTTP hook, and not in the store. The hook hangs for a while."""
    t.needs("register-upstream", "users.order")
    daemon = t.daemon = t.suite.daemons["hooked-pbx"] = Daemon("hooked-pbx", t.suite, {})
    pbx, hook = t.own(Registrar("127.2.0.55", t.suite.free_port(), daemon.address)), t.own(Hook())
    secret = f"{daemon.folder}/secret"
    with open(secret, "w") as file:
        file.write("hook-PLANTED\n")
    daemon.values = {"register-upstream": {"example.net": {"upstream": f"sip:{pbx.host}:{pbx.port}"}},
                     "users": {"order": "[pbx]", "sources": {"pbx": {"url": hook.url, "secret-file": secret}}}}
    daemon.start()
    name, password = hook.add()
    pbx.passwords[name] = password
    phone, token = t.phone(), fresh("token")
    answer = phone.register(name, password, params=pushed(token))
    check(answer and answer.status == 200, f"control: {answer}")
    contact = pbx.contact(name)
    check(contact, "the user of the hook is not registered at the PBX")
    pbx.call(token_of(contact), daemon)
    check(t.suite.provider.wait(token), "the call wakes nobody")
    # After a restart, the daemon remembers no password, and asks only when the PBX asks.
    hook.answer = lambda question: (503, "{}", [])
    daemon.kill()
    pbx.contacts.clear()
    asked = len(pbx.registers)
    daemon.launch()
    check(until(lambda: len(pbx.registers) > asked, 10), "control: no REGISTER after the restart")
    time.sleep(patience(4))
    check(len([one for one in pbx.of(name)]) - asked <= 3, "the PBX gets one REGISTER after the other without a password")
    told = daemon.command("explain", f"{name}@example.net").stdout
    check("no source of users says now which password" in told.splitlines()[0], f"explain begins: {told[:200]}")
    hook.answer = hook.usual
    check(pbx.contact(name, 40) == contact, "with the hook back the user is not registered")
    check(not pbx.wrong, "the PBX got a wrong password")
    check(password not in daemon.log(), "the log has the password")
    return "the hook's password registers the user, also after kill -9, and nothing is guessed while the hook is away"
