"""A lease for the duration of an `async with` block."""

from __future__ import annotations

import asyncio
import contextlib
import time
import warnings
from typing import TYPE_CHECKING, Optional

from .. import calls, models
from ..errors import Error, Invalid, NotFound, is_transient
from ..lease_context import LEAVES_WITHIN, LeaseBase
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
        self._renewals: Optional[asyncio.Task[None]] = None

    async def __aenter__(self) -> Lease:
        return await self.take()

    async def __aexit__(self, *_: object) -> None:
        if self._leave():
            self._end_renewals()
            await self._release_with_retries()

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
            self._renewals = asyncio.ensure_future(self._renew_until_cancelled(every))
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
        lasts = self._request.ttl_s if ttl is None else ttl
        if lasts is None:
            raise Invalid(f"lease {self.id} lasts as long as this process; it needs no renewal")
        self._check_held()
        self._record = await self._client.renew(self.id, lasts, self.fence)
        return self._record

    async def refresh(self) -> models.Lease:
        """Reads the lease from the daemon: its state, its use and its energy."""
        self._check_owner()
        self._record = await self._client.find_lease(self.id)
        return self._record

    async def _release_with_retries(self) -> None:
        end = time.monotonic() + LEAVES_WITHIN
        fence = self._record.fence if self._record else None
        while True:
            try:
                self._record = await self._client.run(calls.release(self.id, fence, insists=False))
                return
            except NotFound:
                return
            except Error as error:
                if not is_transient(error) or time.monotonic() >= end:
                    warnings.warn(f"lease {self.id} could not be released: {error}. It ends with "
                                  "this process, or when it expires", RuntimeWarning, stacklevel=3)
                    return
            await asyncio.sleep(0.2)

    def _end_renewals(self) -> None:
        if self._renewals:
            self._renewals.cancel()

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
