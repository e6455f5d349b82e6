"""One node of a cluster: a slurmd, GPUs, and the daemon that watches them.

It has a host name of its own. Network, processes, users and device files it shares with the other nodes;
what is its own lies in /run/slurm/NAME.
"""

import contextlib
import json
import re

from control import ENVIRONMENT
from hooks import hook_runs
from node import NodeWorld
from program import PATIENCE, UnixConnection, wait_until
from service import Service
from slurm_conf import ADDRESS, PLACE, port


class SlurmNode:
    def __init__(self, cluster, number, name, daemon_config):
        self.cluster = cluster
        self.enclosure = cluster.enclosure
        self.name = name
        self.port = port(number)
        self.place = f"{PLACE}/{name}"
        self.program = cluster.program
        self.daemon_socket = f"{self.place}/gpuyard.sock"
        self.spool = f"{self.place}/spool"
        self.world = NodeWorld(self)
        self.write_config(daemon_config)
        self.daemon = Service(
            self.enclosure, name, f"{self.place}/daemon.log",
            (self.program, "serve", "--config", f"{self.place}/gpuyard.toml", "--listen", "127.0.0.1:0",
             "--socket", self.daemon_socket, "--state", f"{self.place}/state"),
            self._has_readings, self.environment("root"))
        self.slurmd = Service(self.enclosure, name, f"{self.place}/slurmd.log",
                              ("slurmd", "-D", "-N", name), self._slurmd_works, ENVIRONMENT)

    def write_config(self, text):
        """Sets the daemon's configuration, from its next start on."""
        self.enclosure.write(f"{self.place}/gpuyard.toml", text)

    def environment(self, user):
        return ENVIRONMENT | {"HOME": "/nonexistent", "USER": user, "GPUYARD_SOCKET": self.daemon_socket,
                         "GPUYARD_SIM_WORLD": f"{self.place}/world"}

    # Programs there.

    def popen(self, *words, user="alice", environment=None, **options):
        """A program on that machine, left running."""
        return self.enclosure.popen(*words, net=self.name, uid=self.cluster.users[user],
                                    env=self.environment(user) | (environment or {}), **options)

    def run_here(self, *words, user="alice", timeout=PATIENCE, **environment):
        """A program on that machine run to its end."""
        return self.enclosure.run(*words, net=self.name, uid=self.cluster.users[user], timeout=timeout,
                                  env=self.environment(user) | environment)

    def gpuyard(self, *arguments, **options):
        """`gpuyard leases --json` of a user there, run to its end."""
        return self.run_here(self.program, *arguments, **options)

    def must(self, *arguments, **options):
        done = self.gpuyard(*arguments, **options)
        assert done.returncode == 0, f"{self.name}: {arguments}: {done.stdout}{done.stderr}"
        return done.stdout

    def get(self, path):
        connection = UnixConnection(str(self.enclosure.outside(self.daemon_socket)))
        with contextlib.closing(connection):
            connection.request("GET", path)
            return json.loads(connection.getresponse().read())

    def _has_readings(self):
        with contextlib.suppress(OSError):
            return self.get("/api/gpu/snapshot")["generation"] > 0
        return False

    # Queries to Slurm.

    def _slurmd_works(self):
        return self.enclosure.connects(ADDRESS, self.port) and self._responds()

    def _responds(self):
        return not any(word in self.state() for word in ("UNKNOWN", "NOT_RESPONDING"))

    def _shown(self, what):
        line = self.cluster.must("scontrol", "show", "node", self.name, "-o")
        found = re.search(what, line, re.DOTALL)
        return found and found.group(1)

    def state(self):
        """IDLE, MIXED+DRAIN, ..."""
        return self._shown(r" State=(\S+)")

    def reason(self):
        """Why it is drained or down, without who said so and when; None if there is no reason."""
        return self._shown(r" Reason=(.*?) \[\w+@\d+-\d\d-\d\dT[\d:]+\]")

    def drain(self, reason):
        self.cluster.must("scontrol", "update", f"node={self.name}", "state=drain", f"reason={reason}")

    def resume(self):
        """Waits until jobs can start there again: Slurm asks its slurmd first."""
        self.cluster.must("scontrol", "update", f"node={self.name}", "state=resume")
        wait_until(self._responds, f"{self.name} to respond", every=0.1)

    def hook_runs(self, name=None, job=None):
        """The runs of "health", "begin" and "end" there: hook_runs("begin")[-1].environment."""
        return hook_runs(self.enclosure, self.name, name, job)
