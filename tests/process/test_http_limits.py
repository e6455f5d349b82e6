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
