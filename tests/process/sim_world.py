"""A simulated world of a test's own, by the program's `sim` verbs. The keeper ends with the test."""

import json
import os
import signal
import subprocess

from program import PATIENCE, PROGRAM, clean_environment


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

    def uuid(self, index):
        return self.gpu(index)["uuid"]

    def load(self, gpu, workload):
        self.must("load", "--gpu", str(gpu), workload)

    def inject(self, gpu, *options):
        self.must("inject", "--gpu", str(gpu), *options)

    def lose(self, gpu):
        """The GPU falls off the bus: 15, until it is reset or healed."""
        self.inject(gpu, "--lost")

    def heal(self, gpu):
        """Takes all faults of a GPU back."""
        self.inject(gpu, "--clear")

    def fail(self, gpu, call, code, *options):
        """Calls of that kind answer `code`."""
        self.inject(gpu, "--call", call, "--code", str(code), *options)

    def slow(self, gpu, call, milliseconds, *options):
        self.inject(gpu, "--call", call, "--latency-ms", str(milliseconds), *options)

    def hang(self, gpu, call="any", times=None):
        """Calls of that kind do not return until the GPU is healed."""
        self.inject(gpu, "--call", call, "--never-returns",
                    *(() if times is None else ("--times", str(times))))

    def hang_driver(self):
        """No call of any program returns, nvmlInit neither: as under a driver-wide lock."""
        self.hang("all")

    def fail_all(self, call, code, *options):
        """On every GPU; `driver` is initialising, counting and versions."""
        self.fail("all", call, code, *options)

    def heal_all(self):
        """Takes back the faults of the driver and of all GPUs."""
        self.heal("all")

    def require_reset(self, gpu):
        """16, until it is reset or healed."""
        self.inject(gpu, "--reset-required")

    def unload_driver(self):
        self.must("driver", "unload")

    def load_driver(self, *options):
        self.must("driver", "load", *options)

    def reload_driver(self, seconds=None, version=None):
        """Clients initialised before get 18 from then on; every call gives 9 while the driver is away."""
        self.must("driver", "reload", *(() if seconds is None else ("--for", f"{seconds}s")),
                  *(() if version is None else ("--driver-version", version)))

    def unplug(self, gpu):
        """Lost to who has initialised, not there for who does so from now on."""
        self.must("unplug", "--gpu", str(gpu))

    def plug(self, uuid=None, index=None):
        """Gives an unplugged GPU back, under that index if one is named."""
        self.must("plug", *(() if uuid is None else ("--uuid", uuid)),
                  *(() if index is None else ("--index", str(index))))

    def step(self, time):
        """Moves a stepped world on: "10s"."""
        self.must("step", time)

    def xid(self, gpu, number):
        self.inject(gpu, "--xid", str(number))

    def memory_errors(self, gpu, corrected=0, uncorrected=0, location="device_memory"):
        counts = [("--ecc-corrected", corrected), ("--ecc-uncorrected", uncorrected)]
        given = [word for name, count in counts if count for word in (name, str(count))]
        self.inject(gpu, *given, "--ecc-location", location)

    def heat(self, gpu, degrees):
        self.inject(gpu, "--heat", str(degrees))

    def reset(self, gpu):
        self.must("reset", "--gpu", str(gpu))

    def write_log(self):
        """Every setter call, reset and driver change that reached the keeper, as `sim status` has it."""
        status = self.status()
        assert status["writes_dropped"] == 0, "the log is too short for this test"
        return status["writes"]

    def writes(self, gpu=None, ok_only=True, after=0):
        """The same in short: (0, "power_limit", 300000), in order; a driver's changes are of GPU None.
        Of one GPU, where it is named; `after` skips those up to that sequence number. Refused ones
        are left out or, with ok_only=False, end with their code."""
        return [(each["gpu"], each["setting"], *each["values"],
                 *(() if each["nvml_code"] == 0 else (f"code {each['nvml_code']}",)))
                for each in self.write_log()
                if each["sequence"] > after and (gpu is None or each["gpu"] == gpu)
                and (each["nvml_code"] == 0 or not ok_only)]

    def attach(self, gpu, pid, *options):
        self.must("attach", "--gpu", str(gpu), "--pid", str(pid), *options)

    def end(self):
        keeper = json.loads(self.sim("status", "--json").stdout or "{}").get("keeper_pid")
        if keeper:
            os.kill(keeper, signal.SIGCONT)
        self.sim("stop")
