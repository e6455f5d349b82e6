"""`gpuyard run` through Slurm: the GPUs of a job, its lease, its exit code, and what ends it."""

import contextlib
import fcntl
import json
import os
import pty
import re
import select
import shutil
import signal
import subprocess
import termios
import time

import pytest

from asking import running
from program import PATIENCE, PROGRAM, wait_until
from rig import Cluster
from slurm_conf import PLACE

# GPUs of two types, whose names have "100" in common.
GRES = "Name=gpu Type=h100 File={dev}/nvidia[0-1]\nName=gpu Type=h100_nvl File={dev}/nvidia[2-3]\n"
CONTROL = "[control]\nenabled = true\n"
ALL_GPUS = 4


@pytest.fixture(scope="module")
def cluster():
    with Cluster(nodes=1, gpus=ALL_GPUS, gres=GRES, gres_of_node="gpu:h100:2,gpu:h100_nvl:2",
                 settings={"AccountingStorageEnforce": "associations", "KillWait": 2},
                 daemon_config=CONTROL) as one:
        yield one


@pytest.fixture(autouse=True)
def no_job_is_left(cluster):
    yield
    assert jobs(cluster) == []


def jobs(cluster, *options):
    """Slurm's jobs that wait or run, or those of `options`."""
    return cluster.must("squeue", "-h", "-o", "%i", *(options or ("-t", "PD,R"))).split()


def environment(cluster, **more):
    variables = {"HOME": "/nonexistent", "GPUYARD_SOCKET": cluster.nodes[0].daemon_socket, **more}
    return ["env", *(f"{name}={value}" for name, value in variables.items())]


def line(cluster, *words, through=("--through", "slurm"), **more):
    return [*environment(cluster, **more), cluster.program, "run", *through, *words]


def wait_for_gpus(cluster):
    """Until a controller that has started again knows the GPUs of its node."""
    cluster.wait_for_nodes()
    words = ("sbatch", "--test-only", f"--gres=gpu:{ALL_GPUS}", "--wrap", "true")
    wait_until(lambda: cluster.run(*words, user="alice").returncode == 0, "the GPUs of the node", every=0.2)


def gpuyard_run(cluster, *words, **options):
    """`gpuyard run` of alice on the machine of the controller, a login node, run to its end."""
    done = cluster.run(*line(cluster, *words, **options), user="alice", timeout=2 * PATIENCE)
    return done


@contextlib.contextmanager
def waiting(cluster, *words, folder=f"{PLACE}/jobs"):
    """A `gpuyard run` that waits in Slurm's queue, because all GPUs are in use."""
    node = cluster.nodes[0]
    with running(node, gpus=ALL_GPUS):
        one = cluster.enclosure.popen(
            "env", "-C", folder, *line(cluster, *words), net="ctl", uid=1000, env={"PATH": "/usr/bin:/bin"},
            text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        try:
            wait_until(lambda: jobs(cluster, "-t", "PD"), "the job to wait")
            yield one
        except BaseException:
            one.kill()
            raise


class Terminal:
    """A terminal on the login node, with a `gpuyard run` in its foreground."""

    def __init__(self, cluster, *words):
        self.master, slave = pty.openpty()
        self.written = b""

        def own_terminal():
            os.setsid()
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)
        self.program = cluster.enclosure.popen(
            "env", "-C", f"{PLACE}/jobs", *line(cluster, *words), net="ctl", uid=1000,
            env={"PATH": "/usr/bin:/bin", "TERM": "xterm"}, stdin=slave, stdout=slave, stderr=slave,
            preexec_fn=own_terminal)
        os.close(slave)

    def text(self):
        while select.select([self.master], [], [], 0.05)[0]:
            try:
                self.written += os.read(self.master, 65536)
            except OSError:
                break
        return self.written.decode(errors="replace")

    def wait_for(self, words):
        wait_until(lambda: words in self.text(), lambda: f"{words} in {self.text()}")

    def press(self, keys):
        os.write(self.master, keys)

    def end(self):
        def ended():
            self.text()  # a full terminal would keep the program
            return self.program.poll() is not None
        wait_until(ended, lambda: f"its end: {self.text()}")
        return self.program.returncode


# A command that runs.


