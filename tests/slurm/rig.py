"""A cluster under Debian's Slurm for the tests of `gpuyard slurm`: N nodes, each with simulated GPUs and a
gpuyard daemon, and the programs that Slurm needs.

    with Cluster(nodes=2) as cluster:
        job = cluster.submit("sleep 2", user="alice", gpus=1)
        cluster.wait_for_job(job, "RUNNING")
        with cluster.controller.killed():
            cluster.nodes[0].must("leases")

All of it is in an Enclosure: nothing stays on this machine, not even if this process is killed. The nodes
have host names of their own, and one address.
"""

import contextlib
import os
import shutil
import sys
from pathlib import Path

import pytest

from program import PATIENCE, PROGRAM

sys.path.append(str(Path(__file__).resolve().parents[1] / "fleet"))
from control import ENVIRONMENT, Control  # noqa: E402
from enclosure import Enclosure  # noqa: E402
from hooks import hook_runs, own_hooks, write_hook, write_runners  # noqa: E402
from jobs import JOBS, Jobs  # noqa: E402
from slurm_conf import (ACCOUNTING, ADDRESS, CONTROLLER, DEVICES, ETC, PLACE,  # noqa: E402
                        default_gres, slurm_conf)
from slurm_node import SlurmNode  # noqa: E402

# Debian's packages, not installed: in the enclosure they lie over this machine's own /usr.
UNPACKED = Path(__file__).resolve().parents[2] / "build/clients/slurm/root/usr"
USERS = {"root": 0, "alice": 1000, "bob": 1001}
FILES = {
    "passwd": "".join(f"{name}:x:{uid}:{uid}::/nonexistent:/bin/sh\n" for name, uid in USERS.items()),
    "group": "".join(f"{name}:x:{uid}:\n" for name, uid in USERS.items()),
}
NVIDIA = 195  # the major number of its device files


def need_cluster():
    """Skips a test where no Cluster can be made."""
    if not (UNPACKED / "sbin/slurmctld").exists():
        pytest.skip("a cluster of a test's own needs what tools/clients_slurm.sh fetches")
    Enclosure().close()


