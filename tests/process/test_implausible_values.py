"""A driver that answers "success" with an impossible value: the value is missing and reported as implausible,
no usage is billed for it, and the values beside it stay. Two sources that contradict each other are
reported.
"""

import json
import os
import subprocess

import pytest

from program import wait_until

HERE = os.path.dirname(os.path.abspath(__file__))
WHOLE = os.path.abspath(os.environ.get("GPUYARD_SIM_LIB", "build/release/sim/libnvidia-ml.so.1"))
IMPLAUSIBLE = "the driver's value is not plausible"


class OddDriver:
    """The simulated driver, some calls of which answer a number that the test gives."""

    def __init__(self, directory, world):
        self.directory = directory / "odd"
        self.directory.mkdir()
        self.library = str(self.directory / "libnvidia-ml.so.1")
        subprocess.run(["g++", "-shared", "-fPIC", "-o", self.library, f"{HERE}/odd_nvml.cpp",
                        "-Wl,--no-as-needed", WHOLE, f"-Wl,-rpath,{os.path.dirname(WHOLE)}"],
                       check=True, timeout=120)
        self.environment = {"GPUYARD_SIM_WORLD": str(world.directory),
                            "ODD_DIRECTORY": str(self.directory)}

    def answer(self, call, number):
        new = self.directory / "new"
        new.write_text(str(number), encoding="ascii")
        new.rename(self.directory / call)

    def answer_truly(self, call):
        (self.directory / call).unlink()


@pytest.fixture
def odd(tmp_path, world):
    return OddDriver(tmp_path, world)


def devices(run, odd, *arguments):
    done = run("devices", "--local", "--nvml", odd.library, *arguments, **odd.environment)
    assert done.returncode == 0, done.stderr
    return done.stdout


def readings(yard):
    """Returns the readings of the first GPU."""
    gpus = wait_until(lambda: yard.get("/api/gpu/snapshot").json()["devices"], "a GPU")
    gpu = gpus[0]
    return gpu["readings"], gpu["missing"]


def energy(yard):
    return yard.get("/api/gpu/energy").json()["gpus"][0]


def alerts(yard):
    return [alert["rule"] for alert in yard.get("/api/gpu/alerts").json()["alerts"]]


def test_implausible_power_is_missing_and_not_booked(daemon, odd, world):
    world.start("--gpus", "1", "--load", "steady:0.5")
    world.inject(0, "--call", "total_energy", "--code", "3")
    yard = daemon("--nvml", odd.library, **odd.environment)
    wait_until(lambda: yard.get("/api/gpu/energy").json()["gpus"], "the first reading of power")
    odd.answer("nvmlDeviceGetPowerUsage", 4_000_000_000)
    wait_until(lambda: readings(yard)[0]["power_draw_w"] is None, "the odd power to be refused")
    assert readings(yard)[1]["power_draw_w"] == IMPLAUSIBLE
    assert "gpuyard_gpu_power_watts{" not in yard.get("/metrics").text
    odd.answer_truly("nvmlDeviceGetPowerUsage")
    wait_until(lambda: readings(yard)[0]["power_draw_w"] is not None, "the true power")
    before = energy(yard)["joules"]
    wait_until(lambda: energy(yard)["joules"] > before, "energy to be booked again")
    assert energy(yard)["joules"] <= world.gpu(0)["energy_joules"]


def test_contradicting_sources_raise_alert_and_book_no_energy(run, daemon, odd, world):
    world.start("--gpus", "1", "--load", "steady:0.9")
    yard = daemon("--nvml", odd.library, **odd.environment)
    wait_until(lambda: (readings(yard)[0]["power_draw_w"] or 0) > 400, "the load")
    odd.answer("nvmlDeviceGetPowerUsage", 60_000)
    wait_until(lambda: "readings-contradict" in alerts(yard), "the alert")
    page = run("devices", "0", "--socket", yard.socket).stdout
    assert "contradict each other: it reads 60 W" in " ".join(page.split())
    first = energy(yard)
    wait_until(lambda: energy(yard)["unknown_seconds"] > first["unknown_seconds"] + 2, "unknown time")
    assert energy(yard)["joules"] == first["joules"]
    odd.answer_truly("nvmlDeviceGetPowerUsage")
    wait_until(lambda: energy(yard)["joules"] > first["joules"], "agreement")
    assert "contradict" not in run("devices", "0", "--socket", yard.socket).stdout


def test_accelerated_world_raises_no_contradiction_alert(daemon, world):
    world.start("--gpus", "1", "--load", "steady:0.9", "--speed", "50")
    yard = daemon(GPUYARD_SIM_WORLD=str(world.directory))
    last = yard.get("/api/gpu/snapshot").json()["generation"] + 15
    wait_until(lambda: yard.get("/api/gpu/snapshot").json()["generation"] >= last, "a contradiction to be due", 1)
    assert "readings-contradict" not in alerts(yard)
