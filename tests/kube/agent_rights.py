"""The rights of the Kubernetes agent, as the manifest has them, in a real cluster; and agents' tokens."""

import time
from pathlib import Path

import pytest

from cluster_objects import RBAC, namespaced
from kube_api import PATCHES
from program import wait_until

MANIFESTS = Path(__file__).resolve().parents[2] / "packaging/kubernetes"
MANIFEST = MANIFESTS / "daemonset_agent.yaml"
RESTART_MANIFEST = MANIFESTS / "agent_restart.yaml"
PLUGIN_NAMESPACE, PLUGIN_APP = "gpu-operator", "nvidia-device-plugin-daemonset"
PLUGIN = f"{PLUGIN_NAMESPACE}/app={PLUGIN_APP}"  # of --restart-plugin
ADMISSION = "/apis/admissionregistration.k8s.io/v1"
POLICIES = f"{ADMISSION}/validatingadmissionpolicies"
PATHS = {
    "Namespace": "/api/v1/namespaces",
    "ServiceAccount": "/api/v1/namespaces/gpuyard/serviceaccounts",
    "ClusterRole": f"{RBAC}/clusterroles",
    "ClusterRoleBinding": f"{RBAC}/clusterrolebindings",
    "Role": f"{RBAC}/namespaces/{{namespace}}/roles",
    "RoleBinding": f"{RBAC}/namespaces/{{namespace}}/rolebindings",
    "ValidatingAdmissionPolicy": POLICIES,
    "ValidatingAdmissionPolicyBinding": f"{ADMISSION}/validatingadmissionpolicybindings",
}
ACCOUNT = NAMESPACE = "gpuyard"
USER = f"system:serviceaccount:{NAMESPACE}:{ACCOUNT}"
NO_NODE = "the agent's token must have the claim"


def objects_of_manifest(manifest=MANIFEST):
    yaml = pytest.importorskip("yaml", reason="PyYAML is missing")
    found = [one for one in yaml.safe_load_all(manifest.read_text(encoding="utf-8")) if one]
    return [one for one in found if one["kind"] in PATHS]


def create_all(cluster, objects):
    for one in objects:
        cluster.api.create(PATHS[one["kind"]].format(namespace=one["metadata"].get("namespace")), one)


def give_rights(cluster):
    """Creates the agent's account, its role and its policies, and waits until these are in effect. Needs a Node n1."""
    create_all(cluster, objects_of_manifest())
    # A policy takes a moment. Then it refuses every change of a token that names no node.
    unbound = cluster.api.as_owner_of(cluster.make_token(ACCOUNT, namespace=NAMESPACE))
    rule = f"{cluster.rules}/probe"

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


def give_restart_rights(cluster):
    """Creates what --restart-plugin needs besides, and waits until it is in effect. Needs give_rights()."""
    cluster.api.create("/api/v1/namespaces", {"metadata": {"name": PLUGIN_NAMESPACE}})
    create_all(cluster, objects_of_manifest(RESTART_MANIFEST))
    unbound = cluster.api.as_owner_of(cluster.make_token(ACCOUNT, namespace=NAMESPACE))
    probe = f"{namespaced('pods', PLUGIN_NAMESPACE)}/probe"

    def deletes_pod():
        if cluster.api.request("GET", probe).status == 404:
            cluster.make_pod("probe", namespace=PLUGIN_NAMESPACE)
        # At once: no policy judges the deletion of a pod that is already being deleted.
        return unbound.request("DELETE", probe, {"gracePeriodSeconds": 0})

    wait_until(lambda: NO_NODE in deletes_pod().text, "the policy of the restart to be in effect", every=0.1)
    cluster.api.delete(probe)


def make_plugin_pod(cluster, node, name=None, app=PLUGIN_APP, namespace=PLUGIN_NAMESPACE, owned=True):
    """Creates the device plugin's Pod of this node, as if a DaemonSet had done so and the node's kubelet had started
    it an hour ago. Returns its path. There is no such DaemonSet: where controllers run, they would delete its Pod."""
    name = name or f"plugin-{node}"
    path = f"{namespaced('pods', namespace)}/{name}"
    owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": PLUGIN_APP, "controller": True,
             "uid": "00000000-0000-4000-8000-000000000001"}
    cluster.api.create(namespaced("pods", namespace), {
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": app}, "ownerReferences": [owner] if owned else []},
        "spec": {"nodeName": node, "automountServiceAccountToken": False,
                 "containers": [{"name": "plugin", "image": "none"}]}})
    started = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() - 3600))
    cluster.api.patch(f"{path}/status", {"status": {"phase": "Running", "startTime": started}})
    return path


def token_of_agent(cluster, node):
    """A token that is bound to the agent's pod on this node."""
    pod = f"agent-{node[:30]}"
    cluster.make_pod(pod, node=node, account=ACCOUNT, namespace=NAMESPACE)
    return cluster.make_token(ACCOUNT, pod=pod, namespace=NAMESPACE)


def agent_of(cluster, node):
    """The API as the agent of this node has it."""
    return cluster.api.as_owner_of(token_of_agent(cluster, node))
