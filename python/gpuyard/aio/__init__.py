"""gpuyard for asyncio: the API of gpuyard.Client, with `await`.

    async with gpuyard.aio.Client("ssh://dgx1") as client:
        async with client.lease(2, wait="10m") as lease: ...
        async for event in client.events(): ...
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .. import _deprecated
from .client import Client
from .energy_window import Energy
from .event_stream import Events
from .lease_context import Lease

__all__ = ["Client", "Energy", "Events", "Lease", "Yard"]

if TYPE_CHECKING:
    Yard = Client
else:
    def __getattr__(name: str) -> Any:
        return _deprecated.find(__name__, name)
