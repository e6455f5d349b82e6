"""`gpuyard slurm plan` on daemons that have only an inventory: what it writes, and what it refuses. Slurm's
own programs read its files in tests/slurm/test_slurm_plan.py."""

import os
import re
import shutil
import socket
import stat

import pytest
from inventory_daemon import InventoryDaemon, gpu, inventory, machine
from program import wait_until

NAME = "localhost"  # a name that every machine resolves
FILES = ["README.md", "cgroup.conf", "gres.conf", "munge.key", "slurm.conf"]


# A slurmd that finds the machine of the test.
SLURMD = """#!/bin/sh
case $1 in
-C) echo "NodeName=$3 CPUs={cpus} Boards=1 SocketsPerBoard=2 CoresPerSocket=4 ThreadsPerCore=2 RealMemory=64000" ;;
-G) echo "slurmd: Gres Name=gpu Type=h100 Count=2 Index=0 ID=1 File=/dev/nvidia[0-1] Cores=0-3 (null)"
    echo "slurmd: Gres Name=gpu Type=h100 Count=2 Index=2 ID=1 File=/dev/nvidia[2-3] Cores=4-7 (null)" ;;
esac
"""
MUNGE = "#!/bin/sh\necho MUNGE:AwQ:\n"
USUAL = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class Site:
    def __init__(self, place, run):
        self.place = place
        self.into = place / "plan"
        self._run = run
        self.daemons = []

    def add(self, answer):
        socket = self.place / f"{len(self.daemons)}.sock"
        self.daemons.append(InventoryDaemon(socket, answer))
        return f"unix://{socket}"

    def plan(self, *hosts, controller=NAME, more=()):
        return self._run("slurm", "plan", "--hosts", ",".join(hosts), "--controller", controller,
                         "--into", str(self.into), *more)

    def text(self, name):
        return (self.into / name).read_text()

    def refused(self, *hosts, **options):
        """The message of a plan that writes nothing."""
        done = self.plan(*hosts, **options)
        assert done.returncode not in (0, -6, -11) and done.stdout == "", done
        assert not self.into.exists() and not list(self.place.glob(".plan*"))
        assert "\n  try:   " in done.stderr, "an error says what to do next"
        return done.stderr


@pytest.fixture
def site(tmp_path, run):
    one = Site(tmp_path, run)
    yield one
    for daemon in one.daemons:
        daemon.end()


@pytest.fixture
def lab():
    return inventory(machine(NAME), [gpu(0), gpu(1), gpu(2, node=1), gpu(3, node=1)])


def test_plan_is_written_for_its_owner_alone(site, lab):
    done = site.plan(site.add(lab))
    assert done.returncode == 0 and done.stderr == "", done
    assert sorted(os.listdir(site.into)) == FILES
    assert stat.S_IMODE(site.into.stat().st_mode) == 0o700
    key = site.into / "munge.key"
    assert stat.S_IMODE(key.stat().st_mode) == 0o400
    assert len(key.read_bytes()) == 1024 and len(set(key.read_bytes())) > 200
    assert "NodeName=localhost CPUs=16 Sockets=2 CoresPerSocket=4 ThreadsPerCore=2 " in site.text("slurm.conf")
    assert "Type=h100 File=/dev/nvidia[0-1] Cores=0-3\n" in site.text("gres.conf")
    assert "Type=h100 File=/dev/nvidia[2-3] Cores=4-7\n" in site.text("gres.conf")
    assert f"follow {site.into}/README.md" in done.stdout and "NVIDIA H100 80GB HBM3 is Type=h100" in done.stdout


def test_older_daemon_is_named(site, lab):
    old = site.add(None)
    text = site.refused(site.add(lab), old)
    assert f"{old}: its gpuyard is too old" in text and "install this version" in text


def test_daemon_that_does_not_respond_is_named(site, lab):
    gone = f"unix://{site.place}/gone.sock"
    text = site.refused(site.add(lab), gone)
    assert f"gpuyard: {gone}: " in text


def test_all_problems_are_reported_at_once(site, lab):
    lab["gpus"][1]["lost"] = "GPU is lost"
    lab["gpus"][2]["mig_enabled"] = None
    text = site.refused(site.add(lab), site.add(None))
    assert "GPU 1 is lost: GPU is lost" in text and "GPU 2: its MIG mode is unknown" in text
    assert "too old" in text and text.endswith("gpuyard: no file was written\n")


def test_name_without_address_is_refused(site, lab):
    lab["machine"]["hostname"] = "no-such-machine-here"
    text = site.refused(site.add(lab), controller="no-such-machine-here")
    assert "no-such-machine-here has no address" in text and "getent hosts no-such-machine-here" in text


def test_empty_list_is_refused(site, run):
    done = run("slurm", "plan", "--controller", "lab1", "--into", str(site.into))
    assert done.returncode == 2 and "no machines given" in done.stderr and not site.into.exists()


