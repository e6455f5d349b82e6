#!/usr/bin/env python3
"""./yard fleet-test view: what `gpuyard fleet` costs on many real machines, beside its bars.

    view.py [--nodes 100] [--rounds 1000] [--seed 1] [--only speed|free|faults]

Prints a table of measurements; then random states of a fleet, in which `fleet free` has to be right;
then each fault with what is printed of it. Ends with 1 where a bar is missed. PROGRAM and its simulated
NVML are in GPUYARD_BIN and GPUYARD_SIM_LIB.
"""

import argparse
import json
import os
import statistics
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent), str(HERE.parent / "process")]

from asking import answered, hang_up, logins, names  # noqa: E402
from board import Board  # noqa: E402
from free_rounds import MODELS, Rounds  # noqa: E402
from program import UnixConnection, wait_until  # noqa: E402
from rig import QUICK, SHARED, Fleet  # noqa: E402

GPUS = 8  # of each machine, where speed is measured
VIEWS = ((), ("gpus",), ("users",), ("free",), ("free", "-n", "4"), ("queue",), ("alerts",), ("usage",),
         ("usage", "--by", "host"), ("doctor",))
PATIENCE = 120

# Runs a program from a process that is smaller than the bar for memory, since what a process had before
# it became the program counts as its own. The last line of stderr is what it cost.
MEASURE = """
import json, os, sys, time
began = time.monotonic()
pid = os.posix_spawnp(sys.argv[1], sys.argv[1:], os.environ)
_, status, used = os.wait4(pid, 0)
seconds = time.monotonic() - began
cost = {"seconds": seconds, "code": os.waitstatus_to_exitcode(status), "rss_mb": used.ru_maxrss / 1000,
        "cpu_s": used.ru_utime + used.ru_stime}
sys.stderr.write("\\n" + json.dumps(cost) + "\\n")
"""

# The usual shell loop, with 64 at a time as gpuyard does.
LOOP = "printf '%s\\n' {names} | xargs -P 64 -I@ ssh {options} @ gpuyard devices --json >/dev/null"


def measured(fleet, *words, code=0):
    """Measures the cost of one `gpuyard fleet` for the client; all machines are in its answer."""
    done = fleet.enclosure.run("/usr/bin/python3", "-ISc", MEASURE, fleet.program, "fleet", *words, "--json",
                               env=fleet.environment, timeout=PATIENCE)
    cost = json.loads(done.stderr.splitlines()[-1])
    assert cost["code"] == code, f"{words}: {done.stdout[:500]}{done.stderr}"
    answer = json.loads(done.stdout)
    assert answered(answer) == names(fleet), f"{words}: {done.stdout[:2000]}"
    return cost


def median(fleet, count, *words):
    """The median of the seconds, and the highest peak of memory."""
    costs = [measured(fleet, *words) for _ in range(count)]
    return statistics.median(one["seconds"] for one in costs), max(one["rss_mb"] for one in costs)


def called(words):
    return " ".join(("fleet", *words))


# Speed.


def cold(fleet, board):
    """The median of three; each logs in to every machine once."""
    costs = []
    for _ in range(3):
        hang_up(fleet)
        before = logins(fleet)
        costs.append(measured(fleet))
        board.equal("logins of a cold view", sum(logins(fleet)) - sum(before), len(fleet.nodes))
    seconds = statistics.median(one["seconds"] for one in costs)
    board.most("fleet, cold, by ssh (median of 3)", seconds, 10, "s")
    board.most("  peak memory of the client", max(one["rss_mb"] for one in costs), 50, "MB", 1)
    return seconds


def warm(fleet, board):
    before = logins(fleet)
    usual = 0
    for words in VIEWS:
        seconds, memory = median(fleet, 5, *words)
        usual = usual or seconds
        board.most(f"{called(words)}, warm (median of 5)", seconds, 3, "s")
        board.most("  peak memory of the client", memory, 50, "MB", 1)
    board.equal("logins of all warm views", sum(logins(fleet)) - sum(before), 0)
    board.equal("masters that wait for the next", len(fleet.ssh_masters()), len(fleet.nodes))
    return usual


def without_ssh(fleet, board):
    for way in ("unix", "https"):
        fleet.know_hosts(*(node.host(way) for node in fleet.nodes))
        seconds, memory = median(fleet, 9)
        board.most(f"fleet over {way} (median of 9)", seconds, 0.3, "s", 3)
        board.most("  peak memory of the client", memory, 50, "MB", 1)
    fleet.know_hosts(*(node.host() for node in fleet.nodes))


def idle_percent(seconds=2):
    """Returns the idle share of the processors."""
    def look():
        times = [int(word) for word in Path("/proc/stat").read_text().split("\n")[0].split()[1:]]
        return times[3] + times[4], sum(times)
    (idle, total), _ = look(), time.sleep(seconds)
    later, all_of_it = look()
    return 100 * (later - idle) / max(all_of_it - total, 1)


def bytes_of_a_brief(fleet, board):
    node = fleet.nodes[0]
    connection = UnixConnection(str(fleet.enclosure.outside(node.daemon_socket)))

    def asked(**headers):
        connection.request("GET", "/api/gpu/brief", headers=headers)
        answer = connection.getresponse()
        return answer, answer.read()
    answer, body = asked()
    board.most("bytes of /api/gpu/brief for each GPU", len(body) / GPUS, 160, "bytes", 0)
    columns = json.dumps(json.loads(body)["gpus"], separators=(",", ":"))
    board.plain("  without what is said once a machine", f"{len(columns) / GPUS:.0f} bytes")

    def same():
        """A reading of the GPUs may come in between; they are idle."""
        tag = asked()[0].getheader("ETag")
        again, rest = asked(**{"If-None-Match": tag})
        return again.status == 304 and rest == b""
    board.equal("its ETag is answered with 304 and no body", bool(wait_until(same, "a 304")), True)


