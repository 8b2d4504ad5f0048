"""T41: API keys that name domains. The attacker has a key for example.org; the users of example.net are the victims."""

import json
import re
import time

from daemon import Daemon
from machine import patience
from probes.upstream_users import Registrar
from probes.wake import call, pushed, sleeper
from sip import fresh
from suite import check, probe


def key_of(daemon, name, scope, domains=None):
    """Creates a key by the command, and returns it."""
    arguments = ["apikey", "add", name, "--scope", scope] + (["--domains", domains] if domains else [])
    done = daemon.command(*arguments)
    check(done.returncode == 0, f"control: apikey add {name}: {done.stderr}")
    return done.stdout.strip().splitlines()[-1]


def two_domains(t, name, host):
    """A daemon of two domains with a PBX for example.net. Returns the daemon, and a function for requests with the
    attacker's key."""
    t.needs("register-upstream", "api.notifications.enabled", "messages.store")
    daemon = Daemon(name, t.suite, {})
    pbx = t.own(Registrar(host, t.suite.free_port(), daemon.address))
    daemon.values = {"register-upstream": {"example.net": {"upstream": f"sip:{host}:{pbx.port}"}},
                     "api": {"notifications": {"enabled": True}}, "messages": {"store": True},
                     "call": {"ring-timeout": "60s"}, "limits": {"wrong-logins-per-source": 0, "queueing": "0s"}}
    t.daemon = t.suite.daemons[name] = daemon
    daemon.start()
    return daemon, asking(t, key_of(daemon, "org-admin", "admin", "example.org"))


def asking(t, key):
    def ask(method, path, value=None, api=False, plain=None):
        body = plain if plain is not None else json.dumps(value) if value is not None else None
        kind = "application/x-www-form-urlencoded" if plain is not None else "application/json"
        status, text, _ = t.daemon.http(method, path, body, {"Content-Type": kind}, key=key,
                                        port=t.daemon.api_port if api else None)
        return status, text
    return ask


def victim(t, boss):
    """A user of example.net with a phone that sleeps, a held call, a message, and a push. Returns the facts about user,
    call, message and push."""
    phone, name, password, token = sleeper(t)
    caller, request = call(t, name)
    check(t.suite.provider.wait(token), "control: no push for the call")
    message = caller.make("MESSAGE", f"sip:{name}@example.net", "700")
    message.body = b"secret text"
    caller.send(message)
    limit = time.monotonic() + patience(10)
    messages = []
    while not messages and time.monotonic() < limit:
        messages = json.loads(boss("GET", f"/v1/messages?user={name}@example.net")[1])["messages"]
    check(messages, "control: the message does not wait")
    held = [one for one in json.loads(boss("GET", "/v1/held?limit=1000")[1])["calls"] if name in one["aor"]]
    check(len(held) == 1, f"control: {len(held)} calls are held")
    status, text = boss("POST", "/api/v1/notifications/", {"title": "t", "users": [f"{name}@example.net"]}, api=True)
    check(status == 202, f"control: a notification got {status} {text}")
    status, found = boss("POST", "/api/v1/devices/", {"token": token, "platform": "android"}, api=True)
    check(status == 201, f"control: a device code got {status} {found}")
    return {"name": name, "token": token, "call": request.call_id, "held": held[0], "message": messages[0]["id"],
            "push": json.loads(text)["code"], "device": json.loads(found)["code"], "caller": caller, "request": request}


def alike(one, other, words):
    """Whether two answers are equal without the names from the requests."""
    def plain(answer):
        text = answer[1]
        for word in words:
            text = text.replace(str(word), "X")
        return answer[0], re.sub(r'"(date|code)":("[^"]*"|[0-9.]+),?', "", text)
    return plain(one) == plain(other)


