"""A lease for the duration of an `async with` block."""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import TYPE_CHECKING, Optional

from .. import calls, models
from ..errors import Error
from ..lease_context import LeaseBase
from ..units import Duration

if TYPE_CHECKING:
    from .client import Client


class Lease(LeaseBase):
    """GPUs for an `async with` block. Cancelling the task cancels the claim.

    The lease survives a restart of the daemon. After fork() the child cannot use this object: its
    record, renew() and release() raise Conflict.
    """

    def __init__(self, client: Client, request: models.LeaseRequest, wait: Optional[float]) -> None:
        super().__init__(request, wait)
        self._client = client

    async def __aenter__(self) -> Lease:
        return await self.take()

    async def __aexit__(self, *_: object) -> None:
        await self._client.run(self._release_with_retries())

    async def take(self) -> Lease:
        """Waits for the GPUs."""
        self._begin()
        record = await self._client.claim(self._request, self._wait)
        try:
            self._on_granted(record)
        except BaseException:
            self._leave()
            with contextlib.suppress(Error):  # the first error matters more
                await self._client.run(calls.release(record.id, record.fence, insists=False))
            raise
        every = self._renewal_interval()
        if every is not None:
            renewals = asyncio.ensure_future(self._renew_until_cancelled(every))
            self._end_renewals = renewals.cancel
        return self

    async def release(self) -> None:
        """Releases the GPUs."""
        self._check_held()
        fence = self.fence
        if self._leave():
            self._end_renewals()
            self._record = await self._client.release(self.id, fence)

    async def renew(self, ttl: Optional[Duration] = None) -> models.Lease:
        """Extends a lease that has a TTL to `ttl` from now. A block does this by itself."""
        return await self._client.run(self._renew(ttl))

    async def refresh(self) -> models.Lease:
        """Reads the lease from the daemon: its state, its use and its energy."""
        self._check_owner()
        self._record = await self._client.find_lease(self.id)
        return self._record

    async def _renew_until_cancelled(self, every: float) -> None:
        assert self._record is not None and self._request.ttl_s is not None
        fence, ttl = self._record.fence, self._request.ttl_s
        renewed, pause = time.monotonic(), every
        while True:
            await asyncio.sleep(pause)
            asked = time.monotonic()
            try:
                await self._client.renew(self.id, ttl, fence)
                renewed, pause = asked, every
            except Error as error:
                if self._on_renewal_error(error, renewed):
                    return
                pause = min(every, 1.0)
