"""The audit has a line of each change that needs the right to set GPUs, and keeps it however many lines users
without that right cause.
"""

import contextlib
import grp
import json
import os
import re
import socket
import subprocess

import pytest

from control_yard import ControlYard
from program import PATIENCE, PROGRAM, wait_until
from sim_world import World

GROUP = grp.getgrgid(100)
AUDIT = "/api/gpu/manage/audit?limit=1000"
MANAGE = "/api/gpu/manage/0"

# Each route that needs the scope control or admin, in the order of the calls: path and body of a call that
# changes something, and the beginning of its line in the audit.
CHANGES = {
    "POST /api/gpu/alerts/{alert}/acknowledge":
        ("/api/gpu/alerts/{alert}/acknowledge", {"note": "on it"}, "acknowledge alert "),
    "POST /api/gpu/alerts/test": ("/api/gpu/alerts/test", {}, "test all sinks"),
    "POST /api/gpu/silences": ("/api/gpu/silences", {"for_s": 60, "rule": "xid-fatal"}, "silence xid-fatal until "),
    "DELETE /api/gpu/silences/{silence}": ("/api/gpu/silences/{silence}", None, "end the silence of xid-fatal by uid "),
    "PUT /api/gpu/manage/{id}/power-limit": (f"{MANAGE}/power-limit", {"power_limit_mw": 300000}, "set power_limit to "),
    "DELETE /api/gpu/manage/{id}/power-limit": (f"{MANAGE}/power-limit", None, "restore power_limit"),
    "PUT /api/gpu/manage/{id}/gpu-clocks":
        (f"{MANAGE}/gpu-clocks", {"min_clock_mhz": 900, "max_clock_mhz": 1200}, "set gpu_clocks to "),
    "DELETE /api/gpu/manage/{id}/gpu-clocks": (f"{MANAGE}/gpu-clocks", None, "restore gpu_clocks"),
    "PUT /api/gpu/manage/{id}/memory-clocks":
        (f"{MANAGE}/memory-clocks", {"min_clock_mhz": 2619, "max_clock_mhz": 2619}, "set memory_clocks to "),
    "DELETE /api/gpu/manage/{id}/memory-clocks": (f"{MANAGE}/memory-clocks", None, "restore memory_clocks"),
    "PUT /api/gpu/manage/{id}/persistence": (f"{MANAGE}/persistence", {"enabled": True}, "set persistence to "),
    "DELETE /api/gpu/manage/{id}/persistence": (f"{MANAGE}/persistence", None, "restore persistence"),
    "PUT /api/gpu/manage/{id}/compute-mode":
        (f"{MANAGE}/compute-mode", {"compute_mode": "prohibited"}, "set compute_mode to "),
    "DELETE /api/gpu/manage/{id}/compute-mode": (f"{MANAGE}/compute-mode", None, "restore compute_mode"),
    "PUT /api/gpu/manage/{id}/ecc": (f"{MANAGE}/ecc", {"enabled": False}, "set ecc"),
    "DELETE /api/gpu/manage/{id}/ecc": (f"{MANAGE}/ecc", None, "restore ecc"),
    "POST /api/gpu/manage/{id}/restore": (f"{MANAGE}/restore", {}, "restore power_limit"),
    "POST /api/gpu/manage/{id}/clear-ecc": (f"{MANAGE}/clear-ecc", {"counter": "volatile"}, "clear volatile ECC"),
    "PUT /api/gpu/manage/{id}/cordon": (f"{MANAGE}/cordon", {"reason": "fan"}, "cordon: fan"),
    "DELETE /api/gpu/manage/{id}/cordon": (f"{MANAGE}/cordon", None, "uncordon"),
    "PUT /api/gpu/manage/{id}/override":
        ("/api/gpu/manage/2/override", {"reason": "a stuck sensor"}, "lease although withheld: a stuck sensor"),
    "POST /api/gpu/slurm/check": ("/api/gpu/slurm/check", {}, "leave the GPUs to Slurm"),
    "DELETE /api/gpu/slurm": ("/api/gpu/slurm", None, "lease the GPUs again, without Slurm"),
    "DELETE /api/gpu/pods": ("/api/gpu/pods", None, "lease the GPUs again, without Kubernetes"),
    "POST /api/gpu/manage/{id}/reset": (f"{MANAGE}/reset", {}, "reset"),
}
# Routes that change the records of leases, which have their own history, repeat a report, or only read.
ELSEWHERE = {"PUT /api/gpu/slurm/jobs/{job}", "DELETE /api/gpu/slurm/jobs/{job}", "GET /api/gpu/manage/audit",
             "PUT /api/gpu/pods/{pod_namespace}/{pod}", "DELETE /api/gpu/pods/{pod_namespace}/{pod}",
             "PUT /api/gpu/kubernetes/plugin"}

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can be several users")


