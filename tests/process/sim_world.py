"""A simulated world of a test's own, by the program's `sim` verbs. Its keeper ends with the test."""

import json
import os
import signal
import subprocess

import pytest

from conftest import PATIENCE, PROGRAM, clean_environment


class World:
    def __init__(self, directory):
        self.directory = directory / "world"
        self.environment = clean_environment(directory, GPUYARD_SIM_WORLD=str(self.directory))

    def sim(self, *arguments, **environment):
        """`gpuyard sim ...` run to its end."""
        return subprocess.run([PROGRAM, "sim", *arguments], env=self.environment | environment,
                              capture_output=True, text=True, timeout=PATIENCE, check=False)

    def must(self, *arguments, **environment):
        done = self.sim(*arguments, **environment)
        assert done.returncode == 0, f"sim {' '.join(arguments)}: {done.stderr}"
        return done.stdout

    def popen(self, *arguments, **options):
        """`gpuyard sim ...` left running."""
        return subprocess.Popen([PROGRAM, "sim", *arguments], env=self.environment, text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options)

    def start(self, *arguments):
        self.must("start", *arguments)
        return self

    def status(self):
        return json.loads(self.must("status", "--json"))

    def gpu(self, index):
        return self.status()["gpus"][index]

    def pids(self, index):
        return [process["pid"] for process in self.gpu(index)["processes"]]

    def end(self):
        keeper = json.loads(self.sim("status", "--json").stdout or "{}").get("keeper_pid")
        if keeper:
            os.kill(keeper, signal.SIGCONT)
        self.sim("stop")


@pytest.fixture
def world(tmp_path):
    one = World(tmp_path)
    yield one
    one.end()
