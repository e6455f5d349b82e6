"""A thread of the driver that is really stuck in the kernel, in uninterruptible sleep: a file system on
a loop device is frozen under it. Needs root, a loop device and fsfreeze; skipped elsewhere.
"""

import os
import shutil
import subprocess
import time

import pytest

from conftest import children, command_line, wait_until
from sim_world import world  # noqa: F401

HERE = os.path.dirname(os.path.abspath(__file__))
WHOLE = os.path.abspath(os.environ.get("GPUYARD_SIM_LIB", "build/release/sim/libnvidia-ml.so.1"))
PROMPT = 10  # seconds; an end that waits for the stuck thread would never come


def quietly(*command):
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


class Frozen:
    """A small ext4 file system that can be frozen."""

    def __init__(self, directory):
        image, self.mount = directory / "image", directory / "mount"
        self.mount.mkdir()
        image.write_bytes(b"")
        os.truncate(image, 16 << 20)
        assert quietly("mkfs.ext4", "-q", str(image)).returncode == 0
        mounted = quietly("mount", "-o", "loop", str(image), str(self.mount))
        if mounted.returncode != 0:
            pytest.skip(f"no file system can be mounted here: {mounted.stderr.strip()}")

    def freeze(self):
        assert quietly("fsfreeze", "-f", str(self.mount)).returncode == 0

    def thaw(self):
        return quietly("fsfreeze", "-u", str(self.mount))

    def end(self):
        self.thaw()
        wait_until(lambda: quietly("umount", str(self.mount)).returncode == 0, "the file system to go")


@pytest.fixture
def frozen(tmp_path):
    if os.geteuid() != 0 or not all(map(shutil.which, ("fsfreeze", "mkfs.ext4", "mount", "g++"))):
        pytest.skip("freezing a file system needs root, mkfs.ext4 and fsfreeze")
    one = Frozen(tmp_path)
    yield one
    one.end()


@pytest.fixture
def library(tmp_path):
    path = tmp_path / "libnvidia-ml.so.1"
    subprocess.run(["g++", "-shared", "-fPIC", "-o", str(path), f"{HERE}/stuck_nvml.cpp", WHOLE,
                    f"-Wl,-rpath,{os.path.dirname(WHOLE)}"], check=True, timeout=120)
    return str(path)


def stuck_threads(pid):
    """Threads in uninterruptible sleep."""
    try:
        tasks = os.listdir(f"/proc/{pid}/task")
    except FileNotFoundError:
        return []
    found = []
    for task in tasks:
        try:
            with open(f"/proc/{pid}/task/{task}/stat", encoding="utf-8") as file:
                if file.read().rsplit(")", 1)[1].split()[0] == "D":
                    found.append(task)
        except (FileNotFoundError, ProcessLookupError):
            pass
    return found


def conditions(yard):
    return [gpu["condition"] for gpu in yard.get("/api/gpu/snapshot").json()["devices"]]


def is_stuck(yard):
    return conditions(yard) == ["unresponsive", "responsive"]


def test_a_daemon_ends_and_another_starts_beside_a_thread_that_cannot_be_killed(
        daemon, frozen, library, world, tmp_path):  # noqa: F811
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
