"""`gpuyard queue`, `leases` and `free` through Slurm: the answer of its controller about the cluster."""

import json
import re

import pytest

from asking import STAYS, cancel, started
from program import PATIENCE, wait_until
from rig import Cluster
from schemas import validate
from slurm_conf import PLACE

# Each node has two GPUs of each type.
GRES = "Name=gpu Type=h100 File={dev}/nvidia[0-1]\nName=gpu Type=h100_nvl File={dev}/nvidia[2-3]\n"
TAKES_ALL = 4
VERBS = (("queue",), ("leases",), ("free",), ("fleet", "free"))


@pytest.fixture(scope="module")
def cluster():
    with Cluster(nodes=2, gpus=4, gres=GRES, gres_of_node="gpu:h100:2,gpu:h100_nvl:2", accounting=False) as one:
        yield one


@pytest.fixture
def jobs(cluster):
    """Two running jobs on n1, one of bob's that waits for GPUs, one that waits for CPUs only, and a drained
    n2."""
    n1, n2 = cluster.nodes
    n2.drain("bad fan")
    first = cluster.submit(STAYS, "--gres=gpu:h100:2", "--time=60", "-J", "train\ngres:gpu:9", on=n1.name)
    second = cluster.submit(STAYS, "--gpus=h100_nvl:1", on=n1.name, user="bob")
    for job in (first, second):
        started(cluster, job)
    waits = cluster.submit(STAYS, "--gpus-per-node=h100:1", "-J", "next", user="bob")
    held = cluster.submit(STAYS, "--gres=gpu:3", "--hold")
    without = cluster.submit(STAYS, "--cpus-per-task=8")
    wait_until(lambda: cluster.job(waits)["Reason"] == "Resources", lambda: f"a reason: {cluster.job(waits)}")
    yield first, second, waits, held
    cancel(cluster, first, second, waits, held, without)
    n2.resume()


def gpuyard(cluster, *words, user="alice", through=("--through", "slurm"), **more):
    """A program of alice's on the login node, where no daemon runs."""
    variables = {"HOME": "/nonexistent", "GPUYARD_SOCKET": f"{PLACE}/no/daemon.sock", **more}
    return cluster.run("env", *(f"{name}={value}" for name, value in variables.items()), cluster.program, *words,
                       *through, user=user, timeout=2 * PATIENCE)


def answer(cluster, *words, code=0, **options):
    done = gpuyard(cluster, *words, "--json", **options)
    assert done.returncode == code, done
    answered = json.loads(done.stdout)
    validate(answered, f"slurm-{words[1] if words[0] == 'fleet' else words[0]}")
    return answered


def lasting(answered):
    """The answer without the time until a job starts, which passes."""
    for job in answered.get("waiting", []):
        job["place"].pop("expected_s")
    return answered


def test_queue_has_pending_jobs_by_priority(cluster, jobs):
    *_, waits, held = jobs
    queue = answer(cluster, "queue")
    assert queue["pending_claimers"] == 2 and queue["notes"] == [], queue
    first, last = queue["waiting"]
    assert (first["id"], first["user"], first["uid"], first["note"]) == (str(waits), "bob", 1001, "next")
    assert (first["state"], first["slurm_state"], first["allocated"]) == ("waiting", "PENDING", [])
    assert (first["wanted_gpus"], first["types"]) == (1, ["h100"])
    assert (first["place"]["position"], first["place"]["why"]) == (1, "Resources")
    assert (last["id"], last["wanted_gpus"], last["types"]) == (str(held), 3, [])
    assert (last["place"]["position"], last["place"]["why"]) == (2, "JobHeldUser")
    text = gpuyard(cluster, "queue").stdout
    assert re.search(rf"^ +1  bob +1 GPU \(h100\) +.* Resources: .*  next +{waits}$", text, re.MULTILINE), text
    assert re.search(r"^ +2  alice +3 GPUs +.* JobHeldUser: .*scontrol release", text, re.MULTILINE), text


def test_expected_start_is_that_of_slurm(cluster, jobs):
    first, _, waits, _ = jobs

    def expected():
        return answer(cluster, "queue")["waiting"][0]["place"]["expected_s"]
    wait_until(expected, "Slurm to expect a start")  # of backfill: at the end of the first job
    assert 3000 < expected() <= 3600
    start = cluster.job(waits)["StartTime"]
    assert start == cluster.job(first)["EndTime"]
    text = gpuyard(cluster, "queue", TZ="UTC").stdout
    assert start[11:16] in text, (start, text)


def test_leases_have_allocated_gpus(cluster, jobs):
    first, second, *_ = jobs
    leases = answer(cluster, "leases")
    assert leases["notes"] == [], leases
    held = {one["id"]: one for one in leases["leases"]}
    assert set(held) == {str(first), str(second)}
    one = held[str(first)]
    assert (one["user"], one["hosts"], one["state"], one["slurm_state"]) == ("alice", "n1", "held", "RUNNING")
    # A line end in the name makes neither a job nor an allocation; scontrol's line is cut by it.
    assert one["note"] == "train?gres:gpu:9" and one["wanted_gpus"] == 2 and one["types"] == ["h100"]
    assert one["allocated"] == []
    assert one["until"][:19] == cluster.job(first)["EndTime"] and one["granted"] < one["until"]
    other = held[str(second)]
    assert other["wanted_gpus"] == 1 and other["place"] is None
    assert other["allocated"] == [{"hosts": "n1", "type": "h100_nvl", "count": 1, "indexes": [2]}]
    text = gpuyard(cluster, "leases").stdout
    assert re.search(rf"^n1 +1 GPU \(h100_nvl\) +2 +bob +running .* {second}$", text, re.MULTILINE), text
    assert gpuyard(cluster, "lease", "list", through=(), XDG_CONFIG_HOME=configured(cluster)).stdout == text


