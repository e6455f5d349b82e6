"""The row about fairness: what one client waits for the load while others have all that they may have of
claims, clients that ask for the queue, and power streams at 100 Hz.

The daemon has one core, the clients and the keeper of the world the other. Needs root, to be many users.
"""

import os
import re
import sys
import tempfile
import urllib.request
from pathlib import Path

from rows import Stage, Unavailable, line, row, verdict
from servers import LIFTED, ROOT, World, Yard, client, with_config

CLIENT = ROOT / "build/release/bench/bench_crowd"
# Users (and as many addresses), claims of each, clients and streams at each of the two listeners. A
# listener has 1,536 connections, 1,024 of which may be streams.
CROWDS = {"limits as they are": ("", 16, 130, 512, 1024), "limits lifted, two users": (LIFTED, 2, 500, 32, 500)}


def loop_lag(yard):
    """How often the daemon's loop ran what was due not later than so: it looks four times a second."""
    with urllib.request.urlopen(f"http://127.0.0.1:{yard.port}/metrics") as answer:
        lines = answer.read().decode().splitlines()
    bucket = re.compile(r'gpuyard_loop_lag_seconds_bucket\{le="(.*)"\} (\d+)')
    return {float(found[1]): int(found[2]) for found in map(bucket.match, lines) if found}


def latest(before, after):
    """The least bound that holds for every look between."""
    looks = max(after.values()) - max(before.values())
    return min(bound for bound, count in after.items() if count - before[bound] == looks)


def measure_crowd(directory, config, crowd, seconds):
    if os.geteuid() != 0:
        raise Unavailable("it needs root, to be many users")
    directory.mkdir()
    directory.parent.chmod(0o711)  # all users come to the socket
    with Stage() as stage:
        world = stage.get("world", lambda: World(directory / "world", 8, "--load", "idle"))
        yard = stage.get("gpuyard", lambda: Yard(world, directory, *with_config(directory, config)))
        before = loop_lag(yard)
        figures = client(CLIENT, f"{directory}/s", yard.port, *crowd, seconds)
        return figures | {"loop_late_s": latest(before, loop_lag(yard))}


def measure(directory, seconds=20):
    return {name: row(measure_crowd, Path(directory) / f"crowd-{crowd[0]}", config, crowd, seconds)
            for name, (config, *crowd) in CROWDS.items()}


def figures_of(one):
    load = one["load"]
    return (f"{load['p50_us'] / 1e3:>8.1f}{load['p99_us'] / 1e3:>8.1f}{load['longest_us'] / 1e3:>9.1f}"
            f"{one['loop_late_s'] * 1e3:>9.0f}{one['bytes_per_s'] / 1e6:>8.0f}"
            f"{one['queues_per_s']:>10}{one['refused']:>9}")


def show(rows):
    print(f"{'':<28}{'p50':>8}{'p99':>8}{'longest':>9}{'loop <=':>9}{'MB/s':>8}{'queues/s':>10}{'refused':>9}")
    for name, one in rows.items():
        line(name, 28, one, figures_of)


def main():
    with tempfile.TemporaryDirectory() as place:
        result = measure(place)
    show(result)
    sys.exit(verdict(result))


if __name__ == "__main__":
    main()
