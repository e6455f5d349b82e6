"""A simulated world breaks on command and heals on command, seen through NVML by other programs."""

import json

import pytest

from nvml_client import Client
from program import wait_until

NO_PERMISSION, NOT_FOUND, DRIVER_NOT_LOADED = 4, 6, 9
LOST, RESET_REQUIRED, MISMATCH, UNKNOWN = 15, 16, 18, 999
A_WHILE = 0.3  # seconds in which a call that works has long returned


@pytest.fixture
def client(world):
    """Programs with NVML initialised; they end with the test."""
    started = []

    def start(initialised=True, library=None):
        one = Client(world.environment, library)
        started.append(one)
        if initialised:
            assert one.code("init") == 0
        return one
    yield start
    for one in started:
        one.end()


def test_a_call_that_hangs_ends_with_its_world(world, client):
    world.start("--gpus", "1")
    one = client()
    world.hang(0)
    assert one.value("count") == 1  # no call of that GPU
    hanging = one.begin("gpu", 0)
    assert hanging.within(A_WHILE) is None
    world.must("stop")
    assert hanging.within(10)[0] == DRIVER_NOT_LOADED


def test_driver_wide_hang_blocks_every_call_until_cleared(world, client):
    world.start("--gpus", "3")
    one, two, late = client(), client(), client(initialised=False)
    gpus = [one.value("gpu", index) for index in range(3)]
    world.hang_driver()
    hanging = [one.begin("power", gpu) for gpu in gpus] + [
        one.begin("count"), two.begin("driver"), two.begin("gpu", 2), late.begin("init")]
    assert [each.within(A_WHILE) for each in hanging] == [None] * len(hanging)
    assert world.status()["driver"]["faults"] == ["any: never returns"]
    # Calls that need no driver work: no lock of the client is held.
    assert two.code("shutdown") == 0
    world.heal_all()
    codes = [each.within(5)[0] for each in hanging]
    assert codes == [0] * len(hanging)


def test_driver_reload_is_new_session_for_new_clients(world, client):
    world.start("--gpus", "2", "--load", "steady")
    old, idle = client(), client()
    gpu = old.value("gpu", 0)
    assert old.code("set_limit", gpu, 350_000) == 0
    before = old.value("energy", gpu)
    world.reload_driver(version="550.54.15")
    assert old.code("power", gpu) == MISMATCH
    assert old.code("count") == MISMATCH
    assert old.code("driver") == MISMATCH
    assert old.code("set_limit", gpu, 400_000) == MISMATCH
    assert idle.code("gpu", 1) == MISMATCH
    new = client()
    fresh = new.value("gpu", 0)
    assert new.value("energy", fresh) < before
    assert new.value("limit", fresh) == 700_000
    assert [new.value(what) for what in ("driver", "nvml", "cuda")] == ["550.54.15", "12.550.54",
                                                                        12040]
    assert old.code("shutdown") == 0 and old.code("init") == 0
    assert old.code("power", old.value("gpu", 0)) == 0
    assert world.status()["driver"] | {"faults": []} == {
        "loaded": True, "session": 2, "version": "550.54.15", "faults": []}


# A program that initialised before keeps its numbering and sees a lost GPU; a later one does not see the GPU at all.
def test_unplugged_gpu_is_lost_or_absent_by_session(world, client):
    world.start("--gpus", "4")
    uuids = [gpu["uuid"] for gpu in world.status()["gpus"]]
    old = client()
    handles = [old.value("gpu", index) for index in range(4)]
    world.unplug(1)
    assert old.code("power", handles[1]) == LOST
    assert old.code("gpu", 1) == LOST and old.code("by_uuid", uuids[1]) == LOST
    assert [old.code("power", handles[index]) for index in (0, 2, 3)] == [0, 0, 0]
    assert old.value("uuid", old.value("gpu", 2)) == uuids[2]  # its own numbering stays
    assert old.value("count") == 4
    new = client()
    assert new.value("count") == 3
    assert [new.value("uuid", new.value("gpu", index)) for index in range(3)] == [
        uuids[0], uuids[2], uuids[3]]
    assert new.code("by_uuid", uuids[1]) == NOT_FOUND
    shown = world.status()["gpus"]
    assert [gpu["index"] for gpu in shown] == [0, 1, 2, None]
    assert shown[3]["uuid"] == uuids[1]

    # Back at the end: the same GPU under another index, and for the first program another one.
    world.plug(index=3)
    assert old.code("power", handles[1]) == LOST
    assert new.value("count") == 3 and new.code("by_uuid", uuids[1]) == NOT_FOUND
    third = client()
    assert [third.value("uuid", third.value("gpu", index)) for index in range(4)] == [
        uuids[0], uuids[2], uuids[3], uuids[1]]
    assert third.value("index", third.value("by_uuid", uuids[1])) == 3
    assert [gpu["uuid"] for gpu in world.status()["gpus"]] == [uuids[0], uuids[2], uuids[3], uuids[1]]
    # Commands for GPU 3 now mean it.
    world.fail(3, "power_usage", UNKNOWN)
    assert third.code("power", third.value("by_uuid", uuids[1])) == UNKNOWN


def test_gpu_requiring_reset_answers_only_identity(world, client):
    world.start("--gpus", "2")
    one = client()
    gpu = one.value("gpu", 0)
    world.require_reset(0)
    assert one.code("power", gpu) == RESET_REQUIRED
    assert one.code("set_limit", gpu, 400_000) == RESET_REQUIRED
    assert one.code("uuid", gpu) == 0 and one.code("gpu", 0) == 0
    assert one.code("power", one.value("gpu", 1)) == 0
    assert world.gpu(0)["conditions"] == ["reset_required"]
    world.reset(0)
    assert one.code("power", gpu) == 0
    assert world.gpu(0)["conditions"] == []


