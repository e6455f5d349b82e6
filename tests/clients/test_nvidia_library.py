"""NVIDIA's own libnvidia-ml.so.1 of two drivers, as Debian ships it: which of our calls it lacks, what
follows from that, and what every verb says while its kernel module is not loaded.
"""

import json
import os
import re
import subprocess
from pathlib import Path

import pytest

from half_library import WHOLE, exported, without
from nvidia_driver import HAS_DRIVER
from program import PATIENCE, PROGRAM, Daemon, clean_environment, wait_until
from proofs import record

NAME = "NVIDIA libraries"
ROOT = Path(__file__).resolve().parents[2]
API = ROOT / "src/gpu/nvml/api.h"
PLACES = {"535": "current", "470": "tesla-470"}
OWN_DEV = ROOT / "tests" / "own_dev.sh"

# Calls that are newer than 535. One that 535 has does not belong here.
NEWER_THAN_535 = {"numa_node", "temperature_v"}

# Names in our table that 470 lacks, and the older name that is called in its place. None: a
# reading or a default is missing.
LACKED_BY_470 = {
    "nvmlDeviceGetComputeRunningProcesses_v3": "nvmlDeviceGetComputeRunningProcesses_v2",
    "nvmlDeviceGetGraphicsRunningProcesses_v3": "nvmlDeviceGetGraphicsRunningProcesses_v2",
    "nvmlDeviceGetCurrentClocksEventReasons": "nvmlDeviceGetCurrentClocksThrottleReasons",
    "nvmlDeviceGetMemoryInfo_v2": "nvmlDeviceGetMemoryInfo",
    "nvmlDeviceGetNumFans": "nvmlDeviceGetFanSpeed_v2",
    "nvmlDeviceGetNumaNodeId": "nvmlDeviceGetMemoryAffinity",
    "nvmlDeviceGetTemperatureV": "nvmlDeviceGetTemperature",
    "nvmlDeviceGetDefaultEccMode": None,
    "nvmlGpmMetricsGet": None,
    "nvmlGpmQueryDeviceSupport": None,
    "nvmlGpmSampleAlloc": None,
    "nvmlGpmSampleFree": None,
    "nvmlGpmSampleGet": None,
}
GPM = {f"gpm_{pipe}_percent"
       for pipe in ("graphics", "sm", "occupancy", "tensor", "dram", "fp64", "fp32", "fp16")}


def library_of(driver):
    place = ROOT / "build/clients/nvidia-library/root/usr/lib"
    found, = place.glob(f"*/nvidia/{PLACES[driver]}/libnvidia-ml.so.1")
    return str(found)


def table():
    """{call: its names, newest first}, as api.h declares them."""
    calls = re.findall(r"^  Call<[^;{]*>\s+(\w+)\{\s*library,([^}]*)\};", API.read_text(), re.M)
    return {call: re.findall(r'"(nvml\w+)"', names) for call, names in calls}


# ---- what it exports


def test_the_table_of_calls_is_read_whole():
    assert len(table()) == API.read_text().count("\n  Call<")
    assert all(table().values())


def test_driver_535_has_every_older_call():
    names = exported(library_of("535"))
    assert {call for call, known in table().items() if not names & set(known)} == NEWER_THAN_535
    if HAS_DRIVER:
        record(NAME, "ran")  # without it, the tests further down do


def test_driver_470_lacks_thirteen_names():
    names = exported(library_of("470"))
    asked = {name for known in table().values() for name in known}
    assert asked - names == set(LACKED_BY_470)
    assert {older for older in LACKED_BY_470.values() if older} <= asked & names


# ---- what follows where names are missing, on simulated GPUs


@pytest.fixture
def world(tmp_path, run):
    """A GPU with GPM and ECC, and one with two fans."""
    place = str(tmp_path / "world")
    assert run("sim", "start", "--model", "h100,rtx4090", "--load", "steady:0.8",
               "--world", place).returncode == 0
    process = subprocess.Popen(["sleep", "120"])
    assert run("sim", "attach", "--gpu", "0", "--pid", str(process.pid), "--vram", "2G",
               "--world", place).returncode == 0
    yield {"GPUYARD_SIM_WORLD": place}
    run("sim", "stop", "--world", place)
    process.kill()
    process.wait()


