"""Fixtures for tests of whole processes: the program and its daemons. Nothing outlives its test, or its
file where it is shared.
"""

import signal
import subprocess

import pytest

from program import PATIENCE, PROGRAM, Daemon, clean_environment
from skipped import pytest_sessionfinish  # noqa: F401  (a hook)


# A shell has these ignored in what it runs in the background, and so would every program of a test.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGQUIT, signal.SIG_DFL)

LONGEST = 200  # seconds; after 300 CTest kills pytest, which then can neither say where nor clean up


@pytest.fixture(autouse=True)
def no_hang():
    """Fails a test that waits without end, as for a line that is never written."""
    def too_long(*_):
        pytest.fail(f"it took more than {LONGEST} s")
    signal.signal(signal.SIGALRM, too_long)
    signal.alarm(LONGEST)
    yield
    signal.alarm(0)


@pytest.fixture
def run(tmp_path):
    """Runs the program to its end: run("devices", "--json")."""
    def go(*arguments, **environment):
        return subprocess.run([PROGRAM, *arguments], env=clean_environment(tmp_path, **environment),
                              capture_output=True, text=True, timeout=PATIENCE, check=False)
    return go


@pytest.fixture
def daemon(tmp_path):
    """Starts daemons: daemon("--simulate", "4"). They are stopped after the test."""
    started = []

    def start(*arguments, wait=True, directory=None, **environment):
        place = directory or tmp_path / f"daemon{len(started)}"
        place.mkdir(exist_ok=True)
        one = Daemon(place, *arguments, **environment)
        started.append(one)
        return one.ready() if wait else one

    yield start
    for one in started:
        one.kill()


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """Daemons for the tests of a file that change nothing: shared("--simulate", "4") is always the same
    one, with a world that stays as it was started.
    """
    yards = {}

    def one(*arguments):
        if arguments not in yards:
            yards[arguments] = Daemon(tmp_path_factory.mktemp("shared"), *arguments)
        return yards[arguments].ready()

    yield one
    for yard in yards.values():
        yard.kill()
