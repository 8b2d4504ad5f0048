"""T28: calls that continue when the daemon is killed and started again."""

import os
import shutil
import subprocess
import time

from daemon import Daemon
from machine import patience
from sip import Dialog, Listener, credentials, fresh
from suite import check, probe
from .dialog import works
from .edge import EdgeDaemon, secure, secure_pbx
from .store import own_daemon
from .wake import call, pushed, sleeper, talking


def restarted(daemon, after=0.1):
    """Waits for `after` seconds for packets on loopback, then kills the daemon and starts its next run."""
    time.sleep(after)
    daemon.kill()
    daemon.launch()


def woken(t, token, count=1):
    check(t.suite.provider.wait(token, count), "control: no push")


def calls_of(t, token):
    """The pushes that announce calls."""
    return [push for push in t.suite.provider.of(token) if push.get("data", {}).get("type") == "invite"]


def back(phone, name, password, token):
    answer = phone.register(name, password, params=pushed(token))
    check(answer and answer.status == 200, f"the phone cannot register: {answer}")


class WaitingCall:
    """A call of the PBX that waits for a sleeping phone, which got a push."""

    def __init__(self, t):
        self.phone, self.name, self.password, self.token = sleeper(t)
        self.caller, self.request = call(t, self.name)
        woken(t, self.token)

    def rings(self, seconds=6.0):
        """Whether the phone gets the INVITE when it registers."""
        back(self.phone, self.name, self.password, self.token)
        return self.phone.request("INVITE", self.request.call_id, seconds)


def killed_with_a_call(t, name):
    """A daemon of its own that was killed while a call waited. Returns the daemon, the call, and the folder that contains
    the call."""
    daemon = own_daemon(t, name).start()
    waiting = WaitingCall(t)
    time.sleep(0.1)
    daemon.kill()
    return daemon, waiting, folder_of(daemon)


def folder_of(daemon):
    return os.path.join(daemon.folder, "sippushd.db-calls")


def finals(caller, request, seconds=1.0):
    """The final responses that arrive within the given seconds, each with its To tag."""
    limit, found = time.monotonic() + seconds, []
    while time.monotonic() < limit:
        answer = caller.response(request.call_id, "INVITE", max(0.01, limit - time.monotonic()))
        if answer:
            found.append((answer.status, answer.tag("to")))
    return found


def again(caller, request, status, seconds=3.0):
    """Whether the daemon repeats the final response within the given time."""
    limit = time.monotonic() + patience(seconds)
    with caller.changed:
        while True:
            if any(m.call_id == request.call_id and m.status == status for m in caller.repeats):
                return True
            rest = limit - time.monotonic()
            if rest <= 0:
                return False
            caller.changed.wait(rest)


def answered(t, caller, request, phone, invite, status=200):
    phone.respond(invite, status, tag="p")
    answer = caller.response(request.call_id, "INVITE")
    check(answer and answer.status == status, f"the phone's {status} reached the caller as {answer}")
    return answer


@probe("T28.1", "held-call-over-kill")
def held(t):
    """kill -9 while a call waits: retransmissions, the phone's REGISTER, its answer, and no second push."""
    daemon = own_daemon(t, "held-over-kill").start()
    waiting = WaitingCall(t)
    caller, request = waiting.caller, waiting.request
    restarted(daemon)
    caller.send(request)
    trying = caller.take(lambda m: m.call_id == request.call_id and m.status == 100, 3)
    check(trying, "the INVITE that is sent again gets no 100")
    invite = waiting.rings()
    check(invite, "the phone that registers gets no INVITE")
    answered(t, caller, request, waiting.phone, invite)
    check(finals(caller, request) == [], "the caller gets another final response")
    pushes = calls_of(t, waiting.token)
    check(len(pushes) == 1, f"{len(pushes)} pushes for one call")
    return "after kill -9 a waiting call is 100 again, goes to the phone that registers, and was pushed once"


