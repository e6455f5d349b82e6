"""gpuyard run with a daemon and simulated GPUs: who runs when, what is left behind, who died."""

import json
import os
import signal
import time

import pytest

from lease_yard import USE
from program import PATIENCE, read_until, wait_until
from schemas import validate


def end_of(process):
    out, err = process.communicate(timeout=PATIENCE)
    return process.returncode, out, err


def test_command_runs_on_gpu_then_releases_gpu(lease_yard):
    yard = lease_yard(gpus=2)
    code, out, err = end_of(yard.start("--", "sh", "-c", "echo $CUDA_VISIBLE_DEVICES {uuids}; exit 42"))
    assert code == 42 and out.split()[0] == out.split()[1] and out.split()[0] in (
        yard.world.uuid(0), yard.world.uuid(1))
    assert "gpuyard: " in err and "H100" in err
    wait_until(lambda: yard.leases() == [], "the lease to end")


def test_a_summary_has_joules_memory_and_utilisation(lease_yard, tmp_path):
    yard = lease_yard()
    file = tmp_path / "summary.json"
    code, _, err = end_of(yard.start("--summary", str(file), "--", "sh", "-c", f"{USE} sleep 6"))
    summary = json.loads(file.read_text())
    validate(summary, "run")
    use = summary["lease"]["use"]
    assert code == 0 and summary["simulated"]
    assert use["energy_mj"] > 0 and use["peak_memory_bytes"] > 0 and use["mean_utilization_percent"] > 0, use
    assert "J" in err and "GiB" in err and "%" in err
    rows = yard.daemon.get("/api/gpu/usage?by=lease").json()["rows"]
    booked = next(row for row in rows if row["key"] == summary["lease"]["id"])
    assert round(booked["energy_kwh"] * 3.6e9) == use["energy_mj"] and use["settled"], (booked, use)


def test_no_free_gpu_is_exit_code_7(lease_yard):
    yard = lease_yard()
    yard.hold()
    for words in (("--no-wait",), ("--wait", "1s")):
        done = yard.go("run", *words, "--", "echo", "ran")
        assert done.returncode == 7 and done.stdout == "" and done.stderr, words
    assert yard.queue()["waiting"] == []


def test_killed_launchers_gpu_stays_leased_while_command_runs(lease_yard):
    yard = lease_yard()
    one = yard.hold()
    one.kill()
    one.wait()
    wait_until(lambda: [lease["state"] for lease in yard.leases()] == ["draining"], "it to drain")
    yard.daemon.wait_for_readings(2)
    assert yard.go("run", "--no-wait", "--", "echo", "ran").returncode == 7
    os.kill(one.held_pid, signal.SIGKILL)
    done = yard.go("run", "--wait", "20s", "--", "echo", "ran")
    assert (done.returncode, done.stdout) == (0, "ran\n"), done.stderr


@pytest.mark.parametrize("way", ["setsid sh -c", "sh -c"])
def test_leftover_process_keeps_gpu(lease_yard, tmp_path, way):
    yard = lease_yard()
    mark = tmp_path / "left"
    # Twice forked: it has no parent among the command's processes.
    left = f"({way} '{USE} echo $$ >{mark}; exec sleep 600' </dev/null >/dev/null 2>&1 &)"
    code, _, err = end_of(yard.start("--", "sh", "-c", f"{left}; until [ -s {mark} ]; do sleep 0.02; done"))
    pid = int(mark.read_text())
    try:
        assert code == 0 and f"sleep {pid}" in err and "stays leased" in err
        assert yard.go("run", "--no-wait", "--", "true").returncode == 7
    finally:
        os.kill(pid, signal.SIGKILL)
    assert yard.go("run", "--wait", "20s", "--", "true").returncode == 0


def test_a_command_runs_on_under_the_next_daemon(lease_yard, tmp_path, daemon):
    yard = lease_yard()
    go = tmp_path / "go"
    one = yard.hold(script=f"sh -c 'until [ -e {go} ]; do sleep 0.02; done; exit 3'")
    fence = yard.leases()[0]["fence"]
    yard.daemon.kill()
    daemon(directory=yard.daemon.directory, GPUYARD_SIM_WORLD=str(yard.world.directory))
    held = wait_until(yard.leases, "the lease to be found again")
    assert held[0]["state"] == "held" and held[0]["fence"] == fence
    time.sleep(6)  # longer than a launcher may stay away
    assert [lease["state"] for lease in yard.leases()] == ["held"]
    go.touch()
    code, _, err = end_of(one)
    assert code == 3 and "the command keeps running" in err and "reconnected to the daemon" in err
    wait_until(lambda: yard.leases() == [], "the lease to end")


def test_lost_lease_record_is_reported_to_launcher(lease_yard, tmp_path, daemon):
    yard = lease_yard()
    go = tmp_path / "go"
    one = yard.hold("--among", "0", script=f"sh -c 'until [ -e {go} ]; do sleep 0.02; done; exit 3'")
    yard.daemon.kill()
    for file in os.listdir(yard.daemon.state):
        if file.startswith("state.db"):
            os.unlink(os.path.join(yard.daemon.state, file))
    daemon(directory=yard.daemon.directory, GPUYARD_SIM_WORLD=str(yard.world.directory))
    found = wait_until(lambda: yard.queue()["squatters"], "the command to be found outside any lease")
    assert found[0]["pid"] == one.held_pid
    read_until(one.stderr, "has lost its lease records")
    wait_until(lambda: yard.leases() == [] and yard.queue()["waiting"] == [], "the second claim to be gone")
    go.touch()
    code, _, err = end_of(one)
    assert code == 3, err
