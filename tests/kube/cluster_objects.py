"""What a test puts into a cluster: nodes and their GPUs, pods that want some, accounts. No kubelet runs:
what it would write is written here."""

import json

from program import wait_until

DRIVER = "gpu.nvidia.com"  # of NVIDIA's DRA driver, and the name of its class
RESOURCE = "/apis/resource.k8s.io/v1"
RBAC = "/apis/rbac.authorization.k8s.io/v1"


def namespaced(kind, namespace="default"):
    """The path of pods, serviceaccounts and the like."""
    return f"/api/v1/namespaces/{namespace}/{kind}"


def claims(namespace="default"):
    return f"{RESOURCE}/namespaces/{namespace}/resourceclaims"


def version_of(path):
    """The `apiVersion` of the objects of a path."""
    return "/".join(path.split("/")[2:4])


def device(name, uuid):
    return {"name": name, "attributes": {"uuid": {"string": uuid}, "type": {"string": "gpu"}}}


class ClusterObjects:
    """Part of a ControlPlane: `api` is the administrator's. An older API serves `slices` and `rules`, of devices and
    their taints, in another version."""

    slices = f"{RESOURCE}/resourceslices"
    rules = f"{RESOURCE}/devicetaintrules"

    def make_node(self, name, capacity=None):
        """A Node that is Ready and takes pods."""
        capacity = {"cpu": "64", "memory": "256Gi", "pods": "110"} | (capacity or {})
        self.api.create("/api/v1/nodes", {"apiVersion": "v1", "kind": "Node", "metadata": {
            "name": name, "labels": {"kubernetes.io/hostname": name}}})
        self.api.patch(f"/api/v1/nodes/{name}/status", {"status": {
            "capacity": capacity, "allocatable": capacity,
            "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady",
                            "message": "no kubelet runs here"}]}})
        # Every new Node is tainted as not ready.
        return self.api.patch(f"/api/v1/nodes/{name}", {"spec": {"taints": []}}, "merge")

    def put_devices(self, node, uuids):
        """A ResourceSlice of this node: gpu-0, gpu-1 and so on with these UUIDs, in place of the one that
        is there."""
        name = f"{node}-{DRIVER}"
        there = self.api.request("GET", f"{self.slices}/{name}")
        old = there.json() if there.status == 200 else None
        one = {"apiVersion": version_of(self.slices), "kind": "ResourceSlice", "metadata": {"name": name}, "spec": {
            "driver": DRIVER, "nodeName": node, "devices": [
                device(f"gpu-{number}", uuid) for number, uuid in enumerate(uuids)],
            "pool": {"name": node, "resourceSliceCount": 1,
                     "generation": old["spec"]["pool"]["generation"] + 1 if old else 1}}}
        if not old:
            return self.api.create(self.slices, one)
        one["metadata"]["resourceVersion"] = old["metadata"]["resourceVersion"]
        return self.api.put(f"{self.slices}/{name}", one)

    def make_device_class(self):
        """The class that claims name: any device of the driver."""
        self.api.create(f"{RESOURCE}/deviceclasses", {
            "apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": DRIVER},
            "spec": {"selectors": [{"cel": {"expression": f"device.driver == '{DRIVER}'"}}]}})

    def taint_device(self, name, node, device_name, effect="NoSchedule", key="test/taint", value=""):
        """A DeviceTaintRule."""
        return self.api.create(self.rules, {
            "apiVersion": version_of(self.rules), "kind": "DeviceTaintRule", "metadata": {"name": name}, "spec": {
                "deviceSelector": {"driver": DRIVER, "pool": node, "device": device_name},
                "taint": {"key": key, "value": value, "effect": effect}}})

    def untaint_device(self, name):
        self.api.delete(f"{self.rules}/{name}")

    # Events.

    def events_of_node(self, name):
        """The type and the reason of each Event of an agent about this Node that `kubectl describe node` finds, in
        their order."""
        uid = self.api.get(f"/api/v1/nodes/{name}")["metadata"]["uid"]
        found = self.api.get(f"/api/v1/events?fieldSelector=involvedObject.kind%3DNode,involvedObject.name%3D{name},"
                             f"involvedObject.namespace%3D,involvedObject.uid%3D{uid}")["items"]
        found.sort(key=lambda one: (one.get("lastTimestamp") or "", one["metadata"]["name"]))
        return [(one["type"], one["reason"]) for one in found if one["reportingComponent"] == "gpuyard.io/agent"]

    # Pods.

    def make_pod(self, name, gpus=0, node=None, account="default", namespace="default", resource=None, host=None):
        """A Pod that claims so many GPUs, by a ResourceClaim of its name, or requests them as the `resource` of a
        device plugin. The scheduler finds its node if none is named: among all, or of this `host`."""
        container = {"name": "work", "image": "none"}
        spec = {"serviceAccountName": account, "automountServiceAccountToken": False, "containers": [container]}
        if host:
            spec["nodeSelector"] = {"kubernetes.io/hostname": host}
        if gpus and resource:
            container["resources"] = {"limits": {resource: str(gpus)}}
        elif gpus:
            self.api.create(claims(namespace), {
                "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": name},
                "spec": {"devices": {"requests": [
                    {"name": "gpus", "exactly": {"deviceClassName": DRIVER, "count": gpus}}]}}})
            spec["resourceClaims"] = [{"name": "gpus", "resourceClaimName": name}]
            container["resources"] = {"claims": [{"name": "gpus"}]}
        if node:
            spec["nodeName"] = node
        return self.api.create(namespaced("pods", namespace), {
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec})

    def end_pod(self, name, namespace="default"):
        """Deletes a Pod, and its claim if it has one."""
        self.api.delete(f"{namespaced('pods', namespace)}/{name}")
        self.api.request("DELETE", f"{claims(namespace)}/{name}")

    def pod(self, name, namespace="default"):
        return self.api.get(f"{namespaced('pods', namespace)}/{name}")

    def devices_of(self, pod, namespace="default"):
        """Returns the devices that the scheduler has given to it, as {("n1", "gpu-0")}; none while it waits."""
        claim = self.api.get(f"{claims(namespace)}/{pod}")
        given = claim.get("status", {}).get("allocation", {}).get("devices", {}).get("results", [])
        bound = self.pod(pod, namespace)["spec"].get("nodeName")
        return {(one["pool"], one["device"]) for one in given} if bound else set()

    def wait_for_devices(self, pod, namespace="default"):
        return wait_until(lambda: self.devices_of(pod, namespace),
                          lambda: f"devices for {pod}: {self.why_pending(pod, namespace)}", every=0.05)

    def why_pending(self, pod, namespace="default"):
        """Returns the scheduler's reason, or None."""
        for one in self.pod(pod, namespace).get("status", {}).get("conditions", []):
            if one["type"] == "PodScheduled" and one["status"] == "False" and one["reason"] == "Unschedulable":
                return one["message"]
        return None

    # Accounts.

    def make_account(self, name, rules=(), namespace="default"):
        """A service account that these rules allow something in the whole cluster:
        {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get"]}. Returns the name of its user."""
        self.api.create(namespaced("serviceaccounts", namespace),
                        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}})
        both = {"apiVersion": "rbac.authorization.k8s.io/v1", "metadata": {"name": f"{namespace}:{name}"}}
        self.api.create(f"{RBAC}/clusterroles", both | {"kind": "ClusterRole", "rules": list(rules)})
        self.api.create(f"{RBAC}/clusterrolebindings", both | {
            "kind": "ClusterRoleBinding",
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole",
                        "name": both["metadata"]["name"]},
            "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": namespace}]})
        return f"system:serviceaccount:{namespace}:{name}"

    def make_token(self, account, pod=None, seconds=3600, namespace="default"):
        """A token of the account, at least 600 s long. One that is bound to a Pod bears the name of the
        Pod's node, as the one that the kubelet projects into it."""
        spec = {"expirationSeconds": seconds}
        if pod:
            uid = self.pod(pod, namespace)["metadata"]["uid"]
            spec["boundObjectRef"] = {"apiVersion": "v1", "kind": "Pod", "name": pod, "uid": uid}
        answer = self.api.create(f"{namespaced('serviceaccounts', namespace)}/{account}/token", {
            "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec})
        return answer["status"]["token"]


def kubeconfig(url, ca_base64, token):
    """A kubeconfig as JSON, which is YAML too."""
    return json.dumps({
        "apiVersion": "v1", "kind": "Config", "current-context": "test",
        "clusters": [{"name": "test", "cluster": {"server": url, "certificate-authority-data": ca_base64}}],
        "users": [{"name": "test", "user": {"token": token}}],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}]}, indent=1)
