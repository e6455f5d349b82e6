"""The asyncio client's stream of events."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from typing import AsyncIterator, Optional

from ..calls import Gpus
from ..endpoint import Endpoint
from ..errors import Error
from ..event_follower import LONGEST_QUIET, RETRY_AFTER, Event, EventFollower
from ..sse import ServerEvent
from .transport import EventStream, yield_to_loop


class Events:
    """The daemon's events, each once and in order, across restarts of the daemon.

        async for event in client.events(): ...
        event = await events.next(wait=5)     # None: no event in time
    """

    def __init__(self, endpoint: Endpoint, since: str, gpus: Optional[Gpus], deadline: float
                 ) -> None:
        self._endpoint = endpoint
        self._deadline = deadline
        self._follower = EventFollower(endpoint.name, since, gpus)
        self._stream: Optional[EventStream] = None
        self._received: deque[ServerEvent] = deque()
        self._retry_at = 0.0

    @property
    def last(self) -> str:
        """The ID of the last event. Pass it as `since` to continue after it."""
        return self._follower.last

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

    def close(self) -> None:
        """Closes the stream. next() opens it again, after the last event."""
        self._received.clear()
        if self._stream:
            self._stream.close()
            self._stream = None

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
        while self._received:
            event = self._follower.on_event(self._received.popleft())
            if event and event.kind == "lost":
                self.close()
            if event:
                return event
        return await self._read(end)

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
        if received is None:
            return self._on_disconnect(self._follower.stopped_error())
        if not received and time.monotonic() - self._stream.last_received_at > LONGEST_QUIET:
            return self._on_disconnect(self._follower.silence_error())
        self._received.extend(received)
        return None

    def _on_disconnect(self, error: Error) -> Optional[Event]:
        self.close()
        self._retry_at = time.monotonic() + RETRY_AFTER
        return self._follower.on_disconnect(error)
