#!/usr/bin/env python3
"""Half an hour of faults on a small cluster: GPUs that turn bad and good, an API server that fails in every way,
daemons, agents and kubelets that end, hang and come back, an administrator and another controller who write at
the same time. After each fault the cluster must know what is true, and at the end, after `gpuyard kube withdraw`,
nothing of ours may be left and nothing of others' be different.
"""

import argparse
import collections
import contextlib
import hashlib
import json
import random
import subprocess
import sys
import threading
import time
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1]))
from program import PROGRAM, Daemon, clean_environment, open_directory  # noqa: E402

from control_plane import ControlPlane  # noqa: E402  (knows where the others are)
from agent_node import CONDITION, RULES, TAINT, AgentNode  # noqa: E402
from agent_rights import give_rights  # noqa: E402
from cluster_objects import DRIVER  # noqa: E402
from faults import stopped  # noqa: E402
from faulty_proxy import FAULTS, FaultyProxy  # noqa: E402
from kube_api import PATCHES  # noqa: E402

GPUS = 8
SETTLE = 150  # s: the longest back-off is one minute
FOREIGN = "example.com/other"


def wait_for(condition, failure):
    """Polls until condition() is true; returns after how many seconds. `failure`: a text, or what makes one."""
    began = time.monotonic()
    while not condition():
        if time.monotonic() - began > SETTLE:
            raise AssertionError(f"after {SETTLE} s: {failure() if callable(failure) else failure}")
        time.sleep(0.2)
    return time.monotonic() - began


class OtherController(threading.Thread):
    """Writes its own taint and condition on each node, all the time, and knows what it wrote last."""

    def __init__(self, cluster, names):
        super().__init__()
        self._cluster = cluster
        self._names = names
        self._end = threading.Event()
        self.written = {}  # by node: the value of its taint, the reason of its condition
        self.count = 0

    def run(self):
        for number in range(sys.maxsize):
            if self._end.wait(0.2):
                return
            name = self._names[number % len(self._names)]
            with contextlib.suppress(OSError, AssertionError, ValueError, KeyError):
                self._write(name, f"v{number}")

    def _write(self, name, value):
        api = self._cluster.api
        node = api.request("GET", f"/api/v1/nodes/{name}", timeout=5).json()
        taints = [one for one in node["spec"].get("taints", []) if one["key"] != FOREIGN]
        taints.insert(0, {"key": FOREIGN, "value": value, "effect": "PreferNoSchedule"})
        done = api.request("PATCH", f"/api/v1/nodes/{name}", {
            "metadata": {"resourceVersion": node["metadata"]["resourceVersion"]}, "spec": {"taints": taints}},
            PATCHES["merge"], timeout=5)
        if done.status != 200:
            return
        done = api.request("PATCH", f"/api/v1/nodes/{name}/status", {"status": {"conditions": [
            {"type": FOREIGN, "status": "True", "reason": value, "message": "of another controller"}]}},
            PATCHES["strategic"], timeout=5)
        if done.status == 200:
            self.written[name] = value
            self.count += 1

    def stop(self):
        self._end.set()
        self.join()

    def is_intact(self, node):
        """Whether the node has its taint and its condition as they were written last."""
        found = node.node()
        taints = [one.get("value") for one in found["spec"].get("taints", []) if one["key"] == FOREIGN]
        reasons = [one["reason"] for one in found["status"]["conditions"] if one["type"] == FOREIGN]
        return taints == reasons == [self.written[node.name]]


