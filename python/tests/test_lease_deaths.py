"""Deaths of the daemon, of the leased program and of its children."""

import os
import random
import time

import pytest

import gpuyard


def test_lease_survives_daemon_crash_and_restart(make_ground, monkeypatch):
    ground = make_ground(gpus=2)
    monkeypatch.setenv("GPUYARD_SOCKET", ground.socket)
    with gpuyard.lease(1) as lease:
        fence, uuids = lease.fence, lease.uuids
        ground.kill()
        with pytest.raises(gpuyard.Unavailable):
            lease.refresh()
        assert os.environ["CUDA_VISIBLE_DEVICES"] == uuids[0]
        ground.start()
        assert lease.refresh().state == "held"
        assert (lease.fence, lease.uuids) == (fence, uuids)
        (held,) = ground.leases()
        assert held["pid"] == os.getpid()
    ground.wait_until_free()


def test_block_end_without_daemon_only_warns(make_ground, monkeypatch):
    ground = make_ground(gpus=1)
    monkeypatch.setenv("GPUYARD_SOCKET", ground.socket)
    monkeypatch.setattr("gpuyard.lease_context.LEAVES_WITHIN", 0.5)
    with pytest.warns(RuntimeWarning, match="could not be released"):
        with gpuyard.lease(1):
            ground.kill()
    assert "CUDA_VISIBLE_DEVICES" not in os.environ


def test_forked_child_lease_handle_is_unusable(make_ground, monkeypatch):
    ground = make_ground(gpus=2)
    monkeypatch.setenv("GPUYARD_SOCKET", ground.socket)
    program = ground.program("""
import os, sys, gpuyard
lease = gpuyard.lease(1)
with lease:
    child = os.fork()
    if child == 0:
        print(os.environ["CUDA_VISIBLE_DEVICES"], flush=True)
        for ask in (lease.release, lease.refresh, lambda: lease.gpus):
            try:
                ask()
                print("asked", flush=True)
            except gpuyard.Conflict as error:
                print(error, flush=True)
    else:
        os.waitpid(child, 0)
        print("parent", lease.refresh().state, *lease.uuids, flush=True)
if child == 0:
    print("left the block", flush=True)   # which gives nothing back
    os._exit(0)
""")
    lines = program.communicate(timeout=60)[0].splitlines()
    visible, *said, left, parent = lines
    assert len(said) == 3 and all(f"to process {program.pid}" in line for line in said), lines
    assert left == "left the block"
    assert parent == f"parent held {visible}", lines
    ground.wait_until_free()


def test_a_childs_own_yard_works_after_a_fork(make_ground):
    ground = make_ground(gpus=2)
    yard = gpuyard.Client("unix://" + ground.socket)
    with yard.lease(1):
        child = os.fork()
        if child == 0:
            code = 1
            try:
                with yard.lease(1, wait=20) as own:
                    code = 0 if own.record.pid == os.getpid() else 2
            finally:
                os._exit(code)
        assert os.waitpid(child, 0)[1] == 0


WORKER = """
import fcntl, os, sys, time, gpuyard
place = sys.argv[1]
with gpuyard.lease(1, wait="5m") as lease:
    # The kernel lets this lock go when the process dies, however it dies: who cannot have it has a
    # GPU that another process still has.
    lock = open(f"{place}/{lease.uuids[0]}", "w")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        print("TWICE", lease.uuids[0], flush=True)
        sys.exit(1)
    print("held", lease.uuids[0], flush=True)
    time.sleep(600)
"""


@pytest.mark.seconds(1500)
def test_killed_programs_leave_no_gpu_leased(make_ground, record_property):
    """GPUYARD_KILLS=100 for more. Killed at a random moment: before, in and after the claim."""
    record_property("contract", "Y2")
    kills = int(os.environ.get("GPUYARD_KILLS", "8"))
    ground = make_ground(gpus=2)
    chance = random.Random(os.environ.get("GPUYARD_SEED", "1"))
    running, said = [], []
    for _ in range(kills):
        while len(running) < 4:
            running.append(ground.program(WORKER, ground.place))
        time.sleep(chance.choice([0.02, 0.1, 0.2, 0.4, 0.6]) * chance.random() * 2)
        victim = running.pop(chance.randrange(len(running)))
        victim.kill()
        said.append(victim.communicate()[0])
    died = time.monotonic()
    for one in running:
        one.kill()
        said.append(one.communicate()[0])
    ground.wait_until_free()
    free_after = time.monotonic() - died
    record_property("kills", kills)
    record_property("held when killed", sum("held" in words for words in said))
    print(f"{kills} kills, {sum('held' in words for words in said)} of them while a GPU was held; "
          f"all GPUs were free {free_after:.1f} s after the last")
    assert not any("TWICE" in words for words in said)
    assert any("held" in words for words in said)
    assert free_after < 5
