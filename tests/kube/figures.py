#!/usr/bin/env python3
"""How soon a cluster knows of a bad GPU, and what the agents cost: figures of real agents on simulated nodes at
a real API server, each against its bar.
"""

import argparse
import os
import random
import statistics
import sys
import time
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1]))
from program import open_directory, wait_until  # noqa: E402

from control_plane import ControlPlane  # noqa: E402  (knows where the others are)
from agent_node import TAINT, started_nodes  # noqa: E402
from agent_rights import USER, give_rights  # noqa: E402
from crowd import Probe, started_crowd  # noqa: E402

GPUS = 8
MOST_TURNS = 2  # of a GPU: at the third within an hour it flaps, and counts as bad for half an hour
EVERY = 0.03  # s between two questions to the API server


def say(what, value, bar=""):
    print(f"{what:<66} {value:<22}{f' (bar {bar})' if bar else ''}", flush=True)


def milliseconds(times):
    times = sorted(times)
    return f"{statistics.median(times) * 1000:.0f}, {times[round(0.99 * (len(times) - 1))] * 1000:.0f} ms"


def seconds_until(condition, what):
    began = time.monotonic()
    wait_until(condition, what, every=EVERY)
    return time.monotonic() - began


def measure_xids(nodes, rounds):
    """Xid 79 on a GPU of some node until condition and rule are readable, and its end until both are gone."""
    begins, ends = [], []
    for number in range(min(rounds, MOST_TURNS * GPUS * len(nodes))):
        node, gpu = nodes[number % len(nodes)], number // len(nodes) % GPUS
        time.sleep(random.random())  # at any moment of a daemon's second
        node.inject_xid(gpu)
        begins.append(seconds_until(lambda: node.condition()[0] == "False" and f"gpu-{gpu}" in node.rules(),
                                    "condition and rule"))
        node.acknowledge_all()
        ends.append(seconds_until(lambda: node.condition()[0] == "True" and not node.rules(), "their end"))
    say("Xid to condition and rule: p50, p99", milliseconds(begins), "1500, 3000 ms")
    say("end of the alert to the end of both: p50, p99", milliseconds(ends), "p99 3000 ms")


def measure_taints(node, rounds):
    """A lost GPU of a device plugin until the node is tainted."""
    times = []
    for number in range(min(rounds, MOST_TURNS * GPUS)):
        gpu = number % GPUS
        node.lose(gpu)
        times.append(seconds_until(lambda: node.taints().get(TAINT), "the taint"))
        node.reset(gpu)
        node.wait_for_taint(None)
        node.wait_for_condition("True")
    say("lost GPU to the node's taint: p50, p99", milliseconds(times), "1500, 3000 ms")


def measure_all_at_once(cluster, node):
    before = len(cluster.audit.writes())
    for gpu in range(GPUS):
        node.inject_xid(gpu)
    wait_until(lambda: len(node.rules()) == GPUS and node.condition()[0] == "False", "all rules", every=EVERY)
    time.sleep(2)
    writes = cluster.audit.writes(USER, since=before)
    events = sum(one.resource == "events" for one in writes)
    say(f"writes for {GPUS} GPUs, which turn bad within a second, and events", f"{len(writes) - events}, {events}",
        f"{GPUS} + 2, if at once, {GPUS}")
    node.acknowledge_all()
    wait_until(lambda: not node.rules(), "no rule", every=EVERY)


def cpu_seconds(pid):
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident_mib(pid):
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) / 1024


def measure_quiet(cluster, nodes, seconds):
    before = len(cluster.audit.writes())
    cpu = [cpu_seconds(node.agent.pid) for node in nodes]
    time.sleep(seconds)
    used = [(cpu_seconds(node.agent.pid) - one) / seconds * 100 for node, one in zip(nodes, cpu)]
    say(f"writes of {len(nodes)} agents in {seconds} quiet seconds",
        str(len(cluster.audit.writes(USER, since=before))), "0")
    say("an agent's CPU meanwhile, % of a core: median, most", f"{statistics.median(used):.3f}, {max(used):.3f}", "0.05")
    say("an agent's resident memory, MiB: most", f"{max(resident_mib(node.agent.pid) for node in nodes):.1f}", "10")


def measure_crowd(cluster, place, agents):
    """Xid 79 on every node at the same moment: one daemon answers all of their agents."""
    with started_crowd(cluster, place, agents, GPUS) as crowd:
        with Probe(cluster) as probe:
            crowd.first.inject_xid(0)
            say(f"{agents} nodes sick in the same second: until all are reported",
                f"{crowd.seconds_until('False'):.1f} s", "10 s")
            crowd.first.acknowledge_all()
            say("well in the same second: until all are reported", f"{crowd.seconds_until('True'):.1f} s")
        say("the API server's answers to another client meanwhile: p50, p99", milliseconds(probe.times),
            "p99 1000 ms")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=8, help="with a DRA driver, besides one with a plugin")
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--quiet", type=int, default=600, metavar="SECONDS")
    parser.add_argument("--crowd", type=int, default=200, metavar="AGENTS", help="0: without")
    asked = parser.parse_args()
    with ControlPlane(scheduling=False) as cluster, open_directory() as place:
        cluster.make_node("n1")
        give_rights(cluster)
        with started_nodes(cluster, Path(place), ["dra"] * asked.nodes + ["plugin"], GPUS) as nodes:
            measure_all_at_once(cluster, nodes[0])
            measure_xids(nodes[1:-1], asked.rounds)
            measure_taints(nodes[-1], max(asked.rounds // 10, 1))
            measure_quiet(cluster, nodes, asked.quiet)
        if asked.crowd:
            measure_crowd(cluster, Path(place), asked.crowd)


if __name__ == "__main__":
    main()
