"""All writes that reach the driver, in order, when a daemon or its setter is killed: inside
each operation, at each write to its database, at any time.
"""

import random
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from control_proof import BASE, accepted, as_root, gone, limit, wanted_of
from program import PROGRAM, wait_until

pytestmark = as_root


# The daemon is killed inside an operation. Each is stopped by a driver that does not answer, at the
# point that is named; what was set before it is in force, and then the next daemon starts.

def first(yard):
    return yard.a.power(0, 300, wait=False)


def again(yard):
    return yard.a.power(0, 250, wait=False)


def lower(yard):
    return yard.b.power(0, 200, wait=False)


def restore(yard):
    return yard.a.delete(0, "power-limit", wait=False)


def force(yard):
    return yard.root.power(0, 350, wait=False, force=True)


# name: what is in force before it, what it writes.
OPERATIONS = {
    "first": (first, [], limit(300)),
    "again": (again, [300], limit(250)),
    "lower": (lower, [300], limit(200)),
    "restore": (restore, [300], limit(700)),
    "force": (force, [300], limit(350)),
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


@pytest.mark.parametrize("point", ["writing", "written"])
def test_kill_during_restore_on_stop_reapplies_setting(control, world, point):
    yard = control(on_stop="restore")
    accepted(yard.a.power(0, 300))
    journal = yard.quiet_journal()
    world.hang(0, "set_power_limit")
    yard.daemon.process.terminate()
    noted_down(yard, journal)
    if point == "written":
        yard.freeze()
        world.heal(0)
        assert yard.wait_for_writes(2) == [limit(300), limit(700)]
    yard.kill()
    world.heal(0)
    yard.start()
    set_ = [limit(300)] if point == "writing" else [limit(300), limit(700), limit(300)]
    assert yard.wait_for_writes(len(set_)) == set_
    assert yard.settled() == "applied"
    accepted(yard.a.delete(0, "power-limit"), "restored")
    assert yard.writes() == [*set_, limit(700)]


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
def test_kill_during_expiry_restores_after_restart(control, world, point):
    yard = control()
    accepted(yard.a.power(0, 300, for_s=3))
    world.hang(0, "set_power_limit")
    noted_down(yard, yard.quiet_journal())
    if point == "written":
        yard.freeze()
        world.heal(0)
        assert yard.wait_for_writes(2) == [limit(300), limit(700)]
    yard.kill()
    world.heal(0)
    yard.start()
    assert yard.wait_for_writes(2) == [limit(300), limit(700)]
    gone(yard)


def test_kill_before_baseline_read_writes_no_setting(control, world):
    yard = control()
    world.hang(0, "power_limits")
    asked = yard.a.power(0, 300, wait=False)
    operations = "/api/gpu/manage/operations"
    wait_until(lambda: any(one["state"] == "running" for one
                           in yard.daemon.get(operations).json()["operations"]), "the look at what there is")
    yard.kill()
    assert asked.result() is None
    world.heal(0)
    yard.start()
    assert yard.root.standing(0) == "free"
    assert yard.writes() == []


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


# The daemon is killed at each write to its database, by a library that is loaded into it.

@pytest.fixture(scope="module")
def fatal_writes(tmp_path_factory):
    if not shutil.which("g++"):
        pytest.skip("the library that kills needs g++")
    program = Path(PROGRAM).read_bytes()
    if b"__asan_init" in program or b"__tsan_init" in program:
        pytest.skip("a sanitizer's functions come before those of any library")
    library = tmp_path_factory.mktemp("fatal") / "fatal_write.so"
    subprocess.run(["g++", "-shared", "-fPIC", "-o", str(library),
                    str(Path(__file__).parent / "fatal_write.cpp")], check=True, timeout=120)
    return str(library)


def killed_at(yard, library, number, name):
    """The writes that reached the driver when the daemon was killed at that write to its database within
    the operation, and those of the next daemon; None if the operation has fewer."""
    operate, before, _ = OPERATIONS[name]
    fatal = yard.directory / "fatal_write"
    fatal.unlink(missing_ok=True)
    yard.start(LD_PRELOAD=library, FATAL_WRITE=str(fatal))
    for watts in before:
        accepted(yard.a.power(0, watts))
    yard.settled()
    yard.quiet_journal()
    begun = yard.world.write_count()
    fatal.write_text(str(number))
    answer = operate(yard).result()
    try:  # it may be killed at what follows the answer
        yard.daemon.process.wait(0.5)
    except subprocess.TimeoutExpired:
        yard.kill()
        return None
    at_kill = yard.writes(after=begun)
    yard.kill()
    yard.start()
    yard.settled()
    wanted, found = wanted_of(yard, 0)
    assert wanted == found
    after = yard.writes(after=begun)
    assert after[:len(at_kill)] == at_kill
    if answer is not None:  # an acknowledged claim is there
        assert accepted(answer) and len(after) == 1
    yard.root.restore_all("0", force=True)
    assert wanted_of(yard, 0) == (BASE, BASE)
    yard.stop()
    return at_kill, after


@pytest.mark.parametrize("name", ["first", "restore"])
def test_kill_at_database_write_leaves_no_partial_change(control, fatal_writes, name):
    write = OPERATIONS[name][2]
    yard = control(start=False)
    rows = []
    while (row := killed_at(yard, fatal_writes, len(rows) + 1, name)) is not None:
        rows.append(row)
        assert len(rows) < 60
    assert len(rows) >= 2, "the daemon was not killed at all"
    # Nothing is written that is not noted down; what is noted down is written, once.
    assert all(at_kill in ([], [write]) and after in ([], [write]) for at_kill, after in rows)
    assert rows[0] == ([], [])
    assert rows[-1] == ([write], [write])


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
