"""The rig itself: that it is a cluster under Slurm, that its parts go away and come back, and that nothing
is left of it.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from hooks import TRIVIAL
from program import wait_until
from rig import Cluster, need_cluster
from enclosure import nothing_is_left  # on the path that the rig has added

SHORT_LIFE = """
import sys
sys.path[:0] = {path!r}
from rig import Cluster
cluster = Cluster(nodes=1, hooks={{name: "exit 0" for name in {hooks!r}}})
job = cluster.submit("exit 3", gpus=1)
cluster.wait_for_job(job)
print(*cluster.account(job, "State", "User", "Account"), flush=True)
cluster.submit("sleep 1000", gpus=1)
print(cluster.enclosure.holder, *cluster.enclosure.pids(), flush=True)
input()
"""


@pytest.fixture(scope="module")
def cluster():
    with Cluster(nodes=2, accounting=False, hooks=TRIVIAL) as one:
        yield one


def utilization(node):
    return node.get("/api/gpu/snapshot")["devices"][0]["readings"]["utilization_gpu_percent"]


def test_job_gets_gpus_and_node_runs_hooks(cluster):
    job = cluster.submit("hostname; id -un; echo $SLURM_JOB_GPUS", user="bob", gpus=2, on="n2")
    assert cluster.wait_for_job(job) == "COMPLETED"
    assert cluster.output(job) == "n2\nbob\n0,1\n"
    begin, end = cluster.nodes[1].hook_runs(job=job)
    for run, name in ((begin, "begin"), (end, "end")):
        assert (run.name, run.status, run.out, run.err) == (name, 0, "", "") and run.seconds < 30
        assert run.environment["SLURM_JOB_GPUS"] == "0,1" and run.environment["SLURM_JOB_USER"] == "bob"
        assert run.environment["SLURMD_NODENAME"] == "n2" and "PATH" not in run.environment
    assert [run.status for run in cluster.hook_runs(job)] == [0]
    assert not cluster.nodes[0].hook_runs(job=job)
    for node in cluster.nodes:
        health = wait_until(lambda node=node: node.hook_runs("health"), f"the first check of {node.name}")
        assert health[0].environment == {"SLURMD_NODENAME": node.name}


def test_jobs_of_several_users_share_a_node(cluster):
    jobs = [cluster.submit("sleep 1000", user=user, gpus=gpus, on="n1")
            for user, gpus in (("alice", 1), ("bob", 3), ("alice", 1))]
    for job in jobs[:2]:
        cluster.wait_for_job(job, "RUNNING")
    assert cluster.job(jobs[2])["JobState"] == "PENDING"
    shown = [cluster.nodes[0].hook_runs("begin", job)[0].environment["SLURM_JOB_GPUS"] for job in jobs[:2]]
    assert sorted(",".join(shown)) == sorted("0,1,2,3")
    for job in jobs:
        cluster.cancel(job)
        assert cluster.wait_for_job(job) == "CANCELLED"


def test_each_node_has_daemon_with_own_gpus(cluster):
    seen = set()
    for node in cluster.nodes:
        seen |= {node.world.uuid(gpu) for gpu in range(4)}
        node.world.load(0, f"steady:0.{node.name[1]}")
        wait_until(lambda node=node: utilization(node) == int(node.name[1]) * 10, "its own load")
    assert len(seen) == 8
    assert cluster.nodes[0].world.uuid(3) in cluster.nodes[0].must("devices", user="bob")


def test_hook_can_be_replaced(cluster):
    node = cluster.nodes[0]
    with cluster.hook("begin", "echo no >&2; exit 1"):
        job = cluster.submit("true", gpus=1, on="n1")
        wait_until(lambda: node.state() == "IDLE+DRAIN", "the node to be drained")
    assert node.reason() == "Prolog error" and node.hook_runs("begin", job)[0].err == "no\n"
    assert cluster.job(job)["Reason"] == "launch_failed_requeued_held"
    node.resume()
    assert node.reason() is None
    cluster.release(job)
    assert cluster.wait_for_job(job) == "COMPLETED"
    node.drain("a: [b@c] 'd'")
    assert node.state() == "IDLE+DRAIN" and node.reason() == "a: [b@c] 'd'"
    node.resume()


def test_killed_services_come_back(cluster):
    node = cluster.nodes[0]
    for service in (cluster.munge, node.slurmd, node.daemon):
        with service.killed():
            assert not service.answers()
    with node.daemon.hanging():
        cluster.must("scontrol", "ping")
    with cluster.controller.away():
        assert cluster.run("scontrol", "ping").returncode == 1
        assert "GPU-" in node.must("devices")
    cluster.wait_for_nodes()
    cluster.wait_for_job(cluster.submit("true", gpus=1, on="n1"))


def test_cluster_configuration_can_be_changed(cluster):
    cluster.configure(KillWait=1)
    assert re.search(r"KillWait += 1 sec", cluster.must("scontrol", "show", "config"))


def test_gpus_can_be_in_another_order():
    gres = "Name=gpu Type=b File={dev}/nvidia1\nName=gpu Type=a File={dev}/nvidia0\n"
    with Cluster(nodes=1, gpus=2, accounting=False, hooks=TRIVIAL, gres=gres,
                 gres_of_node="gpu:b:1,gpu:a:1") as one:
        job = one.submit("true", "--gres=gpu:b:1")
        one.wait_for_job(job)
        assert one.nodes[0].hook_runs("begin", job)[0].environment["SLURM_JOB_GPUS"] == "0"


def test_killed_cluster_leaves_no_processes_or_mounts():
    need_cluster()  # the other process could only fail
    settings = os.listdir("/etc")
    words = SHORT_LIFE.format(path=[str(Path(__file__).parent), *sys.path], hooks=list(TRIVIAL))
    one = subprocess.Popen([sys.executable, "-c", words], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                           text=True)
    assert one.stdout.readline() == "FAILED alice lab\n"
    pids = [int(word) for word in one.stdout.readline().split()]
    names = {Path(f"/proc/{pid}/comm").read_text().strip() for pid in pids}
    assert names >= {"munged", "mariadbd", "slurmdbd", "slurmctld", "slurmd", "gpuyard"}
    nothing_is_left(one, pids)
    assert os.listdir("/etc") == settings and not os.path.exists("/run/slurm")
    assert "/run/slurm" not in Path("/proc/mounts").read_text()
