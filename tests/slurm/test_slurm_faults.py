"""Failures between Slurm, the hooks and the daemon: no job is harmed, and a missed report is sent
later, so that jobs and leases agree.

Slurm itself runs no health check here: each test runs its own, as Slurm would.
"""

import contextlib
import json
import time

import pytest

from asking import (NEVER, STAYS, acknowledge, begun, cancel, check, check_until, done, drained, ended, environment,
                    firing, gpus_of, held_by_slurm, joules_of, known_jobs, lease_is_over, lease_of, make_sick,
                    put_right, run_hook, running, sick_gpus, spooled, start_hook, started, state_of, trouble,
                    uses_joules, verb)
from hooks import NOTHING
from jobs import JOBS
from program import PATIENCE, wait_until
from rig import Cluster
from slurm_conf import PLACE

QUICK = 0.6  # seconds: 250 ms of the hook's own, and what the rig's shell takes on a machine that is busy
GO = f"{JOBS}/go"  # what a job or a hook waits for


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    rules = tmp_path_factory.mktemp("slurm") / "rules.toml"
    rules.write_text("[rule.gpu-unresponsive]\nhold_s = 1\nclear_hold_s = 1\n", encoding="utf-8")
    with Cluster(nodes=2, gpus=4, accounting=False, health_interval=NEVER, hooks={"epilog-ctld": NOTHING},
                 daemon_config=f'[alerts]\nfile = "{rules}"\n') as one:
        for node in one.nodes:
            check(node)
        yield one


@pytest.fixture(autouse=True)
def as_it_was(request):
    yield
    if "cluster" in request.fixturenames:
        one = request.getfixturevalue("cluster")
        one.enclosure.outside(GO).unlink(missing_ok=True)
        put_right(one)
        assert not any(spooled(node) or trouble(node) for node in one.nodes)


@pytest.fixture
def node(cluster):
    return cluster.nodes[0]


BUSY_TRIES = 10  # jobs, until one meets a machine that has time for it


def quiet(run):
    """A hook that had nothing to complain of."""
    return (run.status, run.out, run.err) == (0, "", "")


def go(cluster):
    cluster.enclosure.write(GO, "")


# A daemon that does not answer.


@pytest.mark.parametrize("fault", ["killed", "hanging"])
def test_unresponsive_daemon_harms_no_job(cluster, node, fault, record_property):
    record_property("contract", "S3")
    away = getattr(node.daemon, fault)
    with away():
        job = cluster.submit(STAYS, gpus=2, on="n1", user="bob")
        begin, health = begun(node, job), check(node)
        started(cluster, job)
        assert (begin.status, health.status) == (0, 0) and max(begin.seconds, health.seconds) < QUICK
        assert f"job {job} not recorded yet: " in begin.err and "node not checked: " in health.err
        assert spooled(node) == [f"begin-{job}"] and node.state() == "MIXED"
    assert quiet(check(node))
    assert state_of(node, job) == "held" and gpus_of(node, job) == [0, 1] and lease_of(node, job)["uid"] == 1001
    with away():
        cluster.cancel(job)
        end = ended(node, job)
        assert end.status == 0 and end.seconds < QUICK and f"end of job {job} not delivered yet: " in end.err
        assert spooled(node) == [f"end-{job}"]
        cluster.wait_for_job(job)
    assert quiet(check(node))
    lease_is_over(node, job)


def test_hanging_driver_harms_no_job(cluster, node, record_property):
    record_property("contract", "S3")
    node.world.hang_driver()
    try:
        wait_until(lambda: len(sick_gpus(node)) == 4, "the alert of each GPU")
        with running(node, gpus=1) as job:
            begin = begun(node, job)
            assert quiet(begin) and begin.seconds < QUICK and state_of(node, job) == "held"
            health = check(node)
            assert health.status == 0 and health.seconds < QUICK and drained(node)
            assert node.reason().startswith("gpuyard: GPU 0 is not responding: ")
            assert cluster.job(job)["JobState"] == "RUNNING"
        end = ended(node, job)
        assert quiet(end) and end.seconds < QUICK and state_of(node, job) in ("draining", "ended")
    finally:
        node.world.heal_all()
    lease_is_over(node, job)
    check_until(node, lambda: not drained(node), "the node to be resumed")


