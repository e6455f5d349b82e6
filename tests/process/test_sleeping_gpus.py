"""GPUs that the kernel suspends while they are idle, as on a laptop: gpuyard pauses their polling long enough, and
a suspended GPU is leased as an idle one is."""

import json
import time

import pytest

from program import wait_until

DELAY = 1  # seconds, after which the simulated kernel suspends a GPU
AN_INTERVAL = 1.5  # of reading, in seconds, and some time for a busy machine


class Laptop:
    def __init__(self, world, daemon, run, place):
        self.world = world
        self.run = run
        self.pci = world.directory / "pci"
        config = place / "gpuyard.toml"
        config.write_text(f'[telemetry]\npci_root = "{self.pci}"\n', encoding="utf-8")
        self.daemon = daemon("--config", str(config), GPUYARD_SIM_WORLD=str(world.directory))

    def must(self, *arguments):
        done = self.run(*arguments, GPUYARD_SOCKET=self.daemon.socket, GPUYARD_SIM_WORLD=str(self.world.directory))
        assert done.returncode == 0, f"{arguments}: {done.stdout}{done.stderr}"
        return done.stdout

    def devices(self):
        return self.daemon.get("/api/gpu/snapshot").json()["devices"]

    def status(self, gpu=0):
        address = self.devices()[gpu]["pci_address"]
        return (self.pci / address / "power" / "runtime_status").read_text(encoding="utf-8").strip()

    def wait_for_sleep(self):
        wait_until(lambda: all(one["asleep_ms"] is not None for one in self.devices()),
                   lambda: f"all GPUs to be asleep; {[one['asleep_ms'] for one in self.devices()]}")

    def alerts(self):
        found = json.loads(self.must("alerts", "--json"))
        return found["alerts"]


@pytest.fixture
def laptop(world, daemon, run, tmp_path):
    world.start("--gpus", "2", "--load", "idle", "--suspend-after", str(DELAY))
    one = Laptop(world, daemon, run, tmp_path)
    one.wait_for_sleep()
    return one


def test_sleeping_gpus_stay_asleep_and_are_as_good_as_idle_ones(laptop):
    until = time.monotonic() + 5
    while time.monotonic() < until:
        assert laptop.status(0) == laptop.status(1) == "suspended"
        time.sleep(0.1)
    for gpu in laptop.devices():
        assert gpu["condition"] == "responsive" and gpu["health"] == "healthy"
        assert gpu["asleep_ms"] >= 4000 and gpu["age_ms"] >= gpu["asleep_ms"]
        assert gpu["readings"]["utilization_gpu_percent"] == 0, "its last readings stay"
        assert gpu["bottleneck"]["cause"] == "none" and gpu["bottleneck"]["brief"].startswith("asleep ")
    table = laptop.must("devices")
    assert table.count("asleep") == 2, table
    assert "GPU 0 has been asleep for" in laptop.must("why", "0")
    metrics = laptop.daemon.get("/metrics").text
    assert 'gpuyard_gpu_asleep{device="0"} 1' in metrics and 'gpuyard_gpu_responsive{device="0"} 1' in metrics
    assert 'gpuyard_gpu_power_watts{device="0"}' not in metrics
    assert laptop.daemon.get("/ready").status == 200
    assert laptop.alerts() == []
    assert len(json.loads(laptop.must("free", "--json"))["gpus"]) == 2
    laptop.must("check")
    assert laptop.status(0) == laptop.status(1) == "suspended", "none of these has woken a GPU"


def test_a_lease_wakes_its_gpu_alone(laptop):
    claim = json.loads(laptop.must("lease", "take", "--num-gpus", "1", "--no-wait", "--for", "10m", "--json"))["lease"]
    leased = claim["gpus"][0]["index"]
    wait_until(lambda: laptop.devices()[leased]["asleep_ms"] is None, "the leased GPU to be awake")
    assert laptop.status(leased) == "active" and laptop.status(1 - leased) == "suspended"
    time.sleep(DELAY + 6)
    assert laptop.devices()[leased]["age_ms"] < 1000 * AN_INTERVAL, "it is read although it is idle"
    laptop.must("lease", "release", claim["id"])
    laptop.wait_for_sleep()
