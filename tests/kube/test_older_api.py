"""The agent at an API server that serves device taints as resource.k8s.io/v1beta2 only, as Kubernetes 1.36 does where
they are switched on: beside v1 for all else, and alone.
"""

import subprocess

import pytest

from agent_node import AgentNode
from agent_rights import give_rights
from cluster_objects import ClusterObjects
from control_plane import ControlPlane
from program import PROGRAM, clean_environment

BETA = "resource.k8s.io/v1beta2"
SERVED = {
    "beside v1": "resource.k8s.io/v1/devicetaintrules=false",
    "alone": "resource.k8s.io/v1=false",
}


class OlderControlPlane(ControlPlane):
    rules = f"/apis/{BETA}/devicetaintrules"

    def __init__(self, served):
        if served == "alone":
            self.slices = f"/apis/{BETA}/resourceslices"
        super().__init__(scheduling=False, flags={"runtime-config": f"{BETA}=true,{SERVED[served]}"})


@pytest.fixture(params=SERVED)
def cluster(request):
    with OlderControlPlane(request.param) as one:
        assert one.api.request("GET", ClusterObjects.rules).status == 404
        one.make_node("n1")
        give_rights(one)
        yield one


def administer(cluster, tmp_path, *words):
    file = cluster.kubeconfig(cluster._tokens["administrator"], name="administrator.json")
    return subprocess.run([PROGRAM, "kube", *words, "--kubeconfig", file], env=clean_environment(tmp_path),
                          capture_output=True, text=True, timeout=60, check=True).stdout


def test_older_api_taints_a_lost_gpu_until_it_is_back(cluster, tmp_path, daemon):
    node = AgentNode(cluster, tmp_path / "node", daemon, name="n2")
    try:
        node.start()
        node.wait_for_condition("True", "GPUsGood")
        node.lose(0)
        node.wait_for_condition("False", "GpuLost")
        node.wait_for_rules({"gpu-0": "gpu-lost"})
        assert f"Device taints: {BETA}" in administer(cluster, tmp_path, "status")
        node.reset(0)
        node.wait_for_rules({})
        node.wait_for_condition("True")
        node.lose(1)
        node.wait_for_rules({"gpu-1": "gpu-lost"})
        node.kill()
        assert "device taint rules 1" in administer(cluster, tmp_path, "withdraw", "--node", "n2")
        assert node.rules() == {}
    finally:
        node.end()
