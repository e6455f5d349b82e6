"""A yard written to a file and played again, by the real program."""

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from program import PROGRAM, clean_environment, wait_until

# Two GPUs for 24 s: the first is given more to do at 8 s, the second is lost from 13 s to 19 s.
RECORDING = str(Path(__file__).parent.parent / "data" / "lost_for_a_while.rec")


def looks(text):
    return [json.loads(line) for line in text.splitlines()]


def test_replay_continues_after_driver_host_is_killed(daemon):
    yard = daemon("--replay", RECORDING, "--replay-from", "12s")
    host = yard.driver_host()
    wait_until(lambda: yard.get("/api/gpu/snapshot").json()["devices"][1]["condition"]
               == "unavailable", "the GPU to be lost")
    os.kill(host, signal.SIGKILL)
    wait_until(lambda: yard.driver_host() not in (None, host), "another driver-host")
    wait_until(lambda: (devices := yard.get("/api/gpu/snapshot").json()["devices"])
               and devices[0]["condition"] == "responsive"
               and devices[1]["condition"] == "unavailable", "the loss, not the beginning")


def test_recording_matches_recorded_world(world, run, tmp_path):
    world.start("--gpus", "2", "--load", "steady:0.5")
    path = str(tmp_path / "a.rec")
    done = run("record", path, "--for", "2s", "--local", GPUYARD_SIM_WORLD=str(world.directory))
    assert done.returncode == 0, done.stderr
    # The length that is printed is the time between the first sample and the last, as the file has it.
    ms = json.loads(Path(path).read_text().splitlines()[-1])["t_ms"]
    assert round(ms / 1000) == 2
    assert f": {ms / 1000:.1f} s in 3 samples" in done.stderr and done.stdout == ""
    first = looks(run("replay", path, "--count", "1", "--json").stdout)[0]
    for played, real in zip(first["devices"], world.status()["gpus"], strict=True):
        assert played["uuid"] == real["uuid"] and played["name"] == real["name"]
        assert played["readings"]["utilization_gpu_percent"] == real["utilization_percent"]
        assert played["readings"]["power_limit_w"] == real["power_limit_w"]
    info = run("replay", path, "--info").stdout
    assert f"length  {ms / 1000:.1f} s" in info and "simulated GPUs" in info


def test_recording_continues_after_daemon_restart(daemon, tmp_path):
    yard = daemon("--simulate", "1")
    path = tmp_path / "a.rec"
    process = subprocess.Popen([PROGRAM, "record", str(path), "--interval", "100ms", "--socket",
                                yard.socket], env=clean_environment(tmp_path),
                               stderr=subprocess.PIPE, text=True)
    wait_until(lambda: path.exists() and path.stat().st_size > 0, "the beginning")
    yard.stop()
    time.sleep(0.5)  # five readings
    daemon("--simulate", "1", directory=yard.directory)
    size = path.stat().st_size
    wait_until(lambda: path.stat().st_size > size, "more to be recorded")
    process.send_signal(signal.SIGINT)
    assert "samples failed" in process.communicate(timeout=30)[1]
    assert process.returncode == 0


# ---- what is wrong


def test_force_follows_no_link(run, tmp_path):
    kept = tmp_path / "kept"
    kept.write_text("mine")
    link = tmp_path / "a.rec"
    link.symlink_to(kept)
    done = run("record", str(link), "--force", "--simulate", "1", "--for", "1s")
    assert done.returncode == 7 and "is a symbolic link" in done.stderr
    assert kept.read_text() == "mine"


@pytest.mark.parametrize("arguments, code, said", [
    (["replay", "/etc/passwd"], 2, "not a gpuyard recording"),
    (["replay", "/nowhere/a.rec"], 6, "/nowhere/a.rec: No such file"),
    (["replay", RECORDING, "--from", "1h"], 2, "is 24.0 s long; it cannot start at 3600.0 s"),
    (["replay", RECORDING, "--speed", "0"], 2, "--speed"),
    (["replay", RECORDING, "--speed", "nan"], 2, "--speed"),
    (["replay", RECORDING, "--from", "soon"], 2, 'got "soon"'),
    (["serve", "--replay", "/etc/passwd"], 2, "not a gpuyard recording"),
    (["serve", "--replay", RECORDING, "--simulate", "2"], 2, "--replay cannot be used with --simulate"),
    (["record", RECORDING, "--simulate", "1", "--for", "1s"], 7, "already exists\n  try:   gpuyard record "),
    (["record", "/nowhere/a.rec", "--simulate", "1", "--for", "1s"], 6, "creating /nowhere/a.rec"),
    (["record", "/dev/full", "--force", "--simulate", "1", "--for", "1s"], 1,
     "recording stopped: writing /dev/full: No space left"),
    (["record", "-", "--for", "1s", "--nvml", "/nowhere/lib.so"], 5, "failed to initialise NVML"),
], ids=range(12))
def test_bad_input_is_reported(run, arguments, code, said):
    done = run(*arguments)
    assert said in done.stderr
    assert done.returncode == code, done.stderr