def test_job_during_daemon_outage_leaves_no_lease(cluster, node, record_property):
    record_property("contract", "S3")
    with node.daemon.killed():
        job = done(node)
        assert spooled(node) == [f"end-{job}"]
    assert quiet(check(node)) and lease_of(node, job) is None


def test_jobs_started_before_daemon_are_recorded_later(cluster, record_property):
    record_property("contract", "S4")
    node = cluster.nodes[1]
    node.daemon.stop()
    cluster.enclosure.must("rm", "-r", node.spool, f"{node.place}/state")
    first = check(node)
    assert first.status == 0 and "node not checked: nothing is listening" in first.err
    job = cluster.submit(STAYS, gpus=2, on="n2")
    assert begun(node, job).status == 0
    started(cluster, job)
    done(node, user="bob")
    node.daemon.start()
    assert quiet(check(node))
    assert known_jobs(node) == {job: [0, 1]} and not spooled(node)
    cancel(cluster, job)
    assert quiet(ended(node, job))
    lease_is_over(node, job)


def test_job_on_leased_gpu_is_recorded_after_release(cluster, record_property):
    record_property("contract", "S4")
    node = cluster.nodes[1]
    node.daemon.stop()
    cluster.enclosure.must("rm", "-r", node.spool, f"{node.place}/state")
    node.daemon.start()
    lease = json.loads(node.must("lease", "take", "--for", "1h", "--among", "0", "--json"))["lease"]["id"]
    with running(node, user="bob") as job:
        begin = begun(node, job)
        assert begin.status == 0 and f"job {job} not recorded yet: lease {lease} of UID 1000" in begin.err
        assert known_jobs(node) == {} and f"job {job} not recorded yet" in trouble(node)
        node.must("lease", "release", lease)
        check_until(node, lambda: known_jobs(node) == {job: [0]}, "the job to be counted")
        assert not trouble(node)
        owner = node.gpuyard("lease", "release", lease_of(node, job)["id"], user="bob")
        assert owner.returncode != 0 and "end the job with `scancel`" in owner.stderr and state_of(node, job) == "held"


# Events that one of the two misses.


def test_a_lease_goes_on_in_the_next_daemon(cluster, node, record_property):
    record_property("contract", "S4")
    with running(node) as job:
        uses_joules(node, job, 50)
        lease, before = lease_of(node, job)["id"], joules_of(node, job)
        with node.daemon.away():
            pass
        assert (lease_of(node, job)["id"], state_of(node, job)) == (lease, "held")
        assert joules_of(node, job) >= before
        # Usage since the last commit is lost in a crash, and reported as such.
        with node.daemon.killed():
            pass
        assert (lease_of(node, job)["id"], state_of(node, job)) == (lease, "held")
        uses_joules(node, job, joules_of(node, job) + 50)
    assert quiet(ended(node, job))
    wait_until(lambda: (lease_of(node, job)["use"] or {}).get("settled"), "all of it to be counted")
    assert lease_of(node, job)["ending"] == "released" and lease_of(node, job)["id"] == lease


def test_a_beginning_without_an_end_is_taken_over(cluster, node, record_property):
    record_property("contract", "S4")
    with cluster.hook("end", NOTHING):
        first = done(node, gpus=2)
    assert state_of(node, first) == "held"
    with running(node, gpus=1, user="bob") as job:
        assert gpus_of(node, job) == [0] and known_jobs(node) == {job: [0]}
    lease = lease_of(node, first)
    assert (lease["state"], lease["ending"], lease["why"]) == ("ended", "taken_over", f"its GPUs now belong to slurm-{job}")


