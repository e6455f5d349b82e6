"""A thread of the driver that is really stuck in the kernel, in uninterruptible sleep: a file system on
a loop device is frozen under it. Needs root, a loop device and fsfreeze; skipped elsewhere.
"""

import os
import subprocess
import time

import pytest

from own_disk import stuck_threads
from program import children, command_line, wait_until

HERE = os.path.dirname(os.path.abspath(__file__))
WHOLE = os.path.abspath(os.environ.get("GPUYARD_SIM_LIB", "build/release/sim/libnvidia-ml.so.1"))
PROMPT = 10  # seconds; an end that waits for the stuck thread would never come


@pytest.fixture
def library(tmp_path):
    path = tmp_path / "libnvidia-ml.so.1"
    subprocess.run(["g++", "-shared", "-fPIC", "-o", str(path), f"{HERE}/stuck_nvml.cpp", WHOLE,
                    f"-Wl,-rpath,{os.path.dirname(WHOLE)}"], check=True, timeout=120)
    return str(path)


def conditions(yard):
    return [gpu["condition"] for gpu in yard.get("/api/gpu/snapshot").json()["devices"]]


def is_stuck(yard):
    return conditions(yard) == ["unresponsive", "responsive"]


def test_unkillable_driver_thread_does_not_block_daemon_restart(daemon, frozen, library, world, tmp_path):
    world.start("--gpus", "2", "--load", "steady:0.5")
    place = tmp_path / "yard"
    options = {"GPUYARD_SIM_WORLD": str(world.directory), "STUCK_FILE": str(frozen.mount / "x")}
    first = daemon("--nvml", library, directory=place, **options)
    wait_until(lambda: conditions(first) == ["responsive"] * 2, "both GPUs")

    frozen.freeze()
    wait_until(lambda: is_stuck(first), "the GPU to be called unresponsive")
    host = first.driver_host()
    assert stuck_threads(host), "no thread is stuck: the test tests nothing"
    generation = first.get("/api/gpu/snapshot").json()["generation"]
    wait_until(lambda: first.get("/api/gpu/snapshot").json()["generation"] >= generation + 2,
               "the other GPU to keep its cadence")

    began = time.monotonic()
    assert first.stop() == 0
    assert time.monotonic() - began < PROMPT
    assert stuck_threads(host), "the stuck thread went, so nothing was left behind"

    # The same state directory and the same socket, while the old child is still there.
    second = daemon("--nvml", library, directory=place, **options)
    wait_until(lambda: is_stuck(second), "the healthy GPU beside the stuck one")
    assert second.get("/api/gpu/devices").json()["devices"][1]["is_available"] is True

    assert frozen.thaw().returncode == 0
    wait_until(lambda: conditions(second) == ["responsive"] * 2, "the GPU to come back by itself")
    wait_until(lambda: not command_line(host), "the old driver-host to go")
    assert [child for child in children(second.process.pid) if "driver-host" in command_line(child)]
    assert second.stop() == 0
