"""The scene of etc/page: a daemon, a PBX, a phone and an operator with a browser. The steps are in operator_steps.py and
attacks.py."""

import json
import os
import sys
import time
import traceback

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "Trust"))
sys.dont_write_bytecode = True

from browser import Browser, BrowserProblem, program  # noqa: E402
from daemon import Daemon  # noqa: E402
from machine import patience  # noqa: E402
from sip import Dialog, Phone, fresh  # noqa: E402
from suite import Suite  # noqa: E402

# Texts that a careless page would run as a script, or that change the reading direction.
EVIL_AGENT = "<img src=x onerror=window.evil=1> \u202egnp.exe"
EVIL_CALL = "\"><script>window.evil(1)</script>'{}"

STEPS = []


class Failed(Exception):
    """The page or the daemon did not do what the step expects."""


def step(text):
    """Registers a step; steps run in the order of their registration."""

    def add(function):
        STEPS.append((text, function))
        return function

    return add


def check(truth, text):
    if not truth:
        raise Failed(text)


def until(condition, text, timeout=10.0):
    """Waits until the condition is true, and returns its value."""
    limit = time.monotonic() + patience(timeout)
    while True:
        value = condition()
        if value:
            return value
        check(time.monotonic() < limit, f"not in time: {text}")
        time.sleep(0.02)


def quoted(text):
    return json.dumps(text)


class Story:
    def __init__(self, binaries, folder, settings=None):
        self.suite = Suite(os.path.join(binaries, "sippushd"), folder, {})
        self.folder = folder
        values = {"call": {"ring-timeout": "30s"}, "log": {"level": "info"}}
        self.daemon = Daemon("page", self.suite, {**values, **(settings or {})})
        self.browser, self.tab = None, None
        self.closing = []
        self.passed, self.failed = 0, 0
        self.keys, self.people = {}, {}
        # Loads that a step itself made fail, as pairs of status and a part of the address.
        self.expected = []

    def start(self, browser=True):
        self.daemon.start()
        self.url = f"http://{self.daemon.host}:{self.daemon.admin_port}"
        self.keys["operator"] = self.key("operator", "admin")
        if browser:
            self.browser = Browser(program())
            self.tab = self.browser.tab()

    def stop(self):
        for thing in self.closing:
            try:
                thing.close()
            except OSError:
                pass
        if self.browser:
            self.browser.close()
        self.daemon.stop()

    def key(self, name, scope):
        answer = self.daemon.command("apikey", "add", name, "--scope", scope)
        check(answer.returncode == 0 and "spd_" in answer.stdout, f"no key for {name}: {answer.stderr}")
        return answer.stdout.strip().splitlines()[-1]

    # MARK: Phones and calls

    def own(self, thing):
        self.closing.append(thing)
        return thing

    def phone(self, name, agent="Phone 1.0"):
        """Registers a new user's phone, which needs a push for each call."""
        phone = self.own(Phone(self.suite.address(), self.daemon.address))
        phone.token = fresh("token-")
        phone.user, phone.password = self.daemon.user(name)
        phone.agent = agent
        self.people[name] = phone
        self.registers(phone)
        return phone

    def registers(self, phone):
        answer = phone.register(phone.user, phone.password, params=f";pn-provider=fcm;pn-param=p;pn-prid={phone.token}",
                                fields=[("User-Agent", phone.agent)])
        check(answer and answer.status == 200, f"the REGISTER of {phone.user} got {answer}")

    def call(self, name, caller="700", call_id=None):
        """A call from the PBX, held until the phone registers. Returns the PBX and the INVITE."""
        before = len(self.suite.provider.of(self.people[name].token))
        pbx = self.own(Phone(self.suite.address(trusted=True), self.daemon.address))
        invite = pbx.make("INVITE", f"sip:{name}@example.net", caller, call_id=call_id)
        pbx.send(invite)
        check(self.suite.provider.wait(self.people[name].token, before + 1), f"no push for the call to {name}")
        return pbx, invite

    def answered(self, name, pbx, invite):
        """The phone wakes up, registers and answers the call, which then ends."""
        phone = self.people[name]
        self.registers(phone)
        arrived = phone.request("INVITE", invite.call_id)
        check(arrived, f"no INVITE at the phone of {name}")
        phone.respond(arrived, 180, tag="a")
        check(pbx.take(lambda m: m.call_id == invite.call_id and m.status == 180), "no 180 at the PBX")
        phone.respond(arrived, 200, tag="a")
        answer = pbx.response(invite.call_id, "INVITE")
        check(answer and answer.status == 200, f"the PBX got {answer}")
        dialog = Dialog.of_caller(pbx, invite, answer)
        pbx.send(dialog.make("ACK", cseq=1))
        check(phone.request("ACK", invite.call_id), "no ACK at the phone")

    def given_up(self, pbx, invite):
        pbx.send(pbx.cancel(invite))
        answer = pbx.response(invite.call_id, "INVITE")
        check(answer and answer.status == 487, f"the cancelled call got {answer}")
        pbx.send(pbx.ack_failure(invite, answer))

    # MARK: The page

    def login(self, tab, key, route=""):
        # An address that differs only after # loads no document, so the tab leaves the page first.
        tab.go("about:blank")
        tab.go(f"{self.url}/{route}")
        tab.wait("!document.getElementById('login').hidden || !document.getElementById('views').hidden")
        if tab.run("!document.getElementById('views').hidden"):
            self.logout(tab)
        tab.fill("#key", key)
        tab.press("Enter")
        tab.wait("!document.getElementById('views').hidden", text="the views after the login")

    def logout(self, tab):
        tab.click("#logout")
        tab.wait("!document.getElementById('login').hidden", text="the login form after the logout")

    def show(self, route, tab=None):
        (tab or self.tab).run(f"location.hash = {quoted('#' + route)}")

    def http(self, method, path, **fields):
        """A request without a browser. Returns status, body and fields of the answer."""
        return self.daemon.http(method, path, None, {name.replace("_", "-"): value for name, value in fields.items()})

    def allow(self, status, part):
        """A step expects a load with the given status, whose line in the console is then no error."""
        self.expected.append((str(status), part))

    def errors(self, tab):
        """The errors of the browser's log, without the loads that a step expects to fail."""
        own = [one for one in tab.take_errors() if one[0] != "network" or one[2].startswith(self.url)]
        return [one for one in own if not (one[0] == "network" and any(f"status of {status} " in one[1] and part in one[2] for status, part in self.expected))]

    # MARK: Counting

    def tell(self, text, function):
        try:
            function(self)
        except (Failed, BrowserProblem) as problem:
            reason = str(problem)
        except Exception as error:
            place = traceback.extract_tb(error.__traceback__)[-1]
            reason = f"{type(error).__name__}: {error} ({os.path.basename(place.filename)}:{place.lineno})"
        else:
            self.passed += 1
            print(f"ok     {text}", flush=True)
            return
        self.failed += 1
        print(f"FAILED {text}: {' '.join(reason.split())}", flush=True)
        if self.tab:
            try:
                self.tab.picture(os.path.join(self.folder, f"failed-{self.failed}.png"))
            except BrowserProblem:
                pass

    def run(self):
        for text, function in STEPS:
            self.tell(text, function)
        if not self.daemon.alive():
            self.failed += 1
            print("FAILED the daemon ended")
        print(f"{self.passed} passed, {self.failed} failed")
        return self.failed == 0
