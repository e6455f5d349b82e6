"""The setter, the only process that changes GPUs: what it refuses whatever its daemon asks, what happens when it
is killed or not there, and its own log beside the audit.
"""

import os
import socket
import sqlite3
import subprocess
import threading
import time
from contextlib import closing

import pytest

from control_client import become
from control_proof import accepted, as_root, limit
from control_yard import config_text
from program import PROGRAM, wait_until

pytestmark = as_root

SETTINGS = 5  # that are set on each GPU by set_all()


class Activator:
    """Acts as systemd with gpuyard-setter.socket: a setter for each connection, which it has as descriptor
    3, as the user `uid`."""

    def __init__(self, path, config, state, world, uid=None):
        self.path = str(path)
        self.command = [PROGRAM, "setter", "--config", str(config), "--state", str(state)]
        self.environment = os.environ | world.environment
        self.uid = uid
        self.children = []
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.listener.bind(self.path)
        os.chmod(self.path, 0o666)
        self.listener.listen()
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            self.children.append(subprocess.Popen(
                self.command, env=self.environment, user=self.uid, stdin=subprocess.DEVNULL, close_fds=False,
                preexec_fn=lambda taken=connection: os.dup2(taken.fileno(), 3)))
            connection.close()

    def running(self):
        return [child for child in self.children if child.poll() is None]

    def end(self):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        for child in self.running():
            child.kill()
            child.wait(30)


@pytest.fixture
def activated(control, world, tmp_path):
    """A yard whose daemon reaches its setter at a socket, and the one who listens there."""
    made = []

    def make(**options):
        yard = control(start=False)
        made.append(Activator(tmp_path / "setter.sock", yard.config, tmp_path / "state", world, **options))
        (tmp_path / "state").mkdir(exist_ok=True)
        return yard.start(GPUYARD_SETTER=str(tmp_path / "setter.sock")), made[0]

    yield make
    for one in made:
        one.end()


def set_all(yard, **wish):
    accepted(yard.root.power("all", 300, **wish))
    accepted(yard.root.clocks("all", 600, 1200, **wish))
    accepted(yard.root.put("all", "memory-clocks", {"min_clock_mhz": 2619, "max_clock_mhz": 2619} | wish))
    accepted(yard.root.persistence("all", True, **wish))
    accepted(yard.root.put("all", "compute-mode", {"compute_mode": "prohibited"} | wish))


def verify(yard, *words, log=None):
    """`gpuyard audit --verify`, of the log beside the daemon's state."""
    return subprocess.run(
        [PROGRAM, "audit", "--verify", "--log", log or f"{yard.daemon.state}/changes.log", *words],
        env=yard.daemon.environment | {"GPUYARD_SOCKET": yard.daemon.socket}, capture_output=True, text=True,
        timeout=60, check=False)


def verified(yard):
    done = verify(yard)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def replaced(yard, before):
    return wait_until(lambda: (pid := yard.daemon.setter()) not in (None, before) and pid, "another setter")


# ---- who runs

def test_without_control_there_is_no_setter(daemon):
    yard = daemon("--simulate", "1")
    wait_until(yard.driver_host, "the driver-host")
    assert yard.setter() is None


def test_a_setter_started_by_hand_says_so(run):
    done = run("setter")
    assert done.returncode == 2 and "must not be run by hand" in done.stderr


def test_a_killed_setter_is_replaced(control):
    yard = control()
    accepted(yard.a.power(0, 300))
    host = yard.daemon.driver_host()
    replaced(yard, yard.kill_setter())
    accepted(yard.a.power(0, 310))
    assert yard.daemon.driver_host() == host, "readings go on"
    accepted(yard.a.delete(0, "power-limit"), "restored")
    assert yard.writes() == [limit(300), limit(310), limit(700)]
    verified(yard)


