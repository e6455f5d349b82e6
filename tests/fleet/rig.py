"""A fleet of real machines for the tests of `gpuyard fleet`: N nodes on one bridge, and a client.

    with Fleet(nodes=8, gpus=4) as fleet:
        fleet.must("devices", "-H", "n1")
        with fleet.nodes[0].silent_sshd():
            fleet.go("fleet", "--json")

All of it is in an Enclosure: nothing stays on this machine, not even if this process is killed. The
client is root on the machine that has the bridge; for ssh it is alice on the nodes.
"""

import contextlib
import itertools
import os
import shutil
import subprocess

import pytest

from enclosure import Enclosure
from node import ALICE, PLACE, SSHD, Node
from program import PATIENCE, PROGRAM, Caller, clean_environment, command_line, runs

CLIENT = f"{PLACE}/client"
# Makes the sessions of a client's ssh share one connection.
SHARED = ("-o", "ControlMaster=auto", "-o", f"ControlPath={CLIENT}/run/%C", "-o", "ControlPersist=60")
# Lines of an ssh_config by which a login costs a third of its time: most of that is a key exchange against
# quantum computers.
QUICK = ("KexAlgorithms curve25519-sha256",)
AT_ONCE = 8  # programs that are started and awaited; more of them only wait for a core
SSH = shutil.which("ssh")

PASSWD = f"""root:x:0:0::{CLIENT}:/bin/sh
sshd:x:990:65534::/run/sshd:/usr/sbin/nologin
alice:x:{ALICE}:{ALICE}::{PLACE}:/bin/bash
"""
GROUP = f"root:x:0:\nnogroup:x:65534:\nalice:x:{ALICE}:\n"
SHADOW = "root:*:19000::::::\nsshd:!:19000::::::\nalice:*:19000::::::\n"

SSH_CONFIG = f"""Host *
  User alice
  IdentityFile {PLACE}/user_key
  IdentitiesOnly yes
  IdentityAgent none
  GlobalKnownHostsFile /dev/null
  StrictHostKeyChecking yes
"""
# n1b is another name of n1.
SSH_HOST = """Host {name} {name}b
  HostName {address}
  UserKnownHostsFile {place}/known_hosts
"""


def finish(process):
    code = process.wait(PATIENCE)
    assert code == 0, f"{process.args} ended with {code}"


def one_after_another(starts):
    """Has AT_ONCE of these programs running until all have ended well."""
    running = []
    for start in starts:
        if len(running) == AT_ONCE:
            finish(running.pop(0))
        running.append(start())
    for process in running:
        finish(process)


def need_fleet():
    """Skips a test where no Fleet can be made."""
    if not SSHD.exists() or not SSH:
        pytest.skip("an sshd of a test's own needs openssh-client and tools/clients_sshd.sh")
    Enclosure().close()


