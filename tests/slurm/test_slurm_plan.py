"""`gpuyard slurm plan`: Slurm's own programs take its files, and find in them what the machines have.

GPUYARD_INVENTORIES=1000 plans for that many random machines; GPUYARD_SEED=2 for others."""

import os
import re
import sys
from pathlib import Path

import pytest

from hooks import TRIVIAL
from planned_conf import gres_conf_here, slurm_conf_here
from program import PATIENCE, wait_until
from random_machines import MAX_GPUS, MAX_MACHINES, check_machine, random_plans, run_programs
from rig import Cluster
from service import Service
from slurm_conf import ADDRESS, CONTROLLER, ETC, PLACE

sys.path.append(str(Path(__file__).resolve().parents[1] / "process"))
from inventory_daemon import InventoryDaemon  # noqa: E402

INVENTORIES = int(os.environ.get("GPUYARD_INVENTORIES", "100"))
PART = 100  # of them in one test, which may take minutes
SEED = int(os.environ.get("GPUYARD_SEED", "1"))


@pytest.fixture(scope="module")
def cluster():
    """The rig, with the names and device files of random machines as well."""
    with Cluster(nodes=3, gpus=MAX_GPUS, accounting=True, hooks=TRIVIAL) as one:
        names = [f"m{number}" for number in range(1, MAX_MACHINES + 1)]
        with open(one.enclosure.outside(f"{PLACE}/etc/hosts"), "a", encoding="ascii") as file:
            file.write(f"{ADDRESS} {' '.join(names)}\n")
        one.enclosure.must("ip", "netns", "attach", names[0], "1")
        yield one


def real_memory(cluster):
    """slurmd's number of MiB of this machine, which hwloc does not change."""
    return int(re.search(r"RealMemory=(\d+)", cluster.must("slurmd", "-C")).group(1))


def write_plan(cluster, machines, place):
    """Plans the machines, and leaves the files as this machine can use them. Returns the plan's slurm.conf and
    the list of what is changed in it."""
    sockets = [f"{place}/{one.name}.sock" for one in machines]
    daemons = [InventoryDaemon(cluster.enclosure.outside(socket), one.inventory)
               for socket, one in zip(sockets, machines)]
    cluster.nodes[0].must("slurm", "plan", "--hosts", ",".join(f"unix://{socket}" for socket in sockets),
                          "--controller", machines[0].name, "--into", f"{place}/plan", user="root")
    files = {file.name: file.read_text(errors="replace")
             for file in cluster.enclosure.outside(f"{place}/plan").iterdir()}
    text, changes = slurm_conf_here(files["slurm.conf"], place)
    gres, more = gres_conf_here(files["gres.conf"])
    for name, content in (("slurm.conf", text), ("gres.conf", gres), ("cgroup.conf", files["cgroup.conf"])):
        cluster.enclosure.write(f"{place}/{name}", content)
    return files["slurm.conf"], changes + more, daemons


def check_missing_line(cluster, one, place):
    """`plan --check` names a GPU that is in no file."""
    gres = cluster.enclosure.outside(f"{place}/gres.conf")
    text = gres.read_text()
    gres.write_text(re.sub(rf"(?m)^NodeName={one.name} .*\n", "", text, count=1))
    run_programs(cluster, [one], place)
    gres.write_text(text)
    done = cluster.enclosure.outside(f"{place}/{one.name}.check").read_text()
    assert done.endswith("exit code 1\n") and re.search(
        rf"gres.conf: /dev/nvidia\d+ is missing\n  should be: NodeName={one.name} Name=gpu Type=", done), done


def start_controller(cluster, name, names, place):
    environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "SLURM_CONF": f"{place}/slurm.conf"}

    def has_nodes():
        done = cluster.enclosure.run("scontrol", "show", "node", "-o", net=name, env=environment, timeout=PATIENCE)
        return done.returncode == 0 and all(f"NodeName={one} " in done.stdout for one in names)

    one = Service(cluster.enclosure, name, f"{place}/slurmctld.log", ("slurmctld", "-D", "-i"), has_nodes, environment)
    one.begin()
    return one


def check_controller(one):
    """slurmctld has started with the file and has its nodes."""
    one.wait()
    one.kill()  # a shutdown would wait for nodes that do not run
    complaints = [line for line in one.log().splitlines() if re.search(r"error|fatal|invalid|Invalid", line)
                  and not re.search(r"state file|state save file|mpi/|MPI:|PMIx|plugin name for mpi|High latency"
                                    r"|Unable to contact|agent|Connection refused|not responding", line)]
    assert not complaints, complaints


