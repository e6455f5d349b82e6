"""Control groups like those that systemd, the runtimes of containers and users make."""

import os
from pathlib import Path

import pytest

from program import wait_until


def unified_mount():
    for line in Path("/proc/mounts").read_text(encoding="utf-8").splitlines():
        _, place, kind, *_ = line.split()
        if kind == "cgroup2":
            return Path(place)
    return None


def try_to_remove(place):
    try:
        place.rmdir()
        return True
    except OSError:
        return False


class ControlGroups:
    """Skips the test where no group can be made."""

    def __init__(self):
        self.mount = unified_mount()
        self.made = []
        if self.mount is None or os.geteuid() != 0:
            pytest.skip("there is no cgroup2 here in which groups can be made")

    def make(self, *names, owner=0):
        """The last of these groups, one below the other. `owner`: the user who made it, and those below
        the first, which root made and handed over."""
        place = self.mount
        for name in names:
            place = place / name
            if place in self.made:
                continue
            try:
                place.mkdir()
            except OSError as error:
                pytest.skip(f"no control group can be made here: {error}")
            self.made.append(place)
            os.chown(place, owner, owner)
        return place

    def close(self):
        for place in reversed(self.made):
            wait_until(lambda place=place: try_to_remove(place), f"{place} to be empty")
