#!/usr/bin/env python3
"""Runs the page of the folder page/ as bob's phone in a Chromium without a window. The program also passes on the pushes: it
reads the pushes that the push sandbox has decrypted, and delivers them to the page's service worker over the browser's debugging
protocol.

The program uses the variables PHONE_... that README.md explains, and prints the console of the page. After SIGTERM the program
ends, with exit status 0 if the page has printed all expected lines.
"""

import fcntl
import http.client
import http.server
import json
import os
import select
import signal
import subprocess
import sys
import threading
import time
import urllib.parse

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "page")
# The last line that the page prints, unless the variable PHONE_LAST names a different line.
LAST_WORDS = os.environ.get("PHONE_LAST", "the call is over")
# How long the page may take to print the last line after all other steps have ended.
PATIENCE = 2


class Browser:
    """A Chromium that is controlled through two pipes. Each message between the test and Chromium is a JSON object, followed by a
    zero byte."""

    def __init__(self, home, certificate_key):
        orders, self.orders = os.pipe()
        self.answers, answers = os.pipe()
        # Chromium expects the pipes as the descriptors 3 and 4, so before that they must have other numbers.
        orders, answers = (fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 10) for end in (orders, answers))
        words = ["chromium", "--headless", "--remote-debugging-pipe", f"--user-data-dir={home}/profile", "--no-first-run",
                 "--disable-gpu", "--disable-background-networking", "--disable-component-update",
                 # No authority that the browser trusts has signed the daemon's certificate.
                 f"--ignore-certificate-errors-spki-list={certificate_key}"]
        if os.getuid() == 0:
            words.append("--no-sandbox")
        self.process = os.posix_spawnp("chromium", words, os.environ, file_actions=[
            (os.POSIX_SPAWN_OPEN, 2, f"{home}/chromium.log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600),
            (os.POSIX_SPAWN_DUP2, orders, 3), (os.POSIX_SPAWN_DUP2, answers, 4)])
        for end in (orders, answers):
            os.close(end)
        self.number = 0
        self.session = None
        self.unread = b""
        self.events = []

    def order(self, method, **parameters):
        """Returns the result of a command, and keeps the events that arrive before the result."""
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.orders, json.dumps(message).encode() + b"\0")
        answer = None
        while answer is None:
            for came in self.read(None):
                if came.get("id") == self.number:
                    answer = came
                else:
                    self.events.append(came)
        if "error" in answer:
            sys.exit(f"{method}: {answer['error']['message']}")
        return answer["result"]

    def read(self, seconds):
        """Returns the received events, after at most this time."""
        if not select.select([self.answers], [], [], seconds)[0]:
            return []
        came = os.read(self.answers, 1 << 16)
        if not came:
            sys.exit("chromium has ended")
        *whole, self.unread = (self.unread + came).split(b"\0")
        return [json.loads(message) for message in whole]

    def open(self, url):
        target = self.order("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.order("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Runtime", "ServiceWorker"):
            self.order(f"{domain}.enable")
        self.order("Page.navigate", url=url)

    def next_events(self, seconds):
        events, self.events = self.events, []
        return events or self.read(seconds)

    def close(self):
        """Chromium ends when its pipe is closed."""
        os.close(self.orders)
        os.waitpid(self.process, 0)


class Sandbox:
    """The push service, which has the keys of the page's subscription."""

    def __init__(self, address, subscription):
        self.address = address
        self.subscription = subscription
        self.taken = 0

    def ask(self, method, path, body=None):
        connection = http.client.HTTPConnection(self.address, timeout=5)
        connection.request(method, path, body)
        answer = connection.getresponse()
        return answer.status, answer.read()

    def subscribe(self, body):
        return self.ask("PUT", f"/sandbox/subscriptions/{self.subscription}", body)

    def new_pushes(self):
        """Returns the decrypted texts of the pushes that arrived since the last call."""
        _, answer = self.ask("GET", f"/sandbox/pushes?token={self.subscription}")
        pushes = json.loads(answer)
        new, self.taken = pushes[self.taken:], len(pushes)
        return [json.dumps(push["body"]) for push in new if push["status"] == 201]


def serve_page(sandbox):
    """The web server that serves the test page. Browsers allow service workers only for https pages and for pages of this
    machine."""
    types = {"index.html": "text/html", "phone.js": "text/javascript", "sip.js": "text/javascript",
             "worker.js": "text/javascript"}

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            name = self.path.split("?")[0].lstrip("/") or "index.html"
            if name not in types:
                return self.send(404, "text/plain", b"")
            with open(os.path.join(FOLDER, name), "rb") as file:
                self.send(200, types[name], file.read())

        def do_PUT(self):
            status, answer = sandbox.subscribe(self.rfile.read(int(self.headers["Content-Length"])))
            self.send(status, "application/json", answer)

        def send(self, status, kind, body):
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{server.server_port}"


def key_digest(certificate):
    """The name that Chromium has for a certificate's key: the SHA-256 of the public key, in base64."""
    commands = ('openssl x509 -pubkey -noout -in "$0" | openssl pkey -pubin -outform der | openssl dgst -sha256 -binary'
                ' | openssl base64')
    return subprocess.run(["sh", "-c", commands, certificate], check=True, capture_output=True, text=True).stdout.strip()


def main():
    phone = {name.removeprefix("PHONE_").lower(): value for name, value in os.environ.items() if name.startswith("PHONE_")}
    os.makedirs(phone["home"], exist_ok=True)
    ending = []
    signal.signal(signal.SIGTERM, lambda *_: ending.append(time.monotonic()))
    sandbox = Sandbox(phone["sandbox"], phone["token"])
    origin = serve_page(sandbox)
    account = {name: phone[name] for name in ("user", "domain", "password", "stays", "loses", "answers") if name in phone} | {"server": "wss://" + phone["web"]}
    browser = Browser(phone["home"], key_digest(phone["authority"]))
    browser.open(f"{origin}/?{urllib.parse.urlencode(account)}")
    registration, has_said_all = None, False
    while not ending or not has_said_all and time.monotonic() < ending[0] + PATIENCE:
        for event in browser.next_events(0.02):
            parameters = event.get("params", {})
            match event.get("method"):
                case "ServiceWorker.workerRegistrationUpdated":
                    for known in parameters["registrations"]:
                        registration = known["registrationId"]
                case "Runtime.consoleAPICalled":
                    words = " ".join(str(word.get("value")) for word in parameters["args"])
                    has_said_all = has_said_all or words == LAST_WORDS
                    print(words, flush=True)
                case "Runtime.exceptionThrown":
                    thrown = parameters["exceptionDetails"]
                    print(thrown.get("exception", {}).get("description") or thrown["text"], flush=True)
        if registration:
            for text in sandbox.new_pushes():
                browser.order("ServiceWorker.deliverPushMessage", origin=origin, registrationId=registration, data=text)
    browser.close()
    sys.exit(0 if has_said_all else f"the page has not said: {LAST_WORDS}")


main()
