"""Follows the daemon's events across its restarts, without any I/O. Each event comes once and in
order, or the event "lost" comes instead."""

from __future__ import annotations

import json
from typing import Any, NamedTuple, Optional

from .calls import Gpus, gpus_text, query
from .errors import Error, TimedOut, Unavailable, is_transient
from .sse import ServerEvent

RETRY_AFTER = 1.0  # seconds
# Seconds of silence after which the daemon counts as unavailable. It writes every 15 s.
LONGEST_QUIET = 40.0


class Event(NamedTuple):
    """An event of the daemon, or a change of the connection.

    `kind` is "happened": an event of the daemon, with name, id and data; "away": the daemon is not
    responding, `why` has the error, and the client keeps reconnecting; "back": it is responding
    again, and no event was missed unless "lost" follows; "lost": it no longer has the events after
    the last one, and all events that it has follow.
    """

    kind: str
    name: str = ""
    id: str = ""
    data: Any = None
    why: str = ""


class EventFollower:
    """Decides what to request and which events to return. The I/O calls on_connect(), on_event()
    and on_disconnect()."""

    def __init__(self, daemon: str, since: str = "", gpus: Optional[Gpus] = None) -> None:
        self._daemon = daemon
        self._since = since
        self._gpus = None if gpus is None or gpus == "all" else gpus_text(gpus)
        self._was_connected = False
        self._is_away = False
        self.last = "" if since == "oldest" else since

    def target(self) -> str:
        return "/api/gpu/events" + query(samples="none", gpus=self._gpus,
                                         since=self._since or None)

    def on_connect(self) -> Optional[Event]:
        """A stream has been opened."""
        self._was_connected = True
        was_away, self._is_away = self._is_away, False
        return Event("back", id=self.last) if was_away else None

    def on_event(self, event: ServerEvent) -> Optional[Event]:
        """The event for the caller, if any. After "lost" the stream has to be opened again."""
        resync = event.name == "resync"
        if resync and self.last:
            self.last, self._since = "", "oldest"
            return Event("lost")
        if event.id:
            self.last = self._since = event.id
        if resync:
            return None  # the start of a new listener
        try:
            data = json.loads(event.data)
        except ValueError:
            data = event.data
        return Event("happened", event.name, event.id, data)

    def on_disconnect(self, error: Error) -> Optional[Event]:
        """A stream has ended, or could not be opened. Raises an error that is final: one before the
        first connection, or a refusal."""
        if not self._was_connected or not is_transient(error):
            raise error
        if self._is_away:
            return None
        self._is_away = True
        return Event("away", id=self.last, why=str(error))

    def stopped_error(self) -> Error:
        return Unavailable(f"the daemon at {self._daemon} has stopped")

    def silence_error(self) -> Error:
        return TimedOut(f"no data from the daemon at {self._daemon}")