@probe("T41.6", "key-of-one-domain")
def key_of_one_domain(t):
    """The attacker tries every object of a domain for which the key is not valid, by each name of the object."""
    daemon, attacker = two_domains(t, "two-domains", "127.2.0.71")
    boss = asking(t, daemon.key)
    fact = victim(t, boss)
    name = f"{fact['name']}@example.net"
    device = json.loads(boss("GET", f"/v1/users/{name}/devices")[1])[0]
    words = (name, fact["token"], fact["call"], fact["held"]["callRef"], fact["push"], fact["device"], device["id"], "example.net")
    reads = ["/v1/users", "/v1/users?after=a@example.a", f"/v1/users/{name}", f"/v1/users/{name}/devices", f"/v1/users/{name}/bucket",
             "/v1/held", "/v1/messages", f"/v1/messages?user={name}", "/v1/upstream", "/v1/upstream?domain=example.net",
             f"/v1/upstream/{name}", "/v1/upstream-domains", f"/v1/explain/{name}", f"/v1/explain?name={fact['call']}",
             f"/v1/explain/{fact['held']['callRef']}", f"/v1/explain/{fact['push']}", "/v1/explain/700", "/v1/explain/127.0.0.1",
             "/v1/apikeys", "/v1/apps"]
    for path in reads:
        status, text = attacker("GET", path)
        told = [word for word in words if str(word) in text and str(word) not in path]
        check(status in (200, 404) and not told, f"GET {path} got {status}, and tells {told}: {text[:300]}")
    for path in [f"/v1/pushes/{fact['push']}", f"/api/v1/pushes/{fact['push']}/", f"/api/v1/notifications/{fact['push']}/metrics/",
                 "/v1/push-statistics?by=push", "/v1/push-statistics?by=push&domain=example.net", "/api/v1/pushes/", "/v1/dead-tokens",
                 "/v1/reports/wakes", "/v1/reports/wakes?domain=example.net&format=csv"]:
        status, text = attacker("GET", path, api=True)
        told = [word for word in words if str(word) in text and str(word) not in path]
        check(status in (200, 404) and not told, f"GET {path} got {status}, and tells {told}: {text[:300]}")
    changes = [("DELETE", f"/v1/users/{name}", None), ("PUT", "/v1/users", {"name": name, "password": "stolen"}),
               ("PUT", "/v1/users", {"name": name, "ha1MD5": "0" * 32, "ha1SHA256": "0" * 64}),
               ("DELETE", f"/v1/users/{name}/devices/{device['id']}", None), ("DELETE", f"/v1/users/{name}/devices/{device['name']}", None),
               ("DELETE", f"/v1/users/{name}/bucket", None), ("DELETE", f"/v1/held/{fact['held']['id']}", None),
               ("DELETE", f"/v1/held/{fact['held']['callRef']}", None), ("DELETE", f"/v1/held/{fact['call']}", None),
               ("DELETE", f"/v1/messages/{fact['message']}", None), ("POST", f"/v1/upstream/{name}/retry", None),
               ("POST", "/v1/upstream/example.net/retry", None), ("POST", "/v1/push-tests", {"user": name}),
               ("POST", "/v1/push-tests", {"provider": "fcm", "token": fact["token"]})]
    for method, path, value in changes:
        status, text = attacker(method, path, value)
        empty = path.endswith("/bucket") and json.loads(text) == {"removed": 0}
        check(status in (400, 403, 404) or empty, f"{method} {path} got {status}: {text[:200]}")
    pushes = len(t.suite.provider.of(fact["token"]))
    mark = {"device": f"/api/v1/devices/{fact['device']}/"}
    for path, value in [("/api/v1/devices/", {"token": fact["token"], "platform": "android"}), (f"/api/v1/devices/{fact['device']}/access/", None),
                        (f"/api/v1/pushes/{fact['push']}/read/", mark), ("/api/v1/pushes/all_read/", mark)]:
        status, text = attacker("POST", path, value, api=True)
        check(status == 404, f"POST {path} got {status}: {text[:200]}")
    for path in ("/v1/push-tokens", "/v1/account-removals", "/token", "/pushToken"):
        status, text = attacker("POST", path, plain=f"username={name}&selector=s&pushToken=QVBB&appid=a", api=True)
        check(status == 404, f"POST {path} got {status}: {text[:200]}")
    status, text = attacker("POST", "/api/v1/notifications/", {"title": "t", "users": [name], "devices": [fact["device"]]}, api=True)
    check(status == 202 and json.loads(text)["sent_to"] == 0, f"a notification got {status} {text}")
    time.sleep(patience(0.5))
    check(len(t.suite.provider.of(fact["token"])) == pushes, "the attacker's push reached the phone")
    # All objects of the victim still exist, and none has changed.
    check(json.loads(boss("GET", f"/v1/users/{name}")[1])["name"] == name, "the user is gone")
    check(json.loads(boss("GET", f"/v1/users/{name}/devices")[1])[0]["id"] == device["id"], "the device is gone")
    check(name in boss("GET", "/v1/held?limit=1000")[1], "the call is gone")
    check(name in boss("GET", "/v1/messages")[1], "the message is gone")
    check(fact["call"] in boss("GET", f"/v1/explain?name={fact['call']}")[1], "control: the operator does not find the call")
    check("example.net" in boss("GET", "/v1/upstream-domains")[1], "control: the operator does not see the PBX")
    report = json.loads(boss("GET", f"/v1/pushes/{fact['push']}", api=True)[1])
    check(not report["devices"][0]["read"], "the attacker has marked the push as read")
    fact["caller"].send(fact["caller"].cancel(fact["request"]))
    # The attacker's key works in its own domain.
    mine, _ = daemon.user(domain="example.org")
    check(attacker("GET", f"/v1/users/{mine}@example.org")[0] == 200, "control: the key does not reach its own user")
    check(json.loads(attacker("GET", "/v1/users")[1]) == {"users": [{"name": f"{mine}@example.org"}]}, "control: the list of own users")
    check(attacker("DELETE", f"/v1/users/{mine}@example.org")[0] == 200, "control: the key cannot remove its own user")
    return f"{len(reads) + 7} questions and {len(changes) + 9} orders for objects of another domain: nothing is told, nothing is changed"


