"""T29: restarts and upgrades, with a stand-in for systemd as the service manager."""

import ctypes
import json
import os
import re
import signal
import socket
import subprocess
import time

from daemon import Daemon
from edge import SecureStream, context
from machine import patience
from manager import Manager
from sip import Stream, fresh
from suite import Skipped, check, probe
from .store import own_daemon, registered_now
from .wake import pushed


def managed(t, name, watchdog=None, **settings):
    """A daemon that is not started yet, and its service manager."""
    daemon = own_daemon(t, name, **settings)
    daemon.manager = t.own(Manager(daemon.folder, watchdog))
    return daemon, daemon.manager


def options(agent):
    return agent.make("OPTIONS", "sip:example.net")


def waits_and_is_answered(t, daemon, what):
    """While no daemon runs, one phone connects and sends, and another sends a datagram. The next daemon answers both
    phones."""
    stream, phone = t.stream(), t.phone()
    question, other = options(stream), options(phone)
    stream.send(question)
    phone.send(other)
    time.sleep(0.3)
    check(not stream.closed, f"{what}: the connection was closed")
    daemon.launch()
    answer = stream.response(question.call_id)
    check(answer and answer.status == 200, f"{what}: what waited on TCP got {answer}")
    answer = phone.response(other.call_id)
    check(answer and answer.status == 200, f"{what}: what waited on UDP got {answer}")


@probe("T29.1", "handed-sockets")
def handed(t):
    """A .socket unit opens the sockets for SIP over UDP and TCP, for HTTP, and for control."""
    daemon, manager = managed(t, "handed")
    values = daemon.settings()
    manager.open(socket.SOCK_DGRAM, daemon.address)
    manager.open(socket.SOCK_STREAM, daemon.address)
    manager.open(socket.SOCK_STREAM, (daemon.host, daemon.api_port), "http")
    manager.open(socket.SOCK_STREAM, (daemon.host, daemon.admin_port), "http")
    manager.open(socket.SOCK_STREAM, values["control"], "control")
    daemon.start()
    phone, name, password, token = registered_now(t)
    check(daemon.http("GET", "/readyz")[0] == 200, "control: HTTP on a socket that was handed over")
    daemon.stop(signal.SIGKILL)
    waits_and_is_answered(t, daemon, "after kill -9")
    check(daemon.command("held", "list").returncode == 0, "the control socket's file is gone")
    caller = t.phone(trusted=True)
    request = caller.make("INVITE", f"sip:{name}@example.net")
    caller.send(request)
    check(t.suite.provider.wait(token), "control: a call after the restart")
    caller.send(caller.cancel(request))
    daemon.stop()
    # The service manager passes a socket that the settings do not name, or a socket for both address families.
    extra = manager.open(socket.SOCK_STREAM, ("127.0.0.1", 0), "stray")
    place = "%s:%s" % extra.getsockname()
    try:
        daemon.launch()
    except RuntimeError as error:
        said = str(error)
    else:
        check(False, "the daemon starts with a socket that its settings do not name")
    check(place in said and "stray" in said, f"it does not name the socket {place}: {said[-300:]}")
    return "SIP, HTTP and control on sockets that were handed over; what came while it was killed was served; a stray one is named"


@probe("T29.1", "kept-sockets")
def kept(t):
    """The daemon opens sockets itself, and leaves them to its service manager when it ends."""
    daemon, manager = managed(t, "kept")
    daemon.start()
    check(manager.wait("READY"), "no READY=1")
    limit = time.monotonic() + patience(3)
    while len(manager.kept) < 4 and time.monotonic() < limit:
        time.sleep(0.05)
    check(len(manager.kept) == 4, f"it left {sorted(manager.kept)}: not the four that it listens on")
    daemon.stop()
    check(daemon.process.returncode == 0, f"it ended with {daemon.process.returncode}")
    waits_and_is_answered(t, daemon, "after SIGTERM")
    check(len(manager.kept) == 4, f"after the second start {sorted(manager.kept)} are left")
    daemon.stop()
    # If the settings name another port, the old socket is closed.
    old, daemon.port = daemon.port, t.suite.free_port()
    daemon.write_settings()
    begin = time.monotonic()
    daemon.launch()
    limit = time.monotonic() + patience(3)
    while any(str(old) in name for name in manager.kept) and time.monotonic() < limit:
        time.sleep(0.05)
    check(manager.times("FDSTOREREMOVE", begin), "what an earlier run has left and nobody needs is not given back")
    return "four sockets left to the manager and taken again: connections and datagrams wait; one that is not needed is given up"


def thread_of_loop(process):
    """The thread that runs the daemon's loop. The thread has the program's name, but is not the first thread of the
    process, which has the same name."""
    for task in os.listdir(f"/proc/{process}/task"):
        with open(f"/proc/{process}/task/{task}/comm") as file:
            if file.read().strip() == "sippushd" and int(task) != process:
                return int(task)
    return None


