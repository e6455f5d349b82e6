"""The energy of a block of a program, measured by the daemon.

The daemon counts, so a value is correct at any time, a killed program leaves no lock, and eight
processes that measure the same GPU get the same joules. Unknown values are None, and `why` has the
reason.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Callable, Mapping, Optional

from . import calls, models
from .calls import CallSequence, Gpus, Sleep
from .cuda import why_no_gpu
from .errors import Error, is_transient

if TYPE_CHECKING:
    from .client import Client

JOULES_PER_KWH = 3.6e6
ENDS_WITHIN = 3.0  # seconds to wait for a restarting daemon at the end of a block


class Measurement:
    """The common part of the blocking and the asyncio measurement."""

    def __init__(self, name: Optional[str]) -> None:
        self._name = name
        self._id = ""
        self._window: Optional[models.EnergyWindow] = None
        self._error = "not measured yet: use it in a `with` block"
        self._ended = False

    @property
    def final(self) -> bool:
        """Whether the block has ended, so that the numbers are final."""
        return self._ended

    def _current(self) -> Optional[models.EnergyWindow]:
        """The measurement that the properties show."""
        return self._result()

    def _result(self) -> Optional[models.EnergyWindow]:
        return None if self._error else self._window

    def _on_begun(self, window: models.EnergyWindow) -> None:
        self._id = window.id
        self._on_measured(window)

    def _on_measured(self, window: models.EnergyWindow) -> None:
        self._window = window
        self._error = ""

    def _on_error(self, error: Error) -> None:
        self._error = str(error)

    def _measure(self) -> CallSequence[Optional[models.EnergyWindow]]:
        if self._id and not self._ended:
            try:
                self._on_measured((yield from calls.measure_window(self._id)))
            except Error as error:
                self._on_error(error)
        return self._result()

    def _end(self) -> CallSequence[None]:
        ended, self._ended = self._ended, True
        end = time.monotonic() + ENDS_WITHIN
        while self._id and not ended:
            try:
                self._on_measured((yield from calls.end_window(self._id)))
                return
            except Error as error:
                self._on_error(error)
                if not is_transient(error) or time.monotonic() >= end:
                    return
            yield Sleep(0.2)

    @property
    def by_gpu(self) -> Mapping[str, Optional[float]]:
        """Joules by GPU UUID. None: unknown."""
        return by_gpu_of(self._current())

    @property
    def seconds(self) -> Optional[float]:
        window = self._current()
        return window.seconds if window else None

    def co2(self, *, grid: float) -> Optional[float]:
        """Grams of CO2; `grid`: grams of CO2 per kWh."""
        joules = joules_of(self._current())
        return None if joules is None else joules / JOULES_PER_KWH * grid

    @property
    def why(self) -> Optional[str]:
        """Why the energy, or a part of it, is unknown. None: all is known."""
        window = self._current()
        return self._error or why_of(window)


def joules_of(window: Optional[models.EnergyWindow]) -> Optional[float]:
    """The sum over all GPUs; None if the energy of one of them is unknown."""
    known = by_gpu_of(window).values()
    total = 0.0
    for joules in known:
        if joules is None:
            return None
        total += joules
    return total if known else None


def by_gpu_of(window: Optional[models.EnergyWindow]) -> Mapping[str, Optional[float]]:
    """Joules by UUID."""
    if window is None:
        return {}
    return {gpu.uuid: None if _is_unknown(gpu) else gpu.joules for gpu in window.gpus}


def why_of(window: Optional[models.EnergyWindow]) -> Optional[str]:
    """The GPUs whose energy is unknown or incomplete, and why."""
    if window is None:
        return "not measured yet"
    if not window.gpus:
        return "none of the GPUs is present"
    parts: list[str] = []
    for gpu in window.gpus:
        place = gpu.uuid if gpu.index is None else f"GPU {gpu.index}"
        if _is_unknown(gpu):
            parts.append(f"no energy data for {place}: {gpu.why or 'it did not respond'}")
        elif gpu.unknown_seconds > 0:
            parts.append(f"{place}: {gpu.unknown_seconds:.1f} s of {gpu.seconds:.1f} s not "
                         "measured")
        elif gpu.interrupted:
            parts.append(f"the energy counter of {place} restarted; its joules cover only the "
                         "known parts")
    return "; ".join(parts) or None


def _is_unknown(gpu: models.WindowGpu) -> bool:
    if gpu.joules is None:
        return True
    return gpu.seconds > 0 and gpu.unknown_seconds >= gpu.seconds


class Energy(Measurement):
    """Measures a `with` block. It never makes a program fail: without a daemon `joules` is None,
    and `why` says what to do.
    """

    def __init__(self, where: Callable[[], tuple[Optional[Client], Optional[Gpus]]],
                 name: Optional[str] = None) -> None:
        super().__init__(name)
        self._where = where
        self._client: Optional[Client] = None

    def __enter__(self) -> Energy:
        return self.begin()

    def __exit__(self, *_: object) -> None:
        self.end()

    def begin(self) -> Energy:
        """Begins a new measurement."""
        self._ended = False
        self._window = None
        self._id = ""
        try:
            self._client, gpus = self._where()
            if self._client is None:
                self._error = why_no_gpu()
                return self
            self._on_begun(self._client.run(calls.begin_window(gpus, self._name)))
        except Error as error:
            self._on_error(error)
        return self

    def end(self) -> Energy:
        """Ends the measurement; from now on the numbers are final."""
        if self._client is None:
            self._ended = True
        else:
            self._client.run(self._end())
        return self

    def measure(self) -> Optional[models.EnergyWindow]:
        """The daemon's record of the measurement: until now, or until the end of the block. None if
        unknown; `why` has the reason."""
        return self._result() if self._client is None else self._client.run(self._measure())

    def _current(self) -> Optional[models.EnergyWindow]:
        return self.measure()

    @property
    def joules(self) -> Optional[float]:
        """Energy used until now, or in the whole block after its end. None: unknown."""
        return joules_of(self.measure())

    @property
    def kwh(self) -> Optional[float]:
        joules = self.joules
        return None if joules is None else joules / JOULES_PER_KWH

    def __repr__(self) -> str:
        joules, why = self.joules, self.why
        text = "energy unknown" if joules is None else f"{joules:.1f} J"
        return f"<gpuyard {text}{f': {why}' if why else ''}>"
