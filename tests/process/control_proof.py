"""Shared by the proofs of control: daemons with users, and the driver's own log of writes as the
witness of a daemon's actions.
"""

import grp
import os

import pytest

from program import PROGRAM

BASE = 700000  # an H100's own power limit, mW
GROUP = grp.getgrgid(100).gr_name  # some group, whose members may control

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can ask as other users")


def limit(watts, gpu=0):
    return (gpu, "power_limit", round(watts * 1000))


def accepted(answer, outcome=None):
    assert answer.status == 200, answer.text
    if outcome:
        assert answer.outcomes() == [outcome]
    return answer


def gone(yard, gpu=0):
    """The next daemon knows of nothing that it would have to put back."""
    assert yard.root.standing(gpu) == "free"
    writes = yard.writes()
    yard.kill()
    yard.start()
    assert yard.root.standing(gpu) == "free"
    assert yard.writes() == writes


def wanted_of(yard, gpu):
    """The lowest of the daemon's claims, and the limit that the driver has."""
    managed = yard.root.managed(gpu)
    wanted = [claim["wanted"]["power_limit_mw"] for claim in managed["claims"]]
    return min(wanted, default=BASE), round(yard.world.gpu(gpu)["power_limit_w"] * 1000)


def resetting(script="", before=""):
    """A reset command that logs its action, and resets as a driver would."""
    return ["/bin/sh", "-c", f"{before} '{os.path.abspath(PROGRAM)}' sim reset --as-driver --gpu $0 {script}",
            "{uuid}"]
