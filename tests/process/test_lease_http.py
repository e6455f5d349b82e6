"""Broken claims of strangers, against the real program: at each step a client vanishes, sends
half of a request, or nonsense. No GPU and no queue position stays taken because of it."""

import json
import socket

import pytest
from control_client import connect
from program import PATIENCE, wait_until

ALICE, BOB = 61001, 61002


def request(body, length=None):
    text = body if isinstance(body, bytes) else json.dumps(body).encode()
    return (b"POST /api/gpu/leases HTTP/1.1\r\nHost: localhost\r\nContent-Length: "
            + str(len(text) if length is None else length).encode() + b"\r\n\r\n" + text)


def claim(yard, body, uid=None):
    """A connection that has asked, and may be left."""
    client = connect(yard.socket, uid)
    client.sendall(request(body))
    return client


def status_of(client):
    return int(client.recv(65536).split(b" ", 2)[1])


def queue(yard):
    return yard.get("/api/gpu/queue").json()


def leases(yard):
    return yard.get("/api/gpu/leases").json()["leases"]


@pytest.fixture
def yard(daemon, world):
    world.start("--gpus", "1", "--load", "idle")
    yard = daemon(GPUYARD_SIM_WORLD=str(world.directory))
    wait_until(lambda: yard.get("/api/gpu/load").status == 200
               and yard.get("/api/gpu/load").json()["capacity"] == 1, "a GPU to lease")
    return yard


def test_truncated_claim_request_creates_no_lease(yard):
    whole = request({"gpus": 1})
    for end in range(1, len(whole), 7):
        client = connect(yard.socket)
        client.sendall(whole[:end])
        client.close()
    assert yard.get("/health").status == 200
    assert leases(yard) == []


def test_closed_stream_releases_held_lease(yard):
    client = claim(yard, {"stream": True})
    wait_until(lambda: [one["state"] for one in leases(yard)] == ["held"], "the lease")
    client.close()
    wait_until(lambda: leases(yard) == [], "the lease to end with its stream")


def test_departed_waiter_does_not_block_next_claim(yard):
    holder = claim(yard, {"id": "who-holds-the-gpu", "stream": True}, ALICE)
    wait_until(lambda: len(leases(yard)) == 1, "the first lease")
    vanished = claim(yard, {"id": "who-vanishes-early", "stream": True}, BOB)
    wait_until(lambda: queue(yard)["pending_claimers"] == 1, "one to wait")
    stays = claim(yard, {"id": "who-stays-and-waits", "stream": True}, BOB)
    wait_until(lambda: [one["id"] for one in queue(yard)["waiting"]] == ["who-vanishes-early", "who-stays-and-waits"],
               "two to wait")
    vanished.close()
    holder.close()
    wait_until(lambda: [one["id"] for one in leases(yard)] == ["who-stays-and-waits"], "the one that stayed")
    stays.close()


def test_lease_socket_allows_even_root_leasing_only(yard):
    lease_socket = str(yard.directory / "lease.sock")
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(PATIENCE)
        client.connect(lease_socket)

        def is_given():
            client.sendall(request({"binding": "detached", "ttl_s": 60}))
            return status_of(client) == 200

        wait_until(is_given, "leases")
        client.sendall(b"PUT /api/gpu/manage/0/cordon HTTP/1.1\r\nHost: localhost\r\n"
                       b"Content-Length: 14\r\n\r\n" + b'{"reason":"x"}')
        answer = client.recv(65536)
        assert b" 403 " in answer.split(b"\r\n", 1)[0]
        assert b"this socket allows leasing only" in answer
