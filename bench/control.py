"""The row about control: what setting a power limit takes, from request to answer, beside what it is
made of and beside zeusd. Everything in one run, on one simulated world, one request after the other.

Servers and the driver's caller have one core, the client and the keeper of the world the other.
"""

import json
import re
import statistics
import subprocess
import tempfile
from pathlib import Path

from servers import LIBRARY, ROOT, Server, Yard, wait_for_socket

CLIENT_CORE = "1"
PROGRAM = ROOT / "build/release/bench/bench_control"
ZEUSD = ROOT / "build/clients/zeusd/zeusd"

TARGET = "POST /gpu/set_power_limit?gpu_ids={}&power_limit_mw={}&block=true"
# Each writer has a GPU of its own: ours would notice that another had changed its.
GPU_OF = {"echo": 0, "gpuyard": 0, "zeusd": 1, "setter": 2, "in memory": 3}

# Rust's Duration and ours.
UNITS = {"ns": 1e-3, "us": 1, "\u00b5s": 1, "ms": 1e3, "s": 1e6}


class Echo(Server):
    """Our HTTP server and nothing else."""

    def __init__(self, directory):
        self.socket = f"{directory}/echo.sock"
        super().__init__([PROGRAM, "echo", self.socket], None, f"{directory}/echo.log")
        wait_for_socket(self, self.socket)


class ControllingYard(Yard):
    """With its journal where `directory` is."""

    def __init__(self, world, directory):
        self.socket = f"{directory}/zeus.sock"
        config = Path(directory) / "gpuyard.toml"
        config.write_text(f'[control]\nenabled = true\n[zeus]\nsocket = "{self.socket}"\n')
        super().__init__(world, directory, "--config", config)


class Zeusd(Server):
    def __init__(self, world, directory):
        self.socket = f"{directory}/zeusd.sock"
        super().__init__([ZEUSD, "serve", "--socket-path", self.socket, "--enable",
                          "gpu-control,gpu-read"], world.environment | {"NO_COLOR": "1"},
                         f"{directory}/zeusd.log", log_stdout=True)
        wait_for_socket(self, self.socket)


def run(*arguments, environment=None):
    out = subprocess.run(["taskset", "-c", CLIENT_CORE, PROGRAM, *map(str, arguments)],
                         env=environment, check=True, capture_output=True, text=True).stdout
    return json.loads(out)


def to_the_driver(log):
    """From a request's arrival to the beginning of its command, as the daemon itself logs it."""
    found = [float(value) * UNITS[unit] for value, unit
             in re.findall(r"overhead[=:] ?([\d.]+) ?(ns|us|\u00b5s|ms|s)\b", log)]
    found.sort()
    if not found:
        return {}
    return {"arrival_to_command_p50_us": found[len(found) // 2],
            "arrival_to_command_p99_us": found[int(0.99 * (len(found) - 1))]}


def start(world, directory, in_memory):
    servers = {"echo": Echo(directory)}
    try:
        for name, place in (("gpuyard", Path(directory) / "control"), ("in memory", in_memory)):
            Path(place).mkdir(exist_ok=True)
            servers[name] = ControllingYard(world, place)
        if ZEUSD.exists():
            servers["zeusd"] = Zeusd(world, directory)
        return servers
    except BaseException:
        stop(servers)
        raise


def stop(servers):
    for server in servers.values():
        server.stop()


def measure(world, directory, rounds, times):
    with tempfile.TemporaryDirectory(dir="/dev/shm") as in_memory:
        servers = start(world, directory, in_memory)
        try:
            return measure_servers(servers, world, directory, rounds, times)
        finally:
            stop(servers)


def measure_servers(servers, world, directory, rounds, times):
    cells = {
        "hop": lambda: run("hop", rounds),
        "disk": lambda: run("disk", directory, rounds),
        "setter": lambda: run("setter", LIBRARY / "libnvidia-ml.so.1", GPU_OF["setter"], rounds,
                              environment=world.environment)}
    for name, server in servers.items():
        requests = [TARGET.format(GPU_OF[name], limit) for limit in (300000, 310000)]
        cells[name] = lambda socket=server.socket, requests=requests: run(
            "http", socket, rounds, *requests)
    seen = {name: [] for name in cells}
    for _ in range(times):
        for name, cell in cells.items():
            seen[name].append(cell())
    rows = {name: {key: statistics.median(one[key] for one in all_of)
                   for key in ("p50_us", "p99_us")} for name, all_of in seen.items()}
    for name, server in servers.items():
        rows[name] |= to_the_driver(server.log.read_text())
    return rows


WORDS = {"hop": "a message to the driver-host and back",
         "setter": "NVML's setter, called directly",
         "disk": "4 KiB on the disk for certain",
         "echo": "our HTTP server, answering at once",
         "gpuyard": "gpuyard, zeusd's protocol",
         "in memory": "the same, its journal on no disk",
         "zeusd": "zeusd 0.5"}


def show(rows):
    print("\nSetting a power limit over a Unix socket, one request after the other, microseconds")
    print(f"{'round trip':<40}{'p50':>9}{'p99':>9}{'to command, p50':>17}{'p99':>9}")
    for name, words in WORDS.items():
        row = rows.get(name)
        if row is None:
            print(f"{words:<40}  (not measured: it could not be built)")
            continue
        begun = [row.get(f"arrival_to_command_{share}_us") for share in ("p50", "p99")]
        print(f"{words:<40}{row['p50_us']:>9.0f}{row['p99_us']:>9.0f}"
              + ("" if None in begun else f"{begun[0]:>17.0f}{begun[1]:>9.0f}"))
    for share in ("p50_us", "p99_us"):
        beyond = rows["gpuyard"][share] - rows["setter"][share]
        allowed = 2 * rows["echo"][share] + rows["hop"][share]
        line = f"{share[:3]}: beyond the driver's call {beyond:.0f} us, of {allowed:.0f} allowed"
        if "zeusd" in rows:
            line += f"; {rows['gpuyard'][share] / rows['zeusd'][share]:.2f} of zeusd"
        print(line)
