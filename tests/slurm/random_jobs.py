"""Whether the joules of jobs are true: random jobs on the nodes of a cluster, held to what the simulated
GPUs themselves have counted.
"""

import bisect
import collections
import contextlib
import dataclasses
import json
import random
import re
import signal
import statistics
import time

from program import PATIENCE, wait_until
from slurm_conf import CONTROLLER

RATE = 8  # submissions a second, at most
WAITING = 24  # jobs that wait or run, at most
LOOK = 0.4  # seconds from one reading of the queue to the next
NEW_LOAD = 4  # seconds from one change of a GPU's load to the next
SAMPLES = 0.4  # seconds from one reading of a world to the next
LONG = 1  # seconds that a run lasts at least which is held to its GPUs' counter
OVER = ("COMPLETED", "CANCELLED", "FAILED", "TIMEOUT")
JOULES_OF_KWH = 3.6e6
# Slurm starts a job that was requeued when its credentials have expired, by default after 2 minutes. If it
# is made to start earlier, on the same node, its prolog does not run there.
SOON_AGAIN = {"AuthInfo": "cred_expire=10"}

# Reads all worlds in turn. A line is a world's name, the time, the world's own time, and joules by GPU.
SAMPLE = """
import json, os, subprocess, sys, time
program, place, period, names = sys.argv[1], sys.argv[2], float(sys.argv[3]), sys.argv[4:]
while True:
    began = time.time()
    for name in names:
        text = subprocess.run([program, "sim", "status", "--json"], capture_output=True, check=True,
                              env={"GPUYARD_SIM_WORLD": f"{place}/{name}/world"}).stdout
        world = json.loads(text)
        joules = [gpu["energy_joules"] for gpu in world["gpus"]]
        print(json.dumps((name, time.time(), world["time"]["elapsed_s"], joules)), flush=True)
    time.sleep(max(0, period - (time.time() - began)))
"""


class Counters:
    """The counter of each GPU at any time of a run: joules(node, gpu, begin, end)."""

    def __init__(self, cluster):
        self._samples = {node.name: [] for node in cluster.nodes}
        place = cluster.nodes[0].place.rsplit("/", 1)[0]
        self._path = cluster.enclosure.outside(f"{place}/samples")
        with open(self._path, "w", encoding="utf-8") as file:
            self._process = cluster.enclosure.popen(
                "/usr/bin/python3", "-ISc", SAMPLE, cluster.program, place, str(SAMPLES), *self._samples,
                net=CONTROLLER, env={}, stdout=file)

    def end(self):
        self._process.send_signal(signal.SIGTERM)
        self._process.wait(PATIENCE)
        for line in self._path.read_text().splitlines():
            with contextlib.suppress(ValueError):  # the last one may be half
                name, when, elapsed, joules = json.loads(line)
                self._samples[name].append((when, elapsed, joules))
        for name, samples in self._samples.items():
            # A world's own time is exact; reading it takes a while, at best next to nothing.
            began = min(when - elapsed for when, elapsed, _ in samples)
            self._samples[name] = [(began + elapsed, joules) for _, elapsed, joules in samples]

    def _at(self, node, gpu, when):
        samples = self._samples[node]
        at = min(max(bisect.bisect(samples, when, key=lambda sample: sample[0]), 1), len(samples) - 1)
        (begin, low), (end, high) = samples[at - 1], samples[at]
        return low[gpu] + (high[gpu] - low[gpu]) * (when - begin) / (end - begin)

    def joules(self, node, gpu, begin, end):
        return self._at(node, gpu, end) - self._at(node, gpu, begin)


@dataclasses.dataclass
class Fate:
    """The action on a job or a task of an array, after a number of readings in a state."""
    verb: str = ""
    state: str = "RUNNING"
    looks: int = 0


