"""The rights of a daemon and its children, and the files that they trust: programs in their place that try more,
capabilities as a service manager gives them, files of other users."""

import ctypes
import errno
import json
import os
import platform
import shutil
import signal
import struct
import subprocess
import sys

import pytest

from control_client import Caller
from program import (PATIENCE, PROGRAM, Daemon, children, clean_environment, command_line, open_directory,
                     program_for_others, runs, wait_until)
from shim import build_shim

pytestmark = pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("setpriv"),
                                reason="only root can give capabilities, and be several users")
SERVICE, STRANGER = 1500, 1001
SYS_ADMIN, SYS_PTRACE, KILL = 1 << 21, 1 << 19, 1 << 5
CAPABILITIES = ("sys_admin", "sys_ptrace", "kill")
ATTACK = 62  # the signal
DENIED = ("terminal", "memory", "io_uring", "keyring")


def status_of(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        return parsed(file.read())


def parsed(status):
    return dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)


def sets_of(status):
    return {name: int(status[name], 16) for name in ("CapInh", "CapPrm", "CapEff", "CapAmb")}


def child_with(daemon, word):
    return next((child for child in children(daemon.process.pid) if word in command_line(child)), None)


def command_host(daemon):
    return child_with(daemon, "command-host")


class Place:
    """A directory of root's with a directory of the daemon's user in it."""

    def __init__(self, root, uid=0):
        self.root = root
        self.uid = uid
        self.own = root / "own"
        self.own.mkdir()
        os.chown(self.own, uid, uid)
        self.config = root / "gpuyard.toml"
        self.alerts = root / "alerts.toml"
        self.write(self.config, f'[alerts]\nfile = "{self.alerts}"\n[control]\nenabled = true\ngroup = ""\n')
        self.write(self.alerts, "")
        self.program = program_for_others(root)
        self.daemons = []

    @staticmethod
    def write(path, text, mode=0o644):
        path.write_text(text, encoding="ascii")
        path.chmod(mode)
        return path

    def as_user(self, capabilities=()):
        """A program that runs gpuyard as the place's user with these capabilities, as systemd does."""
        sets = ",".join("+" + name for name in capabilities)
        words = f"setpriv --reuid={self.uid} --regid={self.uid} --clear-groups"
        if sets:
            words += f" --inh-caps={sets} --ambient-caps={sets}"
        return str(self.write(self.root / "as_user", f"#!/bin/sh\nexec {words} '{self.program}' \"$@\"\n", 0o755))

    def sink(self, *argv):
        words = json.dumps([str(word) for word in argv])
        self.write(self.alerts, f'[sink.page]\nkind = "command"\nargv = {words}\n')

    def begin(self, *arguments, capabilities=(), gpus=("--simulate", "1"), **environment):
        program = self.as_user(capabilities) if self.uid else self.program
        self.daemons.append(Daemon(self.own, "--config", str(self.config), *gpus, *arguments, program=program,
                                   **environment))
        return self.daemons[-1]

    def start(self, *arguments, **options):
        return self.begin(*arguments, **options).ready()

    def refused(self, *arguments, **options):
        """Starts a daemon that must end with status 2, and returns what it says."""
        daemon = self.begin(*arguments, **options)
        assert daemon.process.wait(PATIENCE) == 2, daemon.log()
        return daemon.log()

    def page(self, daemon):
        environment = clean_environment(self.own, GPUYARD_SOCKET=daemon.socket)
        return subprocess.run([PROGRAM, "alerts", "test"], env=environment, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=PATIENCE, check=False)

    def status_of_command(self, daemon):
        """/proc/self/status of the sink's command."""
        self.page(daemon)
        path = self.own / "paged"
        return parsed(wait_until(lambda: path.exists() and path.read_text(encoding="ascii"), "the command"))

    def sink_copies_its_status(self):
        self.sink("/bin/cp", "/proc/self/status", self.own / "paged")

    def end(self):
        for daemon in self.daemons:
            daemon.stop(signal.SIGKILL)


@pytest.fixture
def place():
    """place(uid=0)"""
    made = []
    with open_directory() as root:
        def make(uid=0):
            made.append(Place(root, uid))
            return made[-1]
        yield make
        for one in made:
            one.end()


def attempts_in(text):
    return {name: int(number) for name, number in (word.split("=") for word in text.split())}


VICTIM = """
import ctypes, sys
secret = ctypes.create_string_buffer(b"secret")
print(f"{ctypes.addressof(secret):x}", flush=True)
sys.stdin.read()
"""


