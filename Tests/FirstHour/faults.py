"""The sixteen faults of the first hour. Each fault breaks one part of the setup, asks the questions of an operator, and repairs
the part."""

import http.client
import os
import re
import sqlite3
import subprocess
import time

from people import Exchange, Linphone, dial
from place import DAEMON, PHONES, PROVIDERS, STORE, await_, clock_words, run

SETTINGS = "/etc/sippushd/sippushd.yaml"
KEY = "/etc/sippushd/AuthKey_ABC123DEFG.p8"
CLOCK = "/etc/systemd/system/sippushd.service.d/clock.conf"
CERTIFICATE, CERTIFICATE_KEY = "/etc/sippushd/cert.pem", "/etc/sippushd/key.pem"
# The time in which a tool must report a fault. The longest time for which the test waits for a log line.
PATIENCE, LOG_PATIENCE, PAGE_PATIENCE = 120, 40, 60
# The number of faults that the web page alone shows.
PAGE_AIM = 12

FAULTS = []


def fault(name):
    def add(function):
        FAULTS.append((name, function))
        return function

    return add


class Case:
    """A fault, which compares the answers of the tools before the fault with their answers during the fault."""

    def __init__(self, hour, name):
        self.hour, self.place, self.name = hour, hour.place, name
        self.before, self.outputs, self.findings, self.consequences = {}, {}, [], []
        self.clock = None
        self.asked = set()

    def do(self, line):
        return self.place.do(line, self.clock)

    def watch(self, *tools):
        """Asks the questions before the fault."""
        self.hour.clear_log()
        self.before = {tool: self.hour.ask(tool) for tool in tools}

    def allow(self, *patterns):
        """Complaints that the fault itself causes."""
        self.consequences += patterns

    def found(self, tool, pattern, *also):
        """Expects that the command's output names the cause only during the fault, and has no further complaint. The answer must
        also have the lines `also`."""
        old = self.before[tool]
        wanted = [pattern, *also]
        self.asked.add(tool)
        for one in wanted:
            assert not re.search(one, old, re.M), f"{tool} said it before the fault: {one}"
        start = time.monotonic()
        while True:
            text = self.hour.ask(tool, self.clock)
            missing = [one for one in wanted if not re.search(one, text, re.M)]
            # Log lines and the web page change by themselves, so the test waits for them. A command is run only once.
            limit = LOG_PATIENCE if tool == "log" else PAGE_PATIENCE if tool.startswith("page ") else 0
            if not missing or time.monotonic() - start > limit:
                break
            time.sleep(0.2)
        seconds = time.monotonic() - start
        assert not missing, f"{tool} does not say: {missing}\n{text}"
        assert seconds < PATIENCE, f"{tool} took {seconds:.0f} s"
        self.check_misleading(tool, text, wanted)
        line = next(line for line in text.splitlines() if re.search(pattern, line)).strip()
        self.outputs[tool.split()[0]] = text
        self.findings.append((tool, seconds, line))

    def check_misleading(self, tool, text, wanted=()):
        known = set(self.before[tool].splitlines())
        for line in self.hour.complaints(tool, text):
            if line not in known and not any(re.search(one, line) for one in (*wanted, *self.consequences)):
                raise AssertionError(f"{tool} misleads: {line}")

    def check_others(self):
        """Expects that the tools that do not name the fault report no other fault."""
        for tool in self.before:
            if tool not in self.asked:
                self.check_misleading(tool, self.hour.ask(tool, self.clock))

    def edit(self, old, new):
        text = self.place.read(SETTINGS)
        assert re.search(old, text), f"the settings have no {old}"
        self.place.write(SETTINGS, re.sub(old, new, text))

    def reload(self):
        """Reloads the settings, and waits until the daemon has read them, because the daemon reads them a moment after the
        command has ended."""
        count = self.hour.ask("log").count("settings reloaded")
        self.do("systemctl reload sippushd")
        await_(lambda: self.hour.ask("log").count("settings reloaded") > count, 20)

    def restart(self):
        self.do("systemctl restart sippushd")

    def certificate(self, names, days, clock=None):
        """Issues a new certificate of the operator's certificate authority."""
        self.place.do("openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=sip.example.net -CA ca.pem "
                      f"-CAkey ca-key.pem -days {days} -addext subjectAltName={names} -addext basicConstraints=critical,CA:FALSE "
                      f"-keyout {CERTIFICATE_KEY} -out {CERTIFICATE}", clock)

    def check_table(self, row):
        """Expects that docs/Troubleshooting.md has a row with this fault, this question and this line."""
        tool = re.search(r"sippushd (\w+)", row[1]).group(1) if "sippushd" in row[1] else "log"
        words = re.search(r"`(.*)`", row[2]).group(1)
        pattern = ".*".join(re.escape(part) for part in words.split("…"))
        pattern = re.sub(r"(\\ )+", " +", pattern)
        assert tool in self.outputs, f"the table asks {tool}"
        assert re.search(pattern, self.outputs[tool], re.M), f"docs/Troubleshooting.md has another line: {words}"