class RandomJobs:
    """Submits jobs, and does to them what users and administrators do."""

    def __init__(self, cluster, count, seed):
        self.cluster = cluster
        self.count = count
        self.random = random.Random(seed)
        self.fates = {}  # by what squeue calls it
        self.kinds = collections.Counter()
        self.new_load_at = 0

    def run(self):
        """Until all of them are over."""
        submitted, next_at, look_at, queue = 0, 0, 0, {}
        while submitted < self.count or queue:
            if time.monotonic() >= look_at:
                queue = self._queue()
                self._act(queue)
                look_at = time.monotonic() + LOOK
            self._change_load()
            if submitted < self.count and len(queue) < WAITING and time.monotonic() >= next_at:
                tasks = self._submit(self.count - submitted)
                submitted += len(tasks)
                queue |= dict.fromkeys(tasks, "PENDING")
                next_at = time.monotonic() + 1 / RATE
                if submitted // 100 > (submitted - len(tasks)) // 100:
                    print(f"        {submitted} submitted", flush=True)
            else:
                time.sleep(0.03)

    def _queue(self):
        text = self.cluster.must("squeue", "-h", "-r", "-o", "%i|%T")
        return dict(line.split("|") for line in text.splitlines())

    def _submit(self, most):
        chance = self.random.random
        tasks = min(self.random.randint(2, 4), most) if chance() < 0.08 else 1
        nodes = 2 if chance() < 0.1 else 1
        gpus = self.random.choice((1, 1, 1, 2, 2, 3, 4)) if nodes == 1 else self.random.choice((1, 2))
        seconds = self.random.uniform(0.5, 4)
        options = ["--nodes", str(nodes)] + ([f"--array=0-{tasks - 1}"] if tasks > 1 else [])
        job = self.cluster.submit(f"sleep {seconds:.2f}", *options, gpus=gpus,
                                  user=self.random.choice(("alice", "bob")))
        names = [f"{job}_{task}" for task in range(tasks)] if tasks > 1 else [str(job)]
        self.kinds.update(tasks=len(names), **{"arrays": tasks > 1, "with two nodes": nodes == 2})
        for name in names:
            self.fates[name] = self._fate()
        return names

    def _fate(self):
        dice = self.random.random()
        if dice < 0.1:
            return Fate("requeue", looks=self.random.randint(1, 3))
        if dice < 0.2:
            state = self.random.choice(("PENDING", "RUNNING", "RUNNING"))
            return Fate("cancel", state, self.random.randint(1, 3))
        return Fate()

    def _act(self, queue):
        for name, state in queue.items():
            fate = self.fates[name]
            if not fate.verb or state != fate.state:
                continue
            fate.looks -= 1
            if fate.looks == 0:
                self._do(fate.verb, name, state)

    def _do(self, verb, name, state):
        words = ("scontrol", "requeue", name) if verb == "requeue" else ("scancel", name)
        if self.cluster.run(*words).returncode != 0:
            return  # it is over already
        self.kinds["requeued" if verb == "requeue" else f"cancelled while {state.lower()}"] += 1

    def _change_load(self):
        if time.monotonic() < self.new_load_at:
            return
        node = self.random.choice(self.cluster.nodes)
        node.world.load(self.random.randrange(4), f"steady:{self.random.uniform(0.05, 1):.2f}")
        self.new_load_at = time.monotonic() + NEW_LOAD


@dataclasses.dataclass
class Account:
    """A node's accounted energy, and the total of its GPUs' counters."""
    rows: dict  # by key
    unleased: float
    counted: float

    @property
    def told(self):
        return sum(row["energy_kwh"] for row in self.rows.values()) * JOULES_OF_KWH + self.unleased


def usage(node, by):
    return json.loads(node.must("usage", "--by", by, "--json", user="root"))


def joules_read(node):
    return [float(gpu["joules"]) for gpu in node.get("/api/gpu/energy")["gpus"]]


def account(node, by):
    """Reads the account just after a reading of all GPUs, which it includes."""
    wait_until(lambda: usage(node, by)["unleased"]["energy_kwh"], f"{node.name} to count")
    before = joules_read(node)
    wait_until(lambda: all(map(float.__lt__, before, joules_read(node))),
               f"a reading of {node.name}", every=0.005)
    counted = sum(gpu["energy_joules"] for gpu in node.world.status()["gpus"])
    told = usage(node, by)
    assert told["rows_left_out"] == 0 and not told["notes"], told["notes"]
    rows = {row["key"]: row for row in told["rows"]}
    assert len(rows) == len(told["rows"]), "a job has several rows"
    return Account(rows, told["unleased"]["energy_kwh"] * JOULES_OF_KWH, counted)


@dataclasses.dataclass
class Results:
    cluster: object
    kinds: dict
    seconds: float
    before: dict  # Accounts by the node's name
    after: dict
    leases: dict  # Accounts by lease
    counters: Counters