@probe("T28.1", "held-call-cancelled-after-kill")
def cancelled(t):
    """A CANCEL after kill -9 gets 200 and one 487, even if the daemon is killed again before the ACK. A stranger's CANCEL
    has no effect."""
    daemon = own_daemon(t, "cancelled-after-kill").start()
    phone, name, password, token = sleeper(t)
    caller, request = call(t, name)
    woken(t, token)
    restarted(daemon)
    stranger = t.phone()
    stranger.send(caller.cancel(request))
    check(finals(caller, request, 0.5) == [], "anybody ends the call")
    caller.send(caller.cancel(request))
    answer = caller.response(request.call_id, "INVITE")
    check(answer and answer.status == 487, f"after CANCEL the INVITE is answered {answer}")
    daemon.kill()
    caller.repeats.clear()
    daemon.launch()
    check(again(caller, request, 487), "without its ACK the 487 does not come again")
    caller.send(caller.ack_failure(request, answer))
    time.sleep(0.5)
    daemon.kill()
    caller.repeats.clear()
    daemon.launch()
    check(not again(caller, request, 487, 1.0), "a final response that was acknowledged comes again")
    check(finals(caller, request, 0.1) == [], "the caller gets another final response")
    back(phone, name, password, token)
    check(not phone.request("INVITE", request.call_id, 0.9), "the phone gets the INVITE of a call that was cancelled")
    check(t.suite.provider.wait(token, 2), "no list of missed calls")
    return "CANCEL after kill -9 is 200 and 487, which comes again until its ACK; the phone hears of a missed call"


@probe("T28.1", "hold-ends-over-kill")
def ends(t):
    """The waiting time of a call does not start again after a crash, because it is computed from the call's date."""
    daemon = own_daemon(t, "hold-ends", call={"ring-timeout": "12s"}).start()
    phone, name, password, token = sleeper(t)
    start = time.monotonic()
    caller, request = call(t, name)
    woken(t, token)
    time.sleep(6)
    killed = time.monotonic()
    restarted(daemon)
    answer = caller.response(request.call_id, "INVITE", 40)
    end = time.monotonic()
    check(answer and answer.status == 480, f"the call ended with {answer}")
    # If the waiting time had started again after the kill, the call would end later.
    check(start + 11.5 < end < killed + 12, f"it waited {end - start:.1f} s in two runs, call.ring-timeout is 12 s")
    caller.send(caller.ack_failure(request, answer))
    return f"a hold of 12 s over kill -9 took {end - start:.1f} s"


@probe("T28.1", "folder-for-calls")
def folder(t):
    """The setting `calls` names another folder. Calls survive in that folder, which one daemon locks; a folder that
    cannot be written stops no call."""
    t.needs("calls")
    place = os.path.join(t.suite.folder, "kept-calls")
    daemon = own_daemon(t, "folder-for-calls", calls=place).start()
    waiting = WaitingCall(t)
    other = Daemon("same-folder", t.suite, {"calls": place})
    other.write_settings()
    result = subprocess.run([t.suite.program, "serve", "--config", other.config], capture_output=True, text=True, timeout=30,
                            stdin=subprocess.DEVNULL)
    said = result.stdout + result.stderr
    check(result.returncode != 0 and place in said and str(daemon.process.pid) in said, f"a second daemon with that folder: {said[-300:]}")
    restarted(daemon)
    invite = waiting.rings()
    check(invite, "the call does not go on")
    answered(t, waiting.caller, waiting.request, waiting.phone, invite)
    # A file takes the place of the folder, so that even root cannot write into it.
    daemon.stop()
    shutil.rmtree(place)
    daemon.launch()
    shutil.rmtree(place)
    with open(place, "w"):
        pass
    waiting = WaitingCall(t)
    invite = waiting.rings()
    check(invite, "without the folder calls are not served")
    answered(t, waiting.caller, waiting.request, waiting.phone, invite)
    check("would not survive a crash" in daemon.log(), "the log does not say so")
    return "a call goes on from a folder of its own; a second daemon is refused it; without it calls are served, and the log says so"