def play(hour, chosen, rows):
    cases = []
    for name, function in FAULTS:
        if chosen and not any(name.startswith(word) for word in chosen):
            continue
        case = Case(hour, name)
        cases.append(case)

        def run_case():
            repair = function(case)
            try:
                next(repair)
                assert name in rows, "docs/Troubleshooting.md has no such row"
                case.check_table(rows[name])
                case.check_others()
            finally:
                next(repair, None)

        def is_healthy():
            hour.clear_log()
            hour.check_health()

        hour.expect(name, run_case)
        hour.expect(f"{name}: nothing complains after the repair", is_healthy)
    shown = [case.name for case in cases if any(tool.startswith("page ") for tool, *_ in case.findings)]
    if not chosen:
        hour.expect(f"the web page alone shows {PAGE_AIM} of the faults", lambda: check_page(shown))
    print(f"\n{'fault':<28}{'asked':<20}{'after':>6}  line")
    for case in cases:
        for number, (tool, seconds, line) in enumerate(case.findings):
            print(f"{case.name if number == 0 else '':<28}{tool:<20}{seconds:>4.1f} s  {line[:300]}")
    print()


def check_page(shown):
    assert len(shown) >= PAGE_AIM, f"the page shows only {shown}"


# --- providers


@fault("wrong key")
def wrong_key(case):
    case.hour.iphone("anna")
    case.watch("doctor", "explain anna", "provider list", "log", "page anna")
    good = case.place.read(KEY)
    case.do(f"openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out other.p8 && cat other.p8 >{KEY}")
    try:
        case.reload()
        case.hour.pbx.call("anna")
        case.allow(r"call ended .*code=HF", r"provider apns\.dev .*InvalidProviderToken")
        case.found("doctor", r"^WRONG +provider +apns +it refuses the credentials: InvalidProviderToken.* => key-id, team-id and key-file must")
        case.found("explain anna", r"=> Check push\.apns\.key-id, team-id and key-file: they must belong together")
        case.found("provider list", r"credentials refused +since .*InvalidProviderToken")
        case.found("log", r"provider does not accept our credentials .*InvalidProviderToken")
        case.found("page anna", r"^provider apns\b.*InvalidProviderToken", r"=> .*key-id")
        yield
    finally:
        case.place.write(KEY, good)
        case.reload()


@fault("wrong topic")
def wrong_topic(case):
    password = case.hour.user("berta")
    case.watch("doctor", "explain berta", "provider list", "log", "page berta")
    case.edit(r"topics: \[com\.example\.phone\]", "topics: [com.example.telephone]")
    try:
        case.restart()
        answer = case.hour.iphone("berta", password)
        assert answer.status == 555, answer
        case.allow("the daemon sends no pushes to some stored contacts", "a trial of an app's credentials failed: the provider does not accept our credentials",
                   r"provider apns\.dev .*TopicDisallowed")
        case.found("doctor", r"^WRONG +provider +apns +it refuses the credentials: TopicDisallowed.* => .*topics")
        case.found("log", r"REGISTER refused aor=berta@example\.net .*status=555 reason=\"pn-param names a topic that is not served here",
                   r"advice=\"add the topic to push\.apns\.topics")
        case.found("explain berta", r"=> .*add the topic to push\.apns\.topics")
        case.found("page berta", r"=> .*add the topic to push\.apns\.topics")
        yield
    finally:
        case.edit(r"topics: \[com\.example\.telephone\]", "topics: [com.example.phone]")
        case.restart()


