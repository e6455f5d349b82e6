"""Daemons that are none: what says nothing, says nonsense, ends, or is slow."""

import asyncio
import signal
import socket
import threading
import time

import pytest

import gpuyard
from ground import open_files

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"


@pytest.fixture
def server(tmp_path):
    """server(talk): each connection is given to talk(connection), in a thread."""
    path = str(tmp_path / "s")
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(path)
    listening.listen()
    over = threading.Event()

    def serve(talk):
        def one(connection):
            with connection:
                try:
                    connection.recv(65536)
                    talk(connection)
                except OSError:
                    pass  # the client has gone

        def accept():
            while not over.is_set():
                try:
                    connection, _ = listening.accept()
                except OSError:
                    return
                threading.Thread(target=one, args=(connection,), daemon=True).start()
        threading.Thread(target=accept, daemon=True).start()
        return f"unix://{path}"
    yield serve
    over.set()
    listening.close()


def ask_blocking(host, deadline):
    return gpuyard.Client(host, deadline=deadline).request("GET", "/health")


def ask_asyncio(host, deadline):
    async def main():
        return await gpuyard.aio.Client(host, deadline=deadline).request("GET", "/health")
    return asyncio.run(main())


both = pytest.mark.parametrize("ask", [ask_blocking, ask_asyncio])


def slowly(connection):
    for byte in ANSWER * 100:
        connection.send(bytes([byte]))
        time.sleep(0.05)


def for_ever(connection):
    connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
    while True:
        connection.sendall(b"x" * 65536)


@both
@pytest.mark.parametrize("talk, kind", [
    (lambda connection: None, gpuyard.Unavailable),
    (lambda connection: connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Le"), gpuyard.Unavailable),
    (lambda connection: connection.sendall(ANSWER[:-1]), gpuyard.Unavailable),
    (lambda connection: connection.sendall(b"SSH-2.0-OpenSSH\r\n\r\n"), gpuyard.Internal),
    (lambda connection: connection.sendall(b"\x16\x03\x01" * 40_000), gpuyard.Internal),
    (lambda connection: connection.sendall(ANSWER[:-2] + b"{]"), gpuyard.Internal),
    (lambda connection: time.sleep(5), gpuyard.TimedOut),
    (slowly, gpuyard.TimedOut),
])
def test_server_that_is_no_daemon_fails_in_time(server, ask, talk, kind):
    before = open_files()
    began = time.monotonic()
    with pytest.raises(kind):
        ask(server(talk), 0.5)
    assert time.monotonic() - began < 2
    assert open_files() <= before + 1  # the server's own end of the connection may still be open


@both
def test_a_body_without_an_end_is_cut_off(server, ask, monkeypatch):
    monkeypatch.setattr("gpuyard.http.Parser.__init__.__defaults__", (1_000_000,))
    with pytest.raises(gpuyard.Internal, match="exceeds 1000000 bytes"):
        ask(server(for_ever), 30)


@both
def test_response_in_pieces_is_accepted(server, ask):
    def talk(connection):
        for at in range(0, len(ANSWER), 7):
            connection.sendall(ANSWER[at:at + 7])
            time.sleep(0.005)
    assert ask(server(talk), 5) == {}


def test_endless_event_raises_internal_error(server):
    def talk(connection):
        connection.sendall(b"HTTP/1.1 200 OK\r\n\r\ndata: ")
        while True:
            connection.sendall(b"x" * 65536)
    with pytest.raises(gpuyard.Internal, match="an event of the daemon"):
        gpuyard.Client(server(talk)).events().next(30)


def test_refused_stream_raises_busy(server):
    body = b'{"error":{"code":"busy","message":"1024 streams are open"}}'

    def talk(connection):
        connection.sendall(b"HTTP/1.1 503 Busy\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
    with pytest.raises(gpuyard.Busy, match="1024 streams"):
        gpuyard.Client(server(talk)).events().next(5)


def test_hanging_daemon_is_not_waited_for(make_ground, monkeypatch):
    ground = make_ground(gpus=1)
    monkeypatch.setenv("GPUYARD_SOCKET", ground.socket)
    ground.daemon.process.send_signal(signal.SIGSTOP)
    try:
        began = time.monotonic()
        with pytest.raises(gpuyard.TimedOut, match="may still be carried out"):
            gpuyard.devices()
        with gpuyard.energy() as e:
            pass
        assert e.joules is None and "no response" in e.why
        assert time.monotonic() - began < 8
    finally:
        ground.daemon.process.send_signal(signal.SIGCONT)
