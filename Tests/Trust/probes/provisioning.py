"""T48: links with which phones take their accounts. The attacker guesses links, uses them twice, or finds them in a history."""

import concurrent.futures
import glob
import json
import os
import re
import shutil
import signal
import string
import subprocess
import threading
import time

from daemon import Daemon
from machine import patience
from probes.domains import asking, key_of
from probes.wake import call
from sip import fresh
from suite import Skipped, check, probe

PHONE = {"X-Linphone-Provisioning": "1", "User-Agent": "Linphone/5.2"}
ROOT = os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..", "..")


def daemon_of(t, name, values=None, edge=False):
    t.needs("api.provisioning.expires")
    daemon = Daemon(name, t.suite, values or {}, edge=edge)
    t.daemon = t.suite.daemons[name] = daemon
    return daemon


def link_of(daemon, name, *options):
    """Makes a link by the command, and returns its path."""
    done = daemon.command("user", "qr", name, "--format", "url", *options)
    check(done.returncode == 0, f"control: user qr {name}: {done.stderr}")
    url = done.stdout.strip()
    check(re.fullmatch(r"https?://[^/]+/provision/[A-Za-z0-9_-]{43}", url), f"the link is {url}")
    return "/provision/" + url.rsplit("/", 1)[1]


def take(daemon, path, fields=None, source=None, method="GET"):
    return daemon.http(method, path, headers=PHONE if fields is None else fields, port=daemon.api_port, source=source)


def hash_in(text):
    found = re.search(r'<entry name="ha1" overwrite="true">([0-9a-f]{32})</entry>', text)
    return found and found.group(1)


@probe("T48.1", "links-are-not-guessed")
def guessed(t):
    """The attacker tries texts of every form. Unknown, replaced, revoked and expired links have one answer."""
    daemon = daemon_of(t, "guessed-links").start()
    name, _ = daemon.user()
    path = link_of(daemon, name)
    old, path = path, link_of(daemon, name)
    daemon.command("user", "revoke-link", name)
    revoked, path = path, link_of(daemon, name)
    token = path.rsplit("/", 1)[1]
    answers = {}
    invented = "".join(t.random.choice(string.ascii_letters) for _ in range(43))
    for kind, guess in (("unknown", "/provision/" + invented), ("replaced", old), ("revoked", revoked), ("short", path[:-1]),
                        ("long", path + "A"), ("other case", "/provision/" + token.swapcase())):
        status, text, fields = take(daemon, guess, source=t.address())
        answers[kind] = (status, text, fields.get("Cache-Control"))
    check(len(set(answers.values())) == 1 and answers["unknown"][0] == 404, f"the answers differ: {answers}")
    for other in (f"/provision//{token}", f"/provision/{token}/", f"/provision/{token}%2f", f"/PROVISION/{token}", "/provision/", "/provision"):
        status, text, _ = take(daemon, other, source=t.address())
        check(status in (400, 404) and "ha1" not in text, f"{other} got {status}: {text[:100]}")
    # One source is stopped after some guesses. The right link works even from there.
    guesser = t.address()
    statuses = [take(daemon, "/provision/" + "".join(t.random.choice(string.ascii_letters) for _ in range(43)), source=guesser)[0]
                for _ in range(30)]
    check(statuses[0] == 404 and statuses[-1] == 429 and set(statuses) == {404, 429}, f"guesses got {statuses}")
    status, text, _ = take(daemon, path, source=guesser)
    check(status == 200 and hash_in(text), f"control: the right link got {status}")
    check("unknown or expired provisioning link" in daemon.log(), "the log does not report the guesses")


