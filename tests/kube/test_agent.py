"""`gpuyard kube agent`, `status` and `withdraw` at a real API server, with a real scheduler: a sick GPU gets no
pod, and gets pods again once it is well.
"""

import itertools
import json
import signal
import subprocess
import time

import pytest

import proofs
from agent_node import RULES, TAINT, AgentNode
from agent_rights import USER, give_rights
from control_plane import ControlPlane
from kubelet_server import ListedPods, build, kubelet, pod
from program import PATIENCE, PROGRAM, clean_environment, wait_until
from schemas import validate

FOREIGN = {"key": "team", "value": "vision", "effect": "PreferNoSchedule"}


@pytest.fixture(scope="module")
def cluster():
    with ControlPlane() as one:
        one.make_device_class()
        one.make_node("n1")
        give_rights(one)
        proofs.record("Kubernetes", "ran")
        yield one


@pytest.fixture
def offer():
    return "dra"


NODES = itertools.count(2)


@pytest.fixture
def node(cluster, tmp_path, daemon, offer):
    """A node of its own for each test."""
    one = AgentNode(cluster, tmp_path / "node", daemon, name=f"n{next(NODES)}", offer=offer)
    yield one
    one.end()
    cluster.api.request("DELETE", f"/api/v1/nodes/{one.name}")
    cluster.api.request("DELETE", f"/apis/resource.k8s.io/v1/resourceslices/{one.name}-gpu.nvidia.com")


def administer(cluster, tmp_path, *words):
    """Runs a verb as the cluster's administrator."""
    file = cluster.kubeconfig(cluster._tokens["administrator"], name="administrator.json")
    return subprocess.run([PROGRAM, "kube", *words, "--kubeconfig", file], env=clean_environment(tmp_path),
                          capture_output=True, text=True, timeout=60, check=False)


def test_claims_avoid_a_lost_gpu_until_it_is_back(cluster, node):
    node.start()
    node.wait_for_condition("True", "GPUsGood")
    assert node.rules() == {}
    node.lose(0)
    node.wait_for_condition("False", "GpuLost")
    node.wait_for_rules({"gpu-0": "gpu-lost"})
    assert TAINT not in node.taints()  # the driver of these devices leaves the others usable
    cluster.make_pod("one", gpus=1)
    assert cluster.wait_for_devices("one") == {(node.name, "gpu-1")}
    cluster.end_pod("one")
    cluster.make_pod("two", gpus=2)
    wait_until(lambda: cluster.why_pending("two"), "the scheduler to find too few devices")
    node.reset(0)
    node.wait_for_rules({})
    node.wait_for_condition("True")
    assert cluster.wait_for_devices("two") == {(node.name, "gpu-0"), (node.name, "gpu-1")}
    cluster.end_pod("two")


@pytest.mark.parametrize("offer", ["plugin"])
def test_lost_gpu_of_a_device_plugin_taints_the_node(cluster, node):
    cluster.api.patch(f"/api/v1/nodes/{node.name}", {"spec": {"taints": [FOREIGN]}}, "merge")
    node.start()
    node.wait_for_condition("True")
    node.lose(1)
    node.wait_for_taint("gpu-lost")
    assert node.taints()["team"] == "vision" and node.rules() == {}
    assert FOREIGN in node.node()["spec"]["taints"] and not node.node()["spec"].get("unschedulable")
    node.reset(1)
    node.wait_for_taint(None)
    assert node.node()["spec"]["taints"] == [FOREIGN]


def test_cordoned_gpu_gets_no_pod_and_stays_healthy(node):
    node.start("--effect", "NoExecute")
    node.wait_for_condition("True")
    node.yard.must("cordon", "1", "--reason", "its fan is noisy")
    node.wait_for_rules({"gpu-1": "cordoned"})
    node.wait_for_condition("True", "GPUsCordoned")
    rule = next(one for one in node.cluster.api.get(RULES)["items"]
                if one["metadata"]["labels"].get("gpuyard.io/node") == node.name)
    assert rule["spec"]["taint"]["effect"] == "NoSchedule"  # pods that run there go on
    assert [one["uid"] for one in rule["metadata"]["ownerReferences"]] == [node.node()["metadata"]["uid"]]
    node.yard.must("uncordon", "1")
    node.wait_for_rules({})


