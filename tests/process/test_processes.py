"""The processes of a GPU, at every face: real processes on simulated GPUs, and /proc variants."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from control_groups import ControlGroups
from program import PATIENCE, Daemon, wait_until

ROOT = os.geteuid() == 0
NOBODY = 65534
SECRET = "--token=secret-of-a-process"
CONTAINER = "3f1c0f9f9bd0a4d5a6c9a5f3c6f9f2a7d1e0b4c8a7f6e5d4c3b2a1908f7e6d5c"
POD = "8dbc5577-d0e2-4706-8787-57d52c03ddf2"


@pytest.fixture
def sleepers():
    """Starts processes that wait with an argument that is not for everybody."""
    started = []

    def start(**options):
        process = subprocess.Popen(
            [sys.executable, "-c", "print('up', flush=True); input()", SECRET],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, **options)
        assert process.stdout.readline() == b"up\n"
        started.append(process)
        return process

    yield start
    for one in started:
        one.kill()
        one.communicate()


def attach(world, pid, gpu=1):
    world.must("attach", "--pid", str(pid), "--gpu", str(gpu), "--vram", "2G", "--load", "0.5")


def processes(yard, gpu=1, **options):
    return yard.get(f"/api/gpu/devices/{gpu}/processes", **options).json()["processes"]


def known(yard, pid, gpu=1):
    """Returns the daemon's record of the process once its user's name is resolved."""
    def found():
        listed = [one for one in processes(yard, gpu, unix=True) if one["pid"] == pid]
        missing = listed[0]["missing"] if listed else {"process": "it is not listed"}
        return "process" not in missing and "looked up yet" not in missing.get("user", "") and listed[0]
    return wait_until(found, f"{pid} to be known")


def test_a_process_has_an_owner_at_every_face(world, yard, sleepers, run):
    process = sleepers()
    attach(world, process.pid)
    one = known(yard, process.pid)
    name = Path(sys.executable).resolve().name[:15]
    comm = Path(f"/proc/{process.pid}/comm").read_text().strip()
    assert one["command"] == comm and one["uid"] == os.geteuid()
    assert one["arguments"][-1] == SECRET and name in os.path.realpath(one["arguments"][0])
    ticks = int(Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[19])
    assert one["started_after_boot_ms"] == ticks * 1000 // os.sysconf("SC_CLK_TCK")
    user = one["user"]
    assert user

    shared = {key: value for key, value in known(yard, process.pid).items() if key != "arguments"}
    for path in ("/api/gpu/devices/1", "/api/gpu/snapshot"):
        body = yard.get(path).json()
        device = body["devices"][1] if "devices" in body else body
        listed, = device["processes"]
        for key in ("user", "command", "started_after_boot_ms", "unit", "container"):
            assert listed[key] == shared[key], (path, key)
        assert "arguments" not in listed

    asked = run("processes", "--socket", yard.socket, "--json")
    mine, = json.loads(asked.stdout)["processes"]
    assert (mine["pid"], mine["user"], mine["gpu_index"]) == (process.pid, user, 1)
    assert mine["arguments"][-1] == SECRET
    table = run("processes", "1", "--socket", yard.socket).stdout
    assert str(process.pid) in table and user in table and SECRET in table
    assert str(process.pid) not in run("processes", "0", "--socket", yard.socket).stdout
    page = run("devices", "1", "--socket", yard.socket).stdout
    assert user in page and comm in page
    named = run("query", "--processes", "--fields", "process_name", "--socket", yard.socket).stdout
    assert named.splitlines()[1] == one["arguments"][0]


def test_local_driver_lists_process_with_arguments(world, sleepers, run):
    world.start("--gpus", "2", "--load", "idle")
    process = sleepers()
    attach(world, process.pid)
    answer = json.loads(run("processes", "--local", "--json",
                            GPUYARD_SIM_WORLD=str(world.directory)).stdout)
    one, = answer["processes"]
    assert one["uid"] == os.geteuid() and one["arguments"][-1] == SECRET and one["missing"] == {}


def test_processes_of_one_user(world, yard, sleepers, run):
    process = sleepers()
    attach(world, process.pid)
    known(yard, process.pid)
    mine = run("processes", "--user", str(os.geteuid()), "--socket", yard.socket, "--json")
    assert len(json.loads(mine.stdout)["processes"]) == 1
    others = run("processes", "--user", "nobody-at-all", "--socket", yard.socket, "--json")
    assert others.returncode == 0 and json.loads(others.stdout)["processes"] == []


ASK = """
import http.client, socket, sys
connection = http.client.HTTPConnection("localhost")
connection.sock = socket.socket(socket.AF_UNIX)
connection.sock.connect(sys.argv[1])
connection.request("GET", sys.argv[2])
print(connection.getresponse().read().decode())
"""


def ask_as(uid, yard, path):
    done = subprocess.run([sys.executable, "-c", ASK, yard.socket, path], user=uid, group=uid,
                          capture_output=True, text=True, timeout=PATIENCE, check=False, cwd="/")
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.skipif(not ROOT, reason="only root can be several users")
def test_arguments_are_visible_to_owner_and_administrators_only(world, open_place, sleepers):
    world.start("--gpus", "2", "--load", "idle")
    process = sleepers(user=NOBODY, group=NOBODY, cwd="/")
    attach(world, process.pid)
    yard = Daemon(open_place, GPUYARD_SIM_WORLD=str(world.directory))
    try:
        yard.ready()
        assert known(yard, process.pid)["uid"] == NOBODY
        path = "/api/gpu/devices/1/processes"
        assert SECRET in ask_as(NOBODY, yard, path), "the same user"
        assert SECRET in ask_as(0, yard, path), "an administrator"
        another = ask_as(1, yard, path)
        assert SECRET not in another and str(process.pid) in another, "another user"
        assert "same" not in another and "arguments" in json.loads(another)["processes"][0]["missing"]
        assert SECRET not in yard.get(path).text, "TCP"
        for shared in ("/api/gpu/snapshot", "/api/gpu/devices/1", "/metrics"):
            assert SECRET not in ask_as(0, yard, shared), shared
            assert SECRET not in yard.get(shared).text, shared
        # Neither who it is: a label for each process would be a series for each.
        assert not re.search(rf"\{{[^}}]*\b{process.pid}\b", yard.get("/metrics").text)
    finally:
        yard.kill()


def test_a_real_control_group_names_container_and_pod(world, yard, opened, sleepers):
    group = opened(ControlGroups()).make(f"kubepods-pod{POD.replace('-', '_')}.slice",
                                         f"cri-containerd-{CONTAINER}.scope")
    process = sleepers()
    (group / "cgroup.procs").write_text(str(process.pid))
    attach(world, process.pid)
    one = known(yard, process.pid)
    assert (one["container"], one["container_runtime"], one["pod"]) == (CONTAINER, "containerd", POD)
    process.kill()
    process.wait()


# As below a service that root delegated to a user (Delegate=).
def test_the_group_of_a_user_names_no_pod(world, yard, opened, sleepers):
    group = opened(ControlGroups()).make(f"delegated-{os.getpid()}.service", "kubepods", f"pod{POD}",
                                         CONTAINER, owner=NOBODY)
    process = sleepers()
    (group / "cgroup.procs").write_text(str(process.pid))
    attach(world, process.pid)
    one = known(yard, process.pid)
    assert (one["container"], one["pod"]) == (CONTAINER, None)
    process.kill()
    process.wait()


def put_process(proc, pid, *, comm="python3", uid=12345, cgroup="0::/\n", cmdline=b"python3\0"):
    """All of it at once, as the kernel does: the daemon may read it in the middle."""
    place = proc.parent / f"process-{pid}"
    place.mkdir()
    (place / "stat").write_bytes(b"%d (%s) S 1 1 1 0 -1 0 9 0 0 0 0 0 0 0 20 0 1 0 700 3 4\n"
                                 % (pid, comm if isinstance(comm, bytes) else comm.encode()))
    (place / "status").write_text(f"Name:\tx\nUid:\t{uid}\t{uid}\t{uid}\t{uid}\n")
    (place / "cmdline").write_bytes(cmdline)
    (place / "cgroup").write_text(cgroup)
    if (proc / str(pid)).exists():
        shutil.rmtree(proc / str(pid))
    place.rename(proc / str(pid))


@pytest.fixture
def elsewhere(world, daemon, tmp_path):
    """A daemon that reads processes where a container would mount the host's /proc."""
    world.start("--gpus", "1", "--load", "idle")
    proc = tmp_path / "host" / "proc"
    proc.mkdir(parents=True)
    config = tmp_path / "gpuyard.toml"
    config.write_text(f'[processes]\nproc_root = "{proc}"\n')
    return daemon("--config", str(config), GPUYARD_SIM_WORLD=str(world.directory)), proc


