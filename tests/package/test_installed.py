"""The package on a machine of its own, in the order of its life: installed, used, upgraded while leases
are held, watched over, downgraded, removed, purged."""

import http.client
import json
import socket
import subprocess
import threading
import time
from pathlib import Path

import pytest

SIMULATED = """[Service]
ExecStart=
ExecStart=/usr/bin/gpuyard serve --simulate 8 --load mixed
WatchdogSec=4
"""
CONFIGURATION = "[control]\nenabled = true\n"
PAGE = """#!/bin/sh
cp /proc/self/status /var/lib/gpuyard/paged
gpuyard cordon 7 --reason page > /var/lib/gpuyard/cordoned 2>&1
echo "status $?" >> /var/lib/gpuyard/cordoned
"""
ALERTS = '[sink.page]\nkind = "command"\nargv = ["/etc/gpuyard/page"]\n'
OF_MARKS = 0x400080004  # SYSLOG, SYS_PTRACE, DAC_READ_SEARCH


def status_of(machine, pid, field):
    text = machine.must("cat", f"/proc/{pid}/status")
    return next(line.split()[1] for line in text.splitlines() if line.startswith(field + ":"))


def answers(machine, path="/live"):
    """The status and body that the daemon answers on its socket, seen from outside; None: no daemon listens."""
    connection = http.client.HTTPConnection("gpuyard", timeout=5)
    try:
        with socket.socket(socket.AF_UNIX) as connection.sock:
            connection.sock.connect(f"/proc/{machine.init}/root/run/gpuyard/gpuyard.sock")
            connection.request("GET", path)
            response = connection.getresponse()
            return response.status, json.loads(response.read())
    except (OSError, http.client.HTTPException, ValueError):
        return None


def ready(machine):
    return machine.wait_until(lambda: (answers(machine, "/ready") or (0,))[0] == 200, "a daemon that is ready")


def leases(machine):
    listed = json.loads(machine.must("gpuyard", "leases", "--json", user="alice"))["leases"]
    return {one["id"]: one["fence"] for one in listed}


@pytest.fixture(scope="module")
def newer(deb, tmp_path_factory, packages):
    """The same package under a later version."""
    place = tmp_path_factory.mktemp("newer")
    subprocess.run(["dpkg-deb", "-R", str(deb), str(place / "tree")], check=True)
    control = place / "tree/DEBIAN/control"
    control.write_text(control.read_text(encoding="utf-8").replace("Version: ", "Version: 99:"), encoding="utf-8")
    made = packages / "newer.deb"
    subprocess.run(["dpkg-deb", "-b", "--root-owner-group", "-Zgzip", "-z1", str(place / "tree"), str(made)],
                   check=True, stdout=subprocess.DEVNULL)
    yield f"/mnt/packages/{made.name}"
    made.unlink()


def test_daemon_is_ready_before_apt_ends(machine, deb, figure, record_property):
    record_property("contract", "P1")
    began = time.monotonic()
    machine.must("dpkg", "-i", f"/mnt/packages/{deb.name}")
    assert machine.shown("ActiveState") == "active"
    figure("install to READY, seconds", f"{time.monotonic() - began:.2f}")
    assert machine.shown("StatusText") == "no GPU: NVML Shared Library Not Found"
    assert answers(machine, "/ready")[0] == 503, "it says so, and serves"
    assert "no Xids from the kernel log" not in machine.must("journalctl", "-u", "gpuyard"), \
        "it may read /dev/kmsg"
    doctor = machine.go("gpuyard", "doctor").stdout
    assert "the daemon runs without root as _gpuyard" in doctor and "Landlock" not in doctor
    assert "NVML Shared Library Not Found" in doctor and "{" not in doctor, doctor


