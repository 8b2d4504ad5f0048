"""T18, T20.6: the store, restarts and secrets, and that acknowledged data is kept."""

import json
import os
import re
import shutil
import socket
import sqlite3
import stat
import subprocess
import threading
import time

from daemon import Daemon, PUSHES
from machine import patience
from sip import Dialog, fresh
from suite import Skipped, check, probe
from .dialog import Call, outgoing, works
from .flows import Device
from .wake import call, pushed


def own_daemon(t, name, pbx=None, **settings):
    daemon = Daemon(name, t.suite, settings, pbx)
    t.suite.daemons[name] = daemon
    t.daemon = daemon
    return daemon


def registered_now(t):
    """Makes a phone with a token, whose REGISTER has just got 200."""
    phone, token = t.phone(), fresh("token")
    name, password = t.registered(phone, params=pushed(token))
    return phone, name, password, token


@probe("T21.1", "foreign-open")
def foreign(t):
    """sqlite3, Python or a backup opens and closes the store while the daemon runs, which is then killed (kill -9)."""
    daemon = own_daemon(t, "foreign").start()
    path = daemon.settings()["store"]
    registered_now(t)
    for _ in range(3):
        connection = sqlite3.connect(path, timeout=1)
        connection.execute("SELECT count(*) FROM sqlite_master").fetchall()
        connection.close()
        with open(path, "rb") as file:
            file.read(100)
    if shutil.which("sqlite3"):
        subprocess.run(["sqlite3", path, "SELECT count(*) FROM sqlite_master"], capture_output=True, timeout=10)
    check(os.path.exists(path + "-wal"), "the write-ahead log is gone after a foreign open")
    kept = [registered_now(t) for _ in range(5)]
    daemon.kill()
    daemon.launch()
    for phone, name, password, token in kept:
        caller = t.phone(trusted=True)
        request = caller.make("INVITE", f"sip:{name}@example.net")
        caller.send(request)
        check(t.suite.provider.wait(token), f"a contact acknowledged after a foreign open is gone after kill -9 ({caller.response(request.call_id, timeout=0.3)})")
        caller.send(caller.cancel(request))
    return "after sqlite3 and Python had opened and closed the store, 5 acknowledged contacts survive kill -9 and are woken"


@probe("T21.1", "acknowledged-is-kept")
def acknowledged(t):
    """kill -9 during a flood of REGISTERs: the next run of the daemon knows each phone that got its 200."""
    daemon = own_daemon(t, "killed").start()
    users = [daemon.user() for _ in range(60)]
    kept, stop = [], threading.Event()

    def register(some):
        for name, password in some:
            if stop.is_set():
                return
            phone, token = t.phone(), fresh("token")
            answer = phone.register(name, password, params=pushed(token), timeout=1.5)
            if answer and answer.status == 200:
                kept.append((name, token))

    threads = [threading.Thread(target=register, args=(users[n::6],)) for n in range(6)]
    for thread in threads:
        thread.start()
    limit = time.monotonic() + patience(10)
    while len(kept) < 25 and time.monotonic() < limit:
        time.sleep(0.002)
    daemon.kill()
    stop.set()
    for thread in threads:
        thread.join()
    count = len(kept)
    check(count >= 25, f"control: {count} REGISTERs were acknowledged")
    daemon.launch()
    caller = t.phone(trusted=True)
    for name, token in kept:
        request = caller.make("INVITE", f"sip:{name}@example.net")
        caller.send(request)
        check(t.suite.provider.wait(token), f"{name} got 200 and is not known after kill -9")
        caller.send(caller.cancel(request))
    return f"kill -9 among 60 REGISTERs: all {count} phones that had got 200 are woken after the restart"


