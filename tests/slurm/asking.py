"""Runs hooks and jobs on a node for tests, and queries its daemon about them."""

import contextlib

from program import wait_until
from slurm_conf import HOOK_FOLDER

NEVER = 3600  # a HealthCheckInterval: a test runs each check itself
BY_HAND = {"BY_HAND": "yes"}  # in the environment of a hook that Slurm has not started


# Hooks.

def environment(node, job=None, gpus=None, uid=1000, user="alice"):
    """The environment that Slurm gives to a hook, as far as it matters; `gpus` as in SLURM_JOB_GPUS."""
    of_job = {} if job is None else {"SLURM_JOB_ID": str(job), "SLURM_JOB_UID": str(uid),
                                     "SLURM_JOB_USER": user, "SLURM_CONF": "/etc/slurm/slurm.conf"}
    return BY_HAND | {"SLURMD_NODENAME": node.name} | of_job | ({} if gpus is None else {"SLURM_JOB_GPUS": gpus})


def start_hook(node, name, *job, **options):
    """Runs "health", "begin" or "end" there as slurmd would: start_hook(node, "begin", 17, "0,1")."""
    return node.enclosure.popen(f"{HOOK_FOLDER}/run-{name}", net=node.name,
                                env=environment(node, *job, **options))


def run_hook(node, name, *job, **options):
    """Runs the hook and returns its result; no other hook may run for that job."""
    start_hook(node, name, *job, **options).wait()
    return node.hook_runs(name, job[0] if job else None)[-1]


def check(node):
    """One more health check."""
    return run_hook(node, "health")


def check_until(node, reached, what):
    """Health checks until it is so."""
    def checked():
        check(node)
        return reached()
    return wait_until(checked, what, every=0.2)


def verb(cluster, name, before=""):
    """The commands of a hook that runs the program's verb; `before` is what the shell does first."""
    place = "/run/slurm/$SLURMD_NODENAME"
    return (f'{before}\nexec {cluster.program} slurm {name} --socket "{place}/gpuyard.sock" '
            f'--spool "{place}/spool"')


def spooled(node):
    """The notes that wait for the daemon."""
    folder = node.enclosure.outside(node.spool)
    return sorted(file.name for file in folder.glob("*-*")) if folder.exists() else []


# Jobs.

def over(node, name, job):
    """The last run of that hook of the job, once one has ended."""
    return wait_until(lambda: [run for run in node.hook_runs(name, job) if run.status is not None],
                      f"{name} of job {job}")[-1]


def begun(node, job):
    return over(node, "begin", job)


def ended(node, job):
    return over(node, "end", job)


STAYS = "echo started; exec sleep 1000"  # the command of a job that is there until it is cancelled


def started(cluster, job):
    """Waits until its program runs, and returns the first thing that it prints: Slurm takes half a minute to
    end a job that is cancelled between its prolog and that."""
    def text():
        with contextlib.suppress(FileNotFoundError):
            return cluster.output(job).strip()
        return ""
    return wait_until(text, lambda: f"job {job} to print something: {cluster.job(job)}")


@contextlib.contextmanager
def running(node, gpus=1, command=STAYS, **options):
    """A job there whose program runs, and prints; cancelled in the end."""
    cluster = node.cluster
    job = cluster.submit(command, gpus=gpus, on=node.name, **options)
    try:
        started(cluster, job)
        yield job
    finally:
        cancel(cluster, job)


def cancel(cluster, *jobs):
    for job in jobs:
        cluster.cancel(job)
    for job in jobs:
        cluster.wait_for_job(job)


def done(node, gpus=1, **options):
    """A job there that is over."""
    job = node.cluster.submit("true", gpus=gpus, on=node.name, **options)
    node.cluster.wait_for_job(job)
    return job


# Queries to the daemon.

def lease_of(node, job):
    """The lease of the job's last run; None without one."""
    return node.get(f"/api/gpu/slurm/jobs/{job}").get("lease")


def state_of(node, job):
    return lease_of(node, job)["state"]


def lease_is_over(node, job):
    """Waits for it; an epilog does not, where a driver is slow. Returns how it ended."""
    wait_until(lambda: state_of(node, job) == "ended", lambda: f"a lease to be over: {lease_of(node, job)}")
    return lease_of(node, job)["ending"]


def gpus_of(node, job):
    return [gpu["index"] for gpu in lease_of(node, job)["gpus"]]


def joules_of(node, job):
    """The energy of the lease until now; a daemon that has just started may not know it yet."""
    use = wait_until(lambda: lease_of(node, job)["use"], f"the use of job {job}")
    return (use["energy_mj"] or 0) / 1000


def uses_joules(node, job, more_than=100):
    wait_until(lambda: joules_of(node, job) > more_than, f"job {job} to use {more_than} J")


def known_jobs(node):
    """The GPUs of each job that has, or has left something on, a GPU there."""
    return {int(one["job"]): one["gpus"] for one in node.get("/api/gpu/slurm")["jobs"]}


def sick_gpus(node):
    return [gpu["index"] for gpu in node.get("/api/gpu/slurm")["gpus"] if gpu["rule"]]


def make_sick(node, gpu):
    """With an Xid: until the alert is acknowledged."""
    node.world.xid(gpu, 79)
    wait_until(lambda: gpu in sick_gpus(node), f"GPU {gpu} to be in quarantine")


def acknowledge(node):
    """Ends all quarantine there."""
    for alert in node.get("/api/gpu/alerts")["alerts"]:
        if alert["quarantines"]:
            node.must("alerts", "ack", str(alert["number"]), user="root")
    wait_until(lambda: not sick_gpus(node), "no GPU to be in quarantine")


def firing(node, rule):
    return [alert for alert in node.get("/api/gpu/alerts")["alerts"] if alert["rule"] == rule]


def trouble(node):
    return node.get("/api/gpu/slurm")["trouble"]


def put_right(cluster):
    """Removes what a failed test may have left: jobs, GPUs in quarantine, drains."""
    cluster.must("scancel", "--partition=main")
    for node in cluster.nodes:
        acknowledge(node)
        if node.state() == "IDLE" and not known_jobs(node):
            continue
        if not (node.reason() or "gpuyard: ").startswith("gpuyard: "):
            node.resume()
        check_until(node, lambda node=node: node.state() == "IDLE" and not known_jobs(node),
                    lambda node=node: f"{node.name} to be as it was: {node.state()}, {known_jobs(node)}")


# Queries to Slurm.

def drained(node):
    return "DRAIN" in node.state()


def held_by_slurm(cluster, job):
    return cluster.job(job)["Reason"] == "launch_failed_requeued_held"