def test_daemon_is_unprivileged_user_without_capabilities(machine, record_property):
    record_property("contract", "P2")
    pid = machine.shown("MainPID")
    for name in ("CapEff", "CapPrm", "CapBnd", "CapInh"):
        assert int(status_of(machine, pid, name), 16) == 0, name
    assert machine.must("id", "-un", status_of(machine, pid, "Uid")).strip() == "_gpuyard"
    assert machine.must("stat", "-c", "%U %a", "/var/lib/gpuyard", "/run/gpuyard").split("\n")[:2] == \
        ["_gpuyard 700", "_gpuyard 755"]
    assert "gpuyard" in machine.must("getent", "group", "gpuyard")
    assert "gpuyard" not in machine.must("id", "-Gn", "_gpuyard").split(), "people's group is not the daemon's"


def test_a_removal_without_leases_warns_of_none(machine, deb):
    removed = machine.go("env", "GPUYARD_HOST=https://127.0.0.1:1", "dpkg", "-r", "gpuyard")
    assert removed.returncode == 0 and "lease" not in removed.stderr, removed
    machine.must("dpkg", "-i", f"/mnt/packages/{deb.name}")


def test_all_users_read_but_only_group_sets(machine, record_property):
    record_property("contract", "P2")
    machine.must("useradd", "--create-home", "alice")
    machine.must("useradd", "--groups", "gpuyard", "bob")
    machine.write("/etc/systemd/system/gpuyard.service.d/simulated.conf", SIMULATED)
    machine.write("/etc/gpuyard/gpuyard.toml", CONFIGURATION)
    machine.write("/etc/gpuyard/alerts.toml", ALERTS)
    machine.write("/etc/gpuyard/page", PAGE)
    machine.must("chmod", "755", "/etc/gpuyard/page")
    machine.must("systemctl", "daemon-reload")
    machine.must("systemctl", "restart", "gpuyard")
    assert machine.shown("StatusText") == "monitoring 8 GPUs"
    ready(machine)
    assert len(json.loads(machine.must("gpuyard", "devices", "--json", user="alice"))["devices"]) == 8
    refused = machine.go("gpuyard", "power", "0", "300", "--yes", user="alice")
    assert refused.returncode == 4, refused
    machine.must("gpuyard", "power", "0", "300", "--yes", user="bob")
    assert "300" in machine.must("gpuyard", "power", user="alice")


def test_a_command_of_an_alert_has_no_capability(machine, record_property):
    record_property("contract", "P2")
    machine.must("gpuyard", "alerts", "test")
    paged = machine.wait_until(lambda: machine.go("cat", "/var/lib/gpuyard/paged").stdout, "the sink's command")
    of_command = dict(line.split(":\t", 1) for line in paged.splitlines() if ":\t" in line)
    for name in ("CapInh", "CapPrm", "CapEff", "CapAmb"):
        assert int(of_command[name], 16) == 0, name


def test_service_filters_system_calls_its_commands_may_make(machine, record_property):
    record_property("contract", "P2")
    # The service's own filter comes on top of systemd's, which the commands have too.
    pids = {what: machine.must("pgrep", "-f", f"gpuyard {what}").split()[0]
            for what in ("serve", "driver-host", "command-host")}
    filters = {what: int(status_of(machine, pid, "Seccomp_filters")) for what, pid in pids.items()}
    assert filters["serve"] == filters["driver-host"] == filters["command-host"] + 1, filters
    assert json.loads(machine.go("gpuyard", "doctor", "--json").stdout)["daemon"]["lacks"] == []


def test_a_command_of_an_alert_is_no_administrator(machine, record_property):
    record_property("contract", "P2")
    def ended():
        text = machine.go("cat", "/var/lib/gpuyard/cordoned").stdout
        return "status" in text and text
    said = machine.wait_until(ended, "the end of the sink's command")
    assert "status 4" in said and 'needs the scope "control"' in said, said


def test_setter_socket_belongs_to_daemon_user(machine, record_property):
    record_property("contract", "P2")
    assert machine.shown("ActiveState", "gpuyard-setter.socket") == "active"
    assert machine.must("stat", "-c", "%U %G %a", "/run/gpuyard-setter.sock").split() == ["_gpuyard", "_gpuyard", "660"]


def test_certificate_made_by_root_belongs_to_daemon(machine):
    machine.must("gpuyard", "tls", "init", "--name", "yard", "--state", "/var/lib/gpuyard")
    owners = machine.must("sh", "-c", "stat -c %U /var/lib/gpuyard/tls/* 2>/dev/null || "
                          "find /var/lib/gpuyard -name '*.pem' -exec stat -c %U {} +").split()
    assert owners and set(owners) == {"_gpuyard"}


