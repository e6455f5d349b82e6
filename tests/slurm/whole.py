#!/usr/bin/env python3
"""./yard fleet-test slurm: what the hooks of `gpuyard slurm` cost, how much later than with srun a command of
`gpuyard run` starts, and whether the joules of jobs are true, on clusters under Debian's Slurm.

    whole.py [--jobs 1000] [--only speed|run|joules|storm|transcript] [--seed 1]

Prints a table of measurements beside their bars; the transcript is a story, in which each step is checked.
Ends with 1 where a bar is missed. PROGRAM and its simulated NVML are in GPUYARD_BIN and GPUYARD_SIM_LIB.
"""

import argparse
import contextlib
import json
import os
import re
import shlex
import statistics
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent), str(HERE.parent / "process")]

from board import Board  # noqa: E402
from program import wait_until  # noqa: E402
from random_jobs import SOON_AGAIN, judge, run_jobs  # noqa: E402
from rig import Cluster  # noqa: E402
from storm import array_at_once, storm_of_begins  # noqa: E402

ROUNDS = 300  # of each hook, where speed is measured
FAULTY_ROUNDS = 30
STARTS = 20  # of a command, where the way to it is measured
INTERVAL = 5  # seconds from one health check to the next, where they matter
NEVER = 3600
FIRST_JOB = 100_000  # of those that only the daemon knows

# Starts programs one after the other, as slurmd starts a hook, from a process that is small. In place of
# a program there may be "write": 4 KiB at the end of a file, and onto the disk.
TIMES = """
import json, os, sys, time

def started(words, environment):
    pid = os.posix_spawn(words[0], words, environment, file_actions=quiet)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

def written(path):
    os.write(files.setdefault(path, os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)), bytes(4096))
    os.fsync(files[path])
    return 0

null, files = os.open(os.devnull, os.O_RDWR), {}
quiet = [(os.POSIX_SPAWN_DUP2, null, number) for number in range(3)]
for name, words, environment in json.load(sys.stdin):
    began = time.perf_counter()
    code = written(words[1]) if words[0] == "write" else started(words, environment)
    print(json.dumps((name, 1000 * (time.perf_counter() - began), code)))
for path in files:
    os.unlink(path)
"""


class HookBoard(Board):
    def spread(self, what, milliseconds, most=None):
        """The median and the highest but 1 %, which is the one that has a bar."""
        high = percentile(milliseconds, 0.99)
        self.note(what, f"{statistics.median(milliseconds):.1f}, {high:.1f} ms", most is None or high <= most,
                  f"{most} ms at p99" if most else "")


