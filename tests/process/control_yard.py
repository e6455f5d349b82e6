"""A daemon that may change GPUs, in a world that outlives it: what a test kills, starts again and reads
the driver's own log of.
"""

import os
import signal
import time

from control_client import Caller
from program import PROGRAM, Daemon, runs, wait_until

TABLES = ("control_holdings", "control_claims")  # of state.db


def config_text(on_stop="keep", group="", reset_command=None, reset_timeout_s=30, shares=None,
                changes_a_minute=100_000, bounds=None):
    words = ", ".join(f'"{word}"' for word in reset_command or [])
    return ("[control]\nenabled = true\n"
            f'on_stop = "{on_stop}"\ngroup = "{group}"\n'
            f"reset_command = [{words}]\nreset_timeout_s = {reset_timeout_s}\n"
            f"gpu_changes_a_minute = {changes_a_minute}\n"
            + "".join(f"{name} = {watts}\n" for name, watts in (bounds or {}).items()) +
            "[shares]\n" + "".join(f"{name} = {most}\n" for name, most in (shares or {}).items()))


class ControlYard:
    """The world and whichever daemon is its present one. `root` is an administrator; callers are by
    uid."""

    def __init__(self, world, directory, *world_arguments, arguments=(), environment=None,
                 program=PROGRAM, runtime=None, **config):
        self.world = world
        self.directory = directory
        self.runtime = runtime  # of the daemons; in a tmpfs they have a journal
        self.environment = environment or {}
        self.arguments = arguments
        self.program = program
        self.callers = {}
        self.daemon = None
        world.start(*(world_arguments or ("--gpus", "2", "--load", "idle")))
        self.config = directory / "gpuyard.toml"
        self.configure(**config)

    def configure(self, **config):
        """For the next daemon."""
        self.config.write_text(config_text(**config))

    def start(self, wait=True, **environment):
        """The same directory each time: what one daemon noted down, the next one knows."""
        self.daemon = Daemon(self.directory, "--config", str(self.config), *self.arguments,
                             program=self.program, runtime=self.runtime, GPUYARD_SIM_WORLD=str(self.world.directory),
                             **self.environment, **environment)
        return self.ready() if wait else self

    def ready(self):
        self.daemon.ready()
        wait_until(lambda: self.in_turn("all"), "GPUs to control, and what was noted down of them")
        return self

    def caller(self, uid=None, **who):
        """One caller for each uid, for the life of the yard."""
        key = (uid, *sorted(who.items()))
        if key not in self.callers:
            self.callers[key] = Caller(str((self.runtime or self.directory) / "gpuyard.sock"), uid, **who)
        return self.callers[key]

    @property
    def root(self):
        return self.caller()

    def kill(self):
        """SIGKILL, whatever it does; its driver-host and its setter go by themselves."""
        helpers = [pid for pid in (self.daemon.driver_host(), self.daemon.setter()) if pid is not None]
        self.daemon.kill()
        wait_until(lambda: not any(map(runs, helpers)), "the driver-host and the setter to end")
        for caller in self.callers.values():
            caller.close()

    def freeze(self):
        self.daemon.process.send_signal(signal.SIGSTOP)

    def thaw(self):
        self.daemon.process.send_signal(signal.SIGCONT)

    def journal(self):
        """The setting claims on disk, to compare; None while it is being written."""
        return self.daemon.kept(*(f"SELECT * FROM {table}" for table in TABLES))

    def quiet_journal(self):
        """The claims on disk, once the audit and the setting status are on disk, too."""
        begun = time.time()

        def quiet():  # that is kept within 100 ms
            written = os.stat(f"{self.daemon.state}/state.db-wal").st_mtime
            return time.time() - max(begun, written) > 0.25
        wait_until(quiet, "a quiet journal")
        return self.journal()

    def kill_host(self):
        os.kill(self.daemon.driver_host(), signal.SIGKILL)

    def kill_setter(self):
        """Returns its pid, which may be seen a moment longer."""
        killed = self.daemon.setter()
        os.kill(killed, signal.SIGKILL)
        return killed

    def stop(self):
        code = self.daemon.stop()
        for caller in self.callers.values():
            caller.close()
        return code

    def writes(self, gpu=None, **options):
        """The writes that reached the driver, in short: see World.writes()."""
        return self.world.writes(gpu, **options)

    def wait_for_writes(self, count, **options):
        return wait_until(lambda: (writes := self.writes(**options))[count - 1:] and writes,
                          f"{count} writes")

    def in_turn(self, gpu):
        """Whether the daemon has done all that it had to do for the GPU before this question, which
        waits for its turn like every other and changes nothing. With control switched off (403) that
        is nothing."""
        return self.root.power(gpu, 300, dry_run=True, force=True).status in (200, 403)

    def settled(self, gpu=0, setting="power_limit"):
        """Waits until the driver is there and nothing is owed to it, and says how the setting stands."""
        def standing():
            now = self.root.standing(gpu, setting) if self.in_turn(gpu) else None
            return now if now not in (None, "owed") else None
        return wait_until(standing, "nothing to be owed")

    def end(self):
        if self.daemon is not None:
            self.daemon.kill()
