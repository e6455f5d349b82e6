"""The processes of a GPU, at every face: real processes on simulated GPUs, and /proc variants."""

import json
import os
import re
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
    own = run("processes", "--user", str(os.geteuid()), "--socket", yard.socket, "--json").stdout
    assert len(json.loads(own)["processes"]) == 1
    others = run("processes", "--user", "nobody-at-all", "--socket", yard.socket, "--json")
    assert others.returncode == 0 and json.loads(others.stdout)["processes"] == []
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


def test_control_groups_of_root_name_container_and_pod(world, yard, opened, sleepers):
    groups = opened(ControlGroups())
    of_root = groups.make(f"kubepods-pod{POD.replace('-', '_')}.slice", f"cri-containerd-{CONTAINER}.scope")
    # As below a service that root delegated to a user (Delegate=): it names no pod.
    of_user = groups.make(f"delegated-{os.getpid()}.service", "kubepods", f"pod{POD}", CONTAINER, owner=NOBODY)
    in_pod, delegated = sleepers(), sleepers()
    for process, group in ((in_pod, of_root), (delegated, of_user)):
        (group / "cgroup.procs").write_text(str(process.pid))
        attach(world, process.pid)
    one = known(yard, in_pod.pid)
    assert (one["container"], one["container_runtime"], one["pod"]) == (CONTAINER, "containerd", POD)
    one = known(yard, delegated.pid)
    assert (one["container"], one["pod"]) == (CONTAINER, None)
    for process in (in_pod, delegated):
        process.kill()
        process.wait()
