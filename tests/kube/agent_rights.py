"""The rights of the Kubernetes agent, as the manifest has them, in a real cluster; and agents' tokens."""

from pathlib import Path

import pytest

from cluster_objects import RBAC, RESOURCE, namespaced
from kube_api import PATCHES
from program import wait_until

MANIFEST = Path(__file__).resolve().parents[2] / "packaging/kubernetes/daemonset_agent.yaml"
ADMISSION = "/apis/admissionregistration.k8s.io/v1"
POLICIES = f"{ADMISSION}/validatingadmissionpolicies"
PATHS = {
    "Namespace": "/api/v1/namespaces",
    "ServiceAccount": "/api/v1/namespaces/gpuyard/serviceaccounts",
    "ClusterRole": f"{RBAC}/clusterroles",
    "ClusterRoleBinding": f"{RBAC}/clusterrolebindings",
    "Role": f"{RBAC}/namespaces/default/roles",
    "RoleBinding": f"{RBAC}/namespaces/default/rolebindings",
    "ValidatingAdmissionPolicy": POLICIES,
    "ValidatingAdmissionPolicyBinding": f"{ADMISSION}/validatingadmissionpolicybindings",
}
ACCOUNT = NAMESPACE = "gpuyard"
USER = f"system:serviceaccount:{NAMESPACE}:{ACCOUNT}"
NO_NODE = "the agent's token must have the claim"


def objects_of_manifest():
    yaml = pytest.importorskip("yaml", reason="PyYAML is missing")
    found = [one for one in yaml.safe_load_all(MANIFEST.read_text(encoding="utf-8")) if one]
    return [one for one in found if one["kind"] in PATHS]


def give_rights(cluster):
    """Creates the agent's account, its role and its policies, and waits until these are in effect. Needs a Node n1."""
    for one in objects_of_manifest():
        cluster.api.create(PATHS[one["kind"]], one)
    # A policy takes a moment. Then it refuses every change of a token that names no node.
    unbound = cluster.api.as_owner_of(cluster.make_token(ACCOUNT, namespace=NAMESPACE))
    rule = f"{RESOURCE}/devicetaintrules/probe"

    def changes_label():
        return unbound.request("PATCH", "/api/v1/nodes/n1", {"metadata": {"labels": {}}}, PATCHES["merge"])

    def deletes_rule():
        if cluster.api.request("GET", rule).status == 404:
            cluster.taint_device("probe", node="none", device_name="none")
        return unbound.request("DELETE", rule)

    def writes_event():
        return unbound.request("POST", namespaced("events"), {
            "metadata": {"generateName": "probe."}, "involvedObject": {"kind": "Node", "name": "n1"}})

    for change in (changes_label, deletes_rule, writes_event):
        wait_until(lambda: NO_NODE in change().text, "the policies to be in effect", every=0.1)
    cluster.api.delete(rule)


def token_of_agent(cluster, node):
    """A token that is bound to the agent's pod on this node."""
    pod = f"agent-{node[:30]}"
    cluster.make_pod(pod, node=node, account=ACCOUNT, namespace=NAMESPACE)
    return cluster.make_token(ACCOUNT, pod=pod, namespace=NAMESPACE)


def agent_of(cluster, node):
    """The API as the agent of this node has it."""
    return cluster.api.as_owner_of(token_of_agent(cluster, node))
