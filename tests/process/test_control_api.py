"""The routes under /api/gpu/manage/: wrong names of GPUs, who may use them, what they answer. Nothing that is
refused reaches the driver.
"""

import grp
import os

import pytest

from control_proof import limit
from control_yard import ControlYard
from program import program_for_others
from sim_world import World

GROUP = grp.getgrgid(100)
BASE = "/api/gpu/manage"

SETTINGS = {
    "power-limit": {"power_limit_mw": 300000},
    "gpu-clocks": {"min_clock_mhz": 900, "max_clock_mhz": 1200},
    "memory-clocks": {"min_clock_mhz": 2619, "max_clock_mhz": 2619},
    "persistence": {"enabled": True},
    "compute-mode": {"compute_mode": "prohibited"},
    "ecc": {"enabled": False},
}
POSTS = {
    "restore": {},
    "clear-ecc": {"counter": "volatile"},
    "reset": {},
}


@pytest.fixture(scope="module")
def yard(tmp_path_factory):
    place = World(tmp_path_factory.mktemp("world"))
    yard = ControlYard(place, tmp_path_factory.mktemp("yard"), group=GROUP.gr_name)
    try:
        yield yard.start()
    finally:
        yard.end()
        place.end()


@pytest.fixture
def untouched(yard):
    """The daemon; the test fails if its driver got a write."""
    writes = yard.writes()
    yield
    assert yard.writes() == writes


def refused(yard, method, path, body=None, *, raw=None, status=400, code="invalid", says=""):
    answer = yard.root.ask(method, f"{BASE}/{path}", body, raw=raw)
    assert (answer.status, answer.error()) == (status, code), (method, path, body, raw, answer.text)
    assert says in answer.json()["error"]["message"], answer.text


@pytest.mark.parametrize("path", SETTINGS)
def test_missing_gpus_and_malformed_lists_are_refused(yard, path):
    for names, code, status in [("9", "not_found", 404), ("0,9", "not_found", 404),
                                ("GPU-none", "not_found", 404), ("-1", "not_found", 404),
                                ("0,abc", "not_found", 404), ("0,", "invalid", 400), (",0", "invalid", 400),
                                (",", "invalid", 400), ("0,,1", "invalid", 400),
                                ("18446744073709551616", "not_found", 404)]:
        answer = yard.root.ask("PUT", f"{BASE}/{names}/{path}", SETTINGS[path])
        assert (answer.status, answer.error()) == (status, code), (names, answer.text)
        answer = yard.root.ask("DELETE", f"{BASE}/{names}/{path}")
        assert (answer.status, answer.error()) == (status, code), (names, answer.text)


@pytest.mark.usefixtures("untouched")
def test_invalid_counter_or_atomic_option_is_refused(yard):
    for wrong in ["", "all", 3, None]:
        refused(yard, "POST", "0/clear-ecc", {"counter": wrong}, says="counter")
    refused(yard, "POST", "0/clear-ecc", {}, says="counter")
    refused(yard, "POST", "0/clear-ecc", {"counter": "volatile", "atomic": True}, says="rolled back")
    refused(yard, "POST", "0/reset", {"atomic": True}, says="rolled back")
    refused(yard, "POST", "all/reset", {}, says="one GPU")
    refused(yard, "PUT", "all/power-limit",
            {"power_limit_mw": 300000, "atomic": True, "wait": False}, says="waits")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can ask as other users")
def test_group_member_may_control_and_stranger_gets_hint(yard, record_property):
    record_property("contract", "E15")
    stranger = yard.caller(4001)
    for method, path, body in ([("PUT", path, body) for path, body in SETTINGS.items()]
                               + [("DELETE", path, None) for path in SETTINGS]
                               + [("POST", path, body) for path, body in POSTS.items()]):
        answer = stranger.ask(method, f"{BASE}/0/{path}", body)
        assert answer.status == 403, (method, path, answer.text)
        if path != "reset":
            assert f"usermod -aG {GROUP.gr_name}" in answer.text
    member = yard.caller(4002, groups=(GROUP.gr_gid,))
    answer = member.ask("PUT", f"{BASE}/0/power-limit", {"power_limit_mw": 310000})
    assert answer.outcomes() == ["applied"], answer.text
    assert member.ask("POST", f"{BASE}/0/reset", {}).status == 403
    forced = member.ask("DELETE", f"{BASE}/0/power-limit?force=true")
    assert forced.status == 403 and "administrators" in forced.text
    assert stranger.ask("GET", f"{BASE}/audit").status == 403
    audit = member.ask("GET", f"{BASE}/audit?limit=1000").json()["entries"]
    assert any(line["by"] == "uid 4001" and line["outcome"] == "refused" for line in audit)
    assert member.ask("DELETE", f"{BASE}/0/power-limit").outcomes() == ["restored"]


def test_several_gpus_answer_each_for_itself(yard):
    first = yard.root.ask("PUT", f"{BASE}/0/gpu-clocks", SETTINGS["gpu-clocks"])
    assert first.outcomes() == ["assumed"]
    other = yard.caller(4003, groups=(GROUP.gr_gid,))
    answer = other.ask("PUT", f"{BASE}/0,1/gpu-clocks", SETTINGS["gpu-clocks"])
    assert (answer.status, answer.outcomes()) == (207, ["conflict", "assumed"])
    assert yard.root.owner() in answer.changes()[0]["error"]["message"]
    assert other.ask("DELETE", f"{BASE}/1/gpu-clocks").outcomes() == ["restored"]
    answer = other.ask("PUT", f"{BASE}/0,1/gpu-clocks", SETTINGS["gpu-clocks"] | {"atomic": True})
    assert answer.status == 207
    assert [change["outcome"] for change in answer.changes()] == ["failed", "rolled_back"]
    assert yard.root.ask("DELETE", f"{BASE}/0/gpu-clocks").outcomes() == ["restored"]


def test_completed_change_is_published_as_operation_event(yard):
    stream = yard.daemon.get("/api/gpu/events?samples=none&since=oldest&follow=false").text
    before = stream.count("event: operation")
    answer = yard.root.ask("PUT", f"{BASE}/1/power-limit", {"power_limit_mw": 330000})
    assert yard.root.ask("DELETE", f"{BASE}/1/power-limit").outcomes() == ["restored"]
    stream = yard.daemon.get("/api/gpu/events?samples=none&since=oldest&follow=false").text
    assert stream.count("event: operation") == before + 2
    assert answer.changes()[0]["operation"] in stream


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can ask as other users")
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
