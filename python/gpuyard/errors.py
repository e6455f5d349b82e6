"""The exceptions of this package: a class for each reaction of a caller, not for each cause.

If the daemon sent a message, the exception has it. Messages say what to do next.
"""

from __future__ import annotations

import re
from typing import Any, Mapping, Optional, cast


# Characters that control a terminal or are hidden by it, and surrogates, which cannot be encoded.
_HIDDEN = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069"
                     "\ud800-\udfff]")


def printable(text: str) -> str:
    """The text with a '?' for each hidden character, safe for a terminal or a log."""
    return _HIDDEN.sub("?", text)


class Error(Exception):
    """Every error of this package. `str()` is all of it: what happened, why and what to do next.
    `message` is the same without the commands of `hint`."""

    code = "internal"
    # HTTP status of the response; None: there was none.
    status: Optional[int] = None
    # Whether a daemon was reached at all: it may only be starting or stopping.
    reached = False
    # Seconds to wait before trying again, from Retry-After; None: not given.
    again: Optional[float] = None
    # Whether the daemon is still reading its stored state, so that nothing was done yet.
    reading = False
    # Advice for errors of this kind, added to a message that lacks it.
    next_step = ""

    # The daemon's suggested commands, if any: one per line; a remark follows "  # ".
    hint = ""

    def __init__(self, message: str, hint: str = "") -> None:
        end = _hint_text(hint)
        if hint and message.endswith(end):
            whole = message
            self.hint = "\n".join(printable(line) for line in hint.split("\n"))
            message = message[:-len(end)]
        else:
            whole = message = _with_next_step(message, self.next_step)
        self.message = printable(message)
        super().__init__(printable(whole))


class Unsupported(Error):
    """The GPU, driver or platform does not support this; trying again will not help."""

    code = "unsupported"


class NotFound(Error):
    """The named GPU, lease, host or other thing does not exist."""

    code = "not_found"


class Denied(Error):
    """A permission is missing; the message says which."""

    code = "denied"


class Conflict(Error):
    """The request conflicts with another user or program, or with the current state."""

    code = "conflict"


class Invalid(Error):
    """The request itself is invalid."""

    code = "invalid"


class Busy(Error):
    """A queue is full, or you have reached a limit."""

    code = "busy"
    next_step = "Try again in a few seconds"


class Unavailable(Error):
    """There is no driver, GPU or daemon, or the daemon is shutting down."""

    code = "unavailable"


class DeviceLost(Error):
    """The GPU is no longer responding."""

    code = "device_lost"
    next_step = "Run `gpuyard doctor` to find out why"


class TimedOut(Error):
    """The deadline has passed. The request may still be carried out."""

    code = "timed_out"


class Internal(Error):
    """Any other error, e.g. an invalid response."""

    code = "internal"
    next_step = "Check the daemon's log"


_BY_CODE: Mapping[str, type[Error]] = {
    kind.code: kind
    for kind in (Unsupported, NotFound, Denied, Conflict, Invalid, Busy, Unavailable, DeviceLost,
                 TimedOut, Internal)
}

# The error for a status, if the response has no code. 503 is `unavailable`, as in the daemon; only
# the code distinguishes `busy`.
_BY_STATUS: Mapping[int, type[Error]] = {
    400: Invalid, 401: Denied, 403: Denied, 404: NotFound, 409: Conflict, 422: Unsupported,
    429: Busy, 502: DeviceLost, 503: Unavailable, 504: TimedOut,
}


def _hint_text(hint: str) -> str:
    """Returns the end of a daemon's error text for this hint: "; try `A`, then `B` (remark)"."""
    steps: list[str] = []
    for line in hint.split("\n"):
        command, mark, remark = line.partition("  # ")
        steps.append(f"`{command}` ({remark})" if mark else f"`{command}`")
    return "; try " + ", then ".join(steps)


def _with_next_step(message: str, next_step: str) -> str:
    if not next_step or next_step in message:
        return message
    return f"{message.rstrip('. ')}. {next_step}"


def error_of(code: str, message: str) -> Error:
    """The error for a code of the daemon. An unknown code is `internal`."""
    return _BY_CODE.get(code, Internal)(message)


def in_words(message: str) -> str:
    """Turns "body: /among/1: ..." into "among: ...": the daemon names a path in a JSON body that
    the user did not write."""
    of_body = message.startswith("body: /")
    if of_body and re.match(r"body: /[a-z_]", message):
        message = message[len("body: "):]
    place = r"(\A|; )/([a-z_]+)" + ("(?:/[0-9]+)?: " if of_body else "/[0-9]+: ")
    return re.sub(place, r"\1\2: ", message)


_MOST_OF_BODY = 1000  # characters of a body that is not an error of the daemon


def _redirect_error(status: int, to: str) -> Error:
    """The daemon never redirects: a proxy does, or the address is that of another server."""
    return Invalid(f"the server redirected the request with status {status}"
                   f"{', to ' if to else ''}{to[:_MOST_OF_BODY]}. Redirects are not followed, "
                   "because that would send the token to another server; use the daemon's own "
                   "address")


def error_of_answer(status: int, body: bytes, fields: Optional[Mapping[str, str]] = None) -> Error:
    """Reads {"error": {"code", "message", "hint"}} or {"detail": message}; else the body is the
    message. `fields`: the response's header fields, with lower-case names."""
    fields = fields or {}
    error = (_redirect_error(status, fields.get("location", "")) if status // 100 == 3
             else _refusal_error(status, body))
    error.status = status
    error.reached = True
    error.reading = "x-gpuyard-reading" in fields
    after = fields.get("retry-after", "")
    if re.fullmatch("[0-9]{1,6}", after):
        error.again = float(after)
    return error


def _refusal_error(status: int, body: bytes) -> Error:
    import json

    text = body.decode("utf-8", "replace").strip()
    kind = _BY_STATUS.get(status, Internal)
    try:
        document: Any = json.loads(text)
    except (ValueError, RecursionError):
        document = None
    answer: dict[str, Any] = (
        cast(Any, document) if isinstance(document, dict) else {})
    text = (f"status {status} from a proxy or another server" if text.startswith("<")
            else text[:_MOST_OF_BODY])
    if isinstance(answer.get("detail"), str):
        text = answer["detail"]
    inner: Any = answer.get("error")
    said: dict[str, Any] = cast(Any, inner) if isinstance(inner, dict) else {}
    if isinstance(said.get("message"), str):
        text = said["message"]
    if isinstance(said.get("code"), str):
        kind = _BY_CODE.get(said["code"], kind)
    hint: Any = said.get("hint")
    return kind(in_words(text) or f"the daemon responded with status {status} and no message",
                hint if isinstance(hint, str) else "")


def is_transient(error: Error) -> bool:
    """Whether to try again: the error ends once the daemon is back or ready."""
    return isinstance(error, (Unavailable, TimedOut, Busy))


def passes(error: Error) -> bool:
    """The former name of is_transient()."""
    from . import _deprecated

    _deprecated.warn(f"{__name__}.passes()", f"{__name__}.is_transient()")
    return is_transient(error)
