"""T39: nonces that phones use again when they wake."""

import re
import sqlite3
import time

from sip import answer_challenge, challenges, fresh
from suite import check, probe
from .store import own_daemon
from .wake import call, pushed

# The lifetime of nonces in the daemons for T39; an older nonce is valid only for its contact.
LIFETIME = 5.0


class Waker:
    """A phone that keeps its nonce, and registers with it from any address."""

    def __init__(self, t, agent=None, waits=True):
        self.t, self.token = t, fresh("token")
        self.name, self.password = t.daemon.user()
        first = agent or t.stream()
        answer = first.register(self.name, self.password, params=pushed(self.token))
        check(answer and answer.status == 200, f"control: {answer}")
        self.host = first.host
        self.nonce = dict(re.findall(r'(\w+)="?([^",]+)', first.last_register.get("Authorization")))
        self.nonce["field"] = "Authorization"
        if waits:
            time.sleep(LIFETIME + 1.5)

    def text(self, agent, nc, contact=None, expires=600, password=None, nonce=None, token=None):
        name = self.name
        contact = contact or f"<sip:{name}@{agent.local()}{agent.uri_transport()}{pushed(token or self.token)}>"
        request = agent.make("REGISTER", "sip:example.net", name, to=f"sip:{name}@example.net", contact=contact)
        request.add("Expires", str(expires))
        value = answer_challenge({**self.nonce, **(nonce or {})}, name, password or self.password, "REGISTER", request.uri, nc)
        return request.add("Authorization", value)

    def register(self, agent, nc, **more):
        self.last = self.text(agent, nc, **more)
        return agent.exchange(self.last)


def refused(answer, what):
    check(answer and answer.status == 401, f"{what}: {answer}")
    stale = [str(c.get("stale")).lower() for c in challenges(answer)]
    check("true" in stale, f"{what}: 401 without stale=true, so a phone would ask its user")


def rings_at(t, waker, agent, what):
    caller, request = call(t, waker.name)
    question = agent.request("OPTIONS", None, 3)
    if question:
        agent.respond(question, 200, tag="q")
    check(agent.request("INVITE", request.call_id, 3), f"{what}: the call does not ring there")
    caller.send(caller.cancel(request))


@probe("T39.1", "wake-with-one-register", "narrow")
def one_register(t):
    """A phone registers from another address with its old nonce and a higher count, and gets the call that waits."""
    t.needs("digest.reuse-nonces")
    waker = Waker(t)
    caller, request = call(t, waker.name)
    agent = t.stream()
    before = t.daemon.metric("sippushd_wakes_total", nonce="kept")
    answer = waker.register(agent, 2)
    check(answer and answer.status == 200, f"the first REGISTER got {answer and answer.start}")
    check(agent.request("INVITE", request.call_id, 3), "the call was not released")
    caller.send(caller.cancel(request))
    check(t.daemon.metric("sippushd_wakes_total", nonce="kept") > before, "the wake was not counted")
    return "one REGISTER from another address, then the INVITE"


@probe("T39.2", "kept-nonce-is-not-replayed", "narrow")
def replayed(t):
    waker = Waker(t)
    agent, thief = t.stream(), t.stream()
    answer = waker.register(agent, 2)
    check(answer and answer.status == 200, f"control: {answer}")
    seen = waker.last
    refused(thief.exchange(seen.copy()), "the same REGISTER, word for word")
    refused(thief.exchange(seen.renewed()), "the same credentials in another transaction")
    mine = f"<sip:{waker.name}@{thief.local()};transport=tcp{pushed(fresh('mine'))}>"
    refused(thief.exchange(seen.renewed().set("Contact", mine)), "the same credentials with another Contact")
    for nc in (1, 2):
        refused(waker.register(t.stream(), nc), f"nc={nc} after 2")
    rings_at(t, waker, agent, "after the replays")
    answer = waker.register(t.stream(), 3)
    check(answer and answer.status == 200, f"control: the owner's nc=3 got {answer}")
    return "word for word, in another transaction, with another Contact, with an old count: 401 with stale=true"


