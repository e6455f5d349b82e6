"""The rig itself: that a real API server and a real scheduler do with a node's GPUs what the agent counts
on, that the parts go away and come back, and that nothing is left of them.
"""

import base64
import http.client
import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

import proofs
from control_plane import ControlPlane, programs
from kube_api import Refused
from program import runs, wait_until

SHORT_LIFE = """
import sys
sys.path[:0] = {path!r}
from control_plane import ControlPlane
cluster = ControlPlane()
print(cluster.place.folder, *cluster.place.pids(), flush=True)
input()
"""
READ_NODES = {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get"]}


@pytest.fixture(scope="module")
def cluster():
    with ControlPlane() as one:
        one.make_device_class()
        one.make_node("n1")
        one.put_devices("n1", ["GPU-a", "GPU-b"])
        yield one


def test_claim_avoids_tainted_device_until_rule_goes(cluster):
    proofs.record("Kubernetes", "ran")
    cluster.taint_device("n1-gpu-0", node="n1", device_name="gpu-0")
    cluster.make_pod("first", gpus=1)
    assert cluster.wait_for_devices("first") == {("n1", "gpu-1")}
    cluster.make_pod("second", gpus=1)
    wait_until(lambda: cluster.why_pending("second"), "the scheduler to find no device")
    assert not cluster.devices_of("second")
    cluster.untaint_device("n1-gpu-0")
    assert cluster.wait_for_devices("second") == {("n1", "gpu-0")}
    for pod in ("first", "second"):
        cluster.end_pod(pod)


def test_rule_ends_with_the_node_that_owns_it(cluster):
    uid = cluster.make_node("n2")["metadata"]["uid"]
    rule = cluster.taint_device("n2-gpu-0", node="n2", device_name="gpu-0")
    path = f"/apis/resource.k8s.io/v1/devicetaintrules/{rule['metadata']['name']}"
    cluster.api.patch(path, {"metadata": {"ownerReferences": [
        {"apiVersion": "v1", "kind": "Node", "name": "n2", "uid": uid}]}}, "merge")
    cluster.api.delete("/api/v1/nodes/n2")
    wait_until(lambda: cluster.api.request("GET", path).status == 404, "the rule to be collected")


def test_token_of_pod_carries_its_node(cluster):
    user = cluster.make_account("agent", [READ_NODES])
    cluster.make_pod("agent", node="n1", account="agent")
    token = cluster.make_token("agent", pod="agent")
    known = cluster.user_of(token)
    assert known["username"] == user == "system:serviceaccount:default:agent"
    assert known["extra"]["authentication.kubernetes.io/node-name"] == ["n1"]
    node = cluster.api.get("/api/v1/nodes/n1")
    assert known["extra"]["authentication.kubernetes.io/node-uid"] == [node["metadata"]["uid"]]
    assert "authentication.kubernetes.io/node-name" not in cluster.user_of(cluster.make_token("agent"))["extra"]

    agent = cluster.api.as_owner_of(token)
    assert agent.get("/api/v1/nodes/n1")["metadata"]["name"] == "n1"
    with pytest.raises(Refused) as refused:
        agent.patch("/api/v1/nodes/n1", {"metadata": {"labels": {"a": "b"}}})
    assert (refused.value.status, refused.value.reason) == (403, "Forbidden")

    def refusals():
        return [one for one in cluster.audit.writes(user) if one.resource == "nodes"]
    (write,) = wait_until(refusals, "the refusal in the audit log")
    assert (write.verb, write.name, write.status) == ("patch", "n1", 403)
    cluster.end_pod("agent")


def test_condition_is_added_beside_ready(cluster):
    before = len(cluster.audit.writes())
    cluster.api.patch("/api/v1/nodes/n1/status", {"status": {"conditions": [
        {"type": "GpuHealthy", "status": "False", "reason": "GpuLost", "message": "GPU 0"}]}})
    found = cluster.api.get("/api/v1/nodes/n1")["status"]["conditions"]
    assert {"Ready": "True", "GpuHealthy": "False"}.items() <= {one["type"]: one["status"] for one in found}.items()
    by_user = wait_until(lambda: cluster.audit.writes_by_user(since=before), "the write in the audit log")
    assert by_user["administrator"] == 1


def test_kubeconfig_names_server_ca_and_token(cluster):
    path = cluster.kubeconfig("a token")
    config = json.loads(Path(path).read_text())
    server = config["clusters"][0]["cluster"]
    assert server["server"] == cluster.api.url and config["users"][0]["user"] == {"token": "a token"}
    assert base64.b64decode(server["certificate-authority-data"]).decode() == cluster.api.ca_pem


def test_parts_go_away_and_come_back(cluster):
    with cluster.api_server.hanging():
        with pytest.raises(TimeoutError):
            cluster.api.request("GET", "/readyz", timeout=1)
    cluster.api_server.wait()
    with cluster.api_server.killed():
        with pytest.raises(OSError):
            cluster.api.get("/api/v1/nodes/n1")
    assert cluster.api.get("/api/v1/nodes/n1")["metadata"]["name"] == "n1"
    with cluster.scheduler.killed():
        cluster.make_pod("waiting", gpus=1)
    cluster.wait_for_devices("waiting")
    cluster.end_pod("waiting")


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
