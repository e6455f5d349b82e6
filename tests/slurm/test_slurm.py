"""gpuyard beside Slurm as it is meant to work: a node with a sick GPU is drained and resumed, jobs know
their joules, and leases only observe."""

import json
import re
import time

import pytest

import proofs
from asking import (BY_HAND, STAYS, acknowledge, begun, check, check_until, done, drained, gpus_of,
                    joules_of, lease_is_over, lease_of, make_sick, put_right, running, sick_gpus, started, state_of,
                    uses_joules)
from hooks import own_hooks
from program import wait_until
from rig import Cluster
from slurm_conf import HOOK_FOLDER, HOOKS, PLACE

INTERVAL = 5  # seconds from one health check to the next
# Alerts in less time than a node would wait for them.
RULES = "[rule.gpu-lost]\nclear_hold_s = 1\n[rule.squatter]\nhold_s = 1\n"
COMMENT = (r"\{gpuyard: \{joules: ([\d.]+), gpus: (\d+), mean_utilization_percent: [\d.]+, "
           r"peak_memory_bytes: \d+\}\}")
XID = ("gpuyard: GPU 1: Xid 79. The GPU has fallen off the bus. Work on it has failed or will fail: stop it, "
       "reset the GPU, and start again. (3 of 4 GPUs are healthy)")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    rules = tmp_path_factory.mktemp("slurm") / "rules.toml"
    rules.write_text(RULES, encoding="utf-8")
    with Cluster(nodes=2, gpus=4, accounting=True, health_interval=INTERVAL,
                 daemon_config=f'[alerts]\nfile = "{rules}"\n') as one:
        proofs.record("Slurm", "ran")
        yield one


@pytest.fixture(autouse=True)
def as_it_was(cluster):
    yield
    put_right(cluster)


def checks(node, since):
    """The health checks that Slurm has begun since then, and that are over."""
    return [run for run in node.hook_runs("health")
            if run.start >= since and run.status is not None and not BY_HAND.items() <= run.environment.items()]


def next_check(nodes, since):
    """Waits until each of them has begun one since then; returns when the last of those was over."""
    runs = [wait_until(lambda node=node: checks(node, since), f"a health check of {node.name}")[0]
            for node in nodes]
    return max(run.start + run.seconds for run in runs)


# Joules.


def usage(node, by):
    """Joules by job or lease; the key "" has the energy outside leases."""
    answer = json.loads(node.must("usage", "--by", by, "--json"))
    return answer["rows"], {row["key"]: 3.6e6 * row["energy_kwh"] for row in [*answer["rows"], answer["unleased"]]}


def counted(nodes):
    """For each node the count of its GPUs, and its excess over the energy of all jobs and outside
    jobs. The daemon reads a GPU once a second: the least of some differences is the one right after that."""
    totals, differences = [0] * len(nodes), [[] for _ in nodes]
    seen = [set() for _ in nodes]

    def look():
        for at, node in enumerate(nodes):
            used = sum(usage(node, "slurm-job")[1].values())
            totals[at] = sum(gpu["energy_joules"] for gpu in node.world.status()["gpus"])
            differences[at].append(totals[at] - used)
            seen[at].add(used)
        return all(len(values) > 3 for values in seen)
    wait_until(look, "three readings of all GPUs")
    return list(zip(totals, map(min, differences)))


def set_load(nodes, load):
    for node in nodes:
        node.world.load("all", load)


def run_jobs(cluster):
    """Jobs that share two nodes. Returns their numbers, and the one that ran twice: on n1, then on n2."""
    alone = cluster.submit("sleep 3", gpus=1, user="bob", on="n1")
    again = cluster.submit("echo started; [ $SLURM_RESTART_COUNT ] || sleep 1000; sleep 1", gpus=1, on="n1")
    both = cluster.submit("sleep 2", gpus=1, on="n1,n2")
    array = cluster.submit("sleep 2", "--array=0-1", gpus=2)
    stopped = cluster.submit(STAYS, gpus=1, on="n2", user="bob")
    for job, node in ((again, cluster.nodes[0]), (stopped, cluster.nodes[1])):
        started(cluster, job)
        uses_joules(node, job)
    cluster.must("scontrol", "requeue", str(again))
    cluster.wait_for_job(again, "PENDING")
    # On the same node, so soon, slurmd might take it for the first run and leave its prolog out.
    cluster.must("scontrol", "update", f"job={again}", "ReqNodeList=n2")
    cluster.release(again)
    cluster.cancel(stopped)
    tasks = [int(raw) for raw in cluster.must("squeue", "-h", "-t", "all", "-j", str(array), "-o", "%A").split()]
    jobs = {alone, again, both, stopped, *tasks}
    for job in jobs:
        cluster.wait_for_job(job)
    assert len(jobs) == 6
    return jobs, again


def comments(cluster):
    """The AdminComment of the last run of each job: (joules, GPUs)."""
    lines = cluster.must("sacct", "-X", "-n", "-P", "-o", "JobIDRaw,AdminComment").splitlines()
    found = {int(line.split("|")[0]): re.fullmatch(COMMENT, line.split("|")[1]) for line in lines}
    return {job: (float(said[1]), int(said[2])) for job, said in found.items() if said}


