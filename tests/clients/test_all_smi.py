"""all-smi, a Rust program, exports a fleet of every model with the values of the world.

It asks `lspci` whether there is an NVIDIA board at all before it loads NVML: it gets an `lspci` that
lists one. All else is read through NVML.
"""

import os
import re
import subprocess
import urllib.request

import pytest

from fleet import HERE, close, without_reserve
from program import free_port, wait_until
from proofs import record

PROGRAM = HERE.parent.parent / "build" / "clients" / "all-smi" / "all-smi"
SAMPLE = re.compile(r'all_smi_gpu_(\w+)\{.*?index="(\d+)".*?\} (\S+)$', re.MULTILINE)


def samples_of(text):
    fleet = {}
    for metric, index, value in SAMPLE.findall(text):
        if metric != "info":
            fleet.setdefault(int(index), {})[metric] = float(value)
    return fleet


@pytest.fixture
def page(world, tmp_path):
    """all-smi's metrics once it has read every GPU."""
    lspci = tmp_path / "bin" / "lspci"
    lspci.parent.mkdir()
    lspci.write_text('#!/bin/sh\necho "11:00.0 3D controller: NVIDIA Corporation"\n')
    lspci.chmod(0o755)
    environment = world.settled().environment()
    environment["PATH"] = f"{lspci.parent}{os.pathsep}{environment['PATH']}"
    port = free_port()
    process = subprocess.Popen([PROGRAM, "api", "--port", str(port), "--interval", "1"],
                               env=environment, stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL)

    def read():
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
                return answer.read().decode()
        except OSError:
            return ""

    try:
        def both():
            assert process.poll() is None, "all-smi ended"
            return len(samples_of(text := read())) == 2 and text
        yield wait_until(both, "all-smi to have read every GPU")
    finally:
        process.kill()
        process.wait()


def test_all_smi_exports_the_fleet(world, page, record_property):
    seen = samples_of(page)
    expected = world.gpus()
    assert sorted(seen) == [gpu["index"] for gpu in expected]
    for gpu in expected:
        mine = seen[gpu["index"]]
        assert gpu["uuid"] in page and gpu["name"] in page
        assert mine["memory_total_bytes"] == gpu["memory_total_bytes"]
        assert without_reserve(mine["memory_used_bytes"], gpu)
        assert mine["utilization"] == gpu["utilization_percent"]
        assert close(mine["temperature_celsius"], gpu["temperature_celsius"], 1)
        assert close(mine["power_consumption_watts"], gpu["power_w"], 2)
        assert close(mine["frequency_mhz"], gpu["sm_clock_mhz"], 30)
        assert mine["power_limit_current_watts"] == gpu["power_limit_w"]
    record_property("matrix", f"all-smi\t{world.model}\tname, UUID, memory, utilisation, "
                              "temperature, power, limit, clock")
    record("all-smi", "ran")
