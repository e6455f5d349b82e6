"""nvidia-ml-py, NVIDIA's own Python client, on a simulated fleet of every model: what it reads is
what the world says, what it sets is in force, and what it may not do is refused.
"""

import json
import sys
import time

import pytest

from fleet import World, close, gpuyard
from program import wait_until
from proofs import record

pytest.importorskip("pynvml")

# Runs in a process of its own, as any client does.
GPM = """
import json, sys, time
import pynvml as nvml
nvml.nvmlInit()
gpu = nvml.nvmlDeviceGetHandleByIndex(0)
first, second = nvml.nvmlGpmSampleAlloc(), nvml.nvmlGpmSampleAlloc()
nvml.nvmlGpmSampleGet(gpu, first)
time.sleep(0.3)
nvml.nvmlGpmSampleGet(gpu, second)
ask = nvml.c_nvmlGpmMetricsGet_t()
ask.version = nvml.NVML_GPM_METRICS_GET_VERSION
ask.sample1, ask.sample2 = first, second
wanted = [1, 2, 3, 5, 10, 20, 60, 104, 0]
ask.numMetrics = len(wanted)
for i, metric in enumerate(wanted):
    ask.metrics[i].metricId = metric
ask.metrics[len(wanted)].nvmlReturn = 77
nvml.nvmlGpmMetricsGet(ask)
seen = [(ask.metrics[i].nvmlReturn, ask.metrics[i].value) for i in range(len(wanted))]
json.dump({"seen": seen, "behind": ask.metrics[len(wanted)].nvmlReturn}, sys.stdout)
nvml.nvmlGpmSampleFree(first)
nvml.nvmlGpmSampleFree(second)
"""

WAIT = """
import json, sys, time
import pynvml as nvml
nvml.nvmlInit()
gpu = nvml.nvmlDeviceGetHandleByIndex(0)
events = nvml.nvmlEventSetCreate()
nvml.nvmlDeviceRegisterEvents(gpu, nvml.nvmlEventTypeXidCriticalError, events)
spent, begun = time.process_time(), time.monotonic()
try:
    nvml.nvmlEventSetWait_v2(events, 700)
    code = 0
except nvml.NVMLError as error:
    code = error.value
json.dump([code, time.monotonic() - begun, time.process_time() - spent], sys.stdout)
nvml.nvmlEventSetFree(events)
"""

INIT = """
import pynvml
try:
    pynvml.nvmlInit()
    print(0)
except pynvml.NVMLError as error:
    print(error.value)
"""


def python(one, script):
    return json.loads(one.run(sys.executable, "-c", script))


def test_values_match_world_status(world, record_property):
    world.settled()
    for gpu in world.gpus():
        values = [answer["value"] for answer in world.ask(
            "nvmlDeviceGetIndex()", "nvmlDeviceGetName()", "nvmlDeviceGetUUID()",
            "nvmlDeviceGetPciInfo().busId", "nvmlDeviceGetMemoryInfo().total",
            "nvmlDeviceGetMemoryInfo().used", "nvmlDeviceGetUtilizationRates().gpu",
            "nvmlDeviceGetPowerManagementLimit()", "nvmlDeviceGetClockInfo(NVML_CLOCK_SM)",
            "nvmlDeviceGetClockInfo(NVML_CLOCK_MEM)", gpu=gpu["index"])]
        assert values == [gpu["index"], gpu["name"], gpu["uuid"], gpu["pci_address"],
                          gpu["memory_total_bytes"], gpu["memory_used_bytes"],
                          gpu["utilization_percent"], gpu["power_limit_w"] * 1000,
                          gpu["sm_clock_mhz"], gpu["memory_clock_mhz"]]
        power, temperature, energy = [answer["value"] for answer in world.ask(
            "nvmlDeviceGetPowerUsage()", "nvmlDeviceGetTemperature(NVML_TEMPERATURE_GPU)",
            "nvmlDeviceGetTotalEnergyConsumption()", gpu=gpu["index"])]
        assert close(power / 1000, gpu["power_w"], 2)
        assert close(temperature, gpu["temperature_celsius"], 1)
        # Read a little later than the world was.
        assert 0 <= energy / 1000 - gpu["energy_joules"] <= 30 * gpu["power_w"]
    record_property("matrix", f"nvidia-ml-py\t{world.model}\tevery getter of support/"
                              f"{world.model}.toml; values of `gpuyard sim status`")
    record("nvidia-ml-py clients", "ran")


