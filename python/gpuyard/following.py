"""Follows the daemon's events across its restarts, without any I/O: each once and in order, or it
says that some are lost."""

from __future__ import annotations

import json
from typing import Any, NamedTuple, Optional

from .errors import Error, TimedOut, Unavailable, passes
from .plans import Gpus, gpus_text, query
from .sse import ServerEvent

RETRY_AFTER = 1.0  # seconds
# How long a stream may be silent before the daemon counts as away. It writes every 15 s.
LONGEST_QUIET = 40.0


class Event(NamedTuple):
    """What happened, or what became of the connection.

    `kind` is "happened": name, id and data say what; "away": the daemon does not answer, `why` says
    it, and it is asked again until it does; "back": it answers again, and nothing was missed unless
    "lost" follows; "lost": it no longer knows what followed the last event, and all that it knows
    comes now.
    """

    kind: str
    name: str = ""
    id: str = ""
    data: Any = None
    why: str = ""


class Follower:
    """What to ask and what to tell. The one who does the I/O calls opened(), take() and broke()."""

    def __init__(self, daemon: str, since: str = "", gpus: Optional[Gpus] = None) -> None:
        self._daemon = daemon
        self._since = since
        self._gpus = None if gpus is None or gpus == "all" else gpus_text(gpus)
        self._listened = False
        self._away = False
        self.last = "" if since == "oldest" else since

    def target(self) -> str:
        return "/api/gpu/events" + query(samples="none", gpus=self._gpus,
                                         since=self._since or None)

    def opened(self) -> Optional[Event]:
        """A stream has been opened."""
        self._listened = True
        was_away, self._away = self._away, False
        return Event("back", id=self.last) if was_away else None

    def take(self, event: ServerEvent) -> Optional[Event]:
        """What is to be told. After "lost" the stream is opened anew."""
        anew = event.name == "resync"
        if anew and self.last:
            self.last, self._since = "", "oldest"
            return Event("lost")
        if event.id:
            self.last = self._since = event.id
        if anew:
            return None  # where a new listener begins
        try:
            data = json.loads(event.data)
        except ValueError:
            data = event.data
        return Event("happened", event.name, event.id, data)

    def broke(self, error: Error) -> Optional[Event]:
        """A stream has ended, or could not be opened. Raises the error if it is the end: a first
        failure is no interruption, and neither is a refusal."""
        if not self._listened or not passes(error):
            raise error
        if self._away:
            return None
        self._away = True
        return Event("away", id=self.last, why=error.message)

    def ended(self) -> Error:
        return Unavailable(f"the daemon at {self._daemon} has ended")

    def silent(self) -> Error:
        return TimedOut(f"nothing comes from the daemon at {self._daemon}")