class SoakNode(AgentNode):
    """An AgentNode whose agent reaches the API server through the proxy."""

    def __init__(self, cluster, place, proxy, name, offer):
        self.proxy = proxy
        self._directory = place / f"daemon-{name}"
        self._directory.mkdir()
        super().__init__(cluster, place / name, self._start_daemon, name=name, gpus=GPUS, offer=offer)

    def _start_daemon(self, *arguments, **environment):
        self._words = (arguments, environment)
        return Daemon(self._directory, *arguments, **environment).ready()

    def restart_daemon(self):
        self.yard.daemon.kill()
        arguments, environment = self._words
        self.yard.daemon = self._start_daemon(*arguments, **environment)

    def restart(self):
        self.kill()
        self.start()

    def kubeconfig(self):
        return self.proxy.kubeconfig(self.token, name=f"{self.name}-proxy.json")

    def end(self):
        super().end()
        self.yard.daemon.kill()

    # What should be so.

    def verdicts(self):
        return self.yard.daemon.get("/api/gpu/verdict", unix=True).json()["gpus"]

    def memory(self):
        return json.loads((self.place / "memory.json").read_text(encoding="utf-8"))["memory"]

    def expected(self):
        """The tainted devices as the daemon's verdicts, the flapping GPUs and the administrator's deletions have them,
        the devices whose GPU is unknown, which keep what they have, and the status of the condition."""
        memory = self.memory()
        flapping = {uuid for uuid, record in memory["flaps"].items() if record["is_flapping"]}
        deleted = {name: one["value"] for name, one in memory["deleted_rules"].items()}
        rules, unknown, status = {}, set(), "True"
        for gpu in self.verdicts():
            device = f"gpu-{self.uuids.index(gpu['uuid'])}"
            if gpu["verdict"] == "unknown":
                unknown.add(device)
                status = "Unknown" if status == "True" else status
                continue
            is_bad = gpu["verdict"] == "bad" or gpu["uuid"] in flapping
            status = "False" if is_bad else status
            if not is_bad and not gpu["cordoned"]:
                continue
            value = (gpu["rule"] or memory["flaps"][gpu["uuid"]]["rule"]) if is_bad else "cordoned"
            if deleted.get(self.rule_name(device, gpu["uuid"])) != value:
                rules[device] = value
        return rules, unknown, status

    def rule_name(self, device, uuid):
        """The agent's name of a device's rule: a deletion is of one device, and a GPU that gets another is tainted."""
        text = "\n".join([DRIVER, self.name, device, uuid])
        return f"gpuyard-{self.name}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"

    def differences(self):
        """What the cluster has wrong, as text; "" if nothing."""
        try:
            rules, unknown, status = self.expected()
        except (OSError, KeyError, ValueError) as error:
            return f"not known: {error!r}"
        wrong = []
        if (found := (self.condition() or ("none", ""))[0]) != status:
            wrong.append(f"condition {found}, not {status}")
        # The plugin here finds no fault by itself, so it offers each bad GPU.
        if self.kubelet and status != "Unknown" and (TAINT in self.taints()) != (status == "False"):
            wrong.append(f"taints {self.taints()}, though the condition is {status}")
        if self.offer == "dra":
            known = {device: value for device, value in self.rules().items() if device not in unknown}
            if known != rules:
                wrong.append(f"rules {known}, not {rules}")
        return "; ".join(wrong)


