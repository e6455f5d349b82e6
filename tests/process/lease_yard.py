"""A daemon that leases the GPUs of a simulated world, and `gpuyard run` on them."""

import json
import os
import signal
import subprocess

from program import PROGRAM, Caller, clean_environment, wait_until
from schemas import validate
from sim_world import World

# Uses its GPUs as a program would that found them in CUDA_VISIBLE_DEVICES, until it ends.
USE = f'"{PROGRAM}" sim attach --pid $$ --vram 2G --load 0.5; '


class LeaseYard(Caller):
    def __init__(self, place, daemon, gpus=1, config=""):
        self.place = place
        self.world = World(place)
        self.world.start("--gpus", str(gpus), "--load", "idle")
        self.environment = clean_environment(place, GPUYARD_SIM_WORLD=str(self.world.directory), TZ="UTC")
        arguments = []
        if config:
            file = place / "gpuyard.toml"
            file.write_text(config, encoding="utf-8")
            arguments = ["--config", str(file)]
        self.daemon = daemon(*arguments, GPUYARD_SIM_WORLD=str(self.world.directory))
        self.environment["GPUYARD_SOCKET"] = self.daemon.socket
        self.running = []
        self.wait_until_open()

    def wait_until_open(self):
        """Until leases are adopted and the GPUs are known to be free."""
        wait_until(lambda: self.go("run", "--no-wait", "--quiet", "--", "true").returncode == 0,
                   "the daemon to lease its GPUs")

    def json(self, schema, *arguments):
        answer = json.loads(self.must(*arguments, "--json"))
        validate(answer, schema)
        return answer

    def start(self, *words, **options):
        """`gpuyard run WORDS`, left running."""
        one = subprocess.Popen([PROGRAM, "run", *words], env=self.environment, text=True,
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               **options)
        self.running.append(one)
        return one

    def hold(self, *flags, script="sleep 600"):
        """The same with a command that uses its GPUs; returns once it does. `held_pid` is its pid."""
        mark = self.place / f"mark{len(self.running)}"
        one = self.start(*flags, "--", "sh", "-c", f"{USE} echo $$ >{mark}; exec {script}")
        wait_until(lambda: mark.exists() and mark.read_text().endswith("\n"), "the command to run")
        one.held_pid = int(mark.read_text())
        return one

    def leases(self):
        return self.json("leases", "leases")["leases"]

    def queue(self):
        return self.json("queue", "queue")

    def wait_for_waiting(self, count):
        return wait_until(lambda: len(found := self.queue()["waiting"]) == count and found,
                          lambda: f"{count} to wait; leases {self.leases()}, queue {self.queue()}, ended "
                                  f"{[(one.args, *one.communicate()) for one in self.running if one.poll()]}")

    def end(self):
        for one in self.running:
            one.kill()
            if hasattr(one, "held_pid"):  # it outlives its launcher, and has its stdout
                try:
                    os.kill(one.held_pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            one.communicate()
        self.world.end()
