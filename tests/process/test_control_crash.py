"""What reaches the driver, to the last write and in order: through every way in which a setting begins
and ends, and whatever is killed meanwhile. The driver's own log is the witness (`gpuyard sim status`,
`writes`), never what the daemon says of itself.
"""

import grp
import os
import random
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from conftest import PROGRAM, wait_until
from control_yard import ControlYard
from nvml_client import Client
from sim_world import world  # noqa: F401

BASE = 700000  # an H100's own power limit, mW
GROUP = grp.getgrgid(100).gr_name  # some group, whose members may control

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can ask as other users")


def limit(watts, gpu=0):
    return (gpu, "power_limit", round(watts * 1000))


@pytest.fixture
def control(world, tmp_path):
    """Yards: control() has a daemon that may control two idle H100s; a and b are users of its group."""
    made = []

    def make(*world_arguments, start=True, **options):
        yard = ControlYard(world, tmp_path, *world_arguments, group=GROUP, **options)
        made.append(yard)
        yard.a = yard.caller(1000, groups=(100,))
        yard.b = yard.caller(1001, groups=(100,))
        return yard.start() if start else yard

    yield make
    for yard in made:
        yard.end()


def accepted(answer, outcome=None):
    assert answer.status == 200, answer.text
    if outcome:
        assert answer.outcomes() == [outcome]
    return answer


def gone(yard, gpu=0):
    """The next daemon knows of nothing that it would have to put back."""
    assert yard.root.standing(gpu) == "free"
    writes = yard.writes()
    yard.kill()
    yard.start()
    assert yard.root.standing(gpu) == "free"
    assert yard.writes() == writes


def wanted_of(yard, gpu):
    """The lowest of the claims, as the daemon tells them, and the limit that the driver has."""
    managed = yard.root.managed(gpu)
    wanted = [claim["wanted"]["power_limit_mw"] for claim in managed["claims"]]
    return min(wanted, default=BASE), round(yard.world.gpu(gpu)["power_limit_w"] * 1000)


# Nothing is killed.

def test_one_owner_sets_sets_again_and_restores(control, record_property):
    record_property("contract", "B15")
    yard = control()
    accepted(yard.a.power(0, 300), "applied")
    accepted(yard.a.power(0, 250), "applied")
    accepted(yard.a.delete(0, "power-limit"), "restored")
    assert yard.writes() == [limit(300), limit(250), limit(700)]
    gone(yard)


def test_of_two_owners_the_lowest_is_in_force_and_the_last_restores_the_baseline(control):
    yard = control()
    accepted(yard.a.power(0, 300), "applied")
    accepted(yard.b.power(0, 400), "held")
    accepted(yard.a.power(0, 500), "held")  # now b's is the lower one
    accepted(yard.b.power(0, 200), "applied")
    accepted(yard.b.delete(0, "power-limit"), "restored")
    accepted(yard.a.delete(0, "power-limit"), "restored")
    assert yard.writes() == [limit(300), limit(400), limit(200), limit(500), limit(700)]
    gone(yard)


def test_a_setting_ends_with_its_time(control):
    yard = control()
    accepted(yard.a.power(0, 300, for_s=0.5), "applied")
    assert yard.wait_for_writes(2) == [limit(300), limit(700)]
    gone(yard)


def test_of_two_owners_the_one_whose_time_is_over_counts_no_more(control):
    yard = control()
    accepted(yard.a.power(0, 400), "applied")
    accepted(yard.b.power(0, 300, for_s=0.5), "applied")
    assert yard.wait_for_writes(3) == [limit(400), limit(300), limit(400)]
    accepted(yard.a.delete(0, "power-limit"), "restored")
    assert yard.writes()[3:] == [limit(700)]


def test_what_cannot_be_read_back_is_reset_not_guessed(control):
    yard = control()
    accepted(yard.a.clocks(0, 600, 1200), "assumed")
    accepted(yard.a.delete(0, "gpu-clocks"), "restored")
    assert yard.writes() == [(0, "gpu_locked_clocks", 600, 1200), (0, "gpu_locked_clocks_reset")]


