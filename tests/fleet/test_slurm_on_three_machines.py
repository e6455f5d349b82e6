"""docs/slurm.md, "Three machines, one queue", as it stands there: three machines with gpuyard get Slurm by the
commands of the page and of the plan's README.md, and a first job gets its GPU.
"""

import contextlib
import re
import time
from pathlib import Path

import pytest

from bare_slurm_host import BareSlurmHost, prepare
from program import wait_until
from rig import CLIENT, Fleet

PAGE = Path(__file__).resolve().parents[2] / "docs" / "slurm.md"
GPUS = 2  # of each machine
LIMIT = 60  # seconds from the plan to the first result
# Lines of slurm.conf that this machine cannot have.
CONF = {"ProctrackType": "proctrack/linuxproc", "TaskPlugin": "task/none"}
# Commands of README.md that are not run here.
LEFT_OUT = {"sudo apt-get install": "Debian's packages are unpacked below /usr, with their users and folders",
            "timedatectl": "no systemd"}
CHANGES = [*(f"{key}={value}: no control groups here" for key, value in CONF.items()),
           *(f"{words}: left out, {why}" for words, why in LEFT_OUT.items()),
           "lab1, lab2, lab3: n1, n2, n3", "sudo: root's own shell", "nvidia-smi: gpuyard smi",
           "systemctl restart: starts ExecStart of Debian's unit", "over ssh: as alice, by tar"]


@pytest.fixture(scope="module")
def fleet():
    with Fleet(nodes=3, gpus=GPUS) as one:
        prepare(one)
        yield one


@pytest.fixture(scope="module")
def hosts(fleet):
    return [BareSlurmHost(fleet, node, GPUS) for node in fleet.nodes]


def plan_command():
    """The first command of the page's section, with the names of the machines here."""
    section = PAGE.read_text(encoding="utf-8").split("## Three machines, one queue\n")[1].split("\n## ")[0]
    command = re.search(r"(?m)^    \$ (gpuyard slurm plan --hosts .*)$", section).group(1)
    return re.sub(r"\blab(\d)", r"n\1", command)


def steps(readme, hosts):
    """The commands of README.md, each with the hosts that it is for."""
    for section in readme.split("\n## ")[1:]:
        title = section.splitlines()[0]
        for line in "".join(re.findall(r"(?ms)^```sh\n(.*?)^```$", section)).splitlines():
            command, _, remark = line.partition("  # ")
            alone = re.search(r"on (\S+) alone", remark)
            if alone:
                yield command, [host for host in hosts if host.name == alone.group(1)]
            else:
                yield command, hosts if "on every machine" in title + remark else hosts[:1]


def run_step(command, host):
    """Returns what it prints."""
    done = host.run(command.replace("sudo ", ""), "root" if "sudo " in command else "alice")
    assert done.returncode == 0, f"{host.name}: {command}: {done}"
    return done.stdout


def adapt(conf):
    """Changes the lines of slurm.conf that this machine cannot have."""
    text = conf.read_text(encoding="utf-8")
    for key, value in CONF.items():
        text, count = re.subn(rf"(?m)^{key}=.*$", f"{key}={value}", text)
        assert count == 1, key
    conf.write_text(text, encoding="utf-8")


def install(fleet, hosts, into):
    """Follows README.md to its check. Returns what the check has printed, by command."""
    printed = {}
    adapt(into / "slurm.conf")
    for host in hosts:
        fleet.enclosure.must("sh", "-c", f"tar -C {CLIENT} -c slurm-plan | ssh {host.name} tar -C {host.home} -x",
                             env=fleet.environment)
    for command, where in steps((into / "README.md").read_text(encoding="utf-8"), hosts):
        if command.startswith(tuple(LEFT_OUT)):
            continue
        if command.startswith("sinfo"):
            wait_until(lambda: set(hosts[0].run("sinfo -h -N -o %T").stdout.split()) == {"idle"},
                       lambda: f"idle nodes: {hosts[0].run(command)}{hosts[0].log('slurmctld')}{hosts[1].log('slurmd')}")
        for host in where:
            printed[command] = run_step(f"cd slurm-plan && {command}", host)
    return printed


