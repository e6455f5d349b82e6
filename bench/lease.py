"""The rows about leases: each step in process before any disk, and claims over the socket, with the
daemon's journal on the disk before each answer, beside what the disk itself takes.

The daemon has one core, the client and the keeper of the world the other.
"""

import contextlib
import json
import sqlite3
import subprocess
from pathlib import Path

from rows import Stage, line, measured, row, table, why_not
from servers import LIFTED, ROOT, SERVER_CORE, World, Yard, client, with_config

STEPS = ROOT / "build/release/bench/lease_bench"
CLIENT = ROOT / "build/release/bench/bench_lease_socket"
DISK = ROOT / "build/release/bench/bench_control"


def measure_steps(seconds):
    """Nanoseconds of each step, and bytes of a claim that waits."""
    out = subprocess.run([STEPS, "--benchmark_format=json", f"--benchmark_min_time={seconds}"], check=True,
                         capture_output=True, text=True).stdout
    scale = {"ns": 1, "us": 1e3}
    return {one["name"]: one.get("bytes", one["cpu_time"] * scale[one["time_unit"]])
            for one in json.loads(out)["benchmarks"]}


def entries_in(state):
    """How many commits the journal of leases has seen, of a daemon that has ended."""
    if not (state / "state.db").exists():
        return 0
    with contextlib.closing(sqlite3.connect(state / "state.db")) as database:
        return dict(database.execute("SELECT name, value FROM lease_counters"))["entries"]


def with_daemon(world, home, *words):
    """What the client prints beside a daemon of its own, and the commits of the journal meanwhile."""
    before = entries_in(home / "state")
    with Stage() as stage:
        stage.get("gpuyard", lambda: Yard(world, home, *with_config(home, LIFTED)))
        figures = client(CLIENT, words[0], f"{home}/s", *words[1:])
    return figures | {"commits": entries_in(home / "state") - before}


def measure_socket(directory, gpus, rounds, clients):
    home = Path(directory) / "leases"
    home.mkdir()
    with Stage() as stage:
        # A GPU that is in use is withheld from leasing.
        world = stage.get("world", lambda: World(home / "world", gpus, "--load", "idle"))
        alone = row(with_daemon, world, home, "grants", gpus, rounds)
        crowd = row(with_daemon, world, home, "crowd", clients, rounds)
        if measured(crowd):
            crowd = crowd["claim"] | {"changes_per_s": crowd["changes_per_s"],
                                      "changes_per_commit": 2 * clients * rounds / crowd["commits"]}
        # On the daemon's core: one core serves the disk's interrupts, and a sync takes the other twice as long.
        return {"disk": row(lambda: client(DISK, "disk", home, gpus * rounds, core=SERVER_CORE)),
                "claim": alone if why_not(alone) else alone["claim"],
                "release": alone if why_not(alone) else alone["release"],
                "crowd": crowd}


def measure(directory, gpus, rounds, clients, step_seconds):
    return {"steps": row(measure_steps, step_seconds), "socket": row(measure_socket, directory, gpus, rounds, clients),
            "clients": clients}


def show_steps(steps):
    for name, value in steps.items():
        print(f"{name:<40}{value:>12.0f}")


def show_socket(socket, clients):
    print(f"{'round trip':<48}{'p50':>9}{'p99':>9}")
    words = {"disk": "4 KiB on the disk for certain", "claim": "a claim that is granted",
             "release": "giving it back", "crowd": f"a claim that waits, {clients} clients at once"}
    for name, text in words.items():
        line(text, 48, socket[name], lambda one: f"{one['p50_us']:>9.0f}{one['p99_us']:>9.0f}")
    if measured(socket["crowd"]):
        print(f"{clients} clients: {socket['crowd']['changes_per_s']:.0f} changes a second, "
              f"{socket['crowd']['changes_per_commit']:.1f} in each commit")
    if measured(socket["claim"], socket["disk"]):
        print(f"a claim takes {socket['claim']['p50_us'] / socket['disk']['p50_us']:.1f} syncs of the disk")


def show(rows):
    print("In process, nanoseconds of CPU; of waiting_claim_memory bytes")
    table(rows["steps"], show_steps)
    print("\nOver a Unix socket, on the disk before each answer, microseconds")
    table(rows["socket"], lambda socket: show_socket(socket, rows["clients"]))