@probe("T39.2", "kept-nonce-of-two-contacts", "narrow")
def two_contacts(t):
    """Two contacts of a user keep one nonce. Somebody uses the digest credentials of one contact for the user's second
    contact."""
    waker = Waker(t, waits=False)
    second, other = t.stream(waker.host), fresh("token")
    answer = waker.register(second, 2, token=other)
    check(answer and answer.status == 200, f"control: the second contact with the new nonce got {answer}")
    seen = waker.last
    time.sleep(LIFETIME + 1.5)
    thief = t.stream()
    for token in (waker.token, other):
        stolen = f"<sip:{waker.name}@{thief.local()};transport=tcp{pushed(token)}>"
        refused(thief.exchange(seen.renewed().set("Contact", stolen)), "the credentials of one contact for another")
    caller, request = call(t, waker.name)
    check(not thief.request("INVITE", request.call_id, 1.5), "the call rings at the thief")
    caller.send(caller.cancel(request))
    answer = waker.register(t.stream(), 3, token=other)
    check(answer and answer.status == 200, f"control: the owner's next count got {answer}")
    taken = waker.last
    refused(t.stream().exchange(taken.renewed()), "the next count, twice")
    return "an nc that one contact has used is refused for both, and the owner's next nc is accepted"


@probe("T39.2", "kept-nonce-after-kill")
def killed(t):
    """kill -9 directly after the 200: no earlier credentials are accepted again, and the phone can continue with the next
    count."""
    daemon = own_daemon(t, "nonces", digest={"nonce-lifetime": "5s"}).start()
    waker = Waker(t)
    seen = []
    agent = t.stream()
    call_id = fresh("same")
    for nc in range(2, 40):
        # Most refreshes on an open connection are written to the database late.
        request = waker.text(agent, nc).set("Call-ID", call_id).set("CSeq", f"{nc} REGISTER")
        answer = agent.exchange(request)
        check(answer and answer.status == 200, f"control: nc={nc} got {answer}")
        seen.append(request)
    daemon.kill()
    daemon.launch()
    for request in seen[-12:]:
        refused(t.stream().exchange(request.renewed().set("CSeq", "900 REGISTER")), f"after kill -9: {request.get('CSeq')}")
    moved = t.stream()
    answer = waker.register(moved, 100)
    check(answer and answer.status == 200, f"after kill -9 the owner's next count got {answer}")
    daemon.kill()
    daemon.launch()
    refused(t.stream().exchange(waker.last.renewed()), "after another kill -9, the last REGISTER")
    answer = waker.register(t.stream(), 101)
    check(answer and answer.status == 200, f"after two kills the owner's next count got {answer}")
    return "38 refreshes and two kills: no credentials are good twice, and the phone needs no challenge"


@probe("T39.3", "kept-nonce-of-two-phones", "narrow")
def two_phones(t):
    """Two phones of one user use one nonce, which stays valid for the phone whose contact keeps it."""
    waker = Waker(t)
    refused(waker.register(t.stream(), 2, token=fresh("second")), "another phone of the user with this nonce")
    other = Waker(t)
    stolen = other.text(t.stream(), 2, nonce=waker.nonce)
    refused(t.stream().exchange(stolen), "another user with this nonce")
    answer = waker.register(t.stream(), 2)
    check(answer and answer.status == 200, f"control: its own phone got {answer}")
    question = waker.text(t.stream(), 3).without("Contact")
    refused(t.stream().exchange(question), "a question, which changes no contact")
    return "another phone, another user, and a question without Contact: 401 with stale=true"


@probe("T39.4", "kept-nonce-over-udp", "narrow")
def over_udp(t):
    """The source of a datagram may be forged. Over UDP, a nonce may be used again only from an address that the daemon
    knows for the phone."""
    waker = Waker(t, t.phone())
    stranger = t.phone()
    sent = len(waker.text(stranger, 2).bytes())
    answer = waker.register(stranger, 2)
    refused(answer, "the nonce from another address over UDP")
    check(len(answer.raw) <= 3 * sent, f"{len(answer.raw)} bytes for {sent}")
    caller, request = call(t, waker.name)
    check(not stranger.request("INVITE", request.call_id, 1.0), "the call went to an address that never answered a challenge")
    caller.send(caller.cancel(request))
    answer = waker.register(t.phone(waker.host), 3)
    check(answer and answer.status == 200, f"control: from the known address {answer}")
    return f"from another address 401, {len(answer.raw)} bytes; from the known address 200"