def run_jobs(cluster, count, seed):
    for number, node in enumerate(cluster.nodes):
        for gpu in range(4):
            node.world.load(gpu, f"steady:{0.1 + 0.2 * number + 0.05 * gpu:.2f}")
    counters = Counters(cluster)
    before = {node.name: account(node, "slurm-job") for node in cluster.nodes}
    jobs, began = RandomJobs(cluster, count, seed), time.monotonic()
    jobs.run()
    seconds = time.monotonic() - began
    wait_until(lambda: all(run.status is not None for run in cluster.hook_runs()),
               "the controller's hooks to end", every=0.5)
    time.sleep(2 * SAMPLES + 1)
    after = {node.name: account(node, "slurm-job") for node in cluster.nodes}
    leases = {node.name: account(node, "lease") for node in cluster.nodes}
    counters.end()
    return Results(cluster, jobs.kinds, seconds, before, after, leases, counters)


# The results of the jobs.


@dataclasses.dataclass
class Run:
    """A lease of a job: one of its runs on one node."""
    node: str
    job: int
    restart: int
    begin: float
    gpus: list
    held: float
    joules: float
    uid: int


def runs_of(results, node, begins):
    """The leases of jobs there, each with the GPUs that Slurm gave to the hook that began it."""
    found = []
    for key, row in results.leases[node.name].rows.items():
        named = re.fullmatch(r"slurm-(\d+)-([0-9a-f]+)", key)
        if not named:
            continue
        job, begin = int(named[1]), int(named[2], 16) / 1000
        hooks = [run for run in begins if run.job == job and run.start <= begin <= run.start + run.seconds]
        assert len(hooks) == 1, f"{node.name}: {key} was begun by {hooks}"
        told = hooks[0].environment
        gpus = [int(gpu) for gpu in told["SLURM_JOB_GPUS"].split(",")]
        found.append(Run(node.name, job, int(told["SLURM_JOB_RESTART_COUNT"]), begin, gpus,
                         held=row["gpu_hours"] * 3600 / len(gpus), joules=row["energy_kwh"] * JOULES_OF_KWH,
                         uid=row["uid"]))
    return found


def judge(board, results):
    tasks, seconds = results.kinds["tasks"], results.seconds
    print("        " + ", ".join(f"{number} {kind}" for kind, number in results.kinds.items()), flush=True)
    board.plain("the jobs took", f"{seconds:.0f} s, {tasks / seconds:.1f} a second")
    runs, hooks, differences = [], [], []
    for node in results.cluster.nodes:
        differences.append(judge_sum(board, results, node))
        hooks += node.hook_runs()
        begins = node.hook_runs("begin")
        mine = runs_of(results, node, begins)
        judge_rows(board, results, node, begins, mine)
        runs += mine
    board.most("the sums of all nodes differ by at most", max(differences), 1, "%", 4)
    judge_hooks(board, hooks)
    judge_runs(board, results, runs)
    judge_comments(board, results, runs)


def judge_sum(board, results, node):
    before, after = results.before[node.name], results.after[node.name]
    told, counted = after.told - before.told, after.counted - before.counted
    leased = sum(row["energy_kwh"] for row in after.rows.values()) * JOULES_OF_KWH
    differs = 100 * abs(told - counted) / counted
    board.plain(f"{node.name}: jobs' joules", f"{leased:.0f} J")
    board.plain("  nobody's", f"{after.unleased - before.unleased:.0f} J")
    board.plain("  the GPUs' counters", f"{counted:.0f} J")
    board.most("  the sum differs by", differs, 1, "%", 4)
    return differs


def judge_rows(board, results, node, begins, runs):
    """Each job whose prolog has run has a row, with as many leases as it had prologs."""
    prologs = collections.Counter(run.job for run in begins)
    rows = {int(key): row for key, row in results.after[node.name].rows.items() if key}
    board.plain("  jobs that ran there", str(len(prologs)))
    board.equal("  of those without a row", len(prologs.keys() - rows.keys()), 0)
    board.equal("  rows of no job", len(rows.keys() - prologs.keys()), 0)
    board.equal("  with fewer or more leases than runs",
                sum(rows[job]["leases"] != count for job, count in prologs.items() if job in rows), 0)
    users = {run.job: int(run.environment["SLURM_JOB_UID"]) for run in begins}
    board.equal("  of another user", sum(run.uid != users[run.job] for run in runs), 0)
    board.equal("  leases left", len(node.get("/api/gpu/leases")["leases"]), 0)
    board.equal("  its state", (node.state(), node.reason()), ("IDLE", None))