def test_every_setting_is_written_once_and_put_back_once(control, record_property):
    record_property("contract", "E14")
    yard = control()
    for what, body, there, back in (
            ("power-limit", {"power_limit_mw": 300000}, ("power_limit", 300000), ("power_limit", BASE)),
            ("gpu-clocks", {"min_clock_mhz": 600, "max_clock_mhz": 1200},
             ("gpu_locked_clocks", 600, 1200), ("gpu_locked_clocks_reset",)),
            ("memory-clocks", {"min_clock_mhz": 2619, "max_clock_mhz": 2619},
             ("memory_locked_clocks", 2619, 2619), ("memory_locked_clocks_reset",)),
            ("persistence", {"enabled": True}, ("persistence_mode", 1), ("persistence_mode", 0)),
            ("compute-mode", {"compute_mode": "exclusive_process"}, ("compute_mode", 3),
             ("compute_mode", 0)),
            ("ecc", {"enabled": False}, ("ecc_mode", 0), ("ecc_mode", 1))):
        begun = yard.world.write_count()
        accepted(yard.a.put(1, what, body))
        accepted(yard.a.delete(1, what))
        assert yard.writes(after=begun) == [(1, *there), (1, *back)], what
    begun = yard.world.write_count()
    accepted(yard.a.ask("POST", "/api/gpu/manage/1/clear-ecc", {"counter": "volatile"}), "cleared")
    assert yard.writes(after=begun) == [(1, "clear_ecc_counters", 0)]
    gone(yard, 1)


def test_what_the_driver_does_not_permit_is_tried_once_and_not_wanted_any_more(control, record_property):
    record_property("contract", "B17")
    yard = control("--gpus", "2", "--load", "idle", "--setters", "nobody")
    refused = yard.a.power(0, 300)
    assert (refused.status, refused.error()) == (403, "denied"), refused.text
    assert yard.writes(ok_only=False) == [(*limit(300), "code 4")]
    gone(yard)


def test_what_somebody_else_wrote_is_left_alone(control, world):
    yard = control()
    accepted(yard.a.power(0, 300), "applied")
    somebody = Client(world.environment)
    try:
        assert somebody.code("init") == 0
        assert somebody.code("set_limit", somebody.value("gpu", 0), 420000) == 0
    finally:
        somebody.end()
    accepted(yard.a.delete(0, "power-limit"), "drifted")
    assert yard.writes() == [limit(300), limit(420)]
    assert world.gpu(0)["power_limit_w"] == 420
    gone(yard)


def test_what_is_refused_never_reaches_the_driver(control, world):
    yard = control()
    assert yard.a.power(0, 10_000).status == 400
    assert yard.a.power(7, 300).status == 404
    assert yard.a.power(0, 300, for_s=-1).status == 400
    assert yard.a.ask("PUT", "/api/gpu/manage/0/power-limit", raw="{").status == 400
    assert yard.caller(1002).power(0, 300).status == 403  # not of the group
    accepted(yard.a.clocks(0, 600, 1200))
    assert yard.b.clocks(0, 600, 900).status == 409
    assert yard.b.clocks(0, 600, 900, force=True).status == 403
    assert accepted(yard.a.power(0, 300, dry_run=True)).outcomes() == ["planned"]
    assert yard.writes(ok_only=False) == [(0, "gpu_locked_clocks", 600, 1200)]


# Daemons, driver-hosts and drivers come and go.

@pytest.mark.parametrize("on_stop, at_stop, at_start", [
    ("keep", [], []), ("restore", [limit(700), (0, "gpu_locked_clocks_reset")],
                       [limit(300), (0, "gpu_locked_clocks", 600, 1200)])])
def test_a_daemon_that_ends_keeps_or_restores_and_the_next_one_goes_on(control, on_stop, at_stop, at_start):
    yard = control(on_stop=on_stop)
    accepted(yard.a.power(0, 300))
    accepted(yard.a.clocks(0, 600, 1200))
    set_ = yard.writes()
    assert set_ == [limit(300), (0, "gpu_locked_clocks", 600, 1200)]
    assert yard.stop() == 0
    assert sorted(yard.writes()[2:]) == sorted(at_stop)
    yard.start()
    yard.settled()
    # What cannot be read back is written again: nobody knows whether it is still there.
    again = at_start or [(0, "gpu_locked_clocks", 600, 1200)]
    assert sorted(yard.wait_for_writes(2 + len(at_stop) + len(again))[2 + len(at_stop):]) == sorted(again)
    accepted(yard.a.delete(0, "power-limit"), "restored")
    assert yard.writes()[-1] == limit(700)


def test_another_session_of_the_driver_gets_what_is_wanted(control, world):
    yard = control()
    accepted(yard.a.power(0, 300))
    accepted(yard.b.power(0, 400))
    world.reload_driver()
    assert yard.wait_for_writes(4) == [limit(300), (None, "driver_unloaded"), (None, "driver_loaded", 2),
                                       limit(300)]
    yard.settled()
    accepted(yard.a.delete(0, "power-limit"), "restored")
    accepted(yard.b.delete(0, "power-limit"), "restored")
    assert yard.writes()[4:] == [limit(400), limit(700)]