def last_runs(nodes, job):
    """The same, from the leases of these nodes."""
    runs = [(usage(node, "lease")[1], lease_of(node, job)) for node in nodes]
    return (round(sum(joules[lease["id"]] for joules, lease in runs if lease), 1),
            sum(len(lease["gpus"]) for _, lease in runs if lease))


def test_job_and_unassigned_energy_add_up_to_counters(cluster, record_property):
    record_property("contract", "S2")
    before = counted(cluster.nodes)
    set_load(cluster.nodes, "steady:0.9:100M")
    jobs, again = run_jobs(cluster)
    set_load(cluster.nodes, "idle")
    wait_until(lambda: comments(cluster).keys() == jobs,
               lambda: f"the AdminComment of {jobs}: {comments(cluster)}", every=0.2)
    for (total, difference), (total_then, difference_then) in zip(before, counted(cluster.nodes)):
        assert total_then - total > 10000
        assert abs(difference_then - difference) < 0.01 * (total_then - total)

    rows = [row for node in cluster.nodes for row in usage(node, "slurm-job")[0]]
    assert {int(row["key"]) for row in rows} == jobs
    assert all(row["energy_kwh"] > 0 and row["energy_unknown_gpu_hours"] < 0.01 * row["gpu_hours"] for row in rows), rows
    assert [row["leases"] for row in rows if row["key"] == str(again)] == [1, 1]
    assert cluster.must("sacct", "-X", "-n", "-D", "-P", "-o", "State", "-j", str(again)).split() == [
        "REQUEUED", "COMPLETED"]
    for job, (joules, gpus) in comments(cluster).items():
        used, had = last_runs(cluster.nodes[1:] if job == again else cluster.nodes, job)
        assert abs(joules - used) < 0.2 and gpus == had


def test_partly_counted_job_says_so(cluster, record_property):
    record_property("contract", "S2")
    node = cluster.nodes[0]
    with running(node) as job:
        uses_joules(node, job)
        gpu, before = gpus_of(node, job)[0], joules_of(node, job)
        with node.daemon.away():
            then = node.world.gpu(gpu)["energy_joules"]
            wait_until(lambda: node.world.gpu(gpu)["energy_joules"] > then + 100, "the GPU to use 100 J")
        assert joules_of(node, job) >= before
        uses_joules(node, job, before + 50)
    use = lease_of(node, job)["use"]
    assert use["settled"] and use["energy_unknown_s"] > 1
    assert cluster.account(job, "AdminComment")[0].endswith(", incomplete: true}}")


# Drained and resumed.


def test_node_with_lost_gpu_is_drained_and_resumed(cluster, record_property):
    record_property("contract", "S1")
    n1, n2 = cluster.nodes
    n2.drain("new fan")
    with running(n1, user="bob") as other:
        # The next check is far enough away for the daemon to see it before.
        wait_until(lambda: all(checks(node, time.time() - INTERVAL / 2) for node in cluster.nodes), "checks")
        broken = time.time()
        n1.world.xid(1, 79)
        n2.world.xid(1, 79)
        checked = next_check(cluster.nodes, broken)
        assert drained(n1) and n1.reason() == XID
        assert checked - broken < INTERVAL + 2  # a second more than promised: Slurm's clock is no finer
        assert cluster.job(other)["JobState"] == "RUNNING"
        assert drained(n2) and n2.reason() == "new fan"
        assert XID in cluster.must("sinfo", "-R", "-h", "-o", "%E")

        for node in cluster.nodes:
            acknowledge(node)
        next_check(cluster.nodes, time.time())
        assert not drained(n1) and n1.reason() is None
        assert drained(n2) and n2.reason() == "new fan"
        assert cluster.job(other)["JobState"] == "RUNNING"
    n2.resume()


def test_node_is_resumed_after_gpu_recovers(cluster, record_property):
    record_property("contract", "S1")
    n1, n2 = cluster.nodes
    for node in cluster.nodes:
        node.world.lose(2)
    for node in cluster.nodes:
        check_until(node, lambda node=node: drained(node), f"{node.name} to be drained")
        assert node.reason() == ("gpuyard: GPU 2 is lost: the driver can no longer reach it. Stop the processes that "
                                 "used it, then reset the GPU or reboot the machine; if it happens again, "
                                 "replace it. (3 of 4 GPUs are healthy)")
    n2.drain("it is ours now")
    for node in cluster.nodes:
        node.world.heal(2)
    check_until(n1, lambda: not drained(n1), "n1 to be resumed")
    check_until(n2, lambda: not sick_gpus(n2), "the GPU of n2 to be well")
    check(n2)
    assert drained(n2) and n2.reason() == "it is ours now"
    n2.resume()


# Leases.