@probe("T29.3", "watchdog")
def watchdog(t):
    """With WatchdogSec=2, the event loop notifies systemd while it serves. While the loop's thread hangs, the daemon
    sends no notification, even if all other threads run."""
    daemon, manager = managed(t, "watched", watchdog=2.0)
    begin = time.monotonic()
    daemon.start()
    check(manager.wait("READY"), "no READY=1")
    limit = time.monotonic() + 30
    while len(times := manager.times("WATCHDOG", begin)) < 4 and time.monotonic() < limit:
        time.sleep(0.1)
    check(len(times) >= 4, f"{len(times)} words in 30 s")
    libc = ctypes.CDLL(None, use_errno=True)
    thread = thread_of_loop(daemon.process.pid)
    check(thread, "control: no thread of the loop")
    attach, detach = 16, 17
    if libc.ptrace(attach, thread, 0, 0) != 0:
        raise Skipped("needs the right to stop a thread")
    try:
        os.waitpid(thread, 0x40000000)
        halt = time.monotonic()
        time.sleep(3.5)
        silent = len(manager.times("WATCHDOG", halt + 0.2))
    finally:
        libc.ptrace(detach, thread, 0, 0)
    check(silent == 0, f"{silent} words while the loop hung: the manager would not have killed it")
    check(manager.wait("WATCHDOG", since=halt + 3.5, timeout=20), "control: no word after the loop went on")
    now = time.monotonic()
    daemon.process.send_signal(signal.SIGHUP)
    check(manager.wait("RELOADING", since=now, timeout=20) and manager.wait("READY", since=now, timeout=20), "no RELOADING=1 and READY=1 on SIGHUP")
    now = time.monotonic()
    daemon.stop()
    check(manager.wait("STOPPING", since=now, timeout=10), "no STOPPING=1")
    return f"{len(times)} words, none while the loop's thread hung; READY, RELOADING and STOPPING at their times"


def held_call(t):
    phone, name, password, token = registered_now(t)
    caller = t.phone(trusted=True)
    request = caller.make("INVITE", f"sip:{name}@example.net")
    caller.send(request)
    check(t.suite.provider.wait(token), "control: no push")
    return phone, name, password, token, caller, request


@probe("T29.4", "drain")
def drain(t):
    """After `sippushd drain`, no new call starts, open calls continue, and the daemon ends after the last of them."""
    daemon = own_daemon(t, "drained", call={"ring-timeout": "20s"}).start()
    phone, name, password, token, caller, request = held_call(t)
    result = daemon.command("drain", "--within", "15")
    check(result.returncode == 0 and "1 call" in result.stdout, f"sippushd drain: {result.returncode} {result.stdout}{result.stderr}")
    status, text, _ = daemon.http("GET", "/readyz")
    check(status == 503, f"/readyz says {status}")
    other = t.phone(trusted=True)
    answer = other.exchange(other.make("INVITE", f"sip:{name}@example.net"))
    check(answer and answer.status == 503 and answer.get("retry-after"), f"another INVITE got {answer}")
    answer = phone.register(name, password, params=pushed(token))
    check(answer and answer.status == 200, f"the waking REGISTER got {answer}")
    invite = phone.request("INVITE")
    check(invite, "the held call did not reach its phone")
    check(daemon.alive(), "it ended before its call was answered")
    phone.respond(invite, 200, tag="p")
    answer = caller.response(request.call_id)
    check(answer and answer.status == 200, f"the caller got {answer}")
    begin = time.monotonic()
    try:
        code = daemon.process.wait(20)
    except subprocess.TimeoutExpired:
        code = "it runs still"
    check(code == 0, f"after its last call: {code}")
    return f"a held call was delivered and answered while others got 503; {time.monotonic() - begin:.1f} s later the daemon ended with 0"


@probe("T29.4", "drain-on-sigterm")
def drain_on_sigterm(t):
    """With shutdown.drain-time 15s, the daemon waits that long for open calls after SIGTERM. A second SIGTERM ends the
    daemon immediately, as the first one does if no call is open."""
    t.needs("shutdown.drain-time")
    daemon = own_daemon(t, "terminated", shutdown={"drain-time": "15s"}, call={"ring-timeout": "20s"}).start()

    def seconds_to_end(limit):
        begin = time.monotonic()
        try:
            code = daemon.process.wait(limit)
        except subprocess.TimeoutExpired:
            return None
        check(code == 0, f"it ended with {code}")
        return time.monotonic() - begin

    daemon.process.send_signal(signal.SIGTERM)
    quick = seconds_to_end(12)
    check(quick is not None, "without calls it does not end at once")
    daemon.launch()
    held_call(t)
    daemon.process.send_signal(signal.SIGTERM)
    check(seconds_to_end(1.5) is None, "it ended while a call waited")
    daemon.process.send_signal(signal.SIGTERM)
    second = seconds_to_end(12)
    check(second is not None, "a second SIGTERM does not end it")
    return f"without calls it ends in {quick:.1f} s; with one it waits, and after a second SIGTERM ends in {second:.1f} s"


@probe("T29.2", "asleep-after-restart")
def asleep(t):
    """A TLS connection cannot be handed over, so its phone is woken."""
    daemon = Daemon("tls-restart", t.suite, {}, edge=True)
    t.suite.daemons[daemon.name] = t.daemon = daemon
    daemon.start()
    name, password = daemon.user()
    token = fresh("token")
    phone = t.own(SecureStream(t.address(), (daemon.host, daemon.tls_port), context(daemon.authority)))
    answer = phone.register(name, password, params=";transport=tls" + pushed(token),
                            contact=f"<sip:{name}@{phone.local()};transport=tls{pushed(token)}>")
    check(answer and answer.status == 200, f"control: REGISTER got {answer}")
    daemon.stop()
    daemon.launch()
    caller = t.phone(trusted=True)
    request = caller.make("INVITE", f"sip:{name}@example.net")
    caller.send(request)
    check(t.suite.provider.wait(token), f"no push after the restart ({caller.response(request.call_id, timeout=0.3)})")
    again = t.own(SecureStream(t.address(), (daemon.host, daemon.tls_port), context(daemon.authority)))
    answer = again.register(name, password, contact=f"<sip:{name}@{again.local()};transport=tls{pushed(token)}>")
    check(answer and answer.status == 200, f"the waking REGISTER got {answer}")
    invite = again.request("INVITE")
    check(invite, "the call did not reach the phone on its new connection")
    again.respond(invite, 486, tag="p")
    caller.response(request.call_id)
    return "a contact on a TLS connection of an earlier run is pushed, and rings where it registers"
