#!/usr/bin/env python3
"""./yard bench: what the daemon costs and how fast it answers, beside peers, in one run.

All servers read one simulated world and are pinned to one core; the load generator (wrk) has another.
Cells are interleaved over several rounds and the median is shown. Absolute figures move from machine to
machine and hour to hour; the ratios of one run are what to keep.

With --quick every row is measured for a moment: it shows that each row can be measured, and its figures
are no figures.

    bench/run.py [--quick | --write] [--part NAME]... [--seconds 3] [--rounds 3] [--gpus 8] [--json FILE]
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
from typing import NamedTuple

import control
import crowd
import lease
import page
import top
from rows import NotMeasured, Stage, line, measured, medians, row, table, verdict
from servers import CLIENT_CORE, FIXED, LIFTED, PEERS_OF, PROGRAM, ROOT, EventStream, World, Yard, all_smi, peer, with_config

# How long, how often and with how many clients each part measures.
FULL = {"seconds": 3, "rounds": 5, "idle_seconds": 20, "listeners": 1000, "listen_seconds": 10,
        "control_rounds": 2000, "lease_rounds": 50, "lease_clients": 64, "crowd_seconds": 20,
        "step_seconds": 0.5, "starts": 20}
QUICK = {"seconds": 1, "rounds": 1, "idle_seconds": 2, "listeners": 50, "listen_seconds": 2,
         "control_rounds": 100, "lease_rounds": 5, "lease_clients": 8, "crowd_seconds": 2,
         "step_seconds": 0.02, "starts": 3}


class Run:
    """What the parts of a run share; each world and server starts when a part first needs it."""

    def __init__(self, options, directory, stage):
        self.options = options
        self.directory = directory
        self.stage = stage

    def world(self):
        return self.stage.get("world", lambda: World(f"{self.directory}/world", self.options.gpus))

    def yard(self):
        return self.stage.get("gpuyard", lambda: Yard(self.world(), self.directory,
                                                      *with_config(self.directory, LIFTED)))

    def event_stream(self):
        return self.stage.get("event_stream", lambda: EventStream(10, self.directory))

    def fastapi(self):
        return self.stage.get("fastapi", lambda: peer("fastapi_service", self.world(), self.directory,
                                                      "/api/gpu/devices"))

    def all_smi(self):
        return self.stage.get("all-smi", lambda: all_smi(self.world(), self.directory))

    def exporter(self):
        return self.stage.get("exporter", lambda: peer("prometheus_exporter", self.world(), self.directory,
                                                       "/metrics"))


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
    out = subprocess.run(["taskset", "-c", CLIENT_CORE, "wrk", "-t1", "-c16", f"-d{seconds}s",
                          "--latency", f"http://127.0.0.1:{port}{path}"],
                         capture_output=True, text=True, check=True).stdout
    errors = [words.strip() for words in out.splitlines() if "Non-2xx" in words or "Socket errors" in words]
    if errors:
        raise NotMeasured(f"failed under load: {', '.join(errors)}")
    rate = float(re.search(r"Requests/sec:\s+([\d.]+)", out).group(1))
    value, unit = re.search(r"99%\s+([\d.]+)(us|ms|s)", out).groups()
    return rate, float(value) * {"us": 1, "ms": 1e3, "s": 1e6}[unit]


def measure_idle(run):
    seconds, pids = run.options.idle_seconds, run.yard().processes()
    time.sleep(2)
    before = {name: precise_cpu_seconds(pid) for name, pid in pids.items()}
    time.sleep(seconds)
    return {name: {"cpu_percent_of_core": (precise_cpu_seconds(pid) - before[name]) / seconds * 100,
                   "rss_mib": memory_mib(pid)} for name, pid in pids.items()}


def measure_route(server, path, seconds):
    size = body_size(server.port, path)
    before = cpu_seconds(server.process.pid)
    rate, p99 = load(server.port, path, seconds)
    used = cpu_seconds(server.process.pid) - before
    return {"requests_per_s": rate, "p99_us": p99, "cpu_us_per_request": used / (rate * seconds) * 1e6,
            "bytes": size}


def measure_http(run):
    routes = {"gpuyard " + path: (run.yard, path)
              for path in (FIXED, "/metrics", "/api/gpu/snapshot", "/api/gpu/devices")}
    peers = {"fastapi /api/gpu/devices": (run.fastapi, "/api/gpu/devices"),
             "prometheus_client /metrics": (run.exporter, "/metrics"), "all-smi /metrics": (run.all_smi, "/metrics")}
    for server in (run.fastapi, run.exporter, run.all_smi):  # up before the first cell is timed
        row(server, peer=True)
    cells = {name: lambda server=server, path=path: measure_route(server(), path, run.options.seconds)
             for name, (server, path) in (routes | peers).items()}
    return medians(cells, run.options.rounds, peers)


def measure_steps(program, seconds, environment=None):
    """The CPU time of each row of a program of benchmarks, in the unit that it has chosen."""
    out = subprocess.run([ROOT / "build/release/bench" / program, "--benchmark_format=json",
                          f"--benchmark_min_time={seconds}"], env=environment, check=True,
                         capture_output=True, text=True).stdout
    return {row["name"]: row["cpu_time"] for row in json.loads(out)["benchmarks"]}


def measure_pipeline(run):
    """Nanoseconds of each step from driver call to text, and of all of them."""
    return measure_steps("pipeline", run.options.step_seconds, run.world().environment)


def measure_start(run):
    """Wall time of the command line on a world that runs already, milliseconds."""
    taken = {}
    for words in (["version"], ["devices", "--local"]):
        samples = []
        for _ in range(run.options.starts):
            began = time.perf_counter()
            subprocess.run([PROGRAM, *words], env=run.world().environment, check=True,
                           capture_output=True, text=True)
            samples.append((time.perf_counter() - began) * 1e3)
        taken[" ".join(words)] = statistics.median(samples)
    return taken


def measure_listeners(start, path, count, seconds):
    """What `count` listeners of a stream cost its server, and what the one heard who heard least."""
    server = start()
    pid = server.process.pid
    alone = memory_mib(pid)
    listeners = subprocess.Popen(["taskset", "-c", CLIENT_CORE, sys.executable, ROOT / "bench/listeners.py",
                                  str(server.port), path, str(count), str(seconds)],
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    ready = listeners.stdout.readline() == "ready\n"
    before, began = precise_cpu_seconds(pid), time.monotonic()
    if ready:
        time.sleep(seconds - 0.5)  # while all of them listen
    used = precise_cpu_seconds(pid) - before
    percent = used / (time.monotonic() - began) * 100
    with_all = memory_mib(pid)
    said, why = listeners.communicate()
    if listeners.returncode != 0:
        raise NotMeasured(why.strip().splitlines()[-1].removeprefix("bench: "))
    heard = json.loads(said)
    return heard | {"listeners": count, "cpu_percent_of_core": percent, "rss_mib": with_all,
                    "rss_mib_alone": alone, "events_per_s_fewest": heard["fewest"] / seconds}


def measure_streams(run):
    streams = {"daemon, a snapshot a second": (run.yard, "/api/gpu/events"),
               "stream alone, ten a second": (run.event_stream, "/")}
    return {name: row(measure_listeners, server, path, run.options.listeners, run.options.listen_seconds)
            for name, (server, path) in streams.items()}


def measure_top(run):
    run.stage.close()  # these viewers are watched for 0.1 % of a core
    return top.measure(run.directory, run.options.quick)


def show_idle(rows):
    print(f"{'process':<14}{'CPU, % of a core':>18}{'RSS, MiB':>12}")
    for name, one in rows.items():
        print(f"{name:<14}{one['cpu_percent_of_core']:>18.3f}{one['rss_mib']:>12.1f}")


def show_listeners(rows):
    print(f"{'stream':<30}{'listeners':>10}{'bytes':>8}{'heard/s':>9}{'CPU, % of a core':>18}"
          f"{'RSS, MiB':>10}{'without':>9}")
    for name, one in rows.items():
        line(name, 30, one, lambda one: (
            f"{one['listeners']:>10}{one['bytes_per_event']:>8.0f}"
            f"{one['events_per_s_fewest']:>9.1f}{one['cpu_percent_of_core']:>18.2f}"
            f"{one['rss_mib']:>10.1f}{one['rss_mib_alone']:>9.1f}"))


def show_http(rows):
    def ratio(name, other, form):
        if other is None or not measured(rows[name], rows[other]):
            return ""
        return form.format(rows[name]["requests_per_s"] / rows[other]["requests_per_s"])

    print(f"{'server and route':<28}{'bytes':>8}{'req/s':>10}{'p99, us':>10}{'CPU us/req':>12}"
          f"{'of fixed':>10}{'of the peers':>14}")
    for name, one in rows.items():
        fixed = "gpuyard " + FIXED if name.startswith("gpuyard") else None
        peers = ", ".join(filter(None, (ratio(name, peer, "{:.0f}x") for peer in PEERS_OF.get(name, ()))))
        beside = f"{ratio(name, fixed, '{:.2f}'):>10}{peers:>14}"
        line(name, 28, one, lambda one, beside=beside: (
            f"{one['bytes']:>8.0f}{one['requests_per_s']:>10.0f}{one['p99_us']:>10.0f}"
            f"{one['cpu_us_per_request']:>12.1f}{beside}"))


def show_pipeline(rows):
    for name, nanoseconds in rows.items():
        print(f"{name:<28}{nanoseconds / 1e3:>10.1f}")


def show_andon(rows):
    for name, microseconds in rows.items():
        print(f"{name.removeprefix('tick/'):<28}{microseconds:>10.1f}")


def show_start(rows):
    for words, milliseconds in rows.items():
        print(f"gpuyard {words:<18}{milliseconds:>8.1f} ms")


class Part(NamedTuple):
    key: str
    title: str
    measure: object
    show: object


PARTS = (
    Part("idle", "Idle daemon with its tiers", measure_idle, show_idle),
    Part("listeners", "Listeners of server-sent events over TCP", measure_streams, show_listeners),
    Part("http", "HTTP over TCP, each server on the same one core, 16 connections", measure_http, show_http),
    Part("pipeline_ns", "From driver call to text, in process, microseconds of CPU", measure_pipeline, show_pipeline),
    Part("andon_us", "Looking at 200 rules: GPUs / one in so many is hot, us of CPU",
         lambda run: measure_steps("andon_bench", run.options.step_seconds), show_andon),
    Part("start_ms", "Command line, median of wall time", measure_start, show_start),
    Part("leases", "Leasing",
         lambda run: lease.measure(run.directory, run.options.gpus, run.options.lease_rounds,
                                   run.options.lease_clients, run.options.step_seconds), lease.show),
    Part("control", "Setting a power limit over a Unix socket, one request after the other, microseconds",
         lambda run: control.measure(run.world(), run.directory, run.options.control_rounds, run.options.rounds),
         control.show),
    Part("crowd", "One client asks for the load, beside many who take what they may have, milliseconds",
         lambda run: crowd.measure(run.directory, run.options.crowd_seconds), crowd.show),
    Part("top", "gpuyard top", measure_top, top.show))


def measure(options, directory):
    result = {"gpus": options.gpus, "quick": options.quick}
    with Stage() as stage:
        run = Run(options, directory, stage)
        parts = [part for part in PARTS if not options.part or part.key in options.part]
        for number, part in enumerate(parts, 1):
            print(f"bench: part {number} of {len(parts)}: {part.title}", file=sys.stderr)
            result[part.key] = row(part.measure, run)
    return result


def show(result):
    print(f"\n{result['gpus']} simulated GPUs{', each row for a moment only' if result['quick'] else ''}")
    for part in PARTS:
        if part.key in result:
            print(f"\n{part.title}")
            table(result[part.key], part.show)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    kind = parser.add_mutually_exclusive_group()
    kind.add_argument("--quick", action="store_true", help="each row for a moment, 90 s in all")
    kind.add_argument("--write", action="store_true", help="write the tables of docs/performance.md that were measured")
    parser.add_argument("--part", action="append", choices=[part.key for part in PARTS],
                        help="measure only this part; may be given several times")
    parser.add_argument("--seconds", type=int, help="length of one cell")
    for name in ("rounds", "idle-seconds", "listeners", "listen-seconds", "control-rounds"):
        parser.add_argument(f"--{name}", type=int)
    parser.add_argument("--gpus", type=int, default=8)
    parser.add_argument("--json", metavar="FILE", help="write the figures there too")
    options = parser.parse_args()
    for name, size in (QUICK if options.quick else FULL).items():
        if getattr(options, name, None) is None:
            setattr(options, name, size)
    with tempfile.TemporaryDirectory() as directory:
        result = measure(options, directory)
    show(result)
    if options.json:
        Path(options.json).write_text(json.dumps(result, indent=1) + "\n")
    if options.write and not verdict(result):
        page.write(result)
    sys.exit(verdict(result))


if __name__ == "__main__":
    main()
