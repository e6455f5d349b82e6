"""HTTP/1.1 without any I/O: a request becomes bytes, and bytes become an answer.

The blocking and the asyncio client share it. It trusts nothing that comes from outside: every part
of an answer has a limit, and what is not HTTP is refused.
"""

from __future__ import annotations

import re
from typing import Mapping, NamedTuple

from .errors import Internal, Invalid, Unavailable

MOST_HEAD = 64 * 1024  # bytes of a status line and its header fields
MOST_BODY = 64 * 1024 * 1024  # bytes of an answer's body, unpacked of its chunks
MOST_INTERIM = 8  # answers such as 103 before the answer proper
MOST_CHUNK_LINE = 1024  # bytes of the line that tells the size of a chunk

_METHODS = ("GET", "POST", "PUT", "DELETE")
_TARGET = re.compile(r"/[!-~]*\Z")
_STATUS_LINE = re.compile(rb"HTTP/1\.[01] ([1-9][0-9]{2})(?: [^\r\n\x00]*)?\Z")
_FIELD = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([^\r\n\x00]*?)[ \t]*\Z")
_DIGITS = re.compile(r"[0-9]{1,18}\Z")
_HEX_DIGITS = re.compile(rb"[0-9A-Fa-f]{1,15}\Z")


class Request(NamedTuple):
    """What is asked. `body` is JSON, or nothing."""

    method: str
    target: str
    body: bytes = b""


def encode(request: Request, host: str, token: str = "", close: bool = False) -> bytes:
    """The bytes of a request. Invalid for a target that is no percent-encoded path and query."""
    if request.method not in _METHODS:
        raise Invalid(f"{request.method!r} is no method: it is GET, POST, PUT or DELETE")
    if not _TARGET.match(request.target):
        raise Invalid(f"{request.target!r} is no path and query, percent-encoded")
    lines = [f"{request.method} {request.target} HTTP/1.1", f"Host: {host}",
             "User-Agent: gpuyard-python"]
    if token:
        lines.append(f"Authorization: Bearer {token}")
    if close:
        lines.append("Connection: close")
    if request.body:
        lines.append("Content-Type: application/json")
    if request.body or request.method in ("POST", "PUT"):
        lines.append(f"Content-Length: {len(request.body)}")
    return "\r\n".join(lines).encode("ascii") + b"\r\n\r\n" + request.body


class Head(NamedTuple):
    """Status and header fields; names are in small letters, the first field of a name counts."""

    status: int
    fields: Mapping[str, str]


class Response(NamedTuple):
    """A whole answer."""

    status: int
    fields: Mapping[str, str]
    body: bytes


