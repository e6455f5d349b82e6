#!/usr/bin/env python3
"""./yard bench: what the daemon costs and how fast it answers, in one run on this machine.

The server is pinned to one core and the load generator (wrk) to another; cells are interleaved over
several rounds and the median is shown, beside the ratio to the same server's fixed-string answer of the
same run. Absolute figures move from machine to machine and hour to hour; the ratios are what to keep.

    bench/run.py [--seconds 3] [--rounds 3] [--gpus 8] [--json FILE]
"""

import argparse
import http.client
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PROGRAM = ROOT / "build/release/gpuyard"
SERVER_CORE, LOAD_CORE = "0", "1"
FIXED = "/health"
ROUTES = [FIXED, "/metrics", "/api/gpu/snapshot", "/api/gpu/devices"]


class Daemon:
    def __init__(self, gpus, directory):
        self.log = Path(directory) / "log"
        command = ["taskset", "-c", SERVER_CORE, str(PROGRAM), "serve", "--simulate", str(gpus),
                   "--listen", "127.0.0.1:0", "--socket", f"{directory}/s", "--state",
                   f"{directory}/state"]
        self.process = subprocess.Popen(command, stderr=open(self.log, "w"),
                                        stdout=subprocess.DEVNULL)
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline and "NVML init" not in self.log.read_text():
            time.sleep(0.05)
        self.port = int(re.search(r"http://127.0.0.1:(\d+)", self.log.read_text()).group(1))

    def children(self):
        """The processes of the daemon by what they are."""
        found = {"daemon": self.process.pid}
        pid = self.process.pid
        for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
            words = Path(f"/proc/{child}/cmdline").read_text().split("\0")
            found[words[1]] = int(child)
        return found


def cpu_seconds(pid):
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def precise_cpu_seconds(pid):
    """From the scheduler, in nanoseconds, over all threads: ticks are too coarse for 0.1 %."""
    total = 0
    for task in Path(f"/proc/{pid}/task").iterdir():
        total += int((task / "schedstat").read_text().split()[0])
    return total / 1e9


def memory_mib(pid):
    status = Path(f"/proc/{pid}/status").read_text()
    return int(re.search(r"VmRSS:\s+(\d+)", status).group(1)) / 1024


def body_size(port, path):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    connection.request("GET", path)
    return len(connection.getresponse().read())


def load(port, path, seconds):
    """Requests per second and the 99th percentile in microseconds, with 16 connections."""
    out = subprocess.run(["taskset", "-c", LOAD_CORE, "wrk", "-t1", "-c16", f"-d{seconds}s",
                          "--latency", f"http://127.0.0.1:{port}{path}"],
                         capture_output=True, text=True, check=True).stdout
    if "Non-2xx" in out or "Socket errors" in out:
        sys.exit(f"bench: {path} failed under load:\n{out}")
    rate = float(re.search(r"Requests/sec:\s+([\d.]+)", out).group(1))
    value, unit = re.search(r"99%\s+([\d.]+)(us|ms|s)", out).groups()
    return rate, float(value) * {"us": 1, "ms": 1e3, "s": 1e6}[unit]


def measure_idle(yard, seconds):
    pids = yard.children()
    time.sleep(2)
    before = {name: precise_cpu_seconds(pid) for name, pid in pids.items()}
    time.sleep(seconds)
    return {name: {"cpu_percent_of_core": (precise_cpu_seconds(pid) - before[name]) / seconds * 100,
                   "rss_mib": memory_mib(pid)} for name, pid in pids.items()}


def measure_http(yard, seconds, rounds):
    cells = {path: [] for path in ROUTES}
    cpu = {path: [] for path in ROUTES}
    for _ in range(rounds):
        for path in ROUTES:
            before = cpu_seconds(yard.process.pid)
            rate, p99 = load(yard.port, path, seconds)
            used = cpu_seconds(yard.process.pid) - before
            cells[path].append((rate, p99))
            cpu[path].append(used / (rate * seconds) * 1e6)
    return {path: {"requests_per_s": statistics.median(rate for rate, _ in cells[path]),
                   "p99_us": statistics.median(p99 for _, p99 in cells[path]),
                   "cpu_us_per_request": statistics.median(cpu[path]),
                   "bytes": body_size(yard.port, path)} for path in ROUTES}


def measure_start(times):
    """Wall time of the command line on a world that runs already, milliseconds."""
    with tempfile.TemporaryDirectory() as world:
        subprocess.run([PROGRAM, "sim", "start", "--gpus", "8", "--world", world], check=True,
                       stdout=subprocess.DEVNULL)
        environment = os.environ | {"GPUYARD_SIM_WORLD": world}
        try:
            taken = {}
            for words in (["version"], ["devices", "--local"]):
                samples = []
                for _ in range(times):
                    began = time.perf_counter()
                    subprocess.run([PROGRAM, *words], env=environment, check=True,
                                   stdout=subprocess.DEVNULL)
                    samples.append((time.perf_counter() - began) * 1e3)
                taken[" ".join(words)] = statistics.median(samples)
            return taken
        finally:
            subprocess.run([PROGRAM, "sim", "stop", "--world", world], check=True)


def show(result):
    print(f"\n{result['gpus']} simulated GPUs, idle daemon with its 1 s tier")
    print(f"{'process':<14}{'CPU, % of a core':>18}{'RSS, MiB':>12}")
    for name, row in result["idle"].items():
        print(f"{name:<14}{row['cpu_percent_of_core']:>18.3f}{row['rss_mib']:>12.1f}")
    fixed = result["http"][FIXED]["requests_per_s"]
    print("\nHTTP over TCP, server on one core, 16 connections")
    print(f"{'route':<22}{'bytes':>8}{'req/s':>10}{'p99, us':>10}{'CPU us/req':>12}{'of fixed':>10}")
    for path, row in result["http"].items():
        print(f"{path:<22}{row['bytes']:>8}{row['requests_per_s']:>10.0f}{row['p99_us']:>10.0f}"
              f"{row['cpu_us_per_request']:>12.1f}{row['requests_per_s'] / fixed:>10.2f}")
    print("\nCommand line, median of wall time")
    for words, milliseconds in result["start_ms"].items():
        print(f"gpuyard {words:<18}{milliseconds:>8.1f} ms")


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=int, default=3, help="length of one cell")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--idle-seconds", type=int, default=20)
    parser.add_argument("--gpus", type=int, default=8)
    parser.add_argument("--json", metavar="FILE", help="write the figures there too")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        yard = Daemon(options.gpus, directory)
        try:
            result = {"gpus": options.gpus, "idle": measure_idle(yard, options.idle_seconds),
                      "http": measure_http(yard, options.seconds, options.rounds)}
        finally:
            yard.process.terminate()
            yard.process.wait(10)
    result["start_ms"] = measure_start(20)
    show(result)
    if options.json:
        Path(options.json).write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