@probe("T39.5", "kept-nonce-guesses", "narrow")
def guesses(t):
    """An attacker has overheard a nonce, and guesses passwords from many addresses."""
    waker = Waker(t)
    before = t.daemon.metric("sippushd_wrong_logins_total")
    for number in range(2, 12):
        refused(waker.register(t.stream(), number, password=f"guess {number}"), "a guess")
    counted = t.daemon.metric("sippushd_wrong_logins_total") - before
    check(counted >= 1, "no guess was counted")
    refused(waker.register(t.stream(), 50), "the nonce after a wrong guess")
    agent = t.stream()
    answer = agent.register(waker.name, waker.password, params=pushed(waker.token))
    check(answer and answer.status == 200, f"the owner was locked out: {answer}")
    return "one guess ends the nonce; its owner answers a challenge and is let in"


@probe("T39.6", "kept-nonce-ends", "narrow")
def ends(t):
    """Sign-out, removal by an operator and a new password end the nonce."""
    waker = Waker(t)
    answer = waker.register(t.stream(), 2, expires=0)
    check(answer and answer.status == 200, f"a sign-out with the nonce: {answer}")
    seen = waker.last
    refused(waker.register(t.stream(), 3), "the nonce after the sign-out")
    answer = t.stream().register(waker.name, waker.password, params=pushed(waker.token))
    check(answer and answer.status == 200, f"control: {answer}")
    refused(t.stream().exchange(seen.renewed()), "the sign-out again, word for word")

    waker = Waker(t)
    old = waker.password
    t.daemon.user(waker.name, password=fresh("pw-PLANTED-"))
    refused(waker.register(t.stream(), 2, password=old), "the old password")
    answer = t.stream().register(waker.name, old, params=pushed(waker.token))
    check(answer and answer.status == 401, f"the old password, after a challenge: {answer}")
    return "sign-out and a new password end the nonce, and the sign-out cannot be sent again"


@probe("T39.7", "nonce-in-the-push")
def in_the_push(t):
    """Nobody can register by the nonce of a push without the password, or twice with one nonce count."""
    own_daemon(t, "pushed-nonce", digest={"nonce-lifetime": "5s"}, push={"fcm": {"payload": "ecss10.extended"}}).start()
    waker = Waker(t)
    caller, request = call(t, waker.name)
    check(t.suite.provider.wait(waker.token), "control: no push")
    push = t.suite.provider.of(waker.token)[-1]
    nonce = (push.get("data") or {}).get("nonce")
    check(nonce, f"no nonce in the push: {push}")
    thief = t.stream()
    answer = waker.register(thief, 1, nonce={"nonce": nonce}, password="guess")
    check(answer and answer.status == 401, f"the nonce of a push with a wrong password: {answer}")
    agent = t.stream()
    answer = waker.register(agent, 1, nonce={"nonce": nonce})
    check(answer and answer.status == 200, f"the nonce of the push: {answer}")
    check(agent.request("INVITE", request.call_id, 3), "the call was not released")
    caller.send(caller.cancel(request))
    refused(t.stream().exchange(waker.last.renewed()), "the nonce of the push, twice")
    return "wrong password 401, right password 200 at any address, twice 401"


@probe("T39.8", "older-store-has-no-nonces")
def older(t):
    """The daemon starts with a store of the previous version, and with one whose nonce column contains garbage."""
    daemon = own_daemon(t, "older-nonces", digest={"nonce-lifetime": "5s"}).start()
    waker = Waker(t)
    daemon.stop()
    with sqlite3.connect(daemon.settings()["store"]) as store:
        store.execute("UPDATE binding SET nonce = 0, nonce_count = -7")
    daemon.launch()
    refused(waker.register(t.stream(), 2), "a contact without nonce")
    daemon.stop()
    with sqlite3.connect(daemon.settings()["store"]) as store:
        store.execute("UPDATE binding SET nonce = -1, nonce_count = 99999999999")
    daemon.launch()
    refused(waker.register(t.stream(), 3), "a contact with another nonce")
    answer = t.stream().register(waker.name, waker.password, params=pushed(waker.token))
    check(answer and answer.status == 200, f"control: {answer}")
    return "contacts without a known nonce are challenged"
