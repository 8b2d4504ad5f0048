"""The steps of etc/page about keys that may only read, other web sites, and the ends of a session."""

import http.server
import json
import os
import threading

from daemon import Daemon, QuietServer
from edge import Authority
from operator_steps import provider
from story import check, quoted, step, until
from viewers import Viewer


# Changes that a key without the scope admin must not make.
CHANGES = [("POST", "/v1/providers/fcm/disable"), ("POST", "/v1/providers/fcm/pause"), ("DELETE", "/v1/users/bob@example.net"),
           ("DELETE", "/v1/users/bob@example.net/bucket"), ("PUT", "/v1/users"), ("PUT", "/v1/apikeys"), ("POST", "/v1/drain"), ("POST", "/v1/push-tests")]


def forged(method, token):
    """The change has the session's token, as from the page."""
    change = {"method": method, "headers": {"X-Session-Token": token, "Content-Type": "application/json"}}
    return change if method == "DELETE" else {**change, "body": "{}"}


class OtherSite:
    """Another person's web site, whose pages try to use the operator's session."""

    def __init__(self, target):
        site = self
        self.asked = []
        form = (f'<form id="f" method="post" action="{target}/v1/providers/fcm/disable" enctype="text/plain" target="result"><input name="a" value="b"></form>'
                '<iframe name="result"></iframe>')
        pages = {"/form": form, "/frame": f'<iframe id="frame" src="{target}/"></iframe>', "/empty": "", "/blank": ""}

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                site.asked.append(self.path)
                body = ("<!DOCTYPE html><title>other</title>" + pages.get(self.path, "")).encode()
                self.send_response(200 if self.path in pages else 404)
                self.send_header("Content-Type", "text/html")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *arguments):
                pass

        self.server = QuietServer(("127.0.0.1", 0), Handler)
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()


@step("a key that may only read sees no buttons, and its forged changes get 403")
def read_only(story):
    story.keys["reader"] = story.key("reader", "admin.read")
    tab = story.reader = story.browser.tab()
    story.login(tab, story.keys["reader"], "#now")
    tab.wait("document.querySelector('[data-provider=fcm]')")
    check("read only" in tab.text("#who-name"), tab.text("#who-name"))
    check(tab.run("document.querySelectorAll('[data-action]').length") == 0, "the view Now has buttons")
    story.show("user/bob", tab)
    tab.wait("document.querySelector('[data-device]')")
    check(tab.run("document.querySelectorAll('[data-action]').length") == 0, "the view User has buttons")
    story.allow(403, "/v1/")
    token = tab.run("fetch('/session').then((answer) => answer.json()).then((body) => body.token)")
    statuses = [tab.run(f"fetch({quoted(path)}, {quoted(forged(method, token))}).then((answer) => answer.status)") for method, path in CHANGES]
    check(set(statuses) == {403}, f"the forged changes got {statuses}")
    check(provider(story, "fcm")["isEnabled"], "the provider is disabled")


@step("a key of one domain sees the users of this domain only")
def one_domain(story):
    answer = story.daemon.command("apikey", "add", "branch", "--scope", "admin", "--domains", "example.org")
    check(answer.returncode == 0, answer.stderr)
    story.daemon.user("zoe", domain="example.org")
    tab = story.branch = story.browser.tab()
    story.login(tab, answer.stdout.strip().splitlines()[-1], "#now")
    story.allow(403, "/v1/live")
    tab.wait("document.getElementById('view-now').innerText.includes('needs a key for the whole daemon')")
    story.show("user/zoe@example.org", tab)
    tab.wait("document.getElementById('user-result').innerText.includes('zoe@example.org')")
    story.show("user/bob@example.net", tab)
    tab.wait("document.getElementById('user-result').innerText.includes('No user of this name')")
    check("Phone" not in tab.text("#user-result") and "<img" not in tab.text("#user-result"), tab.text("#user-result"))


@step("a change without the session's token gets 403")
def no_token(story):
    answer = story.tab.run("fetch('/v1/providers/fcm/disable', { method: 'POST' }).then((answer) => answer.status)")
    check(answer == 403, f"the change got {answer}")
    answer = story.tab.run("fetch('/v1/providers/fcm/disable', { method: 'POST', headers: { 'X-Session-Token': 'wrong' } }).then((answer) => answer.status)")
    check(answer == 403 and provider(story, "fcm")["isEnabled"], f"the change with a wrong token got {answer}")


