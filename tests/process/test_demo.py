"""The demo that `gpuyard serve --simulate N` is without a load or a scenario: what it shows after a minute,
and that nothing of it outlives its world."""

import csv
import json
import os
import resource
import signal
import subprocess
import time

import pytest

from program import PROGRAM, children, command_line, open_directory, program_for_others, runs, wait_until

USER = 54321  # has no process of its own


def demo_processes(yard):
    """The pids of the demo: all descendants of the keeper, and the keeper itself."""
    keeper = yard.keeper()
    found = [keeper]
    for pid in found:
        found += children(pid)
    return found


def gpuyard(yard, *arguments):
    return subprocess.run([PROGRAM, *arguments], env=yard.environment | {"GPUYARD_SOCKET": yard.socket},
                          capture_output=True, text=True, timeout=30, check=False)


def listed(yard, *arguments):
    done = gpuyard(yard, *arguments, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def claim_waits(yard):
    return listed(yard, "queue")["waiting"]


@pytest.fixture
def demo(daemon):
    """A demo whose processes have their leases, and whose claim waits."""
    yard = daemon("--simulate", "4", demo=True)
    wait_until(lambda: claim_waits(yard), "the demo's claim in the queue")
    return yard


def test_every_verb_has_something_to_show(demo):
    devices = demo.get("/api/gpu/snapshot").json()["devices"]
    assert [len(device["processes"]) for device in devices] == [1, 0, 1, 0]
    names = {process["command"] for device in devices for process in device["processes"]}
    assert names == {"demo-training", "demo-notebook"}

    leases = listed(demo, "leases")["leases"]
    assert [(lease["gpus"][0]["index"], lease["note"]) for lease in leases] == [(0, "demo-training")]
    assert [claim["note"] for claim in claim_waits(demo)] == ["demo-claim"]
    usage = wait_until(lambda: (found := listed(demo, "usage"))["rows"] and found, "the usage of the lease")
    assert usage["rows"][0]["leases"] == 1 and usage["unleased"]["gpu_hours"] > 0
    throttled = [row[0] for row in csv.reader(gpuyard(
        demo, "query", "--fields", "index,clocks_event_reasons.sw_power_cap", "--format", "csv,noheader").stdout.splitlines())
        if row[1].strip() == "Active"]
    assert throttled == ["0"]
    firing = wait_until(lambda: {alert["rule"]: alert["gpu"]["index"] for alert in listed(demo, "alerts")["alerts"]},
                        "the first alert")
    assert firing["thermal"] == 0
    assert "gpu-unhealthy" not in firing


def test_claim_of_half_of_gpus_is_granted(demo):
    done = gpuyard(demo, "run", "-n", "2", "--no-wait", "--", "sh", "-c", "echo $CUDA_VISIBLE_DEVICES")
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.strip().split(",")) == 2
    assert claim_waits(demo), "and the demo's own claim still waits"


@pytest.mark.parametrize("order", [("keeper", "daemon"), ("daemon", "keeper")])
def test_killed_demo_leaves_no_process(demo, order):
    pids = {"daemon": demo.process.pid, "keeper": demo.keeper()}
    theirs = demo_processes(demo)
    assert len(theirs) >= 4, "a keeper, two processes on GPUs, one in the queue"
    os.kill(pids[order[0]], signal.SIGKILL)
    time.sleep(0.3)
    if runs(pids[order[1]]):
        os.kill(pids[order[1]], signal.SIGKILL)
    deadline = time.monotonic() + 2
    while (left := [pid for pid in theirs if runs(pid)]) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not left, [command_line(pid) for pid in left]


def test_stopped_daemon_leaves_no_process(demo):
    theirs = demo_processes(demo)
    assert demo.stop() == 0
    wait_until(lambda: not any(runs(pid) for pid in theirs), "the end of the demo")


def test_killed_process_of_the_demo_frees_its_gpu(demo):
    os.kill(demo.get("/api/gpu/snapshot").json()["devices"][0]["processes"][0]["pid"], signal.SIGKILL)
    wait_until(lambda: not claim_waits(demo), "the GPU for the claim that waited")
    wait_until(lambda: [lease["note"] for lease in listed(demo, "leases")["leases"]] == ["demo-claim"], "its lease")


def test_scenario_has_no_process(daemon, tmp_path):
    scenario = tmp_path / "scenario.toml"
    scenario.write_text('[world]\nmodel = "h100"\ngpus = 4\n', encoding="utf-8")
    yard = daemon("--simulate", "4", "--scenario", str(scenario), demo=True)
    assert demo_processes(yard) == [yard.keeper()]


def test_unknown_load_is_refused(run):
    done = run("serve", "--simulate", "4", "--load", "heavy")
    assert done.returncode == 2 and "--load" in done.stderr and "heavy" in done.stderr


@pytest.mark.skipif(os.getuid() != 0, reason="becomes a user with a limit of processes")
def test_world_without_processes_goes_on():
    """A user who may start no further process: the GPUs are idle, and the world is there."""
    with open_directory() as place:
        program = program_for_others(place)
        os.chown(place, USER, USER)

        def become_limited():
            os.setgid(USER)
            os.setuid(USER)
            resource.setrlimit(resource.RLIMIT_NPROC, (1, 1))

        keeper = subprocess.Popen(
            [program, "sim-keeper", "--directory", str(place), "--gpus", "4", "--load", "idle", "--demo", ""],
            preexec_fn=become_limited, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            def status():
                done = subprocess.run([program, "sim", "status", "--world", str(place), "--json"],
                                      capture_output=True, text=True, timeout=30, check=False,
                                      user=USER, group=USER)  # who reads worlds of no other user
                return json.loads(done.stdout) if done.returncode == 0 else None
            gpus = wait_until(status, "the world")["gpus"]
            assert [gpu["processes"] for gpu in gpus] == [[], [], [], []]
            assert children(keeper.pid) == []
        finally:
            keeper.kill()
            keeper.wait()


def test_sim_finds_the_world_of_the_daemon(demo, run):
    """As the README has it: in a second terminal, without a word about the world."""
    lost = run("sim", "inject", "--gpu", "3", "--lost", STATE_DIRECTORY=demo.state)
    assert lost.returncode == 0, lost.stderr
    wait_until(lambda: any(alert["rule"] == "gpu-lost" for alert in listed(demo, "alerts")["alerts"]), "the alert")
    stopped = run("sim", "stop", STATE_DIRECTORY=demo.state)
    assert stopped.returncode == 6 and runs(demo.keeper()), "a daemon's world is not stopped by default"