def test_free_gpus_of_a_drained_node_are_unknown(cluster, jobs):
    free = answer(cluster, "free")
    n1, n2 = free["nodes"]
    assert (n1["host"], n1["available"], n1["reason"]) == ("n1", True, "")
    assert n1["gpus"] == [{"type": "h100", "total": 2, "free": 0}, {"type": "h100_nvl", "total": 2, "free": 1}]
    assert (n2["host"], n2["available"], n2["reason"]) == ("n2", False, "bad fan") and "drain" in n2["state"]
    assert [gpus["free"] for gpus in n2["gpus"]] == [None, None]
    assert free["enough"] and free["why"] == "" and free["capacity"] == 8
    assert answer(cluster, "fleet", "free") == free
    text = gpuyard(cluster, "free").stdout
    assert re.search(r"^n1 +h100_nvl +1 +2  mixed$", text, re.MULTILINE), text
    assert re.search(r"^n2 +h100 +- +2  \S*drain\S* +bad fan$", text, re.MULTILINE), text


def test_too_few_free_gpus_are_code_7(cluster, jobs):
    few = gpuyard(cluster, "free", "-n", "2")
    assert few.returncode == 7 and "gpuyard: no node has 2 GPUs free" in few.stderr, few
    assert "n1, has 1 GPU without a job" in few.stderr
    assert "try:   gpuyard run -n 2 --through slurm -- COMMAND" in few.stderr
    model = answer(cluster, "free", "--model", "H100", code=7)
    assert not model["enough"] and [gpus["type"] for gpus in model["nodes"][0]["gpus"]] == ["h100"]
    unknown = gpuyard(cluster, "free", "--model", "A100")
    assert unknown.returncode == 6 and "its types are h100, h100_nvl" in unknown.stderr, unknown
    refused = gpuyard(cluster, "free", "--min-free", "20G")
    assert refused.returncode == 2 and "--min-free cannot be used with Slurm" in refused.stderr, refused


def configured(cluster):
    cluster.enclosure.write(f"{PLACE}/conf/gpuyard/gpuyard.toml", '[lease]\nthrough = "slurm"\n')
    return f"{PLACE}/conf"


def test_configuration_selects_slurm(cluster, jobs):
    for words in VERBS:
        asked = gpuyard(cluster, *words, "--json", through=(), XDG_CONFIG_HOME=configured(cluster))
        assert asked.returncode == 0, asked
        assert lasting(json.loads(asked.stdout)) == lasting(answer(cluster, *words))
        if words[0] == "fleet":
            continue
        daemon = gpuyard(cluster, *words, through=("--through", "daemon"), XDG_CONFIG_HOME=configured(cluster))
        assert daemon.returncode == 5 and "no/daemon.sock" in daemon.stderr, daemon


def test_filters_of_the_user_do_not_apply(cluster, jobs):
    filters = {"SQUEUE_USERS": "root", "SQUEUE_FORMAT": "%i", "SQUEUE_STATES": "R", "SINFO_PARTITION": "none",
               "SLURM_TIME_FORMAT": "relative", "TZ": "Asia/Tokyo"}
    for words in VERBS:
        assert lasting(answer(cluster, *words, **filters)) == lasting(answer(cluster, *words))
    assert answer(cluster, "queue", **filters)["pending_claimers"] == 2


def test_another_machines_daemon_and_slurm_exclude_each_other(cluster):
    done = cluster.run("env", "HOME=/nonexistent", cluster.program, "-H", "ssh://n1", "queue", "--through", "slurm",
                       user="alice")
    assert done.returncode == 2 and "exclude each other" in done.stderr, done


def test_cluster_without_jobs(cluster):
    assert gpuyard(cluster, "queue").stdout == "No jobs are waiting for GPUs.\n"
    assert gpuyard(cluster, "leases").stdout == "No jobs have GPUs.\n"
    assert gpuyard(cluster, "free", "-n", str(TAKES_ALL)).returncode == 0


def test_daemon_that_only_observes_advises_run_through_slurm(cluster):
    node = cluster.nodes[0]
    cluster.wait_for_job(cluster.submit("true", "--gres=gpu:1", on=node.name))
    refused = node.gpuyard("run", "--through", "daemon", "-n", "2", "--", "true")
    assert refused.returncode == 7 and "try:   gpuyard run -n 2 --through slurm -- COMMAND" in refused.stderr, refused
    free = node.gpuyard("free", "--through", "daemon", "-n", "2")
    assert free.returncode == 7 and "try:   gpuyard run -n 2 --through slurm -- COMMAND" in free.stderr, free


def test_controller_that_is_away_or_hangs_is_code_5(cluster):
    for gone in (cluster.controller.away, cluster.controller.hanging):
        with gone():
            for words in VERBS:
                done = gpuyard(cluster, *words)
                assert done.returncode == 5 and done.stdout == "", done
                assert "gpuyard: Slurm's controller is not responding" in done.stderr, done
                assert "try:   scontrol ping" in done.stderr
        cluster.wait_for_nodes()
