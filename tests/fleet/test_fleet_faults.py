"""gpuyard fleet while one of its machines is in trouble: that one is named with the reason, the others
are there as quickly as ever, and nothing is left behind."""

import json
import os
import signal
import time

import pytest

from asking import answered, hang_up, names, only_masters_are_left, problems, read, view
from program import PATIENCE, wait_until

SOON = 5  # seconds that others may take longer than before the fault, on a machine that is busy
ENDED = 5   # exit code if no machine answers


@pytest.fixture(autouse=True)
def whole(fleet):
    """Before a fault and after it all answer."""
    view(fleet)
    yield
    wait_until(lambda: answered(read(fleet.go("fleet", "--json", "--timeout", "2s"))) == names(fleet),
               "all machines to answer again")
    only_masters_are_left(fleet)


def took(answer, which):
    return max(one["took_s"] for one in answer["hosts"] if one["host"] in which)


def judge(fleet, table, said, answer, before, words):
    others = names(fleet)[1:]
    assert answered(answer) == others and list(problems(answer)) == ["n1"], answer["hosts"]
    line = next(line for line in said.splitlines() if line.startswith("n1: "))
    for word in words:
        assert word in line and word in problems(answer)["n1"], (line, problems(answer))
    rows = {row.split()[0]: row for row in table.splitlines()}
    assert all(" 4 " in rows[name] for name in others) and "unreachable" in rows["n1"], table
    assert "1 unreachable" in table
    assert took(answer, others) < before + SOON, answer["hosts"]


def in_trouble(fleet, fault, *words, within=6.0, anew=True, flags=("--timeout", "2s")):
    """Shows the fleet, as a table and as JSON at once, during the fault. anew: n1 needs a new login
    first. Both end within `within` seconds and name n1 with these words."""
    others = ",".join(names(fleet)[1:])
    if anew:
        hang_up(fleet)
    before = took(view(fleet, "--hosts", others), others.split(","))
    with fault:
        began = time.monotonic()
        table, document = (fleet.start("fleet", *form, *flags) for form in ((), ("--json",)))
        shown, said = table.communicate(timeout=PATIENCE)
        text, _ = document.communicate(timeout=PATIENCE)
        seconds = time.monotonic() - began
        assert table.returncode == document.returncode == 0, said
        judge(fleet, shown, said, read_text(text), before, words)
        assert seconds < 3 * within, seconds  # this machine may be busy
        only_masters_are_left(fleet)
        alone = fleet.go("fleet", "--hosts", "n1", "--timeout", "1s")
        assert alone.returncode in (4, ENDED) and not alone.stdout and "n1: " in alone.stderr, alone
        only_masters_are_left(fleet)


def read_text(text):
    return json.loads(text)


@pytest.fixture(autouse=True)
def contract(record_property):
    record_property("contract", "F4")


# The way there.


def test_silent_sshd_is_reported_as_not_responding(fleet):
    in_trouble(fleet, fleet.nodes[0].silent_sshd(), "does not respond")


def test_a_host_key_that_has_changed(fleet):
    in_trouble(fleet, fleet.nodes[0].other_host_key(), "its host key has changed", "administrator")


def test_unknown_host_key_is_reported_with_ssh_command(fleet):
    in_trouble(fleet, fleet.nodes[0].other_host_key(known=None), "does not know its host key", "`ssh n1`")


def test_an_sshd_that_asks_for_a_password(fleet):
    in_trouble(fleet, fleet.nodes[0].asks_for_password(), "Permission denied", "ssh-copy-id n1")


def test_a_machine_that_is_dead(fleet):
    in_trouble(fleet, fleet.nodes[0].dead(), "cannot be reached", "No route to host", within=9,
               flags=("--timeout", "6s"))


def test_a_machine_that_is_cut_off(fleet):
    in_trouble(fleet, fleet.nodes[0].cut_off(), "cannot be reached")


def test_machine_cut_off_behind_idle_master_times_out(fleet):
    in_trouble(fleet, fleet.nodes[0].cut_off(), "in time", anew=False)


