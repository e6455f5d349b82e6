"""Random machines for `gpuyard slurm plan`, and what Slurm's programs find with the planned files on each:
hwloc gives slurmd the processors of any machine.
"""

import collections
import random
import re
import shlex
import sys
from pathlib import Path

from slurm_conf import DEVICES

sys.path.append(str(Path(__file__).resolve().parents[1] / "process"))
from inventory_daemon import gpu, inventory, machine  # noqa: E402

PATH = "/usr/sbin:/usr/bin:/sbin:/bin"
MAX_GPUS = 16
MAX_MACHINES = 12  # of a plan
MODELS = ["NVIDIA H100 80GB HBM3", "NVIDIA A100-SXM4-80GB", "NVIDIA A100-PCIE-40GB", "NVIDIA GeForce RTX 4090",
          "NVIDIA L40S", "Quadro RTX 6000"]
# Slurm's programs and `plan --check` on one machine; the files are beside the script.
SCRIPT = """cd {place}
export HWLOC_SYNTHETIC={shape} GPUYARD_SOCKET={place}/{name}.sock
slurmd -C -N {name} >{name}.hardware 2>&1
slurmd -G -N {name} -f {place}/slurm.conf >{name}.gpus 2>&1
{program} slurm plan --check --into {place} >{name}.check 2>&1
echo "exit code $?" >>{name}.check
"""


class RandomMachine:
    """`inventory` is what its daemon reports, and `shape` is what hwloc finds on it."""

    def __init__(self, rng, name, memory_mib):
        self.name = name
        has = {"sockets": rng.randint(1, 4), "nodes": rng.choice([1, 1, 2, 4]),
               "cores": rng.choice([1, 3, 4, 7, 16]), "threads": rng.choice([1, 2])}
        self.shape = "pack:{sockets} numa:{nodes} core:{cores} pu:{threads}".format(**has)
        about = machine(name, memory_mib=rng.randint(memory_mib // 4, memory_mib), **has)
        nodes = [None, *range(has["sockets"] * has["nodes"])]
        if rng.random() < 0.1:  # a node of memory alone
            nodes.append(len(about["numa_nodes"]))
            about["numa_nodes"].append({"node": nodes[-1], "cpus": [], "cores": []})
        if rng.random() < 0.1:
            about["numa_nodes"] = None
        if rng.random() < 0.1:
            about["sockets"] = about["cores_per_socket"] = None
            for node in about["numa_nodes"] or []:
                node["cores"] = None
        models = rng.sample(MODELS, rng.randint(1, 4))
        minors = rng.sample(range(MAX_GPUS), rng.randint(1, MAX_GPUS))
        self.inventory = inventory(about, [
            gpu(index, minor, rng.choice(models), node=rng.choice(nodes), mig=rng.random() < 0.1 and index > 0)
            for index, minor in enumerate(minors)])

    def script(self, program, place):
        return SCRIPT.format(place=place, name=self.name, program=program, shape=shlex.quote(self.shape))

    def gpus(self):
        """Those for Slurm, by their minor numbers."""
        return {one["minor"]: one for one in self.inventory["gpus"] if not one["mig_enabled"]}

    def cores_near(self, one):
        """None: they are unknown, or all."""
        about = self.inventory["machine"]
        node = next((node for node in about["numa_nodes"] or [] if node["node"] == one["numa_node"]), None)
        if not about["sockets"] or not node or not node["cores"]:
            return None
        return node["cores"] if len(node["cores"]) < about["sockets"] * about["cores_per_socket"] else None


def random_plans(seed, count, memory_mib):
    """`count` machines with known processors and others, a list for each plan."""
    rng = random.Random(seed)
    while count > 0:
        size = min(count, rng.randint(1, MAX_MACHINES))
        count -= size
        yield [RandomMachine(rng, f"m{number}", memory_mib) for number in range(1, size + 1)]


def run_programs(cluster, machines, place):
    """Runs the script of each machine, two at a time, and leaves what they find."""
    for one in machines:
        cluster.enclosure.write(f"{place}/{one.name}.sh", one.script(cluster.program, place))
    cluster.enclosure.must("xargs", "-P", "2", "-n", "1", "sh", env={"PATH": PATH}, timeout=120,
                           input="\n".join(f"{place}/{one.name}.sh" for one in machines))


def numbers(ranges):
    """Those of "[0-3]", "7" or "0-3,8"."""
    found = []
    for part in ranges.strip("[]").split(","):
        first, _, last = part.partition("-")
        found += range(int(first), int(last or first) + 1)
    return found


def parse_gpus(text):
    """What `slurmd -G` has found: for each minor number its type and cores."""
    assert "error" not in text and "fatal" not in text, text
    found = {}
    for line in text.splitlines():
        words = dict(re.findall(r"(\w+)=(\S+)", line))
        if words.get("Name") != "gpu":
            continue
        files = numbers(words["File"].removeprefix(f"{DEVICES}/nvidia"))
        assert int(words["Count"]) == len(files)
        found |= {minor: (words["Type"], numbers(words["Cores"]) if "Cores" in words else None) for minor in files}
    return found


def check_machine(one, slurm_conf, read):
    """Slurm and `plan --check` agree with the plan; read(name) is a file that run_programs() has left."""
    line = next(line for line in slurm_conf.splitlines() if line.startswith(f"NodeName={one.name} "))
    planned = dict(word.split("=", 1) for word in line.split())
    seen = dict(re.findall(r"(\w+)=(\S+)", read(f"{one.name}.hardware").splitlines()[0]))
    about = one.inventory["machine"]
    assert planned["CPUs"] == seen["CPUs"]
    assert ("Sockets" in planned) == (about["sockets"] is not None)
    assert int(planned["RealMemory"]) <= int(seen["RealMemory"])
    if "Sockets" in planned:
        assert [planned[key] for key in ("Sockets", "CoresPerSocket", "ThreadsPerCore")] == [
            seen[key] for key in ("SocketsPerBoard", "CoresPerSocket", "ThreadsPerCore")]
    found = parse_gpus(read(f"{one.name}.gpus"))
    assert sorted(found) == sorted(one.gpus())
    types = collections.defaultdict(set)
    for minor, expected in one.gpus().items():
        types[expected["name"]].add(found[minor][0])
        assert found[minor][1] == one.cores_near(expected), expected
    assert all(len(of_model) == 1 for of_model in types.values())
    counts = collections.Counter(kind for kind, _ in found.values())
    assert planned["Gres"] == ",".join(f"gpu:{kind}:{count}" for kind, count in sorted(counts.items()))
    assert "agree with this machine.\nexit code 0\n" in read(f"{one.name}.check")
