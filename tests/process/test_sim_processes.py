"""Real processes on simulated GPUs: gpuyard sim run and gpuyard sim attach."""

import signal
import subprocess
import sys

import pytest

from program import PATIENCE, wait_until

GIB = 1 << 30


def sleeper(environment):
    """A process that exists under its own name: no shell that is about to become it."""
    process = subprocess.Popen([sys.executable, "-c", "print('up', flush=True); input()"],
                               env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout.readline() == b"up\n"
    return process


@pytest.fixture
def children():
    started = []
    yield started
    for child in started:
        child.kill()
        child.communicate()


def test_running_command_is_on_its_gpu(world, children):
    world.start("--gpus", "4", "--load", "idle")
    command = world.popen("run", "--gpu", "3", "--vram", "10G", "--load", "0.8", "--",
                          sys.executable, "-c", "input()", stdin=subprocess.PIPE)
    children.append(command)
    wait_until(lambda: world.pids(3), "the command to be on its GPU")
    wait_until(lambda: world.gpu(3)["utilization_percent"] == 80, "its load")
    gpu = world.gpu(3)
    # The very process that was started: no babysitter in between.
    assert gpu["processes"] == [{"pid": command.pid, "synthetic": False, "kind": "compute",
                                 "memory_bytes": 10 * GIB, "sm_percent": 80}]
    assert gpu["memory_used_bytes"] > 10 * GIB
    assert world.pids(0) == []
    command.communicate("\n", timeout=PATIENCE)
    wait_until(lambda: not world.pids(3), "the GPU to be free again")
    wait_until(lambda: world.gpu(3)["utilization_percent"] == 0, "its load to be gone")


def test_sim_run_sets_gpu_and_passes_exit_status(world):
    world.start("--gpus", "2")
    done = world.sim("run", "--gpu", "1", "--", "sh", "-c",
                     'echo "$CUDA_VISIBLE_DEVICES $GPUYARD_SIM_WORLD"; exit 7')
    assert done.returncode == 7
    assert done.stdout.split() == [world.gpu(1)["uuid"], str(world.directory)]
    killed = world.sim("run", "--gpu", "1", "--", "sh", "-c", "kill -9 $$")
    assert killed.returncode == -signal.SIGKILL
    assert world.sim("run", "--gpu", "1", "--", "/no/such/command").returncode == 127
    assert world.sim("run", "--gpu", "1", "--", "/etc/passwd").returncode == 126
    wait_until(lambda: not world.pids(1), "their ends to be noticed")


def test_cuda_visible_devices_names_gpus_of_process(world, children):
    world.start("--gpus", "4", "--load", "idle")
    process = sleeper(world.environment | {"CUDA_VISIBLE_DEVICES": f"{world.uuid(0)[:12]}, 3"})
    children.append(process)
    world.must("attach", "--pid", str(process.pid))
    used = [gpu["index"] for gpu in world.status()["gpus"] if gpu["processes"]]
    assert used == [0, 3]


def test_attach_without_visible_gpu_needs_gpu_option(world, children):
    world.start("--gpus", "2")
    without = sleeper(world.environment)
    nothing = sleeper(world.environment | {"CUDA_VISIBLE_DEVICES": "-1"})
    children += [without, nothing]
    for process in (without, nothing):
        done = world.sim("attach", "--pid", str(process.pid))
        assert done.returncode == 6 and "--gpu " in done.stderr
    assert world.sim("attach", "--pid", "4194304").returncode == 6
    assert world.sim("attach", "--gpu", "0").returncode == 2
    assert world.sim("attach", "--pid", str(without.pid), "--synthetic", "3", "--gpu", "0").returncode == 2