def test_end_without_begin_is_ignored(cluster, node, record_property):
    record_property("contract", "S4")
    with cluster.hook("begin", NOTHING):
        job = done(node)
    assert quiet(ended(node, job)) and lease_of(node, job) is None
    assert quiet(run_hook(node, "end", 4000)) and not spooled(node)


def test_reused_job_number_is_another_job(node, record_property):
    record_property("contract", "S4")
    assert quiet(run_hook(node, "begin", 4001, "0,1"))
    first = lease_of(node, 4001)
    assert quiet(run_hook(node, "begin", 4001, "0,1")) and lease_of(node, 4001)["id"] == first["id"]
    assert quiet(run_hook(node, "begin", 4001, "2", uid=1001, user="bob"))
    second = lease_of(node, 4001)
    assert second["user"] == "bob" and second["id"] > first["id"] and known_jobs(node) == {4001: [2]}
    over = node.get(f"/api/gpu/leases/{first['id']}")["lease"]
    assert (over["state"], over["ending"]) == ("ended", "taken_over")
    # Slurm does not name the GPUs in an epilog that it runs after its controller was away.
    assert quiet(run_hook(node, "end", 4001))
    assert lease_is_over(node, 4001) == "released"
    assert quiet(run_hook(node, "begin", 4001, "2", uid=1001, user="bob"))
    assert lease_of(node, 4001)["id"] > second["id"]
    assert quiet(run_hook(node, "end", 4001))


def test_concurrent_hooks_do_not_interfere(node, record_property):
    record_property("contract", "S4")
    jobs = {4010 + gpu: gpu for gpu in range(4)}
    for name in ("begin", "end"):
        started = [start_hook(node, name, job, str(gpu)) for job, gpu in jobs.items()]
        started += [start_hook(node, "health") for _ in range(3)]
        assert [one.wait(PATIENCE) for one in started] == [0] * 7
        known = {job: [gpu] for job, gpu in jobs.items()} if name == "begin" else {}
        wait_until(lambda known=known: known_jobs(node) == known, lambda: f"other jobs: {known_jobs(node)}")
    # Two jobs on one GPU: the later one has it.
    started = [start_hook(node, "begin", job, "3") for job in jobs]
    assert [one.wait(PATIENCE) for one in started] == [0] * 4
    (job, gpus), = known_jobs(node).items()
    assert gpus == [3]
    assert quiet(run_hook(node, "end", job))


def test_slurmd_killed_during_prolog_keeps_leases_consistent(cluster, node, record_property):
    record_property("contract", "S4")
    with cluster.hook("begin", verb(cluster, "begin", f"until [ -e {GO} ]; do sleep 0.05; done")):
        job = cluster.submit(STAYS, gpus=1, on="n1")
        wait_until(lambda: node.hook_runs("begin", job), "the prolog to begin")
        with node.slurmd.killed():
            pass
        go(cluster)
        assert quiet(begun(node, job))
    assert known_jobs(node) == {job: [0]} and not drained(node)
    # Slurm never learns that the prolog is over.
    cancel(cluster, job)
    assert quiet(ended(node, job))
    lease_is_over(node, job)


def test_job_ending_during_controller_outage_ends_lease(cluster, node, record_property):
    record_property("contract", "S4")
    job = cluster.submit(f"echo $$; until [ -e {GO} ]; do sleep 0.05; done", gpus=1, on="n1")
    pid = started(cluster, job)
    with cluster.controller.away():
        go(cluster)
        wait_until(lambda: cluster.enclosure.run("kill", "-0", pid).returncode != 0, "the job to end")
        assert quiet(check(node)) and known_jobs(node) == {job: [0]}
    cluster.wait_for_nodes()
    end = ended(node, job)
    assert quiet(end) and "SLURM_JOB_GPUS" not in end.environment
    lease_is_over(node, job)
    cluster.wait_for_job(job)


# Nodes that must be drained.