def test_energy_counter_grows_with_power_draw(world):
    def energy():
        return world.ask("nvmlDeviceGetTotalEnergyConsumption()")[0]["value"] / 1000
    drawn = world.settled().gpus()[0]["power_w"]
    before, begun = energy(), time.monotonic()
    time.sleep(1)  # what is used in a second is what is tested
    joules, seconds = energy() - before, time.monotonic() - begun
    # Each reading starts a Python, at some moment of its own.
    assert 0.5 * drawn * seconds <= joules <= 1.5 * drawn * seconds


@pytest.fixture
def h100(tmp_path):
    one = World(tmp_path / "world", "h100")
    yield one
    one.stop()


def test_gpm_metrics_return_separate_codes_without_overrun(h100):
    answers = python(h100, GPM)
    codes = [code for code, _ in answers["seen"]]
    assert codes == [0, 0, 0, 0, 0, 0, 0, 3, 2]
    percent = [value for _, value in answers["seen"][:5]]
    assert 80 <= percent[0] <= 100
    assert all(0 < value <= 100 for value in percent)
    assert answers["behind"] == 77


def test_event_wait_timeout_uses_no_cpu(h100):
    code, waited, worked = python(h100, WAIT)
    assert code == 10
    assert 0.7 <= waited < 2
    assert worked < 0.2


def test_written_settings_take_effect(h100):
    answers = h100.ask("nvmlDeviceSetPowerManagementLimit(300000)",
                       "nvmlDeviceGetPowerManagementLimit()", "nvmlDeviceGetEnforcedPowerLimit()",
                       "nvmlDeviceSetPersistenceMode(1)", "nvmlDeviceGetPersistenceMode()",
                       "nvmlDeviceSetComputeMode(NVML_COMPUTEMODE_PROHIBITED)",
                       "nvmlDeviceGetComputeMode()", "nvmlDeviceSetEccMode(0)",
                       "nvmlDeviceGetEccMode()", "nvmlDeviceSetGpuLockedClocks(600, 900)",
                       "nvmlDeviceSetPowerManagementLimit_v2(0, 310000)",
                       "nvmlDeviceGetPowerManagementLimit()")
    values = [answer.get("value") for answer in answers]
    assert all("value" in answer for answer in answers), answers
    assert values[1:3] == [300000, 300000]
    assert (values[4], values[6], values[8]) == (1, 2, [1, 0])
    assert values[11] == 310000
    gpu, other = h100.gpus()
    assert gpu["power_limit_w"] == 310
    assert gpu["settings"]["locked_sm_mhz"] == [600, 900]
    assert other["power_limit_w"] == 700


def test_invalid_setting_is_refused_without_effect(h100):
    answers = h100.ask("nvmlDeviceSetPowerManagementLimit(100)",
                       "nvmlDeviceSetComputeMode(17)", "nvmlDeviceSetPersistenceMode(2)",
                       "nvmlDeviceClearEccErrorCounts(9)",
                       "nvmlDeviceGetPowerManagementLimit()")
    assert [answer.get("code") for answer in answers] == [2, 2, 2, 2, None]
    assert answers[-1]["value"] == 700000


def test_real_process_is_listed_until_its_end(h100):
    pid = h100.process(gpu=1, vram="2G", load="0.1")
    lists = ["nvmlDeviceGetComputeRunningProcesses_v2", "nvmlDeviceGetComputeRunningProcesses_v3",
             "nvmlDeviceGetRunningProcessDetailList"]
    arguments = ["()", "()", "(0x01000018, 0)"]
    asked = [f"[({which}{how}[0].pid, {which}{how}[0].usedGpuMemory)]"
             for which, how in zip(lists, arguments)]
    for answer in h100.ask(*asked, gpu=1):
        assert answer == {"value": [[pid, 2 << 30]]}
    used, = h100.ask("[(s.pid, s.smUtil) for s in nvmlDeviceGetProcessUtilization(0)]", gpu=1)
    assert [[pid, sm] for sm in (9, 10)].count(used["value"][0]) == 1
    assert h100.ask("nvmlDeviceGetComputeRunningProcesses()") == [{"value": []}]
    h100.processes.pop().kill()
    wait_until(lambda: h100.ask("nvmlDeviceGetComputeRunningProcesses()", gpu=1) == [{"value": []}],
               "the killed process to be gone")


def test_lost_gpu_handle_fails_with_gpu_is_lost(h100):
    gpuyard("sim", "inject", "--world", h100.directory, "--gpu", 1, "--lost")
    answers = h100.ask("nvmlDeviceGetCount()", "nvmlDeviceGetHandleByIndex(1)",
                       "nvmlDeviceGetName()")
    assert answers[0] == {"value": 2}
    assert answers[1] == {"code": 15}
    assert answers[2]["value"] == "NVIDIA H100 80GB HBM3"


def test_without_a_world_the_driver_is_not_loaded(h100):
    assert python(h100, INIT) == 0
    h100.stop()
    assert python(h100, INIT) == 9
