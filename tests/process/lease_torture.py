#!/usr/bin/env python3
"""Chaos for leases: many processes that want GPUs, while the daemon, the simulated driver's keeper and
the processes themselves are killed, stopped and continued, and the disk is full at times. Afterwards
the holders' own logs, the kernel's locks and the journal must agree that no GPU was ever two's. Its
pauses are of random length: chaos is what is tested.
"""

import argparse
import contextlib
import json
import os
import pathlib
import random
import resource
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time

from program import PATIENCE, PROGRAM, Daemon, wait_until
from sim_world import World

HOLDER = pathlib.Path(__file__).with_name("lease_holder.py")
SMALL = 4096  # bytes; no file of a daemon with this limit can grow


class Torture:
    def __init__(self, directory, gpus, holders, most, seed):
        self.directory = pathlib.Path(directory)
        self.seed = seed
        self.chance = random.Random(seed)
        self.gpus = gpus
        self.wanted = holders
        self.most = most
        self.world = World(self.directory)
        self.world.start("--gpus", str(gpus), "--load", "idle")
        self.holders = []
        self.started = 0
        self.done = {}
        self.daemon = None

    def count(self, what):
        self.done[what] = self.done.get(what, 0) + 1

    def start_daemon(self):
        self.daemon = Daemon(self.directory, GPUYARD_SIM_WORLD=str(self.world.directory)).ready()

    def start_holders(self, until):
        for holder in self.holders:
            holder.poll()
        self.holders = [holder for holder in self.holders if holder.returncode is None]
        while len(self.holders) < self.wanted:
            self.started += 1
            self.holders.append(subprocess.Popen(
                [sys.executable, str(HOLDER), str(self.directory), str(self.started),
                 str(self.seed * 100_000 + self.started), str(self.most), str(until)]))

    def kill_the_daemon(self):
        self.daemon.kill()
        self.start_daemon()

    def stop_the_daemon(self):
        self.pause(self.daemon.process.pid)

    def stop_a_holder(self):
        self.pause(self.chance.choice(self.holders).pid)

    def kill_a_holder(self):
        self.chance.choice(self.holders).kill()

    def stop_the_keeper(self):
        self.pause(self.world.status()["keeper_pid"])

    def fill_the_disk(self):
        with contextlib.suppress(ProcessLookupError):
            pid = self.daemon.process.pid
            resource.prlimit(pid, resource.RLIMIT_FSIZE, (SMALL, resource.RLIM_INFINITY))
            time.sleep(self.chance.uniform(0.1, 1))
            resource.prlimit(pid, resource.RLIMIT_FSIZE,
                             (resource.RLIM_INFINITY, resource.RLIM_INFINITY))

    def pause(self, pid):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGSTOP)
            time.sleep(self.chance.uniform(0.05, 0.6))
            os.kill(pid, signal.SIGCONT)

    def run(self, seconds):
        self.start_daemon()
        until = time.monotonic() + seconds
        blows = [self.kill_the_daemon, self.stop_the_daemon, self.stop_a_holder, self.kill_a_holder,
                 self.kill_a_holder, self.fill_the_disk]
        while time.monotonic() < until:
            self.start_holders(until)
            time.sleep(self.chance.uniform(0.05, 0.5))
            blow = self.chance.choice(blows)
            blow()
            self.count(blow.__name__)
        for holder in self.holders:
            holder.wait(PATIENCE + 60)

    def logs(self):
        for path in sorted(self.directory.glob("holder-*.log")):
            with open(path, encoding="utf-8") as file:
                yield path.name, [json.loads(line) for line in file if line.endswith("\n")]

    def settled(self):
        """Checks that every GPU is free once there are no claims."""
        wait_until(lambda: not any(gpu["leased"] for gpu in self.daemon.get("/api/gpu/load").json()["gpu_pool"]),
                   "all GPUs to be free again")

    def judge(self):
        """Returns a summary of the run, and its problems."""
        wrong = []
        grants = []
        lines = [(name, line) for name, log in self.logs() for line in log]
        for name, line in lines:
            self.count(line["what"])
            if line["what"] == "TAKEN":
                wrong.append(f"{name}: {line['gpu']} was somebody else's, fence {line['fence']}, now of {line['by']}")
            if line["what"] == "refused":
                wrong.append(f"{name}: {line}")
            if line["what"] == "granted":
                grants.append(line)
        wrong += self.out_of_order(grants)
        wrong += self.unlike_the_journal(grants)
        return wrong

    @staticmethod
    def out_of_order(grants):
        """On each GPU the fences rise with the time at which holders received them."""
        wrong = []
        fences = [grant["fence"] for grant in grants]
        if len(set(fences)) != len(fences):
            wrong.append("a fence was given twice")
        newest = {}
        for grant in sorted(grants, key=lambda line: line["at"]):
            for gpu in grant["gpus"]:
                if newest.get(gpu, 0) > grant["fence"]:
                    wrong.append(f"{gpu}: fence {grant['fence']} came after {newest[gpu]}")
                newest[gpu] = grant["fence"]
        return wrong

    def unlike_the_journal(self, grants):
        """Every grant that a holder received is in the record; and those who wanted one GPU, where all did, were
        served in the order in which they came."""
        wrong = []
        with contextlib.closing(sqlite3.connect(f"file:{self.directory}/state/state.db?mode=ro",
                                                uri=True)) as database:
            rows = database.execute("SELECT id, ticket, fence, gpus FROM leases WHERE fence > 0").fetchall()
        kept = {row[0]: row for row in rows}
        for grant in grants:
            row = kept.get(grant["lease"])
            if row is None or row[2] != grant["fence"] or sorted(json.loads(row[3])) != sorted(grant["gpus"]):
                wrong.append(f"the record has {row} for {grant}")
        if self.most == 1:
            by_ticket = [fence for _, fence in sorted((row[1], row[2]) for row in rows)]
            if by_ticket != sorted(by_ticket):
                wrong.append("single GPUs were not given in the order in which they were asked for")
        return wrong

    def stop(self):
        for holder in self.holders:
            with contextlib.suppress(ProcessLookupError):
                holder.kill()
        with contextlib.suppress(Exception):
            self.daemon.process.terminate()
            self.daemon.process.wait(PATIENCE)
        self.world.sim("stop")


def torture(directory, seconds, gpus=4, holders=8, most=2, seed=None):
    """Returns the number of each action, and the problems."""
    seed = random.randrange(1_000_000) if seed is None else seed
    run = Torture(directory, gpus, holders, most, seed)
    try:
        run.run(seconds)
        run.settled()
        run.stop()  # its database is closed to other users
        return run.done, run.judge(), seed
    finally:
        run.stop()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=5)
    parser.add_argument("--gpus", type=int, default=8)
    parser.add_argument("--holders", type=int, default=24)
    parser.add_argument("--most", type=int, default=4, help="GPUs of one claim")
    parser.add_argument("--seed", type=int)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="gpuyard-torture-") as directory:
        done, wrong, seed = torture(directory, given.minutes * 60, given.gpus, given.holders, given.most,
                                    given.seed)
    print(f"seed {seed}, {PROGRAM}")
    for what, times in sorted(done.items()):
        print(f"{times:8} {what}")
    for line in wrong:
        print(f"WRONG: {line}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
