"""The rights of a program in place of each process of gpuyard, in the real units: the library of test_privileges.py,
preloaded, tries it. And that settings go through the units: bounds, rate, log, resets of a daemon that is root's."""

import json
import os
import subprocess
import sys
import time
from contextlib import contextmanager
from errno import EACCES, EAFNOSUPPORT, ENOENT, EPERM, EROFS, ESRCH
from pathlib import Path

import pytest

from machine import ROOT, booted

sys.path.insert(0, str(ROOT / "tests/process"))

UNITS = ("gpuyard.service", "gpuyard-marks@.service", "gpuyard-setter@.service")
WORLD = "/srv/world"
CONFIGURATION = """[control]
enabled = true
lowest_w = 250
highest_w = 500
reset_command = ["/usr/bin/gpuyard", "sim", "reset", "--as-driver", "--world", "/srv/world", "--gpu", "{uuid}"]
[driver]
nvml = "/usr/lib/gpuyard/sim/libnvidia-ml.so.1"
"""
ATTACK = "62"  # the signal
REFUSALS = {EACCES, EAFNOSUPPORT, ENOENT, EPERM, EROFS, ESRCH}


@pytest.fixture(scope="module")
def yard(packages, deb):
    """A machine with the package and four GPUs, which all of its processes find through its driver."""
    with booted(packages) as machine:
        machine.must("dpkg", "-i", f"/mnt/packages/{deb.name}")
        machine.must("useradd", "--create-home", "alice")
        machine.must("useradd", "--groups", "gpuyard", "bob")
        machine.must("systemd-run", "--unit=world", "sh", "-c",
                     f"gpuyard sim start --world {WORLD} --gpus 4 --load idle --setters everyone && sleep infinity")
        for unit in UNITS:
            machine.write(f"/etc/systemd/system/{unit}.d/world.conf",
                          f"[Service]\nEnvironment=GPUYARD_SIM_WORLD={WORLD}\nReadWritePaths={WORLD}\n")
        machine.write("/etc/gpuyard/gpuyard.toml", CONFIGURATION)
        restart(machine)
        yield machine


def restart(machine):
    machine.must("systemctl", "daemon-reload")
    machine.must("systemctl", "restart", "gpuyard")
    machine.wait_until(lambda: machine.go("gpuyard", "driver").returncode == 0, "a daemon with a driver")


def pid_of(machine, pattern):
    return machine.wait_until(lambda: machine.go("pgrep", "-f", pattern).stdout.split()[:1], pattern)[0]


def journal(machine, *units):
    return machine.must("journalctl", "--no-pager", "-o", "cat", *(f"--unit={unit}" for unit in units))


@contextmanager
def dropped_in(machine, text, units=UNITS[:1]):
    for unit in units:
        machine.write(f"/etc/systemd/system/{unit}.d/test.conf", text)
    restart(machine)
    try:
        yield
    finally:
        for unit in units:
            machine.must("rm", f"/etc/systemd/system/{unit}.d/test.conf")
        restart(machine)


def test_each_unit_is_little_exposed(yard, figure, record_property):
    record_property("contract", "P2")
    for unit in UNITS:
        text = yard.must("systemd-analyze", "security", "--no-pager", "--offline=true", f"/lib/systemd/system/{unit}")
        level = float(text.rsplit("Overall exposure level", 1)[1].split(":")[1].split()[0])
        figure(f"systemd-analyze security: {unit}", level)
        assert level <= 1.8, text


def hostile_library(directory):
    """The machine has no C++ library."""
    library = directory / "hostile.so"
    subprocess.run(["g++", "-shared", "-fPIC", "-static-libstdc++", "-static-libgcc", "-o", str(library),
                    str(ROOT / "tests/process/hostile.cpp")], check=True, timeout=120)
    return library.read_bytes()


class Attack:
    """Each process of the units with the library, and the victims: root's terminal, alice's process and file."""

    def __init__(self, machine, tmp_path):
        self.machine = machine
        place = Path(f"/proc/{machine.init}/root")
        (place / "usr/lib/hostile.so").write_bytes(hostile_library(tmp_path))
        self.master, self.slave = os.openpty()
        os.chmod(self.slave, 0o620)
        # A process that the daemon has nothing to do with.
        machine.must("systemd-run", "--uid=alice", "--unit=victim", "sleep", "1000")
        victim = machine.shown("MainPID", "victim.service")
        address = machine.must("cat", f"/proc/{victim}/maps").split("-")[0]
        machine.must("sh", "-c", "install -m 666 /dev/null /srv/everyones && "
                     "install -D -m 600 /dev/null /etc/keys/key.pem && chmod 700 /etc/keys")
        self.drop_in = "[Service]\n" + "".join(f"Environment={name}={value}\n" for name, value in {
            "LD_PRELOAD": "/usr/lib/hostile.so", "HOSTILE_TERMINAL": os.ttyname(self.slave),
            "HOSTILE_FILE": "/srv/everyones"}.items()) + \
            f'Environment="HOSTILE_VICTIM={victim} {address}"\n'

    def tried_by(self, pid):
        """The errno of each attempt of the process, by name."""
        before = journal(self.machine, "gpuyard*").count("hostile: ")
        self.machine.must("kill", "-s", ATTACK, pid)
        text = self.machine.wait_until(
            lambda: (said := journal(self.machine, "gpuyard*")).count("hostile: ") > before and said, "the attempts")
        line = text.rsplit("hostile: ", 1)[1].splitlines()[0]
        return {name: int(number) for name, number in (word.split("=") for word in line.split())}


