#!/usr/bin/env python3
"""./yard bench: what the daemon costs and how fast it answers, beside peers, in one run.

All servers read one simulated world and are pinned to one core; the load generator (wrk) has another.
Cells are interleaved over several rounds and the median is shown. Absolute figures move from machine to
machine and hour to hour; the ratios of one run are what to keep.

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

import control
import crowd
import lease
import top
from servers import PROGRAM, ROOT, EventStream, World, Yard, peer

LOAD_CORE = "1"
FIXED = "/health"


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
    pids = yard.processes()
    time.sleep(2)
    before = {name: precise_cpu_seconds(pid) for name, pid in pids.items()}
    time.sleep(seconds)
    return {name: {"cpu_percent_of_core": (precise_cpu_seconds(pid) - before[name]) / seconds * 100,
                   "rss_mib": memory_mib(pid)} for name, pid in pids.items()}


def measure_http(cells, seconds, rounds):
    """cells: name -> (server, path). Every cell once in each round."""
    runs = {name: [] for name in cells}
    for _ in range(rounds):
        for name, (server, path) in cells.items():
            before = cpu_seconds(server.process.pid)
            rate, p99 = load(server.port, path, seconds)
            used = cpu_seconds(server.process.pid) - before
            runs[name].append((rate, p99, used / (rate * seconds) * 1e6))
    return {name: {"requests_per_s": statistics.median(run[0] for run in runs[name]),
                   "p99_us": statistics.median(run[1] for run in runs[name]),
                   "cpu_us_per_request": statistics.median(run[2] for run in runs[name]),
                   "bytes": body_size(server.port, path)}
            for name, (server, path) in cells.items()}


def measure_steps(program, environment=None):
    """The CPU time of each row of a program of benchmarks, in the unit that it has chosen."""
    out = subprocess.run([ROOT / "build/release/bench" / program, "--benchmark_format=json",
                          "--benchmark_min_time=0.5"], env=environment, check=True,
                         capture_output=True, text=True).stdout
    return {row["name"]: row["cpu_time"] for row in json.loads(out)["benchmarks"]}


def measure_start(world, times):
    """Wall time of the command line on a world that runs already, milliseconds."""
    taken = {}
    for words in (["version"], ["devices", "--local"]):
        samples = []
        for _ in range(times):
            began = time.perf_counter()
            subprocess.run([PROGRAM, *words], env=world.environment, check=True,
                           stdout=subprocess.DEVNULL)
            samples.append((time.perf_counter() - began) * 1e3)
        taken[" ".join(words)] = statistics.median(samples)
    return taken


def measure_listeners(server, path, count, seconds):
    """What `count` listeners of a stream cost its server, and what the one heard who heard least."""
    pid = server.process.pid
    alone = memory_mib(pid)
    crowd = subprocess.Popen(["taskset", "-c", LOAD_CORE, sys.executable, ROOT / "bench/listeners.py",
                              str(server.port), path, str(count), str(seconds)],
                             stdout=subprocess.PIPE, text=True)
    if crowd.stdout.readline() != "ready\n":
        sys.exit("bench: the listeners did not get through")
    before, began = precise_cpu_seconds(pid), time.monotonic()
    time.sleep(seconds - 0.5)  # while all of them listen
    used = precise_cpu_seconds(pid) - before
    percent = used / (time.monotonic() - began) * 100
    with_all = memory_mib(pid)
    heard = json.loads(crowd.communicate()[0])
    return heard | {"listeners": count, "cpu_percent_of_core": percent, "rss_mib": with_all,
                    "rss_mib_alone": alone, "events_per_s_fewest": heard["fewest"] / seconds}


def measure_streams(yard, directory, options):
    stream = EventStream(10, directory)
    try:
        return {"daemon, a snapshot a second":
                measure_listeners(yard, "/api/gpu/events", options.listeners, options.listen_seconds),
                "stream alone, ten a second":
                measure_listeners(stream, "/", options.listeners, options.listen_seconds)}
    finally:
        stream.stop()


def measure(options, directory):
    world = World(f"{directory}/world", options.gpus)
    servers = []
    try:
        yard = Yard(world, directory)
        servers.append(yard)
        result = {"gpus": options.gpus, "idle": measure_idle(yard, options.idle_seconds)}
        result["listeners"] = measure_streams(yard, directory, options)
        fastapi = peer("fastapi_service", world, directory, "/api/gpu/devices")
        servers.append(fastapi)
        exporter = peer("prometheus_exporter", world, directory, "/metrics")
        servers.append(exporter)
        cells = {"gpuyard " + path: (yard, path)
                 for path in (FIXED, "/metrics", "/api/gpu/snapshot", "/api/gpu/devices")}
        cells["fastapi /api/gpu/devices"] = (fastapi, "/api/gpu/devices")
        cells["prometheus_client /metrics"] = (exporter, "/metrics")
        result["http"] = measure_http(cells, options.seconds, options.rounds)
        # Nanoseconds of each step from driver call to text, and of all of them.
        result["pipeline_ns"] = measure_steps("pipeline", world.environment)
        result["andon_us"] = measure_steps("andon_bench")
        result["start_ms"] = measure_start(world, 20)
        result["leases"] = lease.measure(directory, options.gpus)
        result["control"] = control.measure(world, directory, options.control_rounds,
                                            options.rounds)
        result["crowd"] = crowd.measure(directory)
    finally:
        for server in servers:
            server.stop()
        world.stop()
    result["top"] = top.measure(directory)
    return result


PEER_OF = {"gpuyard /metrics": "prometheus_client /metrics",
           "gpuyard /api/gpu/snapshot": "fastapi /api/gpu/devices",
           "gpuyard /api/gpu/devices": "fastapi /api/gpu/devices"}


def show(result):
    print(f"\n{result['gpus']} simulated GPUs, idle daemon with its tiers")
    print(f"{'process':<14}{'CPU, % of a core':>18}{'RSS, MiB':>12}")
    for name, row in result["idle"].items():
        print(f"{name:<14}{row['cpu_percent_of_core']:>18.3f}{row['rss_mib']:>12.1f}")
    print("\nListeners of server-sent events over TCP")
    print(f"{'stream':<30}{'listeners':>10}{'bytes':>8}{'heard/s':>9}{'CPU, % of a core':>18}"
          f"{'RSS, MiB':>10}{'without':>9}")
    for name, row in result["listeners"].items():
        print(f"{name:<30}{row['listeners']:>10}{row['bytes_per_event']:>8.0f}"
              f"{row['events_per_s_fewest']:>9.1f}{row['cpu_percent_of_core']:>18.2f}"
              f"{row['rss_mib']:>10.1f}{row['rss_mib_alone']:>9.1f}")
    rates = {name: row["requests_per_s"] for name, row in result["http"].items()}
    print("\nHTTP over TCP, each server on the same one core, 16 connections")
    print(f"{'server and route':<28}{'bytes':>8}{'req/s':>10}{'p99, us':>10}{'CPU us/req':>12}"
          f"{'of fixed':>10}{'of peer':>10}")
    for name, row in result["http"].items():
        ours = name.startswith("gpuyard")
        fixed = f"{rates[name] / rates['gpuyard ' + FIXED]:.2f}" if ours else ""
        peer_ratio = f"{rates[name] / rates[PEER_OF[name]]:.0f}x" if name in PEER_OF else ""
        print(f"{name:<28}{row['bytes']:>8}{rates[name]:>10.0f}{row['p99_us']:>10.0f}"
              f"{row['cpu_us_per_request']:>12.1f}{fixed:>10}{peer_ratio:>10}")
    print("\nFrom driver call to text, in process, microseconds of CPU")
    for name, nanoseconds in result["pipeline_ns"].items():
        print(f"{name:<28}{nanoseconds / 1e3:>10.1f}")
    print("\nLooking at 200 rules: GPUs / one in so many is hot, us of CPU")
    for name, microseconds in result["andon_us"].items():
        print(f"{name.removeprefix('tick/'):<28}{microseconds:>10.1f}")
    lease.show(result["leases"])
    print("\nCommand line, median of wall time")
    for words, milliseconds in result["start_ms"].items():
        print(f"gpuyard {words:<18}{milliseconds:>8.1f} ms")
    control.show(result["control"])
    crowd.show(result["crowd"])
    top.show(result["top"])


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=int, default=3, help="length of one cell")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--idle-seconds", type=int, default=20)
    parser.add_argument("--listeners", type=int, default=1000)
    parser.add_argument("--listen-seconds", type=int, default=10)
    parser.add_argument("--control-rounds", type=int, default=2000)
    parser.add_argument("--gpus", type=int, default=8)
    parser.add_argument("--json", metavar="FILE", help="write the figures there too")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        result = measure(options, directory)
    show(result)
    if options.json:
        Path(options.json).write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
