"""The agent beside a kubelet's own device manager and PodResources server, with a device plugin that behaves as
NVIDIA's: a node is tainted while its plugin would give a bad GPU to pods, and no longer, and a good GPU that the
plugin hides is an alert.
"""

import json
import time

import pytest

import proofs
from agent_node import TAINT, started_nodes
from agent_rights import PLUGIN, USER, give_restart_rights, give_rights, make_plugin_pod
from control_plane import ControlPlane
from kubelet_node import RESOURCE, KubeletNode, Refused
from program import wait_until

GPUS = 2


@pytest.fixture(scope="module")
def cluster():
    with ControlPlane(scheduling=False) as one:
        one.make_node("n1")
        give_rights(one)
        yield one


@pytest.fixture(scope="module")
def nodes(cluster, tmp_path_factory):
    with started_nodes(cluster, tmp_path_factory.mktemp("nodes"), ["kubelet"] * 5, GPUS) as five:
        yield five


@pytest.fixture(scope="module")
def bad_nodes(nodes):
    """Three nodes with a bad GPU 0. The plugin of the first hides it, those of the others offer it, which they may
    do for 15 s. All three at once: that is what most of the time is for."""
    three = nodes[:3]
    began = time.monotonic()
    for node in three:
        node.inject_xid(0)
    three[0].kubelet.mark_unhealthy(three[0].uuids[0])
    for node in three:
        node.wait_for_condition("False", "XidFatal")
    for node in three[1:]:
        node.wait_for_taint("xid-fatal")
        assert time.monotonic() - began > 15
    return three


def count(node):
    """The GPUs in the Node's status: its capacity, and how many are allocatable."""
    node.report()
    status = node.node()["status"]
    return int(status["capacity"][RESOURCE]), int(status["allocatable"][RESOURCE])


def test_kubelet_gives_gpus_to_pods_and_remembers_them(cluster):
    with KubeletNode(cluster.place, "alone", ["GPU-a", "GPU-b", "GPU-c"]) as kubelet:
        assert kubelet.admit("first", {"main": 1, "sidecar": 0}) == {"main": ["GPU-a"]}
        assert kubelet.admit("second", {"left": 1, "right": 1}) == {"left": ["GPU-b"], "right": ["GPU-c"]}
        with pytest.raises(Refused, match="UnexpectedAdmissionError: .* Requested: 1, Available: 0"):
            kubelet.admit("third", {"main": 1})
        kubelet.remove("first")
        kubelet.stop()
        assert kubelet.resources() is None
        kubelet.start()
        kubelet.list_pods()
        assert kubelet.admit("third", {"main": 1}) == {"main": ["GPU-a"]}
        kubelet.mark_unhealthy("GPU-b")
        kubelet.wait_for_allocatable(2)
        kubelet.start_plugin()
        assert kubelet.resources() == {"capacity": {RESOURCE: 3}, "allocatable": {RESOURCE: 3}}
    proofs.record("Kubernetes device manager", "ran")


def test_bad_gpu_that_the_plugin_hides_taints_no_node(bad_nodes):
    node = bad_nodes[0]
    assert TAINT not in node.taints()  # 15 s later, since the other nodes are tainted
    assert count(node) == (2, 1)
    assert node.kubelet.admit("training", {"main": 1}) == {"main": [node.uuids[1]]}


def test_bad_gpu_that_the_plugin_offers_taints_the_node_until_it_is_hidden(bad_nodes):
    node = bad_nodes[1]
    assert node.kubelet.admit("training", {"main": 2}) == {"main": sorted(node.uuids)}
    assert count(node) == (2, 2)
    node.kubelet.mark_unhealthy(node.uuids[0])
    node.wait_for_taint(None)
    assert node.condition() == ("False", "XidFatal")


@pytest.mark.slow
def test_restart_of_the_kubelet_changes_no_taint(bad_nodes):
    node = bad_nodes[2]
    node.kubelet.stop()
    wait_until(lambda: "until it answers" in node.log(), "the agent to find no kubelet")
    node.kubelet.start(plugin=False)
    assert count(node) == (0, 0)
    wait_until(lambda: "the kubelet answers again" in node.log(), "the agent to get its list, which is empty")
    time.sleep(1)
    assert node.taints() == {TAINT: "xid-fatal"}
    node.kubelet.start_plugin()
    time.sleep(6)  # the agent asks every 5 s
    assert node.taints() == {TAINT: "xid-fatal"}


