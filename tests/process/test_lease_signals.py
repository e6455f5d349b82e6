"""The signal of `lease release` where the daemon has no capability: its client sends it, and the kernel judges."""

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess

import pytest

from control_client import Caller
from far_host import UID, FarHost
from net_yard import NetYard
from program import PATIENCE, Daemon, children, clean_environment, open_directory, program_for_others, runs, wait_until
from sim_world import World

LEASES = "/api/gpu/leases"
SERVICE, LESSEE, STRANGER = 1500, UID, 1700
HELD = "echo $GPUYARD_LEASE $$; exec sleep 600"


def as_user(uid):
    return {"user": uid, "group": uid, "extra_groups": []}


def become_service():
    os.setgroups([])
    os.setresgid(SERVICE, SERVICE, SERVICE)
    os.setresuid(SERVICE, SERVICE, SERVICE)


class SignalYard:
    """A daemon of a bare uid, which has no capability, and programs of users beside it."""

    def __init__(self, place):
        if os.geteuid() != 0:
            pytest.skip("only root can be several users")
        self.place = place
        self.program = program_for_others(place)
        self.world = World(place)
        self.world.start("--gpus", "2", "--load", "idle")
        os.chmod(place / "world", 0o755)
        service = place / "service"
        service.mkdir(mode=0o755)
        os.chown(service, SERVICE, SERVICE)
        self.daemon = Daemon(service, program=self.program, preexec_fn=become_service,
                             GPUYARD_SIM_WORLD=str(self.world.directory)).ready()
        self.environment = clean_environment(place, GPUYARD_SOCKET=self.daemon.socket)
        self.started = []

    def go(self, *words, before=(), **options):
        return subprocess.run([*before, self.program, *words], env=self.environment, cwd="/", text=True,
                              stdin=subprocess.DEVNULL, capture_output=True, timeout=PATIENCE, check=False,
                              **options)

    def hold(self, script=HELD, before=(), **options):
        """`gpuyard run` of a script that says its lease and its pid: both, and the launcher."""
        options = options or as_user(LESSEE)

        def begun():  # refused until the GPUs have been checked
            one = subprocess.Popen([*before, self.program, "run", "--quiet", "--", "sh", "-c", script],
                                   env=self.environment, cwd="/", text=True, stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options)
            self.started.append(one)
            line = one.stdout.readline()
            return (one, *line.split()) if line else None
        one, lease, pid = wait_until(begun, "a lease")
        return one, lease, int(pid)

    def state(self, lease):
        caller = Caller(self.daemon.socket)
        with contextlib.closing(caller):
            return caller.ask("GET", f"{LEASES}/{lease}").json()["lease"]["state"]

    def end(self):
        for one in self.started:
            for pid in (*children(one.pid), one.pid):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        self.daemon.kill()
        for one in self.started:
            one.communicate()
        self.world.end()


@pytest.fixture(scope="module")
def yard():
    with open_directory() as place:
        one = SignalYard(place)
        try:
            yield one
        finally:
            one.end()


@pytest.fixture
def held(yard):
    """A lease of the lessee's and the pid of its command, which is ended afterwards."""
    one, lease, pid = yard.hold()
    yield lease, pid
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    one.wait(PATIENCE)
    wait_until(lambda: yard.state(lease) == "ended", "its end")


