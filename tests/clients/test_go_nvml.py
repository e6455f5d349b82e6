"""NVIDIA's own Go bindings, compiled against NVIDIA's header: go_nvml/main.go lists a fleet of every
model with the values of the world, and reads each struct as that header lays it out.
"""

import json

from fleet import HERE, close
from proofs import record

PROGRAM = HERE.parent.parent / "build" / "clients" / "go-nvml" / "list"


def test_go_nvml_lists_the_fleet(world, record_property):
    before = [gpu["energy_joules"] for gpu in world.settled().gpus()]
    seen = json.loads(world.run(PROGRAM))
    for gpu, expected in zip(seen, world.gpus(), strict=True):
        assert (gpu["index"], gpu["name"], gpu["uuid"], gpu["pci_address"]) == (
            expected["index"], expected["name"], expected["uuid"], expected["pci_address"])
        assert (gpu["memory_total"], gpu["memory_used"]) == (expected["memory_total_bytes"],
                                                             expected["memory_used_bytes"])
        assert 0 < gpu["memory_reserved"] < gpu["memory_used"]
        assert gpu["utilization"] == expected["utilization_percent"]
        assert close(gpu["temperature"], expected["temperature_celsius"], 1)
        assert close(gpu["power_mw"] / 1000, expected["power_w"], 2)
        assert close(gpu["power_instant_mw"] / 1000, expected["power_w"], 2)
        assert gpu["sm_clock"] == expected["sm_clock_mhz"]
        assert gpu["gpm"] == (world.model in ("h100", "h200"))
        assert gpu["events"] == "Timeout"
        assert gpu["processes"] == []
        assert 0 <= gpu["energy_mj"] / 1000 - before[gpu["index"]] <= 30 * expected["power_w"]
    record_property("matrix", f"go-nvml\t{world.model}\tname, UUID, bus, memory (both versions), "
                              "power, temperature, utilisation, clock, energy, processes, GPM, "
                              "field values, events")
    record("go-nvml", "ran")
