"""A daemon that watches simulated GPUs by a test's own rules, and can be killed and started again."""

import signal
import subprocess

from program import PATIENCE, PROGRAM, clean_environment, wait_until
from sim_world import World

# Begins and ends with a fault of the simulated GPU, at the next reading.
BRAKE = '[rule.{name}]\non = "power_brake"\nat = 1\nseverity = 75\nmessage = "GPU {{gpu}} brakes"\n{more}\n'
# Each test has rules of its own, so that it gets no other notification.
NO_OTHERS = "[rule.power-brake]\nenabled = false\n"


def brake(name, more=""):
    """A rule that fires while a GPU's power brake is on."""
    return BRAKE.format(name=name, more=more)


def webhook(name, receiver, more=""):
    return (f'[sink.{name}]\nkind = "webhook"\nrate_per_minute = 6000\nurl = "{receiver.url()}"\n'
            f"{more}\n")


class AlertsYard:
    def __init__(self, place, daemon, gpus, alerts):
        self.place = place / "yard"
        self.place.mkdir(exist_ok=True)
        self.world = World(place)
        self.world.start("--gpus", str(gpus), "--load", "idle")
        self.file = place / "alerts.toml"
        self.config = place / "gpuyard.toml"
        self.settings("")
        self.rules(alerts)
        self.start_daemon = daemon
        self.logs = []  # of former lives

    def settings(self, text):
        self.config.write_text(f'[alerts]\nfile = "{self.file}"\n{text}', encoding="utf-8")

    def rules(self, text):
        self.file.write_text(NO_OTHERS + text, encoding="utf-8")

    def start(self):
        self.daemon = self.start_daemon("--config", str(self.config), directory=self.place,
                                        GPUYARD_SIM_WORLD=str(self.world.directory))
        self.environment = clean_environment(self.place, GPUYARD_SOCKET=self.daemon.socket, TZ="UTC")
        wait_until(lambda: not self.get("alerts")["notes"], "the alerts that were kept")

    def end(self, number=signal.SIGKILL):
        self.daemon.stop(number)
        self.logs.append(self.daemon.log())

    def restart(self, number):
        self.end(number)
        self.start()

    def log(self):
        return "".join(self.logs) + self.daemon.log()

    def reload(self, text=None):
        """SIGHUP, and what the log says of it."""
        if text is not None:
            self.rules(text)
        before = len(self.daemon.log())
        self.daemon.process.send_signal(signal.SIGHUP)

        def said():
            new = self.daemon.log()[before:]
            return ("configuration reloaded:" in new or "configuration not reloaded:" in new) and new
        return wait_until(said, "the new rules to be read")

    def go(self, *arguments):
        return subprocess.run([PROGRAM, *arguments], env=self.environment, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=PATIENCE, check=False)

    def must(self, *arguments):
        done = self.go(*arguments)
        assert done.returncode == 0, f"{arguments}: {done.stdout}{done.stderr}"
        return done.stdout

    def get(self, what):
        answer = self.daemon.get("/api/gpu/" + what)
        assert answer.status == 200, answer.text
        return answer.json()

    def firing(self, rule=None):
        return [one for one in self.get("alerts")["alerts"] if rule in (None, one["rule"])]

    def pending(self):
        return [one["rule"] for one in self.get("alerts")["pending"]]

    def history(self):
        return self.get("alerts/history?limit=1000")["alerts"]

    def sink(self, name):
        return next(one for one in self.get("sinks")["sinks"] if one["name"] == name)

    def brake(self, gpu):
        self.world.inject(gpu, "--power-brake")

    def release(self, gpu):
        self.world.inject(gpu, "--clear")

    def fire(self, gpu, rule):
        """The alert, once it is there."""
        self.brake(gpu)
        return wait_until(lambda: [one for one in self.firing(rule)
                                   if one["gpu"]["index"] == gpu], f"{rule} of GPU {gpu}")[0]

    def clear(self, gpu):
        self.release(gpu)
        wait_until(lambda: not [one for one in self.firing() if one["gpu"]
                                and one["gpu"]["index"] == gpu], f"the end of GPU {gpu}'s alerts")
