"""The journal of control, which is in memory that outlives the daemon: what a daemon that is killed has
not committed to state.db yet is known to the next.
"""

import json
import subprocess

from control_proof import accepted, as_root, gone, limit
from program import PROGRAM, wait_until

pytestmark = as_root

NOTE = "changes of GPUs wait for state.db"


def journals(place):
    return sorted(place.glob("control-*.journal"))


def lines(yard):
    """The actions of the audit."""
    return [one["action"] for one in
            yard.root.ask("GET", "/api/gpu/manage/audit?limit=1000").json()["entries"]]


def killed_before_commit(yard, in_memory, watts):
    """A daemon that was killed right after its answer, before state.db had the change."""
    for attempt in range(10):
        yard.quiet_journal()
        before = yard.journal()
        accepted(yard.a.power(0, watts + attempt))
        yard.kill()
        if yard.journal() == before:  # not within 100 ms, unless the machine is busy
            assert journals(in_memory)
            return watts + attempt
        yard.start()
        yard.settled()
    raise AssertionError("state.db always had the change first")


def test_change_that_state_db_lacks_is_known_after_a_kill(control, in_memory):
    yard = control(runtime=in_memory)
    accepted(yard.a.power(0, 300))
    watts = killed_before_commit(yard, in_memory, 310)
    writes = yard.writes()
    assert writes[-1] == limit(watts)
    yard.start()
    assert yard.settled() == "applied"
    assert yard.writes() == writes
    assert lines(yard).count(f"set power_limit to {watts} W") == 1
    accepted(yard.a.delete(0, "power-limit"), "restored")
    assert yard.writes() == [*writes, limit(700)]
    yard.kill()  # and now what is gone stays gone
    yard.start()
    gone(yard)
    assert lines(yard).count(f"set power_limit to {watts} W") == 1


def test_daemon_and_setter_killed_before_the_driver_answers(control, world, in_memory):
    yard = control(runtime=in_memory)
    accepted(yard.a.power(0, 300))
    yard.quiet_journal()
    world.hang(0, "set_power_limit")
    asked = yard.a.power(0, 250, wait=False)
    wait_until(lambda: any(one["state"] == "running" for one in yard.root.ask(
        "GET", "/api/gpu/manage/operations").json()["operations"]), "the change to begin")
    yard.freeze()  # or it would see the end of the setter first, and answer
    yard.kill_setter()
    yard.kill()
    assert asked.result() is None
    world.heal(0)
    yard.start()
    assert yard.settled() == "applied"
    assert yard.writes() == [limit(300), limit(250)]


def test_daemon_without_control_takes_over_what_is_left(control, in_memory):
    yard = control(runtime=in_memory)
    watts = killed_before_commit(yard, in_memory, 300)
    enabled = yard.config.read_text()
    yard.config.write_text(enabled.replace("enabled = true", "enabled = false"))
    yard.start(wait=False).daemon.ready()
    assert yard.stop() == 0
    assert not journals(in_memory)
    yard.config.write_text(enabled)
    yard.start()
    assert yard.settled() == "applied"
    assert yard.writes()[-1] == limit(watts)


def test_place_on_a_disk_is_said_and_changes_wait_for_state_db(control, on_disk):
    yard = control(runtime=on_disk)
    assert NOTE in yard.daemon.log()
    assert any(NOTE in one for one in yard.daemon.get("/ready").json()["lacks"])
    doctor = subprocess.run([PROGRAM, "doctor", "--socket", yard.daemon.socket, "--json"], capture_output=True,
                            text=True, timeout=30)
    assert any(NOTE in one for one in json.loads(doctor.stdout)["daemon"]["lacks"])
    accepted(yard.a.power(0, 300))
    assert not journals(on_disk)
    assert yard.journal()[0], "the claim was not in state.db before the answer"
