"""gpuyard fleet top, on a terminal."""

import fcntl
import pty
import re
import signal
import termios
import time

import pytest

from asking import hang_up, only_masters_are_left
from program import wait_until
from terminal import Terminal

# Each picture begins at the top, and at its end erases what is below.
HOME, BELOW = "\x1b[H", "\x1b[J"


class FleetTerminal(Terminal):
    """The client's `gpuyard fleet top` on a terminal of 24 lines."""

    def __init__(self, fleet, *words, size=(24, 140)):
        self.master, self.slave = pty.openpty()
        self.resize(*size)
        self.before = termios.tcgetattr(self.slave)
        environment = fleet.environment | {"TERM": "no-such-terminal", "LC_ALL": "C.UTF-8"}
        self.program = fleet.enclosure.popen(
            fleet.program, "fleet", "top", *words, env=environment, stdin=self.slave, stdout=self.slave,
            stderr=self.slave, start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
        self.size = size
        self.written = b""

    def text(self):
        """The last whole picture."""
        whole = [one for one in self.read().decode("utf-8", "ignore").split(HOME) if one.endswith(BELOW)]
        return re.sub(r"\x1b\[[0-9;]*[A-Za-z]|\r", "", whole[-1]) if whole else ""

    def row(self, name):
        return next((line for line in self.text().splitlines() if line.startswith(name + " ")), "")


@pytest.fixture
def top(fleet):
    opened = []

    def open_one(*words, **options):
        opened.append(FleetTerminal(fleet, *words, **options))
        opened[-1].wait_for("8 machines")
        wait_until(lambda: all(" 4 " in opened[-1].row(node.name) for node in fleet.nodes), "all to be there")
        return opened[-1]

    yield open_one
    for one in opened:
        one.close()


@pytest.fixture(autouse=True)
def nothing_is_left(fleet):
    yield
    only_masters_are_left(fleet)


def order(screen):
    return re.findall(r"(?m)^(n\d) ", screen.text())


def test_tabs_show_machines_then_gpus_then_users(fleet, top):
    fleet.nodes[1].must_here("gpuyard", "lease", "take", "-n", "3", "--for", "1h", "--quiet")
    screen = top()
    for key, words in ((b"\t", "UUID"), (b"\t", "alice"), (b"\t", "32 GPUs"), (b"g", "HEALTH")):
        screen.press(key)
        screen.wait_for(words)
    screen.press(b"q")
    assert screen.ended() == 0


def test_load_change_appears_on_screen(fleet, top):
    screen = top()
    fleet.nodes[6].world.load(2, "steady:0.8")
    wait_until(lambda: re.search(r"\b(19|2\d) %", screen.row("n7")), lambda: f"its load: {screen.text()}")
    fleet.nodes[6].world.load(2, "idle")
    screen.press(b"q")
    screen.ended()


@pytest.mark.parametrize("how", [b"q", b"\x03", signal.SIGTERM, signal.SIGHUP])
def test_terminal_is_restored_after_each_end(fleet, top, how):
    hang_up(fleet)
    screen = top()
    if isinstance(how, bytes):
        screen.press(how)
    else:
        screen.program.send_signal(how)
    screen.ended()
    only_masters_are_left(fleet)
    assert len(fleet.ssh_masters()) == len(fleet.nodes)


def test_without_masters_no_ssh_is_left(fleet, top):
    hang_up(fleet)
    screen = top("--no-master")
    screen.press(b"q")
    assert screen.ended() == 0
    wait_until(lambda: not fleet.ssh_processes(), "every ssh to end")


def test_killed_top_leaves_only_masters(fleet, top):
    screen = top()
    screen.program.kill()
    screen.program.wait()
    only_masters_are_left(fleet)


def test_stopped_machine_is_named_with_last_values(fleet, top):
    screen = top()
    n3, n4 = fleet.nodes[2:4]
    with n3.stopped_daemon():
        screen.wait_for("n3: last answer")
        wait_until(lambda: re.search(r"n3: last answer [4-9] ?s ago: no response", screen.text()),
                   lambda: f"how long ago: {screen.text()}")
        assert " 4 " in screen.row("n3")
        n4.world.load(0, "steady:0.6")
        wait_until(lambda: re.search(r"\b1\d %", screen.row("n4")), "the others to go on")
        began = time.monotonic()
        screen.press(b"\t")
        screen.wait_for("UUID")
        assert time.monotonic() - began < 6, "it waits for no machine"
    wait_until(lambda: "last heard" not in screen.text(), "it to be heard again")
    n4.world.load(0, "idle")
    screen.press(b"q")
    assert screen.ended() == 0


def test_a_machine_that_never_answered_is_named(fleet):
    hang_up(fleet)
    with fleet.nodes[7].killed_daemon():
        screen = FleetTerminal(fleet)
        try:
            screen.wait_for("n8: no answer yet: ")
            screen.wait_for("7 machines")
            screen.press(b"q")
            assert screen.ended() == 0
        finally:
            screen.close()


def test_keys_that_come_at_once_count_each(fleet, top):
    """As when a key is held down, or over a slow line."""
    screen = top()
    screen.press(b"\t\t\t")
    screen.press(b"ss")
    wait_until(lambda: "machines, power" in screen.text(), lambda: f"machines by power: {screen.text()}")
    screen.press(b"jjjq")
    assert screen.ended() == 0


def test_missing_terminal_exits_2_with_hint(fleet):
    done = fleet.go("fleet", "top")
    assert done.returncode == 2 and "gpuyard fleet  # prints a table" in done.stderr and not done.stdout
