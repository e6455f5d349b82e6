"""A headless Chromium, driven over its debugging pipe: what a page shows, asks for and complains of.

    with Chromium(tmp_path) as browser:
        page = browser.open("http://127.0.0.1:9410/docs")
        page.wait_for("document.title == 'gpuyard API'")
        page.requests, page.complaints

It has a profile of its own that ends with the test, and it can reach this machine alone.
"""

import base64
import contextlib
import fcntl
import json
import os
import select
import shutil
import subprocess
import time

FLAGS = ["--headless=new", "--no-sandbox",  # as root there is none
         "--remote-debugging-pipe", "--no-first-run", "--disable-gpu", "--disable-dev-shm-usage",
         "--disable-background-networking", "--disable-component-update", "--disable-sync",
         "--disable-default-apps", "--disable-extensions", "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"]
PATIENCE = 60  # seconds for anything a browser is asked to do
BUSY_MS = 500  # longer than keys take from this process to the page


def above_ten(descriptor):
    """The same, out of the way of 3 and 4."""
    moved = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 10)
    os.close(descriptor)
    return moved


def key_commands(name):
    """The commands that press a key and let it go."""
    code, text = {"Enter": (13, "\r"), "Tab": (9, ""), "Escape": (27, ""), "Home": (36, "")}.get(
        name, (ord(name.upper()[0]), name))
    key = {"key": name, "code": name, "windowsVirtualKeyCode": code}
    return [("Input.dispatchKeyEvent", {"type": "keyDown", **key, **({"text": text} if text else {})}),
            ("Input.dispatchKeyEvent", {"type": "keyUp", **key})]


class Chromium:
    def __init__(self, directory, *flags):
        program = shutil.which("chromium")
        assert program, "chromium is not installed (tools/packages/test.txt)"
        from_us, self._to = (above_ten(end) for end in os.pipe())
        self._from, to_us = (above_ten(end) for end in os.pipe())
        # Chromium reads commands on descriptor 3 and answers on 4.
        self._process = subprocess.Popen(
            ["/bin/bash", "-c", f'exec "$@" 3<&{from_us} 4>&{to_us}', "bash", program, *FLAGS, *flags,
             f"--user-data-dir={directory / 'chromium'}", "about:blank"],
            pass_fds=(from_us, to_us), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=open(directory / "chromium.log", "w"))
        os.close(from_us)
        os.close(to_us)
        self._pending = b""
        self._serial = 0
        self.pages = {}  # by their sessions

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._process.kill()
        self._process.wait()
        os.close(self._to)
        os.close(self._from)

    @contextlib.contextmanager
    def context(self):
        """For open(): cookies and storage of its own, as in a private window. Its pages are closed at the end."""
        context = self.call("Target.createBrowserContext")
        try:
            yield context
        finally:
            self.call("Target.disposeBrowserContext", context)

    def open(self, url, context=None):
        context = context or {}
        target = self.call("Target.createTarget", {"url": "about:blank", "newWindow": True, **context})["targetId"]
        session = self.call("Target.attachToTarget", {"targetId": target, "flatten": True})
        return Page(self, context, session["sessionId"], url)

    def call(self, method, parameters=None, session=None):
        """The result of a command; events that arrive before it go to their page."""
        return self.call_all([(method, parameters)], session)[0]

    def call_all(self, commands, session=None):
        """The results of commands, all of which are sent before the first is answered."""
        awaited = {}
        for method, parameters in commands:
            self._serial += 1
            awaited[self._serial] = None
            message = {"id": self._serial, "method": method, "params": parameters or {}}
            if session:
                message["sessionId"] = session
            os.write(self._to, json.dumps(message).encode() + b"\0")
        deadline = time.monotonic() + PATIENCE
        while None in awaited.values():
            answer = self._receive(deadline)
            if answer.get("id") in awaited:
                assert "error" not in answer, answer["error"]
                awaited[answer["id"]] = answer["result"]
        return list(awaited.values())

    def listen(self, seconds):
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            if b"\0" in self._pending or select.select([self._from], [], [], left)[0]:
                self._receive(deadline + PATIENCE)

    def _receive(self, deadline):
        while b"\0" not in self._pending:
            ready, _, _ = select.select([self._from], [], [], max(0, deadline - time.monotonic()))
            assert ready, "Chromium did not answer"
            more = os.read(self._from, 65536)
            assert more, "Chromium has ended"
            self._pending += more
        text, _, self._pending = self._pending.partition(b"\0")
        message = json.loads(text)
        if "method" in message:
            if page := self.pages.get(message.get("sessionId")):
                page.note(message["method"], message.get("params", {}))
        return message


