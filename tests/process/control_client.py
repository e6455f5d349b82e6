"""A client that changes GPUs: keep-alive HTTP over the daemon's Unix socket, as any user."""

import ctypes
import http.client
import json
import os
import platform
import socket
import threading

from program import PATIENCE

# setgroups, setresgid, setresuid, setfsuid: by number, because glibc's change every thread.
CALLS = {"x86_64": (116, 119, 117, 122), "aarch64": (159, 149, 147, 151)}[platform.machine()]


def become(uid, gid, groups):
    """Makes this thread alone another user, who may still enter directories as before."""
    libc = ctypes.CDLL(None, use_errno=True)
    setgroups, setresgid, setresuid, setfsuid = CALLS
    unchanged = ctypes.c_long(-1)

    def must(number, *arguments):
        if libc.syscall(ctypes.c_long(number), *arguments) != 0:
            raise OSError(ctypes.get_errno(), f"system call {number}")
    must(setgroups, ctypes.c_long(len(groups)), (ctypes.c_uint * len(groups))(*groups))
    must(setresgid, unchanged, ctypes.c_long(gid), unchanged)
    must(setresuid, unchanged, ctypes.c_long(uid), unchanged)
    libc.syscall(ctypes.c_long(setfsuid), ctypes.c_long(0))


def connect(path, uid=None, gid=None, groups=()):
    """A socket whose peer is this user, in the kernel's eyes."""
    sock = socket.socket(socket.AF_UNIX)
    sock.settimeout(PATIENCE)
    failure = []

    def go():
        try:
            become(uid, uid if gid is None else gid, groups)
            sock.connect(path)
        except OSError as error:
            failure.append(error)
    if uid is None:
        sock.connect(path)
        return sock
    thread = threading.Thread(target=go)
    thread.start()
    thread.join()
    if failure:
        raise failure[0]
    return sock


class Answer:
    def __init__(self, status, text):
        self.status = status
        self.text = text

    def json(self):
        return json.loads(self.text)

    def error(self):
        """The error's code, or None."""
        return self.json().get("error", {}).get("code") if self.status >= 400 else None

    def changes(self):
        return self.json()["changes"]

    def outcomes(self):
        """The result for each GPU: "applied", or the code of the error."""
        return [change["outcome"] if change["error"] is None else change["error"]["code"]
                for change in self.changes()]


class Caller:
    """One user of a daemon, on one connection for as long as the daemon keeps it."""

    def __init__(self, path, uid=None, gid=None, groups=()):
        self.path = path
        self.who = {"uid": uid, "gid": gid, "groups": groups}
        self.connection = None
        self.connections = 0

    def owner(self):
        return f"uid {os.geteuid() if self.who['uid'] is None else self.who['uid']}"

    def open(self):
        self.connection = http.client.HTTPConnection("localhost", timeout=PATIENCE)
        self.connection.sock = connect(self.path, **self.who)
        self.connections += 1

    def close(self):
        if self.connection is not None:
            self.connection.close()
        self.connection = None

    def ask(self, method, path, body=None, raw=None):
        """The answer. OSError or HTTPException: there is none, because the daemon went away."""
        if self.connection is None or self.connection.sock is None:
            self.open()
        text = raw if raw is not None else None if body is None else json.dumps(body)
        try:
            self.connection.request(method, path, body=text)
            response = self.connection.getresponse()
            return Answer(response.status, response.read().decode())
        except BaseException:
            self.close()
            raise

    def try_ask(self, method, path, body=None):
        """The answer, or None where the daemon went away before there was one."""
        try:
            return self.ask(method, path, body)
        except (OSError, http.client.HTTPException):
            return None

    def begin(self, method, path, body=None):
        """The same beside the test: .join(), then .answer."""
        return Asking(self, method, path, body)

    # The settings, by path.

    def put(self, gpu, what, body, wait=True):
        path = f"/api/gpu/manage/{gpu}/{what}"
        return self.ask("PUT", path, body) if wait else self.begin("PUT", path, body)

    def delete(self, gpu, what, wait=True, **query):
        asked = "&".join(f"{name}={str(value).lower()}" for name, value in query.items())
        path = f"/api/gpu/manage/{gpu}/{what}" + (f"?{asked}" if asked else "")
        return self.ask("DELETE", path) if wait else self.begin("DELETE", path)

    def power(self, gpu, watts, wait=True, **wish):
        return self.put(gpu, "power-limit", {"power_limit_mw": round(watts * 1000)} | wish, wait)

    def clocks(self, gpu, least, most, wait=True, **wish):
        return self.put(gpu, "gpu-clocks", {"min_clock_mhz": least, "max_clock_mhz": most} | wish, wait)

    def persistence(self, gpu, enabled, **wish):
        return self.put(gpu, "persistence", {"enabled": enabled} | wish)

    def reset(self, gpu, wait=True, **wish):
        path = f"/api/gpu/manage/{gpu}/reset"
        return self.ask("POST", path, wish) if wait else self.begin("POST", path, wish)

    def restore_all(self, gpu="all", **wish):
        return self.ask("POST", f"/api/gpu/manage/{gpu}/restore", wish)

    def managed(self, gpu, setting="power_limit"):
        """Returns one setting by GET: {"standing", "now", "claims", ...}; None while the driver is
        away."""
        answer = self.ask("GET", f"/api/gpu/manage/{gpu}")
        if answer.status == 503:
            return None
        return next(each for each in answer.json()["gpus"][0]["settings"] if each["setting"] == setting)

    def standing(self, gpu, setting="power_limit"):
        managed = self.managed(gpu, setting)
        return managed and managed["standing"]


class Asking(threading.Thread):
    def __init__(self, caller, *request):
        super().__init__(daemon=True)
        self.caller = caller
        self.request = request
        self.answer = None
        self.start()

    def run(self):
        self.answer = self.caller.try_ask(*self.request)

    def result(self):
        """The answer, or None where there was none."""
        self.join(PATIENCE)
        assert not self.is_alive(), f"{self.request} was not answered"
        return self.answer