class Parser:
    """Takes the bytes of one answer as they come.

    `head` is None until it is there. `take()` returns what has come of the body since the last
    call. `done` says that the answer is whole, `reusable` that the connection may be used again.
    Raises Internal for what is no HTTP or is beyond a limit, Unavailable if the answer breaks off.
    """

    def __init__(self, most_body: int = MOST_BODY) -> None:
        self.head: Head | None = None
        self.done = False
        self._most_body = most_body
        self._received = 0
        self._interim = 0
        self._waiting = bytearray()  # not looked at yet
        self._body = bytearray()
        self._left: int | None = None  # bytes of the body or the chunk; None: until the end
        self._chunked = False
        self._step = self._take_head

    @property
    def reusable(self) -> bool:
        if not self.done or self.head is None or self._waiting:
            return False
        closes = self.head.fields.get("connection", "").lower() == "close"
        return not closes and (self._chunked or self._left is not None)

    def feed(self, data: bytes) -> None:
        """Takes more bytes; none: the other side has ended the connection."""
        if not data:
            self._end()
            return
        if self.done:
            raise Internal("the daemon sent more than it was asked for")
        self._waiting += data
        while self._waiting and not self.done and self._step():
            pass

    def take(self) -> bytes:
        body = bytes(self._body)
        self._body.clear()
        return body

    def response(self) -> Response:
        """The answer, once it is done."""
        if not self.done or self.head is None:
            raise Internal("the answer is not complete")
        return Response(self.head.status, self.head.fields, self.take())

    def _end(self) -> None:
        until_end = self.head is not None and not self._chunked and self._left is None
        if until_end or self.done:
            self.done = True
            return
        what = "sent nothing" if self.head is None and not self._waiting else "broke off"
        raise Unavailable(f"the connection has ended: the answer {what}")

    # Each step returns whether another one may follow.

    def _take_head(self) -> bool:
        end = self._waiting.find(b"\r\n\r\n")
        if end < 0 or end > MOST_HEAD:
            if len(self._waiting) > MOST_HEAD:
                raise Internal(f"the head of the answer has more than {MOST_HEAD} bytes")
            return False
        head = _read_head(self._cut(end, 4))
        if head.status < 200:
            self._interim += 1
            if self._interim > MOST_INTERIM or head.status == 101:
                raise Internal(f"the answer begins with {head.status}, which nobody asked for")
            return True
        self.head = head
        self._find_framing(head)
        return True

    def _find_framing(self, head: Head) -> None:
        coding = head.fields.get("transfer-encoding")
        length = head.fields.get("content-length")
        if coding is not None:
            if coding.lower() != "chunked" or length is not None:
                raise Internal(f"the answer has a framing that we do not know: {coding!r}")
            self._chunked = True
            self._step = self._take_chunk_size
        elif head.status in (204, 304):
            self._left = 0
            self.done = True
        elif length is None:
            self._step = self._take_plain
        elif not _DIGITS.match(length):
            raise Internal(f"the answer has the length {length!r}")
        else:
            self._left = int(length)
            self._check_size(self._left)
            self._step = self._take_plain
            self.done = self._left == 0

    def _check_size(self, more: int) -> None:
        if self._received + more > self._most_body:
            raise Internal(f"the answer has more than {self._most_body} bytes")

    def _cut(self, count: int, more: int = 0) -> bytes:
        """Takes so many bytes from the front, and drops some more behind them."""
        piece = bytes(self._waiting[:count])
        del self._waiting[:count + more]
        return piece

    def _keep(self, count: int) -> None:
        self._check_size(count)
        self._received += count
        self._body += self._cut(count)

    def _take_plain(self) -> bool:
        count = len(self._waiting) if self._left is None else min(self._left, len(self._waiting))
        self._keep(count)
        if self._left is not None:
            self._left -= count
            self.done = self._left == 0
        return False

    def _line(self) -> bytes | None:
        end = self._waiting.find(b"\r\n")
        if end < 0 or end > MOST_CHUNK_LINE:
            if len(self._waiting) > MOST_CHUNK_LINE:
                raise Internal("the answer has a chunk without a size")
            return None
        return self._cut(end, 2)

    def _take_chunk_size(self) -> bool:
        line = self._line()
        if line is None:
            return False
        digits = line.split(b";", 1)[0].strip(b" \t")
        if not _HEX_DIGITS.match(digits):
            raise Internal("the answer has a chunk without a size")
        self._left = int(digits, 16)
        self._check_size(self._left)
        self._step = self._take_chunk if self._left else self._take_trailer
        return True

    def _take_chunk(self) -> bool:
        assert self._left is not None
        count = min(self._left, len(self._waiting))
        self._keep(count)
        self._left -= count
        if self._left == 0:
            self._step = self._take_chunk_end
        return True

    def _take_chunk_end(self) -> bool:
        if len(self._waiting) < 2:
            return False
        if not self._waiting.startswith(b"\r\n"):
            raise Internal("a chunk of the answer is longer than its size")
        del self._waiting[:2]
        self._step = self._take_chunk_size
        return True

    def _take_trailer(self) -> bool:
        line = self._line()
        if line is None:
            return False
        self._interim += len(line) + 2  # a trailer without an end is a head without an end
        if self._interim > MOST_HEAD:
            raise Internal(f"the trailer of the answer has more than {MOST_HEAD} bytes")
        self.done = not line
        return not self.done


def _read_head(text: bytes) -> Head:
    first, *rest = text.split(b"\r\n")
    status = _STATUS_LINE.match(first)
    if not status:
        raise Internal("the answer is no HTTP; is it gpuyard that listens there?")
    fields: dict[str, str] = {}
    for line in rest:
        field = _FIELD.match(line)
        if not field:
            raise Internal("the answer has a header field that is none")
        name = field.group(1).decode("ascii").lower()
        value = field.group(2).decode("latin-1")
        if name in ("content-length", "transfer-encoding") and name in fields:
            raise Internal(f"the answer has two fields {name}")
        fields.setdefault(name, value)
    return Head(int(status.group(1)), fields)
