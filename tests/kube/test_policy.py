"""The agent's role and its admission policies at a real API server: what an agent does is admitted, and
nothing else, also with the token of one that was taken over.
"""

import contextlib
import copy
import itertools
from types import SimpleNamespace

import pytest

from agent_rights import (
    NO_NODE, PLUGIN_NAMESPACE, POLICIES, USER, agent_of, give_restart_rights, give_rights, make_plugin_pod)
from cluster_objects import DRIVER, RBAC, RESOURCE, namespaced
from control_plane import ControlPlane
from kube_api import Refused
from program import wait_until

NODE = "/api/v1/nodes/n1"
RULES = f"{RESOURCE}/devicetaintrules"
CONDITION = "gpuyard.io/GPUsHealthy"
OWN = {"key": "gpuyard.io/gpu-sick", "value": "gpu-lost", "effect": "NoSchedule"}
FOREIGN = [{"key": "example.com/maintenance", "value": "disk", "effect": "NoSchedule"},
           {"key": "example.com/slow", "effect": "PreferNoSchedule", "timeAdded": "2026-01-02T03:04:05Z"}]
LONG = "n" * 60 + "." + "m" * 39  # a name of 100 characters, which no label holds
LONG_LABEL = "0123456789abcdef0123456789abcdef"

# The messages of the policies.
OTHER_NODE = "changes only its own Node"
METADATA = "changes no labels, annotations, owners or finalizers"
SPEC = "changes only the taints of the spec"
TAINTS = "changes only taints with the key gpuyard.io/gpu-sick"
TAINT_EFFECT = "the effect of the taint gpuyard.io/gpu-sick is NoSchedule"
STATUS = "changes only the conditions of the status"
OTHER_CONDITION = f"changes only the condition {CONDITION}"
RULE_VERB = "creates and deletes DeviceTaintRules and changes none"
LABEL = "the label gpuyard.io/node of a DeviceTaintRule"
OWNER = "the only owner of a DeviceTaintRule"
KEY = "the key of a DeviceTaintRule's taint"
NAME = "the name of a DeviceTaintRule"
ONE_DEVICE = "a DeviceTaintRule selects one device"
POOL = "the pool of a DeviceTaintRule"
EFFECT = "the effect of a DeviceTaintRule's taint"
EVENT_VERB = "creates Events, and changes and deletes none"
EVENT_NAMESPACE = "the namespace of the agent's Events is default"
ABOUT = "the agent's Events are about its own Node"
SOURCE = "the source of the agent's Events"
EVENT_SIZE = "an Event of the agent has at most 1024 characters"


@pytest.fixture(scope="module", name="world")
def world_fixture():
    """Nodes with the conditions, taints and images of busy ones, and the agents of two of them."""
    with ControlPlane() as cluster:
        for name in ("n1", "n2", "cordoned"):
            cluster.make_node(name)
        cluster.api.create("/api/v1/nodes", {"metadata": {"name": LONG}})
        give_rights(cluster)
        give_restart_rights(cluster)
        yield SimpleNamespace(cluster=cluster, api=cluster.api, n1=agent_of(cluster, "n1"),
                              long=agent_of(cluster, LONG), cordoned=agent_of(cluster, "cordoned"))


@pytest.fixture(autouse=True)
def clean(world):
    """n1 as other programs have left it, without anything of gpuyard."""
    world.api.patch(NODE, {"metadata": {"labels": {"team": "lab", "new": None}, "finalizers": None, "annotations": {
        "example.com/note": "kept", "new": None}}, "spec": {"taints": FOREIGN, "unschedulable": None}}, "merge")
    images = [{"names": [f"example.com/{number}/{'i' * 200}:{tag}" for tag in (1, 2)], "sizeBytes": number}
              for number in range(100)]
    conditions = [condition(kind, "False") for kind in ("DiskPressure", "MemoryPressure", "PIDPressure")]
    conditions.append(condition("Ready"))
    world.api.patch(f"{NODE}/status", {"status": {"images": images, "conditions": conditions, "capacity": {
        "cpu": "64", "memory": "256Gi", "pods": "110", "nvidia.com/gpu": "8"}}}, "merge")
    for rule in world.api.get(RULES)["items"]:
        world.api.delete(f"{RULES}/{rule['metadata']['name']}")


def condition(kind=CONDITION, status="True", reason="Fine"):
    return {"type": kind, "status": status, "reason": reason, "message": "m" * 1000,
            "lastHeartbeatTime": "2026-01-02T03:04:05Z", "lastTransitionTime": "2026-01-02T03:04:05Z"}


