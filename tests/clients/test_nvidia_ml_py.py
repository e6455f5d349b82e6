"""nvidia-ml-py, a client that knows nothing of gpuyard, lists a simulated fleet.

Run in an environment that has nvidia-ml-py and pytest, with
  GPUYARD_BIN      the gpuyard program
  GPUYARD_SIM_LIB  the simulated libnvidia-ml.so.1
"""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from proofs import record  # noqa: E402

pytest.importorskip("pynvml")

GPUS = 4

# Runs in a process of its own: the loader reads LD_LIBRARY_PATH when a process starts.
CLIENT = """
import json
import pynvml as nvml

nvml.nvmlInit()
fleet = []
for index in range(nvml.nvmlDeviceGetCount()):
    gpu = nvml.nvmlDeviceGetHandleByIndex(index)
    memory = nvml.nvmlDeviceGetMemoryInfo(gpu)
    memory_v2 = nvml.nvmlDeviceGetMemoryInfo(gpu, version=nvml.nvmlMemory_v2)
    utilization = nvml.nvmlDeviceGetUtilizationRates(gpu)
    pci = nvml.nvmlDeviceGetPciInfo(gpu)
    by_uuid = nvml.nvmlDeviceGetHandleByUUID(nvml.nvmlDeviceGetUUID(gpu))
    by_address = nvml.nvmlDeviceGetHandleByPciBusId(pci.busId)
    fleet.append({
        "index": nvml.nvmlDeviceGetIndex(gpu),
        "name": nvml.nvmlDeviceGetName(gpu),
        "uuid": nvml.nvmlDeviceGetUUID(gpu),
        "pci_address": pci.busId,
        "found_again": [nvml.nvmlDeviceGetIndex(by_uuid), nvml.nvmlDeviceGetIndex(by_address)],
        "memory_total": memory.total,
        "memory_adds_up": memory.used + memory.free == memory.total
        and memory_v2.reserved + memory_v2.used + memory_v2.free == memory_v2.total,
        "utilization": utilization.gpu,
        "temperature": nvml.nvmlDeviceGetTemperature(gpu, nvml.NVML_TEMPERATURE_GPU),
        "power_mw": nvml.nvmlDeviceGetPowerUsage(gpu),
        "limits_mw": nvml.nvmlDeviceGetPowerManagementLimitConstraints(gpu),
        "energy_mj": nvml.nvmlDeviceGetTotalEnergyConsumption(gpu),
        "sm_mhz": nvml.nvmlDeviceGetClockInfo(gpu, nvml.NVML_CLOCK_SM),
        "sm_mhz_max": nvml.nvmlDeviceGetMaxClockInfo(gpu, nvml.NVML_CLOCK_SM),
        "processes": len(nvml.nvmlDeviceGetComputeRunningProcesses(gpu)),
    })
try:
    nvml.nvmlDeviceGetHandleByIndex(len(fleet))
    beyond = None
except nvml.NVMLError as error:
    beyond = error.value
print(json.dumps({
    "driver": nvml.nvmlSystemGetDriverVersion(),
    "nvml": nvml.nvmlSystemGetNVMLVersion(),
    "cuda": nvml.nvmlSystemGetCudaDriverVersion(),
    "beyond": beyond,
    "fleet": fleet,
}))
nvml.nvmlShutdown()
"""

INIT_CODE = """
import pynvml
try:
    pynvml.nvmlInit()
    print(0)
except pynvml.NVMLError as error:
    print(error.value)
"""


def required(name):
    value = os.environ.get(name)
    if not value:
        pytest.skip(f"{name} is not set")
    return value


def gpuyard(*arguments):
    done = subprocess.run([required("GPUYARD_BIN"), *arguments], capture_output=True, text=True,
                          timeout=20)
    assert done.returncode == 0, f"gpuyard {' '.join(arguments)}: {done.stderr}"
    return done.stdout


def client(script, world):
    library = os.path.dirname(os.path.abspath(required("GPUYARD_SIM_LIB")))
    environment = dict(os.environ, LD_LIBRARY_PATH=library, GPUYARD_SIM_WORLD=world)
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True,
                          text=True, timeout=20)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture
def world(tmp_path):
    directory = str(tmp_path / "world")
    gpuyard("sim", "start", "--gpus", str(GPUS), "--world", directory)
    yield directory
    subprocess.run([required("GPUYARD_BIN"), "sim", "stop", "--world", directory], timeout=20,
                   capture_output=True)


def test_the_fleet_is_the_one_that_sim_status_shows(world):
    seen = client(CLIENT, world)
    status = json.loads(gpuyard("sim", "status", "--world", world, "--json"))
    assert status["directory"] == world
    assert status["keeper_pid"] > 0
    assert len(seen["fleet"]) == len(status["gpus"]) == GPUS
    for gpu, expected in zip(seen["fleet"], status["gpus"]):
        assert gpu["index"] == expected["index"]
        assert gpu["name"] == expected["name"] == "NVIDIA H100 80GB HBM3"
        assert gpu["uuid"] == expected["uuid"]
        assert gpu["pci_address"] == expected["pci_address"]
        assert gpu["memory_total"] == expected["memory_total_bytes"]
        assert gpu["found_again"] == [gpu["index"], gpu["index"]]
    assert len({gpu["uuid"] for gpu in seen["fleet"]}) == GPUS
    record("nvidia-ml-py clients", "ran")


def test_every_reading_is_one_an_h100_could_give(world):
    seen = client(CLIENT, world)
    assert (seen["driver"], seen["nvml"], seen["cuda"]) == ("535.104.05", "12.535.104", 12020)
    assert seen["beyond"] == 2
    for gpu in seen["fleet"]:
        assert gpu["memory_adds_up"]
        assert 0 <= gpu["utilization"] <= 100
        assert 20 <= gpu["temperature"] <= 90
        assert 69_000 <= gpu["power_mw"] <= 700_000
        assert gpu["limits_mw"] == [200_000, 700_000]
        assert 345 <= gpu["sm_mhz"] <= gpu["sm_mhz_max"] == 1980
        assert gpu["processes"] == 0


def test_energy_grows_on_every_gpu(world):
    before = client(CLIENT, world)["fleet"]
    time.sleep(0.5)
    after = client(CLIENT, world)["fleet"]
    for old, new in zip(before, after):
        # At the very least half a second of idle power: 70 W, so 35 J.
        assert new["energy_mj"] - old["energy_mj"] >= 30_000


def test_without_a_world_the_driver_is_not_loaded(world):
    assert client(INIT_CODE, world) == 0
    gpuyard("sim", "stop", "--world", world)
    assert client(INIT_CODE, world) == 9
