"""The verbs that change GPUs, against a real daemon: what they say, what they write, what they refuse."""

import contextlib
import json
import os
import re
import signal
import time

import pytest

from cli_yard import Yard
from program import PROGRAM, open_directory
from terminal import LineTerminal

ME = f"uid {os.geteuid()}"

SETTERS = {
    "power": [("power", "0", "300", "--yes"), ("power", "0", "--restore", "--yes")],
    "clocks": [("clocks", "0", "--gpu", "1200,1500", "--yes"),
               ("clocks", "0", "--restore", "all", "--yes")],
    "persistence": [("persistence", "0", "on", "--yes"), ("persistence", "0", "--restore", "--yes")],
    "compute-mode": [("compute-mode", "0", "prohibited", "--yes"),
                     ("compute-mode", "0", "--restore", "--yes")],
    "ecc": [("ecc", "0", "off", "--yes"), ("ecc", "0", "--restore", "--yes")],
    "reset": [("reset", "0", "--yes")],
    "restore": [("restore", "--all", "--yes")],
}
SHOWS = [("power",), ("clocks", "0"), ("persistence",), ("compute-mode", "0"), ("ecc",)]


@contextlib.contextmanager
def started(*options):
    with open_directory() as place:
        one = Yard(place, *options)
        try:
            yield one
        finally:
            one.end()


@pytest.fixture
def yard():
    """yard("enabled = false", "--model", "t4"): a daemon and its world; by default with control."""
    with contextlib.ExitStack() as ends:
        yield lambda *options: ends.enter_context(started(*options))


@pytest.fixture(scope="module")
def untouched():
    """The one that tests share in which nothing is changed, whatever is asked for."""
    with started() as one:
        yield one
        assert one.writes() == []


@pytest.fixture(scope="module")
def switched_off():
    with started("enabled = false") as one:
        yield one


@pytest.fixture
def on_terminal(opened, tmp_path):
    return lambda one, *arguments: opened(
        LineTerminal(tmp_path, *arguments, verb=(), size=(24, 200), GPUYARD_SOCKET=one.daemon.socket, TZ="UTC"))


def test_disabled_control_refuses_and_names_key(switched_off):
    for words in [words for some in SETTERS.values() for words in some]:
        done = switched_off.go(*words)
        assert done.returncode == 4 and done.stdout == "", words
        assert "enabled" in done.stderr and "control" in done.stderr, done.stderr
    assert switched_off.writes() == []


def test_disabled_control_still_shows_settings(switched_off):
    for words in SHOWS:
        done = switched_off.go(*words)
        assert done.returncode == 0 and "H100 80GB HBM3" in done.stdout, words
        assert "enabled" in done.stderr, "a note says that nothing can be changed"
    assert switched_off.json("management", "power")["enabled"] is False


@pytest.mark.parametrize("words", [words for some in SETTERS.values() for words in some])
def test_noninteractive_change_without_yes_exits_2(untouched, words):
    done = untouched.go(*words[:-1])
    assert done.returncode == 2 and done.stdout == "" and "--yes" in done.stderr
    assert untouched.writes() == []


@pytest.mark.parametrize("answer, code", [(b"y\n", 0), (b"Yes\n", 0), (b"n\n", 1), (b"\n", 1),
                                          (b"yesterday\n", 1), (b"\x04", 1),
                                          (b"\x03", -signal.SIGINT)])
def test_on_a_terminal_only_yes_changes_anything(yard, untouched, on_terminal, answer, code):
    one = untouched if code else yard()
    terminal = on_terminal(one, "power", "0", "300", "--for", "1h")
    terminal.until("Apply? [y/N] ")
    terminal.press(answer)
    ended, text = terminal.end()
    assert ended == code, text
    assert re.search(r"GPU 0 H100 80GB HBM3: power limit 700 W -> 300 W, until ", text)
    assert one.limit() == (300 if code == 0 else 700)
    assert ("GPU 0: power limit 300 W (was 700 W)" in text) == (code == 0)
    assert ("nothing was changed" in text) == (code == 1)
    assert len(one.writes()) == (1 if code == 0 else 0)


def test_impossible_change_fails_before_confirmation_prompt(untouched, on_terminal):
    code, text = on_terminal(untouched, "power", "0", "3000").end()
    assert code == 2 and "[y/N]" not in text and "200 W to 700 W" in text
    assert untouched.writes() == []


def test_dry_run_prints_plan_without_writing(untouched):
    planned = untouched.must("power", "0,1", "300W", "--dry-run", "--for", "30m")
    assert re.match(r"GPU 0 H100 80GB HBM3: power limit 700 W -> 300 W, until .*\n"
                    r"GPU 1 H100 80GB HBM3: power limit 700 W -> 300 W, until .*\n", planned)
    refused = untouched.go("power", "0", "9000", "--dry-run")
    assert refused.returncode == 2 and "200 W to 700 W" in refused.stderr
    plan = untouched.json("changes", "clocks", "all", "--gpu", "1200,1500", "--dry-run")
    assert [change["outcome"] for change in plan["changes"]] == ["planned", "planned"]
    assert untouched.writes() == [] and untouched.limit() == 700


def test_a_limit_is_set_shown_and_restored(yard):
    one = yard()
    assert one.must("power", "0", "300", "--yes") == "GPU 0: power limit 300 W (was 700 W)\n"
    assert one.limit(0) == 300 and one.limit(1) == 700
    table = one.must("power")
    assert re.search(r"^ +0 +H100 80GB HBM3 +300 W +200 W to 700 W +700 W +300 W by you$", table, re.M)
    assert re.search(r"^ +1 +H100 80GB HBM3 +700 W +200 W to 700 W +700 W +-$", table, re.M)
    assert table.endswith("These GPUs are simulated.\n")
    restored = one.must("power", "0", "--restore", "--yes")
    assert restored == "GPU 0: power limit 700 W (was 300 W), restored\n"
    assert one.limit() == 700