@fault("provider not in DNS")
def provider_not_in_dns(case):
    case.hour.iphone("carl")
    case.watch("doctor", "explain carl", "provider list", "log", "page carl")
    address = case.place.names.pop("api.push.apple.com")
    try:
        # The daemon needs the host name only for a new connection, so the test restarts the daemon, which ends the open connection.
        case.restart()
        case.hour.pbx.call("carl")
        case.allow(r"call ended .*code=H", "a request to the push provider got no answer",
                   "push provider cannot be reached", "a trial of an app's credentials failed: the provider was not reached", "push failed")
        case.found("doctor", r"^WRONG +provider +apns +it was not reached: .*api\.push\.apple\.com.*DNS has no such name.* => Ask DNS")
        case.found("explain carl", r"the provider was not reached: .*api\.push\.apple\.com", r"=> .*DNS")
        case.found("provider list", r"the provider fails +since .*api\.push\.apple\.com.*DNS has no such name")
        case.found("log", r"the provider was not reached .*api\.push\.apple\.com")
        case.found("page carl", r"^provider apns\b.*api\.push\.apple\.com.*DNS has no such name", r"=> .*DNS")
        yield
    finally:
        case.place.names["api.push.apple.com"] = address
        case.restart()


# --- the machine


@fault("full disk")
def full_disk(case):
    password = case.hour.user("dora")
    case.watch("doctor", "explain dora", "log", "page dora")
    reader = fill_disk(case.place.path(STORE))
    try:
        answer = case.hour.android("dora", password)
        assert answer.status == 503, answer
        case.allow(r"call journal cannot be written", "the store refused changes", r"disk +/var/lib/sippushd: 0 MiB",
                   r"daemon +it is not ready: .*disk is full")
        case.found("doctor", r"^WRONG +disk +/var/lib/sippushd cannot be written: No space left on device => Free some room")
        case.found("log", r"the store cannot be written .*(disk is full|No space)", r"REGISTER refused .*dora.*status=503")
        case.found("explain dora", r"the disk is full", r"=> .*503")
        case.found("page dora", r"^store: .*", r"=> .*503")
        yield
    finally:
        reader.close()
        run("mount", "-o", "remount,size=4g", case.place.path(STORE))
        await_(lambda: "the store can be written again" in case.hour.ask("log"), 20)


def fill_disk(place):
    """Leaves no room on the disk of the store, and returns an open reader of the store.

    Without the reader, SQLite could copy its log into the database, and write the log again from its beginning. The daemon then
    works for a while although the disk is full."""
    reader = sqlite3.connect(f"file:{place}/sippushd.db?mode=ro", uri=True, isolation_level=None)
    reader.execute("BEGIN")
    reader.execute("SELECT count(*) FROM sqlite_schema").fetchone()

    def no_room():
        disk = os.statvfs(place)
        size = (disk.f_blocks - disk.f_bfree) * disk.f_frsize
        # The kernel refuses a size that is smaller than the files, which the daemon may have made longer since the question.
        return subprocess.run(["mount", "-o", f"remount,size={size}", place], capture_output=True).returncode == 0

    await_(no_room, 10)
    return reader


@fault("clock a day off")
def clock_a_day_off(case):
    for clock, name in (("-1d", "emil"), ("+1d", "egon")):
        case.hour.iphone(name)
        case.watch("doctor", f"explain {name}", "provider list", "log", f"page {name}")
        case.do("systemctl stop sippushd && mkdir -p /etc/systemd/system/sippushd.service.d")
        case.place.write(CLOCK, f"[Service]\nEnvironment={' '.join(clock_words(clock))}\n")
        try:
            case.do("systemctl start sippushd")
            case.clock = clock
            case.hour.pbx.call(name)
            side = "behind" if clock == "-1d" else "ahead"
            case.allow(r"call ended .*code=HF", r"certificates .*not valid before .* => Check this machine's clock", r"provider .*clock",
                       r"Google issued no access token .*clock")
            case.found("doctor", rf"^WRONG +clock +it is 86\d\d\d s {side}.* => Set the clock")
            case.found(f"explain {name}", r"=> Set this machine's clock")
            case.found("provider list", r"clock")
            case.found(f"page {name}", r"=> Set this machine's clock")
            case.found("log", r"provider does not accept our credentials .*clock")
            if clock == "+1d":
                yield
        finally:
            case.clock = None
            case.do(f"systemctl stop sippushd; rm {CLOCK}; systemctl start sippushd")


