"""The behaviour of any NVML: one set of assertions, always on the simulated library and on a real one if
there is one. If the two drift apart, one of them fails here. Read-only: nothing is ever set.
"""

import csv
import functools
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from nvidia_driver import HAS_DRIVER
from program import PROGRAM, clean_environment, wait_until
from proofs import record

NAME = "real NVML"
if not HAS_DRIVER:
    record(NAME, "skipped (no NVIDIA driver here)")

SIMULATED = os.environ.get("GPUYARD_SIM_LIB", "build/release/sim/libnvidia-ml.so.1")
BY_HAND = Path(__file__).resolve().parents[1] / "nvml_by_hand.py"
KIND = {"simulated": [], "real": [pytest.mark.skipif(not HAS_DRIVER,
                                                     reason="no NVIDIA driver here")]}
OK, UNINITIALISED, INVALID, NOT_SUPPORTED, NOT_FOUND, TOO_SMALL, MISMATCH = 0, 1, 2, 3, 6, 7, 25


class Yard:
    """A machine's GPUs: the library that serves them, and an independent source."""

    def __init__(self, kind, directory):
        self.simulated = kind == "simulated"
        self.world = str(directory / "world")
        self.environment = {"GPUYARD_SIM_WORLD": self.world} if self.simulated else {}
        self.library = SIMULATED if self.simulated else "libnvidia-ml.so.1"
        self.clean = clean_environment(directory, **self.environment)
        if self.simulated:
            self.sim("start", "--gpus", "3", "--load", "steady:0.8")

    def sim(self, verb, *arguments):
        return subprocess.run([PROGRAM, "sim", verb, "--world", self.world, *arguments],
                              env=self.clean, capture_output=True, text=True, check=True,
                              timeout=60).stdout

    def stop(self):
        if self.simulated:
            self.sim("stop")

    def fleet(self):
        """(uuid, name, MiB in all), by the word of another than NVML."""
        if self.simulated:
            return [(gpu["uuid"], gpu["name"], gpu["memory_total_bytes"] / 2**20)
                    for gpu in json.loads(self.sim("status", "--json"))["gpus"]]
        return [(gpu["uuid"], gpu["name"], float(gpu["memory.total"]))
                for gpu in nvidia_smi("uuid", "name", "memory.total")]

    @functools.cache
    def ask(self):
        done = subprocess.run([sys.executable, BY_HAND, self.library], env=self.clean,
                              capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)


def nvidia_smi(*fields):
    program = shutil.which("nvidia-smi")
    if program is None:
        pytest.skip("no nvidia-smi to compare with")
    out = subprocess.run([program, f"--query-gpu={','.join(fields)}",
                          "--format=csv,noheader,nounits"],
                         capture_output=True, text=True, check=True, timeout=60).stdout
    return [dict(zip(fields, (cell.strip() for cell in row))) for row in csv.reader(out.splitlines())]


@pytest.fixture(scope="module", params=[pytest.param(kind, marks=marks) for kind, marks in KIND.items()])
def machine(request, tmp_path_factory):
    one = Yard(request.param, tmp_path_factory.mktemp("machine"))
    yield one
    one.stop()


# ---- the library itself


def test_init_is_reference_counted_and_required(machine):
    said = machine.ask()
    assert (said["uninitialised"], said["shut_down_unopened"]) == (UNINITIALISED, UNINITIALISED)
    assert (said["init"], said["twice"], said["end"]) == (OK, [OK, OK], OK)


def test_error_texts_match_nvidias(machine):
    texts = machine.ask()["texts"]
    assert texts["12"] == "NVML Shared Library Not Found"
    assert texts["999"] == "Unknown Error"
    assert (texts["0"], texts["3"], texts["15"]) == ("Success", "Not Supported", "GPU is lost")


def test_versions_have_expected_formats(machine):
    said = machine.ask()
    assert re.fullmatch(r"\d{3}\.\d+(\.\d+)?", said["driver"][1])
    assert re.fullmatch(r"\d+\.\d{3}\.\d+(\.\d+)?", said["nvml"][1])
    assert said["nvml"][1].split(".")[1] == said["driver"][1].split(".")[0]
    assert said["cuda"][0] == OK and 11000 <= said["cuda"][1] < 20000


def test_wrong_arguments_are_invalid(machine):
    said = machine.ask()
    assert (said["beyond"], said["null_handle"]) == (INVALID, INVALID)
    for gpu in said["gpus"]:
        assert (gpu["null_out"], gpu["clock_of_no_type"]) == (INVALID, INVALID)
        assert gpu["by_uuid"] in (NOT_FOUND, INVALID)
        assert gpu["short_buffer"] == TOO_SMALL
        assert gpu["memory_of_no_version"] == MISMATCH