def synthetic(world, count):
    world.must("attach", "--synthetic", str(count), "--gpu", "0", "--vram", "1M", "--load", "0")
    return sorted(world.pids(0))


def test_mounted_proc_of_host_is_read(world, elsewhere):
    yard, proc = elsewhere
    job, hostile, invisible = synthetic(world, 3)
    put_process(proc, job, cgroup="0::/system.slice/slurmstepd.scope/job_77/step_0/user/task_0\n")
    put_process(proc, hostile, comm=b"\x1b[2J\xff", cmdline=b"\xff\xfe\0" + b"x" * 10_000_000,
                cgroup="0::/" + "y" * 100_000 + "\nrubbish")
    one = known(yard, job, gpu=0)
    assert (one["slurm_job"], one["slurm_step"]) == ("77", "0")
    assert one["user"] is None and one["missing"]["user"] == "uid 12345 has no user name on this machine"
    one = known(yard, hostile, gpu=0)
    assert one["command"].endswith("\ufffd")
    assert len("".join(one["arguments"]).encode()) < 5000
    one = next(one for one in processes(yard, 0) if one["pid"] == invisible)
    assert "no process with this PID" in one["missing"]["process"]
    assert one["user"] is None and one["command"] is None and one["started_at"] is None


def test_process_list_is_capped_and_daemon_stays_responsive(world, elsewhere):
    yard, proc = elsewhere
    pids = synthetic(world, 3000)
    for pid in pids[:200]:
        put_process(proc, pid)
    wait_until(lambda: sum("process" not in one["missing"] for one in processes(yard, 0)) > 100,
               "them to be looked up")
    assert len(processes(yard, 0)) == 1024
    assert yard.get("/health").status == 200
