"""docs/tour.md: each of its blocks is run on a demo, and prints what the page shows."""

import shlex

import pytest

from program import wait_until
from shown_blocks import ROOT, Place, shows, steps

PAGE = (ROOT / "docs/tour.md").read_text(encoding="utf-8")
PARTS = {"devices", "processes", "run", "leases", "queue", "power", "audit", "sim", "why", "alerts", "usage"}


@pytest.fixture(name="tour")
def started(open_place, opened):
    one = opened(Place(open_place))
    one.serve("--simulate", "8", config="[control]\nenabled = true\n")
    wait_until(lambda: "demo-serving" in one.run("gpuyard leases") and "demo-claim" in one.run("gpuyard queue"),
               "the demo has leases and a claim")
    return one


def test_page_has_a_block_for_each_part():
    assert {shlex.split(command)[1] for command, _ in steps(PAGE)} >= PARTS


def test_blocks_print_what_the_page_shows(tour):
    for command, lines in steps(PAGE):
        tour.check(command, lines)


@pytest.mark.parametrize("printed, good", [
    ("GPU 3: 71 W\nthe end\n", True), ("GPU 3:  9.5 W\nmore\nand more\nthe end\n", True),
    ("GPU 3: 71 J\nthe end\n", False), ("GPU 3: 71 W\nthe end\nand more\n", False)])
def test_only_numbers_and_dots_may_differ(printed, good):
    assert bool(shows(["GPU 1: 70 W", "...", "the end"], printed)) == good