@step("a page of another origin changes and reads nothing, with the operator's cookie in the browser")
def other_origin(story):
    tab = story.tab
    site = story.own(OtherSite(story.url))
    # For SameSite, another port of the host is the same site, so the browser sends the cookie.
    for host in ("127.0.0.1", "localhost"):
        other = f"http://{host}:{site.port}"
        tab.go(f"{other}/form")
        before = len(tab.statuses)
        tab.run("document.getElementById('f').submit()")
        status = until(lambda: next((status for url, status in tab.statuses[before:] if url.endswith("/v1/providers/fcm/disable")), None), "the answer to the form")
        check(status == (403 if host == "127.0.0.1" else status) and status in (401, 403), f"the form of {other} got {status}")
        read = tab.run(f"fetch({quoted(story.url + '/session')}, {{ credentials: 'include' }}).then((answer) => answer.text(), () => 'refused')")
        check(read == "refused", f"another origin reads {read}")
        simple = tab.run(f"fetch({quoted(story.url + '/v1/providers/fcm/disable')}, {{ method: 'POST', mode: 'no-cors', credentials: 'include', body: '{{}}' }}).then((answer) => answer.type, () => 'refused')")
        check(simple in ("opaque", "refused"), simple)
        token = tab.run(f"fetch({quoted(story.url + '/v1/providers/fcm/disable')}, {{ method: 'POST', credentials: 'include', headers: {{ 'X-Session-Token': 'x' }} }}).then(() => 'sent', () => 'refused')")
        check(token == "refused", "a change with a field of its own was sent")
    check(provider(story, "fcm")["isEnabled"], "another origin disabled the provider")
    tab.take_errors()


@step("a frame of another page stays empty")
def framed(story):
    tab = story.tab
    site = story.own(OtherSite(story.url))
    tab.go(f"http://127.0.0.1:{site.port}/frame")
    frames = tab.call("Page.getFrameTree")["frameTree"].get("childFrames", [])
    check(len(frames) == 1 and not frames[0]["frame"]["url"].startswith(story.url), f"the frame shows {frames}")
    said = tab.take_errors()
    check(any("frame" in text.lower() for _, text, _ in said), f"no refusal in the log: {said}")


@step("a request under another host name gets 403, with or without the cookie")
def rebound(story):
    story.login(story.tab, story.keys["operator"])
    cookie = story.tab.cookies()[0]
    crumb = f"{cookie['name']}={cookie['value']}"
    status, text, _ = story.http("GET", "/session", Host="attacker.example", Cookie=crumb)
    check(status == 403 and "token" not in json.loads(text), f"{status} {text}")
    status, text, _ = story.http("GET", "/v1/providers", Host="attacker.example:8089", Cookie=crumb)
    check(status == 403, f"{status} {text}")
    status, text, _ = story.http("GET", "/v1/providers", Cookie=crumb, Sec_Fetch_Site="cross-site")
    check(status == 403, f"{status} {text}")
    status, text, _ = story.http("GET", "/v1/providers", Cookie=crumb)
    check(status == 200, f"control: {status} {text}")


@step("after the logout the cookie is dead, and the page has no data")
def logged_out(story):
    tab = story.tab
    cookie = tab.cookies()[0]
    crumb = f"{cookie['name']}={cookie['value']}"
    story.show("user/bob")
    tab.wait("document.querySelector('[data-device]')")
    story.logout(tab)
    check(not tab.cookies(), f"the browser keeps {tab.cookies()}")
    check("bob" not in tab.run("document.documentElement.outerHTML"), "the page still has the user's name")
    status, _, _ = story.http("GET", "/session", Cookie=crumb)
    check(status == 401, f"the cookie still gets {status} from /session")
    status, _, _ = story.http("GET", "/v1/providers", Cookie=crumb)
    check(status == 401, f"the cookie still gets {status} from /v1/providers")


