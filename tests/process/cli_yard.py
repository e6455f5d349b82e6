"""A daemon that may change the GPUs of a world, and the program as several users."""

import json
import os
import subprocess

from program import PATIENCE, Daemon, clean_environment, program_for_others
from schemas import validate
from sim_world import World

GROUP = "games"  # one that every Debian has and no test needs


class Yard:
    """A daemon that may control a world, in a place that every user of the machine may enter."""

    def __init__(self, place, config=f'enabled = true\ngroup = "{GROUP}"\n', *fleet):
        self.world = World(place)
        self.world.start(*(fleet or ("--gpus", "2")), "--load", "idle")
        self.program = program_for_others(place)
        file = place / "gpuyard.toml"
        file.write_text("[control]\n" + config, encoding="utf-8")
        directory = place / "daemon"
        directory.mkdir()
        self.daemon = Daemon(directory, "--config", str(file),
                             GPUYARD_SIM_WORLD=str(self.world.directory)).ready()
        os.chmod(directory, 0o755)
        self.environment = clean_environment(place, GPUYARD_SOCKET=self.daemon.socket, TZ="UTC")

    def end(self):
        self.daemon.kill()
        self.world.end()

    def go(self, *arguments, uid=None, groups=(), **environment):
        who = {} if uid is None else {"user": uid, "group": uid, "extra_groups": groups}
        return subprocess.run([self.program, *arguments], env=self.environment | environment,
                              stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=PATIENCE, check=False, **who)

    def must(self, *arguments, **who):
        done = self.go(*arguments, **who)
        assert done.returncode == 0, f"{arguments}: {done.stdout}{done.stderr}"
        return done.stdout

    def json(self, schema, *arguments, code=0, **who):
        """Returns the output of --json, checked against its schema."""
        done = self.go(*arguments, "--json", **who)
        assert done.returncode == code, f"{arguments}: {done.stdout}{done.stderr}"
        answer = json.loads(done.stdout)
        validate(answer, schema)
        return answer

    def writes(self):
        return self.world.status()["writes"]

    def limit(self, gpu=0):
        return self.world.gpu(gpu)["power_limit_w"]

    def settings(self, gpu=0):
        return self.world.gpu(gpu)["settings"]