def test_forced_release_signals_another_users_processes(machine):
    machine.must("systemd-run", "--uid=alice", "--unit=job", "gpuyard", "run", "--", "sleep", "1000")
    held = machine.wait_until(lambda: leases(machine), "the lease of a job")
    machine.must("gpuyard", "lease", "release", next(iter(held)), "--force", "--reason", "test", "--signal", "KILL")
    machine.wait_until(lambda: not leases(machine), "its end")
    assert machine.go("pgrep", "-x", "sleep").returncode != 0


# The daemon may not signal a user's processes, so the owner's own command sends the signal.
def test_owner_release_signals_own_processes(machine):
    machine.must("systemd-run", "--uid=alice", "--unit=job2", "gpuyard", "run", "--", "sleep", "1000")
    held = machine.wait_until(lambda: leases(machine), "the lease of a job")
    machine.must("gpuyard", "lease", "release", next(iter(held)), "--signal", "TERM", user="alice")
    machine.wait_until(lambda: not leases(machine), "its end")
    assert machine.go("pgrep", "-x", "sleep").returncode != 0


# Waits until another process, which it has not started, names its lease.
JOB = "echo $GPUYARD_LEASE >/tmp/lease; while test ! -e /tmp/orphan; do sleep 0.1; done"


def test_marked_process_of_another_user_keeps_lease(machine):
    machine.must("systemd-run", "--uid=alice", "--unit=job3", "gpuyard", "run", "--", "sh", "-c", JOB)
    lease = machine.wait_until(lambda: machine.go("cat", "/tmp/lease").stdout.strip(), "the lease of a job")
    machine.must("systemd-run", "--uid=alice", "--unit=orphan", f"--setenv=GPUYARD_LEASE={lease}", "sleep", "1000")
    pid = machine.shown("MainPID", "orphan.service")
    machine.must("touch", "/tmp/orphan")
    machine.wait_until(lambda: f"PID {pid} is still running" in machine.go("gpuyard", "leases", "--json").stdout,
                       "the process to be found by its mark")
    marks = machine.must("pgrep", "-f", "^/usr/bin/gpuyard marks").split()[0]
    assert int(status_of(machine, marks, "CapEff"), 16) == OF_MARKS
    assert status_of(machine, marks, "Seccomp") == "2"
    machine.must("systemctl", "stop", "orphan")
    machine.wait_until(lambda: not leases(machine), "its end")


def test_tls_key_readable_by_root_only_is_served(machine):
    """As certbot keeps it: in a folder of root's of mode 0700."""
    machine.must("gpuyard", "tls", "init", "--name", "yard", "--state", "/tmp/made")
    machine.must("sh", "-c", "install -d -m 0700 /etc/keys && cp /tmp/made/tls/*.pem /etc/keys && "
                 "chown root:root /etc/keys/* && chmod 0600 /etc/keys/*")
    machine.write("/etc/gpuyard/gpuyard.toml", CONFIGURATION + '[tls]\nlisten = ["127.0.0.1:9443"]\n'
                  'certificate = "/etc/keys/certificate.pem"\nkey = "/etc/keys/key.pem"\n')
    machine.must("systemctl", "restart", "gpuyard")
    ready(machine)
    assert "listening on https://127.0.0.1:9443" in machine.must("journalctl", "-u", "gpuyard", "-n", "20")
    machine.write("/etc/gpuyard/gpuyard.toml", CONFIGURATION)
    machine.must("systemctl", "restart", "gpuyard")
    ready(machine)


def test_forbidden_socket_is_not_a_missing_daemon(machine):
    machine.must("chmod", "0600", "/run/gpuyard/gpuyard.sock")
    refused = machine.go("gpuyard", "queue", user="alice")
    assert refused.returncode == 4, refused
    assert "not allowed to connect to /run/gpuyard/gpuyard.sock: Permission denied\n" \
        "  try:   ls -ld /run/gpuyard /run/gpuyard/gpuyard.sock\n" in refused.stderr
    doctor = machine.go("gpuyard", "doctor", user="alice").stdout
    assert "daemon  not allowed to connect to" in doctor and "not running" not in doctor, doctor
    machine.must("systemctl", "restart", "gpuyard")
    ready(machine)


