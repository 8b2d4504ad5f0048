"""T35: nothing is silent. What is refused leaves a line at the default level, a counter and a record that explain finds."""

import time

from machine import patience
from sip import fresh
from suite import check, probe
from .routing import call
from .store import own_daemon


def quiet(t, name, **settings):
    """A daemon at the default log level."""
    return own_daemon(t, name, log={"level": "notice"}, **settings)


def line_with(daemon, *words, timeout=8.0):
    """The first line that has all of these words."""
    limit = time.monotonic() + patience(timeout)
    while time.monotonic() < limit:
        for line in daemon.log().splitlines():
            if all(word in line for word in words):
                return line
        time.sleep(0.05)
    return None


def explained(daemon, name, *words, timeout=8.0):
    """What explain says of a name, once it has all of these words."""
    limit = time.monotonic() + patience(timeout)
    while True:
        answer = daemon.command("explain", name)
        text = answer.stdout + answer.stderr
        if all(word in text for word in words) or time.monotonic() > limit:
            return text
        time.sleep(0.1)


@probe("T35.1", "forgotten-pbx")
def forgotten_pbx(t):
    """A PBX that nobody has listed under trusted: the first mistake of everybody."""
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
    daemon = quiet(t, "refusing", call={"ring-timeout": "20s"}, limits={"calls-per-account": 1}).start()
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
    check("nobody is called" in text, f"explain by number says {text}")

    def foreign():
        request = pbx.make("INVITE", "sip:someone@elsewhere.example")
        pbx.send(request)
        return pbx, request

    refused(403, "foreign-domain", None, foreign)
    refused(480, "no-contact", other)
    first, request = call(t, name, caller=pbx)
    check(phone.request("INVITE", request.call_id), "control: the first call rings")
    refused(486, "callee-limit", name)
    return "404, 403, 480 and 486: each with its line, its counter, and what explain says to do"


@probe("T35.1", "strangers-do-not-fill-the-log")
def flood_of_refusals(t):
    """A thousand calls from strangers: few lines and records, and a PBX's refusal beside them is told of."""
    daemon = quiet(t, "scanned").start()
    strangers = [t.phone() for _ in range(20)]
    for round in range(50):
        for stranger in strangers:
            stranger.send(stranger.make("INVITE", f"sip:{9000 + round}@example.net"))
    pbx = t.phone(trusted=True)
    caller, request = call(t, "nobody", caller=pbx)
    answer = caller.response(request.call_id)
    check(answer and answer.status == 404, f"control: the PBX got {answer}")
    check(line_with(daemon, "call refused", "status=404", request.call_id), "the PBX's refusal has no line")
    check("nobody is called" in explained(daemon, request.call_id, "404"), "the PBX's refusal has no record")
    line_with(daemon, "call refused", "status=407")
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