def settled(yard):
    """Returns the daemon's GPUs, once the two samples that GPM takes are there."""
    def gpus():
        devices = yard.get("/api/gpu/snapshot").json()["devices"]
        waits = [why for gpu in devices for why in gpu["missing"].values() if "ready" in why]
        return not waits and devices
    return wait_until(gpus, "readings that need a second sample")


def test_missing_library_functions_cost_only_dependent_readings(daemon, run, world, tmp_path):
    lacking = sorted(exported(WHOLE) - exported(library_of("470")))
    assert set(LACKED_BY_470) <= set(lacking)
    whole = daemon("--nvml", WHOLE, **world)
    old = daemon("--nvml", without(lacking, tmp_path / "libnvidia-ml.so.1"), **world)
    lost = []
    for complete, gpu in zip(settled(whole), settled(old), strict=True):
        lost.append({key for key, value in complete["readings"].items()
                     if value is not None and gpu["readings"][key] is None})
        assert lost[-1] <= set(gpu["missing"])
        assert set(complete["missing"]) <= set(gpu["missing"])
        assert [each["pid"] for each in gpu["processes"]] == [
            each["pid"] for each in complete["processes"]]
    assert lost == [{"memory_reserved_bytes"} | GPM, {"memory_reserved_bytes"}]
    assert len(complete["readings"]["fan_speed_percent"]) == 2
    assert len(gpu["readings"]["fan_speed_percent"]) == 1, "only the first fan can be read"

    def settings(yard, verb):
        shown = json.loads(run(verb, "0", "--json", "--socket", yard.socket).stdout)
        return [(each["setting"], each["now"], each["lowest"], each["highest"], each["by_default"])
                for each in shown["gpus"][0]["settings"]]
    for verb in ("power", "clocks", "persistence", "compute-mode"):
        assert settings(old, verb) == settings(whole, verb)
    (*known, by_default), = settings(whole, "ecc")
    assert by_default is not None
    assert settings(old, "ecc") == [(*known, None)]


# ---- without its kernel module

without_module = pytest.mark.skipif(HAS_DRIVER, reason="its kernel module is loaded here")
WORDS = "failed to initialise NVML: Driver Not Loaded\n"
# Verbs that read GPUs, with the local driver or through a daemon. RECORDING stands for a file.
READING = [("devices",), ("devices", "0"), ("driver",), ("energy", "--", "true"), ("processes",),
           ("query", "--fields", "name"), ("record", "RECORDING"), ("smi", "-L"),
           ("smi", "--query-gpu=name", "--format=csv"), ("top", "--once"), ("watch", "--count", "1")]
LOCAL_ONLY = [("energy",)]  # a daemon without a driver still has its stored energy
BY_DAEMON_ONLY = [("history",), ("history", "0"), ("why",), ("why", "0")]
SETTINGS = [("clocks",), ("compute-mode",), ("ecc",), ("persistence",), ("power",),
            ("power", "0", "300", "--yes"), ("reset", "0", "--yes"), ("restore", "--all", "--yes")]


def device_files():
    return sorted(map(str, [*Path("/dev").glob("nvidia*"), *Path("/dev/char").glob("195:*")]))


@pytest.fixture
def program(tmp_path):
    """The program, under a /dev of its own for root: there the library makes device files."""
    before = device_files()
    wrapper = tmp_path / "gpuyard"
    under = [OWN_DEV] if os.geteuid() == 0 else []
    if under and subprocess.run([*under, "true"], capture_output=True).returncode != 0:
        pytest.skip("root can make no mount namespace here")
    wrapper.write_text(f"""#!/bin/sh\nexec {' '.join(map(str, under))} {os.path.abspath(PROGRAM)} "$@"\n""")
    wrapper.chmod(0o755)
    yield str(wrapper)
    assert device_files() == before