def test_what_was_given_up_while_the_driver_was_away_is_not_put_into_the_next_one(control, world):
    yard = control()
    accepted(yard.a.power(0, 300, for_s=1))
    world.unload_driver()
    time.sleep(1.2)  # its time passes
    world.load_driver()
    wait_until(lambda: yard.root.standing(0) == "free", "nothing to be wanted")
    assert yard.writes() == [limit(300), (None, "driver_unloaded"), (None, "driver_loaded", 2)]


def test_a_reset_comes_between_what_was_set_and_what_is_set_again(control):
    yard = control(reset_command=[os.path.abspath(PROGRAM), "sim", "reset", "--as-driver", "--gpu",
                                  "{uuid}"])
    accepted(yard.a.power(1, 300))
    accepted(yard.b.power(0, 400))
    accepted(yard.root.reset(1), "reset")
    assert yard.wait_for_writes(4) == [limit(300, 1), limit(400), (1, "reset"), limit(300, 1)]
    yard.settled(1)
    accepted(yard.a.delete(1, "power-limit"), "restored")
    accepted(yard.b.delete(0, "power-limit"), "restored")
    assert yard.writes()[4:] == [limit(700, 1), limit(700)]


def resetting(script="", before=""):
    """A reset command that says what it does, and resets as a driver would."""
    return ["/bin/sh", "-c", f"{before} '{os.path.abspath(PROGRAM)}' sim reset --as-driver --gpu $0 {script}",
            "{uuid}"]


def test_a_reset_that_fails_changes_nothing_and_says_why(control):
    yard = control(reset_command=["/bin/sh", "-c", "echo no spare parts; exit 3"])
    accepted(yard.a.power(0, 300))
    failed = yard.root.reset(0)
    assert failed.status == 500 and "exited with status 3" in failed.text
    assert "no spare parts" in failed.text
    assert yard.settled() == "applied"
    assert yard.writes() == [limit(300)]


def test_a_reset_that_takes_too_long_is_ended_and_the_gpus_come_back(control):
    yard = control(reset_command=resetting(before="sleep 60;"), reset_timeout_s=1)
    accepted(yard.a.power(0, 300))
    failed = yard.root.reset(0)
    assert failed.status == 500 and "was ended after 1." in failed.text
    assert yard.settled() == "applied"
    assert yard.writes(ok_only=False) == [limit(300)]


def test_a_lost_gpu_that_is_reset_gets_what_is_wanted(control, world):
    yard = control(reset_command=resetting())
    accepted(yard.a.power(0, 300))
    world.lose(0)
    wait_until(lambda: yard.daemon.get("/api/gpu/devices/0").json()["condition"] == "unavailable",
               "the loss to be seen")
    accepted(yard.root.reset(0), "reset")
    assert yard.wait_for_writes(3) == [limit(300), (0, "reset"), limit(300)]
    assert yard.settled() == "applied"
    accepted(yard.a.delete(0, "power-limit"), "restored")


def test_killed_inside_a_reset_the_gpus_are_there_again(control, tmp_path):
    going = tmp_path / "going"
    yard = control(reset_command=resetting(before=f"touch {going}; sleep 1;"))
    accepted(yard.a.power(0, 300))
    asked = yard.root.reset(0, wait=False)
    wait_until(going.exists, "the reset command")
    yard.kill()
    assert asked.result() is None
    yard.start()
    assert yard.settled() == "applied"
    # The command of the dead goes on, and finds that somebody has the driver open.
    assert wait_until(lambda: yard.writes(ok_only=False)[1:], "the command") == [(0, "reset", "code 19")]
    assert yard.settled() == "applied"
    assert yard.writes() == [limit(300)]


def test_a_killed_driver_host_loses_nothing(control):
    yard = control()
    accepted(yard.a.power(0, 300))
    accepted(yard.a.clocks(0, 600, 1200))
    host = yard.daemon.driver_host()
    yard.kill_host()
    wait_until(lambda: yard.daemon.driver_host() not in (None, host), "another driver-host")
    assert yard.wait_for_writes(3)[2:] == [(0, "gpu_locked_clocks", 600, 1200)]
    yard.settled()
    accepted(yard.a.delete(0, "gpu-clocks"), "restored")
    accepted(yard.a.delete(0, "power-limit"), "restored")
    assert yard.writes()[3:] == [(0, "gpu_locked_clocks_reset"), limit(700)]


def test_a_setting_whose_time_is_over_while_no_daemon_runs_is_restored_by_the_next(control):
    yard = control()
    accepted(yard.a.power(0, 300, for_s=1))
    yard.kill()
    time.sleep(1.2)  # its time passes
    assert yard.writes() == [limit(300)]
    yard.start()
    assert yard.wait_for_writes(2) == [limit(300), limit(700)]
    gone(yard)


