"""The asyncio client's stream of events."""

from __future__ import annotations

import asyncio
import time
from typing import AsyncIterator, Optional

from ..errors import Error
from ..event_follower import LONGEST_QUIET, Event
from ..event_stream import EventsBase
from .transport import EventStream, yield_to_loop


class Events(EventsBase[EventStream]):
    """The daemon's events, each once and in order, across restarts of the daemon.

        async for event in client.events(): ...
        event = await events.next(wait=5)     # None: no event in time
    """

    def __aiter__(self) -> AsyncIterator[Event]:
        return self

    async def __anext__(self) -> Event:
        while True:
            event = await self.next(LONGEST_QUIET)
            if event:
                return event

    async def __aenter__(self) -> Events:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()
        await yield_to_loop()

    async def next(self, wait: float) -> Optional[Event]:
        """The next event, or None after `wait` seconds; connecting may take longer. Raises an error
        that is final: the daemon refused the request, or was never reached."""
        end = time.monotonic() + wait
        while True:
            event = await self._next(end)
            if event or time.monotonic() >= end:
                return event

    async def _next(self, end: float) -> Optional[Event]:
        if not self._stream:
            pause = min(end, self._retry_at) - time.monotonic()
            if pause > 0:
                await asyncio.sleep(pause)
            if time.monotonic() < self._retry_at:
                return None
            return await self._open()
        return self._pop_received() or await self._read(end)

    async def _open(self) -> Optional[Event]:
        try:
            self._stream = await EventStream(self._endpoint).open(self._follower.target(),
                                                                  self._deadline)
        except Error as error:
            return self._on_disconnect(error)
        return self._follower.on_connect()

    async def _read(self, end: float) -> Optional[Event]:
        assert self._stream
        try:
            received = await self._stream.read(end)
        except Error as error:
            return self._on_disconnect(error)
        return self._on_read(received)