class Cluster(Control, Jobs):
    """`gpus` is how many GPUs each node has. `gres` is another gres.conf than the usual one, in which {dev}
    stands for the folder of the device files, and `gres_of_node` another Gres= of slurm.conf than gpu:N.
    `hooks` are shell commands by their names, in place of the program's own verbs: see hooks.py.
    `settings` are more lines of slurm.conf, and `daemon_config` is the daemons' configuration."""

    users = USERS

    def __init__(self, nodes=4, gpus=4, *, accounting=True, health_interval=5, hooks=None, settings=None,
                 gres=None, gres_of_node=None, daemon_config="", load="idle", program=None,
                 sim_library=None):
        need_cluster()
        self.enclosure = Enclosure()
        try:
            self.enclosure.must("mount", "-t", "overlay", "-o", f"lowerdir={UNPACKED}:/usr", "overlay", "/usr")
            self._names = [f"n{number}" for number in range(1, nodes + 1)]
            self._gres = gres_of_node or f"gpu:{gpus}"
            self._settings = {"HealthCheckInterval": health_interval, **(ACCOUNTING if accounting else {}),
                              **(settings or {})}
            self._write_machine(gpus)
            self._write_program(program or PROGRAM, sim_library or os.environ["GPUYARD_SIM_LIB"])
            self.enclosure.write(f"{ETC}/gres.conf", (gres or default_gres(gpus)).format(dev=DEVICES))
            self._write_conf()
            self._hooks = own_hooks(self.program) | (hooks or {})
            self._write_hooks()
            self._name_services()
            self.nodes = [SlurmNode(self, number, name, daemon_config)
                          for number, name in enumerate(self._names, 1)]
            self._start(gpus, load, accounting)
        except BaseException:
            self.end()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end()

    def end(self):
        self.enclosure.close()

    # The parts of the cluster.

    def _write_machine(self, gpus):
        """Writes the files that all nodes share: the users, the names, the device files."""
        # A machine without Slurm has no /etc/slurm that something could be mounted on.
        self.enclosure.outside(f"{PLACE}/over/slurm").mkdir(parents=True)
        self.enclosure.must("mount", "-t", "overlay", "-o", f"lowerdir={PLACE}/over:/etc", "overlay", "/etc")
        hosts = [CONTROLLER, *self._names]
        files = FILES | {"hosts": f"127.0.0.1 localhost\n{ADDRESS} {' '.join(hosts)}\n"}
        for name, text in files.items():
            self.enclosure.write(f"{PLACE}/etc/{name}", text)
            self.enclosure.must("mount", "--bind", f"{PLACE}/etc/{name}", f"/etc/{name}")
        for folder in (ETC, JOBS, DEVICES, f"{PLACE}/{CONTROLLER}/state"):
            self.enclosure.outside(folder).mkdir(parents=True)
        self.enclosure.outside(JOBS).chmod(0o1777)
        self.enclosure.must("mount", "--bind", ETC, "/etc/slurm")
        for number in range(gpus):
            device = self.enclosure.outside(f"{DEVICES}/nvidia{number}")
            os.mknod(device, 0o020666, os.makedev(NVIDIA, number))
            device.chmod(0o666)
        # Slurm resolves no name while the loopback's own address is the only one.
        self.enclosure.must("ip", "address", "add", f"{ADDRESS}/32", "dev", "lo")
        for host in hosts:  # one network, by the names that popen() knows it by
            self.enclosure.must("ip", "netns", "attach", host, "1")

    def _write_program(self, program, library):
        self.program = f"{PLACE}/bin/gpuyard"
        for source, name in ((program, "gpuyard"), (library, "sim/libnvidia-ml.so.1")):
            target = self.enclosure.outside(f"{PLACE}/bin/{name}")
            target.parent.mkdir(exist_ok=True)
            shutil.copy(source, target)
            target.chmod(0o755)

    def _write_conf(self):
        self.enclosure.write(f"{ETC}/slurm.conf", slurm_conf(self._names, self._gres, self._settings))

    def _write_hooks(self):
        write_runners(self.enclosure)
        for name, commands in self._hooks.items():
            write_hook(self.enclosure, name, commands)

    def _start(self, gpus, load, accounting):
        for node in self.nodes:
            node.world.start("--gpus", str(gpus), "--load", load, "--machine", node.name)
            node.daemon.begin()
        self._start_munge()
        if accounting:
            self._start_accounting()
        self.controller.begin("-i")  # there is no state yet
        for node in self.nodes:
            node.slurmd.begin()
        self.controller.wait()
        self.wait_for_nodes()
        for node in self.nodes:
            node.daemon.wait()

    def wait_for_nodes(self):
        """Until slurmctld knows of each slurmd: it asks them one by one after it has started."""
        for node in self.nodes:
            node.slurmd.wait()

    # Programs in it.

    def run(self, *words, user="root", timeout=PATIENCE, **options):
        """A program that needs no node, such as squeue, run to its end."""
        return self.enclosure.run("env", "-C", JOBS, *words, net=CONTROLLER, uid=USERS[user],
                                  timeout=timeout, env=ENVIRONMENT, **options)

    def must(self, *words, **options):
        done = self.run(*words, **options)
        assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"
        return done.stdout

    def configure(self, **settings):
        """Other lines of slurm.conf from now on: configure(KillWait=1, Prolog=None)."""
        self._settings |= settings
        self._write_conf()
        self.must("scontrol", "reconfigure")

    # Hooks.

    def set_hook(self, name, commands=None):
        """Sets the commands of "health", "begin", "end" or "epilog-ctld"; without commands, the original
        ones."""
        write_hook(self.enclosure, name, self._hooks[name] if commands is None else commands)

    @contextlib.contextmanager
    def hook(self, name, commands):
        self.set_hook(name, commands)
        try:
            yield
        finally:
            self.set_hook(name)

    def hook_runs(self, job=None):
        """The runs of "epilog-ctld"; a node has the other hooks' runs."""
        return hook_runs(self.enclosure, CONTROLLER, "epilog-ctld", job)