def test_what_somebody_else_wrote_while_no_daemon_ran_is_left_alone(control, world):
    yard = control()
    accepted(yard.a.power(0, 300))
    yard.kill()
    somebody = Client(world.environment)
    try:
        assert somebody.code("init") == 0
        assert somebody.code("set_limit", somebody.value("gpu", 0), 420000) == 0
    finally:
        somebody.end()
    yard.start()
    wait_until(lambda: yard.root.standing(0) == "drifted", "the drift to be seen")
    accepted(yard.a.delete(0, "power-limit"), "drifted")
    assert yard.writes() == [limit(300), limit(420)]


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
def test_killed_inside_an_operation_the_next_daemon_ends_it(control, world, name, point, record_property):
    record_property("contract", "B8")
    operate, before, write = OPERATIONS[name]
    yard = control()
    for watts in before:
        accepted(yard.a.power(0, watts))
    set_ = [limit(watts) for watts in before]
    journal = yard.journal()
    world.hang(0, "set_power_limit")
    asked = operate(yard)
    noted_down(yard, journal)
    if point == "written":  # and the daemon never hears of it
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
def test_killed_while_it_puts_everything_back_the_next_daemon_sets_it_again(control, world, point):
    yard = control(on_stop="restore")
    accepted(yard.a.power(0, 300))
    journal = yard.journal()
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


def test_killed_between_two_gpus_of_one_request_both_are_done(control, world):
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
def test_killed_while_a_setting_ends_by_itself_the_next_daemon_ends_it(control, world, point):
    yard = control()
    accepted(yard.a.power(0, 300, for_s=1))
    world.hang(0, "set_power_limit")
    noted_down(yard, yard.journal())
    if point == "written":
        yard.freeze()
        world.heal(0)
        assert yard.wait_for_writes(2) == [limit(300), limit(700)]
    yard.kill()
    world.heal(0)
    yard.start()
    assert yard.wait_for_writes(2) == [limit(300), limit(700)]
    gone(yard)


def test_killed_before_it_is_known_what_there_was_nothing_is_written_and_nothing_wanted(control, world):
    yard = control()
    world.hang(0, "power_limits")
    asked = yard.a.power(0, 300, wait=False)
    time.sleep(0.3)  # into the look
    yard.kill()
    assert asked.result() is None
    world.heal(0)
    yard.start()
    assert yard.root.standing(0) == "free"
    assert yard.writes() == []


@pytest.mark.parametrize("point", ["writing", "written"])
def test_a_driver_host_killed_inside_a_write_fails_it_and_takes_it_back(control, world, point):
    yard = control()
    accepted(yard.a.power(0, 300))
    journal = yard.journal()
    world.hang(0, "set_power_limit")
    asked = yard.a.power(0, 250, wait=False)
    noted_down(yard, journal)
    if point == "written":
        yard.freeze()
        world.heal(0)
        yard.wait_for_writes(2)
    yard.kill_host()
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


# The daemon is killed at each write to its journal, by a library that is loaded into it.

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
    """What reached the driver when the daemon was killed at that write to its journal within the
    operation, and what the next daemon added; None if the operation has fewer."""
    operate, before, _ = OPERATIONS[name]
    fatal = yard.directory / "fatal_write"
    fatal.unlink(missing_ok=True)
    yard.start(LD_PRELOAD=library, FATAL_WRITE=str(fatal))
    for watts in before:
        accepted(yard.a.power(0, watts))
    yard.settled()
    yard.wait_for_quiet_journal()
    begun = yard.world.write_count()
    fatal.write_text(str(number))
    answer = operate(yard).result()
    try:  # it may be killed at what follows the answer
        yard.daemon.process.wait(0.3)
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
    if answer is not None:  # who was told yes has it
        assert accepted(answer) and len(after) == 1
    yard.root.restore_all("0", force=True)
    assert wanted_of(yard, 0) == (BASE, BASE)
    yard.stop()
    return at_kill, after


@pytest.mark.parametrize("name", OPERATIONS)
def test_killed_at_each_write_to_its_journal_it_is_done_or_not_and_never_half(control, fatal_writes, name):
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

@pytest.mark.parametrize("seed", range(12))
def test_killed_at_any_time_the_next_daemon_knows_what_is_wanted(control, seed):
    chance = random.Random(seed)
    yard = control()
    callers = [yard.a, yard.b, yard.root]
    promised = {}  # (owner, gpu): what it was told to have; absent: nothing
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
            time.sleep(chance.choice((0, 0, 0.002, 0.01)))
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
