"""The program that is tested, run as a daemon or to its end, and what a test needs to watch it."""

import contextlib
import http.client
import json
import os
import random
import re
import select
import shutil
import signal
import socket
import sqlite3
import subprocess
import tempfile
import time
from pathlib import Path

import pytest

PROGRAM = os.environ.get("GPUYARD_BIN", "build/release/gpuyard")
PATIENCE = 30  # seconds that a test waits for something that must happen


def clean_environment(directory, **extra):
    """An environment in which the program finds nothing of this machine's user."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("GPUYARD_", "XDG_"))}
    return kept | {
        "HOME": str(directory),
        "XDG_RUNTIME_DIR": str(directory),
        "XDG_STATE_HOME": str(directory),
        "XDG_CONFIG_HOME": str(directory),
    } | extra


@contextlib.contextmanager
def open_directory():
    """A directory that every user of the machine may enter: pytest's own are closed to others."""
    with tempfile.TemporaryDirectory(prefix="gpuyard-test-", ignore_cleanup_errors=True) as place:
        os.chmod(place, 0o755)
        yield Path(place)


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


def wait_until(condition, what, every=0.02):
    """Polls until condition() is true and returns its value; fails the test after PATIENCE. `what` is
    a text, or what makes one then."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        value = condition()
        if value:
            return value
        time.sleep(every)
    pytest.fail(f"waited {PATIENCE} s for {what() if callable(what) else what}")


def read_until(stream, words):
    """Reads a process's output from a pipe until these words; fails the test after PATIENCE.
    Reads past the stream's own buffer, as communicate() does, so that no line is lost between them."""
    text = b""
    deadline = time.monotonic() + PATIENCE
    while words.encode() not in text:
        left = deadline - time.monotonic()
        if left <= 0 or not select.select([stream], [], [], left)[0]:
            pytest.fail(f"waited {PATIENCE} s for {words!r}; there is {text!r}")
        more = os.read(stream.fileno(), 65536)
        assert more, f"it ended without {words!r}: {text!r}"
        text += more
    return text.decode()


def free_port():
    """For a program that cannot choose one itself: none that the kernel gives to anybody who asks for
    any port, as other tests do meanwhile."""
    while True:
        port = random.randrange(20000, 32768)
        with socket.socket() as probe:
            with contextlib.suppress(OSError):
                probe.bind(("127.0.0.1", port))
                return port


class Caller:
    """Calls the program in an `environment`."""

    environment = {}

    def go(self, *arguments, **environment):
        return subprocess.run([PROGRAM, *arguments], env=self.environment | environment,
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PATIENCE,
                              check=False)

    def must(self, *arguments, **environment):
        done = self.go(*arguments, **environment)
        assert done.returncode == 0, f"{arguments}: {done.stdout}{done.stderr}"
        return done.stdout


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


def plain_world(arguments):
    """The arguments of `serve` for simulated GPUs that only a test changes: from four GPUs on they would
    be a demo, with processes and leases of its own."""
    named = {"--load", "--scenario"} & set(arguments)
    return [*arguments, "--load", "mixed"] if "--simulate" in arguments and not named else [*arguments]


class Daemon:
    """A `gpuyard serve` with its own state, socket and free TCP port. `demo`: as a newcomer has it.
    `runtime`: the socket's directory, if it is another."""

    def __init__(self, directory, *arguments, program=PROGRAM, preexec_fn=None, demo=False, runtime=None,
                 **environment):
        self.directory = directory
        self.state = str(directory / "state")
        self.socket = str((runtime or directory) / "gpuyard.sock")
        self.log_path = directory / "daemon.log"
        self.environment = clean_environment(directory, **environment)
        self.process = subprocess.Popen(
            [program, "serve", "--listen", "127.0.0.1:0", "--socket", self.socket,
             "--state", self.state, *(arguments if demo else plain_world(arguments))],
            env=self.environment, stdout=open(directory / "daemon.out", "w"),
            stderr=open(self.log_path, "w"), preexec_fn=preexec_fn)

    def log(self):
        return self.log_path.read_text()

    def wait_for_log(self, words):
        wait_until(lambda: words in self.log(), f"{words!r} in the log")

    def wait_for_readings(self, count):
        """Waits for `count` more rounds: the first one's readings are published after the second."""
        def generation():
            return self.get("/api/gpu/snapshot").json()["generation"]
        before = generation()
        wait_until(lambda: generation() >= before + count, f"{count} more rounds of readings")

    def kept(self, *queries):
        """Rows of the daemon's state.db, which it locks; None while it is being written."""
        with tempfile.TemporaryDirectory() as place:
            for name in ("state.db", "state.db-wal"):
                with contextlib.suppress(FileNotFoundError):
                    shutil.copy(f"{self.state}/{name}", place)
            try:
                with contextlib.closing(sqlite3.connect(f"{place}/state.db")) as book:
                    return [row for query in queries for row in book.execute(query)]
            except sqlite3.DatabaseError:
                return None

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

    def sim(self, *arguments):
        """`gpuyard sim ...` on the GPUs that it simulates itself; what that prints."""
        done = subprocess.run([PROGRAM, "sim", *arguments], capture_output=True, text=True, check=False,
                              env=self.environment | {"GPUYARD_SIM_WORLD": self.state + "/world"},
                              timeout=PATIENCE)
        assert done.returncode == 0, f"sim {' '.join(arguments)}: {done.stderr}"
        return done.stdout

    def driver_host(self):
        """The pid of the driver-host, or None."""
        for child in children(self.process.pid):
            if "driver-host" in command_line(child):
                return child
        return None

    def setter(self):
        """The pid of the setter that it has started, or None."""
        for child in children(self.process.pid):
            if command_line(child).split()[1:2] == ["setter"]:
                return child
        return None

    def keeper(self):
        for child in children(self.process.pid):
            if "sim-keeper" in command_line(child):
                return child
        return None

    def kill(self):
        self.process.kill()
        self.process.wait(PATIENCE)

    def stop(self, number=signal.SIGTERM):
        if self.process.poll() is None:
            self.process.send_signal(number)
        return self.process.wait(PATIENCE)


def state_of(pid):
    """The kernel's letter for it, or None."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
            return file.read().rsplit(")", 1)[1].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return None


def runs(pid):
    """Returns whether the process still runs: an unreaped one does not."""
    return state_of(pid) not in (None, "Z")


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
