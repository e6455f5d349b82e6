"""A daemon on idle simulated GPUs, which outlive it, and Python programs that are its clients."""

import os
import subprocess
import sys
from pathlib import Path

from program import PATIENCE, Daemon, clean_environment, wait_until
from sim_world import World

PACKAGE = Path(__file__).resolve().parents[1]


class Ground:
    def __init__(self, place, gpus=2, config=""):
        self.place = place
        self.world = World(place).start("--gpus", str(gpus), "--load", "idle")
        self.directory = place / "yard"
        self.directory.mkdir()
        self.config = place / "gpuyard.toml"
        self.config.write_text(config)
        self.daemon = None
        self.programs = []

    @property
    def socket(self):
        return str(self.directory / "gpuyard.sock")

    def start(self):
        self.daemon = Daemon(self.directory, "--config", str(self.config),
                             GPUYARD_SIM_WORLD=str(self.world.directory)).ready()
        return self

    def kill(self):
        self.daemon.kill()

    def end(self):
        for program in self.programs:
            if program.poll() is None:
                program.kill()
                program.wait(PATIENCE)
            program.stdout.close()
            program.stderr.close()
        if self.daemon:
            self.daemon.kill()
        self.world.must("stop")

    def environment(self, **more):
        return clean_environment(self.place, GPUYARD_SOCKET=self.socket, PYTHONPATH=str(PACKAGE),
                                 PYTHONUNBUFFERED="1", **more)

    def program(self, text, *arguments, **options):
        """A Python program that is a client, left running; its stdout is a pipe."""
        one = subprocess.Popen([sys.executable, "-c", text, *map(str, arguments)],
                               env=self.environment(), stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True, **options)
        self.programs.append(one)
        return one

    def leases(self):
        return self.daemon.get("/api/gpu/leases", unix=True).json()["leases"]

    def waiting(self):
        return self.daemon.get("/api/gpu/queue", unix=True).json()["waiting"]

    def wait_until_free(self):
        wait_until(lambda: not self.leases() and not self.waiting(), "all GPUs to be free")


def open_files():
    return len(os.listdir("/proc/self/fd"))
