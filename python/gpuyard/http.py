"""HTTP/1.1 without any I/O: encodes requests and parses responses.

The blocking and the asyncio client share it. It does not trust the server: every part of a response
has a size limit, and anything that is not HTTP is refused.
"""

from __future__ import annotations

import re
from typing import Mapping, NamedTuple

from .errors import Internal, Invalid, Unavailable

MOST_HEAD = 64 * 1024  # bytes of a status line and its header fields
MOST_BODY = 64 * 1024 * 1024  # bytes of a response's body, without the framing of chunks
MOST_INTERIM = 8  # responses such as 103 before the final one
MOST_CHUNK_LINE = 1024  # bytes of the line with the size of a chunk

_METHODS = ("GET", "POST", "PUT", "DELETE")
_TARGET = re.compile(r"/[!-~]*\Z")
_STATUS_LINE = re.compile(rb"HTTP/1\.[01] ([1-9][0-9]{2})(?: [^\r\n\x00]*)?\Z")
_FIELD = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([^\r\n\x00]*?)[ \t]*\Z")
_DIGITS = re.compile(r"[0-9]{1,18}\Z")
_HEX_DIGITS = re.compile(rb"[0-9A-Fa-f]{1,15}\Z")


class Request(NamedTuple):
    """A request. `body` is JSON, or empty."""

    method: str
    target: str
    body: bytes = b""


def encode(request: Request, host: str, token: str = "", close: bool = False) -> bytes:
    """The bytes of a request. Raises Invalid if the target is not percent-encoded."""
    if request.method not in _METHODS:
        raise Invalid(f"expected the method GET, POST, PUT or DELETE; got {request.method!r}")
    if not _TARGET.match(request.target):
        raise Invalid(f"expected a percent-encoded path and query, got {request.target!r}")
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
    """Status and header fields; names are in lower case, the first field of a name counts."""

    status: int
    fields: Mapping[str, str]


class Response(NamedTuple):
    """A complete response."""

    status: int
    fields: Mapping[str, str]
    body: bytes


