"""T32, and the limits of one source or sender: one caller cannot use up the limits of the called user or of all others."""

import re
import ssl
import time

from edge import SecureStream, context
from sip import Dialog, credentials, fresh
from suite import check, probe
from .store import own_daemon
from .wake import call, proved_call, pushed, sleeper


def account(t):
    """A phone of an account that calls others."""
    phone = t.phone()
    name, password = t.registered(phone)
    return phone, name, password


def invitations(t, token):
    return [p for p in t.suite.provider.of(token) if p.get("data", {}).get("type") == "invite"]


def wait_for(condition, seconds=6.0):
    limit = time.monotonic() + seconds
    while not condition() and time.monotonic() < limit:
        time.sleep(0.02)
    return condition()


@probe("T32.1", "pushes-of-one-caller", "shares")
def pushes(t):
    """One account sends an INVITE and its CANCEL 24 times. Other callers can still wake the phone, which may get 20
    pushes a minute."""
    _, target, _, token = sleeper(t)
    greedy, name, password = account(t)
    for number in range(24):
        request = proved_call(t, greedy, name, password, target)
        # The push of a call that ends before it was sent is withdrawn.
        wait_for(lambda: len(invitations(t, token)) > number, 6 if number < 9 else 0.1)
        greedy.send(greedy.cancel(request))
    used = len(invitations(t, token))
    other, other_name, other_password = account(t)
    request = proved_call(t, other, other_name, other_password, target)
    check(wait_for(lambda: len(invitations(t, token)) > used), f"after {used} pushes for one caller another one wakes nobody")
    other.send(other.cancel(request))
    pbx, request = call(t, target)
    check(wait_for(lambda: len(invitations(t, token)) > used + 1), "a call of the PBX wakes nobody")
    pbx.send(pbx.cancel(request))
    check(used <= 10, f"one caller made {used} of 20 pushes")
    return f"24 calls of one account: {used} of 20 pushes; another account and the PBX wake the phone"


@probe("T32.2", "held-calls-of-one-caller", "shares")
def held(t):
    """A user may have 32 waiting calls. Two accounts try to use all 32 waiting calls, and the PBX's calls still get
    through."""
    phone, target, _, token = sleeper(t)
    own = []
    for count in (40, 40):
        greedy, name, password = account(t)
        requests = [proved_call(t, greedy, name, password, target) for _ in range(count)]
        time.sleep(0.5)
        statuses = [answer.status for answer in (greedy.response(r.call_id, "INVITE", 0.02) for r in requests) if answer]
        own.append((greedy, requests, statuses))
    kept = [len(requests) - len(statuses) for _, requests, statuses in own]
    pbx, request = call(t, target)
    answer = pbx.response(request.call_id, "INVITE", 0.9)
    check(answer is None, f"two accounts hold {kept} calls, and the PBX's gets {answer and answer.start}")
    check(kept[0] <= 16, f"one account holds {kept[0]} of 32 calls")
    check(sum(kept) <= 24, f"two accounts hold {kept} calls: eight of 32 are for trusted peers")
    check({status for _, _, statuses in own for status in statuses} == {486}, "control: they are refused as busy")
    for greedy, requests, _ in own:
        for one in requests:
            greedy.send(greedy.cancel(one))
    pbx.send(pbx.cancel(request))
    return f"two accounts that make 40 calls each to one user hold {kept}; a call of the PBX is held as well"


def two_dialogs(t, stream):
    """Two callers of the PBX, each in a dialog with the same phone."""
    phone, name, password, token = sleeper(t, stream)
    dialogs = []
    for number in range(2):
        caller, request = call(t, name, user=f"70{number}")
        check(wait_for(lambda: len(invitations(t, token)) > number), "control: no push for the call")
        answer = phone.register(name, password, params=pushed(token))
        check(answer and answer.status == 200, f"control: {answer}")
        invite = phone.request("INVITE", request.call_id)
        check(invite, "control: no INVITE at the phone")
        phone.respond(invite, 200, tag=f"b{number}")
        answer = caller.response(request.call_id, "INVITE")
        check(answer and answer.status == 200, f"control: the caller got {answer}")
        dialog = Dialog.of_caller(caller, request, answer)
        caller.send(dialog.make("ACK", cseq=1))
        check(phone.request("ACK", request.call_id), "control: no ACK at the phone")
        dialogs.append((caller, request, dialog))
    return phone, name, password, token, dialogs


