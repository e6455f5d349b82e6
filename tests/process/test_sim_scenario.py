"""A scenario file: a world, what its GPUs do, and what happens to them when."""

import os
import pathlib

import pytest

from nvml_client import Client

EXAMPLES = pathlib.Path(__file__).parents[2] / "examples" / "scenarios"
GIB = 1 << 30


@pytest.fixture
def scenario(world, tmp_path):
    """Starts the world on a file of this text."""
    def start(text, *arguments):
        file = tmp_path / "scenario.toml"
        file.write_text(text)
        return world.start("--scenario", str(file), *arguments)
    return start


def test_events_happen_at_times_of_the_file(scenario, world):
    scenario("""
[world]
model = "h100:2,rtx4090"
stepped = true
ambient = 20
driver_version = "550.54.15"

[[gpu]]
gpu = 0
workload = "leak:0.5:10G:1G"

[[at]]
time = "20s"
gpu = 0
xid = 31
workload = "idle"

[[at]]
time = "5s"
gpu = "all"
power_brake = true

[[at]]
time = "8s"
gpu = [1, 2]
clear = true

[[at]]
time = "9s"
gpu = 2
lost = true

[[at]]
time = "15s"
driver = "reload"
away = "2s"

[[at]]
time = "16s"
driver = "unload"
""")
    status = world.status()
    assert [gpu["model"] for gpu in status["gpus"]] == ["h100", "h100", "rtx4090"]
    assert status["driver"]["version"] == "550.54.15"
    assert status["time"]["elapsed_s"] == 0
    assert status["timeline"] == {"entries": 8, "done": 0, "refused": 0}
    world.step("4.99s")
    assert [gpu["conditions"] for gpu in world.status()["gpus"]] == [[], [], []]
    world.step("10ms")
    assert [gpu["conditions"] for gpu in world.status()["gpus"]] == [["power_brake"]] * 3
    reserved = 610 << 20
    used = world.gpu(0)["memory_used_bytes"]
    assert abs(used - 15 * GIB) < GIB, f"leaked to {used / GIB:.1f} GiB, {reserved} reserved"
    world.step("5s")
    assert [gpu["conditions"] for gpu in world.status()["gpus"]] == [["power_brake"], [], ["lost"]]
    world.step("6s")  # away, and unloading what is not loaded is refused
    status = world.status()
    assert not status["driver"]["loaded"]
    assert status["timeline"] == {"entries": 8, "done": 6, "refused": 1}
    world.step("1m")
    status = world.status()
    assert status["driver"]["loaded"] and status["driver"]["session"] == 2
    assert status["timeline"]["done"] == 8
    assert [(event["gpu"], event["type"], event["data"]) for event in status["events"]] == [
        (0, "xid", 31)]
    assert status["gpus"][0]["workload"] == "idle"
    assert status["gpus"][0]["memory_used_bytes"] < GIB


def test_a_starved_gpu_holds_its_memory_and_waits(scenario, world):
    scenario("[world]\ngpus = 1\nstepped = true\nworkload = \"starved:1::2s\"\n")
    busy = []
    for _ in range(100):
        world.step("40ms")
        busy.append(world.gpu(0)["utilization_percent"] > 0)
    assert 0.1 <= sum(busy) / len(busy) <= 0.2
    assert world.gpu(0)["memory_used_bytes"] > 60 * GIB


def test_a_daemon_can_be_simulated_by_a_file(daemon, run, tmp_path):
    file = tmp_path / "lost.toml"
    file.write_text("[world]\nmodel = \"t4\"\n[[at]]\ntime = 0\ngpu = 1\nlost = true\n")
    yard = daemon("--simulate", "3", "--scenario", str(file))
    shown = yard.get("/api/gpu/snapshot").json()["devices"]
    assert len(shown) == 3
    assert run("serve", "--scenario", str(file)).returncode == 2
    assert run("serve", "--simulate", "1", "--scenario", str(file)).returncode == 2  # no GPU 1


@pytest.mark.parametrize("file", sorted(os.listdir(EXAMPLES)))
def test_the_examples_are_valid_and_begin(world, file):
    done = world.sim("validate", str(EXAMPLES / file))
    assert done.returncode == 0, done.stderr
    assert "is valid" in done.stdout
    world.start("--scenario", str(EXAMPLES / file))
    one = Client(world.environment)
    try:
        assert one.code("init") == 0 and one.value("count") == len(world.status()["gpus"])
    finally:
        one.end()
