"""The first moments of a daemon with a slow disk: no answer says that something stored does not exist because it
has not been read yet. Clients try again, and Slurm's hooks leave a note.
"""

import contextlib
import http.server
import json
import os
import sqlite3
import threading
import time
from pathlib import Path

import pytest

import control_client
from fake_leasing import Server
from program import Caller, UnixConnection, clean_environment, wait_until
from shim import build_shim

SOURCES = Path(__file__).parent.parent.parent
FILLING = 8000  # lines of the audit: at 2 ms a page, two seconds of reading and more
JOB = "4711"


@pytest.fixture(scope="module")
def slow_reads(tmp_path_factory):
    return build_shim("slow_read.cpp", tmp_path_factory.mktemp("slow"))


class Yard(Caller):
    """A daemon with two GPUs whose state.db has something of each kind, and a long audit."""

    def __init__(self, daemon, world, place, library):
        world.start("--gpus", "2", "--load", "idle")
        self.place = place / "yard"
        self.place.mkdir()
        self.slow = place / "slow"
        config = place / "gpuyard.toml"
        config.write_text('[control]\nenabled = true\non_stop = "keep"\n', encoding="utf-8")
        self.begin = lambda wait: daemon(
            "--config", str(config), wait=wait, directory=self.place, LD_PRELOAD=library,
            SLOW_READ=str(self.slow), GPUYARD_SIM_WORLD=str(world.directory))
        self.daemon = self.begin(wait=True)
        self.environment = clean_environment(place, GPUYARD_SOCKET=self.daemon.socket)
        self.root = control_client.Caller(self.daemon.socket)
        wait_until(lambda: self.ask("POST", "/api/gpu/leases/adopt", {"pid": os.getpid()}).status != 503,
                   "the GPUs")
        self.token = self.must_ask("POST", "/api/gpu/tokens", {"name": "ci", "scope": "read"})["token"]["id"]
        self.silence = self.must_ask("POST", "/api/gpu/silences", {"rule": "thermal", "for_s": 600})["id"]
        self.window = self.must_ask("POST", "/api/gpu/energy/windows", {})["id"]
        self.must_ask("PUT", "/api/gpu/manage/1/power-limit", {"power_limit_mw": 300_000})
        self.lease = self.must_ask("POST", "/api/gpu/leases", {
            "gpus": 1, "binding": "detached", "ttl_s": 3600})["lease"]["id"]

    def ask(self, *request):
        return self.root.ask(*request)

    def must_ask(self, *request):
        answer = self.ask(*request)
        assert answer.status in (200, 201), answer.text
        return answer.json()

    def fill(self):
        self.daemon.kill()
        with contextlib.closing(sqlite3.connect(self.daemon.state + "/state.db")) as book:
            columns = [row[1] for row in book.execute("PRAGMA table_info(control_audit)")]
            rest = [name for name in columns if name != "number"]
            book.execute(f"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {FILLING}) "
                         f"INSERT INTO control_audit({','.join(rest)}) SELECT {','.join(rest)} FROM "
                         "(SELECT * FROM control_audit LIMIT 1), n")
            book.execute("UPDATE control_audit SET request_id = hex(randomblob(150))")
            book.commit()
            book.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def start(self, read_ms=2):
        """Returns once the daemon accepts connections, before it has read its state."""
        self.daemon.kill()
        self.root.close()
        self.slow.write_text(str(read_ms), encoding="ascii")
        self.daemon = self.begin(wait=False)

        def connects():
            with contextlib.suppress(OSError):
                return self.ask("GET", "/health").status == 200
        wait_until(connects, "the daemon to take connections", every=0.001)

    def is_reading(self):
        return self.ask("GET", "/api/gpu/leases").status == 503


@pytest.fixture
def yard(daemon, world, tmp_path, slow_reads):
    one = Yard(daemon, world, tmp_path, slow_reads)
    one.fill()
    return one


def all_routes(yard):
    """(method, pattern, path) of each route that is no stream and no page, with names of what exists."""
    names = {"lease": yard.lease, "token": yard.token, "silence": yard.silence, "window": yard.window,
             "id": "1", "job": JOB, "pod_namespace": "default", "pod": "trainer", "alert": "1", "operation": "1"}
    described = yard.ask("GET", "/openapi.json").json()["paths"]
    for pattern, methods in described.items():
        page = not pattern.startswith("/api/") and pattern not in ("/health", "/ready", "/metrics")
        if page or "/stream/" in pattern or pattern == "/api/gpu/events":
            continue
        path = pattern.format_map(names)
        for method in methods:
            if method in ("get", "put", "post", "delete"):
                yield method.upper(), pattern, path


