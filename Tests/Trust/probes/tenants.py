"""T41: domains that are separate from all others."""

import time

from daemon import Daemon
from machine import patience
from probes.wake import pushed
from sip import Phone, credentials, fresh
from suite import check, probe

A, B = "a.example", "b.example"


class Tenancy:
    """A daemon with two tenants, whose PBXs have different addresses and one realm."""

    def __init__(self, t, name, hosts, upstreams=True, limits=None):
        t.needs("tenants")
        self.t, self.daemon = t, Daemon(name, t.suite, {})
        self.pbx = {domain: t.own(Phone(host, self.daemon.address)) for domain, host in zip((A, B), hosts)}
        groups = {}
        for domain, pbx in self.pbx.items():
            # The tenants' PBXs answer no OPTIONS: see upstream-check in daemon.py.
            groups[domain] = {"realm": "asterisk", "trusted": f"[{pbx.host}]"}
            if upstreams:
                groups[domain]["upstream"] = f"sip:{pbx.host}:{pbx.port}"
        groups[A].update(limits or {})
        # The ring timeout is longer than the probe takes, even on a busy machine.
        self.daemon.values = {"call": {"ring-timeout": "120s"}, "domains": f"[example.net, {A}, {B}]", "trusted": "[127.2.9.0/24]", "tenants": groups}
        t.daemon = t.suite.daemons[name] = self.daemon
        self.daemon.start()

    def user(self, domain, name):
        return self.daemon.user(name, domain=domain)[1]

    def phone(self, domain, name, password, token=None):
        phone = self.t.phone()
        answer = phone.register(name, password, domain=domain, params=pushed(token or fresh("token")))
        check(answer and answer.status == 200, f"control: REGISTER at {domain} got {answer}")
        return phone

    def call(self, agent, domain, name, host=None):
        """Begins a call of a PBX."""
        request = agent.make("INVITE", f"sip:{name}@{host or domain}", "7", domain=domain)
        agent.send(request)
        return request

    def refused(self, agent, domain, name):
        """The refusal of a PBX's call; `None` if the call is not refused."""
        request = self.call(agent, domain, name)
        answer = agent.response(request.call_id, "INVITE", timeout=1.5)
        if answer:
            agent.send(agent.ack_failure(request, answer))
        return answer


def prove(phone, request, name, password):
    """Sends a request of a phone, and again with the answer to the challenge."""
    answer = phone.exchange(request)
    check(answer and answer.status == 407, f"control: the phone's call got {answer}")
    phone.send(phone.ack_failure(request, answer))
    again = request.renewed()
    again.add(*credentials(answer, name, password, request.method, request.uri))
    phone.send(again)


@probe("T41.1", "tenants-have-own-accounts")
def own_accounts(t):
    """Two companies have an extension 100, and their PBXs have one realm."""
    scene = Tenancy(t, "tenant-accounts", ("127.2.0.51", "127.2.0.52"))
    passwords = {domain: scene.user(domain, "100") for domain in (A, B)}
    thief = t.phone()
    for domain, other in ((A, B), (B, A)):
        asked = thief.exchange(thief.make("REGISTER", f"sip:{domain}", "100", domain, to=f"sip:100@{domain}"))
        check(asked and 'realm="asterisk"' in asked.get("www-authenticate"), f"control: {domain} asks {asked}")
        answer = thief.register("100", passwords[other], domain=domain, params=pushed(fresh("token")))
        check(answer and answer.status == 401, f"the password of {other} at {domain} got {answer}")
    for domain in (A, B):
        scene.phone(domain, "100", passwords[domain])
    listed = scene.daemon.command("user", "list").stdout
    check(f"100@{A}" in listed and f"100@{B}" in listed, f"user list prints {listed}")
    scene.daemon.command("user", "remove", f"100@{A}")
    answer = t.phone().register("100", passwords[A], domain=A, params=pushed(fresh("token")))
    check(answer and answer.status == 401, f"a removed user got {answer}")
    scene.phone(B, "100", passwords[B])
    return "one name and one realm: each password works at its own domain only, and a removal removes one user"


@probe("T41.2", "peers-of-other-tenants")
def peers_of_other_tenants(t):
    """The PBX of one company tries to call users of another company, and to cancel and end the other company's calls."""
    scene = Tenancy(t, "tenant-peers", ("127.2.0.53", "127.2.0.54"))
    tokens = {domain: fresh("token") for domain in (A, B)}
    phones = {domain: scene.phone(domain, "100", scene.user(domain, "100"), tokens[domain]) for domain in (A, B)}
    known = scene.refused(scene.pbx[A], B, "100")
    unknown = scene.refused(scene.pbx[A], B, fresh("nobody"))
    check(known and known.status == 403 and unknown and unknown.status == 403, f"A's PBX at B got {known} and {unknown}")
    check(len(known.raw) - len(unknown.raw) in range(-60, 61), "a known user gets another answer than an unknown one")
    common = scene.refused(t.own(Phone("127.2.9.1", scene.daemon.address)), A, "100")
    check(common and common.status == 403, f"a peer of the general list got {common} at a tenant")
    check(not t.suite.provider.of(tokens[B]) and not t.suite.provider.of(tokens[A]), "a push was sent")
    told = scene.daemon.command("metrics").stdout
    check('reason="other-tenant"' in told, "the refusals are not counted")
    # A call to the daemon's own address reaches the users of the PBX's own domain.
    here = f"{scene.daemon.host}:{scene.daemon.port}"
    call = scene.call(scene.pbx[B], B, "100", here)
    check(t.suite.provider.wait(tokens[B]), "control: a call of B's PBX to the daemon's address sends no push")
    check(not t.suite.provider.of(tokens[A]), "the call to the daemon's address went to another tenant")
    # The PBX of company A has seen the call of company B, and cannot cancel it.
    scene.pbx[A].send(scene.pbx[A].cancel(call))
    ended = scene.pbx[B].response(call.call_id, "INVITE", timeout=0.3)
    check(not ended, f"A's PBX cancelled a call of B: {ended}")
    scene.pbx[B].send(scene.pbx[B].cancel(call))
    check(scene.pbx[B].response(call.call_id, "INVITE"), "control: B's PBX cannot cancel its own call")
    return "403 for known and unknown users, no push, no CANCEL"


