"""A name service that is not responding delays names, and no answer."""

import os
import time

import pytest

import control_client
from program import wait_until
from shim import build_shim

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can be several users")

USERS = range(2001, 2007)
MOST = 2  # s; one lookup takes 8
HISTORY = "/api/gpu/devices/0/history?metric=power"


@pytest.fixture
def slow(daemon, world, tmp_path):
    """A daemon, and the file that makes its name service slow."""
    world.start("--gpus", "2", "--load", "idle")
    file = tmp_path / "slow"
    one = daemon(LD_PRELOAD=build_shim("slow_names.cpp", tmp_path), SLOW_NAMES=str(file),
                 GPUYARD_SIM_WORLD=str(world.directory))
    return one, file


def claim(socket, uid):
    caller = control_client.Caller(socket, uid)
    answer = caller.ask("POST", "/api/gpu/leases", {"binding": "detached", "ttl_s": 60, "wait_s": 0})
    caller.close()
    return answer.status


def answers_in_time(what, ask):
    began = time.monotonic()
    assert ask() == 200, what
    took = time.monotonic() - began
    assert took < MOST, f"{what} took {took:.1f} s"


def test_a_hanging_name_service_delays_no_answer(slow, opened):
    daemon, file = slow
    root = opened(control_client.Caller(daemon.socket))
    wait_until(lambda: claim(daemon.socket, 2000) == 200, "the GPUs")
    wait_until(lambda: root.ask("GET", HISTORY).status == 200, "the history")
    file.touch()
    for uid in USERS:  # whose names the daemon has not looked up yet
        answers_in_time(f"a claim of uid {uid}", lambda uid=uid: claim(daemon.socket, uid))
    end = time.monotonic() + 10
    while time.monotonic() < end:
        for path in ("/api/gpu/manage/audit", "/api/gpu/alerts/history", HISTORY,
                     "/api/gpu/leases", "/api/gpu/usage"):
            answers_in_time(path, lambda path=path: root.ask("GET", path).status)
        time.sleep(0.2)
    assert file.stat().st_size > 0, "the daemon looked up a name"
