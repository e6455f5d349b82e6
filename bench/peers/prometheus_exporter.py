"""GET /metrics with prometheus_client over nvidia-ml-py: twelve families, read at each scrape."""

import sys
import time

import pynvml
from prometheus_client import start_http_server
from prometheus_client.core import REGISTRY, GaugeMetricFamily

READINGS = {
    "memory_total_bytes": lambda gpu: pynvml.nvmlDeviceGetMemoryInfo(gpu).total,
    "memory_used_bytes": lambda gpu: pynvml.nvmlDeviceGetMemoryInfo(gpu).used,
    "memory_free_bytes": lambda gpu: pynvml.nvmlDeviceGetMemoryInfo(gpu).free,
    "utilization_percent": lambda gpu: pynvml.nvmlDeviceGetUtilizationRates(gpu).gpu,
    "memory_utilization_percent": lambda gpu: pynvml.nvmlDeviceGetUtilizationRates(gpu).memory,
    "temperature_celsius": lambda gpu: pynvml.nvmlDeviceGetTemperature(gpu, 0),
    "power_watts": lambda gpu: pynvml.nvmlDeviceGetPowerUsage(gpu) / 1000,
    "power_limit_watts": lambda gpu: pynvml.nvmlDeviceGetEnforcedPowerLimit(gpu) / 1000,
    "energy_joules": lambda gpu: pynvml.nvmlDeviceGetTotalEnergyConsumption(gpu) / 1000,
    "sm_clock_hertz": lambda gpu: pynvml.nvmlDeviceGetClockInfo(gpu, pynvml.NVML_CLOCK_SM) * 1e6,
    "memory_clock_hertz": lambda gpu: pynvml.nvmlDeviceGetClockInfo(gpu, 2) * 1e6,
    "performance_state": pynvml.nvmlDeviceGetPerformanceState,
}


class GpuCollector:
    def collect(self):
        handles = [pynvml.nvmlDeviceGetHandleByIndex(index)
                   for index in range(pynvml.nvmlDeviceGetCount())]
        for name, read in READINGS.items():
            family = GaugeMetricFamily(f"gpu_{name}", name, labels=["device"])
            for index, handle in enumerate(handles):
                family.add_metric([str(index)], read(handle))
            yield family


pynvml.nvmlInit()
REGISTRY.register(GpuCollector())
start_http_server(int(sys.argv[1]), addr="127.0.0.1")
while True:
    time.sleep(3600)
