"""GPUs that the kernel suspends while they are idle, as on a laptop: gpuyard pauses their polling long enough, and
a suspended GPU is leased as an idle one is."""

import json
import time

import pytest

from program import wait_until

DELAY = 1  # seconds, after which the simulated kernel suspends a GPU
AN_INTERVAL = 1.5  # of reading, in seconds, and some time for a busy machine


class Laptop:
    def __init__(self, world, daemon, run, place, more=""):
        self.world = world
        self.run = run
        self.pci = world.directory / "pci"
        config = place / "gpuyard.toml"
        config.write_text(f'[telemetry]\npci_root = "{self.pci}"\n{more}', encoding="utf-8")
        self.daemon = daemon("--config", str(config), GPUYARD_SIM_WORLD=str(world.directory))

    def must(self, *arguments, code=0):
        done = self.run(*arguments, GPUYARD_SOCKET=self.daemon.socket, GPUYARD_SIM_WORLD=str(self.world.directory))
        assert done.returncode == code, f"{arguments}: {done.stdout}{done.stderr}"
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


def test_a_program_that_computes_wakes_its_gpu(laptop):
    process = laptop.world.popen("run", "--gpu", "1", "--load", "0.5", "--", "sleep", "60")
    try:
        wait_until(lambda: laptop.status(1) == "active", "the program to wake its GPU")
        since = time.monotonic()
        wait_until(lambda: laptop.devices()[1]["processes"], "its process to be seen")
        assert time.monotonic() - since < AN_INTERVAL + 5, "processes are listed every five seconds"
        assert laptop.devices()[1]["asleep_ms"] is None and laptop.status(0) == "suspended"
    finally:
        process.kill()
        process.communicate()


def test_fresh_values_wake_the_gpus(laptop):
    assert laptop.daemon.get("/api/gpu/devices").status == 200
    wait_until(lambda: laptop.devices()[0]["asleep_ms"] is None, "the GPU to be awake")
    assert laptop.devices()[0]["age_ms"] < 1000 * AN_INTERVAL
    laptop.wait_for_sleep()
    assert laptop.alerts() == []


def test_gpus_that_are_never_suspended_are_read_every_second(world, daemon, run, tmp_path):
    world.start("--gpus", "4", "--load", "idle")
    addresses = [gpu["pci_address"] for gpu in world.status()["gpus"]]
    states = [("on", "active"), ("auto", "unsupported"), ("auto", "error")]
    for address, (control, status) in zip(addresses, states):  # the last one has no files
        power = world.directory / "pci" / address[-12:].lower() / "power"
        power.mkdir(parents=True)
        (power / "control").write_text(control + "\n", encoding="utf-8")
        (power / "runtime_status").write_text(status + "\n", encoding="utf-8")
    server = Laptop(world, daemon, run, tmp_path)
    time.sleep(8)
    for gpu in server.devices():
        assert gpu["asleep_ms"] is None and gpu["age_ms"] < 1000 * AN_INTERVAL, gpu["pci_address"]


def test_the_interval_is_set_in_seconds(world, daemon, run, tmp_path):
    world.start("--gpus", "1", "--load", "idle")
    slow = Laptop(world, daemon, run, tmp_path, "interval_s = 3\n")
    first = slow.daemon.get("/api/gpu/snapshot").json()["generation"]
    time.sleep(9)
    assert 2 <= slow.daemon.get("/api/gpu/snapshot").json()["generation"] - first <= 4
    bad = tmp_path / "bad.toml"
    bad.write_text("[telemetry]\ninterval_s = 11\n", encoding="utf-8")
    done = run("config", "validate", "--config", str(bad))
    assert done.returncode != 0 and "telemetry.interval_s" in done.stderr, done.stderr