class Attack:
    """The library that tries what is denied, and its victims: a terminal, a file, and a process."""

    def __init__(self, root):
        self.results = root / "results"
        self.results.mkdir()
        self.results.chmod(0o777)
        self.file = root / "others"
        self.file.touch()
        self.file.chmod(0o666)
        self.master, self.slave = os.openpty()
        self.victim = subprocess.Popen([sys.executable, "-c", VICTIM], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                       text=True)
        self.environment = {
            "LD_PRELOAD": build_shim("hostile.cpp", root), "HOSTILE_FILE": str(self.file),
            "HOSTILE_RESULTS": str(self.results), "HOSTILE_TERMINAL": os.ttyname(self.slave),
            "HOSTILE_VICTIM": f"{self.victim.pid} {self.victim.stdout.readline()}"}

    def result(self, pid, results=None):
        """The errno of each attempt of this process, by name."""
        path = (results or self.results) / str(pid)
        # A process that is just beginning would end.
        wait_until(lambda: int(status_of(pid)["SigCgt"], 16) & 1 << ATTACK - 1, f"{command_line(pid)} to run")
        os.kill(pid, ATTACK)
        wait_until(path.exists, f"the attempts of {command_line(pid)}")
        return attempts_in(path.read_text(encoding="ascii"))

    def unconfined(self):
        """The errno of each attempt where nothing is denied but by this machine."""
        with subprocess.Popen(["/bin/sleep", "60"], env=os.environ | self.environment) as process:
            try:
                return self.result(process.pid)
            finally:
                process.kill()

    def close(self):
        self.victim.kill()
        self.victim.communicate()
        os.close(self.master)
        os.close(self.slave)


@pytest.fixture
def attack(opened):
    with open_directory() as root:
        yield opened(Attack(root))


