"""Changes and history in `gpuyard top`: real keys, a real daemon, real processes."""

import base64
import json
import re
import signal
import subprocess
import time
from pathlib import Path

import pytest

from program import PROGRAM, wait_until
from terminal import MOUSE_ON, Terminal

RECORDING = Path(__file__).resolve().parents[1] / "data/lost_for_a_while.rec"


@pytest.fixture
def top(tmp_path, opened):
    return lambda *arguments, **options: opened(Terminal(tmp_path, *arguments, **options))


def limits_of(yard):
    told = json.loads(subprocess.check_output(
        [PROGRAM, "query", "--fields", "enforced.power.limit", "--json", "--socket", str(yard.directory / "gpuyard.sock")]))
    return [device["values"]["power_limit_w"] for device in told["devices"]]


def test_a_cap_is_planned_done_and_taken_back(control, top):
    yard = control()
    screen = top("--socket", str(yard.directory / "gpuyard.sock"), size=(24, 100))
    screen.wait_for("why")
    screen.press(b"jp")
    screen.wait_for("Set the power limit of GPU 1")
    screen.press(b"\x15" b"9999")
    screen.wait_for("9999")
    # Enter while an earlier plan is still on its way would leave 9999 W without a plan of its own.
    screen.wait_for("out of range")
    screen.press(b"\t\t1\r")
    # Once by the plan, and once by the daemon: no key counts while that is asked.
    wait_until(lambda: screen.text().count("out of range") == 2, screen.text)
    assert limits_of(yard) == [700, 700]
    screen.press(b"\x1b[A\x1b[A\x15" b"450\r")
    wait_until(lambda: limits_of(yard) == [700, 450], screen.text)
    # The GPU has its limit before the dialog knows, which drops keys until then.
    screen.wait_for("power limit 450 W (was 700 W)")
    screen.wait_for("/450 ")
    screen.press(b"u\r")
    wait_until(lambda: limits_of(yard) == [700, 700], screen.text)
    screen.wait_for("power limit 700 W (was 450 W)")
    # A cap offers a part of the limit that top has read last.
    wait_until(lambda: "/450 " not in screen.text(), screen.text)
    # A plan is that of its own dialog, and comes again with it.
    screen.press(b"p")
    screen.press(b"\x1b")
    time.sleep(0.1)  # Escape alone is a key when nothing follows it
    screen.press(b"c")
    screen.wait_for("Cordon GPU 1")
    screen.press(b"x")
    screen.wait_for("[ x_ ]")
    assert "power limit" not in screen.text()
    screen.press(b"\x1b")
    time.sleep(0.1)
    screen.press(b"p")
    screen.wait_for("power limit 700 W -> 560 W")
    screen.press(b"\x1b")
    time.sleep(0.1)
    screen.press(b"q")
    assert screen.ended() == 0


def test_a_signal_reaches_the_chosen_process(daemon, world, top):
    world.start("--gpus", "2", "--load", "idle")
    yard = daemon(GPUYARD_SIM_WORLD=str(world.directory))
    victim, other = (subprocess.Popen(["sleep", "1000"]) for _ in range(2))
    try:
        world.attach(0, victim.pid, "--vram", "2G")
        world.attach(1, other.pid, "--vram", "1G")
        screen = top("--socket", yard.socket, size=(24, 100))
        screen.press(b"2")
        screen.wait_for(str(victim.pid))
        screen.wait_for(str(other.pid))
        screen.press(b"/pid==%d\r" % victim.pid)
        wait_until(lambda: str(other.pid) not in screen.text(), screen.text)
        screen.press(b"x")
        screen.wait_for(f"Send a signal to process {victim.pid}")
        screen.press(b"\r")
        assert victim.wait(10) == -signal.SIGTERM
        screen.wait_for("SIGTERM sent to process")
        assert other.poll() is None
    finally:
        for process in (victim, other):
            process.kill()
            process.wait()


def test_a_verb_runs_on_the_users_own_screen(shared, top):
    screen = top("--socket", shared("--simulate", "2").socket)
    screen.wait_for("why")
    screen.press(b":version\r")
    wait_until(lambda: b"Press Enter to return" in screen.read(), lambda: screen.written[-300:])
    assert re.search(rb"gpuyard \d+\.\d+", screen.written)
    screen.press(b"\r")
    screen.wait_for("SM% last 16 s")
    # Ctrl-C is the verb's.
    screen.written = b""
    screen.press(b":watch\r")
    wait_until(lambda: b"THROTTLED" in screen.read() or b"UTIL" in screen.read(), lambda: screen.written[-300:])
    screen.press(b"\x03")
    wait_until(lambda: b"Press Enter to return" in screen.read(), lambda: screen.written[-300:])
    screen.press(b"\r")
    screen.written = b""
    screen.press(b"2")
    screen.wait_for("COMMAND")
    screen.press(b"q")
    assert screen.ended() == 0