@pytest.fixture
def call(program, tmp_path):
    def go(verb, *arguments, **environment):
        arguments = [str(tmp_path / "recording") if word == "RECORDING" else word
                     for word in arguments]
        return subprocess.run([program, verb, *arguments], capture_output=True, text=True, check=False,
                              env=clean_environment(tmp_path, **environment), timeout=PATIENCE)
    return go


@pytest.fixture(params=sorted(PLACES))
def library(request):
    return library_of(request.param)


def assert_says_what_to_do(done, command):
    assert done.returncode == 5, (command, done)
    assert "Driver Not Loaded\n" in done.stderr, (command, done.stderr)
    assert "Load it with `modprobe nvidia`" in done.stderr, (command, done.stderr)
    assert "gpuyard serve" not in done.stderr, (command, "a daemon would not help", done.stderr)


def test_every_verb_with_a_local_driver_is_tried(run):
    verbs = re.findall(r"^  ([a-z][a-z-]+)  ", run("--help").stdout, re.M)
    local = {verb for verb in verbs if "--nvml" in run(verb, "--help").stdout}
    assert local == {command[0] for command in READING + LOCAL_ONLY} | {"doctor", "serve"}


@without_module
def test_local_verbs_report_driver_not_loaded(call, library):
    for verb, *rest in READING + LOCAL_ONLY:
        done = call(verb, "--nvml", library, *rest)
        assert_says_what_to_do(done, verb)
        assert done.stderr.startswith(f"gpuyard: {WORDS}"), (verb, done.stderr)


@without_module
def test_daemon_verbs_report_driver_not_loaded(call, library, program, tmp_path):
    place = tmp_path / "daemon"
    place.mkdir()
    yard = Daemon(place, "--nvml", library, program=program)
    try:
        yard.ready()
        assert "NVML initialization failed: Driver Not Loaded. GPU features disabled." in yard.log()
        driver = yard.get("/api/gpu/driver")
        assert (driver.status, driver.json()) == (503, {"detail": "Driver Not Loaded"})
        assert yard.get("/api/gpu/devices").json() == {"devices": [], "count": 0}
        assert "\ngpuyard_driver_up 0\n" in yard.get("/metrics").text
        for command in READING + BY_DAEMON_ONLY + SETTINGS:
            assert_says_what_to_do(call(*command, GPUYARD_SOCKET=yard.socket), command)
    finally:
        yard.stop()
    record(NAME, "ran")


@without_module
def test_doctor_names_reason_for_unloaded_driver(call, library):
    done = call("doctor", "--nvml", library, "--json")
    said = json.loads(done.stdout)
    assert (done.returncode, said["driver"]["error"]) == (5, "Driver Not Loaded")
    assert said["driver"]["library"] == library
    marks = ("/.dockerenv", "/run/.containerenv", "/run/systemd/container")
    pci = [place for place in Path("/sys/bus/pci/devices").glob("*")
           if (place / "vendor").read_text().startswith("0x10de")
           and (place / "class").read_text().startswith("0x03")]
    if "KUBERNETES_SERVICE_HOST" in os.environ or any(map(os.path.exists, marks)):
        assert "has no access to the GPUs" in said["advice"][0]
    elif pci:
        assert "modprobe nvidia" in said["advice"][0]
    else:
        assert "No NVIDIA GPU found on the PCI bus" in said["advice"][0]
    assert "--simulate" in said["advice"][1]


@without_module
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make device files")
def test_device_file_without_kernel_module_still_fails(program, library, tmp_path):
    script = f"{os.path.abspath(PROGRAM)} devices --nvml {library}"
    done = subprocess.run([OWN_DEV, "sh", "-c", f"{script}; ls /dev; {script}"], capture_output=True,
                          text=True, check=False, env=clean_environment(tmp_path), timeout=PATIENCE)
    assert "nvidiactl" in done.stdout.split(), "root's library makes it, but not in the machine's /dev"
    assert (done.returncode, done.stderr.count(WORDS)) == (5, 2), done.stderr