def test_events_are_the_history_of_a_gpu(cluster, node):
    def events():
        return cluster.events_of_node(node.name)

    def wait_for_events(*wanted):
        wait_until(lambda: events() == list(wanted), lambda: f"the events {wanted}, not {events()}:\n{node.log()}")
    node.start()
    node.wait_for_condition("True")
    node.inject_xid(0)
    wait_for_events(("Warning", "XidFatal"))
    node.kill()
    node.start()  # with the memory of the one before
    time.sleep(5)
    wait_for_events(("Warning", "XidFatal"))
    node.acknowledge_all()
    wait_for_events(("Warning", "XidFatal"), ("Normal", "GPUHealthy"))
    node.yard.must("cordon", "1", "--reason", "its fan is noisy")
    node.yard.must("uncordon", "1")
    node.yard.must("cordon", "1", "--reason", "its fan is noisy")
    wait_until(lambda: events()[-1] == ("Normal", "GPUCordoned"), lambda: f"the cordon in {events()}")
    found = next(one for one in cluster.api.get("/api/v1/namespaces/default/events")["items"]
                 if one["involvedObject"]["name"] == node.name and one["type"] == "Warning")
    assert found["source"] == {"component": "gpuyard", "host": node.name} and found["count"] == 1
    assert found["message"].startswith("GPU 0: Xid 79.")


@pytest.mark.slow
def test_agent_without_events_writes_none(cluster, node):
    node.start("--no-events")
    node.wait_for_condition("True")
    node.inject_xid(0)
    node.wait_for_rules({"gpu-0": "xid-fatal"})
    time.sleep(2)
    assert cluster.events_of_node(node.name) == []


def test_hung_agent_exits_to_be_restarted(node):
    node.start()
    node.wait_for_condition("True")
    calls = subprocess.run(["timeout", "3.5", "strace", "-e", "trace=alarm", "-p", str(node.agent.pid)],
                           capture_output=True, text=True, timeout=30, check=False)
    assert calls.stderr.count("alarm(300)") >= 2  # of each round
    node.agent.send_signal(signal.SIGALRM)
    assert node.agent.wait(PATIENCE) == 1
    assert node.log().endswith("error a round has not ended within 5 min: the agent exits, and is to be restarted\n")
    node.start().wait_for_condition("True")


def test_writes_are_few(cluster, node):
    """The condition, one rule and one event for a change of one GPU, and nothing while nothing changes."""
    def writes():
        return cluster.audit.writes(USER, since=start)
    start = len(cluster.audit.writes())
    node.start()
    node.wait_for_condition("True")
    node.inject_xid(0)
    node.wait_for_rules({"gpu-0": "xid-fatal"})
    wait_until(lambda: len(writes()) == 4, lambda: f"4 writes: {writes()}")  # the first is the condition True
    time.sleep(10)
    assert len(writes()) == 4, writes()
    node.acknowledge_all()
    node.wait_for_rules({})
    wait_until(lambda: len(writes()) == 7, lambda: f"7 writes: {writes()}")
    time.sleep(2)
    assert len(writes()) == 7 and {one.status for one in writes()} <= {200, 201}, writes()


def test_deleted_rule_is_respected_until_the_alert_changes(cluster, node):
    node.start()
    node.inject_xid(0)
    node.wait_for_rules({"gpu-0": "xid-fatal"})
    rule = next(one["metadata"]["name"] for one in cluster.api.get(RULES)["items"]
                if one["metadata"]["labels"].get("gpuyard.io/node") == node.name)
    cluster.api.delete(f"{RULES}/{rule}")
    node.kill()
    node.start()
    node.yard.must("cordon", "1", "--reason", "so that the agent reads the cluster anew")
    node.wait_for_rules({"gpu-1": "cordoned"})
    node.acknowledge_all()
    node.wait_for_condition("True", "GPUsCordoned")
    node.lose(0)
    node.wait_for_rules({"gpu-0": "gpu-lost", "gpu-1": "cordoned"})


@pytest.mark.slow
def test_node_made_anew_gets_its_rules_anew(cluster, node):
    node.start()
    node.lose(0)
    node.wait_for_rules({"gpu-0": "gpu-lost"})
    cluster.api.delete(f"/api/v1/nodes/{node.name}")
    cluster.api.request("DELETE", f"/apis/resource.k8s.io/v1/resourceslices/{node.name}-gpu.nvidia.com")
    wait_until(lambda: node.rules() == {}, "the rule of the old Node to be collected")
    node.make_node()
    node.kill()
    node.start()
    node.wait_for_rules({"gpu-0": "gpu-lost"})
    node.wait_for_condition("False")


def test_status_shows_what_agents_have_set(cluster, node, tmp_path):
    node.start()
    node.lose(0)
    node.wait_for_rules({"gpu-0": "gpu-lost"})
    done = administer(cluster, tmp_path, "status")
    assert done.returncode == 0, done.stderr
    line = next(one for one in done.stdout.splitlines() if one.startswith(node.name))
    assert "False" in line and "GpuLost" in line
    assert "Device taints: resource.k8s.io/v1" in done.stdout
    answer = json.loads(administer(cluster, tmp_path, "status", "--node", node.name, "--json").stdout)
    validate(answer, "kube")
    assert answer["nodes"][0]["tainted_devices"] == [f"gpu.nvidia.com/{node.name}/gpu-0=gpu-lost"]
    done = administer(cluster, tmp_path, "status", "--node", "nowhere")
    assert done.returncode != 0 and "nowhere" in done.stderr