def test_command_has_gpus_and_lease_of_job(cluster):
    node = cluster.nodes[0]
    done = gpuyard_run(cluster, "-n", "2", "--model", "H100", "--max-time", "2h", "--", "sh", "-c",
                       "echo $CUDA_VISIBLE_DEVICES $GPUYARD_LEASE $GPUYARD_FENCE {indices} {uuids}; pwd; "
                       "sleep 1.2; exit 3")
    assert done.returncode == 3, done
    shown, folder = done.stdout.splitlines()
    visible, lease, fence, indices, uuids = shown.split(" ")
    assert visible == indices == "0,1" and folder == f"{PLACE}/jobs"
    assert uuids == ",".join(node.world.uuid(gpu) for gpu in (0, 1))
    job = re.fullmatch(r"slurm-(\d+)-.*", lease).group(1)
    held = node.get(f"/api/gpu/slurm/jobs/{job}")["lease"]
    assert (held["id"], str(held["fence"])) == (lease, fence)
    assert f"gpuyard: Slurm job {job} on n1; Slurm ends it after 2 h 00 min (--max-time)" in done.stderr
    used = re.search(r"^gpuyard: 1\.\d s on GPUs 0, 1 \([^)]+\), ([\d.]+) (k?J)", done.stderr, re.MULTILINE)
    assert used and float(used.group(1)) > 0, done.stderr
    shown = cluster.must("scontrol", "show", "job", job)
    assert "TimeLimit=02:00:00" in shown and "JobName=sh" in shown


def test_signal_of_command_is_in_exit_code(cluster):
    done = gpuyard_run(cluster, "-q", "--", "sh", "-c", "kill -TERM $$")
    assert done.returncode == 128 + signal.SIGTERM and "gpuyard:" not in done.stderr, done


def test_missing_command_has_shells_exit_code(cluster):
    done = gpuyard_run(cluster, "--", "/no/such/program")
    assert done.returncode == 127 and "gpuyard: running /no/such/program: No such file" in done.stderr, done


def test_power_limit_and_report_are_of_the_node(cluster):
    node, report = cluster.nodes[0], f"{PLACE}/jobs/report.json"
    done = gpuyard_run(cluster, "--model", "h100", "--power-limit", "350", "--note", "a b", "--report",
                       report, "--", cluster.program, "power", "0", "--json")
    assert done.returncode == 0, done
    assert "350" in done.stdout, done.stdout
    said = json.loads(cluster.enclosure.outside(report).read_text())
    assert said["exit_code"] == 0 and said["lease"]["binding"] == "job" and said["lease"]["use"]["energy_mj"] >= 0
    job = said["lease"]["id"].split("-")[1]
    assert "Comment=a b" in cluster.must("scontrol", "show", "job", job)
    wait_until(lambda: "350" not in node.must("power", "0", "--json"), "the power limit to be restored")
    refused = gpuyard_run(cluster, "--power-limit", "9000", "--", "true")
    assert refused.returncode == 4 and "the command was not started" in refused.stderr, refused


def test_node_without_daemon_runs_command_without_lease(cluster):
    node = cluster.nodes[0]
    with node.daemon.away():
        done = gpuyard_run(cluster, "--", "sh", "-c", 'echo "[$GPUYARD_LEASE]"', GPUYARD_LEASE="of-the-login-node")
        assert done.returncode == 0 and done.stdout == "[]\n", done
        assert "has no lease: " in done.stderr and "without GPUYARD_LEASE" in done.stderr
        needs = gpuyard_run(cluster, "--", "echo", "{uuids}")
        assert needs.returncode == 5 and needs.stdout == "", needs
        assert "the command was not started: {uuids} needs the lease of Slurm job" in needs.stderr


def test_configuration_sends_run_to_slurm(cluster):
    cluster.enclosure.write(f"{PLACE}/conf/gpuyard/gpuyard.toml", '[lease]\nthrough = "slurm"\n')
    configured = {"through": (), "XDG_CONFIG_HOME": f"{PLACE}/conf"}
    done = gpuyard_run(cluster, "-q", "--", "sh", "-c", "echo $SLURM_JOB_ID", **configured)
    assert done.returncode == 0 and done.stdout.strip().isdigit(), done
    daemon = gpuyard_run(cluster, "--through", "daemon", "--", "true", **configured)
    assert daemon.returncode == 7 and "Slurm allocates the GPUs" in daemon.stderr, daemon


# A command that does not get its GPUs.


def test_model_of_two_types_is_refused_with_both_lines(cluster):
    done = gpuyard_run(cluster, "-n", "2", "--model", "100", "--", "true")
    assert done.returncode == 2, done
    for kind in ("h100", "h100_nvl"):
        assert f"gpuyard run -n 2 --model {kind} --through slurm -- true\n" in done.stderr
        works = gpuyard_run(cluster, "-n", "2", "--model", kind, "--", "sh", "-c", "echo {indices}")
        assert works.stdout == {"h100": "0,1\n", "h100_nvl": "2,3\n"}[kind], works