def capabilities(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as status:
        return int(re.search(r"CapEff:\t(\w+)", status.read()).group(1), 16)


def start_of(pid):
    with open(f"/proc/{pid}/stat", encoding="ascii") as stat:
        return int(stat.read().rpartition(")")[2].split()[19]) * 10


def test_owner_ends_a_lease_by_a_signal(yard, held):
    lease, pid = held
    assert capabilities(yard.daemon.process.pid) == 0
    done = yard.go("lease", "release", lease, "--signal", "TERM", "--json", **as_user(LESSEE))
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["lease"]["id"] == lease and "unsignalled" not in json.loads(done.stdout)
    wait_until(lambda: not runs(pid), "the command to end")
    wait_until(lambda: yard.state(lease) == "ended", "the lease to end")


def test_root_ends_another_users_lease(yard, held):
    lease, pid = held
    done = yard.go("lease", "release", lease, "--force", "--reason", "maintenance", "--signal", "KILL")
    assert done.returncode == 0, done.stderr
    wait_until(lambda: not runs(pid), "the command to end")


def test_route_answers_with_the_processes(yard, held):
    lease, pid = held
    with contextlib.closing(Caller(yard.daemon.socket, LESSEE)) as caller:
        answer = caller.ask("DELETE", f"{LEASES}/{lease}?signal=TERM")
    assert answer.status == 200, answer.text
    left = answer.json()["unsignalled"]
    listed = {one["pid"]: one["started_after_boot_ms"] for one in left["processes"]}
    assert listed[pid] == start_of(pid) and left["signal"] == "TERM" and left["left_out"] == 0
    assert left["pid_namespace"] == os.readlink("/proc/self/ns/pid")
    assert f"process {min(listed)} runs as another user" in answer.json()["lease"]["why"]
    assert runs(pid), "the daemon may not signal it"


def test_reused_pid_is_not_signalled(yard, held):
    lease, pid = held
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        boot = file.read().strip()
    left = {"lease": lease, "signal": "KILL", "boot_id": boot,
            "pid_namespace": os.readlink("/proc/self/ns/pid"),
            "processes": [{"pid": pid, "started_after_boot_ms": start_of(pid) - 10, "why": ""}],
            "left_out": 0, "why": ""}
    for start, ended in ((start_of(pid) - 10, False), (start_of(pid), True)):
        left["processes"][0]["started_after_boot_ms"] = start
        done = subprocess.run([yard.program, "dial-stdio", "--send-signals"], input=json.dumps(left), text=True,
                              env=yard.environment, capture_output=True, timeout=PATIENCE, check=False)
        assert done.returncode == 0, done.stderr
        greeting, answer = done.stdout.splitlines()
        assert greeting == "gpuyard-dial-stdio 1" and json.loads(answer)["processes"] == []
        if ended:
            wait_until(lambda: not runs(pid), "its end")
        assert runs(pid) != ended


def test_kernel_refuses_another_users_process(yard):
    if not shutil.which("setpriv"):
        pytest.skip("a process that changes its user needs setpriv")
    powers = "--inh-caps=+setuid,+setgid", "--ambient-caps=+setuid,+setgid"
    become = f"setpriv --reuid={STRANGER} --regid={STRANGER} --clear-groups --ambient-caps=-all"
    one, lease, pid = yard.hold(f"echo $GPUYARD_LEASE $$; exec {become} sleep 600", user=None, before=[
        "setpriv", f"--reuid={LESSEE}", f"--regid={LESSEE}", "--clear-groups", *powers])
    wait_until(lambda: os.stat(f"/proc/{pid}").st_uid == STRANGER, "the command to be another user's")
    done = yard.go("lease", "release", lease, "--signal", "TERM", **as_user(LESSEE))
    assert done.returncode == 4, (done.stdout, done.stderr)
    assert "were not signalled" in done.stderr and f"process {pid} runs as another user" in done.stderr
    assert f"sudo gpuyard lease release {lease} --signal TERM" in done.stderr
    assert runs(pid)
    done = yard.go("lease", "release", lease, "--signal", "TERM")
    assert done.returncode == 0, "root's: " + done.stderr
    wait_until(lambda: not runs(pid), "its end")
    one.wait(PATIENCE)


def test_other_pid_namespace_is_refused(yard, held):
    lease, pid = held
    unshare = ["unshare", "--pid", "--fork", "--mount-proc"]
    if subprocess.run([*unshare, "true"], capture_output=True, check=False).returncode != 0:
        pytest.skip("no PID namespace can be made here")
    done = yard.go("lease", "release", lease, "--signal", "KILL", before=unshare)
    assert done.returncode == 4, (done.stdout, done.stderr)
    assert "another PID namespace" in done.stderr and "outside of containers" in done.stderr
    assert runs(pid) and yard.state(lease) == "draining"


def test_signal_over_ssh_is_sent_there(yard, held):
    lease, pid = held
    far = FarHost(yard.place, yard.program, yard.daemon.socket)
    try:
        refused = far.go("lease", "release", lease, "--signal", "TERM", "-H", "lease")
        assert refused.returncode == 4 and "does not send signals" in refused.stderr, refused.stderr
        assert runs(pid), "its key may only lease"
        done = far.go("lease", "release", lease, "--signal", "TERM", "-H", "lab")
        assert done.returncode == 0, done.stderr
        wait_until(lambda: not runs(pid), "its end")
        wait_until(lambda: far.processes() == [], lambda: f"these to end: {far.processes()}")
    finally:
        far.end()


def test_signal_with_a_token_is_refused(open_place):
    if os.geteuid() != 0:
        pytest.skip("only root can be several users")
    yard = NetYard(lambda *words, directory: own_daemon(directory, words), open_place)
    try:
        token = yard.make_token("ci", "--scope", "lease", "--user", str(LESSEE))
        with contextlib.closing(Caller(yard.daemon.socket, LESSEE)) as caller:
            wish = {"binding": "detached", "ttl_s": 600, "answer_within_s": 20}

            def granted():
                answer = caller.ask("POST", LEASES, wish)
                return answer if answer.status != 503 else None
            lease = wait_until(granted, "a lease").json()["lease"]["id"]
        status, body = yard.curl(f"{LEASES}/{lease}?signal=TERM", "-X", "DELETE", token=token)
        assert status == 403 and "may not signal" in body, body
        assert f"gpuyard -H ssh://HOST lease release {lease} --signal TERM" in body
        assert json.loads(yard.curl(f"{LEASES}/{lease}", token=token)[1])["lease"]["state"] == "held"
    finally:
        yard.daemon.kill()


def own_daemon(place, words):
    """A daemon of a bare uid, in a place that is its own until it listens."""
    for folder, _, files in os.walk(place):
        for name in (folder, *(os.path.join(folder, file) for file in files)):
            os.chown(name, SERVICE, SERVICE)
    one = Daemon(place, *words, program=program_for_others(place), preexec_fn=become_service).ready()
    os.chown(place, 0, 0)  # root reads its configuration there, and trusts no other owner
    return one