@pytest.fixture
def yard(tmp_path):
    place = World(tmp_path)
    yard = ControlYard(place, tmp_path, "--gpus", "3", "--load", "idle", group=GROUP.gr_name,
                       reset_command=[os.path.abspath(PROGRAM), "sim", "reset", "--as-driver", "--gpu", "{index}"])
    try:
        yield yard.start()
    finally:
        yard.end()
        place.end()


def audit(yard, **which):
    lines = yard.root.ask("GET", AUDIT).json()["entries"]
    return [line for line in lines if all(line[name] == value for name, value in which.items())]


def member(yard, uid=1005):
    return yard.caller(uid, gid=GROUP.gr_gid)


def routes(yard):
    """(method, pattern) of each route of the API's description."""
    described = yard.root.ask("GET", "/openapi.json").json()["paths"]
    return [(method.upper(), pattern) for pattern, methods in described.items() for method in methods]


def test_each_change_that_needs_control_has_a_line(yard):
    yard.world.xid(1, 79)
    alert = wait_until(lambda: [one for one in yard.daemon.get("/api/gpu/alerts").json()["alerts"]
                                if one["rule"] == "xid-fatal"], "an alert")[0]["number"]
    yard.world.load(2, "steady:1:7G")  # by no process
    wait_until(lambda: [one for one in yard.daemon.get("/api/gpu/queue").json()["withheld"]
                        if one["why"] == "in_use"], "a GPU that is in use by no process")

    def call(who, name):
        method, pattern = name.split(" ")
        path, body, _ = CHANGES.get(name, (pattern, {"no": "such field"}, ""))
        silences = yard.daemon.get("/api/gpu/silences").json()["silences"]
        names = {"{alert}": str(alert), "{silence}": silences[0]["id"] if silences else "none", "{id}": "0",
                 "{job}": "7", "{pod_namespace}": "default", "{pod}": "trainer", "{lease}": "none-of-these",
                 "{window}": "none", "{token}": "none"}
        for field, value in names.items():
            path = path.replace(field, value)
        return who.ask(method, path, body)

    # The daemon's refusals name the routes that need the right: the list above must have each.
    stranger = yard.caller(4242)
    needs = re.compile('needs the scope "(control|admin)"')
    refused = {f"{method} {pattern}" for method, pattern in routes(yard) if method != "GET"
               and needs.search(call(stranger, f"{method} {pattern}").json().get("error", {}).get("message", ""))}
    assert refused | ELSEWHERE == set(CHANGES) | ELSEWHERE
    assert ("GET", "/api/gpu/manage/audit") in routes(yard)

    for name, (_, _, says) in CHANGES.items():
        if name.endswith("/restore"):
            assert yard.root.power(0, 310).status == 200
        if name == "DELETE /api/gpu/pods":  # the line of DELETE /api/gpu/slurm left nothing to forget
            assert yard.root.ask("POST", "/api/gpu/slurm/check", {}).status == 200
        last = audit(yard)[-1]["number"]
        answer = call(yard.root, name)
        assert answer.status < 300, (name, answer.text)
        lines = wait_until(lambda: [line for line in audit(yard, by=yard.root.owner()) if line["number"] > last],
                           f"a line of {name}")
        assert len(lines) == 1 and lines[0]["action"].startswith(says), (name, lines)
        assert lines[0]["request_id"] and lines[0]["error"] is None, lines
        assert (lines[0]["index"] is not None) == ("/manage/" in name or "acknowledge" in name), (name, lines)

    # A request that changes nothing has no line.
    wait_until(lambda: call(yard.root, "DELETE /api/gpu/manage/{id}/cordon").status == 200, "the driver to be back")
    last = audit(yard)[-1]["number"]
    for name in ("GET /api/gpu/manage/audit", "POST /api/gpu/slurm/check", "POST /api/gpu/slurm/check",
                 "DELETE /api/gpu/slurm", "DELETE /api/gpu/slurm", "DELETE /api/gpu/manage/{id}/cordon"):
        assert call(yard.root, name).status == 200, name
    new = [line["action"] for line in audit(yard) if line["number"] > last]
    assert new == ["leave the GPUs to Slurm", "lease the GPUs again, without Slurm"]


def test_a_forced_release_is_in_the_audit(yard):
    claim = {"id": "lease-held-by-alice", "gpus": 2, "binding": "detached", "ttl_s": 600}
    alice = yard.caller(1001)
    assert alice.ask("POST", "/api/gpu/leases", claim).json()["lease"]["state"] == "held"
    assert yard.root.ask("DELETE", "/api/gpu/leases/lease-held-by-alice?force=true&reason=repair").status == 200
    lines = wait_until(lambda: [line for line in audit(yard) if line["action"].startswith("release ")], "its lines")
    assert [line["action"] for line in lines] == ["release lease lease-held-by-alice of uid 1001: repair"] * 2
    assert len({line["index"] for line in lines}) == 2 and all(line["forced"] for line in lines)
    # Actions of holders are in the history of leases alone.
    assert alice.ask("POST", "/api/gpu/leases", claim | {"id": "another-lease-of-alice"}).status == 200
    assert alice.ask("DELETE", "/api/gpu/leases/another-lease-of-alice").status == 200
    assert not audit(yard, by="uid 1001")


