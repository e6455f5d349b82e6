#!/usr/bin/env python3
"""./yard bench --top: what `gpuyard top` costs and how fast it is, beside nvtop and nvitop, in one run.

All of them draw at once, once a second, on terminals of 80x24 of their own. They read one simulated world
through the same NVML library and are pinned to one core; the terminals' other ends have the other core.

    bench/top.py [--quick] [--json FILE]
"""

import argparse
import fcntl
import json
import os
import pty
import re
import select
import signal
import statistics
import struct
import subprocess
import sys
import tempfile
import termios
import time
from pathlib import Path

from servers import LIBRARY, PATIENCE, PROGRAM, ROOT, SERVER_CORE, World, Yard

NVML = LIBRARY / "libnvidia-ml.so.1"
NVTOP = ROOT / "build/clients/nvtop/root/usr/bin/nvtop"
NVITOP = ROOT / "build/venv/bin/nvitop"
CLIENT_CORE = 1
ROWS, COLUMNS = 24, 80
ESCAPES = re.compile(rb"\x1b(?:\[[?>0-9;]*[A-Za-z]|[()][A-Z0-9]|[=>78]|\][^\x07]*\x07)")
SHARE = re.compile(rb"\d ?%")  # the load of a GPU, as each of them writes it
OURS, ALONE = "gpuyard top, a daemon", "gpuyard top, the driver"
PEERS = {"nvtop 3.0": NVTOP, "nvitop 1.7": NVITOP}


def commands(socket):
    """Each draws once a second."""
    own = {OURS: [PROGRAM, "top", "--socket", socket], ALONE: [PROGRAM, "top", "--nvml", NVML]}
    peers = {"nvtop 3.0": [NVTOP, "-d", "10"], "nvitop 1.7": [NVITOP, "--monitor", "full", "--interval", "1"]}
    return own | {name: words for name, words in peers.items() if PEERS[name].exists()}


class ReadYard(Yard):
    """A daemon that has read its GPUs: before, `top` would end with an error."""

    def __init__(self, world, directory, **options):
        super().__init__(world, directory, **options)
        self.socket = f"{directory}/s"
        ready = [PROGRAM, "devices", "--socket", self.socket]
        deadline = time.monotonic() + PATIENCE
        while subprocess.run(ready, capture_output=True, check=False).returncode != 0:
            if time.monotonic() > deadline:
                raise SystemExit(f"bench: the daemon reads no GPU:\n{self.log.read_text()}")
            time.sleep(0.05)


class Terminal:
    """A program on a terminal, and the bytes that came."""

    def __init__(self, command, environment):
        self.name = Path(command[0]).name
        environment = environment | {"TERM": "xterm-256color", "COLORTERM": "truecolor", "LC_ALL": "C.UTF-8"}
        self.bytes = 0
        self.began = time.monotonic()
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
            os.sched_setaffinity(0, {int(SERVER_CORE)})
            os.execve(command[0], list(map(str, command)), environment)

    def read(self, until):
        """What comes next, before this time; b"" if nothing did."""
        left = until - time.monotonic()
        if left <= 0 or not select.select([self.fd], [], [], left)[0]:
            return b""
        try:
            chunk = os.read(self.fd, 65536)
        except OSError:
            raise SystemExit(f"bench: {self.name} ended on its terminal") from None
        self.bytes += len(chunk)
        return chunk

    def first_values(self):
        """Seconds from the fork until a share of some GPU was on the terminal."""
        seen = b""
        while chunk := self.read(self.began + PATIENCE):
            seen += chunk
            if SHARE.search(ESCAPES.sub(b"", seen)):
                return time.monotonic() - self.began
        raise SystemExit(f"bench: no value on the terminal, only {seen[-200:]!r}")

    def processes(self):
        found = [self.pid]
        for pid in found:
            for task in Path(f"/proc/{pid}/task").iterdir():
                found += map(int, (task / "children").read_text().split())
        return found

    def cpu_seconds(self):
        """Of its processes, from the scheduler: the ticks of /proc/PID/stat are too coarse for 0.1 %."""
        return sum(int((task / "schedstat").read_text().split()[0]) / 1e9
                   for pid in self.processes() for task in Path(f"/proc/{pid}/task").iterdir())

    def rss_mib(self):
        words = [Path(f"/proc/{pid}/status").read_text() for pid in self.processes()]
        return sum(int(re.search(r"VmRSS:\s+(\d+)", one)[1]) for one in words) / 1024

    def close(self):
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self.fd)


