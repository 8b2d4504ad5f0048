"""T38: users who are kept registered at a PBX that owns them."""

import re
import threading
import time

from daemon import Daemon
from machine import patience
from probes.wake import pushed, sleeper
from sip import Message, Phone, fresh
from suite import check, probe


class Registrar(Phone):
    """A PBX that registers users with the passwords of the daemon. Tests change how it answers."""

    def __init__(self, host, port, target):
        super().__init__(host, target, port)
        self.grant, self.status, self.challenges, self.listed = 60, None, True, []
        # The contact of each user, and all REGISTERs with a contact, in the order in which they came.
        self.contacts, self.registers = {}, []
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
            else:
                self.accept(request, user)
        return True

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
        """The contact of the user, after the user is registered."""
        limit = time.monotonic() + patience(timeout)
        while time.monotonic() < limit:
            with self.lock:
                if user in self.contacts:
                    return self.contacts[user]
            time.sleep(0.02)
        return None

    def of(self, user):
        with self.lock:
            return [one for one in self.registers if f"sip:{user}@" in one.get("to")]


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
    """If the PBX has another password, the daemon tries its password only once, because retries would lock the account at the PBX."""
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
    """Somebody sends answers to REGISTERs, with another source address or another branch."""
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
    # The PBX has asked once. A call without a challenge must not make the daemon ask all phones.
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
