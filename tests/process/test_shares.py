"""The quotas of one user or one address: a client that uses them up gets an error, and others are not
affected. docs/fairness.md has the numbers; here they are small ones.
"""

import grp
import itertools
import socket

import pytest

from control_client import Caller, connect
from control_yard import ControlYard
from program import PATIENCE, PROGRAM, wait_until
from sim_world import World

GROUP = grp.getgrgid(100).gr_name
LEASES = "/api/gpu/leases"
SHARES = {"connections": 30, "streams": 6, "waiting_claims": 5, "claims_a_minute": 20, "changes_a_minute": 10}
FEW_DESCRIPTORS = 400
STREAM = b"GET /api/gpu/stream/power HTTP/1.1\r\nHost: localhost\r\n\r\n"


@pytest.fixture(scope="module")
def yard(tmp_path_factory):
    world = World(tmp_path_factory.mktemp("world"))
    yard = ControlYard(world, tmp_path_factory.mktemp("yard"), group=GROUP, shares=SHARES)
    try:
        yield yard.start()
    finally:
        yard.end()
        world.end()


@pytest.fixture
def users(yard):
    """Two who were not here before: one who takes all, and another."""
    uids = map(next, (NUMBERS, NUMBERS))
    callers = [Caller(yard.daemon.socket, uid, groups=(100,)) for uid in uids]
    yield callers
    for caller in callers:
        caller.close()


NUMBERS = itertools.count(61001)


def over_tcp(yard, address):
    return socket.create_connection(("127.0.0.1", yard.daemon.port), PATIENCE, (address, 0))


def is_answered(caller):
    return caller.ask("GET", "/api/gpu/load").status == 200


def assert_busy(answer, *words):
    assert (answer.status, answer.error()) == (503, "busy"), answer.text
    for word in words:
        assert word in answer.text


def fill_connections(open_one):
    """The oldest of too many gives way, for it waits for its client."""
    opened = [open_one() for _ in range(SHARES["connections"] + 1)]
    assert opened[0].recv(1) == b""
    for one in opened[1:]:
        one.setblocking(False)
        with pytest.raises(BlockingIOError):
            one.recv(1)
    return opened


def test_connections_of_a_user(yard, users):
    greedy, other = users
    opened = fill_connections(lambda: connect(yard.daemon.socket, greedy.who["uid"]))
    assert is_answered(other) and is_answered(yard.root)
    for one in opened:
        one.close()


def test_connections_of_an_address(yard, users):
    opened = fill_connections(lambda: over_tcp(yard, "127.0.0.2"))
    with over_tcp(yard, "127.0.0.3") as other:
        other.sendall(b"GET /api/gpu/load HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert other.recv(12) == b"HTTP/1.1 200"
    assert is_answered(users[0])
    for one in opened:
        one.close()


def begins_with(client, head):
    client.sendall(STREAM)
    return client.recv(len(head)) == head


def fill_streams(open_one, open_other):
    opened = [open_one() for _ in range(SHARES["streams"])]
    assert all(begins_with(one, b"HTTP/1.1 200") for one in opened)
    opened.append(open_one())
    assert begins_with(opened[-1], b"HTTP/1.1 503")
    assert b"has 6 open streams" in opened[-1].recv(4096)
    opened.append(open_other())
    assert begins_with(opened[-1], b"HTTP/1.1 200")
    for one in opened:
        one.close()


def test_streams_of_a_user(yard, users):
    fill_streams(*(lambda caller=caller: connect(yard.daemon.socket, caller.who["uid"]) for caller in users))


def test_streams_of_an_address(yard):
    fill_streams(lambda: over_tcp(yard, "127.0.0.4"), lambda: over_tcp(yard, "127.0.0.5"))


def claim(caller, **wish):
    return caller.ask("POST", LEASES, {"binding": "detached", "ttl_s": 60, "answer_within_s": 0} | wish)


def release(caller, answers):
    for answer in answers:
        assert caller.ask("DELETE", f"{LEASES}/{answer.json()['lease']['id']}").status == 200


def test_claims_that_wait_and_claims_of_a_minute(yard, users):
    greedy, other = users
    held = [claim(other, answer_within_s=5) for _ in range(2)]
    assert [one.json()["lease"]["state"] for one in held] == ["held", "held"]
    waiting = [claim(greedy) for _ in range(SHARES["waiting_claims"])]
    assert [one.json()["lease"]["state"] for one in waiting] == ["waiting"] * len(waiting)
    assert_busy(claim(greedy), "the limit is 5 waiting claims per user")
    assert claim(other).json()["lease"]["state"] == "waiting"
    release(greedy, waiting)
    for _ in range(2 * SHARES["claims_a_minute"]):
        last = claim(greedy, wait_s=0)
        if last.status != 200:
            break
    assert_busy(last, "the limit is 20 claims per user per minute; try again in 3 s")
    assert claim(other, wait_s=0).status == 200 and claim(yard.root, wait_s=0).status == 200
    release(other, held)


def test_changes_of_a_minute(yard, users):
    greedy, other = users
    most = SHARES["changes_a_minute"]
    answers = [greedy.put("0", "power-limit", {"power_limit_mw": 300_000}) for _ in range(most + 1)]
    assert [one.status for one in answers[:-1]] == [200] * most
    assert_busy(answers[-1], "the limit is 10 changes per user per minute; try again in 6 s")
    assert greedy.delete("0", "power-limit").status == 200, "who gives up what he set is not kept from it"
    assert other.put("0", "power-limit", {"power_limit_mw": 400_000}).status == 200
    for _ in range(2 * most):
        assert yard.root.put("0", "power-limit", {"power_limit_mw": 500_000}).status == 200


@pytest.fixture
def narrow(tmp_path):
    """A daemon that may have few descriptors open: 18 connections at a listener, 16 of them for strangers."""
    program = tmp_path / "gpuyard"
    program.write_text(f'#!/bin/sh\nulimit -n {FEW_DESCRIPTORS}\nexec {PROGRAM} "$@"\n')
    program.chmod(0o755)
    world = World(tmp_path)
    yard = ControlYard(world, tmp_path, group=GROUP, program=str(program))
    try:
        yield yard.start()
    finally:
        yard.end()
        world.end()


def test_descriptor_shortage_keeps_root_and_driver_working(narrow):
    crowd = [connect(narrow.daemon.socket, 61101 + i % 3) for i in range(FEW_DESCRIPTORS)]
    newcomer = Caller(narrow.daemon.socket, 61104, groups=(100,))
    assert is_answered(newcomer), "whoever has most gives one up"
    assert is_answered(Caller(narrow.daemon.socket)), "a place is kept"
    before = narrow.daemon.driver_host()
    narrow.kill_host()
    wait_until(lambda: narrow.daemon.driver_host() not in (None, before), "another driver-host")
    wait_until(lambda: narrow.root.ask("GET", "/api/gpu/devices/0").json()["condition"] == "responsive", "the GPU again")
    assert narrow.root.ask("GET", "/api/gpu/alerts").json()["alerts"] == []
    newcomer.close()
    for one in crowd:
        one.close()
