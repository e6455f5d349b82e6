"""A property: whatever is broken, what cannot be read is missing on every face and zero on none.

Random calls of random GPUs fail with random codes. The JSON says null with a reason; then Prometheus has
no series, the CSV says [N/A], the table says "-"; and where there is a value, all of them have it.
"""

import csv
import io
import os
import random
import re
import signal

import pytest

from program import Daemon, wait_until
from sim_world import World

GPUS = 4
ROUNDS = 6
# Readings that must be missing when a call fails: the rows that no other call gives.
FILLED_BY = {
    "temperature": ["temperature_core_celsius"],
    "power_usage": ["power_draw_w"],
    "utilization_rates": ["utilization_gpu_percent", "utilization_memory_percent"],
    "memory_info": ["memory_total_bytes", "memory_used_bytes", "memory_free_bytes"],
    "total_energy": ["energy_total_j"],
    "clock_info": ["clock_sm_mhz", "clock_memory_mhz"],
    "performance_state": ["performance_state"],
    "throttle_reasons": ["throttle_reasons"],
    "ecc_errors": ["ecc_uncorrected_aggregate"],
    "pcie_replays": ["pcie_replays"],
}
CODES = [3, 4, 6, 7, 10, 17, 21, 999]
# JSON key, Prometheus family, what one is of the other, and the field of `query`.
FACES = [
    ("temperature_core_celsius", "gpu_temperature_celsius", 1, "temperature.gpu"),
    ("power_draw_w", "gpu_power_watts", 1, "power.draw"),
    ("utilization_gpu_percent", "gpu_utilization_percent", 1, "utilization.gpu"),
    ("memory_used_bytes", "gpu_memory_used_bytes", 1, "memory.used"),
    ("energy_total_j", "gpu_energy_joules_total", 1, None),
    ("clock_sm_mhz", "gpu_sm_clock_hertz", 1e6, "clocks.current.sm"),
    ("ecc_uncorrected_aggregate", "gpu_ecc_uncorrected_aggregate_errors_total", 1, None),
    ("pcie_replays", "gpu_pcie_replays_total", 1, None),
]


def break_something(world, chosen):
    """Makes random calls of each GPU fail; returns these calls by GPU."""
    broken = {}
    for gpu in range(GPUS):
        world.heal(gpu)
        broken[gpu] = chosen.sample(sorted(FILLED_BY), chosen.randint(0, 4))
        for call in broken[gpu]:
            world.fail(gpu, call, chosen.choice(CODES))
    return broken


def read_anew(yard):
    """Has everything read again, also what is asked for rarely, and returns one moment of it."""
    host = yard.driver_host()
    os.kill(host, signal.SIGKILL)
    wait_until(lambda: yard.driver_host() not in (None, host), "another driver-host")

    def complete():
        now = yard.get("/api/gpu/snapshot").json()
        text = yard.get("/metrics").text
        same = now["generation"] == yard.get("/api/gpu/snapshot").json()["generation"]
        whole = len(now["devices"]) == GPUS and all(
            gpu["condition"] == "responsive"
            and "not_ready" not in str(gpu["missing"]) and "not been read" not in str(gpu["missing"])
            for gpu in now["devices"])
        return now["driver_initialised"] and whole and same and (now["devices"], text)
    return wait_until(complete, "everything to be read")


def series(text, family, device):
    """The values of a family for one GPU."""
    found = re.findall(rf'^gpuyard_{family}{{device="{device}"[^}}]*}} (\S+)$', text, re.MULTILINE)
    return [float(value) for value in found]


def cells(yard, run, fields):
    done = run("query", "--fields", ",".join(["index", *fields]), "--format", "csv,nounits",
               "--socket", yard.socket)
    assert done.returncode == 0, done.stderr
    rows = list(csv.reader(io.StringIO(done.stdout), skipinitialspace=True))[1:]
    return {int(row[0]): dict(zip(fields, row[1:], strict=True)) for row in rows}


@pytest.mark.parametrize("seed", range(ROUNDS))
def test_unknown_is_never_zero_on_any_face(yard, world, run, seed, record_property):
    record_property("contract", "A3 A8 E2")
    broken = break_something(world, random.Random(seed))
    devices, text = read_anew(yard)
    csv_cells = cells(yard, run, [field for *_, field in FACES if field])
    table = run("devices", "--socket", yard.socket).stdout
    contract = yard.get("/api/gpu/devices").json()["devices"]
    for gpu in devices:
        index, readings = gpu["index"], gpu["readings"]
        for call in broken[index]:
            for key in FILLED_BY[call]:
                assert readings[key] is None, (index, call, key)
        for key, value in readings.items():
            if value is None:
                assert gpu["missing"][key], key
        for key, family, factor, field in FACES:
            found = series(text, family, index)
            if readings[key] is None:
                assert found == [], (index, family)
                assert not field or csv_cells[index][field].startswith("["), (index, field)
            else:
                assert found == [pytest.approx(readings[key] * factor)], (index, family)
                assert not field or not csv_cells[index][field].startswith("["), (index, field)
        line = next(line for line in table.splitlines() if line.startswith(f"{index:3}  "))
        assert ("°C" in line) == (readings["temperature_core_celsius"] is not None), line
        for key, of_contract in (("temperature_core_celsius", "temperature_c"),
                                 ("utilization_gpu_percent", "utilization_percent")):
            if readings[key] is None:
                assert contract[index][of_contract] is None


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    """One world and one daemon for all rounds."""
    place = tmp_path_factory.mktemp("everywhere")
    one = World(place)
    one.start("--model", "h100:2,rtx4090,t4", "--load", "steady:0.5")
    yard = Daemon(place, GPUYARD_SIM_WORLD=str(one.directory)).ready()
    yield one, yard
    yard.kill()
    one.end()


@pytest.fixture
def world(both):
    return both[0]


@pytest.fixture
def yard(both):
    return both[1]
