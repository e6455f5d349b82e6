"""What can go wrong, as one tree: a class for each reaction of a caller, not for each cause.

The message is the daemon's own where the daemon has spoken, and says what to do next.
"""

from __future__ import annotations

import re
from typing import Any, Mapping, Optional, cast


# What a terminal obeys or hides, and halves of a character that no encoding takes.
_HIDDEN = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069"
                     "\ud800-\udfff]")


def printable(text: str) -> str:
    """The text with a '?' for each hidden character: a terminal or a log may get it."""
    return _HIDDEN.sub("?", text)


class Error(Exception):
    """Every error of this package. `message` says what happened and what to do next."""

    code = "internal"
    # Of the answer that said so; None: no answer came.
    status: Optional[int] = None
    # Whether somebody was there at all: then it may only be starting, or ending.
    reached = False
    # After how many seconds the daemon wants to be asked again; None: it did not say.
    again: Optional[float] = None
    # Whether it still reads what it has kept, so that nothing was done yet.
    reading = False
    # What a caller does about an error of this kind if the daemon did not say.
    next_step = ""

    def __init__(self, message: str) -> None:
        self.message = printable(_with_next_step(message, self.next_step))
        super().__init__(self.message)


class Unsupported(Error):
    """This GPU, driver or platform cannot do it; asking again will not help."""

    code = "unsupported"


class NotFound(Error):
    """The thing that was named is not there."""

    code = "not_found"


class Denied(Error):
    """A permission is missing; the message says which."""

    code = "denied"


class Conflict(Error):
    """Another user or program has it."""

    code = "conflict"


class Invalid(Error):
    """The request itself is wrong."""

    code = "invalid"


class Busy(Error):
    """A bounded queue is full."""

    code = "busy"
    next_step = "Ask again in a few seconds"


class Unavailable(Error):
    """No driver, no GPU, no daemon, or it is shutting down."""

    code = "unavailable"


class DeviceLost(Error):
    """The GPU no longer answers."""

    code = "device_lost"
    next_step = "`gpuyard doctor` says what is wrong with it"


class TimedOut(Error):
    """The deadline passed first. What was asked may still happen."""

    code = "timed_out"


class Internal(Error):
    """None of the above."""

    code = "internal"
    next_step = "The daemon's log may say more"


_BY_CODE: Mapping[str, type[Error]] = {
    kind.code: kind
    for kind in (Unsupported, NotFound, Denied, Conflict, Invalid, Busy, Unavailable, DeviceLost,
                 TimedOut, Internal)
}

# What a status means where the answer has no code of its own. 503 is `unavailable`, as in the
# daemon; only the code tells `busy` from it.
_BY_STATUS: Mapping[int, type[Error]] = {
    400: Invalid, 401: Denied, 403: Denied, 404: NotFound, 409: Conflict, 422: Unsupported,
    429: Busy, 502: DeviceLost, 503: Unavailable, 504: TimedOut,
}


def _with_next_step(message: str, next_step: str) -> str:
    if not next_step or next_step in message:
        return message
    return f"{message.rstrip('. ')}. {next_step}"


def error_of(code: str, message: str) -> Error:
    """An error by the daemon's own word for it. An unknown word is `internal`."""
    return _BY_CODE.get(code, Internal)(message)


def in_words(message: str) -> str:
    """Says "among: ..." for "body: /among/1: ...": the daemon names the place in a body that the
    user did not write."""
    of_body = message.startswith("body: /")
    if of_body and re.match(r"body: /[a-z_]", message):
        message = message[len("body: "):]
    place = r"(\A|; )/([a-z_]+)" + ("(?:/[0-9]+)?: " if of_body else "/[0-9]+: ")
    return re.sub(place, r"\1\2: ", message)


_MOST_OF_BODY = 1000  # letters of one that is no error of the daemon's


def _redirected(status: int, to: str) -> Error:
    """No daemon answers so: a proxy in front of it does, or the address is another server's."""
    return Invalid(f"the server redirects: status {status}{', to ' if to else ''}"
                   f"{to[:_MOST_OF_BODY]}. No redirect is followed, because it would send the "
                   "token to another server; name the daemon's own address")


def error_of_answer(status: int, body: bytes, fields: Optional[Mapping[str, str]] = None) -> Error:
    """Reads {"error": {"code", "message"}} or {"detail": message}; else the body is the message.
    `fields`: of the answer, with names in small letters."""
    fields = fields or {}
    error = (_redirected(status, fields.get("location", "")) if status // 100 == 3
             else _refused(status, body))
    error.status = status
    error.reached = True
    error.reading = "x-gpuyard-reading" in fields
    after = fields.get("retry-after", "")
    if re.fullmatch("[0-9]{1,6}", after):
        error.again = float(after)
    return error


def _refused(status: int, body: bytes) -> Error:
    import json

    text = body.decode("utf-8", "replace").strip()
    kind = _BY_STATUS.get(status, Internal)
    try:
        document: Any = json.loads(text)
    except (ValueError, RecursionError):
        document = None
    answer: dict[str, Any] = (
        cast(Any, document) if isinstance(document, dict) else {})
    text = text[:_MOST_OF_BODY]
    if isinstance(answer.get("detail"), str):
        text = answer["detail"]
    inner: Any = answer.get("error")
    said: dict[str, Any] = cast(Any, inner) if isinstance(inner, dict) else {}
    if isinstance(said.get("message"), str):
        text = said["message"]
    if isinstance(said.get("code"), str):
        kind = _BY_CODE.get(said["code"], kind)
    return kind(in_words(text) or f"the daemon answered {status} and did not say why")


def passes(error: Error) -> bool:
    """Whether it passes once the daemon is back or ready: then ask again."""
    return isinstance(error, (Unavailable, TimedOut, Busy))
