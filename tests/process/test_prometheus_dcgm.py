"""Dashboards made for dcgm-exporter 4.8 find what they ask for."""

import re
import shutil
import socket
import subprocess

from program import wait_until

# The queries of Grafana's dashboard 12239, with its variables set to all.
CHOSEN = '{instance=~".*", gpu=~".*"}'
PANELS = [
    f"DCGM_FI_DEV_GPU_TEMP{CHOSEN}",  # a graph, and the gauge of the mean
    f"avg(DCGM_FI_DEV_GPU_TEMP{CHOSEN})",
    f"DCGM_FI_DEV_POWER_USAGE{CHOSEN}",
    f"sum(DCGM_FI_DEV_POWER_USAGE{CHOSEN})",
    f"DCGM_FI_DEV_SM_CLOCK{CHOSEN} * 1000000",
    f"DCGM_FI_DEV_GPU_UTIL{CHOSEN}",
    f"DCGM_FI_DEV_FB_USED{CHOSEN}",
    f"DCGM_FI_PROF_PIPE_TENSOR_ACTIVE{CHOSEN}",
]
# Later editions of the dashboard group by host, GPU and MIG instance, and choose by host.
GROUPED = 'max by (Hostname, gpu, GPU_I_ID, GPU_I_PROFILE) ({}{{Hostname=~".*", gpu=~".*"}})'
# Enabled in dcgm-exporter's default-counters.csv, but for what docs/prometheus.md says is missing.
DEFAULTS = """SM_CLOCK MEM_CLOCK MEMORY_TEMP GPU_TEMP POWER_USAGE TOTAL_ENERGY_CONSUMPTION
PCIE_REPLAY_COUNTER GPU_UTIL MEM_COPY_UTIL XID_ERRORS FB_FREE FB_USED FB_RESERVED
UNCORRECTABLE_REMAPPED_ROWS CORRECTABLE_REMAPPED_ROWS ROW_REMAP_FAILURE""".split()
LABELS = {"gpu", "UUID", "pci_bus_id", "device", "modelName", "Hostname", "DCGM_FI_DRIVER_VERSION"}


def wait_for_all_readings_of(prometheus, gpus):
    wait_until(lambda: len(prometheus.query("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE")) == gpus,
               "the slow tier of all GPUs")


def test_dcgm_panels_have_one_series_per_gpu(shared, prometheus):
    prometheus.start(shared("--simulate", "4", "--metrics-dialect", "dcgm-4.8").port)
    wait_for_all_readings_of(prometheus, 4)
    for expression in PANELS:
        found = prometheus.query(expression)
        if expression.startswith(("avg", "sum")):
            assert len(found) == 1, expression
        else:
            assert sorted(one["metric"]["gpu"] for one in found) == list("0123"), expression
    for name in ("DCGM_FI_DEV_FB_USED", "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE",
                 "DCGM_FI_PROF_GR_ENGINE_ACTIVE"):
        assert len(prometheus.query(GROUPED.format(name))) == 4, name
    for field in DEFAULTS:
        found = prometheus.query(f"DCGM_FI_DEV_{field}")
        assert len(found) == 4, field
        assert set(found[0]["metric"]) - {"__name__", "job", "instance"} == LABELS, field


def test_labels_match_dcgm_exporter(shared):
    yard = shared("--simulate", "4", "--metrics-dialect", "dcgm-4.8")
    text = yard.get("/metrics").text
    labels = dict(re.findall(r'(\w+)="([^"]*)"',
                             re.search(r"^DCGM_FI_DEV_GPU_TEMP\{(.*)\}", text, re.M).group(1)))
    device = yard.get("/api/gpu/devices/0").json()
    assert labels["UUID"] == device["uuid"]
    assert labels["pci_bus_id"] == "0000" + device["pci_address"].upper()
    assert (labels["gpu"], labels["device"]) == ("0", "nvidia0")
    assert labels["modelName"] == device["name"]
    assert labels["Hostname"] == socket.gethostname()
    assert "gpuyard_gpu_temperature_celsius" not in text and "gpuyard_gpu_info{" in text


def test_promtool_complains_about_dcgm_names_only(shared):
    yard = shared("--simulate", "2", "--metrics-dialect", "both")
    checked = subprocess.run([shutil.which("promtool"), "check", "metrics"],
                             input=yard.get("/metrics").text, text=True, capture_output=True,
                             timeout=30, check=False)
    complaints = (checked.stdout + checked.stderr).splitlines()
    assert complaints and all(line.startswith("DCGM_FI_") for line in complaints), complaints
    assert {re.sub(r"^\S+ ", "", line) for line in complaints} <= {
        "label names should be written in 'snake_case' not 'camelCase'",
        "metric name should not include type 'counter'",
        'counter metrics should have "_total" suffix'}
