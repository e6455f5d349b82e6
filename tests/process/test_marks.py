"""Only `gpuyard marks` reads the lease that another user's process names: for a daemon of an ordinary
user by a service behind a socket, for root's daemon by a child of its own."""

import contextlib
import ctypes
import os
import signal
import socket
import subprocess
import sys
import threading
import time

import pytest

from control_client import Caller
from program import Daemon, clean_environment, command_line, program_for_others, runs, wait_until

LEASES = "/api/gpu/leases"
LESSEE, STRANGER, SERVICE = 1002, 1001, 1701
NEEDED = 1 << 19 | 1 << 2  # CAP_SYS_PTRACE, CAP_DAC_READ_SEARCH
ORPHAN = """
import os, sys
if os.fork() == 0:
    os.setsid()
    print(os.getpid(), flush=True)
    sys.stdin.read()
"""

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can play several users")


class Service:
    """Starts `gpuyard marks` for each connection to a socket, as systemd does with gpuyard-marks.socket."""

    def __init__(self, place, program, mode=0o600):
        self.path = str(place / "marks.sock")
        self.program = program
        # As the unit says it: there, root's configuration is.
        self.environment = clean_environment(place, CONFIGURATION_DIRECTORY=str(place))
        self.started = []
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.listener.bind(self.path)
        os.chown(self.path, SERVICE, SERVICE)
        os.chmod(self.path, mode)
        self.listener.listen(8)
        self.thread = threading.Thread(target=self.serve)
        self.thread.start()

    def serve(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            with connection:
                self.started.append(subprocess.Popen(
                    ["sh", "-c", 'exec "$0" marks 3<&0 </dev/null', self.program], stdin=connection,
                    env=self.environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True))

    def living(self):
        return [one.pid for one in self.started if one.poll() is None]

    def close(self):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self.thread.join()
        for one in self.started:
            one.kill()
            one.communicate()


@pytest.fixture
def program(open_place):
    return program_for_others(open_place)


@pytest.fixture
def place(open_place):
    """A folder of the daemon's user, who has no capability."""
    place = open_place / "daemon"
    place.mkdir()
    os.chown(place, SERVICE, SERVICE)
    (open_place / "gpuyard.toml").write_text(
        f'[processes]\nmarks_socket = "{open_place}/marks.sock"\n', encoding="utf-8")
    return place


@pytest.fixture
def service(open_place, program, opened):
    return lambda **how: opened(Service(open_place, program, **how))


def hide_others():
    """A /proc that shows each user only their own processes."""
    libc = ctypes.CDLL(None, use_errno=True)
    new_namespace, private = 0x20000, 1 << 18 | 1 << 14
    if libc.unshare(new_namespace) or libc.mount(b"none", b"/", None, ctypes.c_ulong(private), None) or \
            libc.mount(b"proc", b"/proc", b"proc", ctypes.c_ulong(0), b"hidepid=2"):
        raise OSError(ctypes.get_errno(), "hiding processes")


def start_daemon(place, program, open_place, opened, hidden=False, service=True):
    """The daemon of an ordinary user, as the package's service or as that user starts it, with two idle GPUs."""
    def become():
        if hidden:
            hide_others()
        os.setgroups([])
        os.setgid(SERVICE)
        os.setuid(SERVICE)
    one = Daemon(place, "--simulate", "2", "--load", "idle", "--config", str(open_place / "gpuyard.toml"),
                 program=program, preexec_fn=become, GPUYARD_SYSTEM_SERVICE="1" if service else "0")
    one.close = one.kill
    return opened(one).ready()


@pytest.fixture
def yard(place, program, open_place, opened, request):
    return start_daemon(place, program, open_place, opened, hidden=getattr(request, "param", "") == "hidden")


@pytest.fixture
def running_service(service):
    return service()


@pytest.fixture
def orphan():
    """orphan(uid, lease): a process without a living parent that names the lease."""
    started = []

    def start(uid=LESSEE, lease=None):
        environment = {"PATH": os.environ["PATH"]} | ({"GPUYARD_LEASE": lease} if lease else {})
        child = subprocess.Popen([sys.executable, "-c", ORPHAN], env=environment, cwd="/", stdin=subprocess.PIPE,
                                 stdout=subprocess.PIPE, user=uid, group=uid, extra_groups=[])
        pid = int(child.stdout.readline())
        started.append((child, pid))
        return pid
    yield start
    for child, pid in started:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        child.communicate()


@contextlib.contextmanager
def leased(yard, program, open_place, uid):
    """The lease of `gpuyard run`, whose command waits."""
    with subprocess.Popen(
            [program, "run", "--", "sh", "-c", "echo $GPUYARD_LEASE; exec sleep 600"],
            env=clean_environment(open_place, GPUYARD_SOCKET=yard.socket), cwd="/", text=True, user=uid,
            group=uid, extra_groups=[], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) as running:
        lease = {"id": running.stdout.readline().strip(), "run": running}
        lease["index"] = now(yard, lease)["gpus"][0]["index"]
        yield lease
        running.kill()


@pytest.fixture
def lease(yard, program, open_place):
    with leased(yard, program, open_place, LESSEE) as one:
        yield one


def squatters(yard):
    return {one["pid"] for one in yard.get("/api/gpu/queue").json()["squatters"]}


def now(yard, lease):
    return yard.get(f"{LEASES}/{lease['id']}").json()["lease"]


def status(pid, field):
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        return next(line.split()[1] for line in file if line.startswith(field + ":"))


def test_service_finds_mark_of_another_users_process(yard, lease, orphan, service):
    """The process has no parent, and is on no GPU: only its mark keeps the lease."""
    assert int(status(yard.process.pid, "CapEff"), 16) == 0
    helper = service()
    pid = orphan(lease=lease["id"])
    other = orphan(uid=STRANGER, lease=lease["id"])
    wait_until(helper.living, "the daemon to connect")
    lease["run"].terminate()
    wait_until(lambda: now(yard, lease)["why"] == f"PID {pid} is still running",
               lambda: f"the process to be found; it is {now(yard, lease)}")
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: now(yard, lease)["state"] == "ended", lambda: f"its end; it is {now(yard, lease)}")
    assert runs(other)


