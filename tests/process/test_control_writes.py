"""All writes that reach the driver, in order, through every way in which a setting begins and
ends. The driver's own log is the witness (`gpuyard sim status`, `writes`), never the daemon's own
account.
"""

import os

from control_proof import BASE, accepted, as_root, gone, limit
from control_yard import ControlYard
from program import program_for_others
from sim_world import World

pytestmark = as_root


def test_lowest_claim_wins_and_last_release_restores_baseline(control):
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


def test_every_setting_is_written_and_restored_once(control, record_property):
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


def test_driver_refused_setting_is_tried_once_and_dropped(control, record_property):
    record_property("contract", "B17")
    yard = control("--gpus", "2", "--load", "idle", "--setters", "nobody")
    refused = yard.a.power(0, 300)
    assert (refused.status, refused.error()) == (403, "denied"), refused.text
    assert yard.writes(ok_only=False) == [(*limit(300), "code 4")]
    gone(yard)


def test_refused_request_never_reaches_driver(control, world):
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


def test_driver_requiring_root_refuses_unprivileged_daemon(open_place, record_property):
    record_property("contract", "B17")
    there = World(open_place)
    program = open_place / "as_nobody"
    program.write_text("#!/bin/sh\nexec setpriv --reuid 65534 --regid 65534 --clear-groups "
                       f"'{program_for_others(open_place)}' \"$@\"\n")
    program.chmod(0o755)
    os.chown(open_place, 65534, 65534)
    yard = ControlYard(there, open_place, "--gpus", "1", "--setters", "root", program=str(program))
    try:
        yard.start(wait=False)
        yard.daemon.ready()
        for refused in (yard.root.power(0, 300), yard.root.clocks(0, 600, 1200)):
            assert (refused.status, refused.error()) == (403, "denied"), refused.text
        assert yard.writes(ok_only=False) == [(*limit(300), "code 4"),
                                              (0, "gpu_locked_clocks", 600, 1200, "code 4")]
        assert {write["uid"] for write in there.write_log()} == {65534}
        assert yard.root.standing(0) == yard.root.standing(0, "gpu_clocks") == "free"
    finally:
        yard.end()
        there.end()
