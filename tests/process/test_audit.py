"""The audit has a line of each change that needs the right to set GPUs, and keeps it however many lines users
without that right cause.
"""

import grp
import json
import os
import socket
import subprocess

import pytest

from control_yard import ControlYard
from program import PROGRAM, wait_until
from sim_world import World

GROUP = grp.getgrgid(100)
AUDIT = "/api/gpu/manage/audit?limit=1000"
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