def uid_of(world, node="n1"):
    return world.api.get(f"/api/v1/nodes/{node}")["metadata"]["uid"]


def owner_of(world, node="n1", **more):
    return {"apiVersion": "v1", "kind": "Node", "name": node, "uid": uid_of(world, node)} | more


def make_rule(world, node="n1", **more):
    """A rule as the agent creates it; `more` replaces parts of it: metadata, selector or taint."""
    return {
        "apiVersion": "resource.k8s.io/v1", "kind": "DeviceTaintRule",
        "metadata": {"name": "gpuyard-n1-01234567", "labels": {"gpuyard.io/node": node},
                     "ownerReferences": [owner_of(world, node)]} | more.get("metadata", {}),
        "spec": {"deviceSelector": more.get("selector", {"driver": DRIVER, "pool": node, "device": "gpu-0"}),
                 "taint": {"key": "gpuyard.io/sick", "value": "xid-fatal", "effect": "NoSchedule"}
                          | more.get("taint", {})}}


def set_taints(world, taints, agent=None, path=NODE):
    """As the agent does it: a merge patch of the whole list, which fails if the Node has changed since."""
    version = world.api.get(path)["metadata"]["resourceVersion"]
    return (agent or world.n1).patch(
        path, {"metadata": {"resourceVersion": version}, "spec": {"taints": taints}}, "merge")


def taints_of(node):
    """Of a Node; the server adds a time to those that it has not seen before."""
    return [{key: value for key, value in one.items() if key != "timeAdded"} for one in node["spec"].get("taints", [])]


PLAIN_FOREIGN = taints_of({"spec": {"taints": FOREIGN}})


def refusal_of(act):
    with pytest.raises(Refused) as refused:
        act()
    return refused.value


def is_denied(act, message):
    """The policy's refusal, not the role's."""
    refused = refusal_of(act)
    assert (refused.status, refused.reason) == (403, "Forbidden"), refused
    assert "ValidatingAdmissionPolicy 'gpuyard-agent-" in refused.message and message in refused.message, refused


def is_forbidden(act):
    """The role's refusal."""
    refused = refusal_of(act)
    assert refused.status == 403 and f'User "{USER}" cannot' in refused.message, refused


def test_types_in_policies_are_right(world):
    for name in ("gpuyard-agent-nodes", "gpuyard-agent-rules", "gpuyard-agent-events", "gpuyard-agent-plugin"):
        def status(path=f"{POLICIES}/{name}"):
            found = world.api.get(path)
            current = found["metadata"]["generation"] == found.get("status", {}).get("observedGeneration")
            return found["status"] if current else None
        assert wait_until(status, f"the types of {name} to be checked", every=0.1)["typeChecking"] == {}


# Nodes: admitted.

def test_condition_can_be_added_changed_and_removed(world):
    others = world.api.get(NODE)["status"]["conditions"]
    for one in (condition(), condition(status="False", reason="GpuLost"), condition(status="Unknown")):
        made = world.n1.patch(f"{NODE}/status", {"status": {"conditions": [one]}})
        assert one in made["status"]["conditions"] and len(made["status"]["conditions"]) == len(others) + 1
    gone = world.n1.patch(f"{NODE}/status", {"status": {"conditions": [{"type": CONDITION, "$patch": "delete"}]}})
    assert gone["status"]["conditions"] == others


def test_condition_admitted_as_merge_patch_too(world):
    there = world.api.get(NODE)["status"]["conditions"]
    world.n1.patch(f"{NODE}/status", {"status": {"conditions": [*there, condition()]}}, "merge")


def test_taint_can_be_added_changed_and_removed(world):
    assert taints_of(set_taints(world, [*FOREIGN, OWN])) == [*PLAIN_FOREIGN, OWN]
    changed = OWN | {"value": "driver-down"}
    assert taints_of(set_taints(world, [*FOREIGN, changed])) == [*PLAIN_FOREIGN, changed]
    assert taints_of(set_taints(world, FOREIGN)) == PLAIN_FOREIGN


def test_taint_can_be_the_only_one(world):
    world.api.patch(NODE, {"spec": {"taints": None}}, "merge")
    assert taints_of(set_taints(world, [OWN])) == [OWN]
    assert taints_of(set_taints(world, [])) == []


def test_taint_of_an_older_state_of_the_node_is_a_conflict(world):
    version = world.api.get(NODE)["metadata"]["resourceVersion"]
    world.api.patch(NODE, {"metadata": {"labels": {"new": "1"}}}, "merge")
    refused = refusal_of(lambda: world.n1.patch(
        NODE, {"metadata": {"resourceVersion": version}, "spec": {"taints": [*FOREIGN, OWN]}}, "merge"))
    assert (refused.status, refused.reason) == (409, "Conflict")