@probe("T28.7", "strange-files-among-calls")
def strange_files(t):
    """The folder of calls contains a pipe, a sparse file of a terabyte and a device. The daemon starts, and calls work."""
    daemon, waiting, place = killed_with_a_call(t, "strange-files")
    os.mkfifo(os.path.join(place, "7.calls"))
    with open(os.path.join(place, "8.calls"), "wb") as file:
        file.truncate(1 << 40)
    os.symlink("/dev/zero", os.path.join(place, "9.calls"))
    daemon.launch()
    check(daemon.memory("VmHWM") < 2 << 20, f"the start took {daemon.memory('VmHWM')} KiB")
    invite = waiting.rings()
    check(invite, "the call does not go on")
    answered(t, waiting.caller, waiting.request, waiting.phone, invite)
    said = daemon.log()
    for number in (7, 8, 9):
        check(f"{number}.calls" in said, f"the log does not name {number}.calls")


@probe("T28.8", "folder-that-others-write")
def written_by_others(t):
    """A user who may write into the folder could forge calls of the PBX. The daemon refuses a folder into which another
    user may write, and says how to correct it."""
    daemon, waiting, place = killed_with_a_call(t, "folder-of-others")
    for mode in (0o770, 0o707):
        os.chmod(place, mode)
        result = subprocess.run([t.suite.program, "serve", "--config", daemon.config], capture_output=True, text=True,
                                timeout=30, stdin=subprocess.DEVNULL)
        said = result.stdout + result.stderr
        check(result.returncode != 0 and place in said and "chmod" in said, f"mode {mode:o}: {result.returncode} {said[-300:]}")
    os.chmod(place, 0o700)
    daemon.launch()
    check(waiting.rings(), "control: the call does not go on")


@probe("T28.9", "calls-that-nobody-has-made")
def made_calls(t):
    """The next run accepts no call whose bytes were changed on the disk, or which a daemon with another store has
    written."""
    other = own_daemon(t, "foreign-calls").start()
    daemon, waiting, place = killed_with_a_call(t, "changed-calls")
    other.kill()
    # The journal file of daemon A goes into the folder of daemon B, once as a separate file, and once appended to B's file.
    elsewhere = folder_of(other)
    os.makedirs(elsewhere, mode=0o700, exist_ok=True)
    names = sorted(os.listdir(place))
    check(names, "control: no file of calls")
    for file in names:
        shutil.copy(os.path.join(place, file), os.path.join(elsewhere, file))
    other.launch()
    check(other.metric("sippushd_calls_resumed_total") == 0, "a call of another store goes on")
    check("another store" in other.log(), "the log says nothing of it")
    # The caller's number is replaced by another number of the same length.
    for file in names:
        with open(os.path.join(place, file), "r+b") as changed:
            raw = changed.read()
            check(b"sip:700@" in raw, "control: the caller does not stand in the file")
            changed.seek(0)
            changed.write(raw.replace(b"sip:700@", b"sip:112@"))
    daemon.launch()
    check(daemon.metric("sippushd_calls_resumed_total") == 0, "a call that was changed on the disk goes on")
    check(waiting.rings(0.9) is None, "the phone gets a call that was changed on the disk")
    caller, request = call(t, waiting.name)
    back(waiting.phone, waiting.name, waiting.password, waiting.token)
    check(waiting.phone.request("INVITE", request.call_id), "control: a new call is not served")


@probe("T28.2", "ringing-call-over-kill")
def ringing(t):
    """kill -9 while phones ring: the phone's answer reaches the caller, and the user's other phones are cancelled."""
    daemon = own_daemon(t, "ringing-over-kill").start()
    phone, name, password, token = sleeper(t)
    other = t.phone()
    answer = other.register(name, password)
    check(answer and answer.status == 200, f"control: {answer}")
    caller, request = call(t, name)
    woken(t, token)
    elsewhere = other.request("INVITE", request.call_id)
    other.respond(elsewhere, 180, tag="o")
    back(phone, name, password, token)
    invite = phone.request("INVITE", request.call_id)
    check(invite and elsewhere, "control: the phones do not ring")
    phone.respond(invite, 180, tag="p")
    check(caller.take(lambda m: m.call_id == request.call_id and m.status == 180, 3), "control: no 180")
    restarted(daemon)
    another = phone.request("INVITE", request.call_id, 0.9)
    check(another is None, "the phone that rings gets another INVITE, not the same again")
    other.respond(elsewhere, 180, tag="o")
    answered(t, caller, request, phone, invite)
    check(other.request("CANCEL", request.call_id), "the other phone rings on after the answer")
    other.respond(elsewhere, 487, tag="o")
    # The ACK is lost, and the daemon is killed when it would forget an acknowledged answer.
    restarted(daemon, after=6)
    caller.repeats.clear()
    phone.respond(invite, 200, tag="p")
    check(again(caller, request, 200), "a 200 whose ACK is missing does not come again")
    return "phones that ring over kill -9 are answered, cancelled, and heard again while the ACK is missing"


