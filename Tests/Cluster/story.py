"""The story of etc/run --cluster --demo: a phone, two nodes, and the ends of a node and of the primary."""

import time

from place import NODES, Trouble
from sip import Dialog, Phone

TOKEN = "bob-token"
PUSH = f";pn-provider=fcm;pn-param=demo;pn-prid={TOKEN}"
# The time limit of each step in seconds. On an idle machine, each step takes less than a second.
LIMIT = 6


class Story:
    def __init__(self, place, database, nodes):
        self.place, self.database, self.nodes = place, database, nodes
        self.doors = {node: (host, place.ports["SIP_PORT"]) for node, host in NODES.items()}
        self.phone = Phone("127.0.0.1", self.doors["b"])
        self.caller = Phone("127.0.0.1", self.doors["a"])
        self.registering = None

    def play(self):
        self.register("b")
        invite = self.call()
        self.register("b")
        self.talk(invite, *self.ring(invite, "b"))

        invite = self.call()
        self.register("b")
        self.ring(invite, "b")
        process = self.place.running["b"].pid
        self.place.kill("b")
        tell(f"kill -9 {process}: node b ends while the phone rings")
        self.register("a")
        self.talk(invite, *self.ring(invite, "a"))

        self.fail_over()

    def register(self, node):
        self.phone.target = self.doors[node]
        self.registering = time.monotonic()
        answer = self.phone.register("bob", params=PUSH, timeout=LIMIT)
        expect(answer and answer.status == 200, f"node {node} answers the phone's REGISTER: {start_of(answer)}")
        tell(f"phone bob registers at node {node}: 200", self.registering)

    def call(self):
        """Calls bob at node a, and returns the INVITE when the sandbox has the push."""
        before = self.count_pushes()
        invite = self.caller.make("INVITE", "sip:bob@example.net", user="103")
        start = time.monotonic()
        self.caller.send(invite)
        self.place.await_that(lambda: self.count_pushes() > before, "the sandbox got no push", LIMIT)
        tell("103 calls bob at node a: the sandbox gets a push", start)
        return invite

    def count_pushes(self):
        return sum(1 for push in self.nodes.pushes() if push["token"] == TOKEN and push["status"] == 200)

    def ring(self, invite, node):
        """Waits for the INVITE at the phone and for the 180 at the caller. Returns the phone's INVITE and tag."""
        arrived = self.phone.request("INVITE", invite.call_id, LIMIT)
        expect(arrived, f"node {node} sends no INVITE to the phone")
        expect(arrived.source == self.doors[node], f"the INVITE comes from {arrived.source}, not from node {node}")
        tell(f"node {node} sends the phone the INVITE of the call at node a", self.registering, arrived.time)
        tag, start = f"phone-at-{node}", time.monotonic()
        self.phone.respond(arrived, 180, "Ringing", tag=tag)
        answer = self.caller.take(
            lambda m: m.call_id == invite.call_id and m.status == 180 and m.tag("to") == tag, LIMIT)
        expect(answer, "the caller gets no 180 from the phone")
        tell("the phone rings: 103 gets 180", start, answer.time)
        return arrived, tag

    def talk(self, invite, arrived, tag):
        """The phone answers, and the caller hangs up."""
        start = time.monotonic()
        self.phone.respond(arrived, 200, "OK", tag=tag)
        answer = self.caller.response(invite.call_id, "INVITE", LIMIT)
        expect(answer and answer.status == 200, f"103 gets {start_of(answer)} when the phone answers")
        dialog = Dialog.of_caller(self.caller, invite, answer)
        self.caller.send(dialog.make("ACK", cseq=dialog.cseq))
        expect(self.phone.request("ACK", invite.call_id, LIMIT), "the phone gets no ACK")
        tell("the phone answers: 103 gets 200, the phone gets the ACK", start)
        start, bye = time.monotonic(), dialog.make("BYE")
        self.caller.send(bye)
        ending = self.phone.request("BYE", invite.call_id, LIMIT)
        expect(ending, "the phone gets no BYE")
        self.phone.respond(ending, 200, "OK")
        answer = self.caller.response(invite.call_id, "BYE", LIMIT)
        expect(answer and answer.status == 200, f"103 gets {start_of(answer)} for the BYE")
        tell("103 hangs up: the phone gets the BYE", start)

    def fail_over(self):
        """Ends the primary. A second later, a phone registers that no node knows, so the 200 needs a commit."""
        process, start = self.place.running["primary"].pid, time.monotonic()
        self.place.kill("primary")
        tell(f"kill -9 {process}: the primary ends")
        promoting = time.monotonic()
        self.database.promote()
        promoted = time.monotonic()
        tell("this script promotes the standby, as a failover manager would", promoting, promoted)
        names = self.database.query("standby", "SHOW synchronous_standby_names")
        expect(not names, f"commits at the promoted standby wait for {names}")
        tell("the promoted server has no standby: its synchronous_standby_names is empty, so that commits do not wait")
        # On a busy machine, the promotion alone can take a second. The nodes look for the new primary several times a second.
        time.sleep(max(0.0, max(start + 1.0, promoted + 0.7) - time.monotonic()))
        phone, refused = Phone("127.0.0.1", self.doors["a"]), 0
        while True:
            sent = time.monotonic()
            answer = phone.register("alice", params=PUSH.replace(TOKEN, "alice-token"), timeout=LIMIT)
            # A phone that gets 503 tries again.
            if not answer or answer.status != 503 or sent > start + LIMIT:
                break
            refused += 1
            time.sleep(0.1)
        expect(answer and answer.status == 200,
               f"{(sent - start) * 1000:.0f} ms after the kill, node a answers the REGISTER of a new phone: {start_of(answer)}")
        tell(f"phone alice registers at node a {(sent - start) * 1000:.0f} ms after the kill: 200"
             + (f", after {refused} times 503" if refused else ""), sent, answer.time)
        stored = self.database.query("standby", "SELECT count(*) FROM binding WHERE username = 'alice'")
        expect(stored == "1", "the promoted standby does not have alice's contact")
        tell("the promoted standby has alice's contact")


def tell(step, start=None, end=None):
    """Prints a step, and how long it took."""
    took = "" if start is None else f"{((end or time.monotonic()) - start) * 1000:7.1f} ms"
    print(f"{took:>10}  {step}", flush=True)


def start_of(answer):
    return answer.start if answer else "no answer"


def expect(condition, complaint):
    if not condition:
        raise Trouble(complaint)