@pytest.mark.parametrize("yard", ["hidden"], indirect=True)
def test_leases_work_where_proc_hides_others_processes(running_service, yard, lease, orphan):
    assert running_service.started
    lessee = lease["run"].pid
    assert subprocess.run(["nsenter", "--mount", f"--target={yard.process.pid}", f"--setuid={SERVICE}",
                           f"--setgid={SERVICE}", "test", "-e", f"/proc/{lessee}"], check=False).returncode == 1
    pid = orphan(lease=lease["id"])
    orphan(uid=STRANGER, lease=lease["id"])
    lease["run"].terminate()
    wait_until(lambda: now(yard, lease)["why"] == f"PID {pid} is still running",
               lambda: f"it to be found; it is {now(yard, lease)}")
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: now(yard, lease)["state"] == "ended", lambda: f"its end; it is {now(yard, lease)}")


def test_daemon_reports_missing_marks_service(yard, lease, service):
    notes = yard.get("/ready", unix=True).json()["notes"]
    assert any("gpuyard-marks is not available" in note and "gpuyard-marks.socket" in note for note in notes), notes
    assert yard.log().count("gpuyard-marks is not available") == 1
    service()
    wait_until(lambda: not any("marks" in note for note in yard.get("/ready", unix=True).json()["notes"]),
               "the service to be found later")
    lease["run"].terminate()
    wait_until(lambda: now(yard, lease)["state"] == "ended", "a lease without processes to end")


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_killed_or_stopped_helper_keeps_lease_draining(yard, lease, orphan, service, number):
    helper = service()
    pid = orphan(lease=lease["id"])
    yard.sim("attach", "--pid", str(pid), "--gpu", str(lease["index"]), "--vram", "1G", "--load", "0.5")
    wait_until(helper.living, "the daemon to connect")
    lease["run"].terminate()
    wait_until(lambda: str(pid) in now(yard, lease)["why"], lambda: f"it to drain; it is {now(yard, lease)}")
    until = time.monotonic() + 4
    hit = set()
    while time.monotonic() < until:
        for one in helper.living():
            os.kill(one, number)
            hit.add(one)
        assert now(yard, lease)["state"] == "draining"
        assert pid not in squatters(yard)
        time.sleep(0.05)
    assert len(hit) > 1, "the daemon connects again"
    for one in hit:
        with contextlib.suppress(ProcessLookupError):
            os.kill(one, signal.SIGKILL)
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: now(yard, lease)["state"] == "ended", lambda: f"its end; it is {now(yard, lease)}")


def test_a_stranger_at_the_socket_is_refused(service):
    helper = service(mode=0o666)
    sock = connect_as(helper.path, STRANGER)
    assert sock.recv(100) == b""
    sock.close()
    wait_until(lambda: helper.started and helper.started[0].poll() == 2, "the helper to end")
    assert f"uid {STRANGER} is not the daemon's user" in helper.started[0].stderr.read()


def test_service_socket_is_closed_to_strangers(service):
    with pytest.raises(PermissionError):
        connect_as(service().path, STRANGER)