def loop(fleet, *options):
    words = LOOP.format(names=" ".join(names(fleet)), options=" ".join(options))
    began = time.monotonic()
    fleet.enclosure.must("sh", "-c", words, env=fleet.environment, timeout=PATIENCE)
    return time.monotonic() - began


def compare(fleet, board, cold_s, warm_s):
    alone = statistics.median(loop(fleet, "-o", "ControlMaster=no", "-o", "ControlPath=none") for _ in range(3))
    board.plain("xargs -P 64 ssh gpuyard devices, cold", f"{alone:.2f} s")
    board.plain("  times what fleet takes cold", f"{alone / cold_s:.2f}")
    loop(fleet, *SHARED)
    shared = statistics.median(loop(fleet, *SHARED) for _ in range(5))
    board.plain("the same over masters of its own", f"{shared:.2f} s")
    board.plain("  times what fleet takes warm", f"{shared / warm_s:.2f}")
    for name in names(fleet):
        fleet.ssh(*SHARED, "-O", "exit", name)


def speed(board, asked):
    board.section(f"{asked.nodes} machines of {GPUS} GPUs, on {os.cpu_count()} cores that do all of their work, too")
    began = time.monotonic()
    with Fleet(nodes=asked.nodes, gpus=GPUS, https=True) as fleet:
        board.plain("the machines are up after", f"{time.monotonic() - began:.1f} s")
        board.plain("of the processors is idle then", f"{idle_percent():.0f} %")
        cold_s = cold(fleet, board)
        warm_s = warm(fleet, board)
        without_ssh(fleet, board)
        bytes_of_a_brief(fleet, board)
        compare(fleet, board, cold_s, warm_s)


# Whether free is right.


def free(board, asked):
    board.section(f"fleet free: {asked.rounds} random states of 8 machines, seed {asked.seed}")
    with Fleet(nodes=8, models=MODELS, ssh_options=QUICK) as fleet:
        rounds = Rounds(fleet, asked.seed)
        began = time.monotonic()
        try:
            for number in range(asked.rounds):
                rounds.round()
                if number % 50 == 49:
                    print(f"        {number + 1} rounds, {time.monotonic() - began:.0f} s", flush=True)
        except AssertionError as error:
            board.note(f"round {number}", "differs", False)
            print(error, flush=True)
        finally:
            rounds.end()
        right = rounds.granted + rounds.refused
        board.equal("machines of which it was right", right, 8 * asked.rounds)
        board.plain("  that would give, and gave these GPUs", str(rounds.granted))
        board.plain("  that would not, and did not", str(rounds.refused))


# The output while a machine is in trouble.

PLAIN = ("--timeout", "2s")


def troubles(node):
    """Name, fault, and whether a new login to the machine is needed."""
    return (("its sshd says nothing", node.silent_sshd, True),
            ("its host key has changed", node.other_host_key, True),
            ("its host key is not known", lambda: node.other_host_key(known=None), True),
            ("its sshd asks for a password", node.asks_for_password, True),
            ("the machine is off", node.dead, True),
            ("the network is cut", node.cut_off, True),
            ("the network is cut, and a connection was left", node.cut_off, False),
            ("its daemon hangs", node.stopped_daemon, False),
            ("its daemon is gone", node.killed_daemon, False),
            ("half of an answer comes", node.half_an_answer, False),
            ("half of an answer comes, and the end", lambda: node.half_an_answer(hangs=False), False),
            ("its shell prints 10 MB", node.big_banner, False),
            ("it has no gpuyard", node.no_gpuyard, False),
            ("its gpuyard is older", lambda: node.older_daemon("/api/gpu/brief"), False))


def faults(board, _):
    board.section("faults of n3, one after the other")
    with Fleet(nodes=8, gpus=4, ssh_options=QUICK) as fleet:
        for name, fault, anew in troubles(fleet.nodes[2]):
            if anew:
                hang_up(fleet)
            wait_until(lambda: fleet.go("fleet").stderr == "", "the fleet to be well")
            if anew:
                hang_up(fleet)
            words = ("--timeout", "5s") if fault == fleet.nodes[2].dead else PLAIN
            with fault():
                began = time.monotonic()
                done = fleet.go("fleet", *words)
                seconds = time.monotonic() - began
            print(f"\n# {name}: {seconds:.1f} s, exit code {done.returncode}\n$ gpuyard fleet {' '.join(words)}",
                  flush=True)
            print(done.stdout + done.stderr, flush=True)
            named = any(line.startswith("n3: ") for line in done.stderr.splitlines())
            board.note(name, f"{seconds:.1f} s", done.returncode == 0 and named and "7 machines" in done.stdout)


SUITES = {"speed": speed, "free": free, "faults": faults}


def main():
    parser = argparse.ArgumentParser(prog="./yard fleet-test view")
    parser.add_argument("--nodes", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", choices=sorted(SUITES))
    asked = parser.parse_args()
    board = Board()
    for name, suite in SUITES.items():
        if asked.only in (None, name):
            suite(board, asked)
    if board.missed:
        sys.exit(f"\nfleet-test: {len(board.missed)} missed: {', '.join(board.missed)}")
    print("\nfleet-test: every bar was kept")


main()