def test_lost_gpu_that_ends_the_plugin_taints_the_node_until_it_is_back(nodes):
    node = nodes[3]
    node.lose(0)
    node.kubelet.lose(node.uuids[0])
    node.wait_for_taint("gpu-lost")
    with pytest.raises(Refused, match="UnexpectedAdmissionError: .* GPU is lost"):
        node.kubelet.admit("training", {"main": 1})  # though it would get the other GPU
    node.kubelet.stop_plugin()
    with pytest.raises(Refused, match="GPU is lost"):
        node.kubelet.start_plugin()
    assert count(node) == (2, 0)
    time.sleep(6)  # the agent asks every 5 s, and finds no GPU
    assert node.taints() == {TAINT: "gpu-lost"}
    node.reset(0)
    node.kubelet.find(node.uuids[0])
    node.kubelet.start_plugin()
    node.wait_for_taint(None)
    assert count(node) == (2, 2)
    assert node.kubelet.admit("training", {"main": 1}) == {"main": [min(node.uuids)]}


def hidden_gpus(node):
    """The GPUs with the alert plugin-disagrees, by their index."""
    alerts = json.loads(node.yard.must("alerts", "--json"))["alerts"]
    return [one["gpu"]["index"] for one in alerts if one["rule"] == "plugin-disagrees"]


@pytest.mark.slow
def test_good_gpu_that_the_plugin_hides_is_an_alert_until_the_plugin_restarts(nodes):
    node = nodes[4]
    assert hidden_gpus(node) == []
    node.kubelet.mark_unhealthy(node.uuids[0])
    wait_until(lambda: hidden_gpus(node) == [0], lambda: f"the alert, not {hidden_gpus(node)}:\n{node.log()}")
    assert node.condition()[0] == "True" and TAINT not in node.taints()
    node.kubelet.stop()
    wait_until(lambda: "until it answers" in node.log(), "the agent to find no kubelet")
    assert hidden_gpus(node) == [0]
    node.kubelet.start()
    wait_until(lambda: not hidden_gpus(node), lambda: f"the end of the alert:\n{node.log()}")


# The restart of the plugin.

def is_being_deleted(cluster, path):
    return "deletionTimestamp" in cluster.api.get(path)["metadata"]


@pytest.mark.slow
def test_plugin_that_hides_a_good_gpu_is_restarted_once_an_hour(cluster, tmp_path):
    give_restart_rights(cluster)
    start = len(cluster.audit.writes())
    with started_nodes(cluster, tmp_path, ["kubelet"], GPUS, ("--restart-plugin", PLUGIN), first=10) as (node,):
        pod = make_plugin_pod(cluster, node.name)
        foreign = [make_plugin_pod(cluster, "n1"), make_plugin_pod(cluster, node.name, "exporter", app="exporter")]
        # A fault that the daemon and the plugin notice, and that is over for the daemon alone.
        node.inject_xid(0)
        node.kubelet.mark_unhealthy(node.uuids[0])
        node.wait_for_condition("False", "XidFatal")
        node.acknowledge_all()
        wait_until(lambda: hidden_gpus(node) == [0], lambda: f"the alert:\n{node.log()}")
        wait_until(lambda: is_being_deleted(cluster, pod), lambda: f"the plugin's end:\n{node.log()}")
        assert f"deleted pod gpu-operator/plugin-{node.name} of node {node.name}" in node.log()
        # What the kubelet and the DaemonSet's controller do.
        cluster.api.delete(pod)
        node.kubelet.start_plugin()
        make_plugin_pod(cluster, node.name)
        wait_until(lambda: not hidden_gpus(node), lambda: f"the end of the alert:\n{node.log()}")
        # A second time within the hour: the alert fires, and an administrator has to act.
        node.kubelet.mark_unhealthy(node.uuids[1])
        wait_until(lambda: hidden_gpus(node) == [1], lambda: f"the second alert:\n{node.log()}")
        node.kill()
        node.start("--restart-plugin", PLUGIN)  # which has its predecessor's memory
        time.sleep(20)  # it would read the alerts every 15 s
        deleted = [one.name for one in cluster.audit.writes(USER, since=start) if one.resource == "pods"]
        assert deleted == [f"plugin-{node.name}"]
        assert not any(is_being_deleted(cluster, path) for path in [pod, *foreign])
