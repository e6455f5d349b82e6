"""gpuyard run against a daemon that does what a test wants: what the launcher sends, when the command
runs, and what becomes of it when the daemon is gone or refuses.
"""

import json
import os
import pty
import resource
import select
import signal
import subprocess
import sys
import termios
import time

import pytest

from fake_leasing import GPU, place
from program import (PATIENCE, PROGRAM, children, clean_environment, command_line, read_until, state_of,
                     wait_until)
from schemas import validate


@pytest.fixture
def launch(tmp_path, leasing):
    """Starts `gpuyard run WORDS`; it is killed after the test."""
    started = []

    def go(*words, **options):
        environment = clean_environment(tmp_path, GPUYARD_SOCKET=leasing.socket)
        one = subprocess.Popen([PROGRAM, "run", *words], text=True, stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment,
                               **options)
        started.append(one)
        return one

    yield go
    for one in started:
        one.kill()
        one.communicate()


@pytest.fixture
def granted(launch, leasing):
    """The same with its lease granted at once."""
    def go(*words, **options):
        one = launch(*words, **options)
        leasing.next_claim()
        leasing.grant()
        return one
    return go


def end_of(process):
    out, err = process.communicate(timeout=PATIENCE)
    return process.returncode, out, err


def path_of(tmp_path, name):
    return tmp_path / name


def appears(path):
    return wait_until(lambda: path.exists() and path.read_text().endswith("\n") and path.read_text(),
                      f"{path.name} to be written")


def test_claim_matches_command_line_options(launch, leasing):
    launch("-n", "2", "--min-free", "20G", "--model", "H100", "--among", "0,GPU-1", "--max-time", "2h",
           "--wait", "1h", "--note", "thesis", "--", "true")
    wish = leasing.next_claim()
    assert wish.pop("id")
    assert {key: value for key, value in wish.items() if value is not None} == {
        "gpus": 2, "min_free_bytes": 20 << 30, "model": "H100", "among": ["0", "GPU-1"],
        "max_time_s": 7200, "wait_s": 3600, "binding": "run", "note": "thesis", "stream": True}


def test_command_gets_gpus_in_environment_and_arguments(granted, leasing):
    code, out, _ = end_of(granted("--", "sh", "-c", "env; echo $0", "device={uuids}:{indices}"))
    variables = dict(line.split("=", 1) for line in out.splitlines() if "=" in line)
    assert code == 0
    assert variables["CUDA_VISIBLE_DEVICES"] == GPU["uuid"]
    assert variables["CUDA_DEVICE_ORDER"] == "PCI_BUS_ID"
    assert variables["GPUYARD_LEASE"] == leasing.name() and variables["GPUYARD_FENCE"] == "7"
    assert variables["GPUYARD_SOCKET"] == leasing.socket
    assert f"device={GPU['uuid']}:3" in out
    assert leasing.released == [f"/api/gpu/leases/{leasing.name()}?fence=7"]


@pytest.mark.parametrize("command, code", [
    (("true",), 0), (("sh", "-c", "exit 42"), 42), (("sh", "-c", "kill -TERM $$"), 128 + 15),
    (("sh", "-c", "kill -KILL $$"), 128 + 9), (("/nowhere/command",), 127), (("/etc/passwd",), 126)])
def test_exit_status_is_that_of_command(granted, leasing, command, code):
    done, out, err = end_of(granted("--", *command))
    assert (done, out) == (code, ""), err
    assert len(leasing.released) == 1
    assert ("running" in err) == (code in (126, 127))


def test_command_starts_only_after_member_is_registered(granted, leasing):
    code, out, _ = end_of(granted("--", "sh", "-c", "echo $$"))
    assert code == 0
    assert leasing.members == [{"pid": int(out), "fence": 7}]


def test_command_refused_as_member_never_runs(granted, leasing, tmp_path):
    leasing.refuse["member"] = (409, "conflict", "the fence is another grant's")
    mark = path_of(tmp_path, "mark")
    code, out, err = end_of(granted("--", "touch", str(mark)))
    assert (code, out) == (7, "")
    assert "not started" in err and "another grant's" in err
    assert not mark.exists() and len(leasing.released) == 1