def test_the_audit_is_printed_as_a_table(yard):
    assert member(yard).put(1, "cordon", {"reason": "its fan is replaced"}).status == 200
    assert yard.root.ask("POST", "/api/gpu/slurm/check", {}).status == 200
    table = subprocess.run([PROGRAM, "audit", "--socket", yard.daemon.socket], capture_output=True, text=True,
                           check=True).stdout.splitlines()
    by_member = next(line for line in table if "cordon" in line)
    assert "uid 1005" in by_member and "cordon: its fan is replaced" in by_member and by_member.endswith("done")
    assert next(line for line in table if "leave the GPUs to Slurm" in line).endswith("done")
    of_one = subprocess.run([PROGRAM, "audit", "1", "--socket", yard.daemon.socket], capture_output=True,
                            text=True, check=True).stdout
    assert "cordon" in of_one and "Slurm" not in of_one


def test_slurm_is_forgotten_at_roots_request(yard):
    def gpuyard(*words):
        return subprocess.run([PROGRAM, *words, "--socket", yard.daemon.socket], capture_output=True, text=True,
                              check=False)
    claim = {"binding": "detached", "ttl_s": 60}
    alice = yard.caller(1001)
    assert yard.root.ask("POST", "/api/gpu/slurm/check", {}).status == 200
    assert alice.ask("POST", "/api/gpu/leases", claim).status == 409
    assert alice.ask("DELETE", "/api/gpu/slurm").status == 403
    # A job of the last day makes the next daemon observe as well, unless Slurm is forgotten.
    assert yard.root.ask("PUT", "/api/gpu/slurm/jobs/7", {"uid": 1001, "minors": [0]}).status == 200
    busy = gpuyard("slurm", "forget")
    assert busy.returncode == 7 and "of a Slurm job holds GPUs" in busy.stderr, busy
    assert yard.root.ask("DELETE", "/api/gpu/slurm/jobs/7").status == 200
    forgotten = wait_until(lambda: (done := gpuyard("slurm", "forget")).returncode == 0 and done, "the job's end")
    assert "until a Slurm hook runs" in forgotten.stdout
    got = alice.ask("POST", "/api/gpu/leases", claim)
    assert got.json()["lease"]["state"] == "held", got.text
    yard.stop()
    yard.start()
    assert not yard.daemon.get("/api/gpu/slurm").json()["observes"]


def test_user_with_fewer_rights_evicts_no_audit_line(yard):
    """A user creates and revokes tokens and is refused, again and again. The lines of a member and of another
    user stay."""
    assert member(yard).power(0, 333).status == 200
    assert yard.caller(1002).put(0, "cordon", {"reason": "mine"}).status == 403
    flooder = yard.caller(1001)
    for _ in range(200):
        made = flooder.ask("POST", "/api/gpu/tokens", {"name": "t", "scope": "read"})
        if made.status == 201:
            flooder.ask("DELETE", f"/api/gpu/tokens/{made.json()['token']['id']}")
        flooder.put(0, "cordon", {"reason": "x"})
    lines = wait_until(lambda: (found := audit(yard)) and len(found) > 60 and found, "the lines")
    by_flooder = [line for line in lines if line["by"] == "uid 1001"]
    assert sum(line["outcome"] == "refused" for line in by_flooder) == 30
    assert sum(line["outcome"] == "done" for line in by_flooder) == 30
    assert [line for line in lines if line["by"] == "uid 1005" and line["action"] == "set power_limit to 333 W"]
    assert [line for line in lines if line["by"] == "uid 1002"]
    sources = dict(yard.daemon.kept("SELECT by, source FROM control_audit GROUP BY by, source "
                                    "HAVING by IN ('uid 1005', 'uid 1002')"))
    assert sources == {"uid 1005": "user", "uid 1002": "refused"}
    assert sorted(yard.daemon.kept("SELECT DISTINCT source FROM control_audit WHERE by = 'uid 1001'")) == [
        ("ordinary",), ("refused",)]


def test_addresses_of_loopback_are_one_party(yard):
    """A token sent without TLS from 127.9.9.9 keeps its line, whatever other addresses send."""
    with contextlib.ExitStack() as connections:
        def send(address):
            one = connections.enter_context(socket.create_connection(("127.0.0.1", yard.daemon.port), PATIENCE,
                                                                     source_address=(address, 0)))
            one.sendall(b"GET /api/gpu/leases HTTP/1.1\r\nHost: localhost\r\n"
                         b"Authorization: Bearer gpy_" + b"x" * 51 + b"\r\n\r\n")
            return one
        assert b" 403 " in send("127.9.9.9").recv(100)
        sent = [send(f"127.1.{number}.1") for number in range(200)]
        # The answers of the first are delayed, and those of the last are not: the daemon has read them all.
        assert b" 429 " in sent[-1].recv(100)
        lines = audit(yard, action="invalid token")
    assert [line["by"] for line in lines] == ["127.9.9.9"], json.dumps(lines[:5])