def test_options_that_slurm_cannot_fulfil_are_refused(cluster):
    for option, value in (("--min-free", "20G"), ("--among", "0,1")):
        done = gpuyard_run(cluster, option, value, "-n", "2", "--", "true")
        assert done.returncode == 2 and f"{option} cannot be used with Slurm" in done.stderr, done
        assert "try:   gpuyard run -n 2 --through slurm -- true\n" in done.stderr
    none = gpuyard_run(cluster, "-n", "5", "--", "true")
    assert none.returncode == 2 and "no node of this partition has these GPUs" in none.stderr, none


def test_no_wait_and_wait_end_with_code_7(cluster):
    with running(cluster.nodes[0], gpus=ALL_GPUS):
        for words, shortest in ((("--no-wait",), 0), (("--wait", "2s"), 1.5)):
            began = time.monotonic()
            done = gpuyard_run(cluster, *words, "--", "true")
            assert done.returncode == 7 and time.monotonic() - began >= shortest, done
            assert "gpuyard: Slurm did not grant the GPUs in time" in done.stderr
            assert len(jobs(cluster)) == 1


def test_user_without_account_learns_what_to_do(cluster):
    done = gpuyard_run(cluster, "--", "true", SLURM_ACCOUNT="nobodys")
    assert done.returncode == 4 and "Invalid account" in done.stderr, done
    assert "sacctmgr show associations user=$USER" in done.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_run_that_is_ended_while_it_waits_leaves_no_job(cluster, number):
    with waiting(cluster, "--", "true") as one:
        one.send_signal(number)
        one.communicate(timeout=PATIENCE)
        assert one.returncode == (-number if number == signal.SIGKILL else 128 + number)
        wait_until(lambda: not jobs(cluster, "-t", "PD"), "no job to wait")


def test_controller_that_goes_away_while_run_waits(cluster):
    with waiting(cluster, "-q", "--", "echo", "ran") as one:
        with cluster.controller.away():
            assert one.poll() is None
        wait_for_gpus(cluster)
    out, err = one.communicate(timeout=2 * PATIENCE)
    assert (one.returncode, out) == (0, "ran\n"), err
    wait_until(lambda: not jobs(cluster), "the job to be over")


def test_without_controller_is_code_5(cluster):
    with cluster.controller.away():
        for words in (("--model", "h100"), ()):
            done = cluster.run(*line(cluster, *words, "--", "true"), user="alice", timeout=2 * PATIENCE)
            assert done.returncode == 5, done
            assert "gpuyard: Slurm's controller is not responding" in done.stderr and "scontrol ping" in done.stderr
    wait_for_gpus(cluster)


def test_working_folder_that_is_not_on_node(cluster):
    folder = f"{PLACE}/jobs/gone"
    cluster.enclosure.must("mkdir", "-m", "777", folder)
    with waiting(cluster, "--", "echo", "ran", folder=folder) as one:
        cluster.enclosure.must("rmdir", folder)
    out, err = one.communicate(timeout=PATIENCE)
    assert one.returncode == 126 and out == "", (out, err)
    assert f"gpuyard: the working folder {folder} is not on node n1" in err
    wait_until(lambda: not jobs(cluster), "the job to be over")


def test_srun_that_is_not_installed():
    if shutil.which("srun"):
        pytest.skip("srun is installed on this machine")
    done = subprocess.run([PROGRAM, "run", "--through", "slurm", "--", "true"], capture_output=True, text=True,
                          timeout=PATIENCE, check=False)
    assert done.returncode == 5 and "srun is not installed on this machine" in done.stderr, done


# Its end.


