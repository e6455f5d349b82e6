"""`gpuyard slurm plan`: Slurm's own programs take its files, and find in them what the machines have."""

import collections
import os
import random
import re
import sys
from pathlib import Path

import pytest

from hooks import TRIVIAL
from planned_conf import gres_conf_here, slurm_conf_here
from program import PATIENCE, wait_until
from rig import Cluster
from service import Service
from slurm_conf import CONTROLLER, DEVICES, ETC, PLACE

sys.path.append(str(Path(__file__).resolve().parents[1] / "process"))
from inventory_daemon import InventoryDaemon, gpu, inventory, machine  # noqa: E402

PLANS = 8  # of three machines each
MAX_GPUS = 8
MODELS = ["NVIDIA H100 80GB HBM3", "NVIDIA A100-SXM4-80GB", "NVIDIA A100-PCIE-40GB", "NVIDIA GeForce RTX 4090",
          "NVIDIA L40S", "Quadro RTX 6000"]
SEED = int(os.environ.get("GPUYARD_SEED", "1"))


@pytest.fixture(scope="module")
def cluster():
    """The rig without its nodes' GPUs: they have names, munge and device files here."""
    with Cluster(nodes=3, gpus=MAX_GPUS, accounting=True, hooks=TRIVIAL) as one:
        yield one


def real_memory(cluster):
    """slurmd's number of MiB of this machine, which hwloc does not change."""
    return int(re.search(r"RealMemory=(\d+)", cluster.must("slurmd", "-C")).group(1))


