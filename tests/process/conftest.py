"""Fixtures that several files of process tests use; what they make is described where its class is."""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

from alerts_yard import AlertsYard
from control_proof import GROUP
from control_yard import ControlYard
from fake_leasing import FakeLeasing
from lease_yard import LeaseYard
from own_disk import FrozenDisk
from program import open_directory
from prometheus_server import Prometheus
from sim_world import World


@pytest.fixture
def open_place():
    with open_directory() as place:
        yield place


@pytest.fixture
def opened():
    """Closes what a test puts in, last first."""
    things = []

    def add(thing):
        things.append(thing)
        return thing
    yield add
    for thing in reversed(things):
        thing.close()


@pytest.fixture
def world(tmp_path):
    one = World(tmp_path)
    yield one
    one.end()


@pytest.fixture
def yard(world, daemon):
    """A daemon on a world of two idle GPUs."""
    world.start("--gpus", "2", "--load", "idle")
    return daemon(GPUYARD_SIM_WORLD=str(world.directory))


@pytest.fixture
def in_memory():
    """A directory in a tmpfs, as the runtime directory of a service is."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as place:
        Path(place).chmod(0o755)
        yield Path(place)


@pytest.fixture
def on_disk():
    """A directory that is in no tmpfs, as /tmp may be."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as place:
        Path(place).chmod(0o755)
        yield Path(place)


@pytest.fixture
def control(world, tmp_path):
    """Yards: control() has a daemon that may control two idle H100s; a and b are users of its group."""
    made = []

    def make(*world_arguments, start=True, **options):
        yard = ControlYard(world, tmp_path, *world_arguments, group=GROUP, **options)
        made.append(yard)
        yard.a = yard.caller(1000, groups=(100,))
        yard.b = yard.caller(1001, groups=(100,))
        return yard.start() if start else yard

    yield make
    for yard in made:
        yard.end()


@pytest.fixture
def lease_yard(tmp_path, daemon):
    """lease_yard(gpus=2)"""
    started = []

    def start(**options):
        started.append(LeaseYard(tmp_path, daemon, **options))
        return started[-1]

    yield start
    for one in started:
        one.end()


@pytest.fixture
def leasing(tmp_path):
    one = FakeLeasing(tmp_path / "fake.sock")
    yield one
    one.end()


@pytest.fixture
def alerts_yard(tmp_path, daemon):
    """alerts_yard(rules_and_sinks, gpus=2): started"""
    started = []

    def start(alerts, gpus=1):
        started.append(AlertsYard(tmp_path, daemon, gpus, alerts))
        started[-1].start()
        return started[-1]

    yield start
    for one in started:
        one.world.end()


@pytest.fixture
def prometheus(tmp_path):
    server = Prometheus(tmp_path)
    yield server
    server.stop()


@pytest.fixture
def own_disk(tmp_path):
    """The state directory of a daemon in "yard", which is a disk that can be filled."""
    state = tmp_path / "yard" / "state"
    state.mkdir(parents=True)
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m,mode=0700", "tmpfs", state],
                      capture_output=True, check=False).returncode != 0:
        pytest.skip("only root may mount a disk of its own")
    yield state
    subprocess.run(["umount", "-l", state], check=True)


@pytest.fixture
def frozen(tmp_path):
    if os.geteuid() != 0 or not all(map(shutil.which, ("fsfreeze", "mkfs.ext4", "mount", "g++"))):
        pytest.skip("freezing a file system needs root, mkfs.ext4 and fsfreeze")
    one = FrozenDisk(tmp_path)
    yield one
    one.end()
