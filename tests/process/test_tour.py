"""docs/tour.md: each of its blocks is run on a demo, and prints what the page shows.

Numbers, ids and the width of columns differ; `...` stands for any text, and on a line of its own for any
lines.
"""

import getpass
import os
import re
import shlex
import subprocess
from pathlib import Path

import pytest

from program import PROGRAM, clean_environment, wait_until

PAGE = (Path(__file__).resolve().parents[2] / "docs/tour.md").read_text(encoding="utf-8")
# Commands that only read are run again until the demo or the daemon has come so far.
READS = {"devices", "processes", "leases", "queue", "audit", "why", "alerts", "usage"}
UUID = re.compile(r"GPU-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def steps():
    """(command, lines that it prints) in the order of the page."""
    found = []
    for block in re.findall(r"^```console\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, output = part.partition("\n")
            found.append((command, output.splitlines()))
    return found


def normal(line):
    """A line without what differs from run to run."""
    line = UUID.sub("UUID", line)
    # Before a time of another day, as that of a limit that ends after midnight.
    line = re.sub(r"\b\d{4}-\d\d-\d\d (?=\d\d:\d\d)", "", line)
    line = re.sub(r"\b[0-9a-f]{16}\b", "ID", line)
    line = re.sub(r"<?\d+(?:[.:]\d+)*", "N", line)
    return " ".join(line.split())


def pattern(lines):
    parts = []
    for line in lines:
        if line.strip() == "...":
            parts.append(r"(?:.*\n)*?")
        else:
            words = (re.escape(part.strip()) for part in normal(line).split("..."))
            parts.append(r"\s*.*?\s*".join(words) + r"\n")
    return re.compile("".join(parts))


def shows(lines, printed):
    return pattern(lines).fullmatch("".join(normal(line) + "\n" for line in printed.splitlines()))


class Tour:
    def __init__(self, place):
        self.environment = clean_environment(place, GPUYARD_SOCKET=f"{place}/s", GPUYARD_SIM_WORLD=f"{place}/state/world")
        os.symlink(os.path.abspath(PROGRAM), place / "gpuyard")
        self.environment["PATH"] = f"{place}:{self.environment['PATH']}"
        (place / "tour.toml").write_text("[control]\nenabled = true\n")
        serve = {name: value for name, value in self.environment.items() if name != "GPUYARD_SIM_WORLD"}
        with open(place / "serve.log", "w", encoding="utf-8") as log:
            self.daemon = subprocess.Popen(
                ["gpuyard", "serve", "--simulate", "8", "--config", place / "tour.toml", "--state", place / "state",
                 "--listen", "127.0.0.1:0"], env=serve, stdout=log, stderr=log)

    def run(self, command):
        words = shlex.split(command)
        done = subprocess.run(words, env=self.environment, capture_output=True, text=True, timeout=60, check=False)
        return done.stdout + done.stderr

    def close(self):
        self.daemon.terminate()
        self.daemon.wait(30)


@pytest.fixture(name="tour")
def started(open_place, opened):
    one = opened(Tour(open_place))
    wait_until(lambda: "demo-serving" in one.run("gpuyard leases") and "demo-claim" in one.run("gpuyard queue"),
               "the demo has leases and a claim")
    return one


def test_page_has_a_block_for_each_part():
    verbs = {shlex.split(command)[1] for command, _ in steps()}
    assert verbs >= READS | {"run", "power", "sim"}


def test_blocks_print_what_the_page_shows(tour):
    for command, lines in steps():
        lines = [line.replace("root", getpass.getuser()) for line in lines]
        seen = []

        def as_shown(command=command, lines=lines, seen=seen):
            seen[:] = [tour.run(command)]
            return shows(lines, seen[0])
        if shlex.split(command)[1] in READS:
            wait_until(as_shown, lambda command=command, seen=seen: f"{command} prints\n{seen[0]}", every=0.5)
        else:
            assert as_shown(), f"{command} prints\n{seen[0]}"


@pytest.mark.parametrize("printed, good", [
    ("GPU 3: 71 W\nthe end\n", True), ("GPU 3:  9.5 W\nmore\nand more\nthe end\n", True),
    ("GPU 3: 71 J\nthe end\n", False), ("GPU 3: 71 W\nthe end\nand more\n", False)])
def test_only_numbers_and_dots_may_differ(printed, good):
    assert bool(shows(["GPU 1: 70 W", "...", "the end"], printed)) == good
