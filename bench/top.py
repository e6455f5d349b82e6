"""What `gpuyard top` costs and how fast it is, beside nvtop, nvitop and gpustat, in one run.

All of them draw at once, once a second, on terminals of 80x24 of their own. They read one simulated world
through the same NVML library and are pinned to one core; the terminals' other ends have the other core.
"""

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path

from rows import NotMeasured, Stage, Unavailable, line, measured, medians, row, table, why_not
from servers import CLIENT_CORE, LIBRARY, PATIENCE, PROGRAM, ROOT, SERVER_CORE, World, Yard

NVML = LIBRARY / "libnvidia-ml.so.1"
NVTOP = ROOT / "build/clients/nvtop/root/usr/bin/nvtop"
NVITOP = ROOT / "build/venv/bin/nvitop"
GPUSTAT = ROOT / "build/venv/bin/gpustat"
ROWS, COLUMNS = 24, 80
ESCAPES = re.compile(rb"\x1b(?:\[[?>0-9;]*[A-Za-z]|[()][A-Z0-9]|[=>78]|\][^\x07]*\x07|P[^\x1b]*\x1b\\)")
CURSOR_QUERY, CURSOR_ANSWER = b"\x1b[6n", b"\x1b[1;1R"
SHARE = re.compile(rb"\d ?%")  # the load of a GPU, as each of them writes it
OURS, ALONE = "gpuyard top, a daemon", "gpuyard top, the driver"
PEERS = {"nvtop 3.0": NVTOP, "nvitop 1.7": NVITOP, "gpustat 1.1": GPUSTAT}


def commands(socket):
    """Each draws once a second."""
    return {OURS: [PROGRAM, "top", "--socket", socket], ALONE: [PROGRAM, "top", "--nvml", NVML],
            "nvtop 3.0": [NVTOP, "-d", "10"], "nvitop 1.7": [NVITOP, "--monitor", "full", "--interval", "1"],
            "gpustat 1.1": [GPUSTAT, "--interval", "1"]}


class ReadYard(Yard):
    """A daemon that has read its GPUs: before, `top` would end with an error."""

    def __init__(self, world, directory, **options):
        super().__init__(world, directory, **options)
        self.socket = f"{directory}/s"
        ready = [PROGRAM, "devices", "--socket", self.socket]
        self.wait_until(lambda: subprocess.run(ready, capture_output=True, check=False).returncode == 0)


class Terminal:
    """A program on a terminal, and the bytes that came."""

    def __init__(self, command, environment):
        if not Path(command[0]).exists():
            raise Unavailable("it could not be had")
        self.name = Path(command[0]).name
        self.ended = False
        environment = environment | {"TERM": "xterm-256color", "COLORTERM": "truecolor", "LC_ALL": "C.UTF-8"}
        self.bytes = 0
        self.began = time.monotonic()
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
            os.sched_setaffinity(0, {int(SERVER_CORE)})
            try:
                os.execve(command[0], list(map(str, command)), environment)
            finally:
                os._exit(127)

    def read(self, until):
        """What comes next, before this time; b"" if nothing did, or if the program has ended."""
        left = until - time.monotonic()
        if left <= 0 or not select.select([self.fd], [], [], left)[0]:
            return b""
        try:
            chunk = os.read(self.fd, 65536)
        except OSError:
            chunk = b""
        self.ended = not chunk
        self.bytes += len(chunk)
        if CURSOR_QUERY in chunk:  # gpustat waits for the answer, which every terminal gives
            os.write(self.fd, CURSOR_ANSWER)
        return chunk

    def first_values(self):
        """Seconds from the fork until a share of some GPU was on the terminal."""
        seen = b""
        while chunk := self.read(self.began + PATIENCE):
            seen += chunk
            if SHARE.search(ESCAPES.sub(b"", seen)):
                return time.monotonic() - self.began
        end = "it ended" if self.ended else f"{PATIENCE} s passed"
        words = ESCAPES.sub(b" ", seen).decode("utf-8", "replace")
        raise NotMeasured(f"{end} without a value on the terminal, only {words.split()[-12:]}")

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
    live = {one.fd: one for one in terminals if not one.ended}
    while (left := until - time.monotonic()) > 0:
        for ready in select.select(live, [], [], left)[0]:
            live[ready].read(until)
            if live[ready].ended:
                del live[ready]


def first_frame(command, environment):
    terminal = Terminal(command, environment)
    try:
        return {"first_frame_ms": terminal.first_values() * 1e3}
    finally:
        terminal.close()


