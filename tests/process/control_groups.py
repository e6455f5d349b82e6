"""Control groups such as systemd, container runtimes and users create."""

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
    """Skips the test if this machine lets it create no group."""

    def __init__(self):
        self.mount = unified_mount()
        self.made = []
        if self.mount is None or os.geteuid() != 0:
            pytest.skip("no cgroup2 in which this test may create groups")

    def make(self, *names, owner=0):
        """Creates nested groups and returns the innermost. `owner` owns them, as if root had delegated
        the outermost to that user, who then created the others."""
        place = self.mount
        for name in names:
            place = place / name
            if place in self.made:
                continue
            try:
                place.mkdir()
            except FileExistsError:
                raise  # left by a test
            except OSError as error:
                pytest.skip(f"this machine lets the test create no control group: {error}")
            self.made.append(place)
            os.chown(place, owner, owner)
        return place

    def close(self):
        def remove():
            self.made = [place for place in reversed(self.made) if not try_to_remove(place)][::-1]
            return not self.made
        wait_until(remove, lambda: f"these groups to be empty: {self.made}")
