"""The owner of a process in a container is the user who created its control group, as the kernel reports it.
Names and marks that any user may write decide nothing. The processes, users and control groups are real; root
does here what docker, podman and the kubelet do with groups, users and namespaces."""

import os
import secrets
import shutil
import subprocess
import sys

import pytest

from control_client import Caller
from control_groups import ControlGroups
from program import Daemon, children, clean_environment, program_for_others, runs, wait_until
from sim_world import World

LEASES = "/api/gpu/leases"
LESSEE, STRANGER, THIRD = 1002, 1001, 1999
SLEEP = "import sys; print('up', flush=True); sys.stdin.read()"


@pytest.fixture
def groups(opened):
    return opened(ControlGroups())


@pytest.fixture
def start(groups):
    """start(group, uid, lease): the pid of a process that waits in that group and names the lease; `leads`: as the
    first of a PID namespace."""
    started = []

    def go(group, uid, lease=None, leads=False):
        environment = {"PATH": os.environ["PATH"]} | ({"GPUYARD_LEASE": lease} if lease else {})
        become = {"user": uid, "group": uid, "extra_groups": []}
        command = [sys.executable, "-c", SLEEP]
        if leads:
            if not all(map(shutil.which, ("unshare", "setpriv"))):
                pytest.skip("making a PID namespace needs unshare and setpriv")
            command = ["unshare", "--pid", "--fork", "--kill-child", "setpriv", f"--reuid={uid}",
                       f"--regid={uid}", "--clear-groups", *command]
            become = {}
        process = subprocess.Popen(command, env=environment, cwd="/", stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE, **become)
        started.append(process)
        assert process.stdout.readline() == b"up\n"
        pid, = children(process.pid) if leads else [process.pid]
        if group is not None:
            (group / "cgroup.procs").write_text(str(pid))
        return pid

    yield go
    for process in started:
        process.kill()
        process.communicate()


@pytest.fixture
def lease(yard):
    """A lease of the lessee on one GPU, without a process."""
    caller = Caller(yard.socket, LESSEE)

    def granted():  # refused until the GPUs have been checked
        answer = caller.ask("POST", LEASES, {"binding": "detached", "ttl_s": 600, "answer_within_s": 20})
        return answer if answer.status != 503 else None
    answer = wait_until(granted, "the daemon to lease GPUs")
    assert answer.status == 200, answer.text
    yield answer.json()["lease"]
    caller.close()


def gpu_of(lease):
    return lease["gpus"][0]["index"]


def attach(world, lease, pid):
    world.must("attach", "--pid", str(pid), "--gpu", str(gpu_of(lease)), "--vram", "1G", "--load", "0.5")


def release(yard, lease):
    caller = Caller(yard.socket, LESSEE)
    answer = caller.ask("DELETE", f"{LEASES}/{lease['id']}?fence={lease['fence']}")
    caller.close()
    assert answer.status == 200, answer.text


def now(yard, lease):
    return yard.get(f"{LEASES}/{lease['id']}").json()["lease"]


def squatters(yard):
    return {one["pid"] for one in yard.get("/api/gpu/queue").json()["squatters"]}


def container_name():
    return f"docker-{secrets.token_hex(32)}.scope"


def delegated(groups, owner, *names):
    """A group that a user created below a service that root delegated to that user (Delegate=)."""
    return groups.make(f"delegated-{secrets.token_hex(4)}.service", *names, owner=owner)


def below_manager(groups, owner, name):
    """A group such as `systemd-run --user --scope` creates."""
    return groups.make(f"user-{secrets.token_hex(4)}.slice", f"user@{owner}.service", "user.slice", name,
                       owner=owner)


@pytest.fixture
def run(open_place):
    """A daemon whose socket every user can reach, and the lessee's `gpuyard run` there."""
    world, daemon, running = World(open_place), None, None
    try:
        world.start("--gpus", "1", "--load", "idle")
        daemon = Daemon(open_place, GPUYARD_SIM_WORLD=str(world.directory)).ready()
        running = subprocess.Popen(
            [program_for_others(open_place), "run", "--", "sh", "-c", "echo $GPUYARD_LEASE; exec sleep 600"],
            env=clean_environment(open_place, GPUYARD_SOCKET=daemon.socket), cwd="/", text=True,
            user=LESSEE, group=LESSEE, extra_groups=[], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
        yield daemon, running
    finally:
        if running:
            running.kill()
            running.communicate()
        if daemon:
            daemon.kill()
        world.end()


@pytest.mark.parametrize("place", [delegated, below_manager])
def test_group_of_another_user_keeps_no_gpu_draining(run, groups, start, place):
    daemon, running = run
    lease = {"id": running.stdout.readline().strip()}
    name = container_name()
    first = start(groups.make(name), LESSEE, lease["id"], leads=True)
    stranger = start(place(groups, STRANGER, name), STRANGER, lease["id"])
    running.terminate()
    drains = wait_until(lambda: now(daemon, lease)["why"],
                        lambda: f"the first process to be named; it is {now(daemon, lease)}")
    assert drains == f"PID {first} is still running"
    os.kill(first, 9)
    wait_until(lambda: now(daemon, lease)["state"] == "ended", lambda: f"its end; it is {now(daemon, lease)}")
    assert runs(stranger)


def test_stranger_with_mark_of_lease_is_unleased(world, yard, lease, groups, start):
    name = container_name()
    start(groups.make(name), LESSEE, lease["id"], leads=True)
    strangers = {start(None, STRANGER, lease["id"]),
                 start(delegated(groups, STRANGER, name), STRANGER, lease["id"]),
                 start(below_manager(groups, STRANGER, name), STRANGER, lease["id"])}
    for pid in strangers:
        attach(world, lease, pid)
    wait_until(lambda: squatters(yard) == strangers,
               lambda: f"all of {strangers} to be squatters; {squatters(yard)} are")
    release(yard, lease)


# A pod, as `gpuyard run -- docker run -e GPUYARD_LEASE` and `docker run -d`: groups that root created.
def test_container_created_by_root_accepts_any_user(world, yard, lease, groups, start):
    group = groups.make(f"kubepods-burstable-pod{secrets.token_hex(16)}.slice", container_name())
    first = start(group, THIRD, lease["id"], leads=True)
    worker = start(group, THIRD)  # a member because of the first
    stray = start(None, STRANGER)
    for pid in (first, worker, stray):
        attach(world, lease, pid)
    wait_until(lambda: stray in squatters(yard), "the stray process to be a squatter")
    assert squatters(yard) == {stray}
    release(yard, lease)
    assert str(first) in wait_until(lambda: now(yard, lease)["why"], "why it drains")
    assert now(yard, lease)["state"] == "draining"


def test_a_rootless_container_belongs_to_its_user_alone(world, yard, lease, groups, start):
    name = f"libpod-{secrets.token_hex(32)}.scope"
    own = below_manager(groups, LESSEE, name)
    inside = start(own, 100_000 + THIRD, lease["id"])
    stray = start(below_manager(groups, STRANGER, name), 200_000 + THIRD, lease["id"])
    for pid in (inside, stray):
        attach(world, lease, pid)
    wait_until(lambda: stray in squatters(yard), "the stranger's process to be a squatter")
    assert squatters(yard) == {stray}
    release(yard, lease)
    assert str(inside) in wait_until(lambda: now(yard, lease)["why"], "why it drains")