def test_service_starts_once_its_port_is_free(machine):
    machine.must("systemctl", "stop", "gpuyard")
    machine.must("systemd-run", "--unit=taker", "gpuyard", "serve", "--simulate", "1", "--state", "/tmp/taker",
                 "--socket", "/tmp/taker/gpuyard.sock", "--listen", "127.0.0.1:9410")
    machine.wait_until(lambda: "listening on http" in machine.must("journalctl", "-u", "taker"), "the taker")
    assert machine.go("systemctl", "start", "gpuyard").returncode != 0
    log = machine.must("journalctl", "-u", "gpuyard", "-n", "20")
    assert "127.0.0.1:9410 is in use by another program" in log
    assert "try:   sudo ss -ltnp 'sport = :9410'  # that program; or set another address in [server] listen" in log
    machine.must("systemctl", "stop", "taker")
    ready(machine)


def test_tls_show_of_another_user_suggests_root(machine):
    shown = machine.go("env", "HOME=/home/alice", "gpuyard", "tls", "show", user="alice")
    assert shown.returncode == 6 and "  try:   sudo gpuyard tls show  #" in shown.stderr, shown


def test_repair_of_roots_files_in_the_state_is_named(machine):
    machine.must("systemctl", "stop", "gpuyard")
    machine.must("chown", "root:root", "/var/lib/gpuyard/lock", "/var/lib/gpuyard/tls/key.pem")
    assert machine.go("systemctl", "start", "gpuyard").returncode != 0
    repair = "chown -R --reference=/var/lib/gpuyard /var/lib/gpuyard"
    assert f"try:   sudo {repair}  #" in machine.must("journalctl", "-u", "gpuyard", "-n", "20")
    machine.must(*repair.split())
    ready(machine)
    assert machine.must("stat", "-c", "%U", "/var/lib/gpuyard/tls/key.pem").strip() == "_gpuyard"


class Absence(threading.Thread):
    """Polls the daemon; `longest` is the longest time without an answer."""

    def __init__(self, machine):
        super().__init__()
        self.machine, self.longest, self.ending = machine, 0.0, threading.Event()

    def run(self):
        last = time.monotonic()
        while not self.ending.is_set():
            if answers(self.machine):
                last = time.monotonic()
            else:
                self.longest = max(self.longest, time.monotonic() - last)
            time.sleep(0.005)


def test_upgrade_keeps_leases_with_short_outage(machine, newer, figure, record_property):
    record_property("contract", "P1")
    for _ in range(3):
        machine.must("gpuyard", "lease", "take", "--for", "4h", user="alice")
    held = leases(machine)
    assert len(held) == 3
    watch = Absence(machine)
    watch.start()
    machine.must("dpkg", "-i", newer)
    ready(machine)
    watch.ending.set()
    watch.join()
    assert leases(machine) == held
    figure("upgrade: nobody answered for, seconds", f"{watch.longest:.3f}")
    assert watch.longest < 10


def test_upgrade_on_full_disk_keeps_leases(machine, deb):
    held = leases(machine)
    machine.must("systemctl", "stop", "gpuyard")
    machine.must("sh", "-ec", "mkdir -p /srv/state && mount -t tmpfs -o size=8m tmpfs /srv/state && "
                 "cp -a /var/lib/gpuyard/state.db* /srv/state && mkdir /srv/state/world && "
                 "mount -t tmpfs tmpfs /srv/state/world && mount --rbind /srv/state /var/lib/gpuyard && "
                 "chown _gpuyard:_gpuyard /srv/state /srv/state/world && chmod 700 /srv/state /srv/state/world && "
                 "(cat /dev/zero >/srv/state/filler 2>/dev/null || true)")
    machine.must("dpkg", "-i", "--force-downgrade", f"/mnt/packages/{deb.name}")
    machine.wait_until(lambda: answers(machine), "a daemon")
    assert leases(machine) == held
    refused = machine.go("gpuyard", "lease", "take", "--for", "1h", "--no-wait", user="alice")
    assert refused.returncode != 0 and refused.stderr, "nothing is granted that is not on the disk"
    machine.must("sh", "-ec", "systemctl stop gpuyard; umount -R /var/lib/gpuyard /srv/state; systemctl start gpuyard")
    ready(machine)
    assert leases(machine) == held


