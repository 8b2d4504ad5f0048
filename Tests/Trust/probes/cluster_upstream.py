"""T50.19: the users of all nodes at one PBX. The node that registers them dies, and strangers and phones try its tokens."""

import re
import time

from suite import check, probe

from .cluster import Cluster, Sleeper, answered, until
from .upstream_users import Registrar

HELD = "this node has the duties of the cluster"


def pbx_and_nodes(t, name, host):
    """A PBX, two nodes that register users there under one name, and the node with the duties first."""
    t.needs("register-upstream")
    port = t.suite.free_port()
    cluster = Cluster(t, name, **{"register-upstream": {"example.net": {"upstream": f"sip:{host}:{port}"}},
                                  "advertise": "nodes.example.net"})
    pbx = t.own(Registrar(host, port, cluster.a.address))
    check(until(lambda: any(HELD in node.log() for node in (cluster.a, cluster.b)), 10), "control: no node has the duties")
    nodes = (cluster.a, cluster.b) if HELD in cluster.a.log() else (cluster.b, cluster.a)
    return cluster, pbx, *nodes


def token_in(contact):
    found = re.match(r"sip:([0-9a-f]+)@nodes\.example\.net", contact or "")
    check(found, f"the contact at the PBX is {contact!r}")
    return found.group(1)


def rings(pbx, node, token, sleeper):
    """The PBX calls a token at a node, and the phone gets the call after its push."""
    before = len(sleeper.t.suite.provider.of(sleeper.token))
    pbx.target = node.address
    request = pbx.call(token, node)
    check(sleeper.woken(before + 1), f"no push for a call at {node.name}: {pbx.response(request.call_id, timeout=0.2)}")
    sleeper.register()
    answered(sleeper.agent, pbx, request)


@probe("T50.19", "one-node-registers-at-the-pbx")
def one_node_registers(t):
    """Phones register at both nodes. The PBX calls both nodes. Then the node that registers the users is killed."""
    cluster, pbx, first, other = pbx_and_nodes(t, "nodes-upstream", "127.2.0.71")
    far, near = Sleeper(t, other), Sleeper(t, first)
    token = token_in(pbx.contact(far.name))
    token_in(pbx.contact(near.name))
    check(far.name not in token, "the token shows the user")
    sources = {one.source for one in pbx.registers}
    check(sources == {first.address}, f"REGISTERs came from {sources}")
    for node in (other, first):
        rings(pbx, node, token, far)
    # An operator asks the other node.
    listed = other.command("upstream", "list").stdout
    check(far.name in listed and near.name in listed, f"upstream list at the other node: {listed}")
    told = other.command("explain", f"{far.name}@example.net").stdout
    check("not known at the PBX" not in told, f"explain at the other node: {told[:200]}")
    done = other.command("upstream", "retry", f"{far.name}@example.net")
    check(done.returncode == 0, f"upstream retry at the other node: {done.stderr}")
    # A phone that signs out at the other node, and one whose user an operator removes there.
    late, gone = Sleeper(t, other), Sleeper(t, other)
    check(pbx.contact(late.name) and pbx.contact(gone.name), "a new phone at the other node is not registered at the PBX")
    answer = late.agent.register(late.name, late.password, params=late.params, expires=0)
    check(answer and answer.status == 200, f"control: the sign-out got {answer}")
    check(pbx.lacks(late.name), "a sign-out at the other node leaves the contact at the PBX")
    done = other.command("user", "remove", f"{gone.name}@example.net")
    check(done.returncode == 0 and pbx.lacks(gone.name), f"a removed user keeps the contact at the PBX: {done.stderr}")
    # The other node takes the duties over: the same contact and Call-ID, and a higher CSeq.
    before = pbx.of(far.name)[-1]
    count = len(pbx.of(far.name))
    first.kill()
    check(until(lambda: HELD in other.log(), 12), "control: the duties do not move")
    check(until(lambda: len(pbx.of(far.name)) > count, 10), "the other node sends no REGISTER")
    after = pbx.of(far.name)[-1]
    check(after.source == other.address, f"the REGISTER came from {after.source}")
    # The nodes of this probe have one name, but two ports.
    check(after.get("call-id") == before.get("call-id") and token_in(after.contact_uri()) == token,
          f"another registration: {before.contact_uri()} became {after.contact_uri()}")
    check(int(after.get("cseq").split()[0]) > int(before.get("cseq").split()[0]), "the CSeq does not rise")
    rings(pbx, other, token, far)
    return "both nodes take the PBX's calls; sign-out, removal and retry at the other node; the registrations move with the duties"


@probe("T50.19", "tokens-of-a-cluster-are-no-keys")
def tokens_are_no_keys(t):
    """A stranger, a phone and another trusted peer call a token, changed tokens, and a token that they made of a name."""
    cluster, pbx, first, other = pbx_and_nodes(t, "nodes-tokens", "127.2.0.72")
    victim, attacker = Sleeper(t, other), Sleeper(t, other)
    token = token_in(pbx.contact(victim.name))
    changed = [token[:-1] + ("0" if token[-1] != "0" else "1"), token[:-2], token[2:] + "00", "00" + token[2:], "e" * len(token),
               f"example.net\0{victim.name}".encode().hex(), f"{victim.name}".encode().hex(), "0" * 400]
    for agent in (other.phone(t), attacker.agent, other.phone(t, trusted=True)):
        for text in [token, *changed]:
            request = agent.make("INVITE", f"sip:{text}@nodes.example.net", "700")
            agent.send(request)
            answer = agent.response(request.call_id, "INVITE")
            check(answer and answer.status >= 400, f"{text[:80]} got {answer}")
            agent.send(agent.ack_failure(request, answer))
    # The PBX itself gets no further with a changed token.
    pbx.target = other.address
    for text in changed:
        request = pbx.call(text, other)
        answer = pbx.response(request.call_id, "INVITE")
        check(answer and answer.status == 404, f"a changed token of the PBX got {answer}")
        pbx.send(pbx.ack_failure(request, answer))
    time.sleep(0.3)
    check(not t.suite.provider.of(victim.token), "a push for a token of a stranger")
    log = first.log() + other.log()
    check(token not in log, "a log line shows a token")
    rings(pbx, other, token, victim)
    return f"{3 * (len(changed) + 1) + len(changed)} calls: no push, no token in the log"