def test_seccomp_confines_daemon_and_driver_host_not_commands(place, attack):
    usual = attack.unconfined()
    assert usual["terminal"] == usual["memory"] == 0, "root types into the terminal and reads memory"
    yard = place()
    yard.sink("/bin/sleep", "60")
    daemon = yard.start(**attack.environment)
    host = wait_until(daemon.driver_host, "the driver-host")
    for pid in (daemon.process.pid, host):
        tried = attack.result(pid)
        assert [tried[name] for name in DENIED] == [errno.EPERM] * len(DENIED), command_line(pid)
    assert daemon.process.poll() is None and runs(host), "an error, not a signal"
    with subprocess.Popen([PROGRAM, "alerts", "test"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                          env=clean_environment(yard.own, GPUYARD_SOCKET=daemon.socket)) as test:
        command = wait_until(lambda: child_with(daemon, "/bin/sleep"), "the sink's command")
        assert attack.result(command) == usual
        own, of_command = status_of("self"), status_of(command)
        for name in ("Seccomp", "Seccomp_filters", "NoNewPrivs"):
            assert of_command.get(name) == own.get(name), name
        os.kill(command, signal.SIGKILL)
        test.wait(PATIENCE)


def test_unprivileged_daemon_is_confined_but_children_are_not(place):
    yard = place(SERVICE)
    yard.sink_copies_its_status()
    daemon = yard.start()
    assert status_of(daemon.process.pid)["Seccomp"] == "2"
    assert status_of(daemon.process.pid)["NoNewPrivs"] == "1"
    own = status_of("self")
    for status in (status_of(wait_until(daemon.driver_host, "the driver-host")), yard.status_of_command(daemon)):
        for name in ("Seccomp", "NoNewPrivs"):
            assert status[name] == own[name], name
    # Started by the command host, it still ends with the daemon and is replaced when it dies.
    first = daemon.driver_host()
    os.kill(first, signal.SIGKILL)
    second = wait_until(lambda: (pid := daemon.driver_host()) not in (None, first) and pid, "another driver-host")
    daemon.kill()
    wait_until(lambda: not runs(second), "the driver-host to end with the daemon")


def test_setter_has_only_sys_admin_and_children_none(place):
    yard = place(SERVICE)
    yard.sink_copies_its_status()
    daemon = yard.start(capabilities=CAPABILITIES)
    assert sets_of(status_of(daemon.process.pid))["CapEff"] == SYS_ADMIN | SYS_PTRACE | KILL
    host = wait_until(daemon.driver_host, "the driver-host")
    assert status_of(host)["Seccomp"] == "2"
    setter = wait_until(daemon.setter, "the setter")
    assert sets_of(status_of(setter)) == {"CapInh": 0, "CapPrm": SYS_ADMIN, "CapEff": SYS_ADMIN, "CapAmb": 0}
    nothing = {"CapInh": 0, "CapPrm": 0, "CapEff": 0, "CapAmb": 0}
    assert sets_of(status_of(host)) == nothing
    assert sets_of(yard.status_of_command(daemon)) == nothing
    assert sets_of(status_of(command_host(daemon))) == nothing
    assert sets_of(status_of(daemon.keeper())) == nothing


def test_commands_run_without_the_process_that_starts_them(place):
    yard = place()
    yard.sink_copies_its_status()
    daemon = yard.start()
    starter = wait_until(lambda: command_host(daemon), "the process that starts commands")
    os.kill(starter, signal.SIGKILL)
    assert yard.status_of_command(daemon)["PPid"] == str(daemon.process.pid)
    daemon.wait_for_log("the process that starts commands has ended")


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_command_host_ends_with_daemon(place, number):
    daemon = place().start()
    starter = wait_until(lambda: command_host(daemon), "the process that starts commands")
    os.kill(starter, signal.SIGTERM)
    daemon.stop(number)
    wait_until(lambda: not runs(starter), "it to end")


def without_seccomp():
    """As in a kernel that has none."""
    without_call({"x86_64": 317, "aarch64": 277}[platform.machine()])


def without_landlock():
    """As in a kernel that has none."""
    without_call(444)


def without_call(number):
    """Makes this system call fail in this process and its children."""
    load, jump_if_equal, answer, allow, no_such_call = 0x20, 0x15, 0x06, 0x7FFF0000, 0x00050000 | errno.ENOSYS
    code = b"".join(struct.pack("=HBBI", *one) for one in (
        (load, 0, 0, 0), (jump_if_equal, 0, 1, number), (answer, 0, 0, no_such_call), (answer, 0, 0, allow)))
    text = ctypes.create_string_buffer(code, len(code))
    program = ctypes.create_string_buffer(struct.pack("@HP", 4, ctypes.addressof(text)))
    set_seccomp, filtered = 22, 2
    if ctypes.CDLL(None, use_errno=True).prctl(set_seccomp, filtered, program, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl")


def test_a_daemon_without_seccomp_says_so_and_serves(place):
    yard = place()
    yard.sink_copies_its_status()
    daemon = yard.start(preexec_fn=without_seccomp)
    daemon.wait_for_log("the daemon runs without a seccomp filter of its own: installing a seccomp filter: "
                        "Function not implemented")
    assert daemon.get("/api/gpu/devices").json()["count"] == 1
    assert yard.status_of_command(daemon)["PPid"] == str(daemon.process.pid)


def test_a_daemon_without_landlock_says_so_and_serves(place):
    yard = place(SERVICE)
    daemon = yard.start(preexec_fn=without_landlock)
    missing = "the daemon is not restricted to its own files by Landlock"
    daemon.wait_for_log(missing)
    assert any(missing in note for note in daemon.get("/ready").json()["lacks"])
    assert daemon.get("/api/gpu/devices").json()["count"] == 1


def test_daemon_without_privileges_has_only_its_own_files(place, attack):
    yard = place(SERVICE)
    results = yard.own / "state"
    daemon = yard.start(**attack.environment | {"HOSTILE_RESULTS": str(results)})
    host = wait_until(daemon.driver_host, "the driver-host")
    of_daemon, of_host = attack.result(daemon.process.pid, results), attack.result(host, results)
    assert of_host["others_file"] == of_host["others_file_written"] == 0
    assert of_daemon["others_file"] == of_daemon["others_file_written"] == errno.EACCES
    assert daemon.get("/api/gpu/devices").json()["count"] == 1


ASKS = """#!/bin/sh
export GPUYARD_SOCKET='{socket}'
'{program}' cordon 0 --reason test > '{own}/said' 2>&1
echo $? > '{own}/asked.new'
mv '{own}/asked.new' '{own}/asked'
"""


@pytest.mark.parametrize("system_service", [True, False])
def test_commands_of_a_system_service_are_no_administrators(place, system_service):
    yard = place(SERVICE)
    script = yard.write(yard.root / "asks", ASKS.format(socket=yard.own / "gpuyard.sock", program=yard.program,
                                                        own=yard.own), 0o755)
    yard.sink(script)
    daemon = yard.start(**({"GPUYARD_SYSTEM_SERVICE": "1"} if system_service else {}))
    yard.page(daemon)
    wait_until((yard.own / "asked").exists, "the sink's command")
    code = int((yard.own / "asked").read_text(encoding="ascii"))
    assert code == (4 if system_service else 0), (yard.own / "said").read_text(encoding="utf-8")
    expected = 403 if system_service else 201
    for uid, status in ((SERVICE, expected), (0, 201), (STRANGER, 403)):
        caller = Caller(daemon.socket, uid)
        token = {"name": f"by-{uid}", "uid": 0, "scope": "admin"}
        assert caller.ask("POST", "/api/gpu/tokens", token).status == status, uid
        assert caller.ask("POST", "/api/gpu/tokens", {"name": f"own-{uid}", "scope": "read"}).status == 201, uid
        caller.close()


def given_to_a_stranger(path, mode=None):
    os.chown(path, STRANGER, STRANGER)
    if mode is not None:
        path.chmod(mode)
    return path


@pytest.mark.parametrize("capabilities", [(), CAPABILITIES])
def test_daemon_with_capabilities_refuses_configuration_of_others(place, capabilities):
    yard = place(SERVICE)
    for file in (yard.config, yard.alerts):
        os.chown(file, SERVICE, SERVICE)
        if capabilities:
            said = yard.refused(capabilities=capabilities)
            assert f"{file} belongs to UID {SERVICE}" in said
        os.chown(file, 0, 0)
    os.chown(yard.config, SERVICE, SERVICE)
    if not capabilities:
        yard.start()


def test_daemon_with_capabilities_loads_no_library_of_others(place):
    yard = place(SERVICE)
    library = given_to_a_stranger(yard.write(yard.root / "libnvidia-ml.so.1", "", 0o666))
    yard.write(yard.config, f'[driver]\nnvml = "{library}"\n')
    assert f"{library} belongs to UID {STRANGER}" in yard.refused(gpus=(), capabilities=CAPABILITIES)
    assert f"{library} belongs to UID {STRANGER}" in yard.refused("--nvml", str(library), gpus=(),
                                                                  capabilities=CAPABILITIES)
    yard.start(gpus=())  # without capabilities, a library of another user is the user's choice


@pytest.mark.parametrize("uid", [0, SERVICE])
def test_state_or_sockets_writable_by_others_are_refused(place, uid):
    yard = place(uid)
    options = {"capabilities": CAPABILITIES} if uid else {}
    state = yard.own / "state"
    state.mkdir()
    given_to_a_stranger(state, 0o777)
    assert f"{state} belongs to UID {STRANGER}" in yard.refused(**options)
    os.chown(state, uid, uid)
    assert f"other users can write to {state}" in yard.refused(**options)
    state.chmod(0o700)
    sockets = yard.root / "sockets"
    sockets.mkdir()
    given_to_a_stranger(sockets, 0o755)
    program = yard.as_user(CAPABILITIES) if uid else yard.program
    done = subprocess.run([program, "serve", "--simulate", "1", "--listen", "127.0.0.1:0", "--state", str(state),
                           "--socket", str(sockets / "s")], env=clean_environment(yard.own), capture_output=True,
                          text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 2 and f"{sockets} belongs to UID {STRANGER}" in done.stderr
    yard.write(yard.config, f'[server]\nlease_socket = "{sockets}/lease.sock"\n')
    daemon = yard.start(**options)
    daemon.wait_for_log(f"{sockets} belongs to UID {STRANGER}")
    os.chown(sockets, uid, uid)
    daemon.wait_for_log(f"listening on {sockets}/lease.sock")


def test_tls_key_of_another_user_closes_its_listener(place):
    yard = place()
    yard.write(yard.config, '[tls]\nlisten = ["127.0.0.1:0"]\n')
    state = yard.own / "state"
    subprocess.run([yard.program, "tls", "init", "--name", "localhost", "--state", str(state)],
                   env=clean_environment(yard.own), check=True, timeout=PATIENCE, stdout=subprocess.DEVNULL)
    folder = state / "tls"
    given_to_a_stranger(folder)
    daemon = yard.start()
    daemon.wait_for_log("tls.listen is closed until this is fixed:")
    assert f"it decides whom clients trust, but {folder} belongs to UID {STRANGER}" in daemon.log()
    os.chown(folder, 0, 0)
    daemon.wait_for_log("listening on https://")