@probe("T21.1", "missed-calls-over-kill")
def missed(t):
    """kill -9 while calls wait for their phones. Earlier calls are kept if a later contact got its 200, or after half a
    second."""
    daemon = own_daemon(t, "missed").start()
    caller = t.phone(trusted=True)

    def called(contacts):
        for _, name, _, token in contacts:
            caller.send(caller.make("INVITE", f"sip:{name}@example.net"))
        for _, _, _, token in contacts:
            check(t.suite.provider.wait(token), "control: no push")

    def counted(contacts):
        """The numbers of the given contacts, and of their calls, that the daemon knows."""
        lists = [[json.loads(daemon.admin("GET", f"/v1/users/{name}@example.net/{what}")[1]) for _, name, _, _ in contacts]
                 for what in ("devices", "bucket")]
        return tuple(sum(1 for one in some if len(one) == 1) for some in lists)

    early = []
    for _ in range(10):
        early.append(registered_now(t))
        called(early[-1:])
    late = [registered_now(t) for _ in range(5)]
    called(late)
    daemon.kill()
    daemon.launch()
    check(counted(early) == (10, 10), f"of 10 contacts and calls from before the last REGISTER {counted(early)} are left")
    contacts, calls = counted(late)
    check(contacts == 5, f"of the last 5 contacts {contacts} are left")
    slow = [registered_now(t) for _ in range(5)]
    called(slow)
    time.sleep(0.5)
    daemon.kill()
    daemon.launch()
    check(counted(slow) == (5, 5), f"of 5 contacts and calls from half a second before kill -9 {counted(slow)} are left")
    return f"kill -9: all 20 contacts and 15 calls that were not of the last moment are kept, and of that {calls} of 5"


@probe("T21.1", "flows-over-kill")
def flows(t):
    """kill -9 with a phone that has several SIP flows. After the start, the phone is still one device, and one push wakes
    it."""
    daemon = own_daemon(t, "flows").start()
    for make in (t.stream, t.phone):
        device = Device(t, fresh("flows"))
        for number in (1, 2, 3):
            device.registered(number, agent=make())
        daemon.kill()
        daemon.launch()
        listed = json.loads(daemon.admin("GET", f"/v1/users/{device.name}@example.net/devices")[1])
        check(len(listed) == 1, f"the phone is {len(listed)} devices after kill -9")
        caller, request = call(t, device.name)
        check(t.suite.provider.wait(device.token), "no push after kill -9")
        agents = {number: device.registered(number, agent=make()) for number in (2, 3, 1)}
        time.sleep(0.7)
        got = [number for number, agent in agents.items() if agent.request("INVITE", request.call_id, 0.01)]
        check(got == [2], f"the INVITE is on the flows {got}, and 2 was the first to register")
        check(len(t.suite.provider.of(device.token)) == 1, f"{len(t.suite.provider.of(device.token))} pushes for one device")
        check(len(device.answer.all("contact")) == 3, f"{len(device.answer.all('contact'))} contacts after all have come back")
        caller.send(caller.cancel(request))


@probe("T21.2", "second-daemon")
def second(t):
    daemon = own_daemon(t, "first").start()
    other = Daemon("second", t.suite, {"store": daemon.settings()["store"]})
    other.write_settings()
    result = subprocess.run([t.suite.program, "serve", "--config", other.config], capture_output=True, text=True,
                            timeout=30, stdin=subprocess.DEVNULL)
    check(result.returncode != 0, "a second daemon on the same store started")
    said = result.stdout + result.stderr
    check(daemon.settings()["store"] in said or "sippushd.db" in said, f"it does not name the file: {said[-300:]}")
    check(str(daemon.process.pid) in said, f"it does not name the process {daemon.process.pid}: {said[-300:]}")
    kept = registered_now(t)
    daemon.kill()
    daemon.launch()
    caller = t.phone(trusted=True)
    request = caller.make("INVITE", f"sip:{kept[1]}@example.net")
    caller.send(request)
    check(t.suite.provider.wait(kept[3]), "what was acknowledged after the second start is gone")
    return "a second daemon ends, names file and process, and takes nothing from the first"


