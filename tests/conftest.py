"""Fixtures for tests of whole processes: the program, daemons, worlds. Nothing outlives its test."""

import http.client
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time

import pytest

sys.path.insert(0, os.path.dirname(__file__))

PROGRAM = os.environ.get("GPUYARD_BIN", "build/release/gpuyard")
PATIENCE = 30  # seconds until a test gives up on something that must happen


def clean_environment(directory, **extra):
    """An environment in which the program finds nothing of this machine's user."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("GPUYARD_", "XDG_"))}
    return kept | {
        "HOME": str(directory),
        "XDG_RUNTIME_DIR": str(directory),
        "XDG_STATE_HOME": str(directory),
        "XDG_CONFIG_HOME": str(directory),
    } | extra


def program_for_others(directory):
    """A copy of the program, with its simulated NVML, that other users can run wherever the checkout
    lies. Every user must be able to enter `directory`."""
    place = os.path.join(directory, "bin")
    os.makedirs(os.path.join(place, "sim"), exist_ok=True)
    program = shutil.copy2(PROGRAM, place)
    library = shutil.copy2(os.environ["GPUYARD_SIM_LIB"], os.path.join(place, "sim"))
    for path in (place, os.path.join(place, "sim"), program, library):
        os.chmod(path, 0o755)
    return program


def wait_until(condition, what):
    """Polls until condition() is true and returns its value; fails the test after PATIENCE."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        value = condition()
        if value:
            return value
        time.sleep(0.02)
    pytest.fail(f"waited {PATIENCE} s for {what}")


class Answer:
    def __init__(self, response):
        self.status = response.status
        self.headers = {k.lower(): v for k, v in response.getheaders()}
        self.text = response.read().decode()

    def json(self):
        return json.loads(self.text)


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("localhost", timeout=PATIENCE)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


class Daemon:
    """A `gpuyard serve` with its own state, socket and free TCP port."""

    def __init__(self, directory, *arguments, program=PROGRAM, preexec_fn=None, **environment):
        self.directory = directory
        self.state = str(directory / "state")
        self.socket = str(directory / "gpuyard.sock")
        self.log_path = directory / "daemon.log"
        self.environment = clean_environment(directory, **environment)
        self.process = subprocess.Popen(
            [program, "serve", "--listen", "127.0.0.1:0", "--socket", self.socket,
             "--state", self.state, *arguments],
            env=self.environment, stdout=open(directory / "daemon.out", "w"),
            stderr=open(self.log_path, "w"), preexec_fn=preexec_fn)

    def log(self):
        return self.log_path.read_text()

    def ready(self):
        """Waits for the listeners and the first word about the driver."""
        def listening():
            assert self.process.poll() is None, f"the daemon ended:\n{self.log()}"
            return re.search(r"listening on http://127\.0\.0\.1:(\d+)", self.log())
        self.port = int(wait_until(listening, "the daemon to listen").group(1))
        wait_until(lambda: self.get("/api/gpu/snapshot").json()["generation"] > 0,
                   "the driver-host's first word")
        return self

    def get(self, path, unix=False, method="GET", headers=None, body=None):
        connection = (UnixConnection(self.socket) if unix else
                      http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE))
        try:
            connection.request(method, path, body=None if body is None else json.dumps(body),
                               headers=headers or {})
            return Answer(connection.getresponse())
        finally:
            connection.close()

    def driver_host(self):
        """The pid of the driver-host, or None."""
        for child in children(self.process.pid):
            if "driver-host" in command_line(child):
                return child
        return None

    def keeper(self):
        for child in children(self.process.pid):
            if "sim-keeper" in command_line(child):
                return child
        return None

    def stop(self, number=signal.SIGTERM):
        if self.process.poll() is None:
            self.process.send_signal(number)
        return self.process.wait(PATIENCE)


def children(pid):
    try:
        with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
            return [int(child) for child in file.read().split()]
    except FileNotFoundError:
        return []


def command_line(pid):
    try:
        with open(f"/proc/{pid}/cmdline", encoding="utf-8") as file:
            return file.read().replace("\0", " ")
    except (FileNotFoundError, ProcessLookupError):
        return ""


@pytest.fixture
def run(tmp_path):
    """Runs the program to its end: run("devices", "--json")."""
    def go(*arguments, **environment):
        return subprocess.run([PROGRAM, *arguments], env=clean_environment(tmp_path, **environment),
                              capture_output=True, text=True, timeout=PATIENCE, check=False)
    return go


@pytest.fixture
def daemon(tmp_path):
    """Starts daemons: daemon("--simulate", "4"). They are stopped after the test."""
    started = []

    def start(*arguments, wait=True, directory=None, **environment):
        place = directory or tmp_path / f"daemon{len(started)}"
        place.mkdir(exist_ok=True)
        one = Daemon(place, *arguments, **environment)
        started.append(one)
        return one.ready() if wait else one

    yield start
    for one in started:
        one.process.kill()
        one.process.wait()