def judge_hooks(board, hooks):
    for name in ("health", "begin", "end"):
        mine = [run for run in hooks if run.name == name]
        board.equal(f"{name}: exit codes of {len(mine)}", {run.status for run in mine}, {0})
        board.spread("  within the rig's shell (p50, p99)",
                     [1000 * run.seconds for run in mine if run.seconds is not None])
        told = [run.err.strip() for run in mine if run.err]
        board.plain("  that said something", str(len(told)))
        for text in told[:5]:
            print(f"        {text[:200]}", flush=True)


def judge_runs(board, results, runs):
    """Each run that is no shorter than LONG, held to its GPUs' counters over the time of its lease."""
    differences = []
    for run in runs:
        if run.held < LONG:
            continue
        end = run.begin + run.held
        counted = sum(results.counters.joules(run.node, gpu, run.begin, end) for gpu in run.gpus)
        differences.append((100 * abs(run.joules - counted) / counted, run, counted))
    board.least(f"runs of {LONG} s or more held to their GPUs' counters", len(differences),
                min(50, results.kinds["tasks"] // 4))
    if not differences:
        return
    percents = [one[0] for one in differences]
    board.equal("  that differ by more than 5 %", sum(one > 5 for one in percents), 0)
    board.plain("  they differ by (median)", f"{statistics.median(percents):.2f} %")
    percent, run, counted = max(differences, key=lambda one: one[0])
    board.plain("  (most)", f"{percent:.2f} %")
    print(f"        job {run.job} on {run.node}: {run.joules:.1f} J in {run.held:.3f} s, not {counted:.1f} J",
          flush=True)


def accounted(cluster):
    """The last run of each job, as sacct has it: (number, state, comment)."""
    text = cluster.must("sacct", "-a", "-X", "-n", "-P", "--delimiter=\t", "-S", "00:00",
                        "-o", "JobIDRaw,State,AdminComment")
    return [line.split("\t") for line in text.splitlines()]


def judge_comments(board, results, runs):
    """The comment of a job has the energy of its last run on all its nodes."""
    newest = {run.job: run.restart for run in sorted(runs, key=lambda one: one.restart)}
    last = collections.defaultdict(list)
    for run in runs:
        if run.restart == newest[run.job]:
            last[run.job].append(run)
    asked = [(int(job), comment) for job, state, comment in accounted(results.cluster)
             if state.split(" ")[0] in OVER and int(job) in last]
    missing, other = [], []
    for job, comment in asked:
        said = re.match(r"\{gpuyard: \{joules: ([\d.]+), gpus: (\d+)", comment)
        if not said:
            missing.append(job)
            continue
        wanted = sum(run.joules for run in last[job]), sum(len(run.gpus) for run in last[job])
        if abs(float(said[1]) - wanted[0]) > 0.2 or int(said[2]) != wanted[1]:
            other.append((job, comment, wanted))
    board.equal("jobs that sacct has as over", len(asked), len(last))
    board.equal("  without an AdminComment", len(missing), 0)
    board.equal("  whose AdminComment says otherwise than the rows", len(other), 0)
    for job in missing[:5]:
        said = [f"task {run.environment.get('SLURM_ARRAY_TASK_ID')}, after {run.seconds:.1f} s: "
                f"{run.err.strip()[-200:]}" for run in results.cluster.hook_runs(job)]
        held = max(run.held for run in last[job])
        print(f"        job {job}, {held:.2f} s long: {said}", flush=True)
    for job, comment, wanted in other[:5]:
        print(f"        job {job}: {comment}, not {wanted[0]:.1f} J of {wanted[1]} GPUs", flush=True)
        for run in sorted((run for run in runs if run.job == job), key=lambda one: one.begin):
            print(f"            {run.begin:.3f} {run.node} {run.gpus} {run.held:.3f} s {run.joules:.1f} J")
        for run in results.cluster.hook_runs(job):
            print(f"            {run.start:.3f} epilog-ctld of {run.environment['SLURM_JOB_NODELIST']}, "
                  f"{run.seconds:.3f} s {run.err.strip()}", flush=True)
