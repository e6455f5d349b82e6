"""Shared by the tests with foreign clients: simulated worlds, and running a client on one.

  GPUYARD_BIN      the gpuyard program
  GPUYARD_SIM_LIB  the simulated libnvidia-ml.so.1
"""

import functools
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from program import PATIENCE, wait_until

HERE = Path(__file__).resolve().parent
MODELS = ["a100", "h100", "h200", "l40s", "rtx4090", "t4"]


def required(name):
    value = os.environ.get(name)
    if not value:
        pytest.skip(f"{name} is not set")
    return value


def gpuyard(*arguments):
    done = subprocess.run([required("GPUYARD_BIN"), *map(str, arguments)], capture_output=True,
                          text=True, timeout=PATIENCE)
    assert done.returncode == 0, f"gpuyard {arguments}: {done.stderr}"
    return done.stdout


class World:
    """A simulated fleet with its keeper."""

    def __init__(self, directory, model="h100", gpus=2, load="steady:0.9"):
        self.directory = str(directory)
        self.model = model
        self.processes = []
        gpuyard("sim", "start", "--model", model, "--gpus", gpus, "--load", load, "--world",
                self.directory)

    def process(self, gpu, vram, load):
        """The pid of a real process on a GPU; it ends with the world."""
        process = subprocess.Popen(["sleep", "120"])
        self.processes.append(process)
        gpuyard("sim", "attach", "--world", self.directory, "--gpu", gpu, "--pid", process.pid,
                "--vram", vram, "--load", load)
        return process.pid

    def stop(self):
        for process in self.processes:
            process.kill()
            process.wait()
        subprocess.run([required("GPUYARD_BIN"), "sim", "stop", "--world", self.directory],
                       capture_output=True, timeout=PATIENCE)

    def status(self):
        """Returns the status by the world itself."""
        return json.loads(gpuyard("sim", "status", "--world", self.directory, "--json"))

    def gpus(self):
        return self.status()["gpus"]

    def settled(self):
        """Waits until power and memory stand still, so that two readings agree."""
        before = None

        def at_rest():
            nonlocal before
            former, before = before, self.gpus()
            return former and all(close(a["power_w"], b["power_w"], 2) for a, b in zip(former, before))
        wait_until(at_rest, "the world to come to rest", every=0.5)
        return self

    def environment(self):
        library = os.path.dirname(os.path.abspath(required("GPUYARD_SIM_LIB")))
        return dict(os.environ, LD_LIBRARY_PATH=library, GPUYARD_SIM_WORLD=self.directory,
                    LC_ALL="C.UTF-8")

    def run(self, *command, text=None):
        """A foreign program to its end: what it wrote to stdout."""
        done = subprocess.run(list(map(str, command)), env=self.environment(), input=text,
                              capture_output=True, text=True, timeout=PATIENCE)
        assert done.returncode == 0, f"{command}: {done.stdout}\n{done.stderr}"
        return done.stdout

    def ask(self, *expressions, gpu=0):
        """Expressions in nvidia-ml-py, see ask_nvml.py."""
        return json.loads(self.run(sys.executable, HERE / "ask_nvml.py",
                                   text=json.dumps({"gpu": gpu, "ask": expressions})))


def close(one, other, within):
    return abs(one - other) <= within


def without_reserve(used, gpu):
    """Whether `used` is the GPU's used memory as the second version of NVML's struct counts it, which
    leaves out what the driver keeps for itself."""
    return 200 << 20 <= gpu["memory_used_bytes"] - used <= 1 << 30


@functools.cache
def exported():
    """The names of NVML that the simulated library exports; its own ones are not among them."""
    listing = subprocess.run(["nm", "-D", "--defined-only", required("GPUYARD_SIM_LIB")],
                             capture_output=True, text=True, check=True).stdout
    names = {line.split()[-1].split("@")[0] for line in listing.splitlines()}
    return {name for name in names if not name.startswith("gpuyard_")}
