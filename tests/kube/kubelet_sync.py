"""The part of a kubelet that takes its node's pods from the API server: it admits each pod that the scheduler
has bound, writes what became of it, and lets go of those that were deleted. The device manager and the plugin
that decide are real (kubelet_node.py).

    sync = KubeletSync(cluster, nodes)
    with sync.running():
        cluster.make_pod("training", gpus=1, resource=RESOURCE)
        ...
    sync.rejected                       # [("training", "n2")]
"""

import contextlib
import threading

from cluster_objects import namespaced
from kubelet_node import Refused

PODS = namespaced("pods")


class KubeletSync:
    """Of AgentNodes with offer="kubelet". Pods of other nodes, and of agents, are left alone."""

    def __init__(self, cluster, nodes):
        self.cluster = cluster
        self.nodes = {node.name: node for node in nodes}
        self.admitted = {}  # the node of each running pod, by the pod's name
        self.rejected = []  # (pod, node), in their order

    @contextlib.contextmanager
    def running(self, every=0.1):
        """Syncs in a thread of its own."""
        end = threading.Event()
        failures = []

        def loop():
            try:
                while not end.wait(every):
                    self.run_once()
            except Exception as error:  # pylint: disable=broad-except  # raised below, in the test's thread
                failures.append(error)
        thread = threading.Thread(target=loop)
        thread.start()
        try:
            yield self
        finally:
            end.set()
            thread.join()
            if failures:
                raise failures[0]

    def run_once(self):
        """Writes each node's resources, and what became of its pods."""
        for node in self.nodes.values():
            node.report()
        found = {one["metadata"]["name"]: one for one in self.cluster.api.get(PODS)["items"]}
        for name in set(self.admitted) - set(found):
            self.nodes[self.admitted.pop(name)].kubelet.remove(name)
        for name, pod in found.items():
            node = pod["spec"].get("nodeName")
            if node in self.nodes and pod["status"]["phase"] == "Pending":
                self._admit(name, node, pod)

    def _admit(self, name, node, pod):
        gpus = {one["name"]: int(one.get("resources", {}).get("limits", {}).get("nvidia.com/gpu", 0))
                for one in pod["spec"]["containers"]}
        try:
            self.nodes[node].kubelet.admit(name, gpus)
        except Refused as refusal:
            self.rejected.append((name, node))
            status = {"phase": "Failed", "reason": "UnexpectedAdmissionError", "message": str(refusal)}
        else:
            self.admitted[name] = node
            status = {"phase": "Running"}
        answer = self.cluster.api.request("PATCH", f"{PODS}/{name}/status", {"status": status},
                                          "application/strategic-merge-patch+json")
        assert answer.status in (200, 404), answer.text  # it may have been deleted meanwhile
