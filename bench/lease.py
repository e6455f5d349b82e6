"""The rows about leases: each step in process before any disk, and claims over the socket, with the
daemon's journal on the disk before each answer, beside what the disk itself takes.

The daemon has one core, the client and the keeper of the world the other.
"""

import contextlib
import json
import sqlite3
import subprocess
from pathlib import Path

from servers import ROOT, World, Yard

CLIENT_CORE = "1"
STEPS = ROOT / "build/release/bench/lease_bench"
CLIENT = ROOT / "build/release/bench/bench_lease_socket"
DISK = ROOT / "build/release/bench/bench_control"


def measure_steps():
    """Nanoseconds of each step, and bytes of a claim that waits."""
    out = subprocess.run([STEPS, "--benchmark_format=json", "--benchmark_min_time=0.5"], check=True,
                         capture_output=True, text=True).stdout
    scale = {"ns": 1, "us": 1e3}
    return {row["name"]: row.get("bytes", row["cpu_time"] * scale[row["time_unit"]])
            for row in json.loads(out)["benchmarks"]}


def run(*words):
    out = subprocess.run(["taskset", "-c", CLIENT_CORE, *map(str, words)], check=True,
                         stdout=subprocess.PIPE, text=True).stdout
    return json.loads(out)


def entries_in(state):
    """How many commits the journal of leases has seen, of a daemon that has ended."""
    with contextlib.closing(sqlite3.connect(state / "state.db")) as database:
        return dict(database.execute("SELECT name, value FROM lease_counters"))["entries"]


def measure_socket(directory, gpus, rounds, clients):
    home = Path(directory) / "leases"
    home.mkdir()
    world = World(home / "world", gpus, "--load", "idle")  # what somebody uses is not handed out
    try:
        return measure_world(world, home, gpus, rounds, clients)
    finally:
        world.stop()


def measure_world(world, home, gpus, rounds, clients):
    yard = Yard(world, home)
    try:
        rows = run(CLIENT, "grants", f"{home}/s", gpus, rounds)
    finally:
        yard.stop()
    alone = entries_in(home / "state")
    yard = Yard(world, home)
    try:
        crowd = run(CLIENT, "crowd", f"{home}/s", clients, rounds)
    finally:
        yard.stop()
    commits = entries_in(home / "state") - alone
    return {"disk": run(DISK, "disk", home, gpus * rounds), "claim": rows["claim"],
            "release": rows["release"], "crowd": crowd["claim"],
            "changes_per_s": crowd["changes_per_s"],
            "changes_per_commit": 2 * clients * rounds / commits}


def measure(directory, gpus, rounds=50, clients=64):
    return {"steps": measure_steps(),
            "socket": measure_socket(directory, gpus, rounds, clients), "clients": clients}


def show(rows):
    print("\nLeasing in process, nanoseconds of CPU; of memory_of_a_waiter bytes")
    for name, value in rows["steps"].items():
        print(f"{name:<40}{value:>12.0f}")
    socket = rows["socket"]
    print("\nLeasing over a Unix socket, on the disk before each answer, microseconds")
    print(f"{'round trip':<48}{'p50':>9}{'p99':>9}")
    words = {"disk": "4 KiB on the disk for certain", "claim": "a claim that is granted",
             "release": "giving it back",
             "crowd": f"a claim that waits, {rows['clients']} clients at once"}
    for name, text in words.items():
        print(f"{text:<48}{socket[name]['p50_us']:>9.0f}{socket[name]['p99_us']:>9.0f}")
    print(f"{rows['clients']} clients: {socket['changes_per_s']:.0f} changes a second, "
          f"{socket['changes_per_commit']:.1f} in each commit; a claim takes "
          f"{socket['claim']['p50_us'] / socket['disk']['p50_us']:.1f} syncs of the disk")