@probe("T41.7", "key-learns-no-users")
def key_learns_no_users(t):
    """The attacker asks for users of a foreign domain that exist, and for users that do not exist."""
    daemon, attacker = two_domains(t, "two-domains-asked", "127.2.0.72")
    boss = asking(t, daemon.key)
    fact = victim(t, boss)
    known, unknown = f"{fact['name']}@example.net", f"{fresh('nobody')}@example.net"
    questions = 0
    for method, path, body in [
            ("GET", "/v1/users/USER", None), ("DELETE", "/v1/users/USER", None), ("PUT", "/v1/users", {"name": "USER", "password": "p"}),
            ("GET", "/v1/users/USER/devices", None), ("DELETE", "/v1/users/USER/devices/1", None), ("GET", "/v1/users/USER/bucket", None),
            ("DELETE", "/v1/users/USER/bucket", None), ("GET", "/v1/messages?user=USER", None), ("GET", "/v1/upstream/USER", None),
            ("POST", "/v1/upstream/USER/retry", None), ("GET", "/v1/explain/USER", None), ("POST", "/v1/push-tests", {"user": "USER"})]:
        answers = []
        for user in (known, unknown):
            value = json.loads(json.dumps(body).replace("USER", user)) if body else None
            answers.append(attacker(method, path.replace("USER", user), value))
        check(alike(*answers, (known, unknown)), f"{method} {path}: {answers}")
        questions += 1
    for path, one, other in [("/v1/pushes/X", fact["push"], "11111111-2222-4333-8444-555555555555"),
                             ("/api/v1/notifications/X/metrics/", fact["push"], "11111111-2222-4333-8444-555555555555")]:
        answers = [attacker("GET", path.replace("X", code), api=True) for code in (one, other)]
        check(alike(*answers, (one, other)), f"{path}: {answers}")
        questions += 1
    for domain in ("example.net", "example.com"):
        status, text = attacker("PUT", "/v1/apikeys", {"name": "k", "hash": "0" * 64, "scopes": "admin", "domains": [domain]})
        check(status == 403 and "example.net" not in text, f"a key for {domain} got {status} {text}")
    check(boss("GET", f"/v1/users/{known}/devices")[0] == 200 and boss("GET", f"/v1/users/{unknown}/devices")[0] == 404,
          "control: the operator gets the same answer for known and unknown users")
    fact["caller"].send(fact["caller"].cancel(fact["request"]))
    return f"{questions} questions about known and unknown users of another domain: equal answers"


