"""gpuyard watch and the table, in a real pseudo-terminal and outside of one."""

import json
import re
import signal
import subprocess
import time

import pytest
from program import PATIENCE, PROGRAM, clean_environment, state_of, wait_until
from terminal import LineTerminal

ENTER, LEAVE = "\x1b[?1049h", "\x1b[?1049l"


@pytest.fixture
def on_terminal(tmp_path, opened, monkeypatch):
    for name in ("COLUMNS", "LINES", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)

    def start(columns, *arguments, rows=24, **environment):
        return opened(LineTerminal(tmp_path, *arguments, size=(rows, columns), verb=(),
                                   **{"TERM": "xterm"} | environment))
    return start


def plain(text):
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text)


@pytest.mark.parametrize("columns", [40, 200])
def test_no_table_line_is_wider_than_terminal(on_terminal, columns):
    code, text = on_terminal(columns, "devices", "--simulate", "8").end()
    assert code == 0
    lines = plain(text).splitlines()
    assert len([line for line in lines if re.match(r" +\d", line)]) == 8
    assert max(len(line) for line in lines) <= columns


def test_table_colours_follow_terminal_and_options(on_terminal, run):
    def shows_colour(*arguments, **environment):
        return "\x1b[" in on_terminal(120, "devices", "--simulate", "1", *arguments, **environment).end()[1]
    assert shows_colour()
    assert not shows_colour(NO_COLOR="1")
    assert not shows_colour("--color", "never")
    assert shows_colour("--color", "always", NO_COLOR="1")
    assert "\x1b" not in run("devices", "--simulate", "1").stdout
    assert "\x1b" in run("devices", "--simulate", "1", "--color", "always").stdout


def test_a_terminal_without_utf8_gets_ascii(on_terminal):
    code, text = on_terminal(200, "devices", "--simulate", "2", LC_ALL="C").end()
    assert code == 0 and text.isascii() and "###" in text
    assert "\u2501" in on_terminal(200, "devices", "--simulate", "2").end()[1]


def test_watch_draws_on_alternate_screen_and_restores_terminal(on_terminal):
    watch = on_terminal(100, "watch", "--simulate", "2", "--interval", "100ms")
    watch.until("These GPUs are simulated.")
    assert watch.text().startswith(ENTER)
    watch.program.send_signal(signal.SIGINT)
    code, text = watch.end()
    assert code == 0 and text.endswith(LEAVE) and text.count(ENTER) == 1


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT])
def test_other_signals_restore_the_screen(on_terminal, number):
    watch = on_terminal(100, "watch", "--simulate", "1", "--interval", "10s")
    watch.until("simulated")
    watch.program.send_signal(number)
    assert watch.end()[1].endswith(LEAVE)


def test_watch_follows_the_size_of_its_terminal(on_terminal):
    watch = on_terminal(60, "watch", "--simulate", "1", "--interval", "60s")
    assert "UUID" not in watch.until("simulated")
    watch.resize(30, 200)
    watch.program.send_signal(signal.SIGWINCH)
    watch.until("UUID")


def test_watch_shows_no_more_lines_than_there_are(on_terminal):
    watch = on_terminal(80, "watch", "--simulate", "8", "--count", "1", rows=6)
    text = plain(watch.end()[1])
    assert text.count("\n") < 6 and "  2  H100" in text and "  6  H100" not in text


def test_suspend_leaves_screen_and_resume_reenters(on_terminal):
    watch = on_terminal(80, "watch", "--simulate", "1", "--interval", "60s")
    watch.until("simulated")
    watch.program.send_signal(signal.SIGTSTP)
    wait_until(lambda: watch.text().endswith(LEAVE) and state_of(watch.program.pid) == "T", "it to stop")
    watch.program.send_signal(signal.SIGCONT)
    wait_until(lambda: watch.text().count(ENTER) == 2, "it to go on")


def test_outside_of_a_terminal_lines_are_appended(run, record_property):
    record_property("contract", "C5")
    result = run("watch", "--simulate", "2", "--interval", "100ms", "--count", "3")
    assert result.returncode == 0 and "\x1b" not in result.stdout
    lines = result.stdout.splitlines()
    assert len(lines) == 6
    pattern = r"\d{4}-\d\d-\d\dT[\d:.]+Z GPU [01]: \d+\u00b0C, \d+% util, [\d.]+ GB / 85\.5 GB"
    assert all(re.fullmatch(pattern, line) for line in lines), lines


def test_chosen_fields_are_csv_outside_of_a_terminal(run):
    result = run("watch", "index", "power.limit", "--simulate", "1", "--interval", "100ms",
                 "--count", "2")
    assert result.stdout == "index, power.limit [W]\n0, 700.00 W\n0, 700.00 W\n"


def test_json_prints_one_line_per_interval(run):
    result = run("watch", "--simulate", "2", "--interval", "100ms", "--count", "2", "--json")
    looks = [json.loads(line) for line in result.stdout.splitlines()]
    assert [len(look["devices"]) for look in looks] == [2, 2]
    assert looks[0]["taken_at"] < looks[1]["taken_at"]


def test_daemon_outage_and_return_are_reported_once_each(daemon, tmp_path):
    yard = daemon("--simulate", "1")
    watch = subprocess.Popen(
        [PROGRAM, "watch", "index", "--socket", yard.socket, "--interval", "100ms"],
        env=clean_environment(tmp_path), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert watch.stdout.readline() == "index\n"
        yard.stop()
        gone = watch.stderr.readline()
        assert yard.socket in gone and "retrying" in gone
        assert watch.stderr.readline().startswith("  cause: ")
        assert watch.stderr.readline().startswith("  try:   gpuyard serve")
        again = daemon("--simulate", "1", directory=yard.directory)
        assert again.socket == yard.socket
        assert watch.stderr.readline() == f"gpuyard: the daemon at {yard.socket} is reachable again\n"
    finally:
        watch.send_signal(signal.SIGTERM)
        out, err = watch.communicate(timeout=PATIENCE)
    assert watch.returncode == 0 and err == "" and set(out.splitlines()) == {"0"}


def test_last_table_stays_on_terminal_with_reason(daemon, on_terminal):
    yard = daemon("--simulate", "1")
    watch = on_terminal(160, "watch", "--socket", yard.socket, "--interval", "100ms")
    watch.until("simulated")
    yard.stop()
    watch.until("readings:")
    assert plain(watch.text().split("readings:")[1] + watch.text()).count("H100") >= 1
    before = watch.text()
    daemon("--simulate", "1", directory=yard.directory)
    wait_until(lambda: "readings:" not in watch.text()[-1500:] and len(watch.text()) > len(before),
               "the table without the reason")


# Retrying is only for a source that has answered before.
def test_missing_daemon_or_gpu_at_start_fails(run, tmp_path):
    result = run("watch", "--socket", str(tmp_path / "nobody.sock"))
    assert result.returncode == 5 and result.stdout == ""
    assert run("watch", "--simulate", "1", "--gpu", "5").returncode == 6


def test_watch_keeps_its_interval(run):
    began = time.monotonic()
    assert run("watch", "index", "--simulate", "1", "--interval", "200ms", "--count", "6").returncode == 0
    assert time.monotonic() - began >= 1.0