def test_job_on_sick_gpu_is_held_node_drained(cluster, node, record_property):
    record_property("contract", "S4")
    with running(node, user="bob") as other:
        make_sick(node, 1)
        job = cluster.submit(STAYS, gpus=2, on="n1")
        begin = begun(node, job)
        assert begin.status == 1 and f"job {job} not started: GPU 1: Xid 79." in begin.err
        wait_until(lambda: held_by_slurm(cluster, job), lambda: f"the job to be held: {cluster.job(job)}")
        assert drained(node) and node.reason().startswith("gpuyard: GPU 1: Xid 79.")
        assert quiet(ended(node, job))
        wait_until(lambda: known_jobs(node) == {other: [0]}, "the lease of the job that was held to be over")
        assert cluster.job(other)["JobState"] == "RUNNING"
        acknowledge(node)
        assert check(node).status == 0 and not drained(node)
        cluster.release(job)
        started(cluster, job)
        assert cluster.job(other)["JobState"] == "RUNNING"
        cancel(cluster, job)


def test_leftover_process_drains_node_until_gone(cluster, node, record_property):
    record_property("contract", "S4")
    job = cluster.submit(f"sleep 900 & echo $!; until [ -e {GO} ]; do sleep 0.05; done", gpus=1, on="n1")
    pid = int(started(cluster, job))
    node.world.attach(gpus_of(node, job)[0], pid)
    go(cluster)
    end = ended(node, job)
    assert end.status == 0 and end.seconds < 5
    assert drained(node)
    assert node.reason().startswith(f"gpuyard: job {job} of alice has ended, but PID {pid} (sleep) still uses GPU-")
    assert f"PID {pid} (sleep) still uses" in node.must("slurm", "status")
    assert cluster.wait_for_job(job) == "COMPLETED"
    assert quiet(check(node)) and drained(node)
    cluster.enclosure.must("kill", str(pid))
    wait_until(lambda: not known_jobs(node), "the daemon to see that it is gone")
    assert check(node).status == 0 and not drained(node)
    lease_is_over(node, job)


@pytest.fixture(scope="module")
def odd():
    """A node whose gres.conf has the GPUs in another order. Slurm counts by type, as slurm.conf has them:
    nvidia3, 2, 1, 0, 4."""
    gres = ("Name=gpu Type=b File={dev}/nvidia0\nName=gpu Type=a File={dev}/nvidia3\n"
            "Name=gpu Type=b File={dev}/nvidia4\nName=gpu Type=a File={dev}/nvidia[2,1]\n")
    with Cluster(nodes=1, gpus=5, accounting=False, health_interval=NEVER, hooks={"epilog-ctld": NOTHING},
                 gres=gres, gres_of_node="gpu:a:3,gpu:b:2") as one:
        yield one


def other_gpus(node, count):
    """The machine was rebooted with this number of GPUs."""
    node.daemon.stop()
    node.world.end()
    node.world.start("--gpus", str(count), "--machine", node.name)
    node.daemon.start()


def test_a_job_has_the_gpus_that_slurm_means(odd, record_property):
    record_property("contract", "S4")
    node, wanted = odd.nodes[0], {"a": [3, 2, 1], "b": [0, 4]}
    jobs = [(odd.submit(STAYS, f"--gres=gpu:{kind}:1"), gpu)
            for kind, gpus in wanted.items() for gpu in gpus]
    for place, (job, gpu) in enumerate(jobs):
        assert begun(node, job).environment["SLURM_JOB_GPUS"] == str(place)
        assert gpus_of(node, job) == [gpu]
    for job, _ in jobs:
        started(odd, job)
    cancel(odd, *(job for job, _ in jobs))
    wait_until(lambda: known_jobs(node) == {}, "all leases to be over")


