"""One machine of a fleet: its GPUs, its daemon, its sshd, and a link to the others.

It has a network and a host name of its own. Processes, users and files it shares with the other nodes;
what is its own lies in /run/fleet/NAME.
"""

import contextlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path

from faults import Faults
from program import PATIENCE, UnixConnection, wait_until

sys.path.append(str(Path(__file__).resolve().parents[1] / "process"))
from sim_world import World  # noqa: E402

PLACE = "/run/fleet"
ALICE = 1000
USERS = {"alice": ALICE, "root": 0}
SSHD = Path(__file__).resolve().parents[2] / "build" / "clients" / "sshd" / "root" / "usr" / "sbin" / "sshd"

SSHD_CONFIG = """ListenAddress {address}
HostKey {shared}/host_key
AuthorizedKeysFile {shared}/user_key.pub
PasswordAuthentication no
KbdInteractiveAuthentication no
UsePAM no
UseDNS no
PidFile none
StrictModes no
AllowUsers alice root
"""
SSHD_USER = "Match User {user}\n  SetEnv {environment}\n"

DAEMON_CONFIG = """[tls]
listen = ["{address}:9411"]
"""


class NodeWorld(World):
    """The simulated GPUs of a node, with the verbs that break them: hang(0), xid(0, 79), load(0, ...)."""

    def __init__(self, node):
        super().__init__(Path(node.place))
        self.node = node

    def sim(self, *arguments, **environment):
        return self.node.run_here(self.node.program, "sim", *arguments, user="root", **environment)

    def end(self):
        self.must("stop")

    def popen(self, *arguments, **options):
        return self.node.popen(self.node.program, "sim", *arguments, user="root", text=True,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options)


