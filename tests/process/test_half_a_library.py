"""A driver's library in which functions are missing, as an old one's or a broken one's are: what needs
them is missing with a reason, and everything else is there.
"""

import json
import re

import pytest

from half_library import WHOLE, exported, without
from sim_world import World


# Without these there is no list of GPUs at all.
NEEDED = re.compile(r"nvml(Init.*|Shutdown|ErrorString|DeviceGetCount.*|DeviceGetHandleByIndex.*)")


@pytest.fixture
def half(tmp_path):
    return lambda names: without(names, tmp_path / "libnvidia-ml.so.1")


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """A world that no test changes."""
    one = World(tmp_path_factory.mktemp("world"))
    yield one.start("--gpus", "2", "--load", "steady:0.8")
    one.end()


@pytest.fixture
def devices(world, run):
    """gpuyard's list through a library that lacks something."""
    def listed(library, *arguments):
        return run("devices", "--local", "--json", "--nvml", library, *arguments,
                   GPUYARD_SIM_WORLD=str(world.directory))
    return listed


def test_one_missing_function_costs_only_its_readings(devices, half, record_property):
    record_property("contract", "E10")
    library = half(["nvmlDeviceGetPowerUsage", "nvmlDeviceGetFieldValues"])
    done = devices(library)
    assert done.returncode == 0, done.stderr
    whole = json.loads(devices(WHOLE).stdout)["devices"]
    for gpu, complete in zip(json.loads(done.stdout)["devices"], whole, strict=True):
        assert gpu["uuid"] == complete["uuid"]
        assert gpu["readings"]["power_draw_w"] is None
        assert gpu["missing"]["power_draw_w"]
        assert complete["readings"]["power_draw_w"] is not None
        assert gpu["readings"]["temperature_core_celsius"] is not None
        assert gpu["readings"]["memory_total_bytes"] == complete["readings"]["memory_total_bytes"]


@pytest.mark.parametrize("which", [0, 1])
def test_gpus_are_listed_with_every_second_function_missing(devices, half, which):
    rest = [name for name in sorted(exported(WHOLE)) if not NEEDED.fullmatch(name)]
    done = devices(half(rest[which::2]))
    assert done.returncode == 0, done.stderr
    listed = json.loads(done.stdout)["devices"]
    assert len(listed) == 2
    for gpu in listed:
        for key, value in gpu["readings"].items():
            assert (value is None) == (key in gpu["missing"]), key


def test_library_with_only_enumeration_has_no_readings(devices, half):
    done = devices(half([name for name in sorted(exported(WHOLE)) if not NEEDED.fullmatch(name)]))
    assert done.returncode in (0, 5), done.stderr
    for gpu in json.loads(done.stdout)["devices"]:
        assert all(value is None for value in gpu["readings"].values())