def test_all_is_a_name_for_all(yard):
    one = yard()
    assert len(one.must("power", "all", "300", "--yes").splitlines()) == 2
    assert one.limit(0) == one.limit(1) == 300
    assert len(one.must("restore", "--all", "--yes").splitlines()) == 2
    assert one.limit(0) == one.limit(1) == 700


def test_every_setting_is_set_and_put_back(yard):
    one = yard()
    before = one.settings()
    line = one.must("clocks", "0", "--gpu", "1200,1500", "--memory", "2619", "--yes")
    assert "GPU clocks [1200, 1500] MHz" in line and "does not report the value in effect" in line
    assert one.settings()["locked_sm_mhz"] == [1200, 1500]
    assert one.settings()["locked_memory_mhz"] == [2619, 2619]
    assert re.search(r"GPU clocks .* \[1200, 1500\] MHz by you +assumed", one.must("clocks", "0"))
    one.must("clocks", "0", "--restore", "gpu", "--yes")
    assert one.settings()["locked_sm_mhz"] == [] and one.settings()["locked_memory_mhz"] != []
    one.must("clocks", "0", "--restore", "memory", "--yes")
    assert "persistence mode on (was off)" in one.must("persistence", "0", "on", "--yes")
    assert one.settings()["persistence_mode"] is True
    assert "compute mode prohibited (was default)" in one.must("compute-mode", "0", "prohibited",
                                                               "--yes")
    off = one.must("ecc", "0", "off", "--yes")
    assert "ECC mode off (was on)" in off and "next reset or reboot" in off
    assert one.settings()["ecc_mode_pending"] is False
    assert len(one.must("restore", "0", "--yes").splitlines()) == 3
    assert one.settings() == before


def test_hanging_gpu_is_listed_with_known_settings(yard):
    one = yard()
    one.must("power", "1", "300", "--yes")
    one.world.inject(1, "--call", "power_limits", "--never-returns")
    table = one.must("power")
    assert re.search(r"^ +0 +H100 80GB HBM3 +700 W ", table, re.M)
    assert re.search(r"^ +1 +H100 80GB HBM3 +- +- +- +300 W by you$", table, re.M)
    assert "power limit: the GPU did not respond in time\n" in table


def test_failed_atomic_change_is_rolled_back(yard):
    one = yard()
    one.world.inject(1, "--call", "set_power_limit", "--code", "999")
    done = one.go("power", "all", "300", "--atomic", "--yes")
    assert done.returncode == 1 and done.stdout == ""
    assert "GPU 0: power limit rolled back to 700 W" in done.stderr
    assert one.limit(0) == one.limit(1) == 700
    assert "300 W" not in one.must("power", "0")


def test_tcp_without_token_may_read_but_not_write(untouched):
    address = f"127.0.0.1:{untouched.daemon.port}"
    done = untouched.go("power", "0", "300", "--yes", "--socket", address)
    assert done.returncode == 4 and "token" in done.stderr and untouched.writes() == []
    assert untouched.go("power", "--socket", address).returncode == 0
    assert untouched.go("audit", "--socket", address).returncode == 4


def test_everything_is_in_the_audit_log(yard):
    one = yard()
    one.must("power", "0", "300", "--yes")
    one.go("power", "1", "9000", "--yes")
    one.must("power", "0", "--restore", "--yes")
    entries = one.json("audit", "audit")["entries"]
    assert [(entry["by"], entry["index"], entry["outcome"]) for entry in entries] == [
        (ME, 0, "applied"), (ME, 1, "failed"), (ME, 0, "restored")]
    table = one.must("audit", "0", "-n", "1")
    assert len(table.splitlines()) == 2 and "restored" in table


def test_slurm_is_forgotten(untouched):
    asked = untouched.daemon.get("/api/gpu/slurm/check", unix=True, method="POST", body={})
    assert asked.status == 200 and untouched.daemon.get("/api/gpu/slurm").json()["observes"]
    assert "until a Slurm hook runs" in untouched.must("slurm", "forget")
    assert not untouched.daemon.get("/api/gpu/slurm").json()["observes"]


def test_clearing_and_resetting(yard):
    command = json.dumps([PROGRAM if os.path.isabs(PROGRAM) else os.path.abspath(PROGRAM), "sim",
                          "reset", "--gpu", "{index}"])
    one = yard(f"enabled = true\nreset_command = {command}\n")
    one.world.inject(0, "--ecc-corrected", "5")
    assert "cleared" in one.must("ecc", "0", "--clear", "volatile", "--yes")
    assert one.must("reset", "1", "--yes") == "GPU 1: reset\n"
    assert one.json("changes", "reset", "0", "--dry-run")["changes"][0]["outcome"] == "planned"


def test_a_reset_is_waited_for_to_its_end(yard):
    command = json.dumps(["sh", "-c", 'sleep 1; echo "no such GPU" >&2; exit 3'])
    one = yard(f"enabled = true\nreset_command = {command}\n")
    began = time.monotonic()
    done = one.go("reset", "0", "--yes")
    assert done.returncode != 0 and done.stdout == "" and time.monotonic() - began > 1
    assert re.fullmatch(r"gpuyard: GPU 0: reset: .*status 3: no such GPU\n", done.stderr)