@probe("T21.3", "backup")
def backup(t):
    daemon = own_daemon(t, "backup").start()
    kept = [registered_now(t) for _ in range(3)]
    target = os.path.join(daemon.folder, "backup.db")
    result = daemon.command("backup", target)
    check(result.returncode == 0 and os.path.exists(target), f"sippushd backup: {result.returncode} {result.stdout}{result.stderr}")
    check(stat.S_IMODE(os.stat(target).st_mode) & 0o077 == 0, f"the backup is readable for others: {oct(os.stat(target).st_mode)}")
    late = registered_now(t)
    daemon.kill()
    path = daemon.settings()["store"]
    for end in ("", "-wal", "-shm"):
        if os.path.exists(path + end):
            os.remove(path + end)
    shutil.copy(target, path)
    daemon.launch()
    for phone, name, password, token in kept:
        caller = t.phone(trusted=True)
        request = caller.make("INVITE", f"sip:{name}@example.net")
        caller.send(request)
        check(t.suite.provider.wait(token), "a contact of the backup is not there after restoring it")
        caller.send(caller.cancel(request))
    del late
    return "sippushd backup while serving: a file for its owner alone, whose contacts are woken after it took the store's place"


@probe("T21.3", "no-database-made")
def none_made(t):
    daemon = Daemon("empty", t.suite, {})
    daemon.write_settings()
    for command in (("user", "list"), ("apikey", "list"), ("app", "list")):
        daemon.command(*command)
    path = daemon.settings()["store"]
    check(not os.path.exists(path), "a command that only lists made a store")
    return "user, apikey and app list without a store make none"


@probe("T21.4", "full-disk")
def full_disk(t):
    place = os.path.join(t.suite.folder, "small-disk")
    os.makedirs(place, exist_ok=True)
    if os.geteuid() != 0 or subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", place], capture_output=True).returncode:
        raise Skipped("needs the right to mount a small file system")
    try:
        daemon = own_daemon(t, "full", store=os.path.join(place, "sippushd.db")).start()
        # The write-ahead log can have room for some hundred rows, and a user may have few contacts.
        users = [daemon.user() for _ in range(60)]
        ready = lambda: daemon.http("GET", "/readyz")[0]  # noqa: E731
        check(ready() == 200, "control: /readyz")
        filler = os.path.join(place, "filler")
        with open(filler, "wb", 0) as file:
            try:
                while True:
                    file.write(b"\0" * 65536)
            except OSError:
                pass
            try:
                while True:
                    file.write(b"\0" * 512)
            except OSError:
                pass
        status = 200
        answers = []
        for number in range(600):
            phone, token, user = t.phone(), fresh("token"), users[number % len(users)]
            answer = phone.register(*user, params=pushed(token), fields=[("X-Fill", "1")], contact=f"<sip:{user[0]}@{phone.local()}{pushed(token * 20)}>")
            answers.append(answer and answer.status)
            if answer and answer.status >= 500:
                break
        check(answers[-1] and answers[-1] >= 500, f"with a full disk REGISTERs get {answers[-3:]}")
        limit = time.monotonic() + patience(5)
        while ready() == 200 and time.monotonic() < limit:
            time.sleep(0.2)
        check(ready() == 503, "/readyz says 200 while commits fail")
        os.remove(filler)
        limit = time.monotonic() + patience(15)
        while time.monotonic() < limit:
            phone, token = t.phone(), fresh("token")
            answer = phone.register(*user, params=pushed(token))
            if answer and answer.status in (200, 403) and ready() == 200:
                break
            time.sleep(0.3)
        check(answer and answer.status in (200, 403) and ready() == 200, f"with room again: {answer and answer.start}, /readyz {ready()}")
        daemon.stop()
        return f"a full disk: REGISTER {answers[-1]}, /readyz 503; with room again it serves by itself"
    finally:
        daemon.kill()
        subprocess.run(["umount", "-l", place], capture_output=True)


@probe("T20.6", "calls-survive-a-restart")
def restart(t):
    daemon = own_daemon(t, "restart", "127.2.0.3").start()
    incoming = Call(t)
    phone, user, of_phone, of_pbx = outgoing(t)
    daemon.kill()
    daemon.launch()
    check(works(incoming.of_pbx, incoming.phone, "BYE"), "after kill -9 and a restart the PBX cannot end a call")
    got = works(of_phone, daemon.pbx, "INVITE")
    check(got, "after kill -9 and a restart a phone's re-INVITE does not pass")
    check(works(of_phone, daemon.pbx, "BYE"), "after kill -9 and a restart a phone cannot end its call")
    # A store with another key does not accept the first store's token.
    daemon.kill()
    path = daemon.settings()["store"]
    # Without the lock file, a missing store is not reported (T35.3).
    for end in ("", "-wal", "-shm", ".lock"):
        if os.path.exists(path + end):
            os.rename(path + end, path + end + ".away")
    daemon.key = None
    daemon.start()
    check(not works(of_pbx, phone, "INFO"), "with another store's key the old token still opens")
    return "BYE and re-INVITE pass after kill -9; with another store, and so another key, they do not"


