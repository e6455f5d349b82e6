"""The fleet that a file of tests asks."""

import pytest

from rig import QUICK, Fleet


@pytest.fixture(scope="module")
def fleet():
    """Eight machines of four GPUs. A file may make one of its own by this name."""
    with Fleet(nodes=8, gpus=4, https=True, ssh_options=QUICK) as one:
        yield one