def compare(site, run, cpus, into, **others):
    """`plan --check` with a slurmd that finds `cpus` CPUs; others(munge=None) has no munge."""
    folder = site.place / "bin"
    folder.mkdir(exist_ok=True)
    for name, text in ({"slurmd": SLURMD.format(cpus=cpus), "munge": MUNGE} | others).items():
        if text is None:
            (folder / name).unlink(missing_ok=True)
            if shutil.which(name, path=USUAL):
                pytest.skip(f"this machine has {name}")
            continue
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    return run("slurm", "plan", "--check", "--into", str(into), PATH=f"{folder}:{USUAL}",
               GPUYARD_SOCKET=str(site.place / "0.sock"))


def test_check_finds_differences_and_changes_nothing(site, lab, run):
    site.plan(site.add(lab))
    before = sorted(os.listdir(site.into))
    done = compare(site, run, 16, site.into)
    assert (done.returncode, done.stdout) == (0, f"The files in {site.into} agree with this machine.\n"), done
    done = compare(site, run, 8, site.into)
    assert done.returncode == 1 and f"{site.into}/slurm.conf: CPUs=16, but slurmd finds 8\n" in done.stdout
    assert "  should be: NodeName=localhost CPUs=8 Sockets=2 " in done.stdout
    lab["gpus"].pop()
    done = compare(site, run, 16, site.into)
    assert done.returncode == 1
    assert "gres.conf: /dev/nvidia3 has no GPU in the driver\n  should not be in the file\n" in done.stdout
    assert sorted(os.listdir(site.into)) == before


def test_check_without_files_is_an_error(site, lab, run):
    site.add(lab)
    done = compare(site, run, 16, site.place / "none")
    assert done.returncode not in (0, 1) and f"{site.place}/none/slurm.conf" in done.stderr


@pytest.mark.parametrize("missing", ["munge", "slurmd"])
def test_check_names_the_missing_package(site, lab, run, missing):
    site.plan(site.add(lab))
    done = compare(site, run, 16, site.into, **{missing: None})
    assert done.returncode not in (0, 1) and done.stdout == "", done
    assert f"gpuyard: {missing} is not installed on this machine\n  try:   sudo apt-get install {missing}\n" in done.stderr


def test_check_names_the_program_that_fails(site, lab, run):
    site.plan(site.add(lab))
    down = '#!/bin/sh\necho "munge: Error: Failed to access /run/munge/munge.socket.2" >&2\nexit 6\n'
    done = compare(site, run, 16, site.into, munge=down)
    assert done.returncode not in (0, 1) and done.stdout == "", done
    assert done.stderr == ("gpuyard: munge -n failed\n"
                           "  cause: munge: Error: Failed to access /run/munge/munge.socket.2\n"
                           "  try:   sudo systemctl restart munge\n")
    done = compare(site, run, 16, site.into, slurmd="#!/bin/sh\necho 'slurmd: fatal: line 3' >&2\nexit 1\n")
    assert "gpuyard: slurmd -C failed\n  cause: slurmd: fatal: line 3\n" in done.stderr


def test_check_needs_no_munge_if_slurm_does_not(site, lab, run):
    site.plan(site.add(lab))
    conf = site.into / "slurm.conf"
    conf.write_text(conf.read_text().replace("AuthType=auth/munge", "authtype = auth/slurm"))
    assert compare(site, run, 16, site.into, munge="#!/bin/sh\nexit 1\n").returncode == 0


def test_lost_gpu_never_shrinks_a_plan(site, daemon):
    """Plans that are made while a GPU falls off the bus: each has all GPUs, or is refused."""
    one = daemon("--simulate", "2")
    name = socket.gethostname().split(".")[0]
    host = f"unix://{one.socket}"
    done = site.plan(host, controller=name)
    if "has no address" in done.stderr:
        pytest.skip("this machine does not resolve its own name")
    one.sim("inject", "--gpu", "1", "--lost")

    def refused():
        shutil.rmtree(site.into)
        again = site.plan(host, controller=name)
        if again.returncode == 0:
            assert re.search(rf"NodeName={name} .* Gres=gpu:\S+:2\n", site.text("slurm.conf"))
            return None
        assert not site.into.exists()
        return again.stderr

    text = wait_until(refused, "a plan to be refused")
    assert "GPU 1 is lost: " in text and text.endswith("gpuyard: no file was written\n")


def test_plan_of_a_real_daemon_is_this_machines(site, daemon):
    one = daemon("--simulate", "2")
    name = socket.gethostname().split(".")[0]
    done = site.plan(f"unix://{one.socket}", controller=name)
    if done.returncode != 0:
        assert f"{name} has no address" in done.stderr, done
        pytest.skip("this machine does not resolve its own name")
    assert f"NodeName={name} CPUs={os.sysconf('SC_NPROCESSORS_ONLN')} " in site.text("slurm.conf")
    assert f"{name} simulates its GPUs" in done.stdout