@fault("port taken")
def port_taken(case):
    case.watch("doctor", "log")
    case.do("systemctl stop sippushd")
    # The answer must contain the name of the program that uses the port.
    program = os.path.join(case.place.folder, "asterisk")
    if not os.path.exists(program):
        run("cp", os.path.realpath("/usr/bin/python3"), program)
    other = case.place.start(
        [*case.place.server, program, "-c", "import socket, time; s = socket.socket(type=socket.SOCK_DGRAM); "
         f"s.bind(('{DAEMON}', 5060)); print('bound', flush=True); time.sleep(600)"], "other.out")
    try:
        await_(lambda: "bound" in open(os.path.join(case.place.folder, "other.out")).read(), 10)
        result = case.place.inside("systemctl start sippushd")
        assert result.returncode, "the daemon started"
        case.allow(r"note +daemon +no daemon answers", r"note +files +control: /run/sippushd")
        case.found("doctor", r"^WRONG +ports +udp:0\.0\.0\.0:5060: asterisk \(process \d+\) listens there => End that program")
        case.found("log", r"udp:0\.0\.0\.0:5060.*asterisk|0\.0\.0\.0:5060.*(in use|listens)")
        yield
    finally:
        other.kill()
        other.wait()
        case.do("systemctl start sippushd")


# --- phones


@fault("wrong password")
def wrong_password(case):
    case.hour.user("fred")
    case.watch("doctor", "explain fred", "log", "page fred")
    phone = Linphone(case.place, "fred", "a-wrong-password")
    try:
        phone.start()
        phone.failed()
        case.found("log", r"REGISTER refused .*fred.*wrong (user or )?password")
        case.found("explain fred", r"the phone showed a wrong .*password", r"=> Set a password with sippushd user passwd")
        case.found("page fred", r"the phone showed a wrong .*password.*=> Set a password with sippushd user passwd")
        yield
    finally:
        phone.kill()


@fault("expired certificate")
def expired_certificate(case):
    password = case.hour.user("gustav")
    case.watch("doctor", "cert check", "log")
    good = [case.place.read(path) for path in (CERTIFICATE, CERTIFICATE_KEY)]
    case.certificate("DNS:sip.example.net,DNS:example.net", 30, "-60d")
    phone = Linphone(case.place, "gustav", password)
    try:
        case.reload()
        phone.start()
        phone.failed()
        case.allow(r"certificates +.*expired", r"configuration +.*expired")
        case.found("doctor", r"^WRONG +certificates +/etc/sippushd/cert\.pem: it expired on .* => Renew the certificate")
        case.found("cert check", r"cert\.pem: it expired on")
        case.found("log", r"a certificate has expired .*cert\.pem")
        yield
    finally:
        phone.kill()
        for path, text in zip((CERTIFICATE, CERTIFICATE_KEY), good):
            case.place.write(path, text)
        case.reload()


@fault("certificate without the name")
def certificate_without_the_name(case):
    password = case.hour.user("hans")
    case.watch("doctor", "cert check", "log")
    good = [case.place.read(path) for path in (CERTIFICATE, CERTIFICATE_KEY)]
    case.certificate("DNS:www.example.org", 30)
    phone = Linphone(case.place, "hans", password)
    try:
        case.reload()
        phone.start()
        phone.failed()
        case.found("doctor", r"^WRONG +certificates +example\.net: no certificate covers this name.* => Order a certificate with this name")
        case.found("cert check", r"example\.net: no certificate covers this name")
        yield
    finally:
        phone.kill()
        for path, text in zip((CERTIFICATE, CERTIFICATE_KEY), good):
            case.place.write(path, text)
        case.reload()


@fault("phone that never wakes")
def phone_that_never_wakes(case):
    case.hour.android("ida")
    case.watch("doctor", "explain ida", "log", "page ida")
    answer = case.hour.pbx.call("ida")
    assert answer.status == 480, answer
    case.found("explain ida", r"=> The phone did not register within \d+ \w although the provider accepted the push")
    case.found("page ida", r"=> The phone did not register within \d+ \w although the provider accepted the push")
    case.found("log", r"call ended aor=ida@example\.net .*code=HANT .*no phone came in time")
    yield


@fault("dead token")
def dead_token(case):
    case.hour.android("jana")
    case.watch("doctor", "explain jana", "log", "page jana")
    sandbox = http.client.HTTPConnection(PROVIDERS, 80, timeout=10)
    sandbox.request("PUT", "/sandbox/tokens/jana-token", '{"status": 410}')
    assert sandbox.getresponse().status < 300
    answer = case.hour.pbx.call("jana")
    assert answer.status == 480, answer
    case.found("explain jana", r"the provider says the token is dead", r"=> The provider no longer knows the app on that phone")
    case.found("page jana", r"=> The provider no longer knows the app on that phone")
    case.found("log", r"a contact was removed, because its push token is dead aor=jana@example\.net")
    yield