@probe("T28.2", "ringing-call-cancelled-after-kill")
def silenced(t):
    """After kill -9, a CANCEL reaches a ringing phone. A CANCEL before the kill is not forgotten, and a refusal reaches
    the caller."""
    daemon = own_daemon(t, "silenced-after-kill").start()
    told = []
    for when in ("after", "before", "declined"):
        phone, name, password, token = sleeper(t)
        caller, request = call(t, name)
        woken(t, token)
        back(phone, name, password, token)
        invite = phone.request("INVITE", request.call_id)
        check(invite, "control: the phone does not ring")
        phone.respond(invite, 180, tag="p")
        check(caller.take(lambda m: m.call_id == request.call_id and m.status == 180, 3), "control: no 180")
        if when == "before":
            caller.send(caller.cancel(request))
            check(phone.request("CANCEL", request.call_id), "control: no CANCEL")
        restarted(daemon)
        status = 486 if when == "declined" else 487
        if when == "after":
            caller.send(caller.cancel(request))
            phone.respond(invite, 180, tag="p")
            check(phone.request("CANCEL", request.call_id), "the phone rings on")
        phone.respond(invite, status, tag="p")
        answer = caller.response(request.call_id, "INVITE")
        check(answer and answer.status == status, f"{when}: the INVITE is answered {answer}")
        check(phone.request("ACK", request.call_id), f"{when}: the phone's {status} is not acknowledged")
        caller.send(caller.ack_failure(request, answer))
        told.append(when)
    return "cancelled after, cancelled before and declined: phones and callers over kill -9 hear of it"


def called_back(t, daemon, caller, at):
    """The messages that arrive at the address in the PBX's Via, for a call that a phone declines after kill -9."""
    phone, name, password, token = sleeper(t)
    request = caller.make("INVITE", f"sip:{name}@example.net", contact=None)
    request.set("Via", request.get("Via").replace(caller.local(), f"{at.host}:{at.port}"))
    caller.send(request)
    woken(t, token)
    restarted(daemon)
    back(phone, name, password, token)
    invite = phone.request("INVITE", request.call_id)
    check(invite, "the phone that registers gets no INVITE")
    phone.respond(invite, 603, tag="p")
    return at.response(request.call_id, "INVITE", 3)


@probe("T28.3", "callers-over-tcp-and-kill")
def streams(t):
    """A PBX and a phone use TCP. After kill -9, the final response is sent to the new connections of PBX and phone."""
    daemon = own_daemon(t, "tcp-callers").start()
    phone, name, password, token = sleeper(t)
    caller = t.stream(trusted=True)
    request = caller.make("INVITE", f"sip:{name}@example.net")
    caller.send(request)
    woken(t, token)
    restarted(daemon)
    check(caller.wait_closed(3), "control: the connection is open")
    new = t.stream(host=caller.host, trusted=True)
    answer = new.exchange(new.make("OPTIONS", "sip:example.net", contact=None))
    check(answer, "control: OPTIONS is not answered")
    back(phone, name, password, token)
    invite = phone.request("INVITE", request.call_id)
    check(invite, "the phone that registers gets no INVITE")
    phone.respond(invite, 486, tag="p")
    answer = new.response(request.call_id, "INVITE")
    check(answer and answer.status == 486, f"the PBX that is back hears {answer}")
    # A PBX that accepts connections at the address in its Via, and opens none.
    at = t.own(Listener(caller.host, 0))
    answer = called_back(t, daemon, t.stream(host=caller.host, trusted=True), at)
    check(answer and answer.status == 603, f"the PBX that is called back hears {answer}")
    return "PBXs over TCP get the final response by a connection of theirs or of ours"