UNAVAILABLE = (503, "unavailable", "the leases from before the restart are still being checked; try again in a moment")


def test_busy_daemon_is_retried_before_command_starts(granted, leasing):
    leasing.refuse["member"] = UNAVAILABLE
    one = granted("--", "echo", "ran")
    wait_until(lambda: len(leasing.members) >= 2, "it to be asked again")
    leasing.refuse.clear()
    code, out, err = end_of(one)
    assert (code, out) == (0, "ran\n") and "still being checked" in err and "retrying" in err
    assert all(member == leasing.members[0] for member in leasing.members)


def test_daemon_restart_before_command_start_is_survived(launch, leasing):
    leasing.members_answered.clear()
    one = launch("--", "echo", "ran")
    leasing.next_claim()
    leasing.grant()
    wait_until(lambda: leasing.members, "the command to be told of")
    leasing.stop()
    leasing.start()
    leasing.members_answered.set()
    assert end_of(one)[:2] == (0, "ran\n")
    assert len(leasing.members) == 2


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("asking_again", [False, True])
def test_signal_before_command_start_releases_lease(granted, leasing, tmp_path, number, asking_again):
    mark = path_of(tmp_path, "mark")
    if asking_again:
        leasing.refuse["member"] = UNAVAILABLE
    else:
        leasing.members_answered.clear()
    one = granted("--", "touch", str(mark))
    wait_until(lambda: leasing.members, "the command to be told of")
    one.send_signal(number)
    leasing.members_answered.set()
    code, out, _ = end_of(one)
    assert (code, out) == (128 + number, "")
    assert not mark.exists() and len(leasing.released) == 1


def test_command_killed_before_start_reports_signal_status(granted, leasing):
    leasing.members_answered.clear()
    one = granted("--", "echo", "ran")
    wait_until(lambda: leasing.members, "the command to be told of")
    os.kill(leasing.members[0]["pid"], signal.SIGKILL)
    leasing.members_answered.set()
    assert end_of(one)[:2] == (128 + signal.SIGKILL, "")


def test_busy_daemon_is_retried_at_release(granted, leasing):
    leasing.refuse["release"] = UNAVAILABLE
    one = granted("--", "sh", "-c", "exit 3")
    wait_until(lambda: len(leasing.released) >= 2, "it to be asked again")
    leasing.refuse.clear()
    code, _, err = end_of(one)
    assert code == 3 and "retrying" in err and "1.5 kJ" in err


def test_interrupted_release_returns_command_status(granted, leasing):
    leasing.refuse["release"] = UNAVAILABLE
    one = granted("--", "sh", "-c", "exit 3")
    wait_until(lambda: len(leasing.released) >= 2, "it to be asked again")
    one.send_signal(signal.SIGINT)
    code, _, err = end_of(one)
    assert code == 3 and "releasing the lease: the leases from before the restart are still being checked" in err


def test_summary_reports_usage_and_exit_code(granted, tmp_path):
    file = path_of(tmp_path, "summary.json")
    code, out, err = end_of(granted("--summary", str(file), "--", "sh", "-c", "exit 3"))
    assert (code, out) == (3, "")
    assert len(err.splitlines()) == 1
    for part in ("GPU 3 (H100)", "1.5 kJ", "5.0 GiB", "87 %"):
        assert part in err, err
    summary = json.loads(file.read_text())
    validate(summary, "run")
    assert summary["exit_code"] == 3 and summary["simulated"]
    assert summary["lease"]["use"]["energy_mj"] == 1500000


def test_quiet_prints_no_output(granted):
    assert end_of(granted("--quiet", "--", "true")) == (0, "", "")


def test_unwritable_summary_fails_before_claiming(launch, leasing):
    code, out, err = end_of(launch("--summary", "/nowhere/summary.json", "--", "true"))
    assert code != 0 and out == ""
    assert "/nowhere/summary.json" in err and leasing.claims == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT,
                                    signal.SIGUSR1, signal.SIGUSR2])
