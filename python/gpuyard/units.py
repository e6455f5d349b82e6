"""Parses durations and sizes: "10m", "1h30m", "40G", or a number."""

from __future__ import annotations

import datetime
import re
from typing import Union

from .errors import Invalid

Duration = Union[float, int, str, datetime.timedelta]
Size = Union[int, str]

_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}
_DURATION = re.compile(r"(?:[0-9]+(?:\.[0-9]+)?(?:ms|s|m|h|d|w))+\Z")
_PART = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|s|m|h|d|w)")
_SIZE = re.compile(r"([0-9]+(?:\.[0-9]+)?) ?(?:([KMGT])(?:i?B)?)?\Z")
_POWERS = {"K": 1, "M": 2, "G": 3, "T": 4}


def seconds_of(duration: Duration) -> float:
    """The duration in seconds. Raises Invalid for any other value."""
    if isinstance(duration, datetime.timedelta):
        return duration.total_seconds()
    if isinstance(duration, str):
        if not _DURATION.match(duration):
            raise Invalid(f"expected a duration such as 90s, 10m or 1h30m; got \"{duration}\"")
        parts = _PART.findall(duration)
        return sum(float(number) * _SECONDS[unit] for number, unit in parts)
    if not 0 <= duration < float("inf"):
        raise Invalid(f"expected a duration of at least 0 seconds, got {duration!r}")
    return float(duration)


def bytes_of(size: Size) -> int:
    """The size in bytes. "40G" is 40 GiB, as for `gpuyard run --min-free`."""
    if isinstance(size, str):
        match = _SIZE.match(size)
        if not match:
            raise Invalid(f"expected a size such as 40G or 512M; got \"{size}\"")
        return int(float(match.group(1)) * 1024 ** _POWERS.get(match.group(2), 0))
    if size < 0:
        raise Invalid(f"expected a size of at least 0 bytes, got {size!r}")
    return size