@pytest.mark.parametrize("first", range(0, INVENTORIES, PART))
def test_slurm_reads_plans_of_random_machines(cluster, first):
    count = min(PART, INVENTORIES - first)
    print(f"{count} machines, seed {SEED} from {first}")
    if cluster.controller.process.poll() is None:
        cluster.controller.stop()  # its port
    for number, machines in enumerate(random_plans(f"{SEED} {first}", count, real_memory(cluster))):
        place = f"{PLACE}/plan{first}-{number}"
        cluster.enclosure.outside(f"{place}/state").mkdir(parents=True)
        slurm_conf, changes, daemons = write_plan(cluster, machines, place)
        if number == 0:
            print("changed for this machine:", *changes, sep="\n  ")
        controller = start_controller(cluster, machines[0].name, [one.name for one in machines], place)
        run_programs(cluster, machines, place)
        for one in machines:
            check_machine(one, slurm_conf, lambda name: cluster.enclosure.outside(f"{place}/{name}").read_text())
        check_missing_line(cluster, machines[0], place)
        check_controller(controller)
        for daemon in daemons:
            daemon.end()


@pytest.mark.parametrize("accounting", [False, True])
def test_job_runs_on_planned_cluster(cluster, accounting):
    names = [node.name for node in cluster.nodes]
    hosts = "".join(f'[{name}]\nurl = "unix://{PLACE}/{name}/gpuyard.sock"\n' for name in names)
    cluster.enclosure.write(f"{PLACE}/config/gpuyard/hosts.toml", hosts)
    node = cluster.nodes[0]
    into = f"{node.place}/planned{accounting}"
    node.must("slurm", "plan", "--hosts", ",".join(names), "--controller", names[0], "--into", into,
              *(["--accounting"] if accounting else []), user="root", XDG_CONFIG_HOME=f"{PLACE}/config")
    files = {file.name: file.read_text(errors="replace") for file in cluster.enclosure.outside(into).iterdir()}
    place = f"{PLACE}/story{accounting}"
    cluster.enclosure.outside(f"{place}/state").mkdir(parents=True)
    text, changes = slurm_conf_here(files["slurm.conf"], place, Prolog=None, Epilog=None, HealthCheckProgram=None,
                                    EpilogSlurmctld=None, HealthCheckInterval=None)
    print("changed for this machine:", *changes, sep="\n  ")
    gres, _ = gres_conf_here(files["gres.conf"])
    for one in (cluster.controller, *(one.slurmd for one in cluster.nodes)):
        if one.process.poll() is None:
            one.stop()
    for name, content in (("slurm.conf", text), ("gres.conf", gres), ("cgroup.conf", files["cgroup.conf"])):
        cluster.enclosure.write(f"{ETC}/{name}", content)
    if accounting:
        cluster.must("sacctmgr", "-i", "add", "cluster", "cluster")
        cluster.must("sacctmgr", "-i", "add", "account", "lab")
        cluster.must("sacctmgr", "-i", "add", "user", "alice", "account=lab")
    controller = Service(cluster.enclosure, names[0], f"{PLACE}/{CONTROLLER}/planned.log", ("slurmctld", "-D"),
                         cluster.controller.answers, {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"})
    controller.begin("-i")
    try:
        for one in cluster.nodes:
            one.slurmd.begin()
        controller.wait()
        wait_until(lambda: all(one.state() == "IDLE" for one in cluster.nodes),
                   lambda: f"the nodes to be idle: {cluster.must('scontrol', 'show', 'nodes')}{controller.log()}")
        kind = re.search(r"Type=(\S+)", files["gres.conf"]).group(1)
        job = cluster.submit("echo $SLURM_JOB_GPUS; echo $SLURM_JOB_CPUS_PER_NODE", f"--gpus={kind}:1")
        assert cluster.wait_for_job(job) == "COMPLETED"
        record = cluster.job(job)
        assert record["Partition"] == "gpu" and record["TimeLimit"] == "04:00:00"
        share = re.search(r"(?m)^DefMemPerGPU=(\d+)$", files["slurm.conf"]).group(1)
        assert f"mem={share}M," in record["TRES"] and (not accounting or "gres/gpu=1" in record["TRES"]), record
        assert re.fullmatch(r"\d\n\d+\n", cluster.output(job)), cluster.output(job)
    finally:
        controller.stop()
        for one in cluster.nodes:
            one.slurmd.stop()
