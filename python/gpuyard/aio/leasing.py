"""A lease for the time of an `async with` block."""

from __future__ import annotations

import asyncio
import contextlib
import time
import warnings
from typing import TYPE_CHECKING, Optional

from .. import models, plans
from ..errors import Error, Invalid, NotFound, passes
from ..leasing import LEAVES_WITHIN, Holding
from ..units import Duration

if TYPE_CHECKING:
    from .yard import Yard


class Lease(Holding):
    """GPUs for an `async with` block. Cancelling the task gives up the place in the queue.

    If the daemon goes away and comes back, the lease is as it was. After fork the child's handle is
    dead on purpose and says so.
    """

    def __init__(self, yard: Yard, wish: models.LeaseWish, wait: Optional[float]) -> None:
        super().__init__(wish, wait)
        self._yard = yard
        self._renewals: Optional[asyncio.Task[None]] = None

    async def __aenter__(self) -> Lease:
        return await self.take()

    async def __aexit__(self, *_: object) -> None:
        if self._leave():
            self._end_renewals()
            await self._give_up_patiently()

    async def take(self) -> Lease:
        """Waits for the GPUs."""
        self._begin()
        record = await self._yard.claim(self._wish, self._wait)
        try:
            self._took(record)
        except BaseException:
            self._leave()
            with contextlib.suppress(Error):  # what went wrong before says more
                await self._yard.run(plans.release(record.id, record.fence, insists=False))
            raise
        every = self._renewed_every()
        if every is not None:
            self._renewals = asyncio.ensure_future(self._renew_for_ever(every))
        return self

    async def release(self) -> None:
        """Gives the GPUs back."""
        self._check_held()
        fence = self.fence
        if self._leave():
            self._end_renewals()
            self._record = await self._yard.release(self.id, fence)

    async def renew(self, ttl: Optional[Duration] = None) -> models.Lease:
        """Lets a lease with a time last so long from now on; in a block that is done for you."""
        lasts = self._wish.ttl_s if ttl is None else ttl
        if lasts is None:
            raise Invalid(f"lease {self.id} lasts as long as this process; there is nothing to "
                          "renew")
        self._check_held()
        self._record = await self._yard.renew(self.id, lasts, self.fence)
        return self._record

    async def refresh(self) -> models.Lease:
        """Asks the daemon how it is: its use, its energy, and whether it is still held."""
        self._check_owner()
        self._record = await self._yard.find_lease(self.id)
        return self._record

    async def _give_up_patiently(self) -> None:
        end = time.monotonic() + LEAVES_WITHIN
        fence = self._record.fence if self._record else None
        while True:
            try:
                self._record = await self._yard.run(plans.release(self.id, fence, insists=False))
                return
            except NotFound:
                return
            except Error as error:
                if not passes(error) or time.monotonic() >= end:
                    warnings.warn(f"lease {self.id} could not be given up: {error}. It ends with "
                                  "this process, or after its time", RuntimeWarning, stacklevel=3)
                    return
            await asyncio.sleep(0.2)

    def _end_renewals(self) -> None:
        if self._renewals:
            self._renewals.cancel()

    async def _renew_for_ever(self, every: float) -> None:
        assert self._record is not None and self._wish.ttl_s is not None
        fence, ttl = self._record.fence, self._wish.ttl_s
        renewed, pause = time.monotonic(), every
        while True:
            await asyncio.sleep(pause)
            asked = time.monotonic()
            try:
                await self._yard.renew(self.id, ttl, fence)
                renewed, pause = asked, every
            except Error as error:
                if self._renewal_failed(error, renewed):
                    return
                pause = min(every, 1.0)