def test_settings_are_restored_through_a_killed_setter(control, world):
    yard = control("--gpus", "64", "--load", "idle")
    set_all(yard, for_s=5)
    count = 64 * SETTINGS
    yard.wait_for_writes(count + 20)  # while they are put back
    yard.kill_setter()
    wait_until(lambda: yard.journal() == [], "nothing to be put back")
    assert len(yard.writes()) >= 2 * count
    assert {gpu["power_limit_w"] for gpu in world.status()["gpus"]} == {700}
    verified(yard)


# ---- what it refuses

def test_one_watt_beyond_a_bound_is_refused(control):
    yard = control(bounds={"lowest_w": 250, "highest_w": 500})
    for watts, key in ((501, "control.highest_w"), (249, "control.lowest_w")):
        refused = yard.root.power(0, watts)
        assert refused.status == 400 and key in refused.text, refused.text
    for watts in (500, 250):
        accepted(yard.root.power(0, watts))
    # The factory's limit is beyond the bound, and is restored all the same.
    accepted(yard.root.delete(0, "power-limit"), "restored")
    assert yard.writes() == [limit(500), limit(250), limit(700)]


def test_bounds_in_the_wrong_order_are_refused(tmp_path, run):
    config = tmp_path / "gpuyard.toml"
    config.write_text(config_text(bounds={"lowest_w": 500, "highest_w": 400}))
    done = run("serve", "--config", str(config), "--state", str(tmp_path / "state"))
    assert done.returncode == 2 and "control.lowest_w: 500 W is above control.highest_w" in done.stderr


def test_a_setter_obeys_the_file(control):
    yard = control()
    accepted(yard.a.power(0, 300))
    yard.config.write_text(yard.config.read_text().replace("enabled = true", "enabled = false"))
    yard.kill_setter()
    wait_until(lambda: yard.a.power(0, 310).status == 403, "a refusal")
    assert yard.writes() == [limit(300)]


# ---- at a socket

def test_a_setter_behind_a_socket_is_replaced(activated):
    yard, setters = activated()
    assert yard.daemon.setter() is None
    accepted(yard.a.power(0, 300))
    first = setters.running()[0]
    first.kill()
    wait_until(lambda: setters.running() not in ([], [first]), "another setter")
    accepted(yard.a.power(0, 310))
    assert yard.stop() == 0
    wait_until(lambda: not setters.running(), "the setter to end with its daemon")


def test_a_setter_behind_a_socket_allows_a_reset(control, world, tmp_path):
    yard = control(start=False, reset_command=[PROGRAM, "sim", "reset", "--as-driver", "--gpu", "{uuid}"])
    (tmp_path / "state").mkdir()
    setters = Activator(tmp_path / "setter.sock", yard.config, tmp_path / "state", world)
    try:
        yard.start(GPUYARD_SETTER=str(tmp_path / "setter.sock"))
        accepted(yard.root.power(0, 300))
        accepted(yard.root.reset(0))
        assert yard.wait_for_writes(3) == [limit(300), (0, "reset"), limit(300)]
    finally:
        setters.end()


def test_a_setter_refuses_a_stranger(control, world, tmp_path):
    yard = control()
    (tmp_path / "other").mkdir()
    setters = Activator(tmp_path / "setter.sock", yard.config, tmp_path / "other", world)
    said = []

    def ask():
        become(1234, 1234, ())
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
            connection.settimeout(30)
            connection.connect(setters.path)
            said.append(connection.recv(65536))
    try:
        thread = threading.Thread(target=ask)
        thread.start()
        thread.join()
        assert b"uid 1234 is not the daemon's user" in said[0]
    finally:
        setters.end()


def test_a_setter_loads_no_library_of_others(control, world, tmp_path):
    library = tmp_path / "libnvidia-ml.so.1"
    library.write_bytes(b"")
    os.chown(library, 1234, 1234)
    yard = control(start=False)
    yard.config.write_text(f'{yard.config.read_text()}[driver]\nnvml = "{library}"\n')
    (tmp_path / "state").mkdir()
    setters = Activator(tmp_path / "setter.sock", yard.config, tmp_path / "state", world)
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
            connection.settimeout(30)
            connection.connect(setters.path)
            assert b"belongs to UID 1234" in connection.recv(65536)
    finally:
        setters.end()