@step("the session of a removed key ends, and the page says so")
def key_removed(story):
    story.allow(401, "/v1/")
    story.show("now", story.reader)
    story.reader.wait("document.getElementById('connection').textContent === 'live'")
    answer = story.daemon.command("apikey", "remove", "reader")
    check(answer.returncode == 0, answer.stderr)
    said = story.reader.wait("!document.getElementById('login').hidden && document.getElementById('login-problem').textContent")
    check("ended" in said, said)


@step("the page tells when the connection is lost, and connects again")
def restarted(story):
    tab = story.tab
    story.login(tab, story.keys["operator"], "#now")
    tab.wait("document.getElementById('connection').textContent === 'live'")
    story.daemon.kill()
    tab.wait("!document.getElementById('banner').hidden && document.getElementById('banner').textContent.includes('lost')", text="the banner")
    check(tab.run("document.getElementById('connection').classList.contains('lost')"), "the page claims to be live")
    story.daemon.launch()
    # Sessions live in the daemon's memory, so the operator logs in again.
    said = tab.wait("!document.getElementById('login').hidden && document.getElementById('login-problem').textContent", timeout=30)
    check("session ended" in said and tab.run("document.getElementById('banner').hidden"), said)
    # The browser reports each failed connection to the stopped daemon.
    errors = [one for one in story.errors(tab) if "net::ERR_" not in one[1]]
    check(not errors, f"{errors}")
    story.login(tab, story.keys["operator"], "#now")
    tab.wait("document.getElementById('connection').textContent === 'live'")


@step("the page waits for a place if too many viewers are connected")
def crowded(story):
    tab = story.tab
    story.logout(tab)
    viewers = []
    try:
        def full():
            """Whether twenty viewers have the operators' page open. A stream that a browser has left counts against the
            limit for a second or two."""
            viewer = Viewer(story.daemon, story.keys["operator"])
            if viewer.status == 200:
                viewers.append(viewer)
            else:
                viewer.close()
            return len(viewers) == 20

        until(full, "twenty viewers have a place")
        refused = Viewer(story.daemon, story.keys["operator"])
        refused.close()
        check(refused.status == 503 and refused.fields.get("retry-after"), f"the next viewer got {refused.status}")
        story.allow(503, "/v1/live")
        story.login(tab, story.keys["operator"], "#now")
        tab.wait("document.getElementById('banner').textContent.includes('waits')", text="the banner")
    finally:
        for viewer in viewers:
            viewer.close()
    tab.wait("document.getElementById('connection').textContent === 'live'", timeout=40)


@step("over TLS the cookie is Secure and has the prefix __Host-, and guesses of keys are slowed down")
def over_tls(story):
    certificate = Authority(os.path.join(story.folder, "pki")).issue("admin", "DNS:localhost,IP:127.0.0.1")
    daemon = Daemon("tls", story.suite, {"admin": {"cert-file": certificate[0], "key-file": certificate[1]}})
    tab = story.browser.tab()
    try:
        daemon.start()
        tab.call("Security.setIgnoreCertificateErrors", ignore=True)
        tab.go(f"https://127.0.0.1:{daemon.admin_port}/")
        tab.wait("!document.getElementById('login').hidden")
        tab.fill("#key", daemon.key)
        tab.press("Enter")
        tab.wait("document.getElementById('connection').textContent === 'live'")
        (cookie,) = tab.cookies()
        check(cookie["secure"] and cookie["name"].startswith("__Host-") and cookie["httpOnly"] and cookie["sameSite"] == "Strict", str(cookie))
        story.logout(tab)
        for _ in range(60):
            tab.fill("#key", "spd_" + "y" * 43)
            tab.press("Enter")
            said = tab.wait("document.getElementById('key').value === '' && document.getElementById('login-problem').textContent")
            if "Too many" in said:
                break
        check("Try again in" in said, f"sixty wrong keys got {said!r}")
        errors = [one for one in tab.take_errors() if "status of 401" not in one[1] and "status of 429" not in one[1]]
        check(not errors, f"{errors}")
    finally:
        tab.close()
        daemon.stop()


@step("the browser's log has no error, and no violation of the policy")
def silent(story):
    for tab in (story.tab, story.reader, story.branch):
        errors = story.errors(tab)
        check(not errors, f"{errors[:5]}")