# --- the PBX


@fault("unknown user")
def unknown_user(case):
    case.watch("doctor", "explain karl", "log", "page karl")
    answer = case.hour.pbx.call("karl")
    assert answer.status == 404, answer
    case.found("explain karl", r"no user is called karl@example\.net, so the caller got 404", r"=> No user has that name\. Add the user with sippushd user add")
    case.found("page karl", r"=> No user has that name\. Add the user with sippushd user add")
    case.found("log", r"call refused aor=karl@example\.net .*status=404 reason=\"no such user\"")
    yield


@fault("foreign domain")
def foreign_domain(case):
    case.watch("doctor", "explain 192.0.2.10", "log", "page 192.0.2.10")
    answer = case.hour.pbx.call("bob", "pbx.example.org")
    assert answer.status == 403, answer
    case.found("explain 192.0.2.10", r"its domain is not listed under domains, so the caller got 403", r"=> The caller must use a domain that is listed under domains")
    case.found("page 192.0.2.10", r"=> The caller must use a domain that is listed under domains")
    case.found("log", r"call refused aor=bob@pbx\.example\.org .*status=403 reason=\"the domain is not listed under domains\"")
    yield


@fault("PBX not trusted")
def pbx_not_trusted(case):
    case.watch("doctor", "explain 192.0.2.10", "log", "page 192.0.2.10")
    case.edit(r'trusted: \["192\.0\.2\.10"\]', 'trusted: ["192.0.2.11"]')
    try:
        case.reload()
        answer = case.hour.pbx.call("bob")
        assert answer.status == 407, answer
        case.allow(r"note +trusted +192\.0\.2\.11")
        case.found("doctor", r"^WRONG +trusted +the upstream's address 192\.0\.2\.10 is not trusted.* => Add 192\.0\.2\.10 to trusted")
        case.found("explain 192.0.2.10", r"not listed under trusted, so the caller got 407", r"=> If 192\.0\.2\.10 is your PBX, list it under trusted")
        case.found("page 192.0.2.10", r"=> If 192\.0\.2\.10 is your PBX, list it under trusted")
        case.found("log", r"call refused .*source=192\.0\.2\.10:5060 .*status=407 reason=\"not listed under trusted")
        yield
    finally:
        case.edit(r'trusted: \["192\.0\.2\.11"\]', 'trusted: ["192.0.2.10"]')
        case.reload()


@fault("upstream dead")
def upstream_dead(case):
    password = case.hour.user("lena")
    case.hour.android("lena", password)
    case.watch("doctor", "explain lena", "log", "page lena")
    case.hour.pbx.close()
    try:
        answer = dial(PHONES[2], "lena", password, "200")
        assert answer and answer.status in (408, 503), answer
        case.allow(r"call (ended|refused)", r"note +daemon +a part of its work fails: the upstream")
        case.found("doctor", r"^WRONG +upstream +sip:192\.0\.2\.10:5060: udp:192\.0\.2\.10:5060 .* => Is the PBX running")
        case.found("explain lena", r"the upstream does not answer", r"=> Is the PBX of upstream running")
        case.found("page lena", r"=> Is the PBX of upstream running")
        case.found("log", r"the upstream does not answer.*192\.0\.2\.10:5060")
        yield
    finally:
        case.hour.pbx = Exchange()
        await_(lambda: "the upstream answers again" in case.hour.ask("log"), 60)


# --- the store


@fault("store file removed")
def store_file_removed(case):
    password = case.hour.user("moritz")
    case.do("sippushd backup /var/backups/sippushd.db")
    case.watch("doctor", "log", "page moritz")
    case.do(f"rm {STORE}/sippushd.db")
    answer = case.hour.android("moritz", password)
    assert answer.status == 503, answer
    case.allow(r"REGISTER refused .*moritz", r"daemon +it is not ready: .*the store cannot be written")
    case.found("doctor", r"^WRONG +store +/var/lib/sippushd/sippushd\.db .*=> .*backup")
    case.found("log", r"the store cannot be written .*sippushd\.db")
    case.found("page moritz", r"^store: .*")
    try:
        case.do("systemctl stop sippushd")
        result = case.place.inside("systemctl start sippushd")
        assert result.returncode and "sippushd.db is missing, but" in result.stdout, result.stdout
        yield
    finally:
        for line in case.hour.commands("Operations", "Restore"):
            case.do(line)