def test_machine_cut_off_during_request_times_out(fleet):
    n1 = fleet.nodes[0]
    with n1.stopped_daemon():
        one = fleet.start("fleet", "--json", "--timeout", "4s")
        wait_until(fleet.sessions, "a request under way")
        with n1.cut_off():
            began = time.monotonic()
            text, _ = one.communicate(timeout=PATIENCE)
            assert time.monotonic() - began < 20
            answer = read_text(text)
            assert answered(answer) == names(fleet)[1:] and "in time" in problems(answer)["n1"]
            only_masters_are_left(fleet)


# The daemon, and what ssh runs.


def test_a_daemon_that_is_stopped(fleet):
    in_trouble(fleet, fleet.nodes[0].stopped_daemon(), "no response", anew=False)


def test_a_daemon_that_is_killed(fleet):
    in_trouble(fleet, fleet.nodes[0].killed_daemon(), "nothing is listening at", anew=False)


@pytest.mark.parametrize("hangs, words", [(True, "in time"), (False, "the connection was closed")])
def test_half_an_answer(fleet, hangs, words):
    in_trouble(fleet, fleet.nodes[0].half_an_answer(hangs), words, anew=False)


def test_a_login_shell_that_prints_ten_megabytes(fleet):
    in_trouble(fleet, fleet.nodes[0].big_banner(), "without a greeting", anew=False)


def test_login_shell_with_banner_is_accepted(fleet):
    with fleet.nodes[0].big_banner(5000):
        assert answered(view(fleet)) == names(fleet)


def test_a_machine_without_gpuyard(fleet):
    in_trouble(fleet, fleet.nodes[0].no_gpuyard(), "gpuyard was not found there", anew=False)


def test_a_daemon_that_is_older_than_this_view(fleet):
    n1 = fleet.nodes[0]
    in_trouble(fleet, n1.older_daemon("/api/gpu/brief", "/api/gpu/free"), "too old", anew=False)
    with n1.older_daemon("/api/gpu/free"):
        answer = view(fleet, "free")
        assert "n1" not in answered(answer) and "n1" in problems(answer), answer["hosts"]


# https.


# The user interrupts the command.


def begun(fleet, **options):
    """Starts `fleet` and waits until it is logged in to all but n1, whose sshd is silent."""
    one = fleet.start("fleet", "--timeout", "20s", **options)
    wait_until(lambda: len(fleet.ssh_masters()) == 7, "the others to be logged in to")
    time.sleep(0.3)
    return one


def ended(one):
    began = time.monotonic()
    table, said = one.communicate(timeout=PATIENCE)
    assert time.monotonic() - began < 4, "it does not wait for the silent one"
    return table, said


@pytest.mark.parametrize("to_all", [False, True])
def test_ctrl_c_prints_partial_table_and_missing_hosts(fleet, to_all):
    """A terminal sends it to every process that it runs, so to each ssh as well."""
    hang_up(fleet)
    with fleet.nodes[0].silent_sshd():
        one = begun(fleet, start_new_session=True)
        (os.killpg if to_all else os.kill)(one.pid, signal.SIGINT)
        table, said = ended(one)
        assert one.returncode in (-signal.SIGINT, 130)
        assert "7 machines" in table and "n1: " in said, (table, said)
        only_masters_are_left(fleet)
        assert len(fleet.ssh_masters()) == 7


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
def test_terminated_fleet_leaves_only_masters(fleet, number):
    hang_up(fleet)
    with fleet.nodes[0].silent_sshd():
        one = begun(fleet)
        one.send_signal(number)
        ended(one)
        assert one.returncode in (-number, 128 + number)
        only_masters_are_left(fleet)


def test_closed_output_pipe_ends_without_panic(fleet):
    one = fleet.enclosure.run("sh", "-c", f"{fleet.program} fleet gpus | head -1", env=fleet.environment)
    assert one.stdout.startswith("MACHINE") and "panic" not in one.stderr
    only_masters_are_left(fleet)


def test_fleet_does_not_read_stdin(fleet):
    """In `while read HOST`, ssh would eat the other lines."""
    words = f'printf "n1\\nn2\\nn3\\n" | while read host; do {fleet.program} fleet --hosts $host | sed -n 2p; done'
    shown = fleet.enclosure.must("bash", "-c", words, env=fleet.environment)
    assert [row.split()[0] for row in shown.splitlines()] == ["n1", "n2", "n3"]