OF_ROOT = {"terminal", "memory", "io_uring", "keyring", "mem_file", "environ", "trace", "kill", "shadow", "root_link",
           "key", "kernel_log", "mount", "klogctl", "raw_network"}


def test_request_parsing_processes_cannot_act_as_root(yard, tmp_path, record_property):
    record_property("contract", "P2")
    attack = Attack(yard, tmp_path)
    with dropped_in(yard, attack.drop_in, UNITS):
        yard.must("gpuyard", "power", "0", "300", "--yes", user="bob")  # there is a setter
        pids = {what: pid_of(yard, f"gpuyard {what}") for what in ("serve", "driver-host", "command-host", "marks", "setter")}
        tried = {what: attack.tried_by(pid) for what, pid in pids.items()}
        (Path(os.environ.get("GPUYARD_PACKAGES", ROOT / "build/package")) / "attack.json").write_text(
            json.dumps(tried, indent=1), encoding="utf-8")
        allowed = {what: {name for name, number in results.items() if number not in REFUSALS}
                   for what, results in tried.items()}
        # The daemon writes its state, and uses the network on which it listens.
        assert allowed["serve"] == {"state", "network"}
        assert allowed["driver-host"] & OF_ROOT == allowed["command-host"] & OF_ROOT == set()
        assert allowed["setter"] == {"change_log", "others_file"}
        # `marks` reads what only root may read, and can neither change nor send anything.
        assert allowed["marks"] <= {"mem_file", "environ", "shadow", "root_link", "key", "kernel_log", "others_file"}
        assert yard.go("gpuyard", "driver").returncode == 0, "errors, not signals"


def test_settings_go_through_the_units(yard, record_property):
    record_property("contract", "B6")
    for watts, key in (("501", "control.highest_w"), ("249", "control.lowest_w")):
        refused = yard.go("gpuyard", "power", "0", watts, "--yes", user="bob")
        assert refused.returncode == 2 and key in refused.stderr, refused
    yard.must("gpuyard", "power", "0", "300", "--yes", user="bob")
    assert yard.must("stat", "-c", "%U %a", "/var/lib/gpuyard-setter/changes.log").split() == ["_gpuyard-setter", "600"]
    # Within the daemon's Landlock, seccomp and limit of locked memory.
    journal = yard.must("sh", "-c", "stat -c '%U %a %s' /run/gpuyard/control-*.journal")
    assert journal.split() == ["_gpuyard", "600", "49152"]
    time.sleep(1)
    assert "matches the setter's log" in yard.must("gpuyard", "audit", "--verify")


def test_a_killed_helper_of_a_unit_is_replaced(yard):
    for what in ("setter", "marks", "driver-host", "command-host"):
        before = pid_of(yard, f"gpuyard {what}")
        yard.must("kill", "-9", before)
        done = yard.wait_until(lambda: (one := yard.go("gpuyard", "power", "1", "310", "--yes", user="bob")).returncode == 0
                               and one, f"a setting after the end of {what}")
        assert done.returncode == 0
        yard.must("gpuyard", "run", "--", "true", user="alice")


def test_stopped_setter_socket_refuses_settings(yard):
    yard.must("systemctl", "stop", "gpuyard-setter.socket")
    yard.go("pkill", "-9", "-f", "gpuyard setter")
    refused = yard.wait_until(lambda: (one := yard.go("gpuyard", "power", "0", "320", "--yes", user="bob")).returncode == 4
                              and one, "a refusal")
    assert "sudo systemctl start gpuyard-setter.socket" in refused.stderr, refused
    yard.must("systemctl", "start", "gpuyard-setter.socket")
    yard.wait_until(lambda: yard.go("gpuyard", "power", "0", "320", "--yes", user="bob").returncode == 0, "a setting")


def test_daemon_run_as_root_by_drop_in_resets(yard):
    yard.must("gpuyard", "power", "2", "400", "--yes", user="bob")
    with dropped_in(yard, "[Service]\nUser=root\n"):
        done = yard.go("gpuyard", "reset", "2", "--yes")
        assert done.returncode == 0, done.stdout + done.stderr
        assert "CapabilityBoundingSet=CAP_SYS_ADMIN" in yard.go("gpuyard", "doctor").stdout
        yard.must("gpuyard", "power", "2", "350", "--yes", user="bob")
    yard.must("gpuyard", "power", "2", "360", "--yes", user="bob")


def test_readonly_conf_link_still_allows_settings(yard):
    link = "/etc/systemd/system/gpuyard.service.d/readonly.conf"
    yard.must("ln", "-s", "/usr/share/gpuyard/readonly.conf", link)
    restart(yard)
    yard.must("gpuyard", "power", "3", "330", "--yes", user="bob")
    yard.must("rm", link)
    restart(yard)