@probe("T48.2", "link-used-twice")
def twice(t):
    """Two phones use one link at the same moment, again and again. Exactly one gets the account, and the log reports the other."""
    daemon = daemon_of(t, "twice-used-links", {"limits": {"wrong-logins-per-source": 0, "queueing": "0s"}}).start()
    tokens = []
    for turn in range(20):
        name, _ = daemon.user()
        path = link_of(daemon, name, *(["--new-password"] if turn % 2 else []))
        tokens.append(path.rsplit("/", 1)[1])
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            statuses = sorted(one[0] for one in pool.map(lambda _: take(daemon, path), range(4)))
        check(statuses == [200, 410, 410, 410], f"four phones got {statuses}")
    lines = [line for line in daemon.log().splitlines() if "somebody opened a provisioning link that was already used" in line]
    check(lines and all(" warning " in line and "@example.net" in line and "first used from" in line for line in lines), f"the log says {lines[:2]}")
    text = daemon.log() + "".join(open(file, errors="replace").read() for file in glob.glob(daemon.folder + "/sippushd.db*"))
    check(not any(token in text for token in tokens), "the log or the store contains a token")
    table = daemon.command("user", "links").stdout + daemon.command("user", "links", "--json").stdout
    check("127.0.0.1" in table and not any(token in table for token in tokens), f"user links prints {table[:300]}")


@probe("T48.3", "previews-use-no-link")
def previews(t):
    """Messengers, browsers and HEAD ask for the link before the phone does, and learn nothing."""
    daemon = daemon_of(t, "previewed-links").start()
    name, _ = daemon.user()
    path = link_of(daemon, name)
    invented = "/provision/" + "A" * 43
    agents = [{}, {"User-Agent": "WhatsApp/2.23.20.0"}, {"User-Agent": "TelegramBot (like TwitterBot)"},
              {"User-Agent": "Mozilla/5.0 (iPhone)", "Accept": "text/html,application/xhtml+xml"},
              {"User-Agent": "facebookexternalhit/1.1", "Accept": "*/*"}, dict(PHONE, Purpose="prefetch"),
              dict(PHONE, **{"Sec-Purpose": "prefetch;prerender"}), dict(PHONE, **{"Sec-Fetch-Mode": "navigate"})]
    for fields in agents:
        real, fake = take(daemon, path, fields), take(daemon, invented, fields)
        check(real[:2] == fake[:2] and real[0] == 200 and "ha1" not in real[1], f"{fields}: {real[:2]} and {fake[:2]}")
        check(real[2].get("Cache-Control") == "no-store" and real[2].get("Referrer-Policy") == "no-referrer", f"{fields}: {real[2]}")
        check("default-src 'none'" in (real[2].get("Content-Security-Policy") or ""), f"{fields}: {real[2]}")
        check(take(daemon, path, fields, method="HEAD")[0] == 200, f"HEAD with {fields}")
    for method in ("POST", "PUT", "DELETE", "OPTIONS"):
        check(take(daemon, path, method=method)[0] in (404, 405), f"{method} was not refused")
    check(take(daemon, path, method="HEAD")[1] == "", "HEAD has a body")
    status, text, fields = take(daemon, path)
    check(status == 200 and hash_in(text) and fields.get("Cache-Control") == "no-store", f"control: the phone got {status}")


@probe("T48.4", "links-over-kills")
def kills(t):
    """The daemon is killed while a phone takes its account. A used link stays used, and no second phone gets an account."""
    daemon = daemon_of(t, "killed-links", {"limits": {"wrong-logins-per-source": 0, "queueing": "0s"}}).start()
    seen = {"account": 0, "lost": 0, "unused": 0}
    for turn in range(8):
        name, old = daemon.user()
        path = link_of(daemon, name, "--new-password")
        got = []

        def phone():
            try:
                got.append(take(daemon, path))
            except OSError:
                got.append(None)

        thread = threading.Thread(target=phone)
        thread.start()
        # In some turns, the kill comes after the answer.
        if turn % 3 == 2:
            thread.join()
        else:
            time.sleep(t.random.random() * 0.01)
        daemon.kill()
        thread.join()
        daemon.launch()
        first = got[0] if got and got[0] and got[0][0] == 200 else None
        status, text, _ = take(daemon, path)
        if first:
            check(status == 410, f"after an account was taken, the link got {status}")
            seen["account"] += 1
        else:
            check(status in (200, 410), f"after a kill, the link got {status}")
            seen["unused" if status == 200 else "lost"] += 1
        # The old password is valid as long as nobody has used the link.
        answer = t.phone().register(name, old)
        check(answer and answer.status != 200, f"the old password is valid after the use: {answer}")
    check(seen["account"] >= 2, f"control: {seen}")
    return f"{seen['account']} accounts, {seen['lost']} used links without an account, {seen['unused']} unused links"


