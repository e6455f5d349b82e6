"""gpuyard for asyncio: the API of gpuyard.Yard, with `await`.

    async with gpuyard.aio.Yard("ssh://dgx1") as yard:
        async with yard.lease(2, wait="10m") as lease: ...
        async for event in yard.events(): ...
"""

from __future__ import annotations

from .leasing import Lease
from .measuring import Energy
from .streaming import Events
from .yard import Yard

__all__ = ["Energy", "Events", "Lease", "Yard"]