def first_frames(words, environment, times):
    """Each alone, in turns; the first turn warms the caches."""
    cells = {name: lambda command=command: first_frame(command, environment) for name, command in words.items()}
    return medians(cells, times, PEERS, warm_up=1)


class Watched:
    """A terminal while it draws: what it costs from now on."""

    def __init__(self, terminal):
        self.terminal = terminal
        self.cpu, self.bytes, self.began = terminal.cpu_seconds(), terminal.bytes, time.monotonic()

    def figures(self):
        if self.terminal.ended:
            raise NotMeasured("it ended on its terminal")
        taken = time.monotonic() - self.began
        return {"cpu_percent_of_core": (self.terminal.cpu_seconds() - self.cpu) / taken * 100,
                "bytes_per_s": (self.terminal.bytes - self.bytes) / taken,
                "rss_mib": self.terminal.rss_mib()}


def steady(words, environment, settle, seconds):
    """CPU, bytes and memory of all of them, drawing side by side."""
    terminals = {name: row(Terminal, command, environment, peer=name in PEERS) for name, command in words.items()}
    live = [one for one in terminals.values() if measured(one)]
    try:
        drain(live, settle)
        watched = {name: row(Watched, one, peer=name in PEERS) if measured(one) else one
                   for name, one in terminals.items()}
        drain(live, seconds)
        return {name: row(one.figures, peer=name in PEERS) if measured(one) else one
                for name, one in watched.items()}
    finally:
        for terminal in live:
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
KEYS = ((b"3", "No claims are waiting."), (b"2", "COMMAND"))


def key_latencies(yard, environment, keys):
    """From the write of a key to the bytes that complete its pane, while the daemon is stopped."""
    terminal = Terminal(commands(yard.socket)[OURS], environment)
    picture = Picture()
    samples = []
    try:
        terminal.first_values()
        drain([terminal], 2)
        os.kill(yard.process.pid, signal.SIGSTOP)
        drain([terminal], 1.5)  # so that a question is under way
        for i in range(keys):
            key, words = KEYS[i % len(KEYS)]
            began = time.monotonic()
            os.write(terminal.fd, key)
            while not picture.shows(words):
                chunk = terminal.read(began + PATIENCE)
                arrived = time.monotonic()
                if not chunk:
                    raise NotMeasured(f"{words} does not follow the key {key}")
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


def calls_of_daemon(yard, nvml, environment, seconds, viewers):
    """Driver calls a second of a daemon without viewers, and of one that ten `top`s show."""
    terminals = []
    try:
        time.sleep(5)
        rates = []
        for count in (0, viewers):
            for _ in range(count):
                terminals.append(Terminal(commands(yard.socket)[OURS], environment))
                terminals[-1].first_values()
            before, began = nvml.calls(), time.monotonic()
            drain(terminals, seconds)
            rates.append((nvml.calls() - before) / (time.monotonic() - began))
        return {"alone_per_s": rates[0], "with_viewers_per_s": rates[1], "viewers": viewers,
                "ratio": rates[1] / rates[0]}
    finally:
        for terminal in terminals:
            terminal.close()


def populate(world):
    """The first eight GPUs get two processes each."""
    for gpu in range(8):
        subprocess.run([PROGRAM, "sim", "attach", "--synthetic", "2", "--gpu", str(gpu), "--vram", "3G", "--load",
                        "0.2", "--world", world.directory], check=True, capture_output=True, text=True)


def measure_fleet(directory, gpus, quick):
    directory.mkdir()
    with Stage() as stage:
        world = stage.get("world", lambda: World(directory / "world", gpus, "--load", "mixed"))
        populate(world)
        yard = stage.get("gpuyard", lambda: ReadYard(world, directory))
        words = commands(yard.socket)
        viewers = first_frames(words, world.environment, 1 if quick else 10)
        for name, one in steady(words, world.environment, 1 if quick else 5, 3 if quick else 60).items():
            viewers[name] = viewers[name] if why_not(viewers[name]) else one if why_not(one) else viewers[name] | one
        return {"viewers": viewers, "keys": row(key_latencies, yard, world.environment, 10 if quick else 200)}


def measure_stillness(directory, quick):
    """Bytes a second in a world whose time stands still, once the past that is shown is full of it."""
    directory.mkdir()
    with Stage() as stage:
        world = stage.get("world", lambda: World(directory / "world", 8, "--load", "idle", "--stepped"))
        yard = stage.get("gpuyard", lambda: ReadYard(world, directory))
        return steady(commands(yard.socket), world.environment, 2 if quick else 20, 2 if quick else 20)


