"""Many agents of many nodes, which one daemon answers: what an API server has to bear when a fault hits every node
at the same moment.
"""

import contextlib
import subprocess
import threading
import time

from agent_node import CONDITION, RULES, AgentNode
from agent_rights import token_of_agent
from program import PATIENCE, PROGRAM, Daemon

PAUSE = 0.1  # s between two questions of the probe


class Probe(threading.Thread):
    """Asks the API server for one Node all the time. `times` is how long each answer took, in s."""

    def __init__(self, cluster):
        super().__init__()
        self._cluster = cluster
        self._end = threading.Event()
        self.times = []

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self._end.set()
        self.join()

    def run(self):
        while not self._end.wait(PAUSE):
            began = time.monotonic()
            self._cluster.api.get("/api/v1/nodes/n1")
            self.times.append(time.monotonic() - began)


class Crowd:
    """Nodes c0, c1 and so on. `first` has the daemon that all of them have."""

    def __init__(self, cluster, first, count):
        self.cluster = cluster
        self.first = first
        self.names = [f"c{number}" for number in range(count)]
        self._agents = []

    def start(self):
        for name in self.names:
            self.cluster.make_node(name)
            self.cluster.put_devices(name, self.first.uuids)
            file = self.cluster.kubeconfig(token_of_agent(self.cluster, name), name=f"{name}.json")
            with open(self.first.place / "crowd.log", "ab") as log:
                self._agents.append(subprocess.Popen(
                    [PROGRAM, "kube", "agent", "--node", name, "--kubeconfig", file, "--kubelet", "none",
                     "--socket", self.first.yard.daemon.socket], env=self.first.yard.environment,
                    stdout=log, stderr=log))

    def end(self):
        for one in self._agents:
            one.kill()
        for one in self._agents:
            one.wait(PATIENCE)

    def known(self, status):
        """How many nodes have this condition and, where it is False, a rule."""
        found = {one["metadata"]["name"]: one for one in self.cluster.api.get("/api/v1/nodes")["items"]}
        tainted = {one["metadata"]["labels"]["gpuyard.io/node"] for one in self.cluster.api.get(RULES)["items"]}

        def is_known(name):
            conditions = {one["type"]: one["status"] for one in found[name]["status"].get("conditions", [])}
            return conditions.get(CONDITION) == status and (name in tainted) == (status == "False")
        return sum(is_known(name) for name in self.names)

    def seconds_until(self, status, patience=300):
        """How long it takes until all of them have it."""
        began = time.monotonic()
        while (count := self.known(status)) < len(self.names):
            assert time.monotonic() - began < patience, f"only {count} of {len(self.names)} have {status}"
            time.sleep(0.2)
        return time.monotonic() - began


@contextlib.contextmanager
def started_crowd(cluster, place, count, gpus):
    directory = place / "crowd-daemon"
    directory.mkdir()
    daemons = []

    def start(*arguments, **environment):
        daemons.append(Daemon(directory, *arguments, **environment).ready())
        return daemons[-1]
    first = AgentNode(cluster, place / "crowd", start, name="crowd", gpus=gpus)
    crowd = Crowd(cluster, first, count)
    try:
        crowd.start()
        crowd.seconds_until("True")
        yield crowd
    finally:
        crowd.end()
        first.end()
        for one in daemons:
            one.kill()
