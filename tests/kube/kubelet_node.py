"""A node's kubelet as far as its GPUs go, on tests/kube/node: the device manager and the PodResources server of
Kubernetes' own, and a device plugin that behaves as NVIDIA's.

    with KubeletNode(cluster.place, "n1", ["GPU-a", "GPU-b"]) as kubelet:
        assert kubelet.admit("training", {"main": 2}) == {"main": ["GPU-a", "GPU-b"]}
        kubelet.mark_unhealthy("GPU-a")        # until the plugin starts again
        kubelet.wait_for_allocatable(1)
        kubelet.stop_plugin()
"""

import json
import subprocess
import threading
from pathlib import Path

import pytest

from program import PATIENCE, wait_until

BUILT = Path(__file__).resolve().parents[2] / "tools/kube_kubelet_node.sh"
RESOURCE = "nvidia.com/gpu"


def program():
    """Returns its path. Skips a test where it is not built."""
    done = subprocess.run([BUILT], capture_output=True, text=True, check=False)
    if done.returncode == 3:
        pytest.skip(done.stderr)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


class Refused(Exception):
    """A request that the kubelet or the plugin has refused, with its words."""


class KubeletNode:
    """Of a Place, whose end is its end too. `socket` is that of PodResources. Both parts run from the start.
    Thread: any."""

    def __init__(self, place, name, uuids):
        words = [program(), "-v=2", place.outside(f"kubelet-{name}"), *uuids]
        self.socket = str(words[2] / "pod-resources/kubelet.sock")
        self._log = place.outside(f"kubelet-{name}.log")
        with open(self._log, "ab") as log:
            self.process = place.popen(*words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True)
        self._one_at_a_time = threading.Lock()
        self._count = len(uuids)
        self.wait_for_allocatable(self._count)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end()

    def end(self):
        self.process.kill()
        self.process.wait(PATIENCE)
        self.process.stdin.close()
        self.process.stdout.close()

    def log(self):
        return self._log.read_text(encoding="utf-8")

    def _ask(self, do, **words):
        with self._one_at_a_time:
            self.process.stdin.write(json.dumps({"do": do, **words}) + "\n")
            self.process.stdin.flush()
            line = self.process.stdout.readline()
        assert line, f"the kubelet ended:\n{self.log()}"
        answer = json.loads(line)
        if "error" in answer:
            raise Refused(answer["error"])
        return answer["answer"]

    # Pods.

    def admit(self, name, gpus, namespace="default"):
        """Admits a pod that wants so many GPUs for each of its containers: {"main": 2}. Returns the UUIDs that each
        container has got. It runs until it is removed."""
        containers = [{"name": container, "gpus": count} for container, count in gpus.items()]
        return self._ask("admit", namespace=namespace, name=name, containers=containers)

    def remove(self, name, namespace="default"):
        self._ask("remove", namespace=namespace, name=name)

    # The kubelet.

    def stop(self):
        """With its sockets; pods run on."""
        self._ask("stop kubelet")

    def start(self, plugin=True):
        """Starts it again. It lists no GPU until the plugin has started again as well, as NVIDIA's does when it
        finds a new socket of the kubelet, and no pod before list_pods()."""
        self._ask("start kubelet")
        if plugin:
            self.start_plugin()

    def list_pods(self):
        """The kubelet gets its pods from the API server."""
        self._ask("list pods")

    def resources(self):
        """Returns what it would write into its Node's status, {"capacity": {"nvidia.com/gpu": 2}, "allocatable":
        ...}; None while it does not run."""
        return self._ask("resources")

    def wait_for_allocatable(self, count):
        wait_until(lambda: self.resources()["allocatable"].get(RESOURCE, 0) == count,
                   lambda: f"{count} allocatable GPUs, not {self.resources()}:\n{self.log()}")

    # The plugin.

    def mark_unhealthy(self, uuid):
        """The plugin finds the GPU unhealthy, until it starts again."""
        self._ask("mark unhealthy", gpu=uuid)

    def lose(self, uuid):
        """The driver has lost the GPU: the plugin fails for every pod, and cannot start, until find()."""
        self._ask("lose", gpu=uuid)

    def find(self, uuid):
        self._ask("find", gpu=uuid)

    def stop_plugin(self):
        self._ask("stop plugin")
        if self.resources():
            self.wait_for_allocatable(0)

    def start_plugin(self):
        """Starts it, or starts it again, with every GPU healthy."""
        self.stop_plugin()
        self._ask("start plugin")
        self.wait_for_allocatable(self._count)