@probe("T48.5", "links-on-a-full-disk")
def full_disk(t):
    place = os.path.join(t.suite.folder, "full-links")
    os.makedirs(place, exist_ok=True)
    if os.geteuid() != 0 or subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", place], capture_output=True).returncode:
        raise Skipped("needs the right to mount a small file system")
    daemon = daemon_of(t, "full-disk-links", {"store": os.path.join(place, "sippushd.db"),
                                              "limits": {"wrong-logins-per-source": 0, "queueing": "0s"}})
    try:
        daemon.start()
        paths = [link_of(daemon, daemon.user()[0], "--new-password") for _ in range(40)]
        filler = os.path.join(place, "filler")
        with open(filler, "wb", 0) as file:
            for size in (65536, 512):
                try:
                    while True:
                        file.write(b"\0" * size)
                except OSError:
                    pass
        refused = []
        for path in paths:
            status, text, _ = take(daemon, path)
            check(status in (200, 503) and ("ha1" in text) == (status == 200), f"on a full disk the link got {status}")
            if status == 503:
                refused.append(path)
        check(refused, "control: the disk was never full")
        os.remove(filler)
        limit = time.monotonic() + patience(20)
        while take(daemon, refused[0])[0] == 503 and time.monotonic() < limit:
            time.sleep(0.2)
        statuses = [take(daemon, path)[0] for path in refused]
        check(statuses == [410] + [200] * (len(refused) - 1), f"with room again the links got {statuses}")
        daemon.stop()
        return f"{len(refused)} links got 503, and worked later"
    finally:
        daemon.kill()
        subprocess.run(["umount", "-l", place], capture_output=True)


@probe("T48.6", "links-of-one-domain")
def domains(t):
    """A key of one domain neither makes, lists nor revokes links of another domain."""
    daemon = daemon_of(t, "links-of-domains").start()
    name, password = daemon.user()
    daemon.user(name, "example.org")
    path = link_of(daemon, f"{name}@example.net")
    attacker = asking(t, key_of(daemon, "org-links", "provisioning", "example.org"))
    stranger = asking(t, key_of(daemon, "org-pushes", "pushes"))
    victim, nobody = f"/v1/users/{name}@example.net/provisioning", "/v1/users/nobody@example.net/provisioning"
    for method in ("POST", "DELETE"):
        real, fake = attacker(method, victim, {}, api=True), attacker(method, nobody, {}, api=True)
        check(real[0] == fake[0] == 404 and real[1].replace(name, "nobody") == fake[1], f"{method}: {real} and {fake}")
        check(stranger(method, victim, {}, api=True)[0] == 403, f"{method} without the scope")
    check(json.loads(attacker("GET", "/v1/provisioning", api=True)[1]) == {"links": []}, "the list shows another domain")
    status, text = attacker("POST", f"/v1/users/{name}/provisioning", {"newPassword": True}, api=True)
    check(status == 200 and json.loads(text)["user"] == f"{name}@example.org", f"control: the own link got {status} {text}")
    status, text, _ = take(daemon, "/provision/" + json.loads(text)["url"].rsplit("/", 1)[1])
    check(status == 200 and f"{name}@example.org" in text, f"control: the own account got {status}")
    answer = t.phone().register(name, password)
    check(answer and answer.status == 200, f"the password of the other domain's user has changed: {answer}")
    check(take(daemon, path)[0] == 200, "the victim's link has ended")


def decoded(picture):
    """The text of the QR code in a picture, or None without zbarimg."""
    if not shutil.which("zbarimg"):
        return None
    done = subprocess.run(["zbarimg", "--raw", "-q", picture], capture_output=True, text=True)
    return done.stdout.strip()


def picture_of(drawing, place, dark=True):
    """Paints the half blocks of a terminal as a picture, and returns its path."""
    rows = []
    for line in drawing:
        pairs = [{"█": (1, 1), "▀": (1, 0), "▄": (0, 1), " ": (0, 0)}[one] for one in line]
        rows += [[pair[half] for pair in pairs] for half in (0, 1)]
    scale = 6
    with open(place, "wb") as file:
        file.write(b"P5 %d %d 255\n" % (len(rows[0]) * scale, len(rows) * scale))
        for row in rows:
            file.write(b"".join(bytes([255 * light]) * scale for light in row) * scale)
    return place


