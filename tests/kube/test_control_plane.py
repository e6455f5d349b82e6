"""The rig itself: that it collects rules as the agent counts on, and that nothing is left of it."""

import subprocess
import sys
from pathlib import Path

from control_plane import ControlPlane, programs
from program import runs, wait_until

SHORT_LIFE = """
import sys
sys.path[:0] = {path!r}
from control_plane import ControlPlane
cluster = ControlPlane()
print(cluster.place.folder, *cluster.place.pids(), flush=True)
input()
"""


def test_rule_ends_with_the_node_that_owns_it():
    with ControlPlane() as cluster:
        uid = cluster.make_node("n2")["metadata"]["uid"]
        rule = cluster.taint_device("n2-gpu-0", node="n2", device_name="gpu-0")
        path = f"/apis/resource.k8s.io/v1/devicetaintrules/{rule['metadata']['name']}"
        cluster.api.patch(path, {"metadata": {"ownerReferences": [
            {"apiVersion": "v1", "kind": "Node", "name": "n2", "uid": uid}]}}, "merge")
        cluster.api.delete("/api/v1/nodes/n2")
        wait_until(lambda: cluster.api.request("GET", path).status == 404, "the rule to be collected")


def test_killed_control_plane_leaves_nothing():
    programs()  # the other process could only fail
    words = SHORT_LIFE.format(path=[str(Path(__file__).parent), *sys.path])
    one = subprocess.Popen([sys.executable, "-c", words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    folder, *pids = one.stdout.readline().split()
    names = {Path(f"/proc/{pid}/comm").read_text().strip() for pid in pids}
    assert names == {"etcd", "kube-apiserver", "kube-scheduler", "kube-controller"}
    one.kill()
    one.communicate()
    wait_until(lambda: not any(map(runs, pids)), "every program to end")
    wait_until(lambda: not Path(folder).exists(), "its folder to be removed")