@probe("T18", "files-for-their-owner", "digest")
def files(t):
    for root, _, names in os.walk(t.daemon.folder):
        for name in names:
            path = os.path.join(root, name)
            if name in ("log", "sippushd.yaml"):
                continue
            mode = os.lstat(path).st_mode
            if not stat.S_ISREG(mode) and not stat.S_ISSOCK(mode):
                continue
            check(stat.S_IMODE(mode) & 0o077 == 0, f"{name} is {oct(stat.S_IMODE(mode))}")
    text = "store, its journals and the control socket are for their owner alone"
    if os.geteuid() != 0:
        # If a process may not be dumped, its files in /proc belong to root.
        check(os.stat(f"/proc/{t.daemon.process.pid}/mem").st_uid == 0, "the process can be dumped by its own user")
        text += ", and so is the process's memory"
    return text


# The text would clear the screen of a terminal, set its title, and change the reading direction.
EVIL = "\x1b[2J\x1b]0;owned\x07\u202e\u2066x\x9b31m"


@probe("T18.2", "terminals-are-told-nothing", "direct")
def terminals(t):
    """Texts from callers and phones reach operators' terminals with escapes, in tables, sentences and JSON."""
    phone = t.phone()
    token = fresh("terminal-")
    name, password = t.registered(phone, params=f";pn-provider=fcm;pn-param=p;pn-prid={token}")
    caller = t.phone(trusted=True)
    request = caller.make("INVITE", f"sip:{name}@example.net", "700", call_id=fresh("evil") + "\u202e\u2066@pbx")
    request.set("From", "<sip:" + "".join(f"%{byte:02x}" for byte in EVIL.encode()) + "@pbx.example>;tag=evil")
    caller.send(request)
    check(t.suite.provider.wait(token), "control: no push for the call")
    push = json.dumps(t.suite.provider.of(token)[-1], ensure_ascii=False)
    check(not any(mark in push for mark in "\u202e\u2066\x1b\x07\x9b"), f"the push has {push!r}")
    commands = [("held", "list"), ("held", "list", "--json"), ("bucket", "show", name), ("bucket", "show", name, "--json"),
                ("explain", name), ("explain", name, "--json"), ("device", "show", name), ("message", "list"),
                ("explain", EVIL), ("device", "show", EVIL), ("bucket", "show", EVIL)]
    for command in commands:
        result = t.daemon.command(*command)
        text = result.stdout + result.stderr
        check(text, f"control: {command[:2]} prints nothing")
        bad = [hex(ord(mark)) for mark in text if mark != "\n" and (ord(mark) < 32 or ord(mark) in (127, 0x9b, 0x202e, 0x2066))]
        check(not bad, f"{command[:2]} prints {bad}: {text!r}")
        # `held list` is the first command, because commands may be slow on a busy machine and the call must still wait.
        if command == ("held", "list"):
            check("\\u{202e}" in text, f"control: the call is not listed, or not escaped: {text!r}")
    caller.send(caller.cancel(request))