def test_time_limit_is_said_as_such(cluster):
    one = cluster.enclosure.popen(
        "env", "-C", f"{PLACE}/jobs", *line(cluster, "--max-time", "1m", "--", "sleep", "1000"), net="ctl",
        uid=1000, env={"PATH": "/usr/bin:/bin"}, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    job = wait_until(lambda: jobs(cluster, "-t", "R"), "the job to run")[0]
    wait_until(lambda: cluster.enclosure.run("pgrep", "-x", "sleep").returncode == 0, "the command to run")
    cluster.must("scontrol", "update", f"jobid={job}", "EndTime=now+1")
    _, err = one.communicate(timeout=3 * PATIENCE)  # Slurm checks the limits every half minute
    assert one.returncode == 128 + signal.SIGTERM, err
    assert "Slurm ends it after 60 s (--max-time)" in err
    assert "gpuyard: Slurm ended the job at its time limit, --max-time 1m\n" in err
    assert re.search(r"^gpuyard: [\d.]+ s on GPU 0 ", err, re.MULTILINE)
    wait_until(lambda: not jobs(cluster), "the job to be over")


def test_ctrl_c_on_terminal_ends_command(cluster):
    terminal = Terminal(cluster, "--", "sh", "-c", "tty; echo ready; exec sleep 1000")
    terminal.wait_for("ready")
    assert "/dev/pts/" in terminal.text()
    terminal.press(b"\x1a")  # Ctrl-Z has no effect
    terminal.press(b"\x03")
    assert terminal.end() in (-signal.SIGINT, 128 + signal.SIGINT), terminal.text()
    wait_until(lambda: not jobs(cluster), "the job to be over")


def test_ctrl_c_on_terminal_ends_the_wait(cluster):
    with running(cluster.nodes[0], gpus=ALL_GPUS):
        terminal = Terminal(cluster, "--", "true")
        wait_until(lambda: jobs(cluster, "-t", "PD"), "the job to wait")
        terminal.wait_for("queued and waiting for resources")
        terminal.press(b"\x03")
        assert terminal.end() in (-signal.SIGINT, 128 + signal.SIGINT), terminal.text()
        wait_until(lambda: not jobs(cluster, "-t", "PD"), "no job to wait")


def test_interrupted_command_may_finish(cluster):
    one = cluster.enclosure.popen(
        *line(cluster, "-q", "--", "sh", "-c", "trap 'echo saved; exit 5' INT; echo ready; while :; do sleep 0.1; done"),
        net="ctl", uid=1000, env={"PATH": "/usr/bin:/bin"}, text=True, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE)
    assert one.stdout.readline() == "ready\n"
    one.send_signal(signal.SIGINT)
    out, err = one.communicate(timeout=PATIENCE)
    assert (one.returncode, out) == (5, "saved\n"), err
    wait_until(lambda: not jobs(cluster), "the job to be over")


# In a job.


def batch(cluster, *words, gpus=2):
    """What a batch script prints that has GPUs, and runs that in its job."""
    script = " ".join(["export", f"GPUYARD_SOCKET={cluster.nodes[0].daemon_socket}", "HOME=/nonexistent;",
                       cluster.program, "run", "--through", "slurm", *words, "2>&1; echo code $?"])
    job = cluster.submit(script, f"--gres=gpu:h100:{gpus}") if gpus else cluster.submit(script)
    cluster.wait_for_job(job)
    return cluster.output(job), job


def test_within_job_command_runs_on_its_gpus(cluster):
    out, job = batch(cluster, "-n", "2", "--model", "H100", "--max-time", "1h", "--", "sh", "-c",
                     "'echo $SLURM_JOB_ID $GPUYARD_LEASE {indices}; sleep 1.2'")
    assert re.search(rf"^{job} slurm-{job}-\S+ 0,1$", out, re.MULTILINE), out
    assert f"--max-time has no effect in job {job}" in out and out.endswith("code 0\n")
    assert re.search(r"^gpuyard: 1\.\d s on GPUs 0, 1 .*, [\d.]+ k?J", out, re.MULTILINE), out


def test_within_job_more_gpus_than_it_has_are_refused(cluster):
    out, job = batch(cluster, "-n", "3", "--", "true")
    assert f"gpuyard: job {job} has 2 GPUs on this node, and the command needs 3" in out
    assert out.endswith("code 2\n")
    out, job = batch(cluster, "--", "true", gpus=0)
    assert f"job {job} has 0 GPUs on this node" in out and out.endswith("code 2\n")
    out, _ = batch(cluster, "--model", "A100", "--", "true")
    assert 'which does not match "A100"' in out and out.endswith("code 2\n")


def test_shell_of_salloc_uses_gpus_of_its_job(cluster):
    done = cluster.run("salloc", "--gres=gpu:h100:2", *line(cluster, "-n", "2", "--", "sh", "-c",
                       "echo {indices} $SLURM_STEP_ID"), user="alice", timeout=PATIENCE)
    assert done.returncode == 0 and done.stdout == "0,1 0\n", done
    done = cluster.run("salloc", "--gres=gpu:h100:1", *line(cluster, "-n", "2", "--", "true"), user="alice",
                       timeout=PATIENCE)
    assert done.returncode == 2 and "has 1 GPU on this node, and the command needs 2" in done.stderr, done
    wait_until(lambda: not jobs(cluster), "the jobs to be over")