def measure_calls(directory, quick, viewers=10):
    directory.mkdir()
    nvml = CountingNvml(directory)
    with Stage() as stage:
        world = stage.get("world", lambda: World(directory / "world", 8, "--load", "mixed"))
        populate(world)
        yard = stage.get("gpuyard", lambda: ReadYard(world, directory, nvml=nvml.path))
        # The slowest tier is read once a minute: in each of two minutes, or in none of these short times.
        return calls_of_daemon(yard, nvml, world.environment, 3 if quick else 60, viewers)


def measure(directory, quick=False):
    place = Path(directory)
    before = os.sched_getaffinity(0)
    result = {"quick": quick, "calls": row(measure_calls, place / "top-calls", quick)}
    os.sched_setaffinity(0, {int(CLIENT_CORE)})
    try:
        result["fleets"] = {str(gpus): row(measure_fleet, place / f"top-{gpus}", gpus, quick) for gpus in (8, 64)}
        result["still"] = row(measure_stillness, place / "top-still", quick)
    finally:
        os.sched_setaffinity(0, before)
    return result


def bars(result):
    """What the design allows: what, its row, the row's figure, allowed, unit."""
    rows = []
    for gpus, cpu in (("8", 0.1), ("64", 0.3)):
        for name, short in ((OURS, "daemon"), (ALONE, "driver")):
            ours = part_of(result["fleets"][gpus], "viewers", name)
            rows += [(f"{gpus} GPUs, {short}: first frame", ours, "first_frame_ms", 50, "ms"),
                     (f"{gpus} GPUs, {short}: CPU", ours, "cpu_percent_of_core", cpu, "% of a core"),
                     (f"{gpus} GPUs, {short}: RSS", ours, "rss_mib", 8, "MiB")]
        keys = part_of(result["fleets"][gpus], "keys")
        rows.append((f"{gpus} GPUs: a key, the daemon stopped, p99", keys, "p99_ms", 30, "ms"))
    ours = part_of(result["fleets"]["8"], "viewers", OURS)
    return rows + [("8 GPUs: to the terminal", ours, "bytes_per_s", 2000, "B/s"),
                   ("8 GPUs: the same, nothing changes", part_of(result["still"], OURS), "bytes_per_s", 100, "B/s"),
                   ("driver calls with ten tops, of those with none", result["calls"], "ratio", 1.02, "times")]


def part_of(part, *names):
    """The row of that name, or the failure of what is around it."""
    for name in names:
        part = part if why_not(part) else part[name]
    return part


def show_viewers(viewers):
    def to_ours(one, key):
        return f"{one[key] / viewers[OURS][key]:>8.1f}x" if measured(viewers[OURS]) else f"{'':>9}"

    print(f"{'':<26}{'first values, ms':>18}{'CPU, % of a core':>18}{'of ours':>9}{'RSS, MiB':>10}{'of ours':>9}"
          f"{'B/s':>8}")
    for name, one in viewers.items():
        line(name, 26, one, lambda one: (
            f"{one['first_frame_ms']:>18.1f}{one['cpu_percent_of_core']:>18.3f}{to_ours(one, 'cpu_percent_of_core')}"
            f"{one['rss_mib']:>10.1f}{to_ours(one, 'rss_mib')}{one['bytes_per_s']:>8.0f}"))


def show_fleet(fleet):
    show_viewers(fleet["viewers"])
    line("a key, the daemon stopped:", 26, fleet["keys"], lambda keys: (
        f" p50 {keys['p50_ms']:.2f} ms, p99 {keys['p99_ms']:.2f}, longest {keys['longest_ms']:.2f}, of {keys['keys']}"))


def show_still(still):
    for name, one in still.items():
        line(name, 26, one, lambda one: f"{one['bytes_per_s']:>8.0f}")


def show(result):
    for gpus, fleet in result["fleets"].items():
        print(f"\n{gpus} simulated GPUs on a terminal of 80x24, once a second")
        table(fleet, show_fleet)
    print("\nNothing changes, 8 GPUs, B/s")
    table(result["still"], show_still)
    print("\nDriver calls a second, 8 GPUs")
    table(result["calls"], lambda calls: print(
        f"{calls['alone_per_s']:.1f} with no top, {calls['with_viewers_per_s']:.1f} with {calls['viewers']}"))
    if result["quick"]:
        return  # a moment's figures meet no bar
    print(f"\n{'bar':<50}{'found':>10}{'allowed':>10}")
    for what, one, key, allowed, unit in bars(result):
        line(what, 50, one, lambda one, key=key, allowed=allowed, unit=unit: (
            f"{one[key]:>10.3f}{allowed:>10g} {unit}{'' if one[key] <= allowed else '   MISSED'}"))
