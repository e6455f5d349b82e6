"""Parses server-sent events, without any I/O.

https://html.spec.whatwg.org/multipage/server-sent-events.html, without `retry`: the follower has
its own interval.
"""

from __future__ import annotations

import codecs
from typing import NamedTuple

from .errors import Internal

MOST_EVENT = 8 * 1024 * 1024  # bytes of one event, as in the daemon's own client


class ServerEvent(NamedTuple):
    name: str
    id: str  # the last ID received, also if this event has none
    data: str


class EventParser:
    """Parses bytes as they arrive. Raises Internal for an event that exceeds the limit."""

    def __init__(self, most: int = MOST_EVENT) -> None:
        self._most = most
        self._decoder = codecs.getincrementaldecoder("utf-8-sig")("replace")
        self._line = ""
        self._after_return = False
        self._name = ""
        self._id = ""
        self._data: list[str] = []
        self._size = 0

    def feed(self, data: bytes) -> list[ServerEvent]:
        """The events that are complete now."""
        text = self._decoder.decode(data)
        # A line ends with \r\n, \r or \n, and a piece may end between \r and \n.
        if self._after_return and text.startswith("\n"):
            text = text[1:]
        if text:
            self._after_return = text.endswith("\r")
        lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
        events: list[ServerEvent] = []
        for part in lines[:-1]:
            line, self._line = self._line + part, ""
            self._check_size(len(line))
            event = self._parse_line(line)
            if event:
                events.append(event)
        self._line += lines[-1]
        self._check_size(len(self._line))
        return events

    def _check_size(self, more: int) -> None:
        if self._size + more > self._most:
            raise Internal(f"an event of the daemon exceeds {self._most} bytes")

    def _parse_line(self, line: str) -> ServerEvent | None:
        if not line:
            return self._dispatch()
        field, _, value = line.partition(":")
        if value.startswith(" "):
            value = value[1:]
        if field == "event":
            self._name = value
        elif field == "data":
            self._data.append(value)
            self._size += len(value) + 1
        elif field == "id" and "\0" not in value:
            self._id = value
        return None

    def _dispatch(self) -> ServerEvent | None:
        name, data = self._name or "message", self._data
        self._name, self._data, self._size = "", [], 0
        return ServerEvent(name, self._id, "\n".join(data)) if data else None