@pytest.mark.parametrize("offer", ["plugin"])
def test_withdraw_leaves_what_is_of_others(cluster, node, tmp_path):
    cluster.put_devices(node.name, [node.uuids[0]])
    cluster.taint_device("of-another", node.name, "gpu-0")
    cluster.api.patch(f"/api/v1/nodes/{node.name}", {"spec": {"taints": [FOREIGN]}}, "merge")
    before = node.node()
    node.start("--taint-node", "any")
    node.lose(0)
    node.wait_for_rules({"gpu-0": "gpu-lost"})
    node.wait_for_taint("gpu-lost")
    node.kill()
    done = administer(cluster, tmp_path, "withdraw", "--node", node.name)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "Removed: device taint rules 1, node taints 1, conditions 1.\n"
    after = node.node()
    assert after["spec"] == before["spec"]
    assert [one["type"] for one in after["status"]["conditions"]] == [
        one["type"] for one in before["status"]["conditions"]]
    assert node.rules() == {} and cluster.api.get(f"{RULES}/of-another")
    cluster.untaint_device("of-another")
    done = administer(cluster, tmp_path, "withdraw", "--node", node.name)
    assert done.stdout == "Removed: device taint rules 0, node taints 0, conditions 0.\n"


def leased_pods(node):
    """The GPUs of each pod that has a lease at the daemon."""
    answer = node.yard.daemon.get("/api/gpu/pods", unix=True)
    assert answer.status == 200, answer.text
    return {one["pod"]: one["uuids"] for one in answer.json()["pods"]}


def test_pods_with_gpus_have_leases_until_they_are_gone(node, tmp_path):
    build()
    agent = pod("gpuyard", "agent")
    plugin = pod("ml", "trainer", devices=[node.uuids[0]])
    claim = pod("ml", "eval", claims=[("gpu.nvidia.com", node.name, "gpu-1")])
    share = pod("ml", "shared", devices=[f"{node.uuids[1]}::0"])
    both = {"ml/trainer": [node.uuids[0]], "ml/eval": [node.uuids[1]]}
    pods = ListedPods(tmp_path)
    pods.put(agent, plugin, claim, share)

    def wait_for_leases(wanted):
        wait_until(lambda: leased_pods(node) == wanted,
                   lambda: f"the pods {wanted}, not {leased_pods(node)}:\n{node.log()}")

    def forget():
        return node.yard.go("kube", "forget", "--socket", node.yard.daemon.socket)

    with kubelet(tmp_path, str(pods.file)) as socket:
        node.start("--pod", "gpuyard/agent", kubelet=str(socket))
        wait_for_leases(both)
        assert "ml/trainer" in node.yard.must("leases")
        wait_until(lambda: {"ml/trainer", "ml/eval"} <= set(node.yard.must("usage", "--by", "pod").split()),
                   "the usage of both pods")
        for untrusted in ((), (pod("ml", "other"),)):
            pods.put(*untrusted)
            time.sleep(12)
            assert leased_pods(node) == both
        node.kill()
        pods.put(agent, claim)
        node.start("--pod", "gpuyard/agent", kubelet=str(socket))
        wait_for_leases({"ml/eval": [node.uuids[1]]})
        busy = forget()
        assert busy.returncode == 7 and "of a pod holds GPUs" in busy.stderr, busy
        pods.put(agent)
        wait_for_leases({})
    assert node.yard.go("run", "--no-wait", "--", "true").returncode != 0  # leases only observe
    node.kill()
    wait_until(lambda: forget().returncode == 0, "the end of the last lease")
    node.yard.wait_until_open()


@pytest.mark.slow
def test_account_without_rights_is_reported_once(cluster, node):
    cluster.make_account("powerless")
    node.token = cluster.make_token("powerless")
    node.start()
    wait_until(lambda: "forbidden" in node.log(), "the refusal in the log")
    time.sleep(5)
    assert node.log().count("responded with 403") == 1 and node.agent.poll() is None, node.log()


def test_agent_without_cluster_or_with_a_bad_file_ends_with_advice(tmp_path):
    def agent(*words):
        return subprocess.run([PROGRAM, "kube", "agent", "--node", "n1", *words], env=clean_environment(tmp_path),
                              capture_output=True, text=True, timeout=60, check=False)
    done = agent()
    assert done.returncode != 0 and "give a kubeconfig with --kubeconfig" in done.stderr
    file = tmp_path / "kubeconfig"
    file.write_text("apiVersion: v1\nkind: Config\n", encoding="utf-8")
    done = agent("--kubeconfig", str(file))
    assert done.returncode != 0 and str(file) in done.stderr
