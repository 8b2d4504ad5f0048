"""T37: users whose passwords are in a database, or behind an HTTP server."""

import hashlib
import hmac
import http.server
import json
import re
import sqlite3
import threading
import time

from daemon import Daemon, QuietServer
from machine import patience
from sip import answer_challenge, credentials, fresh
from suite import check, probe

SECRET = "hook-PLANTED"


class Hook:
    """An HTTP server that is a source of users. The function `answer` gets the request, and returns status, body and
    further header fields, or waits."""

    def __init__(self):
        hook = self
        self.questions = []
        self.known = {}
        self.answer = self.usual

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                question = json.loads(body)
                hook.questions.append((question, dict(self.headers), body))
                status, text, fields = hook.answer(question)
                try:
                    self.send_response(status)
                    for name, value in fields:
                        self.send_header(name, value)
                    self.send_header("Content-Length", str(len(text)))
                    self.end_headers()
                    self.wfile.write(text.encode())
                except OSError:
                    pass

            def log_message(self, *arguments):
                pass

        self.server = QuietServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/users"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def usual(self, question):
        password = self.known.get(question["user"])
        if password is None:
            return 404, "{}", []
        ha1 = hashlib.md5(f"{question['user']}:{question['realm']}:{password}".encode()).hexdigest()
        return 200, json.dumps({"ha1": ha1, "username": question["user"]}), []

    def add(self):
        name, password = fresh("far"), fresh("pw-PLANTED-")
        self.known[name] = password
        return name, password

    def asked(self, name):
        return sum(1 for question, _, _ in self.questions if question["user"] == name)

    def close(self):
        self.server.shutdown()


def with_hook(t, name):
    """Makes a daemon whose source of users is an HTTP server (a hook)."""
    t.needs("users.order", "users.sources.pbx.url")
    hook = t.own(Hook())
    daemon = Daemon(name, t.suite, {})
    secret = f"{daemon.folder}/secret"
    with open(secret, "w") as file:
        file.write(SECRET + "\n")
    daemon.values = {"users": {"order": "[pbx]", "sources": {"pbx": {"url": hook.url, "secret-file": secret}}},
                     "limits": {"registers-per-source": 0, "queueing": "0s"}}
    t.daemon = t.suite.daemons[name] = daemon
    daemon.start()
    return hook


def register(phone, name, password, owner=None):
    """Registers, and returns the response to the REGISTER with the password, and how long it took."""
    owner = owner or name
    request = phone.make("REGISTER", "sip:example.net", owner, to=f"sip:{owner}@example.net")
    request.add("Expires", "600")
    challenge = phone.exchange(request)
    check(challenge and challenge.status == 401, f"control: {challenge}")
    again = request.renewed()
    again.add(*credentials(challenge, name, password, "REGISTER", request.uri))
    begin = time.monotonic()
    answer = phone.exchange(again, 10)
    return answer, time.monotonic() - begin


@probe("T37.1", "hook-knows-the-user")
def hook_knows_the_user(t):
    hook = with_hook(t, "hooked")
    name, password = hook.add()
    phone = t.phone()
    for _ in range(5):
        phone.exchange(phone.make("REGISTER", "sip:example.net", name, to=f"sip:{name}@example.net"))
    check(not hook.questions, "the hook is asked before a password was shown")
    answer, _ = register(phone, name, password)
    check(answer and answer.status == 200, f"the user of the hook got {answer}")
    check(hook.asked(name) == 1, f"{hook.asked(name)} questions for one user")
    _, fields, body = hook.questions[0]
    sign = re.fullmatch(r"t=(\d+),v1=([0-9a-f]{64})", fields.get("sippushd-signature", ""))
    check(sign and abs(int(sign.group(1)) - time.time()) < 60, f"the signature is {fields}")
    code = hmac.new(SECRET.encode(), sign.group(1).encode() + b"." + body, hashlib.sha256).hexdigest()
    check(code == sign.group(2), "the signature is not of the body")
    for _ in range(3):
        answer, _ = register(phone, name, password)
        check(answer and answer.status == 200, f"the known user got {answer}")
    check(hook.asked(name) == 1, "a known user is asked for again")
    strange, _ = register(t.phone(), fresh("nobody"), "x")
    wrong, _ = register(t.phone(), name, "x")
    check(strange and wrong and strange.status == wrong.status == 401, f"an unknown user got {strange}, a wrong password {wrong}")
    other, theirs = hook.add()
    answer, _ = register(t.phone(), other, theirs, owner=name)
    check(answer and answer.status == 403, f"another's password registers: {answer}")
    check(SECRET not in t.daemon.log() and password not in t.daemon.log(), "a secret is in the log")
    return "one signed question for a user, none before a password, 401 alike for unknown and wrong, 403 for another's"


