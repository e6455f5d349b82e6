"""A cluster of eight nodes with a real scheduler: four have a DRA driver, four a device plugin that behaves as
NVIDIA's, on the kubelet's own device manager. Faults on several nodes at once: no pod gets a sick GPU, none waits
longer than the fault, and none is rejected by a node that has one.
"""

import itertools
import json
import time

import pytest

from agent_node import started_nodes
from agent_rights import give_rights
from cluster_objects import namespaced
from control_plane import ControlPlane
from kubelet_node import RESOURCE
from kubelet_sync import KubeletSync
from program import wait_until

GPUS = 2


@pytest.fixture(scope="module")
def cluster():
    with ControlPlane() as one:
        one.make_device_class()
        # For pods of agents alone: without GPUs.
        one.make_node("n1")
        give_rights(one)
        yield one


@pytest.fixture(scope="module")
def nodes(cluster, tmp_path_factory):
    offers = ["dra"] * 4 + ["kubelet"] * 4
    with started_nodes(cluster, tmp_path_factory.mktemp("nodes"), offers, GPUS) as eight:
        yield eight


@pytest.fixture(scope="module")
def claiming(nodes):
    return nodes[:4]


@pytest.fixture(scope="module")
def plugged(nodes):
    for node in nodes[4:]:
        node.kubelet.admit("agent", {"agent": 0}, namespace="gpuyard")  # a list without any pod is not trusted
    return nodes[4:]


def test_claims_go_to_the_other_gpu_of_each_node_and_wait_for_two(cluster, claiming):
    for node in claiming:
        node.inject_xid(0)
    for node in claiming:
        node.wait_for_rules({"gpu-0": "xid-fatal"})
        cluster.make_pod(f"one-{node.name}", gpus=1, host=node.name)
    for node in claiming:
        assert cluster.wait_for_devices(f"one-{node.name}") == {(node.name, "gpu-1")}
        cluster.end_pod(f"one-{node.name}")
        cluster.make_pod(f"two-{node.name}", gpus=2, host=node.name)
    for node in claiming:
        wait_until(lambda: cluster.why_pending(f"two-{node.name}"), "the scheduler to find too few devices")
    began = time.monotonic()
    for node in claiming:
        node.acknowledge_all()
    for node in claiming:
        assert cluster.wait_for_devices(f"two-{node.name}") == {(node.name, "gpu-0"), (node.name, "gpu-1")}
    assert time.monotonic() - began < 60  # the scheduler's own back-off is 10 s at most
    for node in claiming:
        cluster.end_pod(f"two-{node.name}")


NUMBERS = itertools.count()


def replace_rejected(cluster, sync, wanted):
    """As a ReplicaSet does: each pod that has failed is replaced, until `wanted` pods run. Returns these."""
    alive = set()

    def all_run():
        found = {one["metadata"]["name"]: one["status"]["phase"] for one in cluster.api.get(namespaced("pods"))["items"]
                 if one["metadata"]["name"].startswith("replica-")}
        for name, phase in found.items():
            if phase == "Failed":
                cluster.end_pod(name)
        alive.clear()
        alive.update(name for name, phase in found.items() if phase in ("Pending", "Running"))
        for _ in range(wanted - len(alive)):
            cluster.make_pod(f"replica-{next(NUMBERS)}", gpus=1, resource=RESOURCE)
        return len(alive) == wanted and all(found[name] == "Running" for name in alive)
    wait_until(all_run, lambda: f"{wanted} running pods; rejected {sync.rejected}, waiting {waiting_pods(cluster)}", every=0.2)
    return {name: sync.admitted[name] for name in alive}


def waiting_pods(cluster):
    """Why the scheduler has no node for each pod that waits."""
    names = [one["metadata"]["name"] for one in cluster.api.get(namespaced("pods"))["items"]]
    return {name: reason for name in names if (reason := cluster.why_pending(name))}


def remove_pods(cluster, sync, pods):
    for name in pods:
        cluster.end_pod(name)
    wait_until(lambda: not set(pods) & set(sync.admitted), "the kubelets to remove the pods")


def test_pods_of_a_device_plugin_go_elsewhere_until_the_lost_gpu_is_back(cluster, plugged):
    broken, healthy = plugged[0], {node.name for node in plugged[1:]}
    sync = KubeletSync(cluster, plugged)
    with sync.running():
        pods = replace_rejected(cluster, sync, GPUS * len(plugged))
        assert sorted(pods.values()) == sorted([node.name for node in plugged] * GPUS) and not sync.rejected
        remove_pods(cluster, sync, pods)

        # Without its agent the node attracts pod after pod, since the ones that it rejects use nothing.
        broken.kill()
        broken.lose(0)
        broken.kubelet.lose(broken.uuids[0])
        began = time.monotonic()
        while time.monotonic() - began < 5:
            cluster.make_pod(name := f"replica-{next(NUMBERS)}", gpus=1, resource=RESOURCE, host=broken.name)
            wait_until(lambda: (name, broken.name) in sync.rejected, "the node to reject the pod")
            cluster.end_pod(name)
        assert len(sync.rejected) > 3
        print(f"rejected in 5 s without the agent: {len(sync.rejected)}")

        # With it, pods go to the other nodes, and one that fits nowhere waits.
        broken.start()
        broken.wait_for_taint("gpu-lost")
        sync.rejected.clear()
        pods = replace_rejected(cluster, sync, GPUS * len(healthy))
        assert set(pods.values()) == healthy
        cluster.make_pod("waiting", gpus=1, resource=RESOURCE)
        reason = wait_until(lambda: cluster.why_pending("waiting"), "the scheduler to find no GPU")
        assert "1 node(s) had untolerated taint" in reason, reason
        time.sleep(3)
        assert not sync.rejected

        # Back: the plugin starts again, the taint goes, and the pod that waits runs there.
        broken.reset(0)
        broken.kubelet.find(broken.uuids[0])
        broken.kubelet.start_plugin()
        broken.wait_for_taint(None)
        wait_until(lambda: sync.admitted.get("waiting") == broken.name, lambda: cluster.why_pending("waiting"))
        remove_pods(cluster, sync, [*pods, "waiting"])
        assert not sync.rejected


def pods_with_energy(node):
    rows = json.loads(node.yard.must("usage", "--by", "pod", "--json"))["rows"]
    return {row["key"] for row in rows if row["energy_kwh"]}


def test_pods_have_their_leases_on_their_nodes_and_their_joules(cluster, plugged):
    sync = KubeletSync(cluster, plugged)

    def leased():
        found = {}
        for node in plugged:
            pods = node.yard.daemon.get("/api/gpu/pods", unix=True).json()["pods"]
            found |= {one["pod"]: node.name for one in pods if one["state"] == "held"}
        return found

    with sync.running():
        pods = replace_rejected(cluster, sync, GPUS * len(plugged))
        wanted = {f"default/{name}": node for name, node in pods.items()}
        wait_until(lambda: leased() == wanted, lambda: f"the leases {wanted}, not {leased()}")
        for node in plugged:
            mine = {name for name, where in wanted.items() if where == node.name}
            wait_until(lambda: mine <= pods_with_energy(node), lambda: f"the energy of {mine}: {pods_with_energy(node)}")
        remove_pods(cluster, sync, pods)
        wait_until(lambda: not leased(), lambda: f"the end of the leases, not {leased()}")
