"""The row about fairness: what one client waits for the load while others have all that they may have of
claims, clients that ask for the queue, and power streams at 100 Hz.

The daemon has one core, the clients and the keeper of the world the other. Needs root, to be many users.
"""

import json
import os
import re
import subprocess
import urllib.request
from pathlib import Path

from servers import ROOT, World, Yard

CLIENT_CORE = "1"
CLIENT = ROOT / "build/release/bench/bench_crowd"
LIFTED = "[shares]\nconnections = 5000\nstreams = 5000\nwaiting_claims = 5000\nclaims_a_minute = 5000\n"
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
    directory.mkdir()
    directory.parent.chmod(0o711)  # all users come to the socket
    file = directory / "gpuyard.toml"
    file.write_text(config)
    world = World(directory / "world", 8, "--load", "idle")
    try:
        yard = Yard(world, directory, "--config", str(file))
        try:
            before = loop_lag(yard)
            out = subprocess.run(["taskset", "-c", CLIENT_CORE, CLIENT, f"{directory}/s", str(yard.port),
                                  *map(str, crowd), str(seconds)], check=True, stdout=subprocess.PIPE, text=True)
            return json.loads(out.stdout) | {"loop_late_s": latest(before, loop_lag(yard))}
        finally:
            yard.stop()
    finally:
        world.stop()


def measure(directory, seconds=20):
    if os.geteuid() != 0:
        return {}
    return {name: measure_crowd(Path(directory) / f"crowd-{crowd[0]}", config, crowd, seconds)
            for name, (config, *crowd) in CROWDS.items()}


def show(rows):
    print("\nOne client asks for the load, beside many who take what they may have, milliseconds")
    print(f"{'':<28}{'p50':>8}{'p99':>8}{'longest':>9}{'loop <=':>9}{'MB/s':>8}{'queues/s':>10}{'refused':>9}")
    for name, row in rows.items():
        load = row["load"]
        print(f"{name:<28}{load['p50_us'] / 1e3:>8.1f}{load['p99_us'] / 1e3:>8.1f}{load['longest_us'] / 1e3:>9.1f}"
              f"{row['loop_late_s'] * 1e3:>9.0f}{row['bytes_per_s'] / 1e6:>8.0f}{row['queues_per_s']:>10}{row['refused']:>9}")
    if not rows:
        print("not measured: it needs root")


if __name__ == "__main__":
    import tempfile
    with tempfile.TemporaryDirectory() as place:
        show(measure(place))
