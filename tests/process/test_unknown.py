"""Unknown is not healthy: no lease, no verdict and no probe takes a missing reading for a good
one, and a feature that a board never had is no fault."""

import json
import time

from half_library import without
from program import wait_until

SICK_AFTER = 30  # seconds without a reading
# The newest names of NVML that a driver of the 470 series lacks.
NEWER_THAN_470 = ["nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetGraphicsRunningProcesses_v3",
                  "nvmlDeviceGetMemoryInfo_v2", "nvmlDeviceGetCurrentClocksEventReasons"]


def runs(yard, *flags):
    """The exit code of a command that is to have a GPU at once."""
    return yard.go("run", "--no-wait", "--quiet", *flags, "--", "true").returncode


def withheld(yard, gpu):
    """Why the queue says that the GPU is not leased: a word and a sentence, or None."""
    return next(((one["why"], one["text"]) for one in yard.queue()["withheld"] if one["index"] == gpu), None)


def event_kinds(yard):
    return [json.loads(line)["kind"] for line in yard.must("events", "--json").splitlines()]


def wait_for_withholding(yard, gpu, word):
    return wait_until(lambda: (why := withheld(yard, gpu)) and why[0] == word and why,
                      lambda: f"GPU {gpu} to be withheld as {word}; now {withheld(yard, gpu)}")


def test_unreadable_gpus_are_not_leased_and_not_ready(lease_yard):
    yard = lease_yard(gpus=2)
    struck = time.monotonic()
    yard.world.fail_all("any", 999)
    for gpu in (0, 1):
        assert "Unknown Error" in wait_for_withholding(yard, gpu, "unknown")[1]
    assert yard.go("free").returncode == 7
    assert runs(yard) == 7
    said = yard.must("alerts")
    assert "No alerts are firing." not in said and "GPU 0: unknown: " in said and "Unknown Error" in said
    assert yard.json("alerts", "alerts")["alerts"] == [], "a moment without readings alarms nobody"
    assert yard.daemon.get("/ready").status == 200

    wait_until(lambda: yard.daemon.get("/ready").status == 503, "the daemon to be not ready")
    assert SICK_AFTER - 2 <= time.monotonic() - struck <= SICK_AFTER + 10
    assert "Unknown Error" in yard.daemon.get("/ready").json()["reason"]
    rules = {(one["rule"], one["gpu"]["index"]): one["message"]
             for one in yard.json("alerts", "alerts")["alerts"] if one["gpu"]}
    assert "Unknown Error" in rules["gpu-stale", 0] and "Unknown Error" in rules["gpu-stale", 1]
    assert yard.go("driver").returncode != 0, "the probe of the image and of the chart"
    kinds = event_kinds(yard)
    assert kinds.count("gpu_unavailable") == 2 and "driver_down" in kinds, "the driver-host is started again"

    yard.world.heal_all()
    wait_until(lambda: runs(yard, "-n", "2") == 0, "both GPUs to be leased again")
    assert yard.daemon.get("/ready").status == 200 and yard.go("driver").returncode == 0


def test_hidden_work_withholds_its_gpu(lease_yard):
    yard = lease_yard(gpus=2)
    yard.world.load(1, "steady:1:7G")
    why = wait_for_withholding(yard, 1, "in_use")[1]
    assert "100 % utilisation" in why and "no listed process" in why
    assert yard.must("free") == "0\n"
    assert runs(yard, "--among", "1") == 7
    assert "busy" in yard.must("queue")

    assert yard.go("uncordon", "1", "--force").returncode == 2, "without its reason"
    yard.must("uncordon", "1", "--force", "--reason", "its utilisation is stuck")
    assert runs(yard, "--among", "1") == 0


# Working parts stay usable: a claim without conditions gets a GPU there.

def test_a_driver_of_the_470_series_is_leased(tmp_path, daemon, world):
    world.start("--gpus", "2", "--load", "idle")
    library = without(NEWER_THAN_470, tmp_path / "r470.so")
    one = daemon("--nvml", library, GPUYARD_SIM_WORLD=str(world.directory)).ready()
    wait_until(lambda: [gpu["index"] for gpu in one.get("/api/gpu/free").json().get("gpus", ())] == [0, 1],
               lambda: f"both to be free: {one.get('/api/gpu/queue').json()['withheld']}")
