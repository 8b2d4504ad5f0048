"""Drives a headless Chromium by the DevTools protocol over two pipes, without a port or a library."""

import base64
import collections
import fcntl
import itertools
import json
import os
import queue
import shutil
import signal
import subprocess
import tempfile
import threading
import time

from machine import patience

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")

# The page adds each violation of its Content-Security-Policy to a list that no navigation empties.
WATCH_POLICY = """
document.addEventListener("securitypolicyviolation", (event) =>
    console.error("policy: " + event.effectiveDirective + " " + event.blockedURI));
"""

KEYS = {"Enter": (13, "\r"), "Tab": (9, ""), "Escape": (27, ""), " ": (32, " "), "ArrowRight": (39, ""), "ArrowLeft": (37, ""),
        "Home": (36, ""), "End": (35, "")}


class BrowserProblem(Exception):
    """Chromium refused a command, or a condition was not met in time."""


def program():
    """The path of Chromium, or None."""
    return os.environ.get("CHROMIUM") or next((path for path in map(shutil.which, PROGRAMS) if path), None)


class Browser:
    def __init__(self, path):
        self.folder = tempfile.mkdtemp(prefix="page-browser-")
        to_browser, commands = os.pipe()
        answers, from_browser = os.pipe()
        words = [path, "--headless=new", "--remote-debugging-pipe", f"--user-data-dir={self.folder}/profile", "--disable-gpu", "--no-first-run",
                 "--no-default-browser-check", "--disable-extensions", "--disable-background-networking", "--disable-component-update",
                 "--disable-sync", "--disable-dev-shm-usage", "--no-proxy-server", "--metrics-recording-only", "--password-store=basic",
                 "--force-color-profile=srgb", "--lang=en", "about:blank"]
        if os.geteuid() == 0:
            words.insert(1, "--no-sandbox")

        def descriptors():
            # Chromium reads from descriptor 3 and writes to descriptor 4. Copies with numbers from 10 on cannot be
            # overwritten.
            source, target = fcntl.fcntl(to_browser, fcntl.F_DUPFD, 10), fcntl.fcntl(from_browser, fcntl.F_DUPFD, 10)
            os.dup2(source, 3)
            os.dup2(target, 4)

        with open(os.path.join(self.folder, "log"), "wb") as log:
            self.process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=log, stderr=log, close_fds=False, preexec_fn=descriptors,
                                            start_new_session=True, env=dict(os.environ, TZ="UTC", HOME=self.folder, XDG_CONFIG_HOME=self.folder, XDG_CACHE_HOME=self.folder))
        os.close(to_browser)
        os.close(from_browser)
        self.commands, self.answers = commands, answers
        self.numbers = itertools.count(1)
        self.lock = threading.Lock()
        self.waiting, self.listeners = {}, {}
        threading.Thread(target=self.read, daemon=True).start()
        self.call("Browser.getVersion")

    def read(self):
        rest = b""
        while True:
            try:
                some = os.read(self.answers, 1 << 20)
            except OSError:
                some = b""
            if not some:
                break
            *messages, rest = (rest + some).split(b"\0")
            for raw in messages:
                message = json.loads(raw)
                if "id" in message:
                    with self.lock:
                        box = self.waiting.pop(message["id"], None)
                    if box:
                        box.put(message)
                else:
                    listener = self.listeners.get(message.get("sessionId"))
                    if listener:
                        listener(message["method"], message.get("params", {}))
        with self.lock:
            for box in self.waiting.values():
                box.put({"error": {"message": "Chromium ended"}})

    def call(self, method, session=None, timeout=30.0, **parameters):
        number, box = next(self.numbers), queue.Queue()
        message = {"id": number, "method": method, "params": parameters}
        if session:
            message["sessionId"] = session
        raw = json.dumps(message).encode() + b"\0"
        with self.lock:
            self.waiting[number] = box
            while raw:
                raw = raw[os.write(self.commands, raw):]
        try:
            answer = box.get(timeout=patience(timeout))
        except queue.Empty:
            raise BrowserProblem(f"{method} got no answer") from None
        if "error" in answer:
            raise BrowserProblem(f"{method}: {answer['error'].get('message')}")
        return answer["result"]

    def tab(self):
        """A browser tab with cookies of its own."""
        context = self.call("Target.createBrowserContext")["browserContextId"]
        target = self.call("Target.createTarget", url="about:blank", browserContextId=context)["targetId"]
        return Tab(self, context, target)

    def close(self):
        try:
            self.call("Browser.close", timeout=5)
            self.process.wait(10)
        except (BrowserProblem, OSError, subprocess.TimeoutExpired):
            pass
        # Ends all processes of Chromium, which have a process session of their own.
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()
        os.close(self.commands)
        shutil.rmtree(self.folder, ignore_errors=True)


