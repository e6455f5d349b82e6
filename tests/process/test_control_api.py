"""The routes under /api/gpu/manage/: every wrong parameter of every route, who may use them, what they
answer. Nothing that is refused reaches the driver.
"""

import grp
import os

import pytest

from control_yard import ControlYard
from program import wait_until
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
HOW = {"atomic": True, "force": True, "dry_run": True, "wait": True}

# Other invalid values: (path, fields, a part of the message).
WRONG_VALUES = [
    ("power-limit", {"power_limit_mw": 0}, "expected 1 to"),
    ("power-limit", {"power_limit_mw": -300000}, "expected 1 to"),
    ("power-limit", {"power_limit_mw": 100000}, "200 W to 700 W"),
    ("power-limit", {"power_limit_mw": 2**62}, "expected 1 to"),
    ("power-limit", {"power_limit_mw": 700001}, "200 W to 700 W"),
    ("gpu-clocks", {"min_clock_mhz": 1200, "max_clock_mhz": 900}, "above their maximum"),
    ("gpu-clocks", {"min_clock_mhz": -1, "max_clock_mhz": 900}, "expected 0 to"),
    ("gpu-clocks", {"min_clock_mhz": 900, "max_clock_mhz": 9000}, "210 MHz to 1980 MHz"),
    ("gpu-clocks", {"min_clock_mhz": 0, "max_clock_mhz": 900}, "210 MHz to 1980 MHz"),
    ("memory-clocks", {"min_clock_mhz": 1, "max_clock_mhz": 2}, "MHz to"),
    ("compute-mode", {"compute_mode": "exclusive_thread"}, "exclusive_process"),
    ("compute-mode", {"compute_mode": ""}, "exclusive_process"),
]


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
@pytest.mark.usefixtures("untouched")
def test_invalid_setting_body_changes_no_setting(yard, path):
    good = SETTINGS[path]
    for raw in ["", "{", "[]", "null", "7", '"x"', "\x00", "[" * 2000, "{}"]:
        refused(yard, "PUT", f"0/{path}", raw=raw)
    refused(yard, "PUT", f"0/{path}", good | {"watts": 3}, says="watts")
    for field, value in good.items():
        missing = {name: one for name, one in good.items() if name != field}
        refused(yard, "PUT", f"0/{path}", missing, says=field)
        for wrong in [None, [], {}, [value], "", "maybe"]:
            if isinstance(value, str) and isinstance(wrong, str):
                continue  # a word of its own: WRONG_VALUES
            refused(yard, "PUT", f"0/{path}", good | {field: wrong}, says=field)
        if not isinstance(value, bool):
            refused(yard, "PUT", f"0/{path}", good | {field: True}, says=field)
    for field in HOW:
        for wrong in ["yes", 1, [], {}]:
            refused(yard, "PUT", f"0/{path}", good | {field: wrong}, says=field)
    for wrong in [0, -1, 1e300, "soon", True, [], 366 * 24 * 3600 + 1]:
        refused(yard, "PUT", f"0/{path}", good | {"for_s": wrong}, says="for_s")


@pytest.mark.parametrize("path,fields,says", WRONG_VALUES)
@pytest.mark.usefixtures("untouched")
def test_out_of_range_value_names_allowed_values(yard, path, fields, says):
    refused(yard, "PUT", f"0/{path}", fields, says=says)


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


@pytest.mark.parametrize("path", SETTINGS)
@pytest.mark.usefixtures("untouched")
def test_wrong_methods_and_parameters_are_refused(yard, path):
    for method in ("GET", "POST", "PATCH"):
        answer = yard.root.ask(method, f"{BASE}/0/{path}", SETTINGS[path])
        assert answer.status in (404, 405), (method, answer.text)
    refused(yard, "PUT", f"0/{path}?power=3", SETTINGS[path], says="power")
    refused(yard, "DELETE", f"0/{path}?power=3", says="power")
    for field in HOW:
        for wrong in ["yes", "1", "True", ""]:
            refused(yard, "DELETE", f"0/{path}?{field}={wrong}", says=field)
        refused(yard, "DELETE", f"0/{path}?{field}=true&{field}=true", says="repeated")


@pytest.mark.parametrize("path", POSTS)
@pytest.mark.usefixtures("untouched")
def test_invalid_post_body_is_refused(yard, path):
    good = POSTS[path]
    for raw in ["{", "[]", "null", "7", "[" * 2000]:
        refused(yard, "POST", f"0/{path}", raw=raw)
    refused(yard, "POST", f"0/{path}", good | {"watts": 3}, says="watts")
    for field in HOW:
        refused(yard, "POST", f"0/{path}", good | {field: "yes"}, says=field)
    for method in ("PUT", "DELETE", "GET"):
        assert yard.root.ask(method, f"{BASE}/0/{path}", good).status in (404, 405)
    assert yard.root.ask("POST", f"{BASE}/9/{path}", good).status == 404


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


