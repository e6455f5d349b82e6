import datetime

import pytest

from gpuyard.errors import Invalid
from gpuyard.units import bytes_of, seconds_of


@pytest.mark.parametrize("said, seconds", [
    ("10m", 600), ("1h30m", 5400), ("2d", 172800), ("1.5s", 1.5), ("250ms", 0.25), (3, 3),
    (0, 0), (datetime.timedelta(minutes=2), 120),
])
def test_durations(said, seconds):
    assert seconds_of(said) == seconds


@pytest.mark.parametrize("said", [
    "", "10", "m", "-1s", "1y", "1m ", -1, float("nan"), float("inf")])
def test_invalid_duration_is_refused(said):
    with pytest.raises(Invalid):
        seconds_of(said)


@pytest.mark.parametrize("said, size", [
    ("40G", 40 << 30), ("512M", 512 << 20), ("20GiB", 20 << 30), ("20 GiB", 20 << 30), ("7", 7),
    ("1.5K", 1536), (5, 5),
])
def test_sizes(said, size):
    assert bytes_of(said) == size


@pytest.mark.parametrize("said", ["", "G", "-1G", "40X", "40 000", -1])
def test_invalid_size_is_refused(said):
    with pytest.raises(Invalid):
        bytes_of(said)
