"""T35.16: the report of wakes is right, also after kill -9."""

import json
import time

from machine import patience
from sip import Dialog, fresh
from suite import check, probe

from .store import own_daemon
from .wake import call, pushed

FIGURES = ("pushes", "came", "within30", "never", "callerGaveUp", "endedOtherwise")


class Sleeper:
    """A sleeping phone with a push token and the given User-Agent."""

    def __init__(self, t, agent, domain="example.net"):
        self.t, self.agent = t, agent
        self.phone, self.token = t.phone(), fresh("token")
        self.name, self.password = t.daemon.user(domain=domain)
        self.register()

    def register(self):
        answer = self.phone.register(self.name, self.password, params=pushed(self.token),
                                     fields=[("User-Agent", self.agent)] if self.agent else [])
        check(answer and answer.status == 200, f"control: REGISTER got {answer}")

    def called(self, count=1):
        """Makes a call for which the given phone gets a push. Returns the caller and the INVITE."""
        caller, request = call(self.t, self.name)
        check(self.t.suite.provider.wait(self.token, count), "control: no push")
        return caller, request

    def answers(self, caller, request):
        """The phone wakes, registers and answers the call."""
        self.register()
        invite = self.phone.request("INVITE", request.call_id)
        check(invite, "control: no INVITE at the phone")
        self.phone.respond(invite, 200, tag="b")
        answer = caller.response(request.call_id, "INVITE")
        check(answer and answer.status == 200, f"control: the caller got {answer}")
        caller.send(Dialog.of_caller(caller, request, answer).make("ACK", cseq=1))


def rows(daemon, by):
    answer = daemon.command("report", "--by", by, "--format", "json")
    check(answer.returncode == 0, f"report --by {by}: {answer}")
    return {row["name"]: tuple(row[name] for name in FIGURES) for row in json.loads(answer.stdout)["rows"]}


def expect(daemon, wanted, when, seconds=10.0):
    """The report by provider, once it has as many pushes as wanted, and never more."""
    limit = time.monotonic() + patience(seconds)
    while True:
        found = rows(daemon, "provider")
        if found == wanted or time.monotonic() > limit:
            break
        check(found.get("fcm", (0,))[0] <= wanted["fcm"][0], f"{when}: more pushes than calls: {found}")
        time.sleep(0.1)
    check(found == wanted, f"{when}: {found} instead of {wanted}")


@probe("T35.16", "report-counts-each-wake-once")
def report(t):
    """Two phones wake up, one phone never wakes up, and one caller gives up. The report has each push once, also after
    kill -9."""
    daemon = own_daemon(t, "reporting", call={"ring-timeout": "8s"}).start()
    empty = daemon.command("report")
    check(empty.returncode == 0 and "no push" in empty.stdout, f"control: a report without calls: {empty}")
    iphone, pixel = Sleeper(t, "LinphoneiOS/5.2 (Android lover) SDK/5.3"), Sleeper(t, "LinphoneAndroid/5.2 (iPhone)")
    gone, hasty = Sleeper(t, ""), Sleeper(t, "LinphoneAndroid/5.2")
    for phone in (iphone, pixel):
        phone.answers(*phone.called())
    caller, request = hasty.called()
    time.sleep(0.2)
    caller.send(caller.cancel(request))
    caller, request = gone.called()
    answer = caller.response(request.call_id, "INVITE", 15)
    check(answer and answer.status == 480, f"control: the call for a phone that never comes got {answer}")
    # Pushes that are no calls do not count.
    test = daemon.command("push", "test", gone.name)
    check(test.returncode == 0, f"control: push test: {test}")
    # The timeline records are stored when explain shows them, but the report has no counts yet.
    limit = time.monotonic() + patience(6)
    while daemon.command("explain", request.call_id).returncode and time.monotonic() < limit:
        time.sleep(0.1)
    # One call waits while the daemon is killed, and its phone wakes in the next run.
    late = Sleeper(t, "baresip v3 (arm64/ios)")
    caller, request = late.called()
    time.sleep(0.3)
    daemon.kill()
    daemon.launch()
    late.answers(caller, request)
    wanted = {"fcm": (5, 3, 3, 1, 1, 0)}
    expect(daemon, wanted, "after the kill -9 that cut a call")
    for _ in range(3):
        daemon.kill()
        daemon.launch()
        expect(daemon, wanted, "after another kill -9")
    systems = rows(daemon, "system")
    check(systems == {"iOS": (2, 2, 2, 0, 0, 0), "Android": (2, 1, 1, 0, 1, 0), "other": (1, 0, 0, 1, 0, 0)},
          f"by system: {systems}")
    table = daemon.command("report", "--days", "1").stdout
    check("fcm" in table and "75.0%" in table and "PROVIDER" in table, f"the table: {table}")
    csv = daemon.command("report", "--format", "csv", "--by", "app").stdout.splitlines()
    check(len(csv) == 2 and csv[0].startswith("app,pushes,came,") and csv[1].startswith("fcm,5,3,"), f"the CSV: {csv}")
    keys = {}
    for domain in ("example.net", "example.org"):
        made = daemon.command("apikey", "add", fresh("k"), "--scope", "lifecycle", "--domains", domain)
        keys[domain] = made.stdout.strip().splitlines()[-1]
        status, text, _ = daemon.http("GET", "/v1/reports/wakes", port=daemon.api_port, key=keys[domain])
        check(status == 200, f"the key of {domain} got {status}")
        count = json.loads(text)["total"]["pushes"]
        check(count == (5 if domain == "example.net" else 0), f"the key of {domain} sees {count} pushes")
    status, text, _ = daemon.http("GET", "/v1/reports/wakes?domain=example.net", port=daemon.api_port, key=keys["example.org"])
    check(status == 200 and json.loads(text)["rows"] == [], f"the key of example.org got {text}")
    return "two phones, one after kill -9, one that never came and one caller who gave up: each once, by system, as CSV, by domain"
