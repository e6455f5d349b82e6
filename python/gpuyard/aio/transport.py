"""The connections of the asyncio client. The protocol is shared with the blocking client."""

from __future__ import annotations

import asyncio
import time
from typing import Any, Awaitable, Optional, TypeVar

from .. import http
from ..endpoint import Endpoint
from ..errors import Error, TimedOut, Unavailable, error_of_answer
from ..sse import EventParser, ServerEvent
from ..ssh import LOGIN_SECONDS, Login, after_greeting
from ..transport import connection_error, timeout_error

T = TypeVar("T")

_PIECE = 64 * 1024  # bytes of one read
_MAX_IDLE = 2  # idle ssh connections for the next requests


class Connection:
    """A connection, made by open(). `deadline` is a time of time.monotonic()."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self._login: Optional[Login] = None
        self._reader: Optional[asyncio.StreamReader] = None
        self._writer: Optional[asyncio.StreamWriter] = None

    async def open(self, deadline: float) -> Connection:
        try:
            if self.endpoint.kind == "ssh":
                await self._log_in(time.monotonic() + LOGIN_SECONDS)
            else:
                self._reader, self._writer = await self._await_within(deadline, self._connect())
                self._check_pin()
        except BaseException:
            self.close()
            await yield_to_loop()
            raise
        return self

    async def _await_within(self, deadline: float, work: Awaitable[T]) -> T:
        try:
            return await asyncio.wait_for(work, max(deadline - time.monotonic(), 0.001))
        except asyncio.TimeoutError:  # another class than TimeoutError before Python 3.11
            raise timeout_error(self.endpoint) from None
        except OSError as error:
            raise connection_error(self.endpoint, error) from None

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        endpoint = self.endpoint
        if endpoint.kind == "unix":
            return await asyncio.open_unix_connection(endpoint.path)
        if endpoint.kind == "tcp":
            return await asyncio.open_connection(endpoint.host, endpoint.port)
        from .. import tls_pins
        return await asyncio.open_connection(
            endpoint.host, endpoint.port, server_hostname=endpoint.host,
            ssl=tls_pins.context_for(endpoint.pin, endpoint.ca_file))

    def _check_pin(self) -> None:
        if not self.endpoint.pin:
            return
        from .. import tls_pins
        assert self._writer is not None
        secured: Any = self._writer.get_extra_info("ssl_object")
        tls_pins.check_pin(self.endpoint.pin, secured.getpeercert(True), self.endpoint.name)

    async def _log_in(self, deadline: float) -> None:
        loop = asyncio.get_running_loop()
        # Starting a process may take long if this process is large.
        start = loop.run_in_executor(None, Login, self.endpoint)
        try:
            self._login = login = await asyncio.shield(start)
        except asyncio.CancelledError:
            start.add_done_callback(_end_login)
            raise
        self._reader, self._writer = await asyncio.open_connection(sock=login.near)
        received = b""
        try:
            while not after_greeting(received):
                piece = await self.receive(deadline)
                if not piece:
                    raise await self.closed_error()
                received += piece
        except TimedOut:
            raise await loop.run_in_executor(None, login.why, True) from None

    async def send(self, data: bytes, deadline: float) -> None:
        assert self._writer is not None
        self._writer.write(data)
        await self._await_within(deadline, self._writer.drain())

    async def receive(self, deadline: float) -> bytes:
        """Some bytes; none: the server has closed the connection. TimedOut after the deadline."""
        assert self._reader is not None
        try:
            return await self._await_within(deadline, self._read(self._reader))
        except Unavailable:
            return b""

    @staticmethod
    async def _read(reader: asyncio.StreamReader) -> bytes:
        return await reader.read(_PIECE)

    async def closed_error(self) -> Error:
        """The error after the server has closed the connection."""
        if self._login is not None:
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(None, self._login.why)
        return Unavailable(f"the daemon at {self.endpoint.name} has stopped")

    @property
    def is_idle(self) -> bool:
        return self._reader is not None and not self._reader.at_eof()

    def close(self) -> None:
        """Closes it at once. The loop frees it in its next turn, for which yield_to_loop()
        waits."""
        if self._writer is not None:
            # Not close(): that would first exchange TLS messages.
            self._writer.transport.abort()
        if self._login is not None:
            self._login.end()


async def yield_to_loop() -> None:
    """Lets the loop free closed connections. TLS has a second one below its own."""
    for _ in range(2):
        await asyncio.sleep(0)


def _end_login(start: asyncio.Future[Login]) -> None:
    """Ends the ssh of a cancelled login."""
    if not start.cancelled() and start.exception() is None:
        start.result().end()


class Transport:
    """Sends requests to one daemon, in one event loop. Connections by ssh stay open."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self._idle: list[Connection] = []

    async def exchange(self, request: http.Request, deadline: float) -> http.Response:
        while self._idle:
            connection = self._idle.pop()
            if not connection.is_idle:
                connection.close()
                continue
            try:
                return await self._exchange_over(connection, request, time.monotonic() + deadline)
            except Unavailable:
                # It had been closed in the meantime. Only a GET may be repeated.
                if request.method != "GET":
                    raise
                break
        connection = await Connection(self.endpoint).open(time.monotonic() + deadline)
        return await self._exchange_over(connection, request, time.monotonic() + deadline)

    async def _exchange_over(self, connection: Connection, request: http.Request, deadline: float
                    ) -> http.Response:
        kept = False
        try:
            keeps = self.endpoint.kind == "ssh"
            await connection.send(
                http.encode(request, self.endpoint.host_field, self.endpoint.token,
                            close=not keeps), deadline)
            parser = http.Parser()
            while not parser.done:
                piece = await connection.receive(deadline)
                if not piece and parser.head is None:
                    raise await connection.closed_error()
                parser.feed(piece)
            if keeps and parser.reusable and len(self._idle) < _MAX_IDLE:
                self._idle.append(connection)
                kept = True
            return parser.response()
        except Error as error:
            error.reached = True
            raise
        finally:
            if not kept:
                connection.close()
                await yield_to_loop()

    def close(self) -> None:
        for connection in self._idle:
            connection.close()
        self._idle.clear()