def test_signals_are_passed_on(granted, tmp_path, number):
    name = number.name.removeprefix("SIG")
    mark = path_of(tmp_path, "mark")
    one = granted("--", "sh", "-c", f"trap 'echo got {name}; exit 9' {name}; echo >{mark}; "
                  "while :; do sleep 0.02; done")
    appears(mark)
    one.send_signal(number)
    code, out, _ = end_of(one)
    assert (code, out) == (9, f"got {name}\n")


def test_command_runs_in_own_process_group(granted, tmp_path):
    mark = path_of(tmp_path, "mark")
    one = granted("--", "sh", "-c", f"ps -o pgid= -p $$ | tr -d ' ' >{mark}; echo $$")
    group = int(appears(mark))
    _, out, _ = end_of(one)
    assert group == int(out) != os.getpgid(0)


def test_command_inherits_no_descriptors_limits_or_signal_mask(granted):
    usual = resource.getrlimit(resource.RLIMIT_NOFILE)
    code, out, _ = end_of(granted("--", sys.executable, "-c", (
        "import os, resource, signal\n"
        "print(sorted(int(fd) for fd in os.listdir('/proc/self/fd')))\n"
        "print(resource.getrlimit(resource.RLIMIT_NOFILE))\n"
        "print(open('/proc/self/status').read().split('SigBlk:')[1].split()[0])\n")))
    descriptors, limit, blocked = out.splitlines()
    assert code == 0
    assert descriptors == "[0, 1, 2, 3]", "3 is the directory that is being read"
    assert limit == str(usual)
    assert int(blocked, 16) == 0


def test_wait_timeout_is_exit_code_7_with_reason(shell, leasing):
    run_in(shell, leasing, "--wait 1s -- echo ran", grant=False)
    leasing.tell("waiting", place=place(2, "all GPUs are in use"))
    shell.until("position 2")  # the reason has arrived
    shell.text = ""
    leasing.tell("ended", ending="gave_up", gpus=[])
    text = shell.until("$ ")
    assert "timed out waiting for" in text and "all GPUs are in use" in text and "ran" not in text
    shell.type("echo co''de=$?\n")
    shell.until("code=7")


def test_unsatisfiable_claim_exits_2_with_reason(launch, leasing):
    leasing.refuse["claim"] = (400, "invalid", "no GPU here is an A100")
    code, out, err = end_of(launch("--model", "A100", "--", "echo", "ran"))
    assert (code, out) == (2, "") and "no GPU here is an A100" in err


def test_claim_is_repeated_to_starting_daemon(launch, leasing):
    leasing.refuse["claim"] = UNAVAILABLE
    one = launch("--", "echo", "ran")
    first = leasing.next_claim()
    leasing.next_claim()
    leasing.refuse.clear()
    wait_until(lambda: leasing.streams, "the claim to be taken")
    leasing.grant()
    assert end_of(one)[:2] == (0, "ran\n")
    assert all(claim == first for claim in leasing.claims)


def test_unanswered_claim_is_sent_again(launch, leasing):
    leasing.silent = 1
    one = launch("--", "echo", "ran")
    first = leasing.next_claim()
    assert leasing.next_claim() == first
    leasing.grant()
    assert end_of(one)[:2] == (0, "ran\n")


def test_stream_refusal_falls_back_to_plain_claim(launch, leasing):
    leasing.no_streams = True
    assert end_of(launch("--", "echo", "ran"))[:2] == (0, "ran\n")
    assert [claim["stream"] for claim in leasing.claims] == [True, False]
    assert leasing.claims[0]["id"] == leasing.claims[1]["id"]


def test_connection_quota_refusal_is_retried(launch, leasing):
    leasing.no_streams = True
    leasing.refuse["claim"] = (503, "busy", "you have reached the maximum number of open connections")
    one = launch("--", "echo", "ran")
    leasing.next_claim()
    leasing.next_claim()
    leasing.refuse.clear()
    assert end_of(one)[:2] == (0, "ran\n")
    assert [claim["stream"] for claim in leasing.claims[:3]] == [True, False, False]