def test_gpu_missing_from_driver_drains_node(odd, record_property):
    record_property("contract", "S4")
    node = odd.nodes[0]
    other_gpus(node, 4)
    job = odd.submit(STAYS, "--gres=gpu:b:2")
    begin = begun(node, job)
    assert begin.status == 0 and f"job {job} has /dev/nvidia4, but the driver has no such GPU" in begin.err
    assert gpus_of(node, job) == [0]
    assert check(node).status == 0 and drained(node)
    assert node.reason() == "gpuyard: Slurm allocates /dev/nvidia4, which the driver does not have; it has 4 GPUs"
    assert odd.job(job)["JobState"] == "RUNNING"
    started(odd, job)
    cancel(odd, job)
    other_gpus(node, 5)
    assert check(node).status == 0 and not drained(node)


# Slurm itself does not answer.


# The hook alone sees folders without programs.
GONE = ("[ $GONE ] || GONE=yes exec unshare --mount \"$0\"\n"
        "mount -t tmpfs none /usr/sbin && mount -t tmpfs none /usr/bin || exit 99")
REFUSES = f"export PATH={PLACE}/refuses"


@contextlib.contextmanager
def gone(cluster, name="health"):
    with cluster.hook(name, verb(cluster, name, GONE)):
        yield


@contextlib.contextmanager
def refused(cluster, name="health"):
    program = "#!/bin/sh\necho 'slurm_update error: Invalid user id' >&2\nexit 1\n"
    cluster.enclosure.write(f"{PLACE}/refuses/scontrol", program, 0o755)
    with cluster.hook(name, verb(cluster, name, REFUSES)):
        yield


@contextlib.contextmanager
def no_munge(cluster):
    with cluster.munge.killed():
        yield


@pytest.mark.parametrize(("fault", "said"), [
    (gone, "sinfo: "), (refused, "scontrol: slurm_update error: Invalid user id"), (no_munge, "sinfo: ")])
def test_check_without_answer_from_slurm_raises_alert(cluster, node, fault, said, record_property):
    record_property("contract", "S4")
    make_sick(node, 3)
    with fault(cluster):
        began = time.monotonic()
        health = check(node)
        assert health.status == 0 and said in health.err and time.monotonic() - began < 20
        assert said in trouble(node) and f"Hook error: {said}" in node.must("slurm", "status")
        wait_until(lambda: firing(node, "slurm-hook"), "the alert to fire")
    cluster.wait_for_nodes()
    assert not drained(node)
    assert check(node).status == 0 and drained(node) and trouble(node) == ""
    wait_until(lambda: not firing(node, "slurm-hook"), "the alert to be over")
    acknowledge(node)
    assert check(node).status == 0 and not drained(node)


def test_prolog_refuses_job_even_if_drain_fails(cluster, node, record_property):
    record_property("contract", "S4")
    make_sick(node, 0)
    with refused(cluster, "begin"):
        job = cluster.submit(STAYS, gpus=1, on="n1")
        assert begun(node, job).status == 1
        wait_until(lambda: held_by_slurm(cluster, job), lambda: f"the job to be held: {cluster.job(job)}")
    assert node.reason() == "Prolog error"
    assert check(node).status == 0 and node.reason().startswith("gpuyard: GPU 0: Xid 79.")
    acknowledge(node)
    assert check(node).status == 0 and not drained(node)
    cancel(cluster, job)


@contextlib.contextmanager
def full(cluster, folder):
    """A disk without room, mounted there."""
    cluster.enclosure.must("mount", "-t", "tmpfs", "-o", "size=4k,mode=0700", "tmpfs", folder)
    try:
        cluster.enclosure.must("dd", "if=/dev/zero", f"of={folder}/full", "bs=4k", "count=1", "status=none")
        yield
    finally:
        cluster.enclosure.must("umount", folder)


