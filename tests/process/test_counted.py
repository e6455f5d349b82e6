"""What one tick, one scrape, one claim and one change cost the daemon: its allocations and its system
calls, which are counted. A time says little on a busy machine; a count that grows is a change.
"""

import re
import shutil
import signal
import struct
import subprocess
import time
from pathlib import Path

import pytest

from control_proof import accepted, as_root
from program import PROGRAM, wait_until

pytestmark = as_root

GPUS = 8
ROUNDS = 300
CLAIM = {"gpus": GPUS, "binding": "detached", "ttl_s": 600, "answer_within_s": 0}

# Allocations and system calls of the daemon at most, all of its threads together: what was measured,
# and a tenth more. A tick is a second of an idle machine.
AT_MOST = {
    "tick": (1000, 92),
    "scrape": (58, 12),
    "change": (240, 20),
    "claim and its end": (480, 70),
}


@pytest.fixture(scope="module")
def counter(tmp_path_factory):
    if not shutil.which("g++"):
        pytest.skip("the library that counts needs g++")
    program = Path(PROGRAM).read_bytes()
    if b"__asan_init" in program or b"__tsan_init" in program:
        pytest.skip("a sanitizer allocates by itself")
    library = tmp_path_factory.mktemp("counting") / "count_allocations.so"
    subprocess.run(["g++", "-O1", "-shared", "-fPIC", "-ftls-model=initial-exec", "-o", str(library),
                    str(Path(__file__).parent / "count_allocations.cpp")], check=True, timeout=120)
    return str(library)


class Counted:
    """A daemon whose allocations and system calls are counted."""

    def __init__(self, yard, place):
        self.yard = yard
        self.place = place
        self.pid = yard.daemon.process.pid

    def allocations(self):
        return sum(struct.unpack("QQ", Path(f"{self.place}/allocations.{self.pid}").read_bytes()))

    def system_calls(self, work):
        """So many the daemon makes while `work` lasts."""
        report = self.place / "calls"
        tracer = subprocess.Popen(["strace", "-f", "-c", "-o", str(report), "-p", str(self.pid)],
                                  stderr=subprocess.PIPE, text=True)
        while "attached" not in tracer.stderr.readline():
            assert tracer.poll() is None
        work()
        tracer.send_signal(signal.SIGINT)
        tracer.communicate(timeout=30)
        return int(re.search(r"^\S+ +\S+ +(?:\S+ +)?(\d+) +(?:\d+ )? *total$", report.read_text(),
                             re.MULTILINE).group(1))

    def each(self, operation, rounds=ROUNDS, warm_up=True):
        """Allocations and system calls of one operation, as a mean of many."""
        def work():
            for number in range(rounds):
                operation(number)
        if warm_up:
            work()
        before = self.allocations()
        work()
        allocations = self.allocations() - before
        return allocations / rounds, self.system_calls(work) / rounds


@pytest.fixture
def counted(control, counter, in_memory, tmp_path):
    yard = control("--gpus", str(GPUS), "--load", "idle", start=False, runtime=in_memory,
                   shares={"changes_a_minute": 1_000_000, "claims_a_minute": 1_000_000})
    yard.start(LD_PRELOAD=counter, COUNT_ALLOCATIONS=str(tmp_path / "allocations"))
    return Counted(yard, tmp_path)


def held(name, one):
    allocations, calls = one
    print(f"{name}: {allocations:.1f} allocations, {calls:.1f} system calls")
    assert allocations <= AT_MOST[name][0], name
    assert calls <= AT_MOST[name][1], name


def test_tick(counted):
    time.sleep(2)  # what is read at the start only
    held("tick", counted.each(lambda _: time.sleep(1), rounds=8, warm_up=False))


def test_scrape(counted):
    held("scrape", counted.each(lambda _: counted.yard.root.ask("GET", "/metrics")))


def test_change(counted):
    held("change", counted.each(lambda number: accepted(counted.yard.root.power(0, 300 + number % 2))))


def test_claim(counted):
    """Of one that waits: a granted one looks for processes, which are the machine's."""
    root = counted.yard.root

    def claim(name):
        return root.ask("POST", "/api/gpu/leases", CLAIM | {"id": name}).json()["lease"]["state"]
    wait_until(lambda: claim("holder-of-all-gpus") == "held", "a lease of all GPUs")

    def operation(number):
        name = f"waits-in-vain-{time.monotonic_ns()}-{number}"
        assert claim(name) == "waiting"
        assert root.ask("DELETE", f"/api/gpu/leases/{name}").status == 200
    held("claim and its end", counted.each(operation))