def test_cordon_by_an_administrator_is_kept(world):
    """Kubernetes' own controller adds its taint for the cordon at the same time."""
    path = "/api/v1/nodes/cordoned"
    world.api.patch(path, {"spec": {"unschedulable": True}}, "merge")
    there = wait_until(lambda: world.api.get(path)["spec"].get("taints"), "the taint of the cordon")
    made = set_taints(world, [*there, OWN], world.cordoned, path)
    assert made["spec"]["unschedulable"] and made["spec"]["taints"][:-1] == there
    is_denied(lambda: set_taints(world, [OWN], world.cordoned, path), TAINTS)
    is_denied(lambda: world.cordoned.patch(path, {"spec": {"unschedulable": None}}, "merge"), SPEC)


# Nodes: refused.

STATUS_PATCHES = {
    "label": ({"metadata": {"labels": {"new": "1"}}}, METADATA),
    "label removed": ({"metadata": {"labels": {"team": None}}}, METADATA),
    "annotation": ({"metadata": {"annotations": {"new": "1"}}}, METADATA),
    "annotation removed": ({"metadata": {"annotations": {"example.com/note": None}}}, METADATA),
    "capacity": ({"status": {"capacity": {"nvidia.com/gpu": "0"}}}, STATUS),
    "capacity removed": ({"status": {"capacity": None}}, STATUS),
    "allocatable": ({"status": {"allocatable": {"cpu": "1"}}}, STATUS),
    "addresses": ({"status": {"addresses": [{"type": "InternalIP", "address": "10.0.0.9"}]}}, STATUS),
    "images": ({"status": {"images": []}}, STATUS),
    "kubelet's version": ({"status": {"nodeInfo": {"kubeletVersion": "v9"}}}, STATUS),
    "volumes": ({"status": {"volumesInUse": ["kubernetes.io/csi/a"]}}, STATUS),
    "phase": ({"status": {"phase": "Terminated"}}, STATUS),
    "Ready": ({"status": {"conditions": [condition("Ready", "False")]}}, OTHER_CONDITION),
    "Ready removed": ({"status": {"conditions": [{"type": "Ready", "$patch": "delete"}]}}, OTHER_CONDITION),
    "DiskPressure": ({"status": {"conditions": [condition("DiskPressure")]}}, OTHER_CONDITION),
    "condition of another program": ({"status": {"conditions": [condition("GPUMissing")]}}, OTHER_CONDITION),
    "another condition beside its own": (
        {"status": {"conditions": [condition(), condition("GPUMissing")]}}, OTHER_CONDITION),
    "capacity beside its own condition": (
        {"status": {"conditions": [condition()], "capacity": {"nvidia.com/gpu": "0"}}}, STATUS),
    "all conditions replaced": (
        {"status": {"conditions": [{"$patch": "replace"}, condition()]}}, OTHER_CONDITION),
}


@pytest.mark.parametrize("patch, message", STATUS_PATCHES.values(), ids=STATUS_PATCHES)
def test_other_change_by_status_is_refused(world, patch, message):
    is_denied(lambda: world.n1.patch(f"{NODE}/status", patch), message)


def test_owner_of_the_node_cannot_be_changed(world):
    patch = {"metadata": {"ownerReferences": [owner_of(world, "n2")]}}
    is_denied(lambda: world.n1.patch(NODE, patch, "merge"), METADATA)
    is_denied(lambda: world.n1.patch(f"{NODE}/status", patch, "merge"), METADATA)