@probe("T28.3", "caller-over-tls-and-kill", alone=True)
def secure_caller(t):
    """A PBX called over TLS, and opens no new connection. The daemon connects to the PBX if its certificate has the host
    name in its Via."""
    for whose, name_of, hears in (("its own", "IP:{}", True), ("another's", "DNS:pbx.example.net", False)):
        daemon = t.daemon = t.own(EdgeDaemon("tls-caller-" + fresh("d"), t.suite, {}))
        daemon.start()
        host = t.address(True)
        at = secure_pbx(t, host, 0, daemon.authority.issue("pbx", name_of.format(host)))
        answer = called_back(t, daemon, secure(t, host=host), at)
        if hears:
            check(answer and answer.status == 603, f"the PBX that is called back hears {answer}")
        else:
            check(answer is None, f"a PBX with {whose} certificate hears {answer}")
    return "a PBX over TLS is called back under the name of its Via, and nobody in its place"


@probe("T28.3", "phone-moves-over-kill")
def moves(t):
    """A phone that rings over TCP loses its connection by kill -9, registers again, and rings on the new connection."""
    daemon = own_daemon(t, "moves-over-kill").start()
    phone = t.stream()
    phone, name, password, token = sleeper(t, phone)
    caller, request = call(t, name)
    woken(t, token)
    back(phone, name, password, token)
    invite = phone.request("INVITE", request.call_id)
    check(invite, "control: the phone does not ring")
    phone.respond(invite, 180, tag="p")
    check(caller.take(lambda m: m.call_id == request.call_id and m.status == 180, 3), "control: no 180")
    restarted(daemon)
    new = t.stream()
    back(new, name, password, token)
    invite = new.request("INVITE", request.call_id)
    check(invite, "the phone that is back does not ring")
    answered(t, caller, request, new, invite)
    check(len(calls_of(t, token)) == 1, f"{len(calls_of(t, token))} pushes for one call")
    return "a phone whose connection ended by kill -9 rings by its new one, and was pushed once"


@probe("T28.5", "upstream-calls-over-kill")
def onward(t):
    """kill -9 while a phone's call rings at the PBX. The phone gets the answer, and its CANCEL reaches the PBX, over TCP
    too."""
    daemon = own_daemon(t, "upstream-over-kill", pbx="127.2.0.9").start()
    pbx = daemon.pbx

    def calling(phone, name, password):
        request = phone.make("INVITE", "sip:700@example.net", name)
        asked = phone.exchange(request)
        check(asked and asked.status == 407, f"control: {asked}")
        again = request.renewed().add(*credentials(asked, name, password, "INVITE", request.uri))
        phone.send(again)
        invite = pbx.request("INVITE", request.call_id)
        check(invite, "control: no INVITE at the PBX")
        pbx.respond(invite, 180, tag="u")
        check(phone.take(lambda m: m.call_id == request.call_id and m.status == 180, 3), "control: no 180")
        restarted(daemon)
        check(pbx.request("INVITE", request.call_id, 0.9) is None, "the PBX gets another INVITE, not the same again")
        return again, invite

    phone = t.phone()
    name, password = t.registered(phone)
    request, invite = calling(phone, name, password)
    pbx.respond(invite, 200, tag="u", contact=f"<sip:700@{pbx.local()}>")
    answer = phone.response(request.call_id, "INVITE")
    check(answer and answer.status == 200, f"the phone hears {answer}")
    dialog = Dialog.of_caller(phone, request, answer)
    phone.send(dialog.make("ACK", cseq=int(request.get("CSeq").split()[0])))
    check(pbx.request("ACK", request.call_id), "the ACK does not reach the PBX")
    check(works(dialog, pbx), "an INFO does not reach the PBX")

    request, invite = calling(phone, name, password)
    stranger = t.phone()
    stranger.send(phone.cancel(request))
    check(not pbx.request("CANCEL", request.call_id, 0.5), "anybody ends the call")
    phone.send(phone.cancel(request))
    pbx.respond(invite, 180, tag="u")
    check(pbx.request("CANCEL", request.call_id), "the PBX rings on")
    pbx.respond(invite, 487, tag="u")
    answer = phone.response(request.call_id, "INVITE")
    check(answer and answer.status == 487, f"after CANCEL the phone hears {answer}")
    phone.send(phone.ack_failure(request, answer))

    stream, token = t.stream(), fresh("token")
    name, password = t.registered(stream, params=pushed(token))
    request, invite = calling(stream, name, password)
    stranger = t.stream()
    answer = stranger.register(*t.daemon.user())
    check(answer and answer.status == 200, f"control: {answer}")
    back = t.stream()
    pbx.respond(invite, 486, tag="u")
    check(not back.response(request.call_id, "INVITE", 0.5), "the answer goes to a connection of nobody")
    answer = back.register(name, password, params=pushed(token))
    check(answer and answer.status == 200, f"control: {answer}")
    answer = back.response(request.call_id, "INVITE")
    check(answer and answer.status == 486, f"the phone that is back by another connection hears {answer}")
    check(not stranger.response(request.call_id, "INVITE", 0.2), "a stranger hears of the call")
    return "a phone's call at the PBX is answered, cancelled and refused over kill -9, over UDP and TCP"