def test_full_spool_loses_notes_and_harms_no_job(cluster, node, record_property):
    record_property("contract", "S4")
    with full(cluster, node.spool):
        with node.daemon.killed():
            job = cluster.submit(STAYS, gpus=1, on="n1")
            assert begun(node, job).status == 0
            started(cluster, job)
        assert check(node).status == 0 and known_jobs(node) == {}
        for _ in range(BUSY_TRIES):
            with running(node) as other:
                begin = begun(node, other)
                if "slurmd -G:  (no answer" in begin.err:
                    continue  # slower than a hook waits, on a busy machine; the note of it has no room either
                assert quiet(begin) and known_jobs(node) == {other: gpus_of(node, other)}
                make_sick(node, 3)
                assert check(node).status == 0 and drained(node)
                acknowledge(node)
                assert check(node).status == 0 and not drained(node)
                break
        else:
            pytest.fail(f"slurmd -G was too slow for {BUSY_TRIES} jobs")
        cancel(cluster, job)
        assert quiet(ended(node, job))
    assert check(node).status == 0


# By hand.


def by_hand(node, name, given):
    """A hook with these variables alone."""
    done = node.enclosure.run(node.program, "slurm", name, "--socket", node.daemon_socket, "--spool", node.spool,
                              net=node.name, env=given)
    return done.returncode, done.stderr


def test_hooks_without_slurm_environment_name_missing_variable(node, record_property):
    record_property("contract", "S4")
    assert by_hand(node, "health", {}) == (2, "gpuyard: SLURMD_NODENAME is not set; Slurm runs this command as its "
                                              "HealthCheckProgram, see docs/slurm.md\n")
    unset = "gpuyard: SLURM_JOB_ID is not set; Slurm runs this command"
    for name in ("begin", "end"):
        assert by_hand(node, name, {}) == (0, f"{unset}, see docs/slurm.md\n")
    assert by_hand(node, "begin", environment(node, 4020)) == (0, "")  # a job without GPUs
    comment = node.enclosure.run(node.program, "slurm", "epilog-ctld", net=node.name, env={})
    assert comment.returncode == 2 and f"{unset} as its EpilogSlurmctld" in comment.stderr
    not_root = node.gpuyard("slurm", "begin", user="bob", **environment(node, 4020, "0", 1001, "bob"))
    assert not_root.returncode == 0 and "ask an administrator of this machine" in not_root.stderr
    assert known_jobs(node) == {}


def test_malformed_environment_raises_alert_and_harms_no_job(node, record_property):
    record_property("contract", "S4")
    for wrong, said in (({"SLURM_JOB_UID": "alice"}, 'SLURM_JOB_UID is "alice", expected a number'),
                        ({"SLURM_JOB_UID": ""}, 'SLURM_JOB_UID is "", expected a number'),
                        ({"SLURM_JOB_UID": "9" * 30}, "expected a number"),
                        ({"SLURM_JOB_UID": str(2**32)}, "expected a number"),
                        ({"SLURM_JOB_GPUS": "all"}, 'a GPU in SLURM_JOB_GPUS is "all", expected a number'),
                        ({"SLURM_JOB_ID": "../4"}, "job ../4 not recorded")):
        status, text = by_hand(node, "begin", environment(node, 4021, "0") | wrong)
        assert status == 0 and said in text and said in trouble(node), (wrong, status, text, trouble(node))
        assert known_jobs(node) == {} and not spooled(node)
        assert check(node).status == 0 and trouble(node) == ""


# Slurm may list the GPU later, so the next health check tries again.
def test_gpu_missing_from_slurm_list_keeps_begin_spooled(node, record_property):
    record_property("contract", "S4")
    status, text = by_hand(node, "begin", environment(node, 4022, "17"))
    assert (status, text) == (0, "gpuyard: job 4022 not recorded yet: GPU 17 is not in Slurm's list\n")
    assert check(node).status == 0 and spooled(node) == ["begin-4022"]
    assert trouble(node) == "job 4022 not recorded: GPU 17 is not in Slurm's list"
    assert by_hand(node, "end", environment(node, 4022)) == (0, "") and not spooled(node)
    assert check(node).status == 0 and not trouble(node)