NODE_PATCHES = {
    "label": ({"metadata": {"labels": {"new": "1"}}}, METADATA),
    "label changed": ({"metadata": {"labels": {"team": "other"}}}, METADATA),
    "annotation": ({"metadata": {"annotations": {"new": "1"}}}, METADATA),
    "all annotations removed": ({"metadata": {"annotations": None}}, METADATA),
    "finalizer": ({"metadata": {"finalizers": ["example.com/keep"]}}, METADATA),
    "label beside its own taint": (
        {"metadata": {"labels": {"new": "1"}}, "spec": {"taints": [*FOREIGN, OWN]}}, METADATA),
    "cordon": ({"spec": {"unschedulable": True}}, SPEC),
    "provider": ({"spec": {"providerID": "example://1"}}, SPEC),
    "pod addresses": ({"spec": {"podCIDR": "10.1.0.0/24", "podCIDRs": ["10.1.0.0/24"]}}, SPEC),
    "taints removed": ({"spec": {"taints": None}}, TAINTS),
    "one taint removed": ({"spec": {"taints": FOREIGN[1:]}}, TAINTS),
    "taint replaced by its own": ({"spec": {"taints": [OWN]}}, TAINTS),
    "taint of others added": (
        {"spec": {"taints": [*FOREIGN, {"key": "example.com/new", "effect": "NoSchedule"}]}}, TAINTS),
    "taint of Kubernetes added": (
        {"spec": {"taints": [*FOREIGN, {"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"}]}}, TAINTS),
    "key of the device taints on the node": (
        {"spec": {"taints": [*FOREIGN, OWN | {"key": "gpuyard.io/sick"}]}}, TAINTS),
    "taint's effect": ({"spec": {"taints": [FOREIGN[0] | {"effect": "NoExecute"}, FOREIGN[1]]}}, TAINTS),
    "taint's value": ({"spec": {"taints": [FOREIGN[0] | {"value": "x"}, FOREIGN[1]]}}, TAINTS),
    "taint's time": (
        {"spec": {"taints": [FOREIGN[0], FOREIGN[1] | {"timeAdded": "2026-02-02T03:04:05Z"}]}}, TAINTS),
    "order of taints": ({"spec": {"taints": [FOREIGN[1], FOREIGN[0]]}}, TAINTS),
    "its own taint ends pods": ({"spec": {"taints": [*FOREIGN, OWN | {"effect": "NoExecute"}]}}, TAINT_EFFECT),
}


@pytest.mark.parametrize("patch, message", NODE_PATCHES.values(), ids=NODE_PATCHES)
def test_other_change_of_the_node_is_refused(world, patch, message):
    is_denied(lambda: world.n1.patch(NODE, patch, "merge"), message)