def test_no_wait_fails_at_once_on_busy_daemon(launch, leasing):
    leasing.refuse["claim"] = UNAVAILABLE
    began = time.monotonic()
    code, out, err = end_of(launch("--no-wait", "--", "echo", "ran"))
    assert (code, out) == (5, "") and "still being checked" in err
    assert time.monotonic() - began < 5


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signal_while_waiting_cancels_claim(launch, leasing, number):
    one = launch("--", "echo", "ran")
    wish = leasing.next_claim()
    leasing.tell("waiting", place=place(1, "all GPUs are in use"))
    one.send_signal(number)
    code, out, err = end_of(one)
    assert (code, out, err) == (128 + number, "", "")
    assert leasing.released == [f"/api/gpu/leases/{wish['id']}"]


def test_signal_while_waiting_ends_despite_hanging_daemon(launch, leasing):
    one = launch("--", "echo", "ran")
    leasing.next_claim()
    leasing.answer_release = False
    began = time.monotonic()
    one.send_signal(signal.SIGINT)
    code, _, err = end_of(one)
    assert code == 130 and "cancelling the claim" in err
    assert time.monotonic() - began < 5


def test_nohup_keeps_hangup_ignored(launch, leasing):
    one = launch("--", "echo", "ran", preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
    leasing.next_claim()
    one.send_signal(signal.SIGHUP)
    leasing.grant()
    assert end_of(one)[:2] == (0, "ran\n")


def test_claim_is_repeated_to_restarted_daemon(launch, leasing):
    one = launch("--", "echo", "ran")
    first = leasing.next_claim()
    leasing.tell("waiting", place=place(1, "all GPUs are in use"))
    leasing.stop()
    leasing.start()
    assert leasing.next_claim() == first
    leasing.grant()
    assert end_of(one)[:2] == (0, "ran\n")


def test_claim_lost_by_daemon_is_made_again(launch, leasing):
    one = launch("--", "echo", "ran")
    first = leasing.next_claim()
    leasing.tell("waiting", place=place(1, "all GPUs are in use"))
    leasing.stop()
    leasing.start()
    assert leasing.next_claim() == first
    another = "2026-01-31T12:34:56Z"
    leasing.tell("waiting", place=place(9, "all GPUs are in use"), asked=another)
    leasing.tell("held", asked=another)
    code, out, err = end_of(one)
    assert (code, out) == (0, "ran\n") and "lost this claim" in err, err


def test_command_outliving_daemon_has_unknown_usage(granted, leasing, tmp_path):
    mark, go, file = (path_of(tmp_path, name) for name in ("mark", "go", "summary"))
    one = granted("--summary", str(file), "--", "sh", "-c",
                  f"echo >{mark}; until [ -e {go} ]; do sleep 0.02; done; exit 4")
    appears(mark)
    leasing.stop()
    go.touch()
    said = read_until(one.stderr, "retrying")
    one.send_signal(signal.SIGINT)  # else it is asked again for half a minute
    code, out, err = end_of(one)
    err = said + err
    assert (code, out) == (4, "") and "releasing the lease" in err and "usage unknown" in err
    assert json.loads(file.read_text())["lease"]["use"] is None


def test_forced_drain_is_reported_and_command_continues(granted, leasing, tmp_path):
    mark, go = path_of(tmp_path, "mark"), path_of(tmp_path, "go")
    one = granted("--", "sh", "-c", f"echo >{mark}; until [ -e {go} ]; do sleep 0.02; done; exit 5")
    appears(mark)
    leasing.tell("draining", ending="forced", why="maintenance")
    read_until(one.stderr, "an administrator ended the lease: maintenance")
    assert one.poll() is None
    go.touch()
    assert end_of(one)[0] == 5


def test_finished_background_process_is_not_leftover(granted):
    code, _, err = end_of(granted("--", "sh", "-c", "(true &) ; sleep 0.2"))
    assert code == 0 and "still run" not in err


class Shell:
    """A shell with job control on a terminal of its own."""

    def __init__(self, environment):
        pid, self.terminal = pty.fork()
        if pid == 0:
            os.execvpe("bash", ["bash", "--norc", "--noprofile", "-i"],
                       environment | {"PS1": "$ ", "PROMPT_COMMAND": ""})
        self.pid = pid
        self.text = ""
        flags = termios.tcgetattr(self.terminal)
        flags[3] &= ~termios.ECHO
        termios.tcsetattr(self.terminal, termios.TCSANOW, flags)

    def type(self, text):
        self.text = ""
        os.write(self.terminal, text.encode())

    def until(self, what):
        deadline = time.monotonic() + PATIENCE
        while what not in self.text:
            assert time.monotonic() < deadline, self.text
            if not select.select([self.terminal], [], [], 1)[0]:
                continue
            self.text += os.read(self.terminal, 4096).decode()
        return self.text

    def foreground(self):
        """The process group that has the terminal."""
        return os.tcgetpgrp(self.terminal)

    def below(self):
        """All processes that it began, and those that these began."""
        found = children(self.pid)
        for pid in found:
            found += children(pid)
        return found

    def wait_until_it_waits(self, *others):
        """Waits until the shell, a script in it and `others` wait for their commands: a shell that is about to fork
        may miss Ctrl-C."""
        def waits(pid):
            with open(f"/proc/{pid}/wchan", encoding="ascii") as file:
                return file.read() == "do_wait"
        # Queried each time: a shell may become its last command.
        def shells():
            return [self.pid, *(pid for pid in self.below() if command_line(pid).startswith(("bash", *others)))]
        wait_until(lambda: all(map(waits, shells())), "the shells to wait")

    def end(self):
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self.terminal)


