"""docs/fleet.md: three machines in a minute, as it stands there."""

import re
import shlex
import time
from pathlib import Path

import pytest

from rig import CLIENT, Fleet

TEXT = Path(__file__).resolve().parents[2] / "docs" / "fleet.md"
NAMES = ("lab1", "lab2", "lab3")


def block(language):
    """The first of that language."""
    return re.search(rf"(?ms)^```{language}\n(.*?)^```$", TEXT.read_text(encoding="utf-8")).group(1)


def commands():
    lines = [line.split("#")[0].strip() for line in block("sh").splitlines()]
    return [shlex.split(line)[1:] for line in lines if line.startswith("gpuyard ")]


def also_called(names):
    """Lines of an ssh_config by which n1, n2, ... have other names as well."""
    for number, name in enumerate(names, 1):
        yield f"Host {name}\n  HostName 10.77.0.{number + 1}\n  UserKnownHostsFile /run/fleet/n{number}/known_hosts"


@pytest.fixture(scope="module")
def fleet():
    with Fleet(nodes=3, gpus=2, ssh_options=tuple(also_called(NAMES))) as one:
        one.enclosure.write(f"{CLIENT}/config/gpuyard/hosts.toml", block("toml"))
        yield one


def test_the_recipe_names_the_machines_and_has_commands():
    assert re.findall(r"(?m)^\[(\w+)\]$", block("toml")) == list(NAMES)
    assert {tuple(words[:2]) for words in commands()} >= {("fleet",), ("fleet", "free"), ("fleet", "users")}


def test_recipe_works_unchanged_within_a_minute(fleet, record_property):
    record_property("contract", "F5")
    began = time.monotonic()
    fleet.nodes[1].must_here("gpuyard", "lease", "take", "--for", "1h", "--quiet")
    for words in commands():
        done = fleet.go(*words)
        assert done.returncode == 0 and done.stdout, f"gpuyard {' '.join(words)}: {done}"
    assert time.monotonic() - began < 60
    table = fleet.must("fleet")
    assert all(re.search(rf"(?m)^{name} +2 ", table) for name in NAMES), table
    assert "3 machines, 6 GPUs, 5 free" in table and "lab2:" in fleet.must("fleet", "users")
