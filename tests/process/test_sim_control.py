"""The simulated driver as something that is controlled: who may set and change it, and which GPUs it has."""

import os
import pwd
import signal
import subprocess

import pytest

from program import PATIENCE, program_for_others
from sim_world import World


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")
@pytest.mark.parametrize("setters, allowed", [("owner", False), ("root", False), ("everyone", True),
                                              ("nobody", False)])
def test_setters_option_applies_to_other_user(open_place, setters, allowed):
    world = World(open_place)
    try:
        world.start("--gpus", "1", "--setters", setters)
        program_for_others(open_place)
        nobody = pwd.getpwnam("nobody")
        script = ("import ctypes, sys\n"
                  "nvml = ctypes.CDLL(sys.argv[1]); assert nvml.nvmlInit_v2() == 0\n"
                  "gpu = ctypes.c_void_p(); nvml.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(gpu))\n"
                  "print(nvml.nvmlDeviceSetPowerManagementLimit(gpu, 300000))\n")
        done = subprocess.run(["/usr/bin/python3", "-c", script, str(open_place / "bin/sim/libnvidia-ml.so.1")],
                              env=world.environment, user=nobody.pw_uid, group=nobody.pw_gid, cwd="/",
                              extra_groups=[], capture_output=True, text=True, timeout=PATIENCE, check=True)
        assert done.stdout.strip() == ("0" if allowed else "4")
        assert [write["uid"] for write in world.write_log()] == [nobody.pw_uid]
    finally:
        world.end()


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


def test_daemon_keeps_driver_open_until_its_end(daemon, run):
    yard = daemon("--simulate", "2")
    there = {"GPUYARD_SIM_WORLD": yard.state + "/world"}
    refused = run("sim", "reset", "--gpu", "0", "--as-driver", **there)
    assert refused.returncode == 7
    os.kill(yard.driver_host(), signal.SIGSTOP)  # and it still has
    assert run("sim", "reset", "--gpu", "0", "--as-driver", **there).returncode == 7
    assert run("sim", "reset", "--gpu", "0", **there).returncode == 0  # a test may


def test_serve_takes_a_mixed_fleet_and_refuses_nonsense(daemon, run, record_property):
    record_property("contract", "A15")
    yard = daemon("--simulate", "3", "--model", "a100:1,rtx4090:1,t4")
    names = [gpu["name"] for gpu in yard.get("/api/gpu/devices").json()["devices"]]
    assert names == ["NVIDIA A100-SXM4-80GB", "NVIDIA GeForce RTX 4090", "Tesla T4"]
    wrong = run("serve", "--simulate", "4", "--model", "a100:1,t4:1")
    assert wrong.returncode == 2 and "is 2 GPUs, not 4" in wrong.stderr
    assert run("serve", "--model", "t4").returncode == 2
