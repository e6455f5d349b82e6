"""The connections of the blocking client: Unix sockets, TCP, TLS and ssh."""

from __future__ import annotations

import os
import select
import socket
import threading
import time
from typing import Optional

from . import http
from .endpoint import Endpoint
from .errors import Denied, Error, TimedOut, Unavailable, error_of_answer
from .sse import EventParser, ServerEvent
from .ssh import LOGIN_SECONDS, Login, after_greeting

_PIECE = 64 * 1024  # bytes of one read
_MAX_IDLE = 2  # idle ssh connections for the next requests


def timeout_error(endpoint: Endpoint) -> TimedOut:
    return TimedOut(f"no response from {endpoint.name} in time; the request may still be carried "
                    "out")


def connection_error(endpoint: Endpoint, error: OSError) -> Error:
    """The error for a failed connection attempt or a broken connection."""
    if isinstance(error, (TimeoutError, socket.timeout)):  # two classes before Python 3.10
        return timeout_error(endpoint)
    # An SSLCertVerificationError is an OSError, and ssl is not imported for a Unix socket.
    verify = getattr(error, "verify_message", "")
    if verify:
        return Denied(f"{endpoint.name} is not trusted: {verify}; if its certificate is correct, "
                      "pin its key with `gpuyard host add NAME URL`, or set ca_file in hosts.toml")
    what = error.strerror or str(error)
    if isinstance(error, PermissionError):
        return Denied(f"not allowed to connect to {endpoint.name}: {what}")
    return Unavailable(f"nothing is listening at {endpoint.name}: {what}. Start a daemon there "
                       "with `gpuyard serve`")


class Connection:
    """An open connection. `deadline` is always a time of time.monotonic()."""

    def __init__(self, endpoint: Endpoint, deadline: float) -> None:
        self.endpoint = endpoint
        self._login: Optional[Login] = None
        self._owner = os.getpid()
        if endpoint.kind == "ssh":
            self._login = Login(endpoint)
            self._socket = self._login.near
            self._await_greeting(time.monotonic() + LOGIN_SECONDS)
            return
        try:
            self._socket = self._connect(endpoint, deadline)
        except OSError as error:
            raise connection_error(endpoint, error) from None

    @staticmethod
    def _connect(endpoint: Endpoint, deadline: float) -> socket.socket:
        timeout = max(deadline - time.monotonic(), 0.001)
        if endpoint.kind == "unix":
            connected = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            connected.settimeout(timeout)
            try:
                connected.connect(endpoint.path)
            except BaseException:
                connected.close()
                raise
            return connected
        connected = socket.create_connection((endpoint.host, endpoint.port), timeout)
        if endpoint.kind == "tcp":
            return connected
        from . import tls_pins
        try:
            connected.settimeout(max(deadline - time.monotonic(), 0.001))
            secured = tls_pins.context_for(endpoint.pin, endpoint.ca_file).wrap_socket(
                connected, server_hostname=endpoint.host)
        except BaseException:
            connected.close()
            raise
        if endpoint.pin:
            try:
                tls_pins.check_pin(endpoint.pin, secured.getpeercert(True), endpoint.name)
            except BaseException:
                secured.close()
                raise
        return secured

    def _await_greeting(self, deadline: float) -> None:
        received = b""
        try:
            while not after_greeting(received):
                piece = self.receive(deadline)
                if not piece:
                    raise self._login_error()
                received += piece
        except TimedOut:
            raise self._login_error(too_late=True) from None
        except BaseException:
            self.close()
            raise

    def _login_error(self, too_late: bool = False) -> Error:
        assert self._login is not None
        return self._login.why(too_late)

    def send(self, data: bytes, deadline: float) -> None:
        try:
            self._socket.settimeout(max(deadline - time.monotonic(), 0.001))
            self._socket.sendall(data)
        except OSError as error:
            raise connection_error(self.endpoint, error) from None

    def receive(self, deadline: float) -> bytes:
        """Some bytes; none: the server has closed the connection. TimedOut after the deadline."""
        try:
            self._socket.settimeout(max(deadline - time.monotonic(), 0.001))
            return self._socket.recv(_PIECE)
        except ConnectionResetError:
            return b""
        except OSError as error:
            raise connection_error(self.endpoint, error) from None

    def closed_error(self) -> Error:
        """The error after the server has closed the connection."""
        if self._login is not None:
            return self._login_error()
        return Unavailable(f"the daemon at {self.endpoint.name} has stopped")

    def close(self) -> None:
        if self._login is not None:
            self._login.end()
        else:
            self._socket.close()

    @property
    def is_ours(self) -> bool:
        """A child of fork must not use its parent's connections."""
        return os.getpid() == self._owner

    @property
    def is_idle(self) -> bool:
        """Whether nothing was received since the last response, not even its end."""
        return not select.select([self._socket], [], [], 0)[0]


