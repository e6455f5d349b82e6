"""Fixtures of the Python package's tests. The daemons, worlds and hosts are those of the project's
own tests."""

import os
import signal
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
# The package itself comes from the checkout unless an installed one is to be tested.
if not os.environ.get("GPUYARD_TEST_INSTALLED"):
    sys.path.insert(0, str(HERE.parent))
sys.path[1:1] = [str(ROOT / "tests"), str(ROOT / "tests" / "process")]

from ground import Ground  # noqa: E402  (after the path is set)
from skipped import pytest_sessionfinish  # noqa: E402, F401  (a hook)

# A shell has this ignored in what it runs in the background, and so would every program of a test.
signal.signal(signal.SIGINT, signal.default_int_handler)

LONGEST = 200  # seconds of one test


def pytest_configure(config):
    config.addinivalue_line("markers", "seconds(number): how long this test may take")


@pytest.fixture(autouse=True)
def no_hang(request):
    """Fails a test that waits without end; a test of many kills sets its own limit."""
    marker = request.node.get_closest_marker("seconds")
    longest = marker.args[0] if marker else LONGEST

    def too_long(*_):
        pytest.fail(f"it took more than {longest} s")
    signal.signal(signal.SIGALRM, too_long)
    signal.alarm(longest)
    yield
    signal.alarm(0)


@pytest.fixture(autouse=True)
def clean(monkeypatch, tmp_path):
    """An environment in which the client finds nothing of this machine's user, and no lease."""
    for name in list(os.environ):
        if name.startswith(("GPUYARD_", "XDG_", "CUDA_")) and name not in (
                "GPUYARD_BIN", "GPUYARD_SIM_LIB", "GPUYARD_TEST_INSTALLED", "GPUYARD_KILLS"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """One daemon for the tests of a file that leave it as it was: four idle GPUs."""
    ground = Ground(tmp_path_factory.mktemp("shared"), gpus=4)
    yield ground.start()
    ground.end()


@pytest.fixture
def yard(shared, monkeypatch):
    """The shared daemon as a Client, and as the daemon of this process."""
    import gpuyard
    monkeypatch.setenv("GPUYARD_SOCKET", shared.socket)
    with gpuyard.Client() as one:
        yield one


@pytest.fixture
def make_ground(tmp_path):
    """make_ground(gpus=2, config=""): a daemon of one test's own, which it may kill."""
    made = []

    def make(**options):
        ground = Ground(tmp_path, **options)
        made.append(ground)
        return ground.start()
    yield make
    for ground in made:
        ground.end()