@probe("T28.5", "dialog-request-over-kill")
def inside(t):
    """kill -9 while a re-INVITE waits for a sleeping phone. The phone gets the re-INVITE when it registers, after only
    one push."""
    daemon = own_daemon(t, "inside-over-kill").start()
    phone = t.stream()
    name, password, token, caller, request, dialog = talking(t, phone)
    phone.reset()
    time.sleep(0.3)
    again = dialog.make("INVITE", cseq=2)
    caller.send(again)
    check(t.suite.provider.wait(token, 2), "control: no push for the re-INVITE")
    restarted(daemon)
    caller.send(again)
    trying = caller.take(lambda m: m.call_id == request.call_id and m.status == 100, 3)
    check(trying, "the re-INVITE that is sent again gets no 100")
    phone = t.stream()
    back(phone, name, password, token)
    got = phone.request("INVITE", request.call_id)
    check(got, "the phone that registers gets no re-INVITE")
    phone.respond(got, 200, tag="b")
    answer = caller.response(request.call_id, "INVITE")
    check(answer and answer.status == 200, f"the caller hears {answer}")
    check(len(t.suite.provider.of(token)) == 2, f"{len(t.suite.provider.of(token))} pushes in all")
    return "a re-INVITE that waits over kill -9 reaches its phone, which was woken once"


@probe("T28.4", "journal-stays-small")
def small(t):
    """Calls are removed from the disk when they are over."""
    daemon = own_daemon(t, "journal", shutdown={"drain-time": "0s"}).start()
    folder = daemon.settings()["store"] + "-calls"

    def size():
        return sum(os.path.getsize(os.path.join(folder, name)) for name in os.listdir(folder)) if os.path.isdir(folder) else 0

    # The phone gets many long INVITEs. Without cleaning, the journal files would have 9 MB.
    phone, name, password, token = sleeper(t)
    filler = [f"X-Filler-{number}: {'x' * 900}" for number in range(9)]
    largest = 0
    for number in range(1000):
        caller = t.phone(trusted=True)
        request = caller.make("INVITE", f"sip:{name}@example.net", lines=filler)
        caller.send(request)
        caller.send(caller.cancel(request))
        answer = caller.response(request.call_id, "INVITE")
        check(answer and answer.status == 487, f"call {number} got {answer}")
        caller.send(caller.ack_failure(request, answer))
        largest = max(largest, size())
        caller.close()
    check(1 << 20 < largest < 7 << 20, f"1,000 calls one after the other: the journal had {largest} bytes")
    caller, request = call(t, name)
    time.sleep(0.1)
    daemon.stop()
    check(size() > 0, "a call that waits is not kept over an orderly end")
    daemon.launch()
    caller.send(caller.cancel(request))
    answer = caller.response(request.call_id, "INVITE")
    check(answer and answer.status == 487, f"the call that waited got {answer}")
    caller.send(caller.ack_failure(request, answer))
    time.sleep(0.2)
    daemon.stop()
    check(size() == 0, f"after an orderly end without calls {size()} bytes are left")
    return f"1,000 calls of 9 KB took {largest >> 20} MiB at most, and nothing after an orderly end"
