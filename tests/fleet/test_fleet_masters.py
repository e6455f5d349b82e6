"""The connections of ssh that gpuyard fleet leaves for the next time."""

import os
import signal
import stat
import time

import pytest

from asking import answered, hang_up, logins, names, only_masters_are_left, read, view
from node import SSHD
from program import PATIENCE, wait_until


@pytest.fixture(autouse=True)
def cold(fleet):
    hang_up(fleet)
    yield
    hang_up(fleet)


@pytest.fixture
def folder(fleet):
    return fleet.file("run") / "gpuyard-ssh"


def test_repeated_calls_reuse_one_login_per_machine(fleet, record_property):
    record_property("contract", "F2")
    before = logins(fleet)
    for _ in range(3):
        assert answered(view(fleet)) == names(fleet)
        assert logins(fleet) == [count + 1 for count in before]
    only_masters_are_left(fleet)
    assert len(fleet.ssh_masters()) == len(fleet.nodes)


def test_all_views_share_the_connections(fleet):
    view(fleet)
    before = logins(fleet)
    for words in (("gpus",), ("users",), ("free",), ("queue",), ("alerts",), ("usage",), ("doctor",)):
        view(fleet, *words)
    assert logins(fleet) == before


def test_hang_up_ends_masters_and_counts_them(fleet, folder, record_property):
    record_property("contract", "F2")
    view(fleet)
    assert fleet.must("fleet", "hang-up").startswith("8 connections closed")
    assert not fleet.ssh_processes() and not os.listdir(folder)
    assert fleet.must("fleet", "hang-up").startswith("0 connections closed")


def test_no_master_leaves_no_ssh(fleet, folder):
    assert answered(view(fleet, "--no-master")) == names(fleet)
    wait_until(lambda: not fleet.ssh_processes(), "every ssh to end")
    assert not os.listdir(folder)


def test_concurrent_views_leave_one_connection_per_machine(fleet):
    every = [fleet.start("fleet", "--json") for _ in range(3)]
    for one in every:
        text, _ = one.communicate(timeout=PATIENCE)
        assert one.returncode == 0 and text.count('"problem":null') == 8, text
    only_masters_are_left(fleet)
    assert len(fleet.ssh_masters()) == len(fleet.nodes)


def test_master_socket_folder_is_private_to_user(fleet, folder):
    view(fleet)
    found = os.stat(folder)
    assert stat.S_IMODE(found.st_mode) == 0o700 and found.st_uid == 0
    for name in os.listdir(folder):
        assert stat.S_IMODE(os.stat(folder / name).st_mode) == 0o600


@pytest.fixture
def own_tmp(fleet):
    """/tmp of its own, where a folder is made if there is none for it elsewhere."""
    if SSHD.is_relative_to("/tmp"):
        pytest.skip("this checkout lies in /tmp, and so does the sshd")
    fleet.enclosure.must("mount", "-t", "tmpfs", "-o", "mode=1777", "tmpfs", "/tmp")
    yield fleet.enclosure.outside("/tmp/gpuyard-0-ssh")
    fleet.enclosure.must("umount", "-l", "/tmp")


def test_foreign_master_folder_is_not_used(fleet, folder, own_tmp):
    os.chown(folder, 1000, 1000)
    try:
        assert answered(view(fleet)) == names(fleet)
        assert not os.listdir(folder) and len(os.listdir(own_tmp)) == 8
        hang_up(fleet)
        os.chown(own_tmp, 1000, 1000)
        done = fleet.go("fleet")
        assert done.returncode == 0 and "gpuyard-0-ssh belongs to another user" in done.stderr, done
        assert answered(view(fleet, "--no-master")) == names(fleet)
        assert not os.listdir(folder) and not os.listdir(own_tmp)
    finally:
        os.chown(folder, 0, 0)


def test_symlink_in_place_of_folder_is_not_followed(fleet, own_tmp):
    own_tmp.parent.joinpath("elsewhere").mkdir(mode=0o700)
    own_tmp.symlink_to("/tmp/elsewhere")
    done = fleet.go("fleet", XDG_RUNTIME_DIR="")
    assert done.returncode == 0 and "gpuyard-0-ssh is not a directory" in done.stderr, done
    assert not os.listdir(own_tmp.parent / "elsewhere")


@pytest.mark.parametrize("where", ["", "/run/fleet/client/" + "x" * 60])
def test_unusable_runtime_directory_falls_back_to_tmp(fleet, own_tmp, where):
    before = logins(fleet)
    for _ in range(2):
        assert answered(view(fleet, XDG_RUNTIME_DIR=where)) == names(fleet)
    assert logins(fleet) == [count + 1 for count in before] and len(os.listdir(own_tmp)) == 8
    assert fleet.must("fleet", "hang-up", XDG_RUNTIME_DIR=where).startswith("8 connections closed")


def test_killed_masters_stale_socket_is_replaced(fleet, folder):
    view(fleet)
    for pid in fleet.ssh_masters():
        os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not fleet.ssh_processes(), "the masters to end")
    assert len(os.listdir(folder)) == 8
    assert answered(view(fleet)) == names(fleet)
    for pid in fleet.ssh_masters():
        os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not fleet.ssh_processes(), "the masters to end")
    assert fleet.must("fleet", "hang-up").startswith("0 connections closed")
    assert not os.listdir(folder)


def test_stopped_master_is_reported_while_others_close(fleet, folder):
    view(fleet)
    stopped = fleet.ssh_masters()[0]
    os.kill(stopped, signal.SIGSTOP)
    try:
        answer = view(fleet, "--timeout", "1s")
        assert len(answered(answer)) == 7
        began = time.monotonic()
        done = fleet.go("fleet", "hang-up")
        assert time.monotonic() - began < 15 and done.returncode == 5, done
        assert done.stdout.startswith("7 connections closed")
        assert f"{folder}"[-20:] in done.stderr and "did not close" in done.stderr
        assert fleet.ssh_masters() == [stopped]
    finally:
        os.kill(stopped, signal.SIGCONT)


def test_existing_master_works_while_sshd_is_silent(fleet):
    view(fleet)
    with fleet.nodes[0].silent_sshd():
        assert answered(read(fleet.go("fleet", "--json"))) == names(fleet)
