"""Broken worlds and wrong requests: clear errors, no hang, no other client harmed."""

import os
import shutil
import signal
import subprocess
import sys

import pytest

from program import PATIENCE, program_for_others, wait_until
from sim_world import World

LAYOUT_VERSION_AT = 8

# Returns the code of nvmlInit in a process of its own.
INIT = """
import ctypes, sys
print(ctypes.CDLL(sys.argv[1]).nvmlInit_v2())
"""


def init_code(environment):
    done = subprocess.run([sys.executable, "-c", INIT, os.path.abspath(os.environ["GPUYARD_SIM_LIB"])],
                          env=environment, capture_output=True, text=True, timeout=PATIENCE, check=True)
    return int(done.stdout)


def test_serve_takes_a_mixed_fleet_and_refuses_nonsense(daemon, run, record_property):
    record_property("contract", "A15")
    yard = daemon("--simulate", "3", "--model", "a100:1,rtx4090:1,t4")
    names = [gpu["name"] for gpu in yard.get("/api/gpu/devices").json()["devices"]]
    assert names == ["NVIDIA A100-SXM4-80GB", "NVIDIA GeForce RTX 4090", "Tesla T4"]
    wrong = run("serve", "--simulate", "4", "--model", "a100:1,t4:1")
    assert wrong.returncode == 2 and "is 2 GPUs, not 4" in wrong.stderr
    assert run("serve", "--model", "t4").returncode == 2


def patch(offset, text):
    def change(path):
        with open(path, "r+b") as file:
            file.seek(offset)
            file.write(text)
    return change


def truncate(size):
    def change(path):
        os.truncate(path, size)
    return change


@pytest.mark.parametrize("change, because", [
    (truncate(100), "truncated"), (patch(LAYOUT_VERSION_AT, b"\x02"), "world layout 2")])
def test_damaged_world_file_is_refused_by_every_client(world, tmp_path, change, because):
    world.start("--gpus", "2")
    # A copy, so that the real world can be seen to be unharmed.
    copy = World(tmp_path / "copy")
    copy.directory.mkdir(parents=True)
    shutil.copy(world.directory / "state", copy.directory / "state")
    change(copy.directory / "state")
    shown = copy.sim("status")
    assert shown.returncode != 0
    assert because in shown.stderr
    assert init_code(copy.environment) == 9
    assert init_code(world.environment) == 0


def test_killed_world_server_unloads_driver_until_restart(world):
    world.start("--gpus", "2")
    os.kill(world.status()["keeper_pid"], signal.SIGKILL)
    wait_until(lambda: init_code(world.environment) == 9, "the world to count as dead")
    for arguments in (["status"], ["load", "--gpu", "0", "idle"], ["inject", "--gpu", "0", "--lost"],
                      ["attach", "--pid", str(os.getpid()), "--gpu", "0"],
                      ["run", "--gpu", "0", "--", "true"]):
        done = world.sim(*arguments)
        assert done.returncode in (5, 6), arguments
        assert done.stderr
    world.start("--gpus", "3")
    assert len(world.status()["gpus"]) == 3
    assert init_code(world.environment) == 0


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can try it as another user")
def test_other_user_may_read_world_but_not_change(open_place):
    world = World(open_place)
    try:
        world.start("--gpus", "1")
        program = program_for_others(open_place)
        as_nobody = {"env": world.environment, "user": 65534, "group": 65534, "extra_groups": [],
                     "capture_output": True, "text": True, "timeout": PATIENCE, "check": False}
        assert subprocess.run([program, "sim", "status"], **as_nobody).returncode == 0
        for arguments in (["inject", "--gpu", "0", "--lost"], ["load", "--gpu", "0", "idle"],
                          ["run", "--gpu", "0", "--", "true"], ["reset", "--gpu", "0"]):
            done = subprocess.run([program, "sim", *arguments], **as_nobody)
            assert done.returncode == 4 and "this simulated world belongs to another user" in done.stderr, arguments
        assert subprocess.run([program, "sim", "stop"], **as_nobody).returncode == 4
        assert not world.gpu(0)["lost"]
    finally:
        world.end()


def test_killed_or_stopped_reader_does_not_block_world(world):
    world.start("--gpus", "1")
    reader = ("import ctypes, sys\n"
              "nvml = ctypes.CDLL(sys.argv[1]); nvml.nvmlInit_v2()\n"
              "gpu = ctypes.c_void_p(); nvml.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(gpu))\n"
              "n = ctypes.c_uint(); print('up', flush=True)\n"
              "while True: nvml.nvmlDeviceGetPowerUsage(gpu, ctypes.byref(n))\n")
    clients = [subprocess.Popen([sys.executable, "-c", reader,
                                 os.path.abspath(os.environ["GPUYARD_SIM_LIB"])],
                                env=world.environment, stdout=subprocess.PIPE) for _ in range(2)]
    try:
        for client in clients:
            assert client.stdout.readline() == b"up\n"
        clients[0].kill()
        clients[1].send_signal(signal.SIGSTOP)
        before = world.status()["generation"]
        wait_until(lambda: world.status()["generation"] > before + 50, "the world to move on")
        world.must("load", "--gpu", "0", "idle")
    finally:
        for client in clients:
            client.kill()
            client.communicate()