class Fleet(Caller):
    """`https`: the daemons listen with TLS, too. `load` is what `gpuyard sim start --load` takes, and
    each of `models` what --model takes; the nodes get them in turn, instead of `gpus`.
    `ssh_options` are lines of the client's ssh_config, such as QUICK."""

    def __init__(self, nodes=3, gpus=2, *, https=False, load="idle", models=(), ssh_options=(),
                 program=None, sim_library=None):
        need_fleet()
        self.enclosure = Enclosure()
        try:
            self._write_machine(program or PROGRAM, sim_library or os.environ["GPUYARD_SIM_LIB"])
            self.nodes = [Node(self.enclosure, number, self.program, https)
                          for number in range(1, nodes + 1)]
            self._write_client(ssh_options)
            self._connect()
            self._start(gpus, load, models, https)
        except BaseException:
            self.end()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end()

    def end(self):
        self.enclosure.close()

    # The parts of the fleet.

    def _write_machine(self, program, library):
        """Writes the files that all nodes share: the program, the users, the keys."""
        self.program = f"{PLACE}/bin/gpuyard"
        place = self.enclosure.outside(PLACE)
        for source, name in ((program, "bin/gpuyard"), (library, "bin/sim/libnvidia-ml.so.1")):
            (place / name).parent.mkdir(parents=True)
            shutil.copy(source, place / name)
            (place / name).chmod(0o755)
        for name, text, mode in (("passwd", PASSWD, 0o644), ("group", GROUP, 0o644),
                                 ("shadow", SHADOW, 0o600)):
            self.enclosure.write(f"{PLACE}/etc/{name}", text, mode)
            self.enclosure.must("mount", "--bind", f"{PLACE}/etc/{name}", f"/etc/{name}")
        self.enclosure.outside("/run/sshd").mkdir(mode=0o755)
        for name in ("host_key", "other_key", "user_key"):
            self.enclosure.must("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", f"{PLACE}/{name}")

    def _write_client(self, ssh_options):
        for name, mode in (("run", 0o700), ("state", 0o755), ("cache", 0o755), ("config", 0o755)):
            self.enclosure.outside(f"{CLIENT}/{name}").mkdir(mode=mode, parents=True)
        hosts = [SSH_HOST.format(name=one.name, address=one.address, place=one.place)
                 for one in self.nodes]
        self.enclosure.write(f"{CLIENT}/ssh_config", "\n".join([*hosts, SSH_CONFIG, *ssh_options, ""]))
        wrapper = f'#!/bin/sh\nexec {SSH} -F {CLIENT}/ssh_config "$@"\n'
        self.enclosure.write(f"{CLIENT}/bin/ssh", wrapper, 0o755)
        self.environment = clean_environment(
            CLIENT, PATH=f"{CLIENT}/bin:{os.environ['PATH']}", GPUYARD_SOCKET="", TZ="UTC",
            XDG_RUNTIME_DIR=f"{CLIENT}/run", XDG_STATE_HOME=f"{CLIENT}/state",
            XDG_CACHE_HOME=f"{CLIENT}/cache", XDG_CONFIG_HOME=f"{CLIENT}/config")
        self.environment.pop("SSH_AUTH_SOCK", None)
        self.know_hosts(*(node.host() for node in self.nodes))

    def know_hosts(self, *parts):
        """Replaces hosts.toml: know_hosts(nodes[0].host("https"), nodes[1].host(name="x"))."""
        self.enclosure.write(f"{CLIENT}/config/gpuyard/hosts.toml", "\n".join(parts))

    def file(self, name):
        """A file of the client's, as this process finds it: file("run") is its XDG_RUNTIME_DIR."""
        return self.enclosure.outside(f"{CLIENT}/{name}")

    def _connect(self):
        """A bridge, and from each node a pair of virtual interfaces to it."""
        client = ["link add br0 type bridge mcast_snooping 0", "address add 10.77.255.254/16 dev br0",
                  "link set br0 addrgenmode none up"]
        for node in self.nodes:
            client += [f"netns add {node.name}",
                       f"link add {node.link} master br0 type veth peer name eth0 netns {node.name}",
                       f"link set {node.link} addrgenmode none up"]
        self._ip(client)
        for node in self.nodes:
            self._ip(["link set lo up", f"address add {node.address}/16 dev eth0",
                      "link set eth0 addrgenmode none up"], "-n", node.name)

    def _ip(self, lines, *options):
        self.enclosure.must("ip", *options, "-batch", "-", input="\n".join(lines) + "\n")

    def _start(self, gpus, load, models, https):
        kinds = itertools.cycle([("--model", one) for one in models] or [("--gpus", str(gpus))])
        one_after_another(lambda node=node, kind=kind: node.start_world(
            *kind, "--load", load, "--machine", node.name) for node, kind in zip(self.nodes, kinds))
        if https:
            one_after_another(node.make_certificate for node in self.nodes)
        for node in self.nodes:
            node.start_sshd()
            node.start_daemon()
        for node in self.nodes:
            node.ready()
        if https:
            for node in self.nodes:
                node.make_token()

    # The client.

    def go(self, *arguments, timeout=PATIENCE, **environment):
        return self.enclosure.run(self.program, *arguments, timeout=timeout,
                                  env=self.environment | environment)

    def start(self, *arguments, environment=None, **options):
        """Left running, with pipes for what it writes unless `options` of Popen say otherwise."""
        pipes = {"text": True, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        return self.enclosure.popen(self.program, *arguments, env=self.environment | (environment or {}),
                                    **pipes | options)

    def ssh(self, *words, **options):
        """The client's own ssh, run to its end."""
        return self.enclosure.run(f"{CLIENT}/bin/ssh", *words, env=self.environment, **options)

    # The running processes.

    def _processes(self, executable, word=""):
        found = []
        for pid in self.enclosure.pids():
            with contextlib.suppress(OSError):
                if os.readlink(f"/proc/{pid}/exe") == executable and word in command_line(pid) and runs(pid):
                    found.append(pid)
        return found

    def ssh_processes(self):
        """The pids of its ssh clients, masters of shared connections among them."""
        return self._processes(os.path.realpath(SSH))

    def ssh_masters(self):
        """The ssh processes that hold a shared connection; ssh changes the title of these."""
        return self._processes(os.path.realpath(SSH), "[mux]")

    def sessions(self):
        """The pids of the far ends of connections through ssh."""
        return self._processes(self.program, "dial-stdio")