def raw(socket, method, path, body=None):
    """Status, Retry-After and X-Gpuyard-Reading, and the body, on a connection of its own."""
    with contextlib.closing(UnixConnection(socket)) as connection:
        connection.request(method, path, body=body, headers={"Accept": "application/json"})
        response = connection.getresponse()
        again = (response.getheader("Retry-After"), response.getheader("X-Gpuyard-Reading"))
        return response.status, again, response.read()


def text_of(yard, path):
    return raw(yard.daemon.socket, "GET", path)[2].decode()


STORED = {  # routes, and the attribute of the yard that their answers contain once it has been read
    "/api/gpu/leases": "lease", "/api/gpu/leases/{lease}": "lease", "/api/gpu/tokens": "token",
    "/api/gpu/silences": "silence", "/api/gpu/energy/windows": "window",
    "/api/gpu/energy/windows/{window}": "window", "/api/gpu/usage?by=lease": "lease",
    "/api/gpu/manage/{id}": "setting", "/api/gpu/manage": "setting"}


def test_unread_state_returns_503_instead_of_404(yard):
    yard.setting = '"owner":"uid 0"'
    yard.start(read_ms=100)
    routes = list(all_routes(yard))
    assert len(routes) > 60
    put_off = set()
    for method, pattern, path in routes:
        status, again, body = raw(yard.daemon.socket, method, path, None if method == "GET" else b"{}")
        text = body.decode()
        what = f"{method} {path}: {status} {text[:300]}"
        if status == 503:  # also until the driver has been read
            assert again[0] == "1" or pattern == "/ready", what
            if again[1]:
                put_off.add((method, pattern))
        elif pattern in STORED and method == "GET":
            assert status == 200 and getattr(yard, STORED[pattern]) in text, what
        elif pattern not in ("/api/gpu/slurm/jobs/{job}", "/api/gpu/pods/{pod_namespace}/{pod}",
                             "/api/gpu/alerts/{alert}", "/api/gpu/alerts/{alert}/acknowledge",
                             "/api/gpu/manage/operations/{operation}"):  # none of these exists
            assert status != 404, what
    assert yard.is_reading(), "the daemon read its state before all routes were asked"
    yard.slow.unlink()
    assert {("GET", pattern) for pattern in STORED if "?" not in pattern} <= put_off
    assert ("DELETE", "/api/gpu/leases/{lease}") in put_off and ("GET", "/api/gpu/queue") in put_off
    assert not {pattern for _, pattern in put_off} & {
        "/health", "/ready", "/metrics", "/api/gpu/devices", "/api/gpu/snapshot", "/api/gpu/driver"}
    for pattern, name in STORED.items():
        path = pattern.format(lease=yard.lease, window=yard.window, id="1")
        wait_until(lambda: getattr(yard, name) in text_of(yard, path), f"{name} in {path}")
    assert yard.ask("GET", f"/api/gpu/leases/{yard.lease}").json()["lease"]["state"] == "held"


def test_a_release_right_after_the_start_succeeds(yard):
    yard.start()
    assert yard.is_reading()
    began = time.monotonic()
    lease = json.loads(yard.must("lease", "release", yard.lease, "--json"))["lease"]
    assert lease["id"] == yard.lease and lease["ending"] == "released"
    assert time.monotonic() - began > 0.5
    wait_until(lambda: yard.ask("GET", f"/api/gpu/leases/{yard.lease}").json()["lease"]["state"] == "ended",
               "its end")