class Page:
    def __init__(self, browser, context, session, url):
        self.requests = []    # every URL the page asked for
        self.complaints = []  # console errors, exceptions, what the content policy blocked
        self.received = 0     # bytes of answers, as they came over the wire
        self._browser, self._context, self._session = browser, context, session
        browser.pages[session] = self
        for domain in ("Network", "Runtime", "Log", "Page"):
            self.call(f"{domain}.enable")
        self.call("Page.navigate", {"url": url})

    def evaluate(self, expression):
        result = self.call("Runtime.evaluate",
                           {"expression": expression, "returnByValue": True})
        assert "exceptionDetails" not in result, result["exceptionDetails"]
        return result["result"].get("value")

    def evaluate_later(self, promise):
        """Returns the value of a promise."""
        result = self.call("Runtime.evaluate", {"expression": promise, "returnByValue": True, "awaitPromise": True})
        assert "exceptionDetails" not in result, result["exceptionDetails"]
        return result["result"].get("value")

    def look(self, width, height, dark=False):
        """A screen of this size, whose user likes it dark or light."""
        self.call("Emulation.setDeviceMetricsOverride",
                  {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False})
        self.call("Emulation.setEmulatedMedia",
                  {"features": [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]})

    def picture(self, path, width, height, dark=False):
        """A screenshot as PNG, once colours have followed with the next values."""
        self.look(width, height, dark)
        self.evaluate_later("new Promise((drawn) => setTimeout(drawn, 1500))")
        path.write_bytes(base64.b64decode(self.call("Page.captureScreenshot", {})["data"]))

    def key(self, name):
        """Presses a key, as the keyboard sends it."""
        for command in key_commands(name):
            self.call(*command)

    def keys_while_busy(self, *names):
        """Presses keys while a script keeps the page busy: all wait when it ends, and no frame is drawn
        between them."""
        busy = f"for (const end = performance.now() + {BUSY_MS}; performance.now() < end;); 0"
        self._browser.call_all([("Runtime.evaluate", {"expression": busy}),
                                *(command for name in names for command in key_commands(name))], self._session)

    def type(self, selector, text):
        """Puts text into a field, as if it was typed."""
        self.evaluate(f"(() => {{ const field = document.querySelector({json.dumps(selector)}); field.value = "
                      f"{json.dumps(text)}; field.dispatchEvent(new Event('input', {{bubbles: true}})); }})()")

    def wait_for(self, expression):
        deadline = time.monotonic() + PATIENCE
        while not self.evaluate(f"!!({expression})"):
            assert time.monotonic() < deadline, \
                f"waited {PATIENCE} s for {expression}; the page complains: {self.complaints}"
            time.sleep(0.05)

    def text(self):
        return self.evaluate("document.body.innerText")

    def call(self, method, parameters=None):
        return self._browser.call(method, parameters, self._session)

    def listen(self, seconds):
        """Records the events of the browser."""
        self._browser.listen(seconds)

    def another(self, url):
        """A window of the same browser."""
        return self._browser.open(url, self._context)

    def hide(self):
        """Opens another tab in front of it, in the same window."""
        self._browser.call("Target.createTarget", {"url": "about:blank", **self._context})

    def note(self, method, event):
        if method == "Network.requestWillBeSent":
            self.requests.append(event["request"]["url"])
        elif method == "Network.dataReceived":
            self.received += event["encodedDataLength"] or event["dataLength"]
        elif method == "Network.loadingFailed":
            self.complaints.append(f"a request failed: {event['errorText']}")
        elif method == "Runtime.exceptionThrown":
            details = event["exceptionDetails"]
            self.complaints.append(details.get("exception", {}).get("description", details["text"]))
        elif method == "Runtime.consoleAPICalled" and event["type"] in ("error", "assert"):
            self.complaints.append(" ".join(str(a.get("value", a)) for a in event["args"]))
        elif method == "Log.entryAdded" and event["entry"]["level"] == "error":
            self.complaints.append(event["entry"]["text"])