def drain(terminals, seconds):
    until = time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0:
        for ready in select.select(terminals, [], [], left)[0]:
            terminals[ready].read(until)


def open_all(words, environment):
    return {name: Terminal(command, environment) for name, command in words.items()}


def first_frames(words, environment, times):
    """Each alone, in turns; the first turn warms the caches."""
    samples = {name: [] for name in words}
    for turn in range(times + 1):
        for name, command in words.items():
            terminal = Terminal(command, environment)
            taken = terminal.first_values()
            terminal.close()
            samples[name] += [taken * 1e3] if turn else []
    return {name: {"first_frame_ms": statistics.median(taken)} for name, taken in samples.items()}


def steady(words, environment, settle, seconds):
    """CPU, bytes and memory of all of them, drawing side by side."""
    terminals = open_all(words, environment)
    try:
        by_fd = {terminal.fd: terminal for terminal in terminals.values()}
        drain(by_fd, settle)
        before = {name: (one.cpu_seconds(), one.bytes) for name, one in terminals.items()}
        began = time.monotonic()
        drain(by_fd, seconds)
        taken = time.monotonic() - began
        return {name: {"cpu_percent_of_core": (one.cpu_seconds() - before[name][0]) / taken * 100,
                       "bytes_per_s": (one.bytes - before[name][1]) / taken,
                       "rss_mib": one.rss_mib()} for name, one in terminals.items()}
    finally:
        for terminal in terminals.values():
            terminal.close()


class Picture:
    """The signs on a terminal that got these bytes: moves, erasures and signs of one column each."""

    def __init__(self):
        self.rows = [[" "] * COLUMNS for _ in range(ROWS)]
        self.row = self.column = 0

    def take(self, text):
        for numbers, name, sign in re.findall(r"\x1b\[([?0-9;]*)([A-Za-z])|([^\x1b])", text):
            if name == "H":
                self.row, self.column = (int(number) - 1 for number in (numbers or "1;1").split(";"))
            elif name == "J":
                self.__init__()
            elif sign and self.column < COLUMNS:
                self.rows[self.row][self.column] = sign
                self.column += 1

    def shows(self, words):
        return any(words in "".join(row) for row in self.rows)


# A key, and words that the other's pane has not.
KEYS = ((b"3", "Nobody waits."), (b"2", "COMMAND"))