@probe("T48.7", "qr-codes-are-read")
def codes(t):
    """Each form of the QR code leads to a link that works. zbarimg reads what the command drew."""
    daemon = daemon_of(t, "drawn-links").start()
    name, _ = daemon.user()
    folder = daemon.folder
    checked = 0
    done = daemon.command("user", "qr", name)
    check(done.returncode == 0, f"user qr: {done.stderr}")
    drawing = [line for line in done.stdout.splitlines() if line and set(line) <= set("█▀▄ ")]
    url = next(line for line in done.stdout.splitlines() if line.startswith("http"))
    check(len(drawing) >= 20 and "\x1b" not in done.stdout, f"the drawing is {done.stdout[:200]}")
    read = decoded(picture_of(drawing, os.path.join(folder, "terminal.pgm")))
    check(read in (None, url), f"zbarimg reads {read}")
    checked += read is not None
    picture = os.path.join(folder, "code.png")
    with open(picture, "wb") as file:
        check(subprocess.run([t.suite.program, "user", "qr", name, "--format", "png", "--config", daemon.config], stdout=file).returncode == 0, "png")
    read = decoded(picture)
    check(read is None or re.fullmatch(r"http://127\.0\.0\.1:\d+/provision/[A-Za-z0-9_-]{43}", read), f"zbarimg reads {read}")
    if read:
        check(take(daemon, "/provision/" + read.rsplit("/", 1)[1])[0] == 200, "the link in the picture does not work")
        check(take(daemon, "/provision/" + url.rsplit("/", 1)[1])[0] == 404, "the earlier link works")
    svg = daemon.command("user", "qr", name, "--format", "svg").stdout
    check(svg.startswith("<?xml") and "<path" in svg and "provision" not in svg, f"the SVG is {svg[:100]}")
    text = daemon.command("user", "qr", name, "--new-password", "--cloud-id", "EXAMPLE", "--format", "url").stdout.strip()
    found = re.fullmatch(r"csc:" + name + r"%40example%2Enet:([A-Za-z0-9%]+)@EXAMPLE", text)
    check(found, f"the text for Acrobits is {text}")
    status, account, _ = take(daemon, f"/provision/{found.group(1)}?client=acrobits", {"User-Agent": "Acrobits"})
    check(status == 200 and f"<username>{name}</username>" in account, f"Acrobits got {status}: {account[:200]}")
    password = re.search(r"<password>(\w+)</password>", account).group(1)
    answer = t.phone().register(name, password)
    check(answer and answer.status == 200, f"the password of the account is refused: {answer}")
    for words in (["--expires", "1s"], ["--format", "gif"], ["--cloud-id", "X"], ["--cloud-id", "a:b", "--new-password"]):
        check(daemon.command("user", "qr", name, *words).returncode == 64, f"user qr {words}")
    check(daemon.command("user", "qr", "nobody").returncode == 1, "user qr nobody")
    if not checked:
        raise Skipped("the drawings are not read: zbar-tools is not installed")