class EventStream:
    """A connection to an event stream, made by open()."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._parser = http.Parser(most_body=1 << 62)  # a stream has no end; an event has a limit
        self._events = EventParser()
        self._connection = Connection(endpoint)
        self.last_received_at = time.monotonic()

    async def open(self, target: str, deadline: float) -> EventStream:
        endpoint = self._endpoint
        await self._connection.open(time.monotonic() + deadline)
        try:
            until = time.monotonic() + deadline
            request = http.encode(http.Request("GET", target), endpoint.host_field, endpoint.token)
            await self._connection.send(request, until)
            while self._parser.head is None:
                await self._feed(until)
            if self._parser.head.status != 200:
                await self._raise_refusal(until)
        except BaseException:
            self.close()
            await yield_to_loop()
            raise
        return self

    async def _raise_refusal(self, until: float) -> None:
        assert self._parser.head is not None
        body = self._parser.take()
        while not self._parser.done and len(body) < http.MOST_HEAD:
            await self._feed(until)
            body += self._parser.take()
        raise error_of_answer(self._parser.head.status, body, self._parser.head.fields)

    async def _feed(self, deadline: float) -> None:
        piece = await self._connection.receive(deadline)
        if not piece and self._parser.head is None:
            raise await self._connection.closed_error()
        self.last_received_at = time.monotonic()
        self._parser.feed(piece)

    async def read(self, deadline: float) -> Optional[list[ServerEvent]]:
        """The events until the deadline, possibly none; None: the daemon has closed the stream."""
        body = self._parser.take()
        if not body:
            if self._parser.done:
                return None
            try:
                await self._feed(deadline)
            except TimedOut:
                return []
            body = self._parser.take()
        return self._events.feed(body)

    def close(self) -> None:
        self._connection.close()