def key_latencies(yard, environment, keys):
    """From the write of a key to the bytes that complete its pane, while the daemon is stopped."""
    terminal = Terminal(commands(yard.socket)[OURS], environment)
    picture = Picture()
    samples = []
    try:
        terminal.first_values()
        drain({terminal.fd: terminal}, 2)
        os.kill(yard.process.pid, signal.SIGSTOP)
        drain({terminal.fd: terminal}, 1.5)  # so that a question is under way
        for i in range(keys):
            key, words = KEYS[i % len(KEYS)]
            began = time.monotonic()
            os.write(terminal.fd, key)
            while not picture.shows(words):
                chunk = terminal.read(began + PATIENCE)
                arrived = time.monotonic()
                if not chunk:
                    raise SystemExit(f"bench: {words} does not follow the key {key}")
                picture.take(chunk.decode("utf-8", "replace"))
            samples.append((arrived - began) * 1e3)
    finally:
        os.kill(yard.process.pid, signal.SIGCONT)
        terminal.close()
    samples.sort()
    return {"p50_ms": samples[len(samples) // 2], "p99_ms": samples[int(0.99 * (len(samples) - 1))],
            "longest_ms": samples[-1], "keys": keys}


# Every entry of NVML takes at most six words: pointers and integers.
COUNTED = """
long {name}(long a, long b, long c, long d, long e, long f) {{
  static long (*real)(long, long, long, long, long, long);
  if (!real) *(void**)&real = dlsym(RTLD_NEXT, "{name}");
  __atomic_fetch_add(counter, 1, __ATOMIC_RELAXED);
  return real(a, b, c, d, e, f);
}}
"""


class CountingNvml:
    """The simulated NVML behind a library that counts the calls of all processes."""

    def __init__(self, directory):
        self.counter = Path(directory) / "calls"
        self.counter.write_bytes(bytes(8))
        self.path = Path(directory) / "libcounting.so"
        names = subprocess.run(["nm", "-D", "--defined-only", NVML], check=True, capture_output=True, text=True)
        source = Path(directory) / "counting.c"
        source.write_text(f"""#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
static long* counter;
__attribute__((constructor)) static void begin(void) {{
  counter = mmap(0, 8, PROT_READ | PROT_WRITE, MAP_SHARED, open("{self.counter}", O_RDWR | O_CLOEXEC), 0);
}}
""" + "".join(COUNTED.format(name=name) for name in re.findall(r" T (nvml\w+)", names.stdout)))
        subprocess.run(["gcc", "-O1", "-shared", "-fPIC", "-o", self.path, source, "-Wl,--no-as-needed", NVML,
                        f"-Wl,-rpath,{LIBRARY}"], check=True)

    def calls(self):
        return int.from_bytes(self.counter.read_bytes(), sys.byteorder)


def calls_of_daemon(world, directory, seconds, viewers=10):
    """Driver calls a second of a daemon that nobody asks, and of one that ten `top`s show."""
    nvml = CountingNvml(directory)
    yard = ReadYard(world, directory, nvml=nvml.path)
    terminals = {}
    try:
        time.sleep(5)
        rates = []
        for count in (0, viewers):
            for _ in range(count):
                one = Terminal(commands(yard.socket)[OURS], world.environment)
                one.first_values()
                terminals[one.fd] = one
            before, began = nvml.calls(), time.monotonic()
            drain(terminals, seconds)
            rates.append((nvml.calls() - before) / (time.monotonic() - began))
        return {"alone_per_s": rates[0], "with_viewers_per_s": rates[1], "viewers": viewers}
    finally:
        for terminal in terminals.values():
            terminal.close()
        yard.stop()


def populated(directory, gpus):
    """GPUs that change all the time, the first eight with two processes each."""
    world = World(directory, gpus, "--load", "mixed")
    for gpu in range(8):
        subprocess.run([PROGRAM, "sim", "attach", "--synthetic", "2", "--gpu", str(gpu), "--vram", "3G", "--load",
                        "0.2", "--world", directory], check=True, stdout=subprocess.DEVNULL)
    return world


def measure_fleet(directory, gpus, quick):
    directory.mkdir()
    world = populated(directory / "world", gpus)
    try:
        yard = ReadYard(world, directory)
        try:
            words = commands(yard.socket)
            rows = first_frames(words, world.environment, 3 if quick else 10)
            for name, row in steady(words, world.environment, 5, 10 if quick else 60).items():
                rows[name] |= row
            keys = key_latencies(yard, world.environment, 50 if quick else 200)
        finally:
            yard.stop()
        return {"viewers": rows, "keys": keys}
    finally:
        world.stop()


def measure_stillness(directory, quick):
    """Bytes a second in a world whose time stands still, once the past that is shown is full of it."""
    directory.mkdir()
    world = World(directory / "world", 8, "--load", "idle", "--stepped")
    try:
        yard = ReadYard(world, directory)
        try:
            return {name: row["bytes_per_s"] for name, row
                    in steady(commands(yard.socket), world.environment, 20, 5 if quick else 20).items()}
        finally:
            yard.stop()
    finally:
        world.stop()


def measure_calls(directory, quick):
    directory.mkdir()
    world = populated(directory / "world", 8)
    try:
        # The slowest tier is read once a minute: in each of two minutes, or in none of these short times.
        return calls_of_daemon(world, directory, 10 if quick else 60)
    finally:
        world.stop()


def measure(directory, quick=False):
    place = Path(directory)
    before = os.sched_getaffinity(0)
    result = {"calls": measure_calls(place / "top-calls", quick)}
    os.sched_setaffinity(0, {CLIENT_CORE})
    try:
        result["fleets"] = {str(gpus): measure_fleet(place / f"top-{gpus}", gpus, quick) for gpus in (8, 64)}
        result["still_bytes_per_s"] = measure_stillness(place / "top-still", quick)
    finally:
        os.sched_setaffinity(0, before)
    return result


def bars(result):
    """What the design allows: what, found, allowed, unit."""
    calls, still = result["calls"], result["still_bytes_per_s"]
    rows = []
    for gpus, cpu in (("8", 0.1), ("64", 0.3)):
        fleet = result["fleets"][gpus]
        for name, short in ((OURS, "daemon"), (ALONE, "driver")):
            ours = fleet["viewers"][name]
            rows += [(f"{gpus} GPUs, {short}: first frame", ours["first_frame_ms"], 50, "ms"),
                     (f"{gpus} GPUs, {short}: CPU", ours["cpu_percent_of_core"], cpu, "% of a core"),
                     (f"{gpus} GPUs, {short}: RSS", ours["rss_mib"], 8, "MiB")]
        rows.append((f"{gpus} GPUs: a key, the daemon stopped, p99", fleet["keys"]["p99_ms"], 30, "ms"))
    rows += [("8 GPUs: to the terminal", result["fleets"]["8"]["viewers"][OURS]["bytes_per_s"], 2000, "B/s"),
             ("8 GPUs: the same, nothing changes", still[OURS], 100, "B/s"),
             (f"driver calls with {calls['viewers']} tops, of those with none",
              calls["with_viewers_per_s"] / calls["alone_per_s"], 1.02, "times")]
    return rows


def show(result):
    for gpus, fleet in result["fleets"].items():
        print(f"\n{gpus} simulated GPUs on a terminal of 80x24, once a second")
        print(f"{'':<26}{'first values, ms':>18}{'CPU, % of a core':>18}{'of ours':>9}{'RSS, MiB':>10}{'of ours':>9}{'B/s':>8}")
        ours = fleet["viewers"][OURS]
        for name, row in fleet["viewers"].items():
            cpu, rss = (row[key] / ours[key] for key in ("cpu_percent_of_core", "rss_mib"))
            print(f"{name:<26}{row['first_frame_ms']:>18.1f}{row['cpu_percent_of_core']:>18.3f}{cpu:>8.1f}x"
                  f"{row['rss_mib']:>10.1f}{rss:>8.1f}x{row['bytes_per_s']:>8.0f}")
        for name in PEERS.keys() - fleet["viewers"].keys():
            print(f"{name:<26}  (not measured: it could not be had)")
        keys = fleet["keys"]
        print(f"a key, the daemon stopped: p50 {keys['p50_ms']:.2f} ms, p99 {keys['p99_ms']:.2f}, longest "
              f"{keys['longest_ms']:.2f}, of {keys['keys']}")
    print("\nNothing changes, 8 GPUs, B/s: " + ", ".join(
        f"{name} {rate:.0f}" for name, rate in result["still_bytes_per_s"].items()))
    calls = result["calls"]
    print(f"Driver calls a second, 8 GPUs: {calls['alone_per_s']:.1f} with no top, "
          f"{calls['with_viewers_per_s']:.1f} with {calls['viewers']}")
    print(f"\n{'bar':<50}{'found':>10}{'allowed':>10}")
    for what, found, allowed, unit in bars(result):
        print(f"{what:<50}{found:>10.3f}{allowed:>10g} {unit}{'' if found <= allowed else '   MISSED'}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="two minutes in all")
    parser.add_argument("--json", metavar="FILE", help="write the figures there too")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        result = measure(directory, options.quick)
    show(result)
    if options.json:
        Path(options.json).write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
