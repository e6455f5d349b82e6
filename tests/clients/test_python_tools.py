"""nvitop and gpustat list a simulated fleet of every model, with the values of the world."""

import json
import re
import sys
from pathlib import Path

import pytest

from fleet import World, close, without_reserve
from proofs import record

pytest.importorskip("gpustat")
pytest.importorskip("nvitop")

MIB = 1 << 20

# nvitop as its users' programs call it: one object per GPU.
NVITOP = """
import json, sys
from nvitop import Device, NA
fleet = []
for one in Device.all():
    fields = {"index": one.index, "name": one.name(), "uuid": one.uuid(), "bus": one.bus_id(),
              "total": one.memory_total(), "used": one.memory_used(),
              "utilization": one.gpu_utilization(), "temperature": one.temperature(),
              "power": one.power_usage(), "limit": one.power_limit(), "fan": one.fan_speed(),
              "sm": one.sm_clock(),
              "processes": [[p.pid, p.gpu_memory()] for p in one.processes().values()]}
    fleet.append({key: None if value is NA else value for key, value in fields.items()})
json.dump(fleet, sys.stdout)
"""


def test_gpustat_lists_the_fleet(world, record_property):
    world.settled()
    seen = json.loads(world.run(sys.executable, "-m", "gpustat", "--json"))["gpus"]
    for gpu, expected in zip(seen, world.gpus(), strict=True):
        assert gpu["index"] == expected["index"]
        assert gpu["name"] == expected["name"]
        assert gpu["uuid"] == expected["uuid"]
        assert gpu["memory.total"] == expected["memory_total_bytes"] // MIB
        assert without_reserve(gpu["memory.used"] * MIB, expected)
        assert gpu["utilization.gpu"] == expected["utilization_percent"]
        assert close(gpu["temperature.gpu"], expected["temperature_celsius"], 1)
        assert close(gpu["power.draw"], expected["power_w"], 2)
        assert gpu["enforced.power.limit"] == expected["power_limit_w"]
        assert (gpu["fan.speed"] is None) == (world.model != "rtx4090")
        assert gpu["processes"] == []
    record_property("matrix", f"gpustat\t{world.model}\tname, UUID, memory, utilisation, "
                              "temperature, power, limit" + (", fan" if seen[0]["fan.speed"]
                                                             is not None else ""))
    record("gpustat", "ran")


def test_nvitop_lists_the_fleet(world, record_property):
    world.settled()
    seen = json.loads(world.run(sys.executable, "-c", NVITOP))
    for gpu, expected in zip(seen, world.gpus(), strict=True):
        assert (gpu["index"], gpu["name"], gpu["uuid"], gpu["bus"]) == (
            expected["index"], expected["name"], expected["uuid"], expected["pci_address"])
        assert gpu["total"] == expected["memory_total_bytes"]
        assert without_reserve(gpu["used"], expected)
        assert gpu["utilization"] == expected["utilization_percent"]
        assert close(gpu["temperature"], expected["temperature_celsius"], 1)
        assert close(gpu["power"] / 1000, expected["power_w"], 2)
        assert gpu["limit"] == expected["power_limit_w"] * 1000
        assert gpu["sm"] == expected["sm_clock_mhz"]
        assert (gpu["fan"] is None) == (world.model != "rtx4090")
        assert gpu["processes"] == []
    record_property("matrix", f"nvitop\t{world.model}\tname, UUID, bus, memory, utilisation, "
                              "temperature, power, limit, SM clock"
                              + (", fan" if seen[0]["fan"] is not None else ""))
    record("nvitop", "ran")


def test_both_show_a_real_process_on_its_gpu(tmp_path):
    one = World(tmp_path / "world", "a100", load="idle")
    try:
        pid = one.process(gpu=1, vram="2G", load="0.5")
        first, second = json.loads(one.run(sys.executable, "-m", "gpustat", "--json"))["gpus"]
        assert first["processes"] == []
        assert [(p["pid"], p["gpu_memory_usage"], p["command"]) for p in second["processes"]] == [
            (pid, 2048, "sleep")]
        first, second = json.loads(one.run(sys.executable, "-c", NVITOP))
        assert (first["processes"], second["processes"]) == ([], [[pid, 2 << 30]])
    finally:
        one.stop()


def test_nvitops_own_screen_shows_each_gpu(world):
    world.settled()
    screen = world.run(Path(sys.executable).parent / "nvitop", "--once", "--ascii")
    assert "535.104.05" in screen
    for gpu in world.gpus():
        assert gpu["pci_address"] in screen
        # nvitop leaves out the maker's name and cuts what does not fit.
        assert re.sub(r"^(NVIDIA|Tesla) ", "", gpu["name"])[:12].strip() in screen
        assert f"{gpu['utilization_percent']}%" in screen
