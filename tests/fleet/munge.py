"""Debian's munged, from build/clients/slurm, for the machines of a fleet: each with a key and a socket of its
own. The client finds `munge` in its PATH, and the machines find `unmunge`."""

import contextlib
import shutil
import subprocess
from pathlib import Path

import pytest

from node import PLACE
from program import wait_until
from rig import CLIENT

UNPACKED = Path(__file__).resolve().parents[2] / "build/clients/slurm/root/usr"
HERE = f"{PLACE}/munge"


def need_no_munge():
    """Skips a test where the machines of the fleet would find this machine's own programs."""
    if shutil.which("munge") or shutil.which("unmunge"):
        pytest.skip("munge is installed on this machine")


class Munge:
    def __init__(self, fleet):
        need_no_munge()
        if not (UNPACKED / "sbin/munged").exists():
            pytest.skip("munge needs tools/clients_slurm.sh")
        self.fleet = fleet
        self.enclosure = fleet.enclosure
        place = self.enclosure.outside(HERE)
        place.mkdir(exist_ok=True)
        for program in ("bin/munge", "bin/unmunge", "sbin/munged"):
            shutil.copy(UNPACKED / program, place)
        shutil.copy(next(UNPACKED.glob("lib/*/libmunge.so.2")), place / "libmunge.so.2")

    @contextlib.contextmanager
    def daemon(self, key):
        """A munged with that key; its socket is HERE/KEY/socket."""
        folder = f"{HERE}/{key}"
        self.enclosure.write(f"{folder}/key", f"no secret, but at least 32 bytes long: {key}", 0o400)
        words = [f"--{name}-file={folder}/{name}" for name in ("key", "seed", "log", "pid")]
        one = self.enclosure.popen(
            f"{HERE}/munged", "--foreground", "--force", f"--socket={folder}/socket", *words,
            env={"LD_LIBRARY_PATH": HERE}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            def answers():
                assert one.poll() is None, self.enclosure.outside(f"{folder}/log").read_text()
                return self.enclosure.run(f"{HERE}/munge", "-n", "-S", f"{folder}/socket",
                                          env={"LD_LIBRARY_PATH": HERE}).returncode == 0
            wait_until(answers, f"the munged with key {key}")
            yield one
        finally:
            one.kill()
            one.wait()

    def _link(self, folder, program, key):
        script = f'export LD_LIBRARY_PATH={HERE}\nexec {HERE}/{program} -S {HERE}/{key}/socket "$@"\n'
        self.enclosure.write(f"{folder}/{program}", f"#!/bin/sh\n{script}", 0o755)

    @contextlib.contextmanager
    def keys(self, client, **nodes):
        """All use the munged with that key, except the nodes that are named: keys("a", n2="b"). None: no
        munge is installed there."""
        chosen = {node.name: client for node in self.fleet.nodes} | nodes
        self._link(f"{CLIENT}/bin", "munge", client)
        for name, key in chosen.items():
            if key:
                self._link(f"{PLACE}/{name}/bin", "unmunge", key)
        try:
            yield
        finally:
            self.enclosure.outside(f"{CLIENT}/bin/munge").unlink()
            for name, key in chosen.items():
                if key:
                    self.enclosure.outside(f"{PLACE}/{name}/bin/unmunge").unlink()
