"""All writes that reach the driver, in order, when a daemon or its setter is killed: inside an operation,
at any time. src/core/control/crash_test.cpp has the kill at each commit of each operation.
"""

import random
import time

import pytest

from control_proof import BASE, accepted, as_root, gone, limit, wanted_of
from program import wait_until

pytestmark = as_root


# The daemon is killed inside an operation. Each is stopped by a driver that does not answer, at the
# point that is named; what was set before it is in force, and then the next daemon starts.


def again(yard):
    return yard.a.power(0, 250, wait=False)


def restore(yard):
    return yard.a.delete(0, "power-limit", wait=False)


# name: what is in force before it, what it writes.
OPERATIONS = {
    "again": (again, [300], limit(250)),
    "restore": (restore, [300], limit(700)),
}


def noted_down(yard, before):
    """Waits until the disk has what the operation is about to write."""
    wait_until(lambda: yard.journal() not in (None, before), "the journal")


@pytest.mark.parametrize("name", OPERATIONS)
@pytest.mark.parametrize("point", ["writing", "written"])
def test_daemon_killed_inside_operation_finishes_after_restart(control, world, name, point):
    operate, before, write = OPERATIONS[name]
    yard = control()
    for watts in before:
        accepted(yard.a.power(0, watts))
    set_ = [limit(watts) for watts in before]
    journal = yard.quiet_journal()
    world.hang(0, "set_power_limit")
    asked = operate(yard)
    noted_down(yard, journal)
    if point == "written":  # and the daemon never gets the answer
        yard.freeze()
        world.heal(0)
        assert yard.wait_for_writes(len(set_) + 1) == [*set_, write]
    yard.kill()
    assert asked.result() is None
    world.heal(0)
    time.sleep(0.1)  # no call of the dead arrives late
    assert yard.writes() == ([*set_, write] if point == "written" else set_)
    yard.start()
    yard.settled()
    assert yard.wait_for_writes(len(set_) + 1) == [*set_, write]
    yard.kill()
    yard.start()
    yard.settled()
    assert yard.writes() == [*set_, write]
    if name == "restore":
        return
    accepted(yard.root.restore_all("0", force=True))
    assert yard.writes() == [*set_, write, limit(700)]
    gone(yard)


def test_daemon_killed_between_two_gpus_finishes_both(control, world):
    yard = control()
    world.hang(1, "set_power_limit")
    asked = yard.a.power("all", 300, wait=False, atomic=True)
    yard.wait_for_writes(1)
    wait_until(lambda: len({row[0] for row in yard.journal() or []}) == 2, "both to be noted down")
    yard.kill()
    assert asked.result() is None
    world.heal(1)
    yard.start()
    assert yard.settled(0) == yard.settled(1) == "applied"
    assert yard.writes() == [limit(300), limit(300, 1)]


@pytest.mark.parametrize("point", ["writing", "written"])
def test_setter_killed_during_write_fails_and_rolls_back(control, world, point):
    yard = control()
    accepted(yard.a.power(0, 300))
    journal = yard.quiet_journal()
    world.hang(0, "set_power_limit")
    asked = yard.a.power(0, 250, wait=False)
    noted_down(yard, journal)
    if point == "written":
        yard.freeze()
        world.heal(0)
        yard.wait_for_writes(2)
    yard.kill_setter()
    world.heal(0)
    yard.thaw()
    answer = asked.result()
    arrived = [limit(250)] if point == "written" else []
    if answer.status == 200:  # the answer came before the end of the one who gave it
        assert point == "written"
        assert yard.writes() == [limit(300), limit(250)]
    else:
        assert "GPU management task for GPU 0 terminated" in answer.text
        back = [limit(300)] if arrived else []
        yard.settled()
        assert yard.wait_for_writes(1 + len(arrived + back)) == [limit(300), *arrived, *back]


# Killed at any time.


@pytest.mark.parametrize("seed", range(3))
def test_kill_at_random_time_keeps_acknowledged_settings(control, in_memory, seed):
    chance = random.Random(seed)
    yard = control(runtime=in_memory if seed % 2 else None)
    callers = [yard.a, yard.b, yard.root]
    promised = {}  # (owner, gpu): the acknowledged value; absent: none
    doubtful = set()  # those whose last request was not answered
    asked_for = {BASE}
    for _ in range(chance.randrange(2, 5)):
        deadline = time.monotonic() + chance.uniform(0.02, 0.4)
        pending = []
        while time.monotonic() < deadline:
            caller, gpu = chance.choice(callers), chance.randrange(2)
            key = (caller.owner(), gpu)
            if any(one.caller is caller and one.answer is None and one.is_alive() for _, _, one in pending):
                continue
            watts = chance.randrange(200, 700) if chance.random() < 0.7 else None
            if watts is not None:
                asked_for.add(watts * 1000)
            pending.append((key, watts, caller.power(gpu, watts, wait=False) if watts is not None else
                            caller.delete(gpu, "power-limit", wait=False)))
            time.sleep(chance.choice((0, 0, 0.002, 0.01)))  # however many are under way: that is tested
        yard.kill()
        for key, watts, one in pending:
            answer = one.result()
            if answer is None:
                doubtful.add(key)
            else:
                doubtful.discard(key)
                if watts is not None and answer.status == 200:
                    promised[key] = watts * 1000
                elif watts is None and answer.status == 200:
                    promised.pop(key, None)
        yard.start()
        for gpu in (0, 1):
            yard.settled(gpu)
            wanted, found = wanted_of(yard, gpu)
            assert wanted == found
            claims = {claim["owner"]: claim["wanted"]["power_limit_mw"]
                      for claim in yard.root.managed(gpu)["claims"]}
            for caller in callers:
                key = (caller.owner(), gpu)
                if key not in doubtful:
                    assert claims.get(key[0]) == promised.get(key), key
                elif key[0] in claims:
                    promised[key] = claims[key[0]]
                else:
                    promised.pop(key, None)
                doubtful.discard(key)
    assert {value for _, _, value in yard.writes()} <= asked_for
    yard.root.restore_all(force=True)
    assert [wanted_of(yard, gpu) for gpu in (0, 1)] == [(BASE, BASE)] * 2
    gone(yard, 0)
    gone(yard, 1)
