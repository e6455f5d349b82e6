"""The simulated driver as something that is controlled: who may set, what reached it in which order, and
what puts settings back."""

import os
import pwd
import signal
import subprocess

import pytest

from nvml_client import Client
from program import PATIENCE, program_for_others, wait_until
from sim_world import World

DEFAULT = 700000  # an H100's power limit


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


@pytest.mark.parametrize("setters, code", [("owner", 0), ("root", 0 if os.geteuid() == 0 else 4),
                                           ("everyone", 0), ("nobody", 4)])
def test_setters_option_decides_write_permission(world, client, setters, code):
    world.start("--gpus", "1", "--setters", setters)
    assert world.status()["setters"] == setters
    assert limit(client(), 0, 300000) == code
    assert world.gpu(0)["power_limit_w"] == (300 if code == 0 else 700)
    assert world.writes(ok_only=False) == [(0, "power_limit", 300000, *(["code 4"] if code else []))]


def test_scenario_decides_write_permission(world, client, tmp_path):
    file = tmp_path / "closed.toml"
    file.write_text('[world]\ngpus = 1\nsetters = "nobody"\n')
    world.start("--scenario", str(file))
    assert limit(client(), 0, 300000) == 4
    file.write_text('[world]\nsetters = "somebody"\n')
    wrong = world.sim("validate", str(file))
    assert wrong.returncode == 2 and "nobody" in wrong.stderr and ":2:" in wrong.stderr


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


def test_ten_thousand_writes_are_logged_in_order(world, client):
    world.start("--gpus", "1")
    one = client()
    gpu = one.value("gpu", 0)
    assert one.code("set_limits", gpu, 10_000) == 0
    written = [values for _, _, values in world.writes()]
    assert written == [200000 + i % 500000 for i in range(10_000)]


def test_a_fault_inside_the_client_is_no_write(world, client):
    world.start("--gpus", "1")
    one = client()
    world.fail(0, "set_power_limit", 999)
    assert limit(one, 0, 300000) == 999
    assert world.writes(ok_only=False) == []


def test_reset_of_open_gpu_is_refused(world, client):
    world.start("--gpus", "2")
    one = client()
    assert limit(one, 1, 300000) == 0
    refused = world.sim("reset", "--gpu", "1", "--as-driver")
    assert refused.returncode == 7 and "has the driver open" in refused.stderr
    assert world.gpu(1)["power_limit_w"] == 300
    assert one.code("shutdown") == 0
    world.must("reset", "--gpu", "1", "--as-driver")
    assert world.gpu(1)["power_limit_w"] == 700
    assert world.writes(ok_only=False) == [(1, "power_limit", 300000), (1, "reset", "code 19"),
                                           (1, "reset")]


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


def test_reset_accepts_any_gpu_identifier_and_world_option(world, tmp_path):
    world.start("--gpus", "3")
    gpu = world.gpu(1)
    for name in ("1", gpu["uuid"], gpu["pci_address"], gpu["pci_address"][4:]):
        world.must("reset", "--as-driver", "--gpu", name)
    elsewhere = World(tmp_path / "elsewhere")
    assert elsewhere.sim("reset", "--gpu", "1").returncode == 6
    elsewhere.must("reset", "--gpu", gpu["uuid"], "--world", str(world.directory))
    assert world.writes() == [(1, "reset")] * 5
    world.must("reset", "--gpu", "all", "--as-driver")
    assert world.writes(after=5) == [(0, "reset"), (1, "reset"), (2, "reset")]
    for name, code in (("3", 6), ("GPU-0", 6), ("", 2), ("0000:ff:00.0", 6)):
        assert world.sim("reset", "--gpu", name).returncode == code, name
    world.unload_driver()
    assert world.sim("reset", "--gpu", "0", "--as-driver").returncode == 5


def test_driver_reset_without_permission_is_refused(world):
    world.start("--gpus", "1", "--setters", "nobody")
    refused = world.sim("reset", "--gpu", "0", "--as-driver")
    assert refused.returncode == 4 and "nobody" in refused.stderr
    assert world.writes(ok_only=False) == [(0, "reset", "code 4")]


def test_reset_of_used_gpu_is_refused_either_way(world):
    world.start("--gpus", "1")
    world.must("attach", "--synthetic", "1", "--gpu", "0", "--vram", "1M")
    for how in ((), ("--as-driver",)):
        refused = world.sim("reset", "--gpu", "0", *how)
        assert refused.returncode == 7 and "1 processes are using this GPU" in refused.stderr


def test_driver_reload_resets_settings_except_ecc(world, client):
    world.start("--gpus", "2")
    one = client()
    gpu = one.value("gpu", 1)
    for what, arguments in (("set_limit", (300000,)), ("lock_clocks", (600, 1200)),
                            ("lock_memory_clocks", (2619, 2619)), ("set_persistence", (1,)),
                            ("set_compute_mode", (3,)), ("set_ecc", (0,))):
        assert one.code(what, gpu, *arguments) == 0, what
    before = world.gpu(1)["settings"]
    assert before == {"locked_sm_mhz": [600, 1200], "locked_memory_mhz": [2619, 2619],
                      "persistence_mode": True, "compute_mode": "exclusive_process",
                      "ecc_mode": True, "ecc_mode_pending": False}
    world.reload_driver()
    after = world.gpu(1)
    assert after["power_limit_w"] == 700
    assert after["settings"] == {"locked_sm_mhz": [], "locked_memory_mhz": [],
                                 "persistence_mode": False, "compute_mode": "default",
                                 "ecc_mode": False, "ecc_mode_pending": False}
    assert world.writes()[-2:] == [(None, "driver_unloaded"), (None, "driver_loaded", 2)]
    world.reload_driver()
    assert world.gpu(1)["settings"]["ecc_mode"] is False  # stored on the board
    assert world.writes()[-1] == (None, "driver_loaded", 3)


def test_unloaded_driver_interval_appears_in_write_log(world, client):
    world.start("--gpus", "1", "--stepped")
    one = client()
    assert limit(one, 0, 300000) == 0
    world.reload_driver(seconds=5)
    gpu = 0
    assert world.status()["driver"]["loaded"] is False
    world.step("5s")
    assert world.status()["driver"]["loaded"] is True
    again = client()
    assert limit(again, gpu, 400000) == 0
    assert world.writes() == [(0, "power_limit", 300000), (None, "driver_unloaded"),
                              (None, "driver_loaded", 2), (0, "power_limit", 400000)]
    wait_until(lambda: world.gpu(0)["power_limit_w"] == 400, "the limit")