def test_a_missing_socket_names_the_command(control, tmp_path):
    yard = control(start=False)
    yard.start(GPUYARD_SETTER=str(tmp_path / "nowhere.sock"))
    done = subprocess.run([PROGRAM, "power", "0", "300", "--yes"], capture_output=True, text=True, timeout=60,
                          env=yard.daemon.environment | {"GPUYARD_SOCKET": yard.daemon.socket}, check=False)
    assert done.returncode == 4, done.stderr
    assert "sudo systemctl start gpuyard-setter.socket" in done.stderr
    assert yard.root.managed(0)["standing"] == "free", "what there is can be seen"
    assert any("gpuyard-setter.socket" in note for note in yard.daemon.get("/ready").json()["notes"])
    assert yard.writes() == []


# ---- its log beside the audit

def test_the_log_is_the_setters_alone(control):
    yard = control()
    accepted(yard.a.power(0, 300))
    info = os.stat(f"{yard.daemon.state}/changes.log")
    assert info.st_mode & 0o7777 == 0o600 and info.st_uid == os.geteuid()


def test_restores_and_restarts_make_no_difference(control, world):
    yard = control(on_stop="restore")
    set_all(yard)
    accepted(yard.a.ask("POST", "/api/gpu/manage/0/clear-ecc", {"counter": "volatile"}))
    accepted(yard.b.power(0, 250))
    accepted(yard.b.power(0, 240, for_s=1))
    accepted(yard.root.put(0, "ecc", {"enabled": False}))
    verified(yard)
    yard.kill()
    yard.start()
    yard.settled()
    replaced(yard, yard.kill_setter())
    accepted(yard.root.restore_all("1", force=True))
    world.hang(0, "set_power_limit")
    yard.a.power(0, 230, wait=False)
    time.sleep(0.3)
    yard.kill_setter()
    world.heal(0)
    yard.settled()
    assert yard.stop() == 0
    yard.start()
    yard.settled()
    accepted(yard.root.restore_all("all", force=True))
    assert "matches the setter's log" in verified(yard)


@pytest.mark.parametrize("point", ["writing", "written"])
def test_a_killed_daemon_makes_no_difference(control, world, point):
    yard = control()
    accepted(yard.a.power(0, 300))
    journal = yard.quiet_journal()
    world.hang(0, "set_power_limit")
    yard.a.power(0, 250, wait=False)
    wait_until(lambda: yard.journal() not in (None, journal), "the journal")
    if point == "written":
        yard.freeze()
        world.heal(0)
        yard.wait_for_writes(2)
    yard.kill()
    world.heal(0)
    yard.start()
    yard.settled()
    verified(yard)


def test_a_rewritten_audit_is_named(control):
    yard = control()
    for watts in (300, 310, 320):
        accepted(yard.a.power(0, watts))
    yard.quiet_journal()
    yard.kill()
    with closing(sqlite3.connect(f"{yard.daemon.state}/state.db")) as book, book:
        book.execute("DELETE FROM control_audit WHERE action LIKE '%310 W'")
        book.execute("UPDATE control_audit SET action = 'set power_limit to 200 W', after = '200 W' "
                     "WHERE action LIKE '%320 W'")
    yard.start()
    yard.settled()
    done = verify(yard)
    assert done.returncode == 7, done.stdout + done.stderr
    assert "power_limit was set to 310 W" in done.stdout and "power_limit was set to 320 W" in done.stdout
    assert "set power_limit to 200 W by uid 1000" in done.stdout
    assert "3 differences" in done.stdout
    assert verify(yard, "--json").returncode == 2
