"""The row about control: what setting a power limit takes, from request to answer, beside what it is
made of and beside zeusd. Everything in one run, on one simulated world, one request after the other.

Servers and the driver's caller have one core, the client and the keeper of the world the other.
"""

import re
import tempfile
from pathlib import Path

from rows import Stage, Unavailable, line, measured, medians, row
from servers import LIBRARY, LIFTED, ROOT, SERVER_CORE, Server, Yard, client, with_config

PROGRAM = ROOT / "build/release/bench/bench_control"
ZEUSD = ROOT / "build/clients/zeusd/zeusd"

TARGET = "POST /gpu/set_power_limit?gpu_ids={}&power_limit_mw={}&block=true"
# Each writer has a GPU of its own: ours would notice that another had changed its.
GPU_OF = {"echo": 0, "gpuyard": 0, "zeusd": 1, "setter": 2, "without journal": 3}

# Rust's Duration and ours.
UNITS = {"ns": 1e-3, "us": 1, "\u00b5s": 1, "ms": 1e3, "s": 1e6}


class Echo(Server):
    """Our HTTP server and nothing else."""

    def __init__(self, directory):
        self.socket = f"{directory}/echo.sock"
        super().__init__([PROGRAM, "echo", self.socket], None, f"{directory}/echo.log")
        self.wait_until(lambda: self.takes_connections(self.socket))


class ControllingYard(Yard):
    """With an administrator's bounds, and its runtime directory on a disk: without a journal."""

    def __init__(self, world, directory, runtime=None):
        Path(directory).mkdir(exist_ok=True)
        self.socket = f"{directory}/zeus.sock"
        control = "[control]\nenabled = true\ngpu_changes_a_minute = 1000000\nlowest_w = 200\nhighest_w = 600\n"
        config = with_config(directory, f'{LIFTED}{control}[zeus]\nsocket = "{self.socket}"\n')
        super().__init__(world, directory, *config, runtime=runtime)


class YardAsInstalled(ControllingYard):
    """With its runtime directory in a tmpfs, as /run is."""

    def __init__(self, world, directory):
        self.place = tempfile.TemporaryDirectory(dir="/dev/shm")
        super().__init__(world, directory, self.place.name)

    def stop(self):
        super().stop()
        self.place.cleanup()


class Zeusd(Server):
    def __init__(self, world, directory):
        if not ZEUSD.exists():
            raise Unavailable("it could not be built")
        if "-debug" in str(ZEUSD.resolve()):
            raise Unavailable("only its debug build is here")
        self.socket = f"{directory}/zeusd.sock"
        super().__init__([ZEUSD, "serve", "--socket-path", self.socket, "--enable",
                          "gpu-control,gpu-read"], world.environment | {"NO_COLOR": "1"},
                         f"{directory}/zeusd.log", log_stdout=True)
        self.wait_until(lambda: self.takes_connections(self.socket))


def to_the_driver(log):
    """From a request's arrival to the beginning of its command, as the daemon itself logs it."""
    found = [float(value) * UNITS[unit] for value, unit
             in re.findall(r"overhead[=:] ?([\d.]+) ?(ns|us|\u00b5s|ms|s)\b", log)]
    found.sort()
    if not found:
        return {}
    return {"arrival_to_command_p50_us": found[len(found) // 2],
            "arrival_to_command_p99_us": found[int(0.99 * (len(found) - 1))]}


def measure(world, directory, rounds, times):
    servers = {"echo": lambda: Echo(directory),
               "gpuyard": lambda: YardAsInstalled(world, Path(directory) / "control"),
               "without journal": lambda: ControllingYard(world, Path(directory) / "on_disk"),
               "zeusd": lambda: Zeusd(world, directory)}
    with Stage() as stage:
        # All of them are up before the first is timed; what did not start is said by its row.
        for name, start in servers.items():
            row(stage.get, name, start)
        return measure_servers(stage, servers, world, directory, rounds, times)


def measure_servers(stage, servers, world, directory, rounds, times):
    cells = {
        "hop": lambda: client(PROGRAM, "hop", rounds),
        "disk": lambda: client(PROGRAM, "disk", directory, rounds, core=SERVER_CORE),
        "setter": lambda: client(PROGRAM, "setter", LIBRARY / "libnvidia-ml.so.1", GPU_OF["setter"], rounds,
                                 environment=world.environment)}

    def requests(name):
        targets = [TARGET.format(GPU_OF[name], limit) for limit in (300000, 310000)]
        return lambda: client(PROGRAM, "http", stage.get(name, servers[name]).socket, rounds, *targets)
    rows = medians(cells | {name: requests(name) for name in servers}, times, peers=("zeusd",))
    for name, start in servers.items():
        if measured(rows[name]):
            rows[name] |= to_the_driver(stage.get(name, start).log.read_text())
    return rows


WORDS = {"hop": "a message to the driver-host and back",
         "setter": "NVML's setter, called directly",
         "disk": "4 KiB on the disk for certain",
         "echo": "our HTTP server, answering at once",
         "gpuyard": "gpuyard, zeusd's protocol",
         "without journal": "the same, without a tmpfs for its journal",
         "zeusd": "zeusd 0.5"}


def round_trip(one):
    begun = [one.get(f"arrival_to_command_{share}_us") for share in ("p50", "p99")]
    return (f"{one['p50_us']:>9.0f}{one['p99_us']:>9.0f}"
            + ("" if None in begun else f"{begun[0]:>17.0f}{begun[1]:>9.0f}"))


def show(rows):
    print(f"{'round trip':<40}{'p50':>9}{'p99':>9}{'to command, p50':>17}{'p99':>9}")
    for name, words in WORDS.items():
        line(words, 40, rows[name], round_trip)
    if not measured(*(rows[name] for name in ("gpuyard", "setter", "echo", "hop"))):
        return
    for share in ("p50_us", "p99_us"):
        beyond = rows["gpuyard"][share] - rows["setter"][share]
        allowed = 2 * rows["echo"][share] + rows["hop"][share]
        text = f"{share[:3]}: beyond the driver's call {beyond:.0f} us, of {allowed:.0f} allowed"
        if measured(rows["zeusd"]):
            text += f"; {rows['gpuyard'][share] / rows['zeusd'][share]:.2f} of zeusd"
        print(text)
