"""Processes on GPUs belong to a lease, to none, or cannot be attributed. Real processes on
simulated GPUs."""

import json
import os
import subprocess
import sys

import pytest

from control_client import Caller
from program import wait_until

LEASES = "/api/gpu/leases"

# Leaves a process behind whose parent ends, which says its number and waits.
ORPHAN = """
import os, sys, time
if os.fork() == 0:
    os.setsid()
    print(os.getpid(), flush=True)
    time.sleep(3600)
"""


@pytest.fixture
def processes():
    """Starts processes that wait: children of this one, or with no living parent."""
    pids = []

    def start(orphan=False, **environment):
        code = ORPHAN if orphan else ORPHAN.replace("if os.fork() == 0:", "if True:").replace(
            "    os.setsid()\n", "")
        child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE,
                                 env=os.environ | environment)
        pids.append(int(child.stdout.readline()))
        if orphan:
            child.wait()
        else:
            children.append(child)
        return pids[-1]

    children = []
    yield start
    for pid in pids:
        try:
            os.kill(pid, 9)
        except ProcessLookupError:
            pass
    for child in children:
        child.wait()


def attach(world, pid, gpu):
    world.must("attach", "--pid", str(pid), "--gpu", str(gpu), "--vram", "1G", "--load", "0.5")


def squatters(yard):
    return {one["pid"]: one["index"] for one in yard.get("/api/gpu/queue").json()["squatters"]}


def claim(yard, **wish):
    caller = Caller(yard.socket)

    def asked():  # refused while the leases of the daemon's last life are looked at
        answer = caller.ask("POST", LEASES, {"answer_within_s": 20} | wish)
        return answer if answer.status != 503 else None
    answer = wait_until(asked, "the daemon to lease GPUs")
    assert answer.status == 200, answer.text
    lease = answer.json()["lease"]
    assert lease["state"] == "held", lease
    return caller, lease


def test_holders_child_is_member_and_others_are_unleased(world, yard, processes):
    caller, lease = claim(yard)
    gpu, = [one["index"] for one in lease["gpus"]]
    other = 1 - gpu
    own, stray = processes(), processes(orphan=True)
    attach(world, own, gpu)
    attach(world, stray, gpu)
    wait_until(lambda: squatters(yard) == {stray: gpu}, "the stray process alone to be a squatter")
    elsewhere = processes()
    attach(world, elsewhere, other)
    wait_until(lambda: squatters(yard) == {stray: gpu, elsewhere: other},
               "a member to be a squatter on a GPU that its lease does not have")
    caller.close()


def test_process_without_lease_is_an_alert(world, daemon, processes, tmp_path):
    world.start("--gpus", "2", "--load", "idle")
    rules, config = tmp_path / "rules.toml", tmp_path / "gpuyard.toml"
    rules.write_text("[rule.squatter]\nhold_s = 0\nclear_hold_s = 0\n", encoding="utf-8")
    config.write_text(f'[alerts]\nfile = "{rules}"\n', encoding="utf-8")
    yard = daemon("--config", str(config), GPUYARD_SIM_WORLD=str(world.directory))
    caller, lease = claim(yard)  # before the first lease, processes are no squatters
    other = 1 - lease["gpus"][0]["index"]
    stray = processes(orphan=True)
    attach(world, stray, other)

    def alerts():
        return [one for one in yard.get("/api/gpu/alerts").json()["alerts"] if one["rule"] == "squatter"]
    alert, = wait_until(alerts, "the alert")
    assert alert["gpu"]["index"] == other and alert["level"] == "warning"
    assert f"(PID {stray} (" in alert["message"]
    os.kill(stray, 9)
    wait_until(lambda: not alerts(), "the end of the alert")
    caller.close()


def test_release_signal_reaches_leftover_processes(world, yard, processes):
    caller, lease = claim(yard)
    gpu, = [one["index"] for one in lease["gpus"]]
    attach(world, processes(orphan=True, GPUYARD_LEASE=lease["id"]), gpu)
    path = f"{LEASES}/{lease['id']}"
    caller.ask("DELETE", f"{path}?fence={lease['fence']}&signal=TERM")
    wait_until(lambda: caller.ask("GET", path).json()["lease"]["state"] == "ended", "its end")
    wait_until(lambda: world.pids(gpu) == [], "the GPU to be free")
    caller.close()


# A launcher without a GPU, and its workers: each says its number.
TREE = """
import os, time
def say_number():
    os.write(1, b"%d\\n" % os.getpid())  # in one piece, beside the others
say_number()
for _ in range(2):
    if os.fork() == 0:
        say_number()
        time.sleep(3600)
time.sleep(3600)
"""


def test_launcher_and_workers_are_adopted_in_one_lease(world, yard, run):
    launcher = subprocess.Popen([sys.executable, "-c", TREE], stdout=subprocess.PIPE, start_new_session=True)
    try:
        pids = [int(launcher.stdout.readline()) for _ in range(3)]
        assert pids[0] == launcher.pid
        for gpu, pid in enumerate(pids[1:]):
            attach(world, pid, gpu)
        wait_until(lambda: squatters(yard) == {pids[1]: 0, pids[2]: 1}, "both workers to be squatters")
        done = run("lease", "adopt", "--pid", str(launcher.pid), "--json", GPUYARD_SOCKET=yard.socket)
        assert done.returncode == 0, done.stderr
        lease = json.loads(done.stdout)["lease"]
        assert sorted(gpu["index"] for gpu in lease["gpus"]) == [0, 1] and lease["state"] == "held"
        assert lease["why"] == ""
        wait_until(lambda: squatters(yard) == {}, "no squatter to be left")
        again = run("lease", "adopt", "--pid", str(launcher.pid), GPUYARD_SOCKET=yard.socket)
        assert again.returncode == 7 and "nor its descendants of the same user use an unleased GPU" in again.stderr, again.stderr
    finally:
        os.killpg(launcher.pid, 9)
        launcher.wait()
    path = f"{LEASES}/{lease['id']}"
    wait_until(lambda: yard.get(path).json()["lease"]["state"] == "ended", "its end with the tree")