@probe("T32.3", "bye-finds-room", "shares")
def bye(t):
    """A phone sleeps in two calls. Thirty requests of the first call leave room for the second, and a BYE is never
    refused."""
    phone, name, password, token, (greedy, other) = two_dialogs(t, t.stream())
    phone.close()
    time.sleep(0.3)
    caller, _, dialog = greedy
    for number in range(30):
        caller.send(dialog.make("INFO", fields=[("Info-Package", "x")]))
    time.sleep(0.5)
    refused = [m for m in caller.history if m.status == 503]
    check(refused, "control: thirty requests wait for one phone")
    caller, request, dialog = other
    info = dialog.make("INFO", fields=[("Info-Package", "x")])
    caller.send(info)
    ending = dialog.make("BYE")
    caller.send(ending)
    time.sleep(0.5)
    statuses = [m.start for m in caller.history if m.status and m.status >= 300]
    check(not statuses, f"the other call's requests got {statuses}")
    # A sender that has used up its limit can still end its first call by BYE.
    own = greedy[2].make("BYE")
    greedy[0].send(own)
    back = t.stream()
    answer = back.register(name, password, params=pushed(token))
    check(answer and answer.status == 200, f"control: {answer}")
    for side, wanted in ((other, ending), (greedy, own)):
        got = back.request("BYE", side[1].call_id, 4)
        check(got, "the phone is back and gets no BYE")
        back.respond(got, 200)
        answer = side[0].response(side[1].call_id, "BYE", 3)
        check(answer and answer.status == 200, f"the BYE got {answer and answer.start}")
    return f"of thirty requests of one call {len(refused)} are refused; another call's INFO and BYE, and its own BYE, reach the phone"


@probe("T32.4", "missed-calls-of-others", "shares")
def missed(t):
    """One account makes and cancels 120 calls, and the list of missed calls has room for 100. Missed calls from others
    stay in the list."""
    _, target, _, token = sleeper(t)
    for user in ("701", "702", "703"):
        pbx, request = call(t, target, user=user)
        check(wait_for(lambda: invitations(t, token)), "control: no push")
        pbx.send(pbx.cancel(request))
        check(pbx.response(request.call_id, "INVITE", 3), "control: no end")
    greedy, name, password = account(t)
    for _ in range(120):
        request = proved_call(t, greedy, name, password, target)
        check(greedy.take(lambda m: m.call_id == request.call_id and m.status == 100, 3), "control: no 100")
        greedy.send(greedy.cancel(request))
        answer = greedy.response(request.call_id, "INVITE", 3)
        check(answer and answer.status == 487, f"control: {answer}")
        greedy.send(greedy.ack_failure(request, answer))
    shown = t.daemon.command("bucket", "show", f"{target}@example.net").stdout
    lost = [user for user in ("701", "702", "703") if user not in shown]
    check(name in shown, f"control: {shown[:300]}")
    check(not lost, f"the calls of {lost} are gone from the bucket")
    return "120 calls of one account, in a bucket of 100: those of three others are still there"


