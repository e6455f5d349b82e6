#!/usr/bin/env python3
"""./yard attack: what a hostile network and hostile users of the machine do to gpuyard. Loopback only;
every loop ends.

    attack.py [tls|http|floods] [--short]      no kind: all

Each check prints a line: what was done, what came of it, the bar. Exit code 1 if one did not hold.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests" / "attack"), str(ROOT / "tests"), str(ROOT / "tests" / "process")]
os.chdir(ROOT)

import api_attacks  # noqa: E402
import flood_attacks  # noqa: E402
import http_attacks  # noqa: E402
import proxy_attacks  # noqa: E402
import tls_attacks  # noqa: E402
from net_yard import NetYard  # noqa: E402
from program import Daemon  # noqa: E402

KINDS = {"tls": tls_attacks.ALL, "http": http_attacks.ALL + proxy_attacks.ALL + api_attacks.ALL,
         "floods": flood_attacks.ALL}
ROOM = "[shares]\nconnections = 4000"  # the attacks come from one address


class Board:
    """The findings. `short`: only what can be counted is judged."""

    def __init__(self, short):
        self.short = short
        self.failed = []

    def note(self, what, found, holds, bar=""):
        verdict = "ok" if holds else "FAILED"
        print(f"{verdict:7} {what:58} {found}{f'  (bar {bar})' if bar else ''}", flush=True)
        if not holds:
            self.failed.append(what)

    def bar(self, what, value, most, unit):
        """A figure that depends on the machine."""
        self.note(what, f"{value:.1f} {unit}", self.short or value <= most, f"{most} {unit}")

    def skip(self, what, why):
        print(f"{'skipped':7} {what:58} {why}", flush=True)


def attack(check, board):
    """Each has a daemon of its own, which must be well and without leftovers in the end."""
    with tempfile.TemporaryDirectory() as place:
        daemons = []

        def start(*arguments, directory):
            daemons.append(Daemon(directory, *arguments))
            return daemons[-1].ready()
        yard = NetYard(start, Path(place), more=ROOM)
        try:
            check(yard, board)
            board.note(f"{check.__name__}: the daemon is well", "", yard.curl("/health")[0] == 200)
        finally:
            for one in daemons:
                one.kill()


IN_OWN_NETWORK = ["unshare", "--net", "sh", "-c",
                  f"ip link set lo up && ip route add local {tls_attacks.SOURCES}.0.0/16 dev lo && exec \"$@\"", "sh"]


def enter_own_network():
    """Restarts this program in a network namespace, if it may. There an attacker has addresses beyond loopback,
    all of which is one party for the daemon."""
    if (tls_attacks.OWN_NETWORK in os.environ or
            subprocess.run([*IN_OWN_NETWORK, "true"], check=False, capture_output=True).returncode):
        return
    os.environ[tls_attacks.OWN_NETWORK] = "yes"
    os.execvp(IN_OWN_NETWORK[0], [*IN_OWN_NETWORK, sys.executable, str(ROOT / "tests/attack/attack.py"), *sys.argv[1:]])


def main():
    parser = argparse.ArgumentParser(prog="./yard attack")
    parser.add_argument("kind", nargs="?", choices=sorted(KINDS))
    parser.add_argument("--only", default="", metavar="WORD", help="only the checks whose name has it")
    parser.add_argument("--short", action="store_true", help="judge only what can be counted")
    asked = parser.parse_args()
    enter_own_network()
    board = Board(asked.short)
    for kind in [asked.kind] if asked.kind else sorted(KINDS):
        for check in KINDS[kind]:
            if asked.only in check.__name__ and kind == "floods":
                check(board)
            elif asked.only in check.__name__:
                attack(check, board)
    if board.failed:
        sys.exit(f"attack: {len(board.failed)} did not hold: {', '.join(board.failed)}")
    print("attack: all held")


main()
