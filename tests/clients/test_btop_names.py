"""btop's way of asking, without btop: Debian's 1.2.13 has no GPU support yet, so this calls the 17
unsuffixed names that newer btops load, in the order and with the layouts they use. A stand-in.
"""

import json
import sys

from fleet import close

CLIENT = """
import ctypes, json, sys
from ctypes import byref, c_char, c_uint, c_ulonglong, c_void_p

nvml = ctypes.CDLL("libnvidia-ml.so.1")
for name in ("nvmlErrorString nvmlInit nvmlShutdown nvmlDeviceGetCount nvmlDeviceGetHandleByIndex "
             "nvmlDeviceGetName nvmlDeviceGetPowerManagementLimit "
             "nvmlDeviceGetTemperatureThreshold nvmlDeviceGetUtilizationRates "
             "nvmlDeviceGetClockInfo nvmlDeviceGetPowerUsage nvmlDeviceGetPowerState "
             "nvmlDeviceGetTemperature nvmlDeviceGetMemoryInfo nvmlDeviceGetPcieThroughput "
             "nvmlDeviceGetEncoderUtilization nvmlDeviceGetDecoderUtilization").split():
    getattr(nvml, name)  # btop shows no GPU if one is missing

class Pair(ctypes.Structure):
    _fields_ = [("gpu", c_uint), ("memory", c_uint)]

class Memory(ctypes.Structure):
    _fields_ = [("total", c_ulonglong), ("free", c_ulonglong), ("used", c_ulonglong)]

def number(name, gpu, *before):
    value = c_uint()
    code = getattr(nvml, name)(gpu, *before, byref(value))
    return value.value if code == 0 else -code

assert nvml.nvmlInit() == 0
count = c_uint()
assert nvml.nvmlDeviceGetCount(byref(count)) == 0
fleet = []
for index in range(count.value):
    gpu = c_void_p()
    assert nvml.nvmlDeviceGetHandleByIndex(index, byref(gpu)) == 0
    text = (c_char * 64)()
    rates, memory, period = Pair(), Memory(), c_uint()
    assert nvml.nvmlDeviceGetName(gpu, text, 64) == 0
    assert nvml.nvmlDeviceGetUtilizationRates(gpu, byref(rates)) == 0
    assert nvml.nvmlDeviceGetMemoryInfo(gpu, byref(memory)) == 0
    fleet.append({
        "name": text.value.decode(), "load": rates.gpu, "total": memory.total, "used": memory.used,
        "limit": number("nvmlDeviceGetPowerManagementLimit", gpu),
        "slowdown": number("nvmlDeviceGetTemperatureThreshold", gpu, 0),
        "clock": number("nvmlDeviceGetClockInfo", gpu, 0),
        "memory_clock": number("nvmlDeviceGetClockInfo", gpu, 2),
        "power": number("nvmlDeviceGetPowerUsage", gpu),
        "state": number("nvmlDeviceGetPowerState", gpu),
        "temperature": number("nvmlDeviceGetTemperature", gpu, 0),
        "pcie_tx": number("nvmlDeviceGetPcieThroughput", gpu, 0),
        "pcie_rx": number("nvmlDeviceGetPcieThroughput", gpu, 1)})
assert nvml.nvmlShutdown() == 0
json.dump(fleet, sys.stdout)
"""


# btop loads 17 names without a version suffix and expects the oldest layout of each.
def test_unsuffixed_nvml_names_use_original_layouts(world, record_property):
    world.settled()
    seen = json.loads(world.run(sys.executable, "-c", CLIENT))
    for gpu, expected in zip(seen, world.gpus(), strict=True):
        assert gpu["name"] == expected["name"]
        assert (gpu["total"], gpu["used"]) == (expected["memory_total_bytes"],
                                               expected["memory_used_bytes"])
        assert gpu["load"] == expected["utilization_percent"]
        assert gpu["limit"] == expected["power_limit_w"] * 1000
        assert gpu["slowdown"] > expected["temperature_celsius"]
        assert (gpu["clock"], gpu["memory_clock"]) == (expected["sm_clock_mhz"],
                                                       expected["memory_clock_mhz"])
        assert close(gpu["power"] / 1000, expected["power_w"], 2)
        assert gpu["state"] == expected["performance_state"]
        assert close(gpu["temperature"], expected["temperature_celsius"], 1)
        assert close(gpu["pcie_tx"], expected["pcie_tx_bytes_per_s"] / 1000, 1)
        assert close(gpu["pcie_rx"], expected["pcie_rx_bytes_per_s"] / 1000, 1)
    record_property("matrix", f"btop's 17 names (stand-in)\t{world.model}\tname, utilisation, "
                              "memory, clocks, power, limit, state, temperature, PCIe")