@probe("T32.5", "records-of-others")
def records(t):
    """One source makes 600 calls to unknown users, and only 400 timeline records are stored. The timeline record of a
    call to a phone must stay."""
    daemon = own_daemon(t, "recorder", push={"timeline": {"max-records": 400}})
    daemon.start()
    _, target, _, token = sleeper(t)
    pbx, first = call(t, target)
    check(wait_for(lambda: invitations(t, token)), "control: no push")
    pbx.send(pbx.cancel(first))
    check(pbx.response(first.call_id, "INVITE", 3), "control: no end")
    for number in range(600):
        request = pbx.make("INVITE", f"sip:{fresh('nobody')}@example.net", "666")
        answer = pbx.exchange(request, 3)
        check(answer and answer.status == 404, f"control: {answer}")
    # Old timeline records are deleted in batches, or every ten seconds.
    time.sleep(12)
    shown = daemon.command("explain", f"{target}@example.net").stdout
    check(first.call_id in daemon.command("explain", first.call_id).stdout or "caller" in shown, f"the call's record is gone: {shown[:300]}")
    last = daemon.command("explain", first.call_id)
    check(last.returncode == 0 and target in last.stdout, f"explain knows the call no more: {last.stdout[:200]}{last.stderr[:200]}")
    return "600 calls to nobody, 400 records: explain still finds the call before them"


@probe("T17.6", "registers-of-one-source", "shares")
def registers(t):
    """With limits.registers-per-source 8, a request without a password counts four times, and ten seconds' worth may come
    at once."""
    t.needs("limits.registers-per-source")
    flood, host = t.phone(), None
    host = flood.host
    # The daemon has challenged the phone earlier, and the phone now sends its credentials.
    proved = t.phone(host)
    name, password = t.daemon.user()
    first = proved.make("REGISTER", "sip:example.net", name, to=f"sip:{name}@example.net", contact=f"<sip:{name}@{proved.local()}>")
    challenge = proved.exchange(first, 3)
    check(challenge and challenge.status == 401, f"control: {challenge}")
    requests = [flood.make("REGISTER", "sip:example.net", "x", to="sip:x@example.net", contact=f"<sip:x@{flood.local()}>")
                for _ in range(80)]
    for request in requests:
        flood.send(request)
    answers = [flood.response(request.call_id, "REGISTER", 1) for request in requests]
    statuses = [answer.status for answer in answers if answer]
    limited = [answer for answer in answers if answer and answer.status == 503]
    check(statuses.count(401) <= 30, f"80 REGISTERs without a password: {statuses.count(401)} were challenged")
    check(statuses.count(401) >= 15, f"control: {statuses.count(401)} were challenged")
    check(limited and all(answer.get("retry-after") for answer in limited), "503 without Retry-After")
    again = first.renewed().add(*credentials(challenge, name, password, "REGISTER", first.uri))
    answer = proved.exchange(again, 3)
    check(answer and answer.status == 200, f"who shows his password from that address gets {answer and answer.start}")
    other = t.phone()
    t.registered(other)
    pbx = t.phone(trusted=True)
    edge = [pbx.make("REGISTER", "sip:example.net", "x", to="sip:x@example.net", contact=f"<sip:x@{pbx.local()}>") for _ in range(80)]
    for request in edge:
        pbx.send(request)
    answers = [pbx.response(request.call_id, "REGISTER", 1) for request in edge]
    check(all(answer and answer.status == 401 for answer in answers), "a trusted peer is limited")
    check(t.daemon.metric("sippushd_limited_registers_total") >= len(limited), "no counter")
    check("limits.registers-per-source" in t.daemon.log(), "no line in the log")
    return (f"80 REGISTERs without a password from one address: {statuses.count(401)} challenged, {len(limited)} refused; one with its password, "
            "another address and a trusted peer are served")


