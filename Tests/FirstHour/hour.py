"""Runs the commands of docs/First-hour.md unchanged, and then causes sixteen faults. etc/first-hour starts this program
in separate namespaces."""

import os
import re
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "Trust"))
sys.dont_write_bytecode = True

import faults  # noqa: E402
import tables  # noqa: E402
from people import Exchange, Linphone, register, sipp_call  # noqa: E402
from place import LOG, PHONES, STORE, Place, await_, run  # noqa: E402

APPLE = ";pn-provider=apns;pn-param=DEF123GHIJ.com.example.phone.voip;pn-prid="
GOOGLE = ";pn-provider=fcm;pn-param=example-phone;pn-prid="


def blocks(page, heading, language="sh"):
    """The code blocks under the given heading of a document."""
    with open(f"docs/{page}.md", encoding="utf-8") as file:
        text = file.read()
    section = re.search(rf"^## {re.escape(heading)}\n(.*?)(?=^## |\Z)", text, re.M | re.S).group(1)
    return re.findall(rf"^```{language}\n(.*?)^```$", section, re.M | re.S)


def commands(page, heading):
    """The commands in the given code blocks, one on each line."""
    text = "".join(blocks(page, heading)).replace("\\\n", " ")
    return [re.sub(r"  +# .*", "", line) for line in text.splitlines()]