class Tab:
    def __init__(self, browser, context, target):
        self.browser, self.context, self.target = browser, context, target
        self.session = browser.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self.changed = threading.Condition()
        # Errors and warnings of the console, and failed loads, each as (kind, text, address).
        self.errors = []
        self.counts = collections.Counter()
        self.statuses = []
        browser.listeners[self.session] = self.arrived
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        self.call("Page.addScriptToEvaluateOnNewDocument", source=WATCH_POLICY)
        self.size(1280, 900)

    def call(self, method, **parameters):
        return self.browser.call(method, self.session, **parameters)

    def arrived(self, method, parameters):
        with self.changed:
            self.counts[method] += 1
            if method == "Log.entryAdded":
                entry = parameters["entry"]
                if entry["level"] in ("error", "warning"):
                    self.errors.append((entry["source"], entry["text"], entry.get("url", "")))
            elif method == "Runtime.exceptionThrown":
                found = parameters["exceptionDetails"]
                self.errors.append(("exception", found.get("exception", {}).get("description") or found["text"], found.get("url", "")))
            elif method == "Runtime.consoleAPICalled" and parameters["type"] in ("error", "warning", "assert"):
                words = " ".join(str(one.get("value", one.get("description", ""))) for one in parameters["args"])
                self.errors.append(("console", words, ""))
            elif method == "Network.responseReceived":
                self.statuses.append((parameters["response"]["url"], parameters["response"]["status"]))
            self.changed.notify_all()

    def size(self, width, height, is_mobile=False, scale=1):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=scale, mobile=is_mobile)

    def scheme(self, name):
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": name}])

    def go(self, url):
        """Opens the address, and waits until the document and its scripts are loaded."""
        with self.changed:
            before = self.counts["Page.loadEventFired"]
        failed = self.call("Page.navigate", url=url).get("errorText")
        if failed:
            raise BrowserProblem(f"{url}: {failed}")
        limit = time.monotonic() + patience(20)
        with self.changed:
            while self.counts["Page.loadEventFired"] == before:
                if time.monotonic() >= limit:
                    raise BrowserProblem(f"{url} was not loaded")
                self.changed.wait(limit - time.monotonic())

    def run(self, expression):
        """The value of a JavaScript expression, which may be a promise."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            found = answer["exceptionDetails"]
            raise BrowserProblem(f"{expression[:80]}: {found.get('exception', {}).get('description') or found['text']}")
        return answer["result"].get("value")

    def wait(self, condition, timeout=10.0, text=None):
        """Waits until the JavaScript condition has a true value, and returns the value. The page checks the condition
        after each change of its document, and at each frame."""
        milliseconds = int(patience(timeout) * 1000)
        expression = """new Promise((resolve) => {
            const check = () => { try { return (%s); } catch { return false; } };
            const start = performance.now();
            const step = () => {
                const value = check();
                if (value || performance.now() - start > %d) resolve(value instanceof Node || value || null);
                else setTimeout(step, 15);
            };
            step();
        })""" % (condition, milliseconds)
        limit = time.monotonic() + patience(timeout)
        while True:
            try:
                value = self.browser.call("Runtime.evaluate", self.session, timeout=timeout + 20, expression=expression, returnByValue=True,
                                          awaitPromise=True)["result"].get("value")
            except BrowserProblem:
                # The script failed, because the browser loaded a new page.
                if time.monotonic() > limit:
                    raise
                continue
            if value:
                return value
            raise BrowserProblem(f"not in time: {text or condition}; the page shows {self.text()[:300]!r}")

    def text(self, selector="body"):
        return self.run(f"document.querySelector({json.dumps(selector)})?.innerText ?? ''")

    def click(self, selector):
        """Clicks with the mouse in the middle of the element."""
        found = json.dumps(selector)
        self.wait(f"document.querySelector({found}) && document.querySelector({found}).getClientRects().length > 0", text=f"{selector} is shown")
        box = self.run(f"(() => {{ const node = document.querySelector({found}); node.scrollIntoView({{block: 'center'}});"
                       " const box = node.getBoundingClientRect(); return [box.x + box.width / 2, box.y + box.height / 2]; })()")
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=box[0], y=box[1], button="left", clickCount=1)

    def type(self, text):
        """Types into the element that has the focus."""
        self.call("Input.insertText", text=text)

    def press(self, key, shift=False):
        code, text = KEYS[key]
        modifiers = 8 if shift else 0
        more = {"text": text} if text else {}
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key, code="Space" if key == " " else key, windowsVirtualKeyCode=code, modifiers=modifiers, **more)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key, code="Space" if key == " " else key, windowsVirtualKeyCode=code, modifiers=modifiers)

    def fill(self, selector, text):
        self.run(f"(() => {{ const node = document.querySelector({json.dumps(selector)}); node.value = ''; node.focus(); }})()")
        self.type(text)

    def picture(self, path):
        data = self.call("Page.captureScreenshot", format="png", optimizeForSpeed=False)["data"]
        with open(path, "wb") as file:
            file.write(base64.b64decode(data))

    def cookies(self):
        return self.call("Network.getCookies")["cookies"]

    def take_errors(self):
        with self.changed:
            found, self.errors = self.errors, []
        return found

    def close(self):
        self.browser.listeners.pop(self.session, None)
        self.browser.call("Target.disposeBrowserContext", browserContextId=self.context)