@probe("T37.2", "hook-that-hangs")
def hook_that_hangs(t):
    hook = with_hook(t, "hook-hanging")
    known, password = hook.add()
    answer, _ = register(t.phone(), known, password)
    check(answer and answer.status == 200, f"control: {answer}")
    end = threading.Event()

    def hangs(question):
        end.wait(60)
        return hook.usual(question)

    hook.answer = hangs
    try:
        new, its = hook.add()
        answer, took = register(t.phone(), new, its)
        check(answer and answer.status == 503 and answer.get("retry-after"), f"a user nobody knows got {answer}")
        check(took < patience(4), f"it took {took:.1f} s")
        answer, took = register(t.phone(), fresh("other"), "x")
        check(answer and answer.status == 503, f"the next one got {answer}")
        local, mine = t.daemon.user()
        answer, took = register(t.phone(), local, mine)
        check(answer and answer.status == 200, f"a user of the store got {answer}")
        answer, _ = register(t.phone(), known, password)
        check(answer and answer.status == 200, f"a known user got {answer}")
        check("a source of users does not answer" in t.daemon.log(), "the log says nothing")
    finally:
        end.set()
    limit = time.monotonic() + patience(30)
    status = None
    while status != 200 and time.monotonic() < limit:
        answer, _ = register(t.phone(), new, its)
        status = answer and answer.status
        check(status in (200, 503), f"while the hook comes back, a phone got {answer}")
        time.sleep(0.5)
    check(status == 200, "the hook answers again, and the phone does not register")
    return "unknown users get 503 with Retry-After within 2 s, known ones 200, and all 200 when the hook is back"


@probe("T37.3", "hook-that-lies")
def hook_that_lies(t):
    hook = with_hook(t, "lying")
    trap = t.own(Hook())
    trap.known["anybody"] = "x"
    lies = {
        "a page": lambda q: (200, "<html>Welcome</html>", []),
        "no secret": lambda q: (200, "{}", []),
        "a number": lambda q: (200, '{"ha1": 7}', []),
        "half a hash": lambda q: (200, '{"ha1": "0123"}', []),
        "ten megabytes": lambda q: (200, '{"ha1": "' + "0" * 10_000_000 + '"}', []),
        "another user": lambda q: (200, json.dumps({"password": "x", "username": "root"}), []),
        "an error": lambda q: (500, '{"password": "x"}', []),
        "a redirect": lambda q: (302, "", [("Location", trap.url)]),
        "not allowed": lambda q: (401, "", []),
        "an empty password": lambda q: (200, '{"password": ""}', []),
    }
    before = t.daemon.memory()
    for what, lie in lies.items():
        hook.answer = lie
        name = fresh("liar")
        answer, _ = register(t.phone(), name, "" if "empty" in what else "x")
        wanted = (401,) if what in ("another user", "an empty password") else (503,)
        check(answer and answer.status in (401, 503), f"{what}: {answer}")
        # While the source is away, even an unknown user gets 503.
        check(answer.status in wanted or answer.status == 503, f"{what}: {answer}")
        time.sleep(1.2)
    check(not trap.questions, "the redirect was followed")
    check(t.daemon.memory() < before + 30_000, "the answers stay in memory")
    check(t.daemon.alive(), "the daemon ended")
    return f"{len(lies)} wrong answers: nobody is let in, and nobody gets 403"


@probe("T37.4", "database-and-names")
def database_and_names(t):
    t.needs("users.order", "users.sources.pbx.database")
    daemon = Daemon("tabled", t.suite, {})
    path = f"{daemon.folder}/users.db"
    name, password = fresh("table"), fresh("pw-PLANTED-")
    base = sqlite3.connect(path)
    base.execute("CREATE TABLE subscriber (username, domain, ha1, password)")
    ha1 = hashlib.md5(f"{name}:example.net:{password}".encode()).hexdigest()
    base.execute("INSERT INTO subscriber VALUES (?, 'example.net', ?, '')", (name, ha1))
    base.commit()
    daemon.values = {"users": {"order": "[pbx]", "sources": {"pbx": {
        "database": f"sqlite:{path}", "query": "kamailio-subscriber"}}},
        "limits": {"registers-per-source": 0, "wrong-logins-per-source": 0, "queueing": "0s"}}
    t.daemon = t.suite.daemons["tabled"] = daemon
    daemon.start()
    phone = t.phone()
    answer, _ = register(phone, name, password)
    check(answer and answer.status == 200, f"the user of the table got {answer}")
    names = ["'; DROP TABLE subscriber; --", "' OR '1'='1", "%", "x" * 300, "\\'"]
    for one in names:
        answer, _ = register(t.phone(), one, "x", owner=name)
        check(answer and answer.status in (401, 403), f"{one}: {answer}")
    rows = base.execute("SELECT count(*) FROM subscriber").fetchone()
    check(rows == (1,), f"the table has {rows}")
    flood = t.phone()
    for number in range(300):
        register(flood, f"flood{number}", "x")
    answer, _ = register(phone, name, password)
    check(answer and answer.status == 200, f"after a flood of names, the known user got {answer}")
    # A new user of the database can register at once.
    other, theirs = fresh("table"), fresh("pw-PLANTED-")
    base.execute("INSERT INTO subscriber VALUES (?, 'example.net', '', ?)", (other, theirs))
    base.commit()
    answer, _ = register(t.phone(), other, theirs)
    check(answer and answer.status == 200, f"a new row got {answer}")
    report = daemon.command("doctor").stdout
    check("users.sources.pbx answers" in report, f"doctor says nothing of the source: {report}")
    return f"{len(names)} names with SQL do nothing, 300 unknown names push nobody out, new rows count at once"
