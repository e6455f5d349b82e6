"""The packages that ./yard package has made, one machine for all tests that change it in order, and the
figures that they leave in build/package/figures.txt."""

import os
from pathlib import Path

import pytest

from machine import booted, record

BUILD = Path(__file__).resolve().parents[2] / "build"


@pytest.fixture(scope="session")
def packages():
    return Path(os.environ.get("GPUYARD_PACKAGES", BUILD / "package"))


@pytest.fixture(scope="session")
def deb(packages):
    found = sorted(packages.glob("gpuyard_*.deb"))
    assert len(found) == 1, f"./yard package makes one: {found}"
    return found[0]


@pytest.fixture(scope="session")
def figure(packages):
    """Notes a figure, which is shown at the end: a bar in time is looked at, not asserted."""
    lines = []

    def note(what, value):
        lines.append(f"{what:52} {value}")
    yield note
    (packages / "figures.txt").write_text("".join(line + "\n" for line in lines), encoding="utf-8")


@pytest.fixture(scope="session")
def machine(packages):
    with booted(packages) as running:
        record("package on a machine", "ran")
        yield running