def test_limited_fault_is_counted_per_process(world, client):
    world.start("--gpus", "1")
    one, two = client(), client()
    gpu, other = one.value("gpu", 0), two.value("gpu", 0)
    world.fail(0, "power_usage", UNKNOWN, "--times", "3")
    assert [one.code("power", gpu) for _ in range(5)] == [UNKNOWN] * 3 + [0] * 2
    assert [two.code("power", other) for _ in range(5)] == [UNKNOWN] * 3 + [0] * 2
    assert world.gpu(0)["faults"] == ["power_usage: code 999, 3 times"]
    world.fail(0, "power_usage", UNKNOWN, "--times", "1")  # injected again, counted afresh
    assert [one.code("power", gpu) for _ in range(2)] == [UNKNOWN, 0]
    world.hang(0, "temperature", times=1)
    hanging = one.begin("temperature", gpu)
    assert hanging.within(A_WHILE) is None
    assert one.code("temperature", gpu) == 0


def test_setters_can_be_forbidden_while_readings_work(world, client):
    world.start("--gpus", "1")
    one = client()
    gpu = one.value("gpu", 0)
    world.fail_all("setters", NO_PERMISSION)
    assert one.code("set_limit", gpu, 400_000) == NO_PERMISSION
    assert world.writes(ok_only=False) == [], "a fault inside the client is no write"
    assert one.code("limit", gpu) == 0
    world.heal_all()
    assert one.code("set_limit", gpu, 400_000) == 0


def test_states_of_a_board_show_in_its_sensors(world, client):
    world.start("--model", "rtx4090:1,h100:1,t4:1", "--load", "steady", "--stepped")
    world.step("1m")
    one = client()
    game, server, old = (one.value("gpu", index) for index in range(3))
    clock, temperature = one.value("sm_clock", server), one.value("temperature", game)
    assert one.value("fan", game) > 40 and one.value("pcie_width", server) == 16
    world.inject(0, "--fan", "0")
    world.inject(1, "--power-brake", "--pcie-generation", "3", "--pcie-width", "8",
                 "--row-remap", "pending", "--memory-heat", "30")
    world.step("2m")
    assert one.value("fan", game) == 0
    assert one.value("temperature", game) > temperature + 10
    assert one.value("reasons", server) & 0x88 == 0x88
    assert one.value("sm_clock", server) <= 1980 / 2 < clock
    assert one.value("pcie_generation", server) == 3 and one.value("pcie_width", server) == 8
    assert one.value("rows", server)[2:] == [1, 0]
    shown = world.gpu(1)
    assert shown["memory_temperature_celsius"] > shown["temperature_celsius"] + 30
    assert world.gpu(1)["conditions"] == ["power_brake", "row_remap_pending", "pcie_generation 3",
                                          "pcie_width 8"]
    for gpu, option in ((1, ("--fan", "0")), (2, ("--row-remap", "failed")),
                        (2, ("--memory-heat", "3")), (2, ("--pcie-generation", "5"))):
        assert world.sim("inject", "--gpu", str(gpu), *option).returncode == 3, option
    world.inject(1, "--row-remap", "failed")
    assert one.value("rows", server)[2:] == [1, 1]
    world.reset(1)
    assert one.value("rows", server)[2:] == [0, 1]
    world.heal(1)
    world.step("1m")
    assert one.value("rows", server)[2:] == [0, 0]
    assert one.value("reasons", server) & 0x80 == 0 and one.value("pcie_width", server) == 16
    assert one.code("temperature", old) == 0


def test_time_can_go_faster(world):
    world.start("--gpus", "1", "--load", "steady", "--speed", "60")
    begun = world.status()["time"]
    assert begun["mode"] == "scaled" and begun["speed"] == 60.0
    wait_until(lambda: world.status()["time"]["elapsed_s"] > begun["elapsed_s"] + 60,
               "a minute in about a second")
    assert world.sim("step", "1s").returncode == 7
    for speed in ("0", "-1", "5000", "fast"):
        assert world.sim("start", "--speed", speed).returncode == 2


def test_functions_are_missing_from_library_of_world(world, client, run):
    gone = ["nvmlDeviceGetPowerUsage", "nvmlDeviceGetFieldValues"]
    printed = world.must("start", "--gpus", "1", *[word for name in gone
                                                   for word in ("--missing", name)])
    assert f"LD_LIBRARY_PATH={world.directory}\n" in printed
    library = world.directory / "libnvidia-ml.so.1"
    one = client(library=str(library))
    assert [one.value("has", name) for name in gone] == [False, False]
    assert one.value("has", "nvmlDeviceGetTemperature")
    assert one.code("temperature", one.value("gpu", 0)) == 0
    assert client().value("has", gone[0])  # the library itself is whole
    shown = run("devices", "--local", "--json", GPUYARD_SIM_WORLD=str(world.directory))
    assert json.loads(shown.stdout)["devices"][0]["readings"]["power_draw_w"] is None
    world.must("stop")
    assert not library.exists()
    refused = world.sim("start", "--missing", "nvmlDeviceGetEverything")
    assert refused.returncode == 2 and "nvmlDeviceGetEverything" in refused.stderr