@probe("T41.8", "key-and-the-whole-daemon")
def key_and_the_whole_daemon(t):
    """Orders for the whole daemon, and every route that /openapi.json calls a route for the whole daemon."""
    daemon, attacker = two_domains(t, "two-domains-orders", "127.2.0.73")
    refused = 0
    for port in (daemon.admin_port, daemon.api_port):
        _, text, _ = daemon.http("GET", "/openapi.json", port=port)
        for path, operations in json.loads(text)["paths"].items():
            for method, operation in operations.items():
                rule = operation.get("x-domains")
                check(("x-scope" in operation) == (rule in ("whole-daemon", "by-domain")), f"{method} {path} declares {rule}")
                if rule != "whole-daemon":
                    continue
                target = re.sub(r"\{[a-z]+\}", "fcm", path)
                status, answer = attacker(method.upper(), target, api=port == daemon.api_port)
                check(status == 403 and "this key is only for some domains" in answer, f"{method} {target} got {status} {answer}")
                refused += 1
    for path in ("/v1/drain?within=0", "/v1/providers/fcm/disable", "/v1/providers/fcm/pause"):
        check(attacker("POST", path)[0] == 403, f"POST {path}")
    check(attacker("GET", "/metrics")[0] == 403, "GET /metrics")
    check(refused >= 8 and daemon.alive(), f"{refused} routes refused")
    check(" notice an API request made a change" in daemon.log() and "api-key=org-admin" in daemon.log(), "no audit line of the refusals")
    check(asking(t, daemon.key)("GET", "/metrics")[0] == 200, "control: a key for the whole daemon reads no metrics")
    return f"{refused} routes for the whole daemon refuse the key"


@probe("T41.9", "key-gives-no-more")
def key_gives_no_more(t):
    """The attacker tries to add keys with more domains, and to remove other keys."""
    daemon, attacker = two_domains(t, "two-domains-keys", "127.2.0.74")
    key_of(daemon, "net-admin", "admin", "example.net")
    key_of(daemon, "both-admin", "admin", "example.net,example.org")
    make = {"name": "more", "hash": "0" * 64, "scopes": "admin"}
    for domains in (None, "none", ["example.net"], ["example.org", "example.net"], ["EXAMPLE.NET"], ["example.com"], [], [""],
                    ["example.org,example.net"], "example.org", ["example.org\n"], {"0": "example.org"}):
        value = dict(make) if domains == "none" else dict(make, domains=domains)
        status, text = attacker("PUT", "/v1/apikeys", value)
        check(status in (400, 403), f"a key for {domains} got {status} {text}")
    for name in ("probe", "net-admin", "both-admin"):
        check(attacker("DELETE", f"/v1/apikeys/{name}")[0] == 404, f"{name} was removed")
        check(attacker("PUT", "/v1/apikeys", dict(make, name=name, domains=["example.org"]))[0] == 409, f"{name} was replaced")
    check([one["name"] for one in json.loads(attacker("GET", "/v1/apikeys")[1])] == ["org-admin"], "the list shows keys of others")
    app = {"name": "app", "id": "0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9", "org": "o", "hash": "0" * 64}
    for user in (None, "{{user}}", "{{user}}@example.net", "{{user}}@example.com", "a@{{user}}", "{{user}}.org"):
        status, text = attacker("PUT", "/v1/apps", dict(app, user=user) if user else app)
        check(status == 403, f"an app of {user} got {status} {text}")
    check(attacker("PUT", "/v1/apps", dict(app, user="{{user}}@example.org"))[0] == 200, "control: an app of the own domain")
    check(attacker("PUT", "/v1/apikeys", dict(make, domains=["Example.org"]))[0] == 200, "control: a key for the own domain")
    check(attacker("DELETE", "/v1/apikeys/more")[0] == 200, "control: an own key is not removed")
    wrong = daemon.command("apikey", "add", "wrong", "--scope", "admin", "--domains", "example.com")
    check(wrong.returncode != 0 and "example.com is not one of this daemon's domains" in wrong.stderr, f"the command: {wrong}")
    listed = daemon.command("apikey", "list").stdout
    check("example.net,example.org" in listed and "all" in listed, f"apikey list: {listed}")
    # The restart keeps the domains of the keys.
    daemon.stop()
    daemon.launch()
    check(attacker("GET", "/metrics")[0] == 403 and attacker("GET", "/v1/users")[0] == 200, "after a restart the key has other rights")
    return "twelve keys and six apps for more domains are refused; keys of others are neither seen, replaced nor removed"