def table(page, heading):
    """The rows of the table under a heading, without its head, as lists of cells."""
    with open(f"docs/{page}.md", encoding="utf-8") as file:
        section = re.search(rf"^## {re.escape(heading)}\n(.*?)(?=^## |\Z)", file.read(), re.M | re.S).group(1)
    rows = [line.strip().strip("|") for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", row)] for row in rows[2:]]


class Hour:
    def __init__(self, folder):
        self.place = Place(folder)
        self.passed, self.failed = 0, 0
        self.tokens = {}

    # --- counting results

    def expect(self, what, function, *arguments):
        start = time.monotonic()
        try:
            function(*arguments)
        except Exception as error:
            self.failed += 1
            print(f"FAIL {what}")
            text = str(error) if isinstance(error, AssertionError) else f"{type(error).__name__}: {error}"
            lines = text.splitlines()
            print("\n".join("     " + line for line in (lines if len(lines) < 40 else lines[:20] + ["..."] + lines[-20:])), flush=True)
            return False
        self.passed += 1
        print(f"ok   {what} [{time.monotonic() - start:.1f} s]", flush=True)
        return True

    # --- questions of an operator

    def ask(self, tool, clock=None):
        """The output of a command, or the log since the last `clear_log`."""
        if tool == "log":
            return self.place.read(LOG) if os.path.exists(self.place.path(LOG)) else ""
        if tool.startswith("page "):
            return self.page(tool.removeprefix("page "))
        line = f"sippushd {tool}" + (" --ca ca.pem" if tool in ("doctor", "cert check") else "")
        return self.place.inside(line, clock).stdout

    def page(self, name):
        """The texts that the operators' web page shows for a name."""
        script = os.path.join(os.path.dirname(os.path.realpath(__file__)), "page.py")
        words = [*self.place.server, sys.executable, "-B", script, "127.0.0.1:8089", self.page_key, name]
        return subprocess.run(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120).stdout

    def clear_log(self):
        if os.path.exists(self.place.path(LOG)):
            self.place.write(LOG, "")

    def complaints(self, tool, text):
        """The lines that an operator would take for a fault."""
        return [line for line in text.splitlines() if is_complaint(tool, line)]

    def check_health(self):
        """Expects that doctor reports only facts about this machine, and that the log has no complaint."""
        for tool in ("doctor", "log"):
            text = self.ask(tool)
            if tool == "doctor" and "ok " not in text:
                raise AssertionError(text)
            found = self.complaints(tool, text)
            if found:
                raise AssertionError(f"{tool} says:\n" + "\n".join(found))

    # --- users and phones

    def user(self, name):
        """Makes a new user, for whom no call was recorded."""
        self.place.do(f"echo a-secret-of-{name} | sippushd user add {name} --password-stdin")
        return f"a-secret-of-{name}"

    def iphone(self, name, password=None, **options):
        """Makes a user whose iPhone has registered and sleeps."""
        password = password or self.user(name)
        return register(PHONES[0], name, password, APPLE + self.apple_token(name) + ":voip", **options)

    def android(self, name, password=None, **options):
        password = password or self.user(name)
        return register(PHONES[1], name, password, GOOGLE + f"{name}-token", **options)

    def apple_token(self, name):
        return self.tokens.setdefault(name, f"{len(self.tokens) + 1:064x}")

    # --- the steps of the first hour

    @staticmethod
    def commands(page, heading):
        return commands(page, heading)

    def type(self, heading):
        for line in commands("First-hour", heading):
            print(f"$ {line}", flush=True)
            result = self.place.inside(line)
            # doctor's exit status is 1 for notes about this machine.
            if result.returncode and not (line.startswith("sippushd doctor") and result.returncode == 1):
                raise AssertionError(f"$ {line}\n{result.stdout}")

    def install(self):
        self.type("Install the package")
        # A disk whose size can be changed.
        run("mount", "-t", "tmpfs", "-o", "size=4g,mode=0755", "tmpfs", self.place.path(STORE))

    def configure(self):
        self.type("Write the settings and start")

    def import_users(self):
        self.place.write("/root/users.csv", blocks("First-hour", "Add the users", "csv")[0])
        self.type("Add the users")

    def linphone_registers(self):
        self.linphone = Linphone(self.place, "bob", "a-secret-of-bob")
        assert blocks("First-hour", "Register a phone", "ini")[0].strip() in self.linphone.settings.format(), "the page has another line"
        self.linphone.start()
        self.linphone.registered()
        shown = self.place.do(commands("First-hour", "Register a phone")[0])
        assert re.search(r"fcm", shown), shown
        self.linphone.kill()

    def call_wakes(self):
        before = len(self.place.pushes("bob-token"))
        call = sipp_call("bob")
        try:
            await_(lambda: len(self.place.pushes("bob-token")) > before, 15)
            self.linphone.start()
            assert call.wait(60) == 0, f"the call failed\n{self.ask('log')}\n{self.ask('explain bob')}"
        finally:
            call.kill()
            self.linphone.kill()

    def explains(self):
        lines = commands("First-hour", "Call the phone")
        explained, tested, listed = [self.place.do(line) for line in lines]
        for text, pattern in ((explained, "the provider accepted the push"), (explained, "answered"), (tested, "accepted"), (listed, "fcm")):
            assert re.search(pattern, text), text
        assert "=>" not in explained, explained

    def opens_page(self):
        """The commands that open the web page, and the page with the call of the previous step."""
        for line in commands("First-hour", "Open the web page"):
            shown = self.place.do(line)
        self.page_key = re.search(r"spd_[\w-]+", shown).group()
        shown = self.page("bob")
        assert re.search(r"^provider fcm ok: ", shown, re.M) and "answered" in shown, shown

    def init_offers_all(self):
        """A second configuration, with every provider. The service's user can read every file that it names."""
        for line in commands("Providers", "Web Push"):
            self.place.do(line)
        written = "/etc/sippushd/all.yaml"
        self.place.do(f"sippushd init --config {written} --domain example.net --apns-topic com.example.phone --apns-team DEF123GHIJ "
                      "--apns-key-id ABC123DEFG --apns-key /etc/sippushd/AuthKey_ABC123DEFG.p8 --fcm-account /etc/sippushd/firebase.json "
                      "--webpush-key /etc/sippushd/vapid.pem --webpush-contact mailto:push@example.net --acrobits "
                      "--http-app broker --http-url 'https://push.example.net/wake/{{token}}'")
        try:
            text = self.place.do(f"sippushd check-config --as-service --config {written}")
            assert "all.yaml is fine" in text and "WRONG" not in text, text
            found = self.place.read(written)
            missing = [name for name in ("apns", "fcm", "webpush", "acrobits", "http") if f"    {name}:\n        enabled: true" not in found]
            assert not missing, f"{missing}\n{found}"
        finally:
            os.unlink(self.place.path(written))

    def play(self, chosen):
        try:
            print("seed 1", flush=True)
            story = [
                ("docs/First-hour.md: the package", self.install),
                ("a certificate of an authority of one's own", lambda: self.type("Get a certificate")),
                ("keys of two providers", lambda: self.type("Give the daemon its keys")),
            ]
            good = all(self.expect(*step) for step in story)
            self.pbx = Exchange()
            story = [
                ("settings by init, and the start", self.configure),
                ("users from a file", self.import_users),
                ("doctor finds no fault", lambda: self.type("Examine the installation")),
                ("Linphone registers over TLS", self.linphone_registers),
                ("a call wakes it by a push, and it answers", self.call_wakes),
                ("explain, push test and provider list", self.explains),
                ("the web page shows the providers and the call", self.opens_page),
                ("init offers every kind of provider, and check-config finds no mistake", self.init_offers_all),
                ("nothing complains", self.check_health),
            ]
            good = good and all(self.expect(*step) for step in story)
            if good:
                if not chosen or "tables" in chosen:
                    tables.play(self)
                faults.play(self, chosen, {row[0]: row for row in table("Troubleshooting", "Sixteen faults")})
        finally:
            self.place.stop()
        print(f"{self.passed} passed, {self.failed} failed")
        return self.failed == 0


# Facts about the test's machine that are no faults of the daemon.
MACHINE = re.compile(r"note +(kernel|descriptors|disk +/var/lib/sippushd: \d+ small writes)")


def is_complaint(tool, line):
    if tool == "doctor":
        return not line.startswith("ok ") and not MACHINE.match(line) and bool(line.strip())
    if tool == "log":
        return bool(re.search(r"^\S+ (warning|error) |refused|call ended|^sippushd: ", line)) and "file descriptors" not in line
    if tool.startswith("explain"):
        return "=>" in line
    return False


sys.exit(0 if Hour(sys.argv[1]).play(sys.argv[2:]) else 1)