@pytest.mark.parametrize("how, patch", [
    ("json", [{"op": "add", "path": "/metadata/labels/new", "value": "1"}]),
    ("apply", {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1", "labels": {"new": "1"}}}),
    ("strategic", {"metadata": {"labels": {"new": "1"}}}),
])
def test_every_form_of_patch_is_judged(world, how, patch):
    for path in (NODE, f"{NODE}/status"):
        is_denied(lambda: world.n1.patch(f"{path}?fieldManager=test", patch, how), METADATA)


def test_another_node_cannot_be_changed(world):
    other = "/api/v1/nodes/n2"
    is_denied(lambda: world.n1.patch(other, {"spec": {"taints": [OWN]}}, "merge"), OTHER_NODE)
    is_denied(lambda: world.n1.patch(f"{other}/status", {"status": {"conditions": [condition()]}}), OTHER_NODE)


# Rules: admitted.

def test_rule_can_be_created_and_deleted(world):
    for effect in ("None", "NoSchedule"):
        made = world.n1.create(RULES, make_rule(world, taint={"effect": effect}))
        path, uid = f"{RULES}/{made['metadata']['name']}", made["metadata"]["uid"]
        wrong = world.n1.request("DELETE", path, {"preconditions": {"uid": "another"}})
        assert wrong.status == 409, wrong.text
        assert world.n1.request("DELETE", path, {"preconditions": {"uid": uid}}).status == 200


def test_rule_in_a_pool_below_the_node_is_admitted(world):
    world.n1.create(RULES, make_rule(world, selector={"driver": DRIVER, "pool": "n1/gpus", "device": "gpu-0"}))


def test_outdated_rule_can_be_deleted(world):
    path = f"{RULES}/gpuyard-n1-01234567"
    world.api.create(RULES, make_rule(world, selector={"driver": DRIVER, "pool": "old", "device": "gpu-9"}))
    world.n1.delete(path)
    # Of an earlier Node of this name. Kubernetes may have collected it a moment before.
    world.api.create(RULES, make_rule(world, metadata={
        "ownerReferences": [owner_of(world, uid="00000000-0000-4000-8000-000000000000")]}))
    assert world.n1.request("DELETE", path).status in (200, 404)


def test_node_with_a_long_name_is_labelled_by_hash(world):
    path = f"/api/v1/nodes/{LONG}/status"
    world.long.patch(path, {"status": {"conditions": [condition()]}})
    label = {"labels": {"gpuyard.io/node": LONG_LABEL}, "ownerReferences": [owner_of(world, LONG)],
             "name": "gpuyard-long-01234567"}
    selector = {"driver": DRIVER, "pool": LONG, "device": "gpu-0"}
    world.long.create(RULES, make_rule(world, metadata=label, selector=selector))
    is_denied(lambda: world.n1.delete(f"{RULES}/gpuyard-long-01234567"), LABEL)
    world.long.delete(f"{RULES}/gpuyard-long-01234567")
    is_denied(lambda: world.long.create(RULES, make_rule(
        world, metadata=label | {"labels": {"gpuyard.io/node": "n1"}}, selector=selector)), LABEL)
    is_denied(lambda: world.long.create(RULES, make_rule(
        world, metadata=label | {"ownerReferences": [owner_of(world, "n1")]}, selector=selector)), OWNER)


# Rules: refused.

WHOLE = {"driver": DRIVER, "pool": "n1", "device": "gpu-0"}
WRONG_RULES = {
    "no selector": ({"selector": None}, ONE_DEVICE),
    "an empty selector, of every device of the cluster": ({"selector": {}}, ONE_DEVICE),
    "driver only": ({"selector": {"driver": DRIVER}}, ONE_DEVICE),
    "pool only": ({"selector": {"pool": "n1"}}, ONE_DEVICE),
    "no device": ({"selector": {"driver": DRIVER, "pool": "n1"}}, ONE_DEVICE),
    "no pool": ({"selector": {"driver": DRIVER, "device": "gpu-0"}}, ONE_DEVICE),
    "no driver": ({"selector": {"pool": "n1", "device": "gpu-0"}}, ONE_DEVICE),
    "pool of another node": ({"selector": WHOLE | {"pool": "n2"}}, POOL),
    "pool that begins with the node's name": ({"selector": WHOLE | {"pool": "n10"}}, POOL),
    "pool that has the node's name behind a slash": ({"selector": WHOLE | {"pool": "n2/n1"}}, POOL),
    "label of another node": ({"metadata": {"labels": {"gpuyard.io/node": "n2"}}}, LABEL),
    "no label": ({"metadata": {"labels": {"other": "n1"}}}, LABEL),
    "label of a hash": ({"metadata": {"labels": {"gpuyard.io/node": LONG_LABEL}}}, LABEL),
    "no owner": ({"metadata": {"ownerReferences": []}}, OWNER),
    "another key": ({"taint": {"key": "example.com/sick"}}, KEY),
    "the node taint's key": ({"taint": {"key": "gpuyard.io/gpu-sick"}}, KEY),
    "an effect that ends pods": ({"taint": {"effect": "NoExecute"}}, EFFECT),
    "another name": ({"metadata": {"name": "other"}}, NAME),
    "a finalizer": ({"metadata": {"finalizers": ["example.com/keep"]}}, NAME),
}


@pytest.mark.parametrize("parts, message", WRONG_RULES.values(), ids=WRONG_RULES)
def test_other_rule_is_refused(world, parts, message):
    is_denied(lambda: world.n1.create(RULES, make_rule(world, **copy.deepcopy(parts))), message)


def test_rule_with_other_owners_is_refused(world):
    pod = world.api.get(namespaced("pods", "gpuyard") + "/agent-n1")["metadata"]
    for owners in ([owner_of(world, "n2")],
                   [owner_of(world), owner_of(world, "n2")],
                   [owner_of(world, blockOwnerDeletion=True)],
                   [owner_of(world, kind="Pod", name="n1", uid=pod["uid"])]):
        rule = make_rule(world, metadata={"ownerReferences": owners})
        is_denied(lambda: world.n1.create(RULES, rule), OWNER)


FOREIGN_RULES = {
    "of another node": ({"node": "n2"}, LABEL),
    "without its label": ({"metadata": {"labels": {}}}, LABEL),
    "of an administrator": ({"metadata": {"name": "by-hand", "labels": {}, "ownerReferences": []}}, LABEL),
    "without an owner": ({"metadata": {"ownerReferences": []}}, OWNER),
    "with another key": ({"taint": {"key": "example.com/sick"}}, KEY),
}


@pytest.mark.parametrize("parts, message", FOREIGN_RULES.values(), ids=FOREIGN_RULES)
def test_deletion_of_a_foreign_rule_is_refused(world, parts, message):
    made = world.api.create(RULES, make_rule(world, **copy.deepcopy(parts)))
    path = f"{RULES}/{made['metadata']['name']}"
    is_denied(lambda: world.n1.delete(path), message)
    assert world.api.get(path)["spec"] == made["spec"]


# Events.

EVENTS = namespaced("events")
NEW_EVENTS = "/apis/events.k8s.io/v1/namespaces/default/events"
NUMBERS = itertools.count()


def make_event(world, node="n1", **more):
    """An Event as the agent writes it; `more` replaces parts of it."""
    return {
        "apiVersion": "v1", "kind": "Event",
        "metadata": {"name": f"{node}.{next(NUMBERS):x}", "namespace": "default"} | more.pop("metadata", {}),
        "involvedObject": {"apiVersion": "v1", "kind": "Node", "name": node, "uid": uid_of(world, node)}
                          | more.pop("about", {}),
        "type": "Warning", "reason": "XidFatal", "message": "GPU 0: Xid 79.",
        "source": {"component": "gpuyard", "host": node}, "reportingComponent": "gpuyard.io/agent",
        "reportingInstance": node, "firstTimestamp": "2026-01-02T03:04:05.678Z",
        "lastTimestamp": "2026-01-02T03:04:05.678Z", "count": 1} | more


def make_new_event(world, node="n1", **more):
    """The same in the newer API."""
    return {
        "apiVersion": "events.k8s.io/v1", "kind": "Event",
        "metadata": {"name": f"{node}.{next(NUMBERS):x}", "namespace": "default"},
        "regarding": {"apiVersion": "v1", "kind": "Node", "name": node, "uid": uid_of(world, node)}
                     | more.pop("about", {}),
        "type": "Warning", "reason": "XidFatal", "note": "GPU 0: Xid 79.", "action": "Report",
        "reportingController": "gpuyard.io/agent", "reportingInstance": node,
        "eventTime": "2026-01-02T03:04:05.678901Z"} | more


def test_event_about_the_own_node_is_admitted(world):
    world.n1.create(EVENTS, make_event(world))
    world.n1.create(EVENTS, make_event(world, type="Normal", reason="GPUHealthy", message="m" * 1024))
    assert ("Normal", "GPUHealthy") in world.cluster.events_of_node("n1")
    world.long.create(EVENTS, make_event(world, LONG))
    again = make_event(world)
    world.n1.create(EVENTS, again)
    refused = refusal_of(lambda: world.n1.create(EVENTS, again))
    assert (refused.status, refused.reason) == (409, "AlreadyExists")


WRONG_EVENTS = {
    "about another node": ({"about": {"name": "n2"}}, ABOUT),
    "about no node": ({"about": {"name": ""}}, ABOUT),
    "about a pod": ({"about": {"kind": "Pod"}}, ABOUT),
    "about an object of another API": ({"about": {"apiVersion": "example.com/v1"}}, ABOUT),
    "about an object of a namespace": ({"about": {"namespace": "default"}}, ABOUT),
    "with another object": ({"related": {"kind": "Node", "name": "n2"}}, ABOUT),
    "of another program": ({"reportingComponent": "kubelet"}, SOURCE),
    "of no program": ({"reportingComponent": ""}, SOURCE),
    "with the source of another program": ({"source": {"component": "kubelet", "host": "n1"}}, SOURCE),
    "with the source of another node": ({"source": {"component": "gpuyard", "host": "n2"}}, SOURCE),
    "that is too long": ({"message": "m" * 1025}, EVENT_SIZE),
    "with a long reason": ({"reason": "R" * 129}, EVENT_SIZE),
    "with a finalizer": ({"metadata": {"finalizers": ["example.com/keep"]}}, EVENT_SIZE),
    "with an annotation": ({"metadata": {"annotations": {"a": "b" * 1000}}}, EVENT_SIZE),
    "with a label": ({"metadata": {"labels": {"a": "b"}}}, EVENT_SIZE),
}


@pytest.mark.parametrize("parts, message", WRONG_EVENTS.values(), ids=WRONG_EVENTS)
def test_other_event_is_refused(world, parts, message):
    is_denied(lambda: world.n1.create(EVENTS, make_event(world, **copy.deepcopy(parts))), message)


def test_event_of_the_agent_of_another_node_is_refused(world):
    is_denied(lambda: world.cordoned.create(EVENTS, make_event(world)), ABOUT)


# The device plugin's pods.

PODS = namespaced("pods", PLUGIN_NAMESPACE)
OTHER_POD_NODE = "deletes only pods of its own node"
POD_LABEL = "deletes only pods with the label app=nvidia-device-plugin-daemonset"
POD_NAMESPACE = "deletes only pods of the namespace gpu-operator"


def test_plugins_pod_of_the_own_node_can_be_deleted(world):
    path = make_plugin_pod(world.cluster, "n1", owned=False)
    listed = world.n1.get(
        f"{PODS}?labelSelector=app%3Dnvidia-device-plugin-daemonset&fieldSelector=spec.nodeName%3Dn1&limit=3")
    uid, = (one["metadata"]["uid"] for one in listed["items"])
    wrong = world.n1.request("DELETE", path, {"preconditions": {"uid": "another"}})
    assert wrong.status == 409, wrong.text
    assert world.n1.request("DELETE", path, {"preconditions": {"uid": uid}}).status == 200
    assert "deletionTimestamp" in world.api.get(path)["metadata"]
    world.api.delete(path)


FOREIGN_PODS = {
    "of another node": ({"node": "n2"}, OTHER_POD_NODE),
    "with another label": ({"node": "n1", "app": "nvidia-dcgm-exporter"}, POD_LABEL),
}


@pytest.mark.parametrize("pod, message", FOREIGN_PODS.values(), ids=FOREIGN_PODS)
def test_deletion_of_a_foreign_pod_is_refused(world, pod, message):
    path = make_plugin_pod(world.cluster, **pod, owned=False)
    try:
        is_denied(lambda: world.n1.delete(path), message)
        assert "deletionTimestamp" not in world.api.get(path)["metadata"]
    finally:
        world.api.delete(path)


def test_role_for_the_restart_allows_nothing_else(world):
    path = make_plugin_pod(world.cluster, "n1", owned=False)
    try:
        for act in (
            lambda: world.n1.get(path),
            lambda: world.n1.patch(path, {"metadata": {"labels": {"new": "1"}}}, "merge"),
            lambda: world.n1.create(PODS, {"metadata": {"name": "new"}}),
            lambda: world.n1.delete(PODS),
            lambda: world.n1.delete(f"{namespaced('pods', 'gpuyard')}/agent-n1"),
        ):
            is_forbidden(act)
    finally:
        world.api.delete(path)


# Tokens, the role, and the policy with a wider role.

def test_token_without_a_node_changes_nothing(world):
    unbound = world.api.as_owner_of(world.cluster.make_token("gpuyard", namespace="gpuyard"))
    is_denied(lambda: unbound.patch(f"{NODE}/status", {"status": {"conditions": [condition()]}}), NO_NODE)
    is_denied(lambda: set_taints(world, [*FOREIGN, OWN], unbound), NO_NODE)
    is_denied(lambda: unbound.create(RULES, make_rule(world)), NO_NODE)
    is_denied(lambda: unbound.create(EVENTS, make_event(world)), NO_NODE)
    made = world.n1.create(RULES, make_rule(world))
    is_denied(lambda: unbound.delete(f"{RULES}/{made['metadata']['name']}"), NO_NODE)


def test_role_allows_what_the_agent_reads(world):
    assert world.n1.get(f"{NODE}?resourceVersion=0")["metadata"]["name"] == "n1"
    world.n1.get(f"{RESOURCE}/resourceslices?fieldSelector=spec.nodeName%3Dn1")
    world.n1.get(f"{RULES}?labelSelector=gpuyard.io%2Fnode%3Dn1")
    versions = [one["version"] for one in world.n1.get("/apis/resource.k8s.io")["versions"]]
    for version in versions:
        world.n1.get(f"/apis/resource.k8s.io/{version}")
    assert "v1" in versions


def test_role_allows_nothing_else(world):
    rule = world.n1.create(RULES, make_rule(world))
    path = f"{RULES}/{rule['metadata']['name']}"
    event = world.n1.create(EVENTS, make_event(world))
    own_event = f"{EVENTS}/{event['metadata']['name']}"
    for act in (
        lambda: world.n1.get("/api/v1/nodes"),
        lambda: world.n1.get(namespaced("pods")),
        lambda: world.n1.get(namespaced("secrets", "gpuyard")),
        lambda: world.n1.get(EVENTS),
        lambda: world.n1.put(own_event, event),
        lambda: world.n1.patch(own_event, {"count": 2}, "merge"),
        lambda: world.n1.delete(own_event),
        lambda: world.n1.create(NEW_EVENTS, make_new_event(world)),
        lambda: world.n1.create(namespaced("events", "gpuyard"), {"metadata": {"name": "e"}}),
        lambda: world.n1.put(NODE, world.api.get(NODE)),
        lambda: world.n1.put(f"{NODE}/status", world.api.get(NODE)),
        lambda: world.n1.delete(NODE),
        lambda: world.n1.put(path, rule),
        lambda: world.n1.patch(path, {"spec": {"taint": {"value": "x"}}}, "merge"),
        lambda: world.n1.delete(RULES),
        lambda: world.n1.get(POLICIES),
        lambda: world.n1.create(f"{namespaced('serviceaccounts', 'gpuyard')}/gpuyard/token", {"spec": {}}),
    ):
        is_forbidden(act)


@contextlib.contextmanager
def wider_role(world):
    """Another role binding for the account."""
    name = {"metadata": {"name": "wider"}}
    world.api.create(f"{RBAC}/clusterroles", name | {"rules": [
        {"apiGroups": ["", "resource.k8s.io", "events.k8s.io"], "resources": ["*"], "verbs": ["*"]}]})
    world.api.create(f"{RBAC}/clusterrolebindings", name | {
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "wider"},
        "subjects": [{"kind": "ServiceAccount", "name": "gpuyard", "namespace": "gpuyard"}]})
    wait_until(lambda: world.n1.request("GET", "/api/v1/nodes").status == 200, "the wider role", every=0.1)
    try:
        yield
    finally:
        world.api.delete(f"{RBAC}/clusterrolebindings/wider")
        world.api.delete(f"{RBAC}/clusterroles/wider")
        wait_until(lambda: world.n1.request("GET", "/api/v1/nodes").status == 403, "the role's end", every=0.1)


def test_policies_hold_with_a_wider_role(world):
    with wider_role(world):
        node, rule = world.api.get(NODE), world.n1.create(RULES, make_rule(world))
        path = f"{RULES}/{rule['metadata']['name']}"
        node["metadata"]["labels"]["new"] = "1"
        del node["metadata"]["resourceVersion"]  # controllers write it too
        is_denied(lambda: world.n1.put(NODE, node), METADATA)
        is_denied(lambda: world.n1.put(f"{NODE}/status", node), METADATA)
        is_denied(lambda: world.n1.patch(path, {"spec": {"deviceSelector": None}}, "merge"), RULE_VERB)
        is_denied(lambda: world.n1.patch(path, {"spec": {"taint": {"value": "x"}}}, "merge"), RULE_VERB)
        is_denied(lambda: world.n1.delete("/api/v1/nodes/n2"), "creates and deletes no Node")
        is_denied(lambda: world.n1.delete(NODE), "creates and deletes no Node")
        is_denied(lambda: world.n1.create("/api/v1/nodes", {"metadata": {"name": "n3"}}), "creates and deletes no Node")


def test_policy_of_events_holds_with_a_wider_role(world):
    made = world.n1.create(EVENTS, make_event(world))
    path, new_path = (f"{where}/{made['metadata']['name']}" for where in (EVENTS, NEW_EVENTS))
    with wider_role(world):
        is_denied(lambda: world.n1.put(path, made | {"count": 2}), EVENT_VERB)
        is_denied(lambda: world.n1.patch(path, {"count": 2}), EVENT_VERB)
        is_denied(lambda: world.n1.delete(path), EVENT_VERB)
        is_denied(lambda: world.n1.patch(new_path, {"metadata": {"labels": {"new": "1"}}}, "merge"), EVENT_VERB)
        is_denied(lambda: world.n1.delete(new_path), EVENT_VERB)
        # As the Event of an object of that namespace, since the API accepts no other there.
        elsewhere = make_event(world, metadata={"namespace": "gpuyard"}, about={"namespace": "gpuyard"})
        is_denied(lambda: world.n1.create(namespaced("events", "gpuyard"), elsewhere), EVENT_NAMESPACE)
        world.n1.create(NEW_EVENTS, make_new_event(world))
        for parts, message in (({"about": {"name": "n2"}}, ABOUT), ({"about": {"kind": "Pod"}}, ABOUT),
                               ({"related": {"kind": "Node", "name": "n2"}}, ABOUT),
                               ({"reportingController": "kubelet"}, SOURCE)):
            is_denied(lambda: world.n1.create(NEW_EVENTS, make_new_event(world, **copy.deepcopy(parts))), message)
    assert world.api.get(path)["count"] == 1


def test_policy_of_pods_holds_with_a_wider_role(world):
    foreign = make_plugin_pod(world.cluster, "n2", owned=False)
    with wider_role(world):
        is_denied(lambda: world.n1.delete(f"{namespaced('pods', 'gpuyard')}/agent-n1"), POD_NAMESPACE)
        is_denied(lambda: world.n1.delete(PODS), OTHER_POD_NODE)
    world.api.delete(foreign)


def test_other_users_are_not_bound(world):
    """The policy is for the agent's account alone: kubelets and controllers go on as before."""
    user = world.cluster.make_account("other", [
        {"apiGroups": [""], "resources": ["nodes", "nodes/status"], "verbs": ["patch"]},
        {"apiGroups": [""], "resources": ["events"], "verbs": ["create", "delete"]}])
    assert user != USER
    other = world.api.as_owner_of(world.cluster.make_token("other"))
    other.patch(NODE, {"metadata": {"labels": {"new": "1"}}}, "merge")
    other.patch(f"{NODE}/status", {"status": {"conditions": [condition("Ready", "False")]}})
    made = other.create(EVENTS, make_event(world, about={"name": "n2"}, reportingComponent="kubelet"))
    other.delete(f"{EVENTS}/{made['metadata']['name']}")
