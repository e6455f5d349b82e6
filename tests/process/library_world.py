"""Shared by the tests of libgpuyard and of its examples: programs run to their end, and worlds for them."""

import os
import subprocess
from pathlib import Path

from program import PROGRAM, clean_environment

BUILD = Path(os.environ.get("GPUYARD_BUILD", "build/release"))
SOURCE = Path(os.environ.get("GPUYARD_SOURCE", "."))
EXAMPLES = BUILD / "examples"


def output(*command, **options):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True,
                          timeout=240, check=False, **options)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def status(*command, **options):
    return subprocess.run([str(part) for part in command], capture_output=True, text=True,
                          timeout=60, check=False, **options)


def start_world(tmp_path, *arguments):
    """The environment of a simulated world with two GPUs."""
    place = tmp_path / "world"
    environment = clean_environment(tmp_path)
    output(PROGRAM, "sim", "start", "--gpus", "2", "--world", place, *arguments, env=environment)
    return environment | {"GPUYARD_SIM_WORLD": str(place)}


def stop_world(environment):
    output(PROGRAM, "sim", "stop", "--world", environment["GPUYARD_SIM_WORLD"], env=environment)


def heat(environment, gpu, degrees):
    output(PROGRAM, "sim", "inject", "--world", environment["GPUYARD_SIM_WORLD"], "--gpu", gpu,
           "--heat", degrees, env=environment)


def started(program, *arguments, environment, directory):
    """A process whose stdout and stderr go to files."""
    return subprocess.Popen([str(program), *arguments], env=environment,
                            stdout=open(directory / "stdout", "w"),
                            stderr=open(directory / "stderr", "w"))