class Soak:
    def __init__(self, cluster, proxy, nodes):
        self.cluster = cluster
        self.proxy = proxy
        self.nodes = nodes
        self.settled = collections.defaultdict(list)  # s until all was right, by fault
        self.faults = {name: self.proxied(name) for name in FAULTS} | {
            "API server killed": self.api_server_killed, "API server hangs": self.api_server_hangs,
            "etcd hangs": self.etcd_hangs,
            "agent killed": self.agent_killed, "agent stopped": self.agent_stopped,
            "daemon killed": self.daemon_killed, "daemon stopped": self.daemon_stopped,
            "kubelet restarted": self.kubelet_restarted, "rule deleted": self.rule_deleted,
            "Node made anew": self.node_made_anew, "devices renumbered": self.devices_renumbered,
            "all GPUs at once": self.all_gpus, "scheduler's cordon": self.cordon_node,
        }

    # Faults. Each is a `with`, in which GPUs change.

    def proxied(self, name):
        return lambda: self.proxy.failing(name)

    def api_server_killed(self):
        return self.cluster.api_server.killed()

    def api_server_hangs(self):
        return self.cluster.api_server.hanging()

    def etcd_hangs(self):
        return self.cluster.etcd.hanging()

    @contextlib.contextmanager
    def agent_killed(self):
        node = random.choice(self.nodes)
        node.kill()
        yield
        node.start()

    def agent_stopped(self):
        return stopped([random.choice(self.nodes).agent.pid])

    @contextlib.contextmanager
    def daemon_killed(self):
        node = random.choice(self.nodes)
        node.restart_daemon()
        yield

    def daemon_stopped(self):
        return stopped([random.choice(self.nodes).yard.daemon.process.pid])

    @contextlib.contextmanager
    def kubelet_restarted(self):
        node = next(one for one in self.nodes if one.kubelet)
        node.kubelet.stop()
        yield
        node.kubelet.start()

    @contextlib.contextmanager
    def rule_deleted(self):
        node = random.choice([one for one in self.nodes if one.offer == "dra"])
        found = [one["metadata"]["name"] for one in self.cluster.api.get(RULES)["items"]
                 if one["metadata"].get("labels", {}).get("gpuyard.io/node") == node.name]
        for name in random.sample(found, min(2, len(found))):
            self.cluster.api.request("DELETE", f"{RULES}/{name}")
        node.restart()  # else it finds that within five minutes
        yield

    @contextlib.contextmanager
    def node_made_anew(self):
        node = random.choice([one for one in self.nodes if one.offer == "dra"])
        self.cluster.api.delete(f"/api/v1/nodes/{node.name}")
        self.cluster.api.request("DELETE", f"/apis/resource.k8s.io/v1/resourceslices/{node.name}-gpu.nvidia.com")
        # Kubernetes' collector of garbage takes a while after a restart of the API server.
        wait_for(lambda: not node.rules(), "the rules of the old Node are not collected")
        node.make_node()
        node.restart()  # as its pod would, which goes with the Node
        yield

    @contextlib.contextmanager
    def devices_renumbered(self):
        node = random.choice([one for one in self.nodes if one.offer == "dra"])
        random.shuffle(node.uuids)
        self.cluster.put_devices(node.name, node.uuids)
        node.restart()  # as above
        yield

    @contextlib.contextmanager
    def all_gpus(self):
        node = random.choice(self.nodes)
        for gpu in range(GPUS):
            node.yard.go("cordon", str(gpu), "--reason", "all at once")
        yield
        for gpu in range(GPUS):
            node.yard.go("uncordon", str(gpu))

    @contextlib.contextmanager
    def cordon_node(self):
        node = random.choice(self.nodes)
        path = f"/api/v1/nodes/{node.name}"
        self.cluster.api.patch(path, {"spec": {"unschedulable": True}})
        yield
        assert node.node()["spec"].get("unschedulable") is True, "the agent has changed unschedulable"
        self.cluster.api.patch(path, {"spec": {"unschedulable": None}}, "merge")

    # Rounds.

    def change_gpus(self):
        """One to four changes of GPUs somewhere. Those of a daemon that hangs do not happen."""
        for _ in range(random.randint(1, 4)):
            node, gpu = random.choice(self.nodes), str(random.randrange(GPUS))
            what = random.choice(["xid", "lost", "cordon", "uncordon", "reset", "acknowledge"])
            words = {"xid": ("sim", "inject", "--gpu", gpu, "--xid", "79"),
                     "lost": ("sim", "inject", "--gpu", gpu, "--lost"),
                     "reset": ("sim", "reset", "--gpu", gpu),
                     "cordon": ("cordon", gpu, "--reason", "a test"), "uncordon": ("uncordon", gpu)}
            with contextlib.suppress(AssertionError, subprocess.TimeoutExpired, OSError, ValueError):
                node.acknowledge_all() if what == "acknowledge" else node.yard.go(*words[what])

    def mend_gpus(self):
        for node in self.nodes:
            for gpu in range(GPUS):
                node.yard.go("sim", "reset", "--gpu", str(gpu))
                node.yard.go("uncordon", str(gpu))
            node.acknowledge_all()

    def wait_until_settled(self, fault):
        def wrong():
            return {node.name: text for node in self.nodes if (text := node.differences())}

        def report():
            found = wrong()
            logs = "\n".join(f"--- {node.name}: {node.memory()}\n{node.log()[-20000:]}"
                             for node in self.nodes if node.name in found)
            return f"the fault '{fault}' has left {found}\n{logs}"
        self.settled[fault].append(wait_for(lambda: not wrong(), report))

    def run(self, minutes):
        end = time.monotonic() + minutes * 60
        while time.monotonic() < end:
            for fault in random.sample(list(self.faults), len(self.faults)):
                with self.faults[fault]():
                    self.change_gpus()
                    time.sleep(random.uniform(1, 8))
                self.change_gpus()
                self.wait_until_settled(fault)
                if time.monotonic() > end:
                    break
            self.mend_gpus()