@pytest.fixture(scope="module")
def walk(fleet, hosts):
    """What the commands have printed, the first job, and the seconds to its end. n2 has a file of another site."""
    print("changed for this machine:", *CHANGES, sep="\n  ")
    assert hosts[1].run("mkdir -p /etc/slurm && echo of another site >/etc/slurm/slurm.conf", "root").returncode == 0
    began = time.monotonic()
    words = plan_command().split()[1:]
    done = fleet.enclosure.run("env", "-C", CLIENT, fleet.program, *words, env=fleet.environment)
    assert done.returncode == 0 and "To set up the machines, follow slurm-plan/README.md." in done.stdout, done
    printed = install(fleet, hosts, fleet.file("slurm-plan"))
    first = hosts[0].run("gpuyard run --through slurm -n 1 -- sh -c 'hostname; echo $CUDA_VISIBLE_DEVICES; "
                         "gpuyard lease show'")
    return printed, first, time.monotonic() - began


def test_three_machines_run_a_first_job_within_a_minute(walk):
    _, first, took = walk
    print(f"{took:.1f} s from the plan to the first result")
    assert first.returncode == 0 and re.match(r"n\d\n\d\n", first.stdout), first
    assert re.search(r"\bslurm-\d+-", first.stdout), "the hooks have made a lease"
    assert re.search(r"^gpuyard: .* on GPU \d \(H100 80GB HBM3\), \d", first.stderr), first
    assert took < LIMIT


def test_every_node_is_idle_and_has_its_gpus(walk, hosts):
    printed = walk[0]
    lines = next(text for command, text in printed.items() if command.startswith("sinfo ")).splitlines()
    assert lines[1:] == [f"{host.name} idle gpu:h100:{GPUS} none" for host in hosts]
    assert "agree with this machine" in printed["gpuyard slurm plan --check"]


def test_existing_file_is_kept_beside_the_new_one(walk, hosts):
    assert hosts[1].run("cat /etc/slurm/slurm.conf.~1~").stdout == "of another site\n"
    assert hosts[0].run("ls /etc/munge/munge.key.~1~", "root").returncode == 0


@contextlib.contextmanager
def munge_of(host, key=None):
    """munge of that machine with another key, or not running."""
    commands = ["cp /etc/munge/munge.key /run/key", "systemctl stop munge"]
    if key:
        commands += [f"echo {key} >/etc/munge/munge.key", "systemctl restart munge"]
    assert host.run("; ".join(commands), "root").returncode == 0
    try:
        yield
    finally:
        host.run("systemctl stop munge; cp /run/key /etc/munge/munge.key; systemctl restart munge", "root")


def test_another_munge_key_is_named_on_the_machine_that_has_it(walk, hosts):
    controller, other = hosts[0], hosts[2]
    with munge_of(other, "of another cluster, and as long as a key must be"):
        done = other.run("gpuyard slurm install")
        assert done.returncode != 0 and "as with another munge key on the controller\n" in done.stderr, done
        assert "\n  try:   munge -n | ssh CONTROLLER unmunge " in done.stderr
        credential = other.run("munge -n").stdout
        assert "Invalid credential" in controller.run(f"echo '{credential}' | unmunge").stderr
        done = other.run("gpuyard run --through slurm -n 1 -- true")
        assert "Slurm's controller does not accept this machine\n" in done.stderr, done
    assert other.run("gpuyard slurm install").returncode == 0


def test_controller_without_munge_is_named(walk, hosts):
    with munge_of(hosts[0]):
        done = hosts[0].run("gpuyard slurm plan --check")
        assert done.returncode not in (0, 1) and done.stdout == "", done
        assert done.stderr.startswith("gpuyard: munge -n failed\n  cause: munge: Error: Failed to access ")
        assert done.stderr.endswith("\n  try:   sudo systemctl restart munge\n")
    assert hosts[0].run("gpuyard slurm plan --check").returncode == 0
