"""The energy of a block of a coroutine."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Mapping, Optional

from .. import calls, models
from ..calls import Gpus
from ..energy_window import ENDS_WITHIN, Measurement, by_gpu_of, joules_of, why_of
from ..errors import Error, is_transient

if TYPE_CHECKING:
    from .client import Client


class Energy(Measurement):
    """Measures an `async with` block. The properties are those of the last measure(), and final
    after the block. It never makes a program fail: `why` says why a value is None."""

    def __init__(self, client: Client, gpus: Optional[Gpus], name: Optional[str]) -> None:
        super().__init__(name)
        self._client = client
        self._gpus = gpus

    async def __aenter__(self) -> Energy:
        self._ended, self._window, self._id = False, None, ""
        try:
            self._on_begun(await self._client.run(calls.begin_window(self._gpus, self._name)))
        except Error as error:
            self._on_error(error)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._ended = True
        end = time.monotonic() + ENDS_WITHIN
        while self._id:
            try:
                self._on_measured(await self._client.end_energy_window(self._id))
                return
            except Error as error:
                self._on_error(error)
                if not is_transient(error) or time.monotonic() >= end:
                    return
            await asyncio.sleep(0.2)

    async def measure(self) -> Optional[models.EnergyWindow]:
        """The daemon's record of the measurement until now. None: unknown."""
        if self._id and not self._ended:
            try:
                self._on_measured(await self._client.measure_energy(self._id))
            except Error as error:
                self._on_error(error)
        return self._result()

    @property
    def joules(self) -> Optional[float]:
        return joules_of(self._result())

    @property
    def by_gpu(self) -> Mapping[str, Optional[float]]:
        return by_gpu_of(self._result())

    @property
    def seconds(self) -> Optional[float]:
        window = self._result()
        return window.seconds if window else None

    def co2(self, *, grid: float) -> Optional[float]:
        """Grams of CO2; `grid`: grams of CO2 per kWh."""
        return self._co2(self._result(), grid)

    @property
    def why(self) -> Optional[str]:
        """Why the energy, or a part of it, is unknown. None: all is known."""
        return self._error or why_of(self._result())