@pytest.fixture
def shell(tmp_path, leasing):
    one = Shell(clean_environment(tmp_path, GPUYARD_SOCKET=leasing.socket))
    yield one
    one.end()


def run_in(shell, leasing, words, grant=True):
    shell.type(f"{PROGRAM} run {words}\n")
    leasing.next_claim()
    if grant:
        leasing.grant()


def test_ctrl_z_stops_both_and_fg_goes_on(shell, leasing):
    run_in(shell, leasing, "-- sh -c 'echo be''gun; read line; echo got $line'")
    shell.until("begun")
    shell.type("\x1a")
    shell.until("Stopped")
    shell.type("fg\n")
    shell.until("run --")
    shell.type("hello\n")
    shell.until("got hello")
    shell.until("gpuyard: ")
    shell.type("echo code=$?\n")
    shell.until("code=0")


def test_ctrl_c_ends_command_and_surrounding_loop(shell, leasing):
    shell.type(f"for i in 1 2 3; do {PROGRAM} run -- sh -c 'echo be''gun; exec sleep 60'; done; echo co''de=$?\n")
    leasing.next_claim()
    leasing.grant()
    shell.until("begun")
    shell.wait_until_it_waits()
    shell.type("\x03")
    shell.until("gpuyard: ")
    shell.type("echo co''de=$?\n")
    shell.until("code=130")
    assert len(leasing.claims) == 1


def test_ctrl_c_while_waiting_cancels_the_claim(shell, leasing):
    run_in(shell, leasing, "-- echo ran", grant=False)
    leasing.tell("waiting", place=place(3, "all GPUs are in use"))
    shell.until("waiting for a GPU: position 3, all GPUs are in use")
    leasing.tell("waiting", place=place(2, "all GPUs are in use", 600))
    assert "\r\x1b[K" in shell.until("position 2, all GPUs are in use; wait about 10 min")
    shell.type("\x03")
    shell.until("$ ")
    shell.type("echo co''de=$?\n")
    shell.until("code=130")
    assert leasing.released == [f"/api/gpu/leases/{leasing.name()}"]


def test_a_pipeline_keeps_its_terminal(shell, leasing):
    shell.type(f"{PROGRAM} run --quiet -- echo ran | sh -c 'read x </dev/tty; cat; echo $x'\n")
    leasing.next_claim()
    leasing.grant()
    wait_until(lambda: leasing.released, "the command's end")
    shell.type("typed\n")
    assert "ran" in shell.until("typed")


def in_a_script(shell, leasing, script):
    """As a user's script would run it: a shell without job control above it."""
    shell.type(f"bash -c '{script}'; echo co''de=$?\n")
    leasing.next_claim()
    leasing.grant()