def random_machine(rng, name, memory_mib):
    """An inventory, and what hwloc is to see instead of this machine."""
    has = {"sockets": rng.choice([1, 2, 4]), "nodes": rng.choice([1, 1, 2]), "cores": rng.choice([1, 4, 7, 16]),
           "threads": rng.choice([1, 2])}
    models = rng.sample(MODELS, rng.randint(1, 3))
    minors = rng.sample(range(MAX_GPUS), rng.randint(1, MAX_GPUS))
    count = has["sockets"] * has["nodes"]
    gpus = [gpu(index, minor, rng.choice(models), node=rng.choice([None, *range(count)]),
                mig=rng.random() < 0.1 and index > 0)
            for index, minor in enumerate(minors)]
    shape = f"pack:{has['sockets']} numa:{has['nodes']} core:{has['cores']} pu:{has['threads']}"
    return inventory(machine(name, memory_mib=rng.randint(memory_mib // 4, memory_mib), **has), gpus), shape


def make_plan(cluster, node, hosts, controller, *more):
    """The texts of the files that a plan writes on that node."""
    into = f"{node.place}/plan"
    cluster.enclosure.must("rm", "-rf", into)
    node.must("slurm", "plan", "--hosts", ",".join(hosts), "--controller", controller, "--into", into, *more,
              user="root")
    return {file.name: file.read_text(errors="replace") for file in cluster.enclosure.outside(into).iterdir()}


def numbers(ranges):
    """Those of "[0-3]", "7" or "0-3,8"."""
    found = []
    for part in ranges.strip("[]").split(","):
        first, _, last = part.partition("-")
        found += range(int(first), int(last or first) + 1)
    return found


def found_gpus(cluster, name, shape, conf):
    """What `slurmd -G` finds: for each minor number its type and cores."""
    done = cluster.run("env", f"HWLOC_SYNTHETIC={shape}", f"SLURM_CONF={conf}", "slurmd", "-G", "-N", name)
    assert done.returncode == 0 and "error" not in done.stderr, done
    found = {}
    for line in done.stderr.splitlines():
        words = dict(re.findall(r"(\w+)=(\S+)", line))
        if words.get("Name") != "gpu":
            continue
        files = numbers(words["File"].removeprefix(f"{DEVICES}/nvidia"))
        assert int(words["Count"]) == len(files)
        found |= {minor: (words["Type"], numbers(words["Cores"]) if "Cores" in words else None) for minor in files}
    return found


def expected_cores(about, one):
    node = next((node for node in about["numa_nodes"] if node["node"] == one["numa_node"]), None)
    every = about["sockets"] * about["cores_per_socket"]
    return node["cores"] if node and len(node["cores"]) < every else None


def check_machine(cluster, host, shape, files, conf):
    about = host["machine"]
    name = about["hostname"]
    line = next(line for line in files["slurm.conf"].splitlines() if line.startswith(f"NodeName={name} "))
    planned = dict(word.split("=", 1) for word in line.split())
    seen = dict(word.split("=", 1) for word in cluster.must(
        "env", f"HWLOC_SYNTHETIC={shape}", "slurmd", "-C", "-N", name).splitlines()[0].split())
    assert [planned[key] for key in ("CPUs", "Sockets", "CoresPerSocket", "ThreadsPerCore")] == [
        seen[key] for key in ("CPUs", "SocketsPerBoard", "CoresPerSocket", "ThreadsPerCore")]
    wanted = {one["minor"]: one for one in host["gpus"] if not one["mig_enabled"]}
    found = found_gpus(cluster, name, shape, conf)
    assert sorted(found) == sorted(wanted)
    types = collections.defaultdict(set)
    for minor, one in wanted.items():
        types[one["name"]].add(found[minor][0])
        assert found[minor][1] == expected_cores(about, one), one
    assert all(len(of_model) == 1 for of_model in types.values())
    counts = collections.Counter(kind for kind, _ in found.values())
    assert planned["Gres"] == ",".join(f"gpu:{kind}:{count}" for kind, count in sorted(counts.items()))


def check_agrees(cluster, node, shape, place, socket):
    """`plan --check` finds no difference, and one if a GPU is in no file."""
    def go():
        return node.run_here(node.program, "slurm", "plan", "--check", "--into", place, user="root",
                             HWLOC_SYNTHETIC=shape, GPUYARD_SOCKET=socket, PATH="/usr/sbin:/usr/bin:/sbin:/bin")

    done = go()
    assert (done.returncode, done.stderr) == (0, "") and "agree with this machine" in done.stdout, done
    gres = cluster.enclosure.outside(f"{place}/gres.conf")
    text = gres.read_text()
    gres.write_text(re.sub(rf"(?m)^NodeName={node.name} .*\n", "", text, count=1))
    done = go()
    gres.write_text(text)
    assert done.returncode == 1 and re.search(r"gres.conf: /dev/nvidia\d is missing\n"
                                              rf"  should be: NodeName={node.name} Name=gpu Type=", done.stdout), done


def check_controller(cluster, number, conf, names):
    """slurmctld starts with the file and has its nodes."""
    environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "SLURM_CONF": conf}
    log = f"{PLACE}/plan{number}/slurmctld.log"

    def answers():
        done = cluster.enclosure.run("scontrol", "show", "node", "-o", net=names[0], env=environment, timeout=PATIENCE)
        return done.returncode == 0 and all(f"NodeName={name} " in done.stdout for name in names)

    one = Service(cluster.enclosure, names[0], log, ("slurmctld", "-D", "-i"), answers, environment)
    one.start()
    one.stop()
    complaints = [line for line in one.log().splitlines() if re.search(r"error|fatal|invalid|Invalid", line)
                  and not re.search(r"state file|state save file|mpi/|MPI:|PMIx|plugin name for mpi|High latency", line)]
    assert not complaints, complaints


def test_slurm_reads_plans_of_random_machines(cluster):
    rng = random.Random(SEED)
    print(f"seed {SEED}")
    names = [node.name for node in cluster.nodes]
    memory_mib = real_memory(cluster)
    cluster.controller.stop()  # its port
    for number in range(PLANS):
        hosts = [random_machine(rng, name, memory_mib) for name in names]
        place = f"{PLACE}/plan{number}"
        cluster.enclosure.outside(f"{place}/state").mkdir(parents=True)
        sockets = [f"{place}/{name}.sock" for name in names]
        daemons = [InventoryDaemon(cluster.enclosure.outside(socket), host)
                   for socket, (host, _) in zip(sockets, hosts)]
        files = make_plan(cluster, cluster.nodes[0], [f"unix://{socket}" for socket in sockets], names[0])
        text, changes = slurm_conf_here(files["slurm.conf"], place)
        gres, more = gres_conf_here(files["gres.conf"])
        if number == 0:
            print("changed for this machine:", *changes, *more, sep="\n  ")
        for name, content in (("slurm.conf", text), ("gres.conf", gres), ("cgroup.conf", files["cgroup.conf"])):
            cluster.enclosure.write(f"{place}/{name}", content)
        for node, socket, (host, shape) in zip(cluster.nodes, sockets, hosts):
            check_machine(cluster, host, shape, files, f"{place}/slurm.conf")
            check_agrees(cluster, node, shape, place, socket)
        for daemon in daemons:
            daemon.end()
        check_controller(cluster, number, f"{place}/slurm.conf", names)


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
