"""T49: rules of users. The attacker has keys, phones and a domain, and wants to silence the phones of others."""

import base64
import json
import time

from daemon import Daemon
from machine import patience
from probes.domains import asking, key_of
from probes.wake import call, sleeper
from sip import fresh
from suite import check, probe


@probe("T49.1", "rules-are-the-operators")
def rules_are_the_operators(t):
    """The attacker tries to set rules for users of example.net: with keys of other scopes, with a key of another domain, as a
    user, by SIP, and with rules that name devices of others."""
    daemon = Daemon("rules", t.suite, {"call": {"ring-timeout": "60s"}, "limits": {"wrong-logins-per-source": 0}})
    t.daemon = t.suite.daemons["rules"] = daemon
    daemon.start()
    boss, night = asking(t, daemon.key), {"doNotDisturb": {"always": True}}
    phone, name, password, token = sleeper(t)
    path = f"/v1/users/{name}@example.net/rules"
    refused = 0
    for scope, domains in [("admin.read", None), ("pushes", None), ("lifecycle", None), ("tokens.report", None), ("admin", "example.org")]:
        attacker = asking(t, key_of(daemon, fresh("key"), scope, domains))
        for method, value in (("PUT", night), ("DELETE", None)):
            status, text = attacker(method, path, value)
            check(status in (403, 404), f"{method} with {scope} {domains} got {status} {text}")
            refused += 1
    for fields in ({}, {"Authorization": "Basic " + base64.b64encode(f"{name}@example.net:{password}".encode()).decode()}):
        for port in (daemon.admin_port, daemon.api_port):
            status, text, _ = daemon.http("PUT", path, json.dumps(night), {"Content-Type": "application/json", **fields}, port=port)
            check(status in (401, 403, 404), f"PUT as a user got {status} {text}")
            refused += 1
    # A device of another user, and a device that does not exist, get equal answers.
    _, other, _, _ = sleeper(t)
    device = json.loads(boss("GET", f"/v1/users/{other}@example.net/devices")[1])[0]
    answers = [boss("PUT", path, {"devices": [{"device": one, "delay": 10}]}) for one in (device["name"], device["id"], "zzzzz", "7")]
    check(all(status == 400 and "has no device called" in text for status, text in answers), f"devices of others: {answers}")
    # Absurd rules are refused, and the daemon still serves.
    for value in [{"devices": [{"device": "push", "delay": 1e300}]}, {"devices": [{"device": "push", "delay": -1}]}, {"groupTime": 0},
                  {"devices": [{"device": f"label:{n}", "delay": 1} for n in range(5000)]}, {"doNotDistrub": {"always": True}},
                  {"doNotDisturb": {"always": True, "timeZone": "../../etc/passwd"}},
                  {"doNotDisturb": {"windows": [{"from": "22:00", "to": "07:00"}], "timeZone": "/dev/zero"}},
                  {"doNotDisturb": {"windows": [{"from": "22:00", "to": "07:00"}] * 5000, "timeZone": "UTC"}},
                  {"doNotDisturb": {"always": True, "status": 200}}, {"doNotDisturb": {"always": True, "except": ["x" * 100000]}}]:
        status, text = boss("PUT", path, value)
        check(status == 400 and "the rules are refused" in text, f"{str(value)[:80]} got {status} {text[:200]}")
    check(boss("GET", path) == (200, "{}"), f"the user has rules: {boss('GET', path)}")
    # The phone still rings: a push comes.
    caller, request = call(t, name)
    check(t.suite.provider.wait(token), "no push after the attacks")
    caller.send(caller.cancel(request))
    caller.response(request.call_id, "INVITE")
    # The operator's own rule leaves a log line and an explanation, survives a kill, and pushes nothing.
    check(boss("PUT", path, night)[0] == 200, "control: the operator cannot set the rule")
    daemon.kill()
    daemon.launch()
    pushes = len(t.suite.provider.of(token))
    caller, request = call(t, name)
    answer = caller.response(request.call_id, "INVITE")
    check(answer and answer.status == 480, f"a call in the time of the rule got {answer}")
    caller.send(caller.ack_failure(request, answer))
    time.sleep(patience(0.5))
    check(len(t.suite.provider.of(token)) == pushes, "a push left in the time of the rule")
    text = daemon.command("explain", request.call_id).stdout
    check("do not disturb is set for" in text and "the caller got 480" in text, f"explain: {text}")
    lines = [line for line in daemon.log().splitlines() if request.call_id in line and "call ended" in line]
    check(lines and "do not disturb" in lines[0], f"the log: {lines}")
    check(daemon.command("user", "rules", name).stdout.startswith("do not disturb"), "the command shows no rule")
    check(daemon.command("user", "rules", name, "clear").returncode == 0 and boss("GET", path)[1] == "{}", "the rule stays")
    return f"{refused} requests of others are refused; no rule names a device of another user; a silent call is logged and explained"
