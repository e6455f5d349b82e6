"""Real processes on simulated GPUs: gpuyard sim run and gpuyard sim attach."""

import os
import signal
import subprocess
import sys
import time

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


def test_options_of_command_are_not_parsed(world):
    world.start("--gpus", "1")
    done = world.sim("run", "--gpu", "0", "--", "printf", "<%s>", "--gpu", "", "-h")
    assert done.stdout == "<--gpu><><-h>"


def test_command_that_does_not_fit_is_refused(world, tmp_path):
    world.start("--gpus", "1")
    marker = tmp_path / "ran"
    for arguments in (["--gpu", "0", "--vram", "81G"], ["--gpu", "9"], ["--gpu", "0", "--vram", "much"],
                      ["--gpu", "0", "--load", "1.5"]):
        done = world.sim("run", *arguments, "--", "touch", str(marker))
        assert done.returncode != 0 and done.stderr
    assert not marker.exists()
    assert world.sim("run", "--gpu", "0").returncode == 2


def test_running_process_is_attached_until_killed(world, children):
    world.start("--gpus", "2", "--load", "idle")
    process = sleeper(world.environment)
    children.append(process)
    world.must("attach", "--pid", str(process.pid), "--gpu", "1", "--vram", "2G", "--load", "0.5")
    assert world.pids(1) == [process.pid]
    process.kill()
    # A zombie, which is not reaped yet, counts as dead.
    wait_until(lambda: not world.pids(1), "the killed process to be gone")


@pytest.mark.parametrize("visible, expected", [
    ("2,0", [0, 2]), ("{1}", [1]), ("{0}, 3", [0, 3]), ("1,9,0", [1])])
def test_cuda_visible_devices_names_gpus_of_process(world, children, visible, expected):
    world.start("--gpus", "4", "--load", "idle")
    # A UUID may be cut short, as long as it names one GPU.
    beginnings = [gpu["uuid"][:12] for gpu in world.status()["gpus"]]
    process = sleeper(world.environment | {"CUDA_VISIBLE_DEVICES": visible.format(*beginnings)})
    children.append(process)
    world.must("attach", "--pid", str(process.pid))
    used = [gpu["index"] for gpu in world.status()["gpus"] if gpu["processes"]]
    assert used == expected


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


def test_demands_add_up_and_saturate(world, children):
    world.start("--gpus", "1", "--load", "idle")
    for load in ("0.6", "0.9"):
        process = sleeper(world.environment)
        children.append(process)
        world.must("attach", "--pid", str(process.pid), "--gpu", "0", "--vram", "20G", "--load", load)
    wait_until(lambda: world.gpu(0)["utilization_percent"] == 100, "a full GPU")
    gpu = world.gpu(0)
    assert [process["sm_percent"] for process in gpu["processes"]] == [40, 60]
    assert 40 * GIB < gpu["memory_used_bytes"] < 42 * GIB
    refused = world.sim("attach", "--pid", str(os.getpid()), "--gpu", "0", "--vram", "50G")
    assert refused.returncode == 7 and "out of memory" in refused.stderr


def test_ten_thousand_synthetic_processes_cost_little(world):
    world.start("--gpus", "8", "--load", "idle")
    world.must("attach", "--synthetic", "10000", "--gpu", "5", "--vram", "1M", "--load", "0")
    pids = world.pids(5)
    assert len(set(pids)) == 10_000
    assert min(pids) > 4_194_304  # pids that no process can have
    keeper = world.status()["keeper_pid"]

    def cpu_seconds():
        with open(f"/proc/{keeper}/schedstat", encoding="ascii") as file:
            return int(file.read().split()[0]) / 1e9
    before, began = cpu_seconds(), time.monotonic()
    time.sleep(1)  # what it uses in a second is what is tested
    share = (cpu_seconds() - before) / (time.monotonic() - began)
    assert share < 0.05, f"the keeper takes {share:.1%} of a core"
    world.must("attach", "--synthetic", "0", "--gpu", "5")
    assert world.pids(5) == []