class Node(Faults):
    def __init__(self, enclosure, number, program, https):
        self.enclosure = enclosure
        self.name = f"n{number}"
        self.address = f"10.77.{number // 250}.{number % 250 + 1}"
        self.link = f"v{number}"  # its end at the bridge
        self.place = f"{PLACE}/{self.name}"
        self.program = program
        self.daemon_socket = f"{self.place}/gpuyard.sock"
        self.https = https
        self.https_url = f"https://{self.address}:9411" if https else None
        self.token = self.pin = None
        self.daemon = self.sshd = None
        self.world = NodeWorld(self)
        self._write_files()

    def _write_files(self):
        home = self.enclosure.outside(f"{self.place}/home")
        home.mkdir(parents=True)
        os.chown(home, ALICE, ALICE)
        self.far_program()
        self.trust("host_key")
        self.sshd_config()
        if self.https:
            self.write_config()

    def write_config(self, more=""):
        config = DAEMON_CONFIG.format(address=self.address) + more
        self.enclosure.write(f"{self.place}/gpuyard.toml", config)

    def far_program(self, text=None):
        """Sets the `gpuyard` in the PATH there: the program itself, a script, or with "" nothing."""
        link = self.enclosure.outside(f"{self.place}/bin/gpuyard")
        if text:
            self.enclosure.write(f"{self.place}/bin/gpuyard", text, 0o755)
            return
        link.parent.mkdir(exist_ok=True)
        link.unlink(missing_ok=True)
        if text is None:
            link.symlink_to(self.program)

    def trust(self, key):
        """Sets the host key that its client expects; none, if `key` is None."""
        known = self.enclosure.outside(f"{PLACE}/{key}.pub").read_text() if key else ""
        self.enclosure.write(f"{self.place}/known_hosts", f"{self.address} {known}" if known else "")

    def sshd_config(self, *first):
        """The first line about a setting is the one that sshd obeys."""
        parts = [*first, SSHD_CONFIG.format(address=self.address, shared=PLACE)]
        for user in USERS:
            words = " ".join(f"{name}={value}" for name, value in self.environment(user).items())
            parts.append(SSHD_USER.format(user=user, environment=words))
        self.enclosure.write(f"{self.place}/sshd_config", "\n".join(parts))

    def environment(self, user="alice"):
        """The environment of that user's programs there, by ssh as well."""
        return {"PATH": f"{self.place}/bin:/usr/bin:/bin", "TZ": "UTC",
                "HOME": f"{self.place}/home" if user == "alice" else self.place,
                "GPUYARD_SOCKET": self.daemon_socket, "GPUYARD_SIM_WORLD": f"{self.place}/world"}

    # Programs there.

    def popen(self, *words, user="alice", environment=None, **options):
        """A program on that machine, left running."""
        return self.enclosure.popen(*words, net=self.name, uid=USERS[user],
                                    env=self.environment(user) | (environment or {}), **options)

    def run_here(self, *words, user="alice", timeout=PATIENCE, **environment):
        """A program on that machine run to its end: run_here("gpuyard", "queue")."""
        return self.enclosure.run(*words, net=self.name, uid=USERS[user], timeout=timeout,
                                  env=self.environment(user) | environment)

    def must_here(self, *words, **options):
        done = self.run_here(*words, **options)
        assert done.returncode == 0, f"{self.name}: {words}: {done.stdout}{done.stderr}"
        return done.stdout

    def _file(self, name):
        return open(self.enclosure.outside(f"{self.place}/{name}"), "a", encoding="utf-8")

    def log(self, name="daemon"):
        return self.enclosure.outside(f"{self.place}/{name}.log").read_text()

    # Starting: each function returns a process, of which the first ones end.

    def start_world(self, *options):
        return self.popen(self.program, "sim", "start", *options, user="root",
                          stdout=subprocess.DEVNULL, stderr=self._file("sim.log"))

    def make_certificate(self):
        return self.popen(self.program, "tls", "init", "--state", f"{self.place}/state", "--name",
                          f"{self.address},{self.name}", user="root", stdout=subprocess.DEVNULL,
                          stderr=self._file("tls.log"))

    def start_daemon(self):
        config = ("--config", f"{self.place}/gpuyard.toml") if self.https else ()
        with self._file("daemon.log") as log:
            self.daemon = self.popen(
                self.program, "serve", "--listen", "127.0.0.1:9410", "--socket", self.daemon_socket,
                "--state", f"{self.place}/state", *config, user="root", stdout=log, stderr=log)
        return self.daemon

    def start_sshd(self):
        with self._file("sshd.log") as log:
            self.sshd = self.popen(str(SSHD), "-D", "-e", "-f", f"{self.place}/sshd_config", user="root",
                                   stdout=log, stderr=log)
        return self.sshd

    def get(self, path):
        connection = UnixConnection(str(self.enclosure.outside(self.daemon_socket)))
        with contextlib.closing(connection):
            connection.request("GET", path)
            return json.loads(connection.getresponse().read())

    def ready(self):
        """Waits until its daemon has read its GPUs and its sshd listens."""
        def has_readings():
            assert self.daemon.poll() is None, f"the daemon of {self.name} ended:\n{self.log()}"
            with contextlib.suppress(OSError):
                return self.get("/api/gpu/snapshot")["generation"] > 0
            return False
        wait_until(has_readings, f"the daemon of {self.name}")
        wait_until(lambda: self.listens() > 0, lambda: f"the sshd of {self.name}: {self.log('sshd')}")

    def listens(self):
        """Counts the times that its sshd has begun to listen."""
        return len(re.findall("Server listening", self.log("sshd")))

    def logins(self):
        return len(re.findall("Accepted publickey", self.log("sshd")))

    def make_token(self, scope="lease"):
        """A token of alice's; its file is the client's alone."""
        made = self.must_here(self.program, "token", "create", "fleet", "--scope", scope)
        self.token = re.search(r"gpy_\w+", made).group()
        self.enclosure.write(f"{self.place}/token", self.token + "\n", 0o600)
        shown = self.must_here(self.program, "tls", "show", "--state", f"{self.place}/state", "--json",
                               user="root")
        self.pin = json.loads(shown)["pin"]

    # Names and addresses for clients.

    def host(self, way="ssh", name=None, pin=""):
        """A hosts.toml entry of the node: by "ssh", "https" or "unix". `pin` is another than its own, or None."""
        url = {"ssh": f"ssh://{self.name}", "https": self.https_url, "unix": f"unix://{self.daemon_socket}"}[way]
        lines = [f"[{name or self.name}]", f'url = "{url}"']
        if way == "https":
            lines.append(f'token_file = "{self.place}/token"')
            lines += [f'pin = "{self.pin if pin == "" else pin}"'] if pin is not None else []
        return "\n".join(lines) + "\n"