def test_epilog_note_waits_until_leases_are_read(yard, tmp_path, record_property):
    record_property("contract", "S3")
    yard.slow.unlink(missing_ok=True)
    yard.daemon = yard.begin(wait=True)
    yard.root.close()
    minor = next(gpu["minor"] for gpu in yard.ask("GET", "/api/gpu/slurm").json()["gpus"]
                 if gpu["index"] == 1)
    wait_until(lambda: yard.ask("DELETE", f"/api/gpu/leases/{yard.lease}").status == 200, "the leases")
    wait_until(lambda: yard.ask("PUT", f"/api/gpu/slurm/jobs/{JOB}", {"uid": 1000, "minors": [minor]}).status
               == 200, "the job to begin")
    yard.start()
    assert yard.is_reading()
    spool = tmp_path / "spool"
    hook = {"SLURM_JOB_ID": JOB, "SLURMD_NODENAME": "n1"}
    done = yard.go("slurm", "end", "--spool", str(spool), **hook)
    assert done.returncode == 0, done.stderr
    assert yard.is_reading() and "still being checked" in done.stderr
    assert (spool / f"end-{JOB}").exists()
    wait_until(lambda: not yard.is_reading(), "the leases")

    def state():
        return yard.ask("GET", f"/api/gpu/slurm/jobs/{JOB}").json()["lease"]["state"]
    assert state() == "held"
    assert yard.go("slurm", "end", "--spool", str(spool), **hook).returncode == 0
    wait_until(lambda: state() == "ended", "the end of the job's lease")


class Busy:
    """A proxy of a daemon that answers 503 to the method `refused`, and records the calls about the job."""

    def __init__(self, place, socket):
        self.refused = None
        self.calls = []
        busy = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def log_message(self, *_):
                pass

            def address_string(self):
                return "unix"

            def reply(self):
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                if self.path.endswith(f"/jobs/{JOB}"):
                    busy.calls.append(self.command)
                if self.command == busy.refused:
                    status, text = 503, b'{"error":{"code":"unavailable","message":"still being read"}}'
                else:
                    status, _, text = raw(socket, self.command, self.path, body or None)
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            do_GET = do_POST = do_PUT = do_DELETE = reply

        self.socket = str(place / "busy.sock")
        self.server = Server(self.socket, Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


@pytest.fixture
def busy(daemon, world, tmp_path):
    world.start("--gpus", "1", "--load", "idle")
    one = Busy(tmp_path, daemon(GPUYARD_SIM_WORLD=str(world.directory)).socket)
    yield one
    one.server.shutdown()
    one.server.server_close()


def test_prolog_keeps_end_not_accepted_by_daemon(busy, tmp_path, record_property):
    record_property("contract", "S3")
    spool, programs = tmp_path / "spool", tmp_path / "programs"
    programs.mkdir()
    for name in ("slurmd", "sinfo", "scontrol"):
        (programs / name).write_text("#!/bin/sh\n")
        (programs / name).chmod(0o755)
    caller = Caller()
    caller.environment = clean_environment(tmp_path, GPUYARD_SOCKET=busy.socket, PATH=f"{programs}:/usr/bin:/bin",
                                           SLURM_JOB_ID=JOB, SLURM_JOB_UID="1000", SLURM_JOB_USER="alice",
                                           SLURM_JOB_GPUS="0", SLURMD_NODENAME="n1")

    def hook(verb):
        busy.calls.clear()
        done = caller.go("slurm", verb, "--spool", str(spool))
        assert done.returncode == 0, done.stderr
        return busy.calls, sorted(path.name for path in spool.glob(f"*-{JOB}"))

    wait_until(lambda: hook("begin") == (["PUT"], []), "the first run to begin")
    busy.refused = "DELETE"
    assert hook("end") == (["DELETE"], [f"end-{JOB}"])
    # The job is requeued. The daemon would take a beginning now for the first run's.
    assert hook("begin") == (["DELETE"], [f"begin-{JOB}", f"end-{JOB}"])
    assert hook("health") == (["DELETE"], [f"begin-{JOB}", f"end-{JOB}"])
    busy.refused = None
    assert hook("health") == (["DELETE", "PUT"], [])


def test_the_liveness_probe_passes_during_the_reading(yard):
    manifest = (SOURCES / "packaging/kubernetes/daemonset.yaml").read_text(encoding="utf-8")
    probe = manifest.split("livenessProbe:")[1].split("command: [")[1].split("]")[0]
    yard.start()
    assert yard.is_reading()
    words = [word.strip() for word in probe.split(",")]
    assert words[0] == "gpuyard"
    done = yard.go(*words[1:])
    assert yard.is_reading()
    assert done.returncode == 0, done.stderr
