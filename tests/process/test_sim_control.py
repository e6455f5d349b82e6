"""The simulated driver as something that is controlled: who may set, what reached it in which order, and
what puts settings back."""

import os
import pwd
import signal
import subprocess

import pytest

from nvml_client import Client
from program import PATIENCE, program_for_others
from sim_world import World


@pytest.fixture
def client(world):
    """Clients of the world: client() has initialised NVML."""
    started = []

    def start(environment=None):
        one = Client(environment or world.environment)
        started.append(one)
        assert one.code("init") == 0
        return one

    yield start
    for one in started:
        one.end()


def limit(client, gpu, milliwatts):
    return client.code("set_limit", client.value("gpu", gpu), milliwatts)


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


def test_write_log_has_time_writer_values_and_result(world, client):
    world.start("--gpus", "2")
    one = client()
    assert limit(one, 1, 300000) == 0
    assert limit(one, 0, 100) == 2
    assert limit(one, 1, 400000) == 0
    first, second, third = world.write_log()
    boot_ms = first.pop("at_boot_ms")
    assert first == {"sequence": 1, "gpu": 1, "uuid": world.uuid(1), "setting": "power_limit",
                     "values": [300000], "nvml_code": 0, "pid": one.process.pid, "uid": os.geteuid()}
    with open("/proc/uptime", encoding="ascii") as file:
        up_ms = float(file.read().split()[0]) * 1000
    assert up_ms - PATIENCE * 1000 < boot_ms <= up_ms + 1000
    assert (second["nvml_code"], third["sequence"]) == (2, 3)
    assert world.writes() == [(1, "power_limit", 300000), (1, "power_limit", 400000)]
    assert world.writes(ok_only=False)[1] == (0, "power_limit", 100, "code 2")
    assert world.writes(gpu=1, after=1) == [(1, "power_limit", 400000)]
    assert world.write_count() == 3


def test_a_fault_inside_the_client_is_no_write(world, client):
    world.start("--gpus", "1")
    one = client()
    world.fail(0, "set_power_limit", 999)
    assert limit(one, 0, 300000) == 999
    assert world.writes(ok_only=False) == []


def test_dead_client_no_longer_blocks_reset(world, client):
    world.start("--gpus", "1")
    first, second = client(), client()
    first.end()  # killed, with NVML initialised
    assert world.sim("reset", "--gpu", "0", "--as-driver").returncode == 7
    second.end()
    world.must("reset", "--gpu", "0", "--as-driver")


def test_daemon_keeps_driver_open_until_its_end(daemon, run):
    yard = daemon("--simulate", "2")
    there = {"GPUYARD_SIM_WORLD": yard.state + "/world"}
    refused = run("sim", "reset", "--gpu", "0", "--as-driver", **there)
    assert refused.returncode == 7
    os.kill(yard.driver_host(), signal.SIGSTOP)  # and it still has
    assert run("sim", "reset", "--gpu", "0", "--as-driver", **there).returncode == 7
    assert run("sim", "reset", "--gpu", "0", **there).returncode == 0  # a test may
