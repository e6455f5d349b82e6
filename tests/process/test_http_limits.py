"""Attacks of strangers on the daemon's sockets, against the real program."""

import os
import socket

from program import PATIENCE, wait_until

REQUEST = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"


def connect(yard):
    return socket.create_connection(("127.0.0.1", yard.port), timeout=PATIENCE)


def answer_to(yard, data):
    with connect(yard) as client:
        client.sendall(data)
        return client.recv(65536).split(b"\r\n", 1)[0]


def resident_kib(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as status:
        return int(next(line for line in status if line.startswith("VmRSS")).split()[1])


def test_each_limit_has_a_distinct_response(daemon):
    yard = daemon("--simulate", "1")
    host = b"Host: localhost\r\n"
    assert b" 431 " in answer_to(yard, b"GET / HTTP/1.1\r\n" + host + b"X: " + b"x" * 17000 + b"\r\n\r\n")
    assert b" 414 " in answer_to(yard, b"GET /" + b"x" * 5000 + b" HTTP/1.1\r\n" + host + b"\r\n")
    assert b" 413 " in answer_to(yard, b"POST / HTTP/1.1\r\n" + host + b"Content-Length: 65537\r\n\r\n")
    assert b" 400 " in answer_to(yard, b"POST / HTTP/1.1\r\n" + host +
                                 b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n")
    assert b" 200 " in answer_to(yard, b"\r\nGET http://localhost/health HTTP/1.1\r\n" + host + b"\r\n")


def test_connections_beyond_limit_do_not_block_a_newcomer(daemon):
    yard = daemon("--simulate", "1")
    idle = [connect(yard) for _ in range(600)]
    try:
        assert b" 200 " in answer_to(yard, REQUEST)
    finally:
        for client in idle:
            client.close()


def test_idle_and_flooding_connections_cost_little_memory(daemon):
    yard = daemon("--simulate", "1")
    before = resident_kib(yard.process.pid)
    clients = [connect(yard) for _ in range(200)]
    try:
        for client in clients:
            client.setblocking(False)
            try:
                while True:  # until the kernel's buffers are full: no client reads the responses
                    client.send(REQUEST * 500)
            except BlockingIOError:
                pass
        assert b" 200 " in answer_to(yard, REQUEST)
        # 17 KiB of request and one answer each; AddressSanitizer keeps freed memory for a while.
        if "asan" not in os.environ["GPUYARD_BIN"]:
            assert resident_kib(yard.process.pid) - before < 200 * 64
    finally:
        for client in clients:
            client.close()


def test_departed_client_frees_its_descriptor(daemon):
    yard = daemon("--simulate", "1")
    descriptors = f"/proc/{yard.process.pid}/fd"
    before = len(os.listdir(descriptors))
    for _ in range(50):
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(yard.socket)
            client.sendall(b"GET /api/gpu/devices HTTP/1.1\r\nHost: x\r\n\r\n")
    wait_until(lambda: len(os.listdir(descriptors)) <= before, "the descriptors to come back")