@probe("T41.2", "tenants-over-a-kill")
def tenants_over_a_kill(t):
    """kill -9 while a call of one company waits that the PBX of another knows."""
    scene = Tenancy(t, "tenant-kill", ("127.2.0.61", "127.2.0.62"))
    name, password, token = "100", scene.user(B, "100"), fresh("token")
    phone = scene.phone(B, name, password, token)
    scene.phone(A, name, scene.user(A, name))
    call = scene.call(scene.pbx[B], B, name)
    check(t.suite.provider.wait(token), "control: no push")
    scene.daemon.kill()
    scene.daemon.launch()
    scene.pbx[A].send(scene.pbx[A].cancel(call))
    check(not scene.pbx[B].response(call.call_id, "INVITE", timeout=0.3), "A's PBX cancelled a resumed call of B")
    refused = scene.refused(scene.pbx[A], B, name)
    check(refused and refused.status == 403, f"after the restart A's PBX at B got {refused}")
    answer = phone.register(name, password, domain=B, params=pushed(token))
    check(answer and answer.status == 200, f"control: REGISTER after the restart got {answer}")
    check(phone.request("INVITE", call.call_id), "the phone does not get the resumed call")
    return "the resumed call stays with its own tenant, and reaches its phone"


@probe("T41.3", "phones-of-other-tenants")
def phones_of_other_tenants(t):
    """A phone of one company calls a number of another company."""
    scene = Tenancy(t, "tenant-phones", ("127.2.0.55", "127.2.0.56"))
    password, token = scene.user(A, "100"), fresh("token")
    phone = scene.phone(A, "100", password)
    scene.phone(B, "200", scene.user(B, "200"), token)
    request = phone.make("INVITE", f"sip:200@{B}", "100", domain=A)
    prove(phone, request, "100", password)
    got = scene.pbx[A].request("INVITE", request.call_id)
    check(got, "the call does not go to the PBX of the phone's own domain")
    check(f"sip:100@{A}" in (got.get("p-asserted-identity") or ""), f"P-Asserted-Identity {got.get('p-asserted-identity')}")
    check(not scene.pbx[B].request("INVITE", request.call_id, 0.5), "the call went to the other PBX")
    scene.pbx[A].respond(got, 404, tag="p")
    check(not t.suite.provider.of(token), "the call woke the phone of another tenant")
    other = Tenancy(t, "tenant-phones-alone", ("127.2.0.57", "127.2.0.58"), upstreams=False)
    password, token = other.user(A, "100"), fresh("token")
    phone = other.phone(A, "100", password)
    other.phone(B, "200", other.user(B, "200"), token)
    request = phone.make("INVITE", f"sip:200@{B}", "100", domain=A)
    prove(phone, request, "100", password)
    answer = phone.response(request.call_id, "INVITE")
    check(answer and answer.status == 403, f"without a PBX the phone got {answer}")
    check(not t.suite.provider.of(token), "a push was sent")
    return "calls go to the own PBX alone, and without one to the own domain alone"


@probe("T41.5", "tenants-have-own-limits")
def own_limits(t):
    """One company makes more calls and contacts than the limits of its tenant allow."""
    scene = Tenancy(t, "tenant-limits", ("127.2.0.59", "127.2.0.60"), limits={"calls": 2, "contacts": 2})
    tokens = {(domain, name): fresh("token") for domain in (A, B) for name in ("100", "101")}
    for (domain, name), token in tokens.items():
        scene.phone(domain, name, scene.user(domain, name), token)
    third = t.phone().register("102", scene.user(A, "102"), domain=A, params=pushed(fresh("token")))
    check(third and third.status == 403, f"the third contact got {third}")
    scene.phone(B, "102", scene.user(B, "102"))
    held = [scene.call(scene.pbx[A], A, name) for name in ("100", "101")]
    check(t.suite.provider.wait(tokens[A, "100"]) and t.suite.provider.wait(tokens[A, "101"]), "control: no push")
    refused = scene.refused(scene.pbx[A], A, "100")
    check(refused and refused.status == 503, f"the third call got {refused}")
    scene.call(scene.pbx[B], B, "100")
    check(t.suite.provider.wait(tokens[B, "100"]), "a call of the other tenant sends no push")
    scene.pbx[A].send(scene.pbx[A].cancel(held[0]))
    check(scene.pbx[A].response(held[0].call_id, "INVITE"), "control: no answer to the CANCEL")
    before = len(t.suite.provider.of(tokens[A, "100"]))
    scene.call(scene.pbx[A], A, "100")
    limit = time.monotonic() + patience(6)
    while time.monotonic() < limit and len(t.suite.provider.of(tokens[A, "100"])) == before:
        time.sleep(0.02)
    check(len(t.suite.provider.of(tokens[A, "100"])) > before, "the end of a call makes no room for another")
    return "the third call and the third contact are refused, and the other tenant is served"
