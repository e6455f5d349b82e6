"""The energy of a block of a coroutine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Optional

from .. import calls, models
from ..calls import Gpus
from ..energy_window import Measurement, joules_of
from ..errors import Error

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
        await self._client.run(self._end())

    async def measure(self) -> Optional[models.EnergyWindow]:
        """The daemon's record of the measurement until now. None: unknown."""
        return await self._client.run(self._measure())

    @property
    def joules(self) -> Optional[float]:
        return joules_of(self._result())
