"""What one tick, one scrape, one claim and one change cost the daemon, and one refresh `gpuyard top`: the
allocations and the system calls, which are counted. A time says little on a busy machine; a count that grows
is a change.
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
from terminal import Terminal

pytestmark = as_root

GPUS = 8
ROUNDS = 300
CLAIM = {"gpus": GPUS, "binding": "detached", "ttl_s": 600, "answer_within_s": 0}

# Allocations and system calls of the daemon at most, all of its threads together: what was measured,
# and a tenth more. A tick is a second of an idle machine, which every operation has a part of. Waits stand apart: on a busy machine a thread
# reads before the answer is there, gets EAGAIN and waits, two or three times as often. Their bound is that
# of a busy machine, and catches a loop that wakes up for nothing.
AT_MOST = {  # allocations, system calls that do something, waits
    "tick": (1000, 46, 50),
    "scrape": (58, 4.5, 9),
    "change": (240, 7.5, 16),
    "claim and its end": (480, 37, 45),
}
WAITS = {"epoll_ctl", "epoll_wait", "futex", "poll", "restart_syscall"}


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


def system_calls(pid, report, work, others=()):
    """How many a program makes while `work` runs: those that do something, and those that wait or fail; and what
    `work` returns. Not counted: those with the names `others`.
    """
    tracer = subprocess.Popen(["strace", "-f", "-c", "-U", "calls,errors,name", "-o", str(report), "-p", str(pid)],
                              stderr=subprocess.PIPE, text=True)
    while "attached" not in tracer.stderr.readline():
        assert tracer.poll() is None
    result = work()
    tracer.send_signal(signal.SIGINT)
    tracer.communicate(timeout=30)
    done = waits = 0
    for calls, errors, name in re.findall(r"^ *(\d+) +(\d*) +(\w+)$", report.read_text(), re.MULTILINE):
        if name != "total" and name not in others:
            waited = int(calls if name in WAITS else errors or 0)
            waits += waited
            done += int(calls) - waited
    return done, waits, result


class Counted:
    """A daemon whose allocations and system calls are counted."""

    def __init__(self, yard, place):
        self.yard = yard
        self.place = place
        self.pid = yard.daemon.process.pid

    def allocations(self):
        return sum(struct.unpack("QQ", Path(f"{self.place}/allocations.{self.pid}").read_bytes()))

    def each(self, operation, rounds=ROUNDS, warm_up=True):
        """Allocations, system calls and waits of one operation, as a mean of many; and the seconds it took."""
        def work():
            begin = time.monotonic()
            for number in range(rounds):
                operation(number)
            return (time.monotonic() - begin) / rounds
        if warm_up:
            work()
        before = self.allocations()
        seconds = work()
        allocations = self.allocations() - before
        *calls, traced_seconds = system_calls(self.pid, self.place / "calls", work)
        return [count / rounds for count in (allocations, *calls)], max(seconds, traced_seconds)


@pytest.fixture
def counted(control, counter, in_memory, tmp_path):
    yard = control("--gpus", str(GPUS), "--load", "idle", start=False, runtime=in_memory,
                   shares={"changes_a_minute": 1_000_000, "claims_a_minute": 1_000_000})
    yard.start(LD_PRELOAD=counter, COUNT_ALLOCATIONS=str(tmp_path / "allocations"))
    return Counted(yard, tmp_path)


def held(name, one):
    counts, seconds = one
    print(name, *(f"{count:.1f} {unit}" for count, unit in zip(counts, ("allocations", "system calls", "waits"))))
    bounds = AT_MOST[name]
    if name != "tick":
        bounds = [bound + seconds * tick for bound, tick in zip(bounds, AT_MOST["tick"])]
    assert all(count <= bound for count, bound in zip(counts, bounds)), (name, counts, bounds)


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


def test_top(tmp_path, opened):
    """Without a daemon, once a second. Not counted: what the simulated library does in each of its calls."""
    screen = opened(Terminal(tmp_path, "--local", "--simulate", str(GPUS)))
    screen.wait_for("why")
    screen.read(2)
    seconds = 8
    done, waits, _ = system_calls(screen.program.pid, tmp_path / "calls", lambda: screen.read(seconds),
                                  others={"newfstatat", "sched_yield"})
    print(f"a refresh of top: {done / seconds:.1f} system calls, {waits / seconds:.1f} waits")
    assert done / seconds <= 26 and waits / seconds <= 40, (done, waits)