@probe("T18", "no-secret-in-any-log", alone=True)
def secrets(t):
    """All daemons of this run logged at level debug. The daemons of this run got passwords, tokens and keys that must not
    appear in the log."""
    planted = {"a password": r"pw-PLANTED-\w+", "a provider's key": PUSHES, "an API key": r"spd_[A-Za-z0-9_-]{20,}",
               "a digest response": r"response=\"?[0-9a-f]{32}", "a push token": None}
    # The provider repeats the token in its refusal.
    refused = fresh("refused-token-")
    if "digest" in t.suite.daemons:
        t.daemon = t.suite.daemons["digest"]
        phone = t.phone()
        name, _ = t.registered(phone, params=pushed(refused))
        caller = t.phone(trusted=True)
        request = caller.make("INVITE", f"sip:{name}@example.net")
        caller.send(request)
        t.suite.provider.wait(refused)
        time.sleep(0.3)
        caller.send(caller.cancel(request))
    tokens = {push.get("to") for _, push, _, _ in t.suite.provider.pushes if push.get("to")}
    lines = 0
    # The database of the nodes is no daemon.
    daemons = [one for one in t.suite.daemons.values() if isinstance(one, Daemon)]
    for daemon in daemons:
        text = daemon.log()
        lines += text.count("\n")
        for what, pattern in planted.items():
            found = re.search(pattern, text) if pattern else next((re.search(re.escape(x), text) for x in tokens if x in text), None)
            if found:
                line = text[text.rfind("\n", 0, found.start()) + 1:found.end() + 60].split("\n")[0]
                check(False, f"{what} in the log of {daemon.name}: {line[:200]}")
    check(lines > 100 or len(t.suite.daemons) < 3, f"control: only {lines} lines of log")
    return f"{lines} lines at debug of {len(t.suite.daemons)} daemons: none of {len(tokens)} tokens, no password, key or digest response"


class FaultyDisk:
    """Lets one system call of the running daemon fail once, in each thread the call with the number `place` from now on."""

    def __init__(self, daemon, call, place):
        self.strace = subprocess.Popen(
            ["strace", "-f", "-p", str(daemon.process.pid), "-o", "/dev/null", "-e", f"trace={call}", "-e",
             f"inject={call}:error=EIO:when={place}"], stderr=subprocess.PIPE, text=True)
        # The first line says that the process is attached with all its threads.
        attached = self.strace.stderr.readline()
        if "attached" not in attached:
            raise Skipped(f"strace cannot attach to the daemon here: {attached.strip()}")
        threading.Thread(target=self.strace.stderr.read, daemon=True).start()

    def end(self):
        self.strace.terminate()
        self.strace.wait()


@probe("T21.1", "disk-errors", alone=True)
def disk_errors(t):
    """A write or a sync fails, each time at another point. Data that got 200 is there after kill -9, and all other
    requests got 503."""
    if not shutil.which("strace") or subprocess.run(["strace", "-qq", "-o", "/dev/null", "true"], capture_output=True).returncode:
        raise Skipped("strace cannot be used here")
    daemon = own_daemon(t, "disk-errors").start()
    counts, silent = {200: 0, 503: 0}, []
    rounds = [("pwrite64", place) for place in (1, 2, 3, 5, 8, 13)] + [("fdatasync", place) for place in (1, 2, 3, 5)]
    for call, place in rounds:
        users = [daemon.user() for _ in range(6)]
        fault = FaultyDisk(daemon, call, place)
        kept, refused = [], counts[503]
        for name, password in users:
            phone, token = t.phone(), fresh("token")
            answer = phone.register(name, password, params=pushed(token), timeout=4)
            check(answer and answer.status in (200, 503), f"{call} {place}: a REGISTER is answered {answer}")
            counts[answer.status] += 1
            if answer.status == 200:
                kept.append(name)
        if counts[503] == refused:
            silent.append((call, place))
        daemon.kill()
        fault.end()
        daemon.launch()
        for name in kept:
            devices = json.loads(daemon.admin("GET", f"/v1/users/{name}@example.net/devices")[1])
            check(len(devices) == 1, f"{call} {place} failed: {name} got 200, and after kill -9 is not known")
        connection = sqlite3.connect(f"file:{daemon.settings()['store']}?mode=ro", uri=True, timeout=2)
        check(connection.execute("PRAGMA integrity_check").fetchone() == ("ok",), f"{call} {place} failed: the file is damaged")
        connection.close()
    check(counts[200] > 10 and counts[503] > 5, f"control: {counts}, and nothing failed with {silent}")
    return f"{len(rounds)} single errors of pwrite64 and fdatasync: {counts[200]} REGISTERs got 200 and are there, {counts[503]} got 503"


