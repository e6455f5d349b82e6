"""One node of a cluster: a simulated daemon, its Node object, and the agent beside it, which has the token of
a pod of that node and the rights of the manifest.
"""

import contextlib
import json
import subprocess
import sys
from pathlib import Path

from program import PATIENCE, PROGRAM, Daemon, wait_until

sys.path += [str(Path(__file__).resolve().parents[1] / room) for room in ("process", "clients")]
from agent_rights import token_of_agent  # noqa: E402
from kubelet_node import KubeletNode  # noqa: E402
from lease_yard import LeaseYard  # noqa: E402

RESOURCE = "/apis/resource.k8s.io/v1"
RULES = f"{RESOURCE}/devicetaintrules"
CONDITION = "gpuyard.io/GPUsHealthy"
TAINT = "gpuyard.io/gpu-sick"
# Alerts that fire or end within seconds.
CONFIG = '[alerts]\nfile = "{file}"\n'
QUICK = "[rule.gpu-lost]\nclear_hold_s = 2\n[rule.plugin-disagrees]\nhold_s = 2\n"


class AgentNode:
    """`offer`: "dra" for a ResourceSlice of its GPUs, "plugin" for a capacity of nvidia.com/gpu, "kubelet" for a
    kubelet of its own with a device plugin, which the agent asks."""

    def __init__(self, cluster, place, daemon, name="n1", gpus=2, offer="dra"):
        self.cluster = cluster
        self.name = name
        self.place = Path(place)
        self.place.mkdir(exist_ok=True)
        rules = self.place / "alerts.toml"
        rules.write_text(QUICK, encoding="utf-8")
        self.yard = LeaseYard(self.place, daemon, gpus, CONFIG.format(file=rules))
        self.uuids = [self.yard.world.uuid(number) for number in range(gpus)]
        self.offer = offer
        self.kubelet = KubeletNode(cluster.place, name, self.uuids) if offer == "kubelet" else None
        self.make_node()
        self.token = token_of_agent(cluster, name)
        self.log_path = self.place / "agent.log"
        self.agent = None

    def make_node(self):
        self.cluster.make_node(self.name, {"nvidia.com/gpu": str(len(self.uuids))} if self.offer == "plugin" else {})
        if self.offer == "dra":
            self.cluster.put_devices(self.name, self.uuids)
        if self.kubelet:
            self.report()

    def report(self):
        """Writes the GPUs that the kubelet counts into the Node's status, as a real one does every few seconds. One
        that is stopped writes nothing."""
        found = self.kubelet.resources()
        if found:
            self.cluster.api.patch(f"/api/v1/nodes/{self.name}/status", {"status": {
                kind: {name: str(count) for name, count in resources.items()} for kind, resources in found.items()}})

    def start(self, *flags, kubelet=None):
        """`kubelet`: the socket of another than its own; "none" if the agent shall ask none."""
        kubelet = kubelet or (self.kubelet.socket if self.kubelet else "none")
        with open(self.log_path, "ab") as log:
            self.agent = subprocess.Popen(
                [PROGRAM, "kube", "agent", "--node", self.name, "--kubeconfig", self.kubeconfig(),
                 "--socket", self.yard.daemon.socket, "--memory", str(self.place / "memory.json"),
                 "--kubelet", kubelet, *flags],
                env=self.yard.environment, stdout=log, stderr=log)
        return self

    def kubeconfig(self):
        """Writes the agent's; returns its path."""
        return self.cluster.kubeconfig(self.token, name=f"{self.name}.json")

    def kill(self):
        self.agent.kill()
        self.agent.wait(PATIENCE)

    def log(self):
        return self.log_path.read_text(encoding="utf-8")

    def end(self):
        if self.agent:
            self.kill()
        if self.kubelet:
            self.kubelet.end()
        self.yard.end()

    # What the cluster knows.

    def node(self):
        return self.cluster.api.get(f"/api/v1/nodes/{self.name}")

    def condition(self, type=CONDITION):
        """Its status and reason; None: there is none."""
        for one in self.node()["status"].get("conditions", []):
            if one["type"] == type:
                return one["status"], one["reason"]
        return None

    def taints(self):
        return {one["key"]: one.get("value", "") for one in self.node()["spec"].get("taints", [])}

    def rules(self):
        """The value of each tainted device of this node, by its name."""
        found = self.cluster.api.get(self.cluster.rules)["items"]
        return {one["spec"]["deviceSelector"]["device"]: one["spec"]["taint"]["value"] for one in found
                if one["metadata"].get("labels", {}).get("gpuyard.io/node") == self.name}

    def wait_for_condition(self, status, reason=None):
        def is_so():
            found = self.condition()
            return found and found[0] == status and reason in (None, found[1])
        wait_until(is_so, lambda: f"the condition {status} {reason}, not {self.condition()}:\n{self.log()}", every=0.05)

    def wait_for_rules(self, rules):
        wait_until(lambda: self.rules() == rules, lambda: f"the rules {rules}, not {self.rules()}:\n{self.log()}",
                   every=0.05)

    def wait_for_taint(self, value):
        wait_until(lambda: self.taints().get(TAINT) == value,
                   lambda: f"the taint {value}, not {self.taints()}:\n{self.log()}", every=0.05)

    # What happens to its GPUs.

    def lose(self, gpu):
        self.yard.must("sim", "inject", "--gpu", str(gpu), "--lost")

    def reset(self, gpu):
        self.yard.must("sim", "reset", "--gpu", str(gpu))

    def inject_xid(self, gpu, xid=79):
        self.yard.must("sim", "inject", "--gpu", str(gpu), "--xid", str(xid))

    def acknowledge_all(self):
        for alert in json.loads(self.yard.must("alerts", "--json"))["alerts"]:
            self.yard.must("alerts", "ack", str(alert["number"]))


@contextlib.contextmanager
def started_nodes(cluster, place, offers, gpus, flags=(), first=2):
    """Nodes n2, n3 and so on, each with so many GPUs and an agent that has reported them healthy. `flags` are more of
    the agents' options, `first` is the number of the first node."""
    nodes, daemons = [], []

    def start(*arguments, **environment):
        directory = place / f"daemon{len(daemons)}"
        directory.mkdir()
        daemons.append(Daemon(directory, *arguments, **environment))
        return daemons[-1].ready()
    try:
        for number, offer in enumerate(offers, first):
            nodes.append(AgentNode(cluster, place / f"node{number}", start, name=f"n{number}", gpus=gpus, offer=offer))
            nodes[-1].start(*flags)
        for node in nodes:
            node.wait_for_condition("True")
        yield nodes
    finally:
        for node in nodes:
            node.end()
        for one in daemons:
            one.kill()
