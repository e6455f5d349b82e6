"""The agent against an API server that fails in every way: a fault delays what the cluster should know, and neither
loses it nor ends the agent.
"""

import pytest

from agent_node import AgentNode
from agent_rights import give_rights
from control_plane import ControlPlane
from faulty_proxy import FAULTS, FaultyProxy
from program import wait_until

GPUS = 8


@pytest.fixture(scope="module")
def cluster():
    with ControlPlane(scheduling=False) as one:
        one.make_node("n1")
        give_rights(one)
        yield one


class ProxiedNode(AgentNode):
    """Its agent reaches the API server through a FaultyProxy."""

    def __init__(self, proxy, *words, **options):
        self.proxy = proxy
        super().__init__(*words, **options)

    def kubeconfig(self):
        return self.proxy.kubeconfig(self.token, name=f"{self.name}-proxy.json")


@pytest.fixture(scope="module")
def proxy(cluster):
    with FaultyProxy(cluster) as one:
        yield one


@pytest.fixture
def node(cluster, proxy, tmp_path, daemon, request):
    number = list(FAULTS).index(request.getfixturevalue("fault"))
    one = ProxiedNode(proxy, cluster, tmp_path / "node", daemon, name=f"f{number}", gpus=2)
    yield one.start()
    one.end()


@pytest.mark.parametrize("fault", FAULTS)
def test_fault_of_the_api_server_delays_and_loses_nothing(proxy, node, fault):
    node.wait_for_condition("True")
    before = proxy.counts[fault]
    with proxy.failing(fault):
        node.inject_xid(0)
        wait_until(lambda: "next attempt" in node.log(), lambda: f"the agent to report the failure:\n{node.log()}")
        assert node.condition()[0] == "True" and not node.rules()
    assert proxy.counts[fault] - before < 10  # it backs off
    node.wait_for_condition("False", "XidFatal")
    node.wait_for_rules({"gpu-0": "xid-fatal"})
    # A single conflict is usual, and logged for an Event only.
    wait_until(lambda: "the cluster is up to date again" in node.log() or "events are written again" in node.log(),
               node.log)
    assert node.agent.poll() is None