def rule_of_another(cluster):
    """A rule without our label, as far as an agent could change it: its status is Kubernetes' own."""
    found = cluster.api.get(f"{RULES}/of-another")
    return found["metadata"]["uid"], found["spec"]


def withdraw(cluster, place):
    file = cluster.kubeconfig(cluster._tokens["administrator"], name="administrator.json")
    done = subprocess.run([PROGRAM, "kube", "withdraw", "--kubeconfig", file], env=clean_environment(place),
                          capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def objects_left(cluster):
    """Our rules, taints and conditions of all nodes."""
    nodes = cluster.api.get("/api/v1/nodes")["items"]
    return (sum("gpuyard.io/node" in one["metadata"].get("labels", {}) for one in cluster.api.get(RULES)["items"])
            + sum(taint["key"] == TAINT for one in nodes for taint in one["spec"].get("taints", []))
            + sum(one["type"] == CONDITION for node in nodes for one in node["status"].get("conditions", [])))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    asked = parser.parse_args()
    random.seed(asked.seed)
    print(f"seed {asked.seed}", flush=True)
    with (ControlPlane() as cluster, FaultyProxy(cluster) as proxy, open_directory() as place,
          contextlib.ExitStack() as ends):
        cluster.make_node("n1")
        give_rights(cluster)
        nodes = []
        for number, offer in enumerate(["dra", "dra", "dra", "kubelet"], 2):
            nodes.append(SoakNode(cluster, place, proxy, f"n{number}", offer).start())
            ends.callback(nodes[-1].end)
        cluster.taint_device("of-another", "n2", "gpu-0")
        rule = rule_of_another(cluster)
        other = OtherController(cluster, [node.name for node in nodes])
        other.start()
        soak = Soak(cluster, proxy, nodes)
        try:
            soak.run(asked.minutes)
        finally:
            other.stop()
        for fault, times in sorted(soak.settled.items()):
            print(f"{fault:<24} {len(times):>3} times, right again after at most {max(times):5.1f} s")
        met = {name: count for name, count in proxy.counts.items() if count}
        print(f"requests that the proxy failed: {met}")
        for node in nodes:
            node.kill()
        print(withdraw(cluster, place))
        changed = [node.name for node in nodes if not other.is_intact(node)]
        changed += [] if rule_of_another(cluster) == rule else ["of-another"]
        print(f"writes of another controller: {other.count}; its objects that were changed: {len(changed)} {changed}")
        print(f"objects of ours that are left: {objects_left(cluster)}")
        return 1 if changed or objects_left(cluster) else 0


if __name__ == "__main__":
    sys.exit(main())