@probe("T17.7", "handshakes-of-one-source", "shares")
def handshakes(t):
    """With limits.handshakes-per-source 4, ten handshakes without a password may come at once."""
    t.needs("limits.handshakes-per-source")
    authority, place = t.daemon.authority, (t.daemon.host, t.daemon.tls_port)

    def shaken(host):
        try:
            stream = SecureStream(host, place, made=context(authority))
        except (OSError, ssl.SSLError):
            return None
        return stream

    host, done = t.address(), 0
    for _ in range(50):
        stream = shaken(host)
        if stream:
            done += 1
            stream.close()
    check(done >= 8, f"control: {done} of 50 handshakes")
    check(done <= 30, f"{done} of 50 handshakes of one address were done")
    other = shaken(t.address())
    check(other, "another address is refused")
    other.close()
    # A client that authenticates by a password on each connection may connect more often.
    host, proved = t.address(), 0
    name, password = t.daemon.user()
    for _ in range(18):
        stream = shaken(host)
        if stream:
            answer = stream.register(name, password, contact=f"<sip:{name}@192.0.2.1>")
            proved += bool(answer and answer.status == 200)
            stream.close()
    check(proved == 18, f"of 18 connections that show a password {proved} were served")
    refused = t.daemon.metric("sippushd_connections_dropped_total", reason="handshake-limit")
    check(refused >= 50 - done, f"the counter says {refused:.0f}")
    check("limits.handshakes-per-source" in t.daemon.log(), "no line in the log")
    return f"{done} of 50 handshakes of one address were begun; 18 of one that shows its password, and another address, are served"


@probe("T25.7", "message-with-anothers-names", "shares")
def names(t):
    """Two accounts send MESSAGEs with the same Call-ID, From tag, CSeq and branch, and both are delivered."""
    phone, target, password, token = sleeper(t)
    call_id, tag, branch, sent = fresh("same"), fresh("tag"), fresh("z9hG4bK"), []
    for words in (b"first", b"second"):
        agent, name, own = account(t)
        request = agent.make("MESSAGE", f"sip:{target}@example.net", name, call_id=call_id, from_tag=tag, body=words)
        challenge = agent.exchange(request, 9)
        check(challenge and challenge.status == 407, f"control: {challenge}")
        again = request.renewed()
        # A client that has seen the first MESSAGE also knows its Via branch.
        again.set("Via", re.sub(r"branch=[^;]+", f"branch={branch}", again.get("Via")))
        again.set("CSeq", "7 MESSAGE").add(*credentials(challenge, name, own, "MESSAGE", request.uri))
        answer = agent.exchange(again, 9)
        check(answer and answer.status == 202, f"{words} got {answer and answer.start}")
        sent.append(words)
    back, got = t.phone(), []
    answer = back.register(target, password, params=pushed(token))
    check(answer and answer.status == 200, f"control: {answer}")
    for _ in sent:
        message = back.request("MESSAGE", timeout=3)
        check(message, f"both senders were told 202, and the phone got {got}")
        got.append(message.body)
        back.respond(message, 200, tag="b")
    check(got == sent, f"the phone got {got}")
    return "two accounts, one Call-ID, From tag, CSeq and branch: the phone gets both messages"


@probe("T25.8", "message-has-one-date", "shares")
def date(t):
    phone, target, password, token = sleeper(t)
    pbx = t.phone(trusted=True)
    own = "Sat, 13 Nov 2010 23:29:00 GMT"
    wanted = [([], b"plain"), ([("Date", own)], b"with a date"), ([], b"said:\nDate: none\r\ndate: none")]
    for number, (fields, words) in enumerate(wanted):
        request = pbx.make("MESSAGE", f"sip:{target}@example.net", f"70{number}", body=words, fields=fields)
        answer = pbx.exchange(request, 9)
        check(answer and answer.status == 202, f"control: {answer}")
    back = t.phone()
    answer = back.register(target, password, params=pushed(token))
    check(answer and answer.status == 200, f"control: {answer}")
    for fields, words in wanted:
        message = back.request("MESSAGE", timeout=3)
        check(message and message.body == words, f"the phone got {message}")
        dates = message.all("date")
        check(len(dates) == 1, f"{words!r} came with {len(dates)} Dates")
        check(not fields or dates == [own], f"its own Date became {dates}")
        back.respond(message, 200, tag="b")
    return "stored messages come with one Date: their own, else ours"