def test_gpu_identity_matches_independent_source(machine):
    said, fleet = machine.ask()["gpus"], machine.fleet()
    assert [(gpu["uuid"][1], gpu["name"][1]) for gpu in said] == [
        (uuid, name) for uuid, name, _ in fleet]
    for index, gpu in enumerate(said):
        assert gpu["index"] == [OK, index]
        code, legacy, address, maker = gpu["pci"]
        assert (code, maker) == (OK, 0x10DE)
        assert address.lower().endswith(legacy.lower())


def test_memory_adds_up(machine):
    for gpu in machine.ask()["gpus"]:
        code, total, free, used = gpu["memory"]
        if code == NOT_SUPPORTED:
            continue
        assert (code, used + free) == (OK, total)
        code, total_v2, reserved, free, used = gpu["memory_v2"]
        assert (code, total_v2) == (OK, total)
        assert 0 < reserved < total
        assert abs(reserved + free + used - total) <= 2**21


def test_sensors_are_plausible(machine):
    plausible = {"temperature": (5, 110), "power": (1_000, 2_000_000), "limit": (10_000, 2_000_000),
                 "sm_clock": (1, 5000)}
    for gpu in machine.ask()["gpus"]:
        for key, (low, high) in plausible.items():
            code, value = gpu[key]
            assert code == NOT_SUPPORTED or (code == OK and low <= value <= high), (key, gpu[key])
        assert gpu["sm_clock"][1] <= gpu["sm_clock_most"][1]
        assert gpu["rates"][0] == NOT_SUPPORTED or max(gpu["rates"][1:]) <= 100
        (first_code, first), (code, second) = gpu["energy"]
        assert first_code == code and second >= first


def test_field_values_have_separate_return_codes(machine):
    for gpu in machine.ask()["gpus"]:
        code, power, energy, nothing = gpu["fields"]
        assert code == OK
        assert power[0] in (OK, NOT_SUPPORTED) and energy[0] in (OK, NOT_SUPPORTED)
        assert nothing[0] != OK
        assert energy[0] != OK or energy[1] == 3


def test_process_query_without_buffer_is_refused(machine):
    for gpu in machine.ask()["gpus"]:
        code, count = gpu["processes_asked"]
        assert code == (OK if count == 0 else TOO_SMALL)
        # Null with a size of three; a driver may not check it while there is nothing to write.
        assert gpu["processes_without_room"] == INVALID or count == 0


def test_pcie_throughput_takes_its_time(machine):
    for gpu in machine.ask()["gpus"]:
        assert gpu["throughput"][0] == NOT_SUPPORTED or gpu["throughput_seconds"] >= 0.015


# ---- gpuyard on it


def test_devices_local_matches_independent_list(machine, run):
    body = json.loads(run("devices", "--local", "--json", **machine.environment).stdout)
    assert body["simulated"] is machine.simulated
    fleet = machine.fleet()
    assert [(gpu["uuid"], gpu["name"]) for gpu in body["devices"]] == [
        (uuid, name) for uuid, name, _ in fleet]
    for gpu, (_, _, mib) in zip(body["devices"], fleet):
        total = gpu["readings"]["memory_total_bytes"]
        assert total is None or abs(total / 2**20 - mib) < 2
    if not machine.simulated:
        record(NAME, "ran")


def test_every_reading_is_plausible_or_has_missing_reason(machine, run):
    body = json.loads(run("devices", "--local", "--json", **machine.environment).stdout)
    plausible = {"temperature_core_celsius": (5, 110), "utilization_gpu_percent": (0, 100),
                 "power_draw_w": (1, 2000), "power_limit_w": (10, 2000),
                 "clock_sm_mhz": (1, 5000)}
    for gpu in body["devices"]:
        for key, value in gpu["readings"].items():
            assert (value is None) == (key in gpu["missing"]), key
        for key, (low, high) in plausible.items():
            value = gpu["readings"][key]
            assert value is None or low <= value <= high, (key, value)


def test_the_daemon_serves_the_gpus(machine, daemon, record_property):
    # Without hardware it is only the tests of the simulated library that run.
    record_property("contract", "E10" if machine.simulated else "E11")
    yard = daemon(**machine.environment)
    devices = wait_until(lambda: yard.get("/api/gpu/devices").json()["devices"], "GPUs")
    assert len(devices) == len(machine.fleet())
    assert all(gpu["is_available"] for gpu in devices)
    assert yard.get("/api/gpu/driver").json()["driver_version"] == machine.ask()["driver"][1]
    assert yard.get("/api/gpu/snapshot").json()["simulated"] is machine.simulated
    assert f"gpuyard_simulated {int(machine.simulated)}" in yard.get("/metrics").text
