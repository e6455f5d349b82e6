"""Simulated fleets for foreign clients: one of every model, which the tests of a file share and do not
change.
"""

import pytest

from fleet import MODELS, World


@pytest.fixture(scope="module", params=MODELS)
def world(request, tmp_path_factory):
    one = World(tmp_path_factory.mktemp("fleet") / "world", request.param)
    yield one
    one.stop()
