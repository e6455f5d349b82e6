"""gpuyard top on a terminal: a pty of the test's own."""

import os
import re
import signal
import subprocess
import termios
import time

import pytest

from program import PROGRAM, clean_environment, state_of, wait_until
from terminal import LEAVES, Terminal


@pytest.fixture
def top(tmp_path, opened):
    return lambda *arguments, **options: opened(Terminal(tmp_path, *arguments, **options))


def test_each_pane_is_a_key_away(daemon, top):
    yard = daemon("--simulate", "2")
    screen = top("--socket", yard.socket)
    screen.wait_for("why")
    for key, words in ((b"2", "COMMAND"), (b"3", "No claims are waiting."), (b"4", "LEVEL    GPU RULE"),
                       (b"5", "GPU-HOURS"), (b"?", "gpuyard top"), (b"\x1b", "SM% last 16 s"), (b"\r", "links")):
        screen.press(key)
        screen.wait_for(words)
    screen.press(b"q")
    assert screen.ended() == 0


# The text console of a server decodes UTF-8, and its font lacks blocks and braille.
@pytest.mark.parametrize("term", ["linux", "dumb", "vt100", "vt220"])
def test_a_terminal_of_few_glyphs_gets_ascii(shared, top, run, term):
    yard = shared("--simulate", "2")
    for pane in (b"1", b"\r", b"2", b"3", b"4") if term == "linux" else ():
        screen = top("--socket", yard.socket, TERM=term)
        screen.wait_for("why")
        screen.press(pane)
        screen.read(1)
        assert all(byte < 0x80 for byte in screen.written), screen.written.decode("utf-8", "replace")
        screen.press(b"q")
        screen.ended()
    look = {"TERM": term, "LC_ALL": "C.UTF-8", "GPUYARD_SOCKET": yard.socket}
    for words in (("top", "--once", "--size", "100x30"), ("devices",),
                  ("history", "0", "--metric", "power", "--since", "1m", "--plot"),
                  ("history", "--metric", "power", "--since", "1m")):
        done = run(*words, **look)
        assert done.returncode == 0 and done.stdout.isascii(), done.stdout + done.stderr
    assert not run("top", "--once", "--size", "100x30", **look | {"TERM": "xterm"}).stdout.isascii()


@pytest.mark.parametrize("how", [b"q", b"\x03", signal.SIGTERM, signal.SIGHUP])
def test_terminal_is_restored_after_each_end(shared, top, how):
    screen = top("--socket", shared("--simulate", "2").socket)
    screen.wait_for("why")
    if isinstance(how, bytes):
        screen.press(how)
    else:
        screen.program.send_signal(how)
    screen.ended()


def test_terminal_is_restored_while_top_is_stopped(shared, top):
    screen = top("--socket", shared("--simulate", "2").socket)
    screen.wait_for("why")
    screen.program.send_signal(signal.SIGTSTP)
    wait_until(lambda: state_of(screen.program.pid) == "T", "top to stop")
    screen.read()
    assert screen.written.endswith(LEAVES)
    assert termios.tcgetattr(screen.slave) == screen.before
    screen.program.send_signal(signal.SIGCONT)
    screen.press(b"2")
    screen.wait_for("COMMAND")
    screen.press(b"q")
    assert screen.ended() == 0


def test_closed_terminal_ends_top(shared, top):
    screen = top("--socket", shared("--simulate", "2").socket)
    screen.wait_for("why")
    os.close(screen.master)
    wait_until(lambda: screen.program.poll() is not None, "top to end")


def test_keys_are_answered_while_the_daemon_hangs(daemon, top):
    yard = daemon("--simulate", "2")
    screen = top("--socket", yard.socket)
    screen.wait_for("why")
    yard.process.send_signal(signal.SIGSTOP)
    try:
        time.sleep(1.5)  # so that a question is under way
        for key, words in ((b"3", "No claims are waiting."), (b"1", "SM% last 16 s")):
            began = time.monotonic()
            screen.press(key)
            screen.wait_for(words)
            assert time.monotonic() - began < 1, "an answer of the daemon takes at least 2 s now"
        screen.wait_for("STALE")
    finally:
        yard.process.send_signal(signal.SIGCONT)
    screen.wait_for("SIMULATED")


def test_a_daemon_that_goes_and_comes_back(daemon, top):
    yard = daemon("--simulate", "2")
    screen = top("--socket", yard.socket)
    screen.wait_for("why")
    for _ in range(60):  # each key requests something else; the next reading is still a second away
        screen.press(b"\t")
        screen.read(0.01)
    began = time.monotonic()
    yard.stop()
    screen.wait_for("retrying")
    assert time.monotonic() - began < 10
    daemon("--simulate", "2", directory=yard.directory)
    screen.wait_for("SIMULATED")


def test_top_waits_for_starting_daemon(tmp_path, run):
    socket = tmp_path / "s"
    serving = subprocess.Popen([PROGRAM, "serve", "--simulate", "2", "--socket", socket, "--state", tmp_path / "state",
                                "--listen", "127.0.0.1:0"], env=clean_environment(tmp_path),
                               stderr=subprocess.DEVNULL)
    try:
        wait_until(socket.exists, "the socket", every=0.001)
        assert "SIMULATED" in run("top", "--once", "--socket", socket).stdout
    finally:
        serving.terminate()
        serving.wait(10)


def test_screen_is_whole_after_many_resizes(shared, top):
    screen = top("--socket", shared("--simulate", "8").socket)
    screen.wait_for("why")
    for i in range(200):
        screen.resize(1 + i * 7 % 60, 1 + i * 13 % 200)
        screen.program.send_signal(signal.SIGWINCH)
        screen.read(0.001)
    screen.read(0.5)
    screen.written = b""
    screen.resize(24, 80)
    screen.program.send_signal(signal.SIGWINCH)
    screen.wait_for("SM% last 16 s")
    screen.press(b"q")
    assert screen.ended() == 0


def test_bare_program_is_top_on_terminal_help_elsewhere(shared, top, run):
    screen = top(verb=(), GPUYARD_SOCKET=shared("--simulate", "2").socket)
    screen.wait_for("SM% last 16 s")
    screen.press(b"q")
    assert screen.ended() == 0
    alone = run()
    assert (alone.returncode, alone.stdout) == (0, run("--help").stdout)


def test_once_prints_one_screen_of_any_size(shared, run):
    yard = shared("--simulate", "8")
    done = run("top", "--once", "--size", "100x30", "--socket", yard.socket, LC_ALL="C")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) == 30 and all(len(line) <= 100 for line in lines)
    assert done.stdout.isascii() and re.search(r"\n>0 +\d+%", done.stdout)


def test_top_without_daemon_reads_driver(run):
    done = run("top", "--once", "--simulate", "3")
    assert done.returncode == 0, done.stderr
    assert len(re.findall(r"(?m)^[> ]\d ", done.stdout)) == 3


def test_undrawable_options_exit_2_with_reason(run):
    for arguments, words in ((("--simulate", "2"), "--once"), (("--once", "--size", "0x4"), "80x24"),
                             (("--once", "--charset", "runes"), "braille, block or ascii")):
        done = run("top", *arguments)
        assert done.returncode == 2 and words in done.stderr, done.stderr