class FaultyStart:
    """Lets one system call fail once: the call with the number `place` of its kind after the start of the program."""

    def __init__(self, call, place):
        self.before = ["strace", "-D", "-f", "-qq", "-o", "/dev/null", "-e", f"trace={call}", "-e",
                       f"inject={call}:error=EIO:when={place}"]

    def launch(self):
        return {"before": self.before}


@probe("T21.1", "disk-errors-at-start", alone=True)
def disk_errors_at_start(t):
    """A write or a sync fails during the start. The daemon ends with the reason, or it starts, and the store is not damaged."""
    if not shutil.which("strace") or subprocess.run(["strace", "-qq", "-o", "/dev/null", "true"], capture_output=True).returncode:
        raise Skipped("strace cannot be used here")
    daemon = own_daemon(t, "disk-errors-at-start").start()
    name, password = daemon.user()
    check(t.phone().register(name, password, params=pushed(fresh("token")), timeout=4).status == 200, "control")
    rounds, refused = [("pwrite64", place) for place in (1, 2, 5, 9, 13)] + [("fdatasync", place) for place in (1, 2, 3)], 0
    for call, place in rounds:
        daemon.kill()
        daemon.manager = FaultyStart(call, place)
        try:
            daemon.launch()
        except RuntimeError as error:
            refused += 1
            check("I/O" in str(error) or "disk" in str(error) or "Input/output" in str(error), f"the start fails without a reason: {error}")
        daemon.kill()
        daemon.manager = None
        daemon.launch()
        devices = json.loads(daemon.admin("GET", f"/v1/users/{name}@example.net/devices")[1])
        check(len(devices) == 1, f"{call} {place} failed: the contact is lost")
    check(refused > 0, "control: no start was refused")
    return f"{len(rounds)} single errors: {refused} starts were refused with the reason, and nothing is lost"


@probe("T18.3", "killed-export-leaves-nothing")
def killed_export(t):
    """An export with hashes is killed in the middle, and leaves no file."""
    folder = os.path.join(t.suite.folder, "killed-export")
    os.makedirs(folder, mode=0o700)
    config, control = os.path.join(folder, "sippushd.yaml"), os.path.join(folder, "control.sock")
    with open(config, "w") as file:
        file.write(f"domains: [example.net]\nstore: {folder}/sippushd.db\ncontrol: {control}\n")
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(control)
    listener.listen()
    in_the_middle = threading.Event()
    users = [{"name": f"u{number}@example.net", "ha1MD5": "PLANTED0" * 4} for number in range(1000)]
    page = json.dumps({"users": users}).replace("PLANTED0", "0123abcd").encode()

    def serve():
        """An imitated daemon that returns the first page of users, and never the second."""
        pages = 0
        while True:
            connection, _ = listener.accept()
            while True:
                head = b""
                while b"\r\n\r\n" not in head:
                    some = connection.recv(65536)
                    if not some:
                        break
                    head += some
                if not head:
                    break
                if b"user-credentials" in head:
                    pages += 1
                if pages > 1:
                    in_the_middle.set()
                    break
                body = page if b"user-credentials" in head else b"{}"
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
            if pages > 1:
                t.own(connection)
                return

    threading.Thread(target=serve, daemon=True).start()
    before = set(os.listdir(folder))
    target = os.path.join(folder, "users.csv")
    export = subprocess.Popen([t.suite.program, "user", "export", target, "--with-hashes", "--config", config],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    middle = in_the_middle.wait(patience(20))
    inodes = [os.readlink(f"/proc/{export.pid}/fd/{number}") for number in os.listdir(f"/proc/{export.pid}/fd")] if middle else []
    names = set(os.listdir(folder)) - before
    export.kill()
    _, said = export.communicate()
    listener.close()
    check(middle, f"control: the export asked for no second page: {said.decode()}")
    check(any(folder in place for place in inodes), f"control: no file is open: {inodes}")
    left = set(os.listdir(folder)) - before
    check(not names, f"while the export runs, there is {names}")
    check(not left, f"the killed export leaves {left}")
    return "kill -9 in the middle of an export with hashes leaves no file"