def connect_as(path, uid):
    """Root may enter any folder and open any socket, so another process connects and hands over the connection."""
    ours, theirs = socket.socketpair()
    code = ("import socket, sys; parent = socket.socket(fileno=0); s = socket.socket(socket.AF_UNIX, "
            "socket.SOCK_SEQPACKET)\n"
            "try:\n s.connect(sys.argv[1])\n"
            "except PermissionError:\n parent.send(b'x')\n"
            "else:\n socket.send_fds(parent, [b'.'], [s.fileno()])")
    with ours, theirs:
        child = subprocess.Popen([sys.executable, "-c", code, path], stdin=theirs, user=uid, group=uid,
                                 extra_groups=[], cwd="/")
        said, descriptors, _, _ = socket.recv_fds(ours, 1, 1)
        child.wait()
    if said == b"x":
        raise PermissionError
    return socket.socket(fileno=descriptors[0])


def test_the_daemon_gets_files_of_roots_configuration_alone(open_place, place, program, service, opened):
    """Root's configuration names a secret that only root may read, and a file that the daemon's user can replace."""
    helper = service()
    (open_place / "secret").write_text("s3cr3t", encoding="ascii")
    (place / "own").symlink_to(open_place / "shadow")
    (open_place / "shadow").write_text("root's", encoding="ascii")
    for name in ("secret", "shadow"):
        os.chmod(open_place / name, 0o600)
    url = 'kind = "webhook"\nurl = "http://127.0.0.1:1/"\n'
    (open_place / "alerts.toml").write_text(
        f'[sink.good]\n{url}secret_file = "{open_place}/secret"\n'
        f'[sink.bad]\n{url}secret_file = "{place}/own"\n', encoding="utf-8")
    os.chmod(open_place / "alerts.toml", 0o600)
    one = start_daemon(place, program, open_place, opened)
    sinks = {sink["name"]: sink for sink in one.get("/api/gpu/sinks", unix=True).json()["sinks"]}
    assert not sinks["good"]["closed"], sinks
    assert sinks["bad"]["closed"] and "Permission denied" in sinks["bad"]["last_error"], sinks
    assert helper.started


def marks_child(daemon):
    """The pid, or None. A thread of the daemon may have started it."""
    for pid in filter(str.isdigit, os.listdir("/proc")):
        if command_line(pid).split()[1:2] == ["marks"] and status(pid, "PPid") == str(daemon.process.pid):
            return int(pid)
    return None


def test_roots_daemon_has_a_child_without_other_rights(daemon):
    yard = daemon("--simulate", "1")
    child = wait_until(lambda: marks_child(yard), "the child")
    wait_until(lambda: status(child, "Seccomp") == "2", "its filter of system calls")
    assert int(status(child, "CapEff"), 16) == int(status(child, "CapPrm"), 16) == NEEDED
    assert int(status(child, "CapBnd"), 16) == 0
    assert status(child, "NoNewPrivs") == "1"
    assert sorted(os.listdir(f"/proc/{child}/fd"), key=int) == ["0", "1", "2", "3"]


def test_daemon_of_user_finds_marks_of_that_user(place, program, open_place, opened, orphan):
    """The daemon's child reads them: the kernel shows the daemon no environment, because of Landlock."""
    yard = start_daemon(place, program, open_place, opened, service=False)
    child = wait_until(lambda: marks_child(yard), "the child")
    assert int(status(child, "CapEff"), 16) == 0
    assert not any("marks" in note for note in yard.get("/ready", unix=True).json()["notes"])
    with leased(yard, program, open_place, SERVICE) as lease:
        pid = orphan(uid=SERVICE, lease=lease["id"])
        os.kill(child, signal.SIGKILL)
        wait_until(lambda: marks_child(yard) not in (None, child), "another child")
        lease["run"].terminate()
        wait_until(lambda: now(yard, lease)["why"] == f"PID {pid} is still running",
                   lambda: f"the process to be found; it is {now(yard, lease)}")
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda: now(yard, lease)["state"] == "ended", lambda: f"its end; it is {now(yard, lease)}")


def test_a_killed_child_of_roots_daemon_is_replaced(daemon):
    yard = daemon("--simulate", "1", "--load", "idle")
    first = wait_until(lambda: marks_child(yard), "the child")
    os.kill(first, signal.SIGKILL)
    caller = Caller(yard.socket)

    def granted():
        return caller.ask("POST", LEASES, {"binding": "detached", "ttl_s": 600, "answer_within_s": 20}).status == 200
    wait_until(granted, "a lease")
    wait_until(lambda: marks_child(yard) not in (None, first), "another child")
    caller.close()