class Transport:
    """Sends requests to one daemon. Any thread; requests of several threads run in parallel.

    Connections by ssh stay open, because a login is slow.
    """

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self._idle: list[Connection] = []
        self._lock = threading.Lock()

    def exchange(self, request: http.Request, deadline: float) -> http.Response:
        connection = self._pop_idle()
        if connection:
            try:
                return self._exchange_over(connection, request, time.monotonic() + deadline)
            except Unavailable:
                # It had been closed in the meantime. Only a GET may be repeated.
                if request.method != "GET":
                    raise
        connection = Connection(self.endpoint, time.monotonic() + deadline)
        # A login has its own time.
        return self._exchange_over(connection, request, time.monotonic() + deadline)

    def _exchange_over(self, connection: Connection, request: http.Request, deadline: float
              ) -> http.Response:
        kept = False
        try:
            keeps = self.endpoint.kind == "ssh"
            connection.send(http.encode(request, self.endpoint.host_field, self.endpoint.token,
                                        close=not keeps), deadline)
            parser = http.Parser()
            while not parser.done:
                piece = connection.receive(deadline)
                if not piece and parser.head is None:
                    raise connection.closed_error()
                parser.feed(piece)
            kept = keeps and parser.reusable and self._store_idle(connection)
            return parser.response()
        except Error as error:
            error.reached = True
            raise
        finally:
            if not kept:
                connection.close()

    def _pop_idle(self) -> Optional[Connection]:
        with self._lock:
            while self._idle:
                connection = self._idle.pop()
                if connection.is_ours and connection.is_idle:
                    return connection
                connection.close()
        return None

    def _store_idle(self, connection: Connection) -> bool:
        with self._lock:
            if len(self._idle) >= _MAX_IDLE:
                return False
            self._idle.append(connection)
            return True

    def close(self) -> None:
        with self._lock:
            for connection in self._idle:
                connection.close()
            self._idle.clear()


class EventStream:
    """A connection to an event stream."""

    def __init__(self, endpoint: Endpoint, target: str, deadline: float) -> None:
        self._parser = http.Parser(most_body=1 << 62)  # a stream has no end; an event has a limit
        self._events = EventParser()
        self._connection = Connection(endpoint, time.monotonic() + deadline)
        self.last_received_at = time.monotonic()
        try:
            until = time.monotonic() + deadline
            request = http.encode(http.Request("GET", target), endpoint.host_field, endpoint.token)
            self._connection.send(request, until)
            while self._parser.head is None:
                self._feed(until)
            if self._parser.head.status != 200:
                self._raise_refusal(until)
        except BaseException:
            self.close()
            raise

    def _raise_refusal(self, until: float) -> None:
        assert self._parser.head is not None
        body = self._parser.take()
        while not self._parser.done and len(body) < http.MOST_HEAD:
            self._feed(until)
            body += self._parser.take()
        raise error_of_answer(self._parser.head.status, body, self._parser.head.fields)

    def _feed(self, deadline: float) -> None:
        piece = self._connection.receive(deadline)
        if not piece and self._parser.head is None:
            raise self._connection.closed_error()
        self.last_received_at = time.monotonic()
        self._parser.feed(piece)

    def read(self, deadline: float) -> Optional[list[ServerEvent]]:
        """The events until the deadline, possibly none; None: the daemon has closed the stream."""
        body = self._parser.take()
        if not body:
            if self._parser.done:
                return None
            try:
                self._feed(deadline)
            except TimedOut:
                return []
            body = self._parser.take()
        return self._events.feed(body)

    def close(self) -> None:
        self._connection.close()