def percentile(values, share):
    return sorted(values)[max(0, -(-int(1000 * share) * len(values) // 1000) - 1)]


@contextlib.contextmanager
def cluster_on_disk(**options):
    """A cluster whose daemons keep their state on a disk, as those of real nodes do; in the rig it is in
    memory."""
    with tempfile.TemporaryDirectory(prefix="gpuyard-slurm-", dir="/var/tmp") as folder, \
         Cluster(**options) as cluster:
        move_to_disk(cluster, folder)
        yield cluster


def move_to_disk(cluster, folder):
    for node in cluster.nodes:
        place = Path(folder) / node.name
        place.mkdir(mode=0o700)
        node.daemon.stop()
        cluster.enclosure.must("mount", "--bind", str(place), f"{node.place}/state")
        node.daemon.start()


# Speed.


class Hooks:
    """The hooks of one node, started as slurmd does, but without the rig's files about each run."""

    def __init__(self, node):
        self.node = node
        self.environments = {name: self._environment(name) for name in ("health", "begin", "end")}
        self.job = FIRST_JOB

    def _environment(self, name):
        """Slurm's own, as the last real run has got it."""
        run = wait_until(lambda: [one for one in self.node.hook_runs(name) if one.status is not None],
                         f"{name} to run on {self.node.name}")[-1]
        return run.environment

    def planned(self, *names, gpu=0):
        """The hooks of one more job, for TIMES."""
        self.job += 1
        program = self.node.program
        extra = {"version": ([program, "version"], {}), "true": (["/bin/true"], {}),
                 "write": (["write", f"{self.node.place}/state/measure"], {})}
        return [(name, *(extra[name] if name in extra else self._hook(name, gpu))) for name in names]

    def _hook(self, name, gpu):
        words = [self.node.program, "slurm", name, "--socket", self.node.daemon_socket,
                 "--spool", self.node.spool]
        mine = {"SLURM_JOB_ID": str(self.job), "SLURM_JOB_GPUS": str(gpu)}
        return words, self.environments[name] | (mine if name != "health" else {})


def timed(cluster, plan):
    """Milliseconds and exit codes, by name."""
    done = cluster.enclosure.run("/usr/bin/python3", "-ISc", TIMES, input=json.dumps(plan), env={}, timeout=600)
    assert done.returncode == 0, done.stderr
    found = {}
    for line in done.stdout.splitlines():
        name, milliseconds, code = json.loads(line)
        times, codes = found.setdefault(name, ([], set()))
        times.append(milliseconds)
        codes.add(code)
    return found


def healthy(cluster, board, hooks, where, most=None):
    """All in turn, so that whatever else this machine does meets each."""
    names = ("true", "version", "write", "health", "begin", "end")
    plan = [one for number in range(ROUNDS) for one in hooks[number % len(hooks)].planned(*names)]
    found = timed(cluster, plan)
    for name, what in (("true", "/bin/true"), ("version", "gpuyard version: what its start costs"),
                       ("write", "4 KiB written and synced there")):
        board.spread(f"  {what} (p50, p99)", found[name][0])
    for name in ("health", "begin", "end"):
        times, codes = found[name]
        board.spread(f"{name}, {where} (p50, p99)", times, most)
        board.equal("  its exit codes", codes, {0})


def ended_processes(cluster, board, hooks):
    """Jobs whose process was on the GPU until just now, as Slurm ends them. The daemon looks for processes
    now and then: so each GPU has one at once."""
    times = []
    for _ in range(2):
        ends, processes = [], []
        for one in hooks:
            for gpu in range(4):
                begin, end = one.planned("begin", "end", gpu=gpu)
                timed(cluster, [begin])
                process = one.node.popen("sleep", "60")
                one.node.world.attach(gpu, inner_pid(process))
                ends.append(end)
                processes.append(process)
        for one in hooks:
            wait_until(lambda node=one.node: len(node.get("/api/gpu/processes")["processes"]) >= 4,
                       "the daemon to see the processes")
        for process, end in zip(processes, ends):
            process.kill()
            process.wait()
            times += timed(cluster, [end])["end"][0]
    board.spread(f"end, of a job whose process ended just now ({len(times)}: p50, p99)", times)


def inner_pid(process):
    """Returns the pid in the process's own namespace."""
    text = Path(f"/proc/{process.pid}/status").read_text()
    return int(re.search(r"NSpid:.*\s(\d+)", text).group(1))


@contextlib.contextmanager
def hung(node, *gpus):
    """Ends when the daemon has had its answers again."""
    for gpu in gpus:
        node.world.hang(gpu)
    try:
        yield
    finally:
        node.world.heal_all()


@contextlib.contextmanager
def without_socket(node):
    with node.daemon.killed():
        node.enclosure.outside(node.daemon_socket).unlink()
        yield


def faulty(cluster, board, hooks, name, fault):
    with fault:
        names = ("health", "begin", "end")
        found = timed(cluster, [one for _ in range(FAULTY_ROUNDS) for one in hooks.planned(*names)])
    for hook, (times, seen) in found.items():
        board.most(f"{hook}, {name} (max of {FAULTY_ROUNDS})", max(times), 250, "ms", 1)
        board.equal("  its exit codes", seen, {0})


def quarantined(cluster, board, hooks):
    """A GPU that does not answer gets an alert after some seconds: then the check drains, and no job is held."""
    node = hooks.node
    with hung(node, 0):
        wait_until(lambda: node.get("/api/gpu/slurm")["gpus"][0]["rule"], "an alert of the GPU that hangs")
        found = timed(cluster, [one for _ in range(FAULTY_ROUNDS) for one in hooks.planned("health", "begin", "end")])
        for hook, (times, seen) in found.items():
            board.most(f"{hook}, of a GPU in quarantine (max of {FAULTY_ROUNDS})", max(times), 250, "ms", 1)
            board.equal("  its exit codes", seen, {0})
        board.equal("  the node is drained", node.state(), "IDLE+DRAIN")


def speed(board, _):
    board.section(f"hooks on four nodes, {ROUNDS} times each, on {os.cpu_count()} cores; {load()}")
    with Cluster(nodes=4, accounting=False, load="steady:0.5", health_interval=NEVER) as cluster, \
         tempfile.TemporaryDirectory(prefix="gpuyard-slurm-", dir="/var/tmp") as folder:
        for node in cluster.nodes:
            cluster.wait_for_job(cluster.submit("true", gpus=1, on=node.name))
        hooks = [Hooks(node) for node in cluster.nodes]
        healthy(cluster, board, hooks, "state in memory")
        move_to_disk(cluster, folder)
        healthy(cluster, board, hooks, "state on a disk", 20)
        ended_processes(cluster, board, hooks)
        n1, n2, n3, _ = cluster.nodes
        faulty(cluster, board, hooks[0], "the daemon is killed", n1.daemon.killed())
        faulty(cluster, board, hooks[0], "there is no socket", without_socket(n1))
        faulty(cluster, board, hooks[0], "the daemon is stopped", n1.daemon.hanging())
        faulty(cluster, board, hooks[1], "its GPU hangs", hung(n2, 0))
        faulty(cluster, board, hooks[2], "the driver hangs", hung(n3, "all"))
        quarantined(cluster, board, hooks[3])


def load():
    return f"load of this machine {os.getloadavg()[0]:.1f}"


# `gpuyard run` through Slurm.


def run(board, _):
    # Until the command has started, with no job before it: Slurm starts the next one in steps of a second.
    board.section(f"the start of a command on one GPU, {STARTS} times each in turn; {load()}")
    gres = "Name=gpu Type=h100 File={dev}/nvidia[0-3]\n"
    with Cluster(nodes=1, accounting=False, health_interval=NEVER, gres=gres, gres_of_node="gpu:h100:4") as cluster:
        socket = ["env", f"GPUYARD_SOCKET={cluster.nodes[0].daemon_socket}"]
        ours = [cluster.program, "run", "--through", "slurm", "--quiet"]
        ways = {"srun": ["srun", "-N1", "-n1", "--gres=gpu:1"], "run": [*ours, "-n", "1", "--"],
                "run --model": [*ours, "-n", "1", "--model", "H100", "--"]}
        took = {name: [] for name in ways}
        for _ in range(STARTS):
            for name, words in ways.items():
                wait_until(lambda: not cluster.must("squeue", "-h"), "the last job to leave the queue")
                time.sleep(1)
                began = time.time()
                done = cluster.run(*socket, *words, "date", "+%s.%N", user="alice")
                assert done.returncode == 0, done.stderr
                took[name].append(1000 * (float(done.stdout) - began))
    srun = statistics.median(took["srun"])
    board.spread("srun (p50, p99)", took["srun"])
    board.spread("gpuyard run (p50, p99)", took["run"])
    board.most("  beyond srun at p50", statistics.median(took["run"]) - srun, 100, "ms", 0)
    board.spread("gpuyard run --model, which runs sinfo first (p50, p99)", took["run --model"])
    board.plain("  beyond srun at p50", f"{statistics.median(took['run --model']) - srun:.0f} ms")


# Joules.


def joules(board, asked):
    board.section(f"joules of {asked.jobs} random jobs on four nodes, seed {asked.seed}; {load()}")
    with cluster_on_disk(nodes=4, health_interval=INTERVAL, settings=SOON_AGAIN) as cluster:
        judge(board, run_jobs(cluster, asked.jobs, asked.seed))


# A storm.


def storm(board, _):
    board.section(f"a storm of begins, 500 a second for 10 s, of one daemon; {load()}")
    with cluster_on_disk(nodes=4, accounting=False, load="steady:0.5", health_interval=INTERVAL) as cluster:
        storm_of_begins(board, cluster.nodes[0])
        board.section("an array of 64 at once")
        array_at_once(board, cluster)


# The story of a GPU that falls off the bus.


class Story:
    def __init__(self, board, cluster):
        self.board = board
        self.cluster = cluster
        self.node = cluster.nodes[0]

    def _told(self, shown, done):
        print(f"\n$ {shown}\n{done.stdout}{done.stderr}".rstrip(), flush=True)
        self.board.equal(f"  exit code of {shown.split()[0]}", done.returncode, 0)
        return done.stdout

    def slurm(self, *words):
        return self._told(shlex.join(words), self.cluster.run(*words))

    def gpuyard(self, *words):
        return self._told(shlex.join(("gpuyard", *words)), self.node.gpuyard(*words, user="root"))

    def holds(self, what, value):
        self.board.note(what, "yes" if value else "no", bool(value), "yes")


def seconds_until(condition, what):
    began = time.monotonic()
    wait_until(condition, what)
    return time.monotonic() - began


def transcript(board, _):
    board.section(f"the story of a GPU that fell off the bus; health checks each {INTERVAL} s")
    with Cluster(nodes=2, load="steady:0.6", health_interval=INTERVAL) as cluster:
        story, node = Story(board, cluster), cluster.nodes[0]
        job = cluster.submit("sleep 12", "--job-name=train", user="alice", gpus=2, on=node.name)
        cluster.wait_for_job(job, "RUNNING")
        story.slurm("squeue", "-o", "%i %j %u %T %N %b")
        begin = wait_until(lambda: node.hook_runs("begin", job), "its beginning")[0]
        sick = int(begin.environment["SLURM_JOB_GPUS"].split(",")[1])
        time.sleep(2)
        node.world.xid(sick, 79)
        print(f"\n# Xid 79 of GPU {sick}", flush=True)
        board.most("the node is drained after", seconds_until(lambda: "DRAIN" in node.state(), "a drain"),
                   INTERVAL + 1, "s")
        text = story.slurm("sinfo", "-R", "-o", "%.90E %N")
        story.holds("  it names the GPU, the Xid and gpuyard",
                    all(word in text for word in ("gpuyard", f"GPU {sick}", "79", node.name)))
        story.holds("  its whole reason has advice, too", len(node.reason()) > len("gpuyard: GPU 1 Xid 79"))
        print(f"\n# the whole reason: {node.reason()}", flush=True)
        board.equal("the job runs to its end all the same", cluster.wait_for_job(job), "COMPLETED")
        comment = wait_until(lambda: cluster.account(job, "AdminComment")[0], "a comment of the job")
        rows = json.loads(node.must("usage", "--by", "slurm-job", "--json", user="root"))["rows"]
        story.gpuyard("usage", "--by", "slurm-job")
        mine = [row for row in rows if row["key"] == str(job)]
        board.equal("  rows of the job", len(mine), 1)
        said = float(comment.split("joules: ")[1].split(",")[0])
        used = mine[0]["energy_kwh"] * 3.6e6
        board.equal("  its joules are those of its AdminComment", f"{said:.1f}", f"{used:.1f}")
        story.slurm("sacct", "-X", "-o", "JobID,State,AdminComment%110")
        resumed(story, node)


def resumed(story, node):
    alerts = json.loads(node.must("alerts", "--json", user="root"))["alerts"]
    story.gpuyard("alerts")
    number = str([one["number"] for one in alerts if one["rule"].startswith("xid")][0])
    story.gpuyard("alerts", "ack", number, "--note", "reset, watched")
    story.board.most("acknowledged: the node is resumed after",
                     seconds_until(lambda: node.state() == "IDLE", "the node to be resumed"), INTERVAL + 1, "s")
    story.slurm("sinfo", "-N", "-o", "%N %T %E")


SUITES = {"speed": speed, "run": run, "joules": joules, "storm": storm, "transcript": transcript}


def main():
    parser = argparse.ArgumentParser(prog="./yard fleet-test slurm")
    parser.add_argument("--jobs", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", choices=sorted(SUITES))
    asked = parser.parse_args()
    board, began = HookBoard(), time.monotonic()
    for name, suite in SUITES.items():
        if asked.only in (None, name):
            suite(board, asked)
    print(f"\n{(time.monotonic() - began) / 60:.1f} minutes")
    if board.missed:
        sys.exit(f"fleet-test: {len(board.missed)} missed: {', '.join(board.missed)}")
    print("fleet-test: every bar was kept")


if __name__ == "__main__":
    main()
