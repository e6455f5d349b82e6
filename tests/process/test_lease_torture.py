"""A short chaos on every run of the tests; ./yard torture has a long one."""

import os

import pytest

from lease_torture import torture

SECONDS = float(os.environ.get("GPUYARD_TORTURE_SECONDS", "12"))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can read the environment of others")
@pytest.mark.parametrize("most", [1, 2])
def test_no_gpu_ever_has_two_holders(tmp_path, most, record_property):
    record_property("contract", "D11")
    done, wrong, seed = torture(tmp_path, SECONDS, most=most)
    assert not wrong, f"seed {seed}: {wrong[:5]}"
    assert done["granted"] > 20, done
