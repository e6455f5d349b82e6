"""Tools that run nvidia-smi and read what it prints show a simulated fleet of every model, with the values
of the world: nvidia-smi is the link to gpuyard in the world's directory.
"""

import json
import math
import os
import sys

import pytest

from fleet import World, close
from proofs import record

pytest.importorskip("GPUtil")
pytest.importorskip("nvsmi")
pytest.importorskip("gpufetch")

MIB = 1 << 20

# The tools as their users' programs call them: one object per GPU.
GPUTIL = """
import json, GPUtil
print(json.dumps([vars(gpu) for gpu in GPUtil.getGPUs()]))
"""
GPUFETCH = """
import dataclasses, json
from gpufetch.main import detect_nvidia
print(json.dumps([dataclasses.asdict(gpu) for gpu in detect_nvidia()]))
"""
NVSMI_PROCESSES = """
import json, nvsmi
print(json.dumps([vars(process) for process in nvsmi.get_gpu_processes()]))
"""


class Tools:
    """Runs tools that find nvidia-smi in PATH, and nothing else of gpuyard."""

    def __init__(self, world):
        self.world = world

    def environment(self):
        inherited = {k: v for k, v in os.environ.items() if not k.startswith("GPUYARD_SIM_WORLD")}
        return inherited | {"PATH": f"{self.world.directory}:{os.environ['PATH']}"}

    def ask(self, *words):
        world, kept = self.world, self.world.environment
        world.environment = self.environment
        try:
            return world.run(sys.executable, *words)
        finally:
            world.environment = kept

    def objects(self, program):
        return json.loads(self.ask("-c", program))


def test_gputil_lists_the_fleet(world, record_property):
    world.settled()
    seen = Tools(world).objects(GPUTIL)
    for gpu, expected in zip(seen, world.gpus(), strict=True):
        assert (gpu["id"], gpu["uuid"], gpu["name"]) == (expected["index"], expected["uuid"], expected["name"])
        assert gpu["memoryTotal"] == expected["memory_total_bytes"] // MIB
        assert close(gpu["memoryTotal"] - gpu["memoryUsed"] - gpu["memoryFree"], 0, 1200)
        assert math.isclose(gpu["load"] * 100, expected["utilization_percent"])
        assert close(gpu["temperature"], expected["temperature_celsius"], 1)
        assert gpu["driver"] == "535.104.05"
        assert (gpu["serial"] == "[N/A]") == (world.model == "rtx4090")
    record_property("matrix", f"GPUtil\t{world.model}\tname, UUID, serial, memory, utilisation, temperature, driver")
    record("GPUtil", "ran")


def test_nvsmi_lists_the_fleet(world, record_property):
    world.settled()
    seen = [json.loads(line) for line in Tools(world).ask("-m", "nvsmi", "ls", "--json").splitlines()]
    for gpu, expected in zip(seen, world.gpus(), strict=True):
        assert (gpu["id"], gpu["uuid"], gpu["name"]) == (str(expected["index"]), expected["uuid"], expected["name"])
        assert gpu["mem_total"] == expected["memory_total_bytes"] // MIB
        assert gpu["gpu_util"] == expected["utilization_percent"]
        assert close(gpu["temperature"], expected["temperature_celsius"], 1)
    record_property("matrix", f"nvsmi\t{world.model}\tname, UUID, memory, utilisation, temperature, processes")
    record("nvsmi", "ran")


def test_gpufetch_lists_the_fleet(world, record_property):
    world.settled()
    seen = Tools(world).objects(GPUFETCH)
    for gpu, expected in zip(seen, world.gpus(), strict=True):
        assert (gpu["index"], gpu["name"], gpu["driver"]) == (expected["index"], expected["name"], "535.104.05")
        assert gpu["vram_total_mib"] == expected["memory_total_bytes"] // MIB
        assert gpu["util_pct"] == expected["utilization_percent"]
        assert close(gpu["temp_c"], expected["temperature_celsius"], 1)
        assert gpu["pcie_width"] == 16
    record_property("matrix", f"gpufetch\t{world.model}\tname, memory, utilisation, temperature, driver, PCIe width")
    record("gpufetch", "ran")


def test_nvsmi_shows_a_real_process_on_its_gpu(tmp_path):
    one = World(tmp_path / "world", "a100", load="idle")
    try:
        pid = one.process(gpu=1, vram="2G", load="0.5")
        seen = Tools(one).objects(NVSMI_PROCESSES)
        assert [(p["pid"], p["process_name"], p["gpu_id"], p["used_memory"]) for p in seen] == [
            (pid, "sleep", "1", 2048.0)]
    finally:
        one.stop()