def test_leases_only_observe(cluster, record_property):
    record_property("contract", "S4")
    node = cluster.nodes[1]
    for words in (("run", "--", "true"), ("lease", "take", "--for", "1h", "--no-wait")):
        refused = node.gpuyard(*words)
        assert refused.returncode == 7 and "Slurm allocates the GPUs" in refused.stderr, words
        assert "gpuyard run -n 1 --through slurm" in refused.stderr
    # A process on a GPU outside its job is not an unleased process before half a minute has passed.
    with running(node, gpus=0, command="echo $$; exec sleep 1000", user="bob") as job:
        pid = int(started(cluster, job))
        node.world.attach(3, pid)
        wait_until(lambda: str(pid) in node.must("processes"), "the daemon to see the process")
        seen = node.get("/api/gpu/snapshot")["generation"]
        wait_until(lambda: node.get("/api/gpu/snapshot")["generation"] > seen + 1, "more readings")
        alerts = node.get("/api/gpu/alerts")
        assert "squatter" not in {one["rule"] for one in alerts["alerts"] + alerts["pending"]}
        assert str(pid) not in node.must("queue")
        assert lease_of(node, job) is None


def test_status_shows_gpus_and_jobs(cluster):
    node = cluster.nodes[0]
    make_sick(node, 3)
    with running(node, gpus=2, user="bob") as job:
        shown = node.must("slurm", "status")
        assert re.search(r"^ +1 +/dev/nvidia1 +ok$", shown, re.MULTILINE)
        assert re.search(r"^ +3 +/dev/nvidia3 +quarantined +GPU 3: Xid 79\. The GPU has fallen off the bus\.$", shown,
                         re.MULTILINE)
        assert re.search(rf"^{job} +bob +0,1 +held$", shown, re.MULTILINE)
        assert "Slurm allocates the GPUs; gpuyard only observes." in shown
        said = json.loads(node.must("slurm", "status", "--json"))
        assert [(one["job"], one["user"], one["gpus"]) for one in said["jobs"]] == [(str(job), "bob", [0, 1])]
        assert [one["rule"] for one in said["gpus"]] == [None, None, None, "xid-fatal"]
        assert said["observes"] and said["trouble"] == ""
    acknowledge(node)
    check_until(node, lambda: not drained(node), "the node to be resumed")


# Setting it up.


def lines_of(done):
    """The verdict of `gpuyard slurm install` on each line of slurm.conf: "ok", or the reason."""
    return dict(re.findall(r"^  (\w+)=\S+ +(.+)$", done.stdout, re.MULTILINE))


def test_install_writes_working_hooks_and_checks_slurm_configuration(cluster):
    node, site = cluster.nodes[0], f"{PLACE}/site"
    scripts = dict(zip(HOOKS, ("health", "prolog", "epilog", "epilog-slurmctld")))
    usual = {name: f"{HOOK_FOLDER}/run-{hook}" for name, hook in HOOKS.items()}
    before = node.gpuyard("slurm", "install", "--into", site, user="root")
    assert before.returncode == 1, before
    said = lines_of(before)
    assert said.pop("HealthCheckInterval") == said.pop("PrologFlags") == "ok"
    # run-health calls a script that has our hook's name and runs gpuyard.
    assert said.pop("HealthCheckProgram") == "ok"
    for name, what in said.items():
        hook = {"begin": "prolog", "end": "epilog"}.get(HOOKS[name], HOOKS[name])
        assert what.startswith(f"is {usual[name]}, which does not run `gpuyard slurm {hook}`"), said
    folder = cluster.enclosure.outside(site)
    assert sorted(file.name for file in folder.iterdir()) == sorted(scripts.values())
    assert all(file.stat().st_mode & 0o777 == 0o755 for file in folder.iterdir())

    # As docs/slurm.md has it: the controller needs a way to the nodes.
    asks = own_hooks(cluster.program)["epilog-ctld"].split("epilog-ctld", 1)[1]
    script = (folder / "epilog-slurmctld").read_text()
    cluster.enclosure.write(f"{site}/epilog-slurmctld", script.rstrip() + asks + "\n", 0o755)
    # All nodes have one /run here, so that both ask the daemon of the first.
    cluster.enclosure.must("mkdir", "-p", "/run/gpuyard")
    cluster.enclosure.must("ln", "-s", node.daemon_socket, "/run/gpuyard/gpuyard.sock")
    try:
        cluster.configure(Prolog=None)
        missing = node.gpuyard("slurm", "install", user="root")
        assert missing.returncode == 1 and lines_of(missing)["Prolog"] == "missing", missing
        cluster.configure(**{name: f"{site}/{script}" for name, script in scripts.items()})
        fine = node.gpuyard("slurm", "install", user="root")
        assert fine.returncode == 0 and set(lines_of(fine).values()) == {"ok"}, fine
        with running(node) as job:
            # A prolog whose report takes too long leaves it to the next health check.
            wait_until(lambda: lease_of(node, job), "the lease of the job")
            assert state_of(node, job) == "held"
        lease_is_over(node, job)
        assert cluster.account(job, "AdminComment")[0].startswith("{gpuyard: {joules: ")
        wait_until(lambda: cluster.enclosure.outside("/run/gpuyard-slurm/told").exists(), "a check")
    finally:
        cluster.configure(**usual)
        cluster.enclosure.must("rm", "-r", "/run/gpuyard")
    assert begun(node, done(node)).status == 0