def test_copy_key_writes_uuid_to_clipboard(shared, top):
    screen = top("--no-mouse", "--socket", shared("--simulate", "2").socket)
    screen.wait_for("why")
    screen.press(b"y")
    screen.wait_for("copied")
    copied = re.search(rb"\x1b\]52;c;([A-Za-z0-9+/=]*)\x07", screen.read())
    assert base64.b64decode(copied[1]).startswith(b"GPU-")
    assert MOUSE_ON not in screen.written
    screen.press(b"q")
    assert screen.ended() == 0


def test_past_moment_shows_its_values(shared, top, run):
    yard = shared("--simulate", "2")
    wait_until(lambda: len(json.loads(yard.get("/api/gpu/devices/0/history?metric=power&since=30s").text)["points"]) > 4,
               "some seconds of history")
    at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() - 2))
    told = yard.get(f"/api/gpu/snapshot?at={at}").json()
    shown = run("top", "--once", "--at", at, "--socket", yard.socket, "--charset", "ascii").stdout
    assert "PAST" in shown and re.search(r"(?m)^ \|[-#*!X]+\| now$", shown)
    for device in told["devices"]:
        watts = device["readings"]["power_draw_w"]
        assert re.search(rf"(?m)^[> ]{device['index']} .* {round(watts)}/700 ", shown), shown
    screen = top("--socket", yard.socket)
    screen.wait_for("why")
    screen.press(b"-+[")
    screen.wait_for("PAST")
    screen.press(b"p")
    screen.wait_for("the past cannot be changed")
    screen.press(b"L")
    screen.wait_for("SIMULATED")


def test_recording_is_drawn_the_same_in_every_locale(run):
    def once(*arguments, **environment):
        done = run("top", "--replay", str(RECORDING), "--once", "--size", "80x24", "--charset", "block",
                   *arguments, **environment)
        assert done.returncode == 0, done.stderr
        return done.stdout

    drawn = once("--at", "5s")
    assert drawn == once("--at", "5s") == once("--at", "5s", LC_ALL="C") == once("--at", "5s", LC_ALL="de_DE.UTF-8")
    assert "REPLAY" in drawn and drawn != once()
    assert len(drawn.splitlines()) == 24
    late = run("top", "--replay", str(RECORDING), "--once", "--at", "3d")
    assert late.returncode == 2 and "s long" in late.stderr
    assert run("top", "--replay", str(RECORDING), "--once", "--simulate", "2").returncode == 2


def test_plain_option_prints_sentences(shared, run, tmp_path):
    yard = shared("--simulate", "2")
    done = run("top", "--plain", "--once", "--socket", yard.socket)
    assert re.match(r"GPU 0: utilisation \d+ %, power \d+ W, temperature \d+ C, memory \d+\.\d GiB, no user", done.stdout), done.stdout
    going = subprocess.Popen([PROGRAM, "top", "--plain", "--socket", yard.socket], stdout=subprocess.PIPE, text=True)
    assert going.stdout.readline().startswith("GPU 0: ")
    going.send_signal(signal.SIGTERM)
    assert going.wait(10) == 0
    going.stdout.close()


def test_a_filter_chooses_rows_in_top_and_query(shared, run):
    yard = shared("--simulate", "4")
    shown = run("top", "--once", "--filter", "gpu>=1 & gpu<3", "--socket", yard.socket).stdout
    assert re.findall(r"(?m)^[> ](\d) ", shown) == ["1", "2"]
    asked = run("query", "--fields", "index", "--where", "gpu>=1 & gpu<3", "--format", "csv,noheader", "--socket", yard.socket)
    assert asked.stdout.split() == ["1", "2"]
    assert run("query", "--fields", "index", "--where", "!util & util", "--format", "csv,noheader", "--socket",
               yard.socket).stdout == ""
    here = run("query", "--fields", "index", "--where", "power>0", "--format", "csv,noheader", "--simulate", "2")
    assert here.stdout.split() == ["0", "1"]
    for arguments in (("top", "--once", "--filter", "temp>"), ("query", "--fields", "index", "--where", "temp>")):
        wrong = run(*arguments, "--socket", yard.socket)
        assert wrong.returncode == 2 and "column 6" in wrong.stderr, wrong.stderr
