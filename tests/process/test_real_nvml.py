"""The same endpoints on a real NVML, where there is one. Read-only: nothing is ever set here."""

import csv
import json
import os
import shutil
import subprocess

import pytest

from conftest import wait_until
from proofs import record

NAME = "real NVML"
pytestmark = pytest.mark.skipif(not os.path.exists("/dev/nvidiactl"),
                                reason="no NVIDIA driver here")
if not os.path.exists("/dev/nvidiactl"):
    record(NAME, "skipped (no NVIDIA driver here)")


def nvidia_smi(*fields):
    program = shutil.which("nvidia-smi")
    if program is None:
        pytest.skip("no nvidia-smi to compare with")
    out = subprocess.run([program, f"--query-gpu={','.join(fields)}",
                          "--format=csv,noheader,nounits"],
                         capture_output=True, text=True, check=True, timeout=60).stdout
    return [dict(zip(fields, (cell.strip() for cell in row))) for row in csv.reader(out.splitlines())]


def test_the_local_driver_lists_what_nvidia_smi_lists(run):
    body = json.loads(run("devices", "--local", "--json").stdout)
    assert body["simulated"] is False
    smi = nvidia_smi("index", "uuid", "name", "memory.total")
    assert len(body["devices"]) == len(smi)
    for ours, theirs in zip(body["devices"], smi):
        assert (ours["uuid"], ours["name"]) == (theirs["uuid"], theirs["name"])
        total = ours["readings"]["memory_total_bytes"]
        assert total is None or abs(total / 2**20 - float(theirs["memory.total"])) < 2
    record(NAME, "ran")


def test_every_reading_is_plausible_or_missing_with_a_reason(run):
    for gpu in json.loads(run("devices", "--local", "--json").stdout)["devices"]:
        for key, value in gpu["readings"].items():
            assert (value is None) == (key in gpu["missing"]), key
        plausible = {"temperature_core_celsius": (5, 110), "utilization_gpu_percent": (0, 100),
                     "power_draw_w": (1, 2000), "power_limit_w": (10, 2000),
                     "clock_sm_mhz": (1, 5000)}
        for key, (low, high) in plausible.items():
            value = gpu["readings"][key]
            assert value is None or low <= value <= high, (key, value)


def test_the_daemon_serves_the_real_gpus(daemon):
    yard = daemon()
    devices = wait_until(lambda: yard.get("/api/gpu/devices").json()["devices"], "GPUs")
    assert all(gpu["is_available"] for gpu in devices)
    driver = yard.get("/api/gpu/driver").json()
    assert driver["driver_version"] == nvidia_smi("driver_version")[0]["driver_version"]
    assert yard.get("/api/gpu/snapshot").json()["simulated"] is False
    assert "gpuyard_simulated 0" in yard.get("/metrics").text