def test_a_daemon_that_hangs_is_started_again(machine, figure, record_property):
    record_property("contract", "P1")
    held = leases(machine)
    before = int(machine.shown("NRestarts"))
    began = time.monotonic()
    machine.must("kill", "-STOP", machine.shown("MainPID"))
    machine.wait_until(lambda: int(machine.shown("NRestarts")) > before, "a restart by the watchdog")
    figure("SIGSTOP to restarted (WatchdogSec=4 here), seconds", f"{time.monotonic() - began:.1f}")
    ready(machine)
    assert leases(machine) == held
    assert "watchdog" in machine.must("journalctl", "-u", "gpuyard").lower()


def test_wrong_configuration_is_named_and_not_retried(machine):
    machine.write("/etc/gpuyard/gpuyard.toml", CONFIGURATION + "[server]\nlisten = [\"0.0.0.0:9410\"]\n")
    assert machine.go("systemctl", "restart", "gpuyard").returncode != 0
    assert machine.shown("ExecMainStatus") == "2" and machine.shown("ActiveState") == "failed"
    assert "/etc/gpuyard/gpuyard.toml:4" in machine.must("journalctl", "-u", "gpuyard")
    machine.write("/etc/gpuyard/gpuyard.toml", CONFIGURATION)
    machine.must("systemctl", "restart", "gpuyard")
    ready(machine)


def test_newer_schema_version_is_refused_with_remedy(machine):
    # Bytes 60 to 63 of SQLite's file are its user_version. (SQLite itself would follow the link of
    # /proc to the root of the tests' own machine.)
    state = Path(f"/proc/{machine.init}/root/var/lib/gpuyard/state.db")

    def set_layout(layout):
        with state.open("r+b") as file:
            file.seek(60)
            before = file.read(4)
            file.seek(60)
            file.write(layout)
        return before
    machine.must("systemctl", "stop", "gpuyard")
    layout = set_layout((999).to_bytes(4, "big"))
    machine.must("systemctl", "start", "gpuyard")
    reason = machine.wait_until(lambda: next((line for line in machine.must("journalctl", "-u", "gpuyard", "-n", "20").splitlines()
                                              if "layout 999" in line), ""), "the refusal")
    assert "move the file away" in reason and "newer" in reason
    machine.must("systemctl", "stop", "gpuyard")
    set_layout(layout)
    machine.must("systemctl", "start", "gpuyard")
    ready(machine)


def test_removal_names_leases_and_purge_removes_files(machine, record_property):
    record_property("contract", "P1")
    held = leases(machine)
    removed = machine.go("env", "GPUYARD_HOST=https://127.0.0.1:1", "dpkg", "-r", "gpuyard")
    assert removed.returncode == 0 and "these leases stay stored" in removed.stderr, removed
    assert any(lease[:8] in removed.stderr for lease in held), removed.stderr
    assert machine.go("test", "-d", "/var/lib/gpuyard").returncode == 0
    # Files of the tests there do not belong to the package.
    machine.must("sh", "-c", "rm -r /etc/systemd/system/gpuyard.service.d /etc/gpuyard/alerts.toml /etc/gpuyard/page /srv/state")
    machine.must("dpkg", "-P", "gpuyard")
    left = machine.must("find", "/", "-xdev", "-iname", "*gpuyard*", "-not", "-path", "/proc/*")
    left += machine.must("find", "/run", "-maxdepth", "1", "-name", "gpuyard*")
    assert left.split() == [], "no file of ours is left"
    assert machine.go("getent", "passwd", "_gpuyard").returncode == 0, "the user stays, as Debian has it"