def test_a_script_and_its_commands_share_the_terminal(shell, leasing):
    in_a_script(shell, leasing, f"{PROGRAM} run --quiet -- head -n 1; head -n 1; exit 8")
    wait_until(lambda: leasing.members, "the command to begin")
    shell.type("one\n")
    shell.until("one")
    wait_until(lambda: leasing.released, "the command's end")
    shell.type("two\n")
    shell.until("two")
    shell.until("code=8")


def test_background_reader_keeps_terminal_while_command_runs(shell, leasing, tmp_path):
    go = path_of(tmp_path, "go")
    in_a_script(shell, leasing,
                f"(read x </dev/tty; echo got $x; touch {go}) & "
                f"{PROGRAM} run --quiet -- sh -c \"echo be\"\"gun; until [ -e {go} ]; do sleep 0.02; done\"; wait")
    shell.until("begun")
    shell.type("typed\n")
    shell.until("got typed")
    shell.until("code=0")


def test_ctrl_c_ends_script_and_its_command(shell, leasing):
    in_a_script(shell, leasing, f"{PROGRAM} run --quiet -- sh -c \"echo be\"\"gun; sleep 60\"; echo went on")
    shell.until("begun")
    shell.wait_until_it_waits("sh ")
    shell.type("\x03")
    assert "went on" not in shell.until("$ ")
    shell.type("echo co''de=$?\n")
    assert "went on" not in shell.until("code=130")
    assert len(leasing.released) == 1


def test_ctrl_z_stops_script_and_its_command(shell, leasing):
    in_a_script(shell, leasing,
                f"{PROGRAM} run --quiet -- sh -c \"echo be\"\"gun; read line; echo got \\$line\"; exit 8")
    shell.until("begun")
    shell.wait_until_it_waits()
    group = shell.foreground()
    shell.type("\x1a")
    shell.until("Stopped")
    shell.until("$ ")
    wait_until(lambda: all(state_of(pid) == "T" for pid in shell.below()), "all of them to stop")
    shell.type("fg >/dev/null; echo co''de=$?\n")
    wait_until(lambda: shell.foreground() == group, "the script to have the terminal again")
    shell.type("hello\n")
    shell.until("got hello")
    shell.until("code=8")


def test_the_command_has_the_terminal(shell, leasing):
    run_in(shell, leasing, "-- env PS1=inn''er: bash --norc --noprofile -i")
    shell.until("inner:")
    shell.type("echo in''side; exit 6\n")
    assert "no job control" not in shell.until("inside")
    shell.until("gpuyard: ")
    shell.type("echo code=$?\n")
    shell.until("code=6")


@pytest.fixture
def take(tmp_path, leasing):
    """`gpuyard lease take WORDS`, its stdout as a shell would redirect it."""
    def go(*words, to="", stdout=subprocess.PIPE):
        environment = clean_environment(tmp_path, GPUYARD_SOCKET=leasing.socket)
        command = f'exec "$0" lease take --ttl 1h "$@" {to}'
        return subprocess.run(["sh", "-c", command, PROGRAM, *words], text=True, env=environment,
                              stdout=stdout, stderr=subprocess.PIPE, timeout=PATIENCE, check=False)
    return go


@pytest.mark.parametrize("to", [">/dev/full", ">&-"])
@pytest.mark.parametrize("words", [(), ("--quiet", "--export"), ("--json",)])
def test_lease_with_unwritable_output_is_released(take, leasing, to, words):
    done = take(*words, to=to)
    assert done.returncode == 1 and "no GPUs were leased" in done.stderr, done
    assert leasing.released == [f"/api/gpu/leases/{leasing.name()}?fence=7"]


def test_lease_with_closed_output_pipe_is_released(take, leasing):
    reading, writing = os.pipe()
    os.close(reading)
    done = take(stdout=writing)
    os.close(writing)
    assert done.returncode == 1 and "no GPUs were leased" in done.stderr, done
    assert len(leasing.released) == 1


def test_lease_that_cannot_be_shown_is_released(take, leasing):
    leasing.refuse["show"] = (500, "internal", "no room")
    done = take("--json")
    assert done.returncode == 1 and done.stdout == "" and "no room" in done.stderr, done
    assert len(leasing.released) == 1
