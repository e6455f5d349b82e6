"""All writes that reach the driver, in order, while daemons, driver-hosts and drivers come and
go, and GPUs are reset.
"""

import time

import pytest

from control_proof import accepted, as_root, limit, resetting
from program import PATIENCE, wait_until

pytestmark = as_root


def operations(yard):
    """The number of changes that the daemon has accepted so far."""
    return len(yard.daemon.get("/api/gpu/manage/operations").json()["operations"])


@pytest.mark.parametrize("on_stop, at_stop, at_start", [
    ("keep", [], []), ("restore", [limit(700), (0, "gpu_locked_clocks_reset")],
                       [limit(300), (0, "gpu_locked_clocks", 600, 1200)])])
def test_daemon_stop_keeps_or_restores_settings_as_configured(control, on_stop, at_stop, at_start):
    yard = control(on_stop=on_stop)
    accepted(yard.a.power(0, 300))
    accepted(yard.a.clocks(0, 600, 1200))
    set_ = yard.writes()
    assert set_ == [limit(300), (0, "gpu_locked_clocks", 600, 1200)]
    assert yard.stop() == 0
    assert sorted(yard.writes()[2:]) == sorted(at_stop)
    yard.start()
    yard.settled()
    # A value that cannot be read back is written again: it may have been lost.
    again = at_start or [(0, "gpu_locked_clocks", 600, 1200)]
    assert sorted(yard.wait_for_writes(2 + len(at_stop) + len(again))[2 + len(at_stop):]) == sorted(again)
    accepted(yard.a.delete(0, "power-limit"), "restored")
    assert yard.writes()[-1] == limit(700)


def test_queued_changes_complete_before_daemon_stops(control, world, record_property):
    record_property("contract", "B8")
    yard = control()
    world.slow(0, "set_power_limit", 100)
    before = operations(yard)
    waiting = [yard.a.power(0, 500, wait=False), yard.b.power(0, 400, wait=False),
               yard.root.power(0, 300, wait=False)]
    wait_until(lambda: operations(yard) == before + 3, "all to be taken")
    yard.daemon.process.terminate()
    assert [one.result().status for one in waiting] == [200] * 3
    assert yard.daemon.process.wait(PATIENCE) == 0
    written = yard.writes()
    assert written == sorted(written, key=lambda write: -write[2])  # each lower than the one before
    assert written[-1] == limit(300)


def test_stop_fails_changes_queued_for_hanging_gpu(control, world, record_property):
    record_property("contract", "B8 B12")
    yard = control()
    accepted(yard.a.power(1, 300))
    world.hang(0, "set_power_limit")
    before = operations(yard)
    waiting = [yard.a.power(0, 500, wait=False), yard.b.power(0, 400, wait=False)]
    wait_until(lambda: operations(yard) == before + 2, "all to be taken")
    began = time.monotonic()
    yard.daemon.process.terminate()
    for one in waiting:
        answer = one.result()
        assert answer.status == 503 and "GPU management task for GPU 0 terminated" in answer.text
    assert yard.daemon.process.wait(PATIENCE) == 0
    assert time.monotonic() - began < 5
    world.heal(0)
    time.sleep(0.1)  # no call of the dead arrives late
    assert yard.writes() == [limit(300, 1)]


def test_driver_reload_reapplies_effective_setting(control, world):
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


def test_reset_timeout_kills_command_and_keeps_settings(control):
    yard = control(reset_command=resetting(before="sleep 60;"), reset_timeout_s=1)
    accepted(yard.a.power(0, 300))
    failed = yard.root.reset(0)
    assert failed.status == 500 and "was stopped after 1." in failed.text
    assert yard.settled() == "applied"
    assert yard.writes(ok_only=False) == [limit(300)]


def test_lost_gpu_gets_setting_back_after_reset(control, world):
    yard = control(reset_command=resetting())
    accepted(yard.a.power(0, 300))
    world.lose(0)
    wait_until(lambda: yard.daemon.get("/api/gpu/devices/0").json()["condition"] == "unavailable",
               "the loss to be seen")
    accepted(yard.root.reset(0), "reset")
    assert yard.wait_for_writes(3) == [limit(300), (0, "reset"), limit(300)]
    assert yard.settled() == "applied"
    accepted(yard.a.delete(0, "power-limit"), "restored")


def test_gpus_return_after_kill_inside_reset(control, tmp_path):
    going = tmp_path / "going"
    yard = control(reset_command=resetting(before=f"touch {going}; sleep 1;"))
    accepted(yard.a.power(0, 300))
    asked = yard.root.reset(0, wait=False)
    wait_until(going.exists, "the reset command")
    yard.kill()
    assert asked.result() is None
    yard.start()
    assert yard.settled() == "applied"
    # The dead daemon's command continues, and finds that a process has the driver open.
    assert wait_until(lambda: yard.writes(ok_only=False)[1:], "the command") == [(0, "reset", "code 19")]
    assert yard.settled() == "applied"
    assert yard.writes() == [limit(300)]


def test_driver_host_crash_reapplies_unreadable_settings(control):
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
