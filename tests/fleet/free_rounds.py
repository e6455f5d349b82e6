"""Checks `gpuyard fleet free`: random states of a fleet, random requests, and what
`gpuyard run --no-wait` then gets on each of its machines."""

import random
import re
import signal

from asking import view
from program import PATIENCE, wait_until

# The models of the machines, in turn.
MODELS = ("h100:4", "a100:2,t4:2", "h100:2,l40s:2", "a100:4")
WISHES = ("H100", "a100", "T4", "l40s", "80GB", "no such")
SIZES = ("1G", "20G", "60G")
NOWHERE = 7  # the exit code


class Rounds:
    """A fleet whose state it changes, as its users and administrators do."""

    def __init__(self, fleet, seed):
        self.fleet = fleet
        self.random = random.Random(seed)
        self.leases = {node: [] for node in fleet.nodes}  # (id, user)
        self.cordoned = {node: set() for node in fleet.nodes}
        self.waiting = {}  # by node
        self.granted = self.refused = 0

    def change(self, node):
        """One thing that happens there."""
        self.random.choice((self.take, self.take, self.release, self.cordon, self.uncordon, self.wait))(node)

    def take(self, node):
        user = self.random.choice(("alice", "root"))
        done = node.run_here("gpuyard", "lease", "take", "--no-wait", "--for", "1h", "--quiet", "-n",
                             str(self.random.randint(1, 3)), user=user)
        if done.returncode == 0:
            self.leases[node].append((done.stdout.split()[0], user))

    def release(self, node):
        if self.leases[node]:
            at = self.random.randrange(len(self.leases[node]))
            lease, user = self.leases[node].pop(at)
            node.must_here("gpuyard", "lease", "release", lease, user=user)

    def cordon(self, node):
        gpu = self.random.randrange(4)
        node.must_here("gpuyard", "cordon", str(gpu), "--reason", "a round", user="root")
        self.cordoned[node].add(gpu)

    def uncordon(self, node):
        for gpu in self.cordoned[node]:
            node.must_here("gpuyard", "uncordon", str(gpu), user="root")
        self.cordoned[node].clear()

    def wait(self, node):
        """Starts a claim that waits, for which GPUs are reserved; cancels it if it waits already."""
        if node in self.waiting:
            self.give_up(node)
            return
        self.waiting[node] = node.popen("gpuyard", "run", "--quiet", "-n", "4", "--", "sleep", "600", user="root")
        wait_until(lambda: self.runs_or_waits(node), "it to wait or to run")

    def runs_or_waits(self, node):
        leases = node.get("/api/gpu/leases")["leases"] + node.get("/api/gpu/queue")["waiting"]
        return any(lease["binding"] == "run" for lease in leases)

    def give_up(self, node):
        one = self.waiting.pop(node)
        one.send_signal(signal.SIGINT)
        one.wait(PATIENCE)
        wait_until(lambda: not self.runs_or_waits(node), "it to be gone")

    def settle(self, node):
        """Nothing changes there by itself any more."""
        def calm():
            return all(lease["state"] != "draining" and (lease["binding"] != "run" or lease["uid"] == 0)
                       for lease in node.get("/api/gpu/leases")["leases"])
        wait_until(calm, f"{node.name} to be calm")

    def wish(self):
        words = ["-n", str(self.random.randint(1, 4))]
        if self.random.random() < 0.4:
            words += ["--model", self.random.choice(WISHES)]
        if self.random.random() < 0.4:
            words += ["--min-free", self.random.choice(SIZES)]
        return words

    def got(self, node, wish):
        """The GPUs that such a command of alice's gets there now; None: none."""
        done = node.run_here("gpuyard", "run", "--no-wait", "--quiet", *wish, "--", "printenv",
                             "CUDA_VISIBLE_DEVICES")
        if done.returncode == 0:
            return set(done.stdout.strip().split(","))
        never = done.returncode == 2 and re.search("requested, but|no GPU of this machine matches",
                                                   done.stderr)
        assert done.returncode == NOWHERE or never, f"{node.name}: run {wish}: {done}"
        return None

    def round(self):
        for node in self.fleet.nodes:
            if self.random.random() < 0.5:
                self.change(node)
            self.settle(node)
        wish = self.wish()
        done = self.fleet.go("fleet", "free", *wish)
        answer = view(self.fleet, "free", *wish, code=done.returncode)
        said = {offer["host"]: {gpu["uuid"] for gpu in offer["gpus"]} for offer in answer["offers"]}
        lines = [line.split()[0] for line in done.stdout.splitlines()[1:] if line.strip()]
        assert lines == [offer["host"] for offer in answer["offers"]], (done, answer)
        assert done.returncode == (0 if said else NOWHERE), done
        given = {node.name: got for node in self.fleet.nodes if (got := self.got(node, wish)) is not None}
        assert said == given, f"{wish}: free says {said}, run gets {given}"
        self.granted += len(given)
        self.refused += len(self.fleet.nodes) - len(given)

    def end(self):
        for node in list(self.waiting):
            self.give_up(node)
