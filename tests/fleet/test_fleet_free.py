"""gpuyard fleet free: it says where `gpuyard run` would get GPUs, and which."""

import os

import pytest

from asking import view
from free_rounds import MODELS, NOWHERE, Rounds
from rig import QUICK, Fleet

ROUNDS = int(os.environ.get("GPUYARD_ROUNDS", "15"))
SEED = int(os.environ.get("GPUYARD_SEED", "1"))


@pytest.fixture(scope="module")
def fleet():
    with Fleet(nodes=8, models=MODELS, https=True, ssh_options=QUICK) as one:
        yield one


def offered(fleet, *wish):
    return [offer["host"] for offer in view(fleet, "free", *wish)["offers"]]


def test_machine_with_fewest_spare_gpus_comes_first(fleet):
    assert offered(fleet, "-n", "2", "--model", "h100")[:2] == ["n3", "n7"]
    assert offered(fleet, "-n", "2", "--model", "A100")[:2] == ["n2", "n6"]
    assert offered(fleet, "-n", "4", "--model", "h100") == ["n1", "n5"]
    first = view(fleet, "free", "-n", "2", "--model", "h100")["offers"][0]
    assert first["linked"] is True and first["free"] == 2 and len(first["gpus"]) == 2


def test_unsatisfiable_request_exits_7_with_hint(fleet):
    for wish in (("-n", "5"), ("--model", "B300"), ("--min-free", "500G")):
        done = fleet.go("fleet", "free", *wish)
        assert done.returncode == NOWHERE and "gpuyard fleet queue" in done.stderr, done
        assert view(fleet, "free", *wish, code=NOWHERE)["offers"] == []


def test_quota_counts_on_its_machine_only(fleet):
    with fleet.nodes[0].other_config("[lease]\nmost_gpus_per_user = 2\n"):
        assert "n1" in offered(fleet, "-n", "2") and "n1" not in offered(fleet, "-n", "3")


def test_free_names_the_gpus_that_run_gets(fleet):
    rounds = Rounds(fleet, SEED)
    try:
        for number in range(ROUNDS):
            try:
                rounds.round()
            except AssertionError as error:
                raise AssertionError(f"round {number} of seed {SEED}: {error}") from error
    finally:
        rounds.end()
    assert rounds.granted > ROUNDS and rounds.refused > ROUNDS, "both happened"