class Linphone:
    """Debian's Linphone, which knows only the link, the test's authority, and the push token that an app gets from its system."""

    SETTINGS = """[misc]
config-uri={url}
[proxy_0]
contact_uri_parameters=pn-provider=fcm;pn-param=p;pn-prid={token}
[sip]
root_ca={authority}
sip_port=-1
sip_tcp_port=-1
sip_tls_port=-1
register_only_when_network_is_up=0
[rtp]
audio_rtp_port=-1
video_rtp_port=-1
text_rtp_port=-1
"""

    def __init__(self, folder, url, token, authority):
        self.folder = folder
        os.makedirs(os.path.join(folder, ".local", "share", "linphone"), exist_ok=True)
        self.memory, self.output = os.path.join(folder, "linphonerc"), os.path.join(folder, "output")
        with open(self.memory, "w") as file:
            file.write(self.SETTINGS.format(url=url, token=token, authority=authority))
        self.process, self.input = None, None

    def start(self):
        open(self.output, "w").close()
        # Linphone ends when its input ends.
        self.process = subprocess.Popen(["linphonec", "-c", self.memory, "-a", "-d", "5"], stdin=subprocess.PIPE,
                                        stdout=open(self.output, "a"), stderr=subprocess.STDOUT,
                                        env=dict(os.environ, HOME=self.folder), start_new_session=True)

    def said(self):
        with open(self.output, errors="replace") as file:
            return file.read()

    def registered(self, seconds=30):
        limit = time.monotonic() + patience(seconds)
        while "to [LinphoneRegistrationOk]" not in self.said():
            check(time.monotonic() < limit, f"Linphone does not register: {self.said()[-1500:]}")
            time.sleep(0.05)

    def remembered(self):
        with open(self.memory, errors="replace") as file:
            return file.read()

    def forgets(self, text, seconds=10):
        """Waits until Linphone's settings do not contain the text. Linphone writes its settings a little later than it changes them."""
        limit = time.monotonic() + patience(seconds)
        while text in self.remembered() and time.monotonic() < limit:
            time.sleep(0.05)
        return text not in self.remembered()

    def close(self):
        if self.process and self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()


def without_client_authority(settings):
    settings["tls"].pop("client-ca-file")
    return settings


@probe("T48.8", "linphone-takes-its-account", alone=True)
def linphone(t):
    """Linphone takes its account from the QR code over HTTPS, registers over TLS, is killed, and is woken for a call. After its
    next start, Linphone does not ask for the link again."""
    if not shutil.which("linphonec"):
        raise Skipped("linphone-cli is not installed")
    daemon = daemon_of(t, "linphone-link", {"call": {"ring-timeout": "60s"}}, edge=True)
    daemon.certificate = daemon.authority.issue("local", "DNS:localhost,IP:127.0.0.1")
    daemon.values["api"] = {
        "cert-file": daemon.certificate[0], "key-file": daemon.certificate[1],
        "provisioning": {"url": f"https://localhost:{daemon.api_port}", "sip-server": f"sip:localhost:{daemon.tls_port};transport=tls"}}
    # Without an authority for clients, the daemon asks for no client certificate. Linphone's command line would ask its user for
    # the certificate, and wait for the answer.
    daemon.values["trusted"] = "[127.2.0.0/16]"
    usual = daemon.settings
    daemon.settings = lambda: without_client_authority(usual())
    daemon.start()
    name, _ = daemon.user()
    done = daemon.command("user", "qr", name)
    url = next(line for line in done.stdout.splitlines() if line.startswith("https://"))
    drawing = [line for line in done.stdout.splitlines() if line and set(line) <= set("█▀▄ ")]
    read = decoded(picture_of(drawing, os.path.join(daemon.folder, "code.pgm")))
    check(read in (None, url), f"zbarimg reads {read} instead of {url}")
    token = fresh("token")
    phone = t.own(Linphone(os.path.join(daemon.folder, "linphone"), read or url, token, daemon.authority.file))
    phone.start()
    phone.registered()
    rows = json.loads(daemon.command("device", "show", name, "--json").stdout)
    check(len(rows) == 1 and rows[0]["token"] and rows[0]["state"] == "awake", f"the devices are {rows}")
    check("a phone got its account" in daemon.log(), "the log does not report the account")
    check(phone.forgets("/provision/"), f"Linphone keeps the link: {phone.remembered()}")
    phone.close()
    limit = time.monotonic() + patience(10)
    while json.loads(daemon.command("device", "show", name, "--json").stdout)[0]["state"] != "asleep" and time.monotonic() < limit:
        time.sleep(0.05)
    caller, request = call(t, name)
    check(t.suite.provider.wait(token, timeout=15), "no push for the call")
    phone.start()
    answer = caller.response(request.call_id, "INVITE", 40)
    check(answer and answer.status == 200, f"the caller got {answer}; Linphone said {phone.said()[-800:]}")
    check("a provisioning link that was already used" not in daemon.log(), "Linphone asked for the link again")
    return f"from {'the QR code' if read else 'the URL, since zbar-tools is not installed'}"