class Parser:
    """Parses the bytes of one response as they arrive.

    `head` is None until it has been received. `take()` returns the part of the body that was
    received since the last call. `done`: the response is complete. `reusable`: the connection can
    be used again. Raises Internal for malformed or oversized responses, and Unavailable if the
    connection closes early.
    """

    def __init__(self, most_body: int = MOST_BODY) -> None:
        self.head: Head | None = None
        self.done = False
        self._most_body = most_body
        self._received = 0
        self._interim = 0
        self._waiting = bytearray()  # not parsed yet
        self._body = bytearray()
        self._left: int | None = None  # bytes of the body or the chunk; None: until the end
        self._chunked = False
        self._step = self._parse_head

    @property
    def reusable(self) -> bool:
        if not self.done or self.head is None or self._waiting:
            return False
        closes = self.head.fields.get("connection", "").lower() == "close"
        return not closes and (self._chunked or self._left is not None)

    def feed(self, data: bytes) -> None:
        """Takes more bytes; none: the server has closed the connection."""
        if not data:
            self._end()
            return
        if self.done:
            raise Internal("received unexpected data after the response")
        self._waiting += data
        while self._waiting and not self.done and self._step():
            pass

    def take(self) -> bytes:
        body = bytes(self._body)
        self._body.clear()
        return body

    def response(self) -> Response:
        """The response, once it is done."""
        if not self.done or self.head is None:
            raise Internal("the response is not complete")
        return Response(self.head.status, self.head.fields, self.take())

    def _end(self) -> None:
        until_end = self.head is not None and not self._chunked and self._left is None
        if until_end or self.done:
            self.done = True
            return
        when = "before" if self.head is None and not self._waiting else "in the middle of"
        raise Unavailable(f"the connection closed {when} the response")

    # Each step returns whether another step can follow at once.

    def _parse_head(self) -> bool:
        end = self._waiting.find(b"\r\n\r\n")
        if end < 0 or end > MOST_HEAD:
            if len(self._waiting) > MOST_HEAD:
                raise Internal(f"the response header exceeds {MOST_HEAD} bytes")
            return False
        head = _read_head(self._cut(end, 4))
        if head.status < 200:
            self._interim += 1
            if self._interim > MOST_INTERIM or head.status == 101:
                raise Internal(f"unexpected interim response {head.status}")
            return True
        self.head = head
        self._find_framing(head)
        return True

    def _find_framing(self, head: Head) -> None:
        coding = head.fields.get("transfer-encoding")
        length = head.fields.get("content-length")
        if coding is not None:
            if coding.lower() != "chunked" or length is not None:
                raise Internal(f"unsupported framing of the response: {coding!r}")
            self._chunked = True
            self._step = self._parse_chunk_size
        elif head.status in (204, 304):
            self._left = 0
            self.done = True
        elif length is None:
            self._step = self._parse_plain
        elif not _DIGITS.match(length):
            raise Internal(f"invalid length of the response: {length!r}")
        else:
            self._left = int(length)
            self._check_size(self._left)
            self._step = self._parse_plain
            self.done = self._left == 0

    def _check_size(self, more: int) -> None:
        if self._received + more > self._most_body:
            raise Internal(f"the response body exceeds {self._most_body} bytes")

    def _cut(self, count: int, more: int = 0) -> bytes:
        """Removes `count` bytes from the front and returns them; drops `more` bytes after them."""
        piece = bytes(self._waiting[:count])
        del self._waiting[:count + more]
        return piece

    def _append_body(self, count: int) -> None:
        self._check_size(count)
        self._received += count
        self._body += self._cut(count)

    def _parse_plain(self) -> bool:
        count = len(self._waiting) if self._left is None else min(self._left, len(self._waiting))
        self._append_body(count)
        if self._left is not None:
            self._left -= count
            self.done = self._left == 0
        return False

    def _line(self) -> bytes | None:
        end = self._waiting.find(b"\r\n")
        if end < 0 or end > MOST_CHUNK_LINE:
            if len(self._waiting) > MOST_CHUNK_LINE:
                raise Internal("the response has a chunk without a size")
            return None
        return self._cut(end, 2)

    def _parse_chunk_size(self) -> bool:
        line = self._line()
        if line is None:
            return False
        digits = line.split(b";", 1)[0].strip(b" \t")
        if not _HEX_DIGITS.match(digits):
            raise Internal("the response has a chunk without a size")
        self._left = int(digits, 16)
        self._check_size(self._left)
        self._step = self._parse_chunk if self._left else self._parse_trailer
        return True

    def _parse_chunk(self) -> bool:
        assert self._left is not None
        count = min(self._left, len(self._waiting))
        self._append_body(count)
        self._left -= count
        if self._left == 0:
            self._step = self._parse_chunk_end
        return True

    def _parse_chunk_end(self) -> bool:
        if len(self._waiting) < 2:
            return False
        if not self._waiting.startswith(b"\r\n"):
            raise Internal("a chunk of the response is longer than its size")
        del self._waiting[:2]
        self._step = self._parse_chunk_size
        return True

    def _parse_trailer(self) -> bool:
        line = self._line()
        if line is None:
            return False
        self._interim += len(line) + 2  # a trailer without an end is a head without an end
        if self._interim > MOST_HEAD:
            raise Internal(f"the response trailer exceeds {MOST_HEAD} bytes")
        self.done = not line
        return not self.done


def _read_head(text: bytes) -> Head:
    first, *rest = text.split(b"\r\n")
    status = _STATUS_LINE.match(first)
    if not status:
        raise Internal("the response is not HTTP; check that the server is gpuyard")
    fields: dict[str, str] = {}
    for line in rest:
        field = _FIELD.match(line)
        if not field:
            raise Internal("the response has a malformed header field")
        name = field.group(1).decode("ascii").lower()
        value = field.group(2).decode("latin-1")
        if name in ("content-length", "transfer-encoding") and name in fields:
            raise Internal(f"the response has two {name} fields")
        fields.setdefault(name, value)
    return Head(int(status.group(1)), fields)