def test_wrong_queries_are_refused(yard):
    for path in ["audit?limit=0", "audit?limit=x", "audit?limit=1001", "audit?limit=-1", "audit?gpu=0,,1",
                 "audit?before=x", "audit?since=3", "operations?limit=3", "?gpus=0", "0?gpus=0"]:
        answer = yard.root.ask("GET", f"{BASE}/{path}" if path[0] != "?" else f"{BASE}{path}")
        assert (answer.status, answer.error()) == (400, "invalid"), (path, answer.text)
    for path in ["audit?gpu=9", "operations/none", "9", "0,9"]:
        assert yard.root.ask("GET", f"{BASE}/{path}").status == 404, path


def test_tcp_without_token_is_refused_with_token_hint(yard, record_property):
    record_property("contract", "E15")
    for method, path, body in ([("PUT", path, {}) for path in SETTINGS]
                               + [("DELETE", path, None) for path in SETTINGS]
                               + [("POST", path, {}) for path in POSTS]):
        answer = yard.daemon.get(f"{BASE}/0/{path}", method=method, body=body)
        assert answer.status == 403, (method, path)
        assert "token" in answer.text


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


def test_each_setting_is_set_shown_and_put_back(yard, record_property):
    record_property("contract", "E14")
    outcome = {"gpu-clocks": "assumed", "memory-clocks": "assumed", "ecc": "pending_reboot"}
    for path, body in SETTINGS.items():
        answer = yard.root.ask("PUT", f"{BASE}/1/{path}", body)
        assert answer.outcomes() == [outcome.get(path, "applied")], answer.text
    gpu = yard.root.ask("GET", f"{BASE}/1").json()["gpus"][0]
    shown = {one["setting"]: one for one in gpu["settings"]}
    assert shown["power_limit"]["now"]["power_limit_mw"] == 300000
    assert shown["power_limit"]["baseline"]["power_limit_mw"] == 700000
    assert shown["gpu_clocks"]["standing"] == "assumed" and shown["gpu_clocks"]["now"] is None
    assert shown["compute_mode"]["now"]["compute_mode"] == "prohibited"
    assert shown["ecc"]["standing"] == "pending_reboot"
    assert all(one["claims"][0]["owner"] == yard.root.owner() for one in shown.values())
    answer = yard.root.ask("POST", f"{BASE}/1/restore", {})
    assert set(answer.outcomes()) == {"restored"}, answer.text
    gpu = yard.root.ask("GET", f"{BASE}/1").json()["gpus"][0]
    assert {one["standing"] for one in gpu["settings"]} == {"free"}
    assert shown["power_limit"]["by_default"]["power_limit_mw"] == 700000


def test_counters_of_memory_errors_are_cleared(yard, record_property):
    record_property("contract", "E14")
    for counter in ("volatile", "aggregate"):
        assert yard.root.ask("POST", f"{BASE}/0/clear-ecc",
                             {"counter": counter}).outcomes() == ["cleared"]


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


def test_no_wait_returns_queued_operation(yard):
    answer = yard.root.ask("PUT", f"{BASE}/0/power-limit", {"power_limit_mw": 320000, "wait": False})
    assert answer.outcomes() == ["queued"]
    name = answer.changes()[0]["operation"]
    operation = wait_until(
        lambda: (one := yard.root.ask("GET", f"{BASE}/operations/{name}").json())["state"] == "done"
        and one, "the operation")
    assert operation["change"]["outcome"] == "applied"
    assert yard.root.ask("DELETE", f"{BASE}/0/power-limit").outcomes() == ["restored"]


def test_completed_change_is_published_as_operation_event(yard):
    stream = yard.daemon.get("/api/gpu/events?samples=none&since=oldest&follow=false").text
    before = stream.count("event: operation")
    answer = yard.root.ask("PUT", f"{BASE}/1/power-limit", {"power_limit_mw": 330000})
    assert yard.root.ask("DELETE", f"{BASE}/1/power-limit").outcomes() == ["restored"]
    stream = yard.daemon.get("/api/gpu/events?samples=none&since=oldest&follow=false").text
    assert stream.count("event: operation") == before + 2
    assert answer.changes()[0]["operation"] in stream


def test_control_is_disabled_by_default(world, tmp_path, record_property):
    record_property("contract", "E15")
    yard = ControlYard(world, tmp_path)
    yard.config.write_text("")
    try:
        yard.start()
        answer = yard.root.ask("PUT", f"{BASE}/0/power-limit", {"power_limit_mw": 300000})
        assert (answer.status, answer.error()) == (403, "denied")
        assert "[control] enabled is false" in answer.text
        assert not yard.root.ask("GET", BASE).json()["enabled"]
        assert yard.writes() == []
    finally:
        yard.end()
