"""The blocking client's stream of events."""

from __future__ import annotations

import time
from collections import deque
from typing import Generic, Iterator, Optional, Protocol, TypeVar

from .calls import Gpus
from .endpoint import Endpoint
from .errors import Error
from .event_follower import LONGEST_QUIET, RETRY_AFTER, Event, EventFollower
from .sse import ServerEvent
from .transport import EventStream


class Stream(Protocol):
    last_received_at: float

    def close(self) -> None: ...


AnyStream = TypeVar("AnyStream", bound=Stream)


class EventsBase(Generic[AnyStream]):
    """The common part of the blocking and the asyncio events."""

    def __init__(self, endpoint: Endpoint, since: str, gpus: Optional[Gpus], deadline: float
                 ) -> None:
        self._endpoint = endpoint
        self._deadline = deadline
        self._follower = EventFollower(endpoint.name, since, gpus)
        self._stream: Optional[AnyStream] = None
        self._received: deque[ServerEvent] = deque()
        self._retry_at = 0.0

    @property
    def last(self) -> str:
        """The ID of the last event. Pass it as `since` to continue after it."""
        return self._follower.last

    def close(self) -> None:
        """Closes the stream. next() opens it again, after the last event."""
        self._received.clear()
        if self._stream:
            self._stream.close()
            self._stream = None

    def _pop_received(self) -> Optional[Event]:
        while self._received:
            event = self._follower.on_event(self._received.popleft())
            if event and event.kind == "lost":
                self.close()
            if event:
                return event
        return None

    def _on_read(self, received: Optional[list[ServerEvent]]) -> Optional[Event]:
        assert self._stream
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


class Events(EventsBase[EventStream]):
    """The daemon's events, each once and in order, across restarts of the daemon. One thread.

        for event in client.events(): ...
        event = events.next(wait=5)     # None: no event in time
    """

    def __iter__(self) -> Iterator[Event]:
        return self

    def __next__(self) -> Event:
        while True:
            event = self.next(LONGEST_QUIET)
            if event:
                return event

    def __enter__(self) -> Events:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def next(self, wait: float) -> Optional[Event]:
        """The next event, or None after `wait` seconds; connecting may take longer. Raises an error
        that is final: the daemon refused the request, or was never reached."""
        end = time.monotonic() + wait
        while True:
            event = self._next(end)
            if event or time.monotonic() >= end:
                return event

    def _next(self, end: float) -> Optional[Event]:
        if not self._stream:
            pause = min(end, self._retry_at) - time.monotonic()
            if pause > 0:
                time.sleep(pause)
            if time.monotonic() < self._retry_at:
                return None
            return self._open()
        return self._pop_received() or self._read(end)

    def _open(self) -> Optional[Event]:
        try:
            self._stream = EventStream(self._endpoint, self._follower.target(), self._deadline)
        except Error as error:
            return self._on_disconnect(error)
        return self._follower.on_connect()

    def _read(self, end: float) -> Optional[Event]:
        assert self._stream
        try:
            received = self._stream.read(end)
        except Error as error:
            return self._on_disconnect(error)
        return self._on_read(received)
