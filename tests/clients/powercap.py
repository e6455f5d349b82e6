"""A directory like /sys/class/powercap, whose CPUs use energy as time passes."""

import os
import threading
import time
from pathlib import Path

RANGE_UJ = 262143328850


class Powercap:
    """watts: package -> (its own, its memory's or None)."""

    def __init__(self, directory, watts, start_uj=RANGE_UJ - 2_000_000):
        self.directory = Path(directory)
        self.watts = watts
        self.began = time.monotonic()
        self.start_uj = start_uj  # so that counters go round soon after
        for number, (_, memory) in watts.items():
            self._make(self.package(number), f"package-{number}")
            if memory is not None:
                self._make(self.memory(number), "dram")
        self._step()
        self.stopping = threading.Event()
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def package(self, number):
        return self.directory / f"intel-rapl:{number}"

    def memory(self, number):
        return self.package(number) / f"intel-rapl:{number}:0"

    def stop(self):
        self.stopping.set()
        self.thread.join()

    def _run(self):
        while not self.stopping.wait(0.01):
            self._step()

    def _step(self):
        seconds = time.monotonic() - self.began
        for number, (own, memory) in self.watts.items():
            self._put(self.package(number), own * seconds)
            if memory is not None:
                self._put(self.memory(number), memory * seconds)

    def _make(self, zone, name):
        zone.mkdir(parents=True)
        (zone / "name").write_text(name + "\n")
        (zone / "max_energy_range_uj").write_text(f"{RANGE_UJ}\n")

    def _put(self, zone, joules):
        energy = (self.start_uj + int(joules * 1e6)) % RANGE_UJ
        # In place, as in sysfs, for readers that keep the file open; always as long, so none reads half of it.
        file = os.open(zone / "energy_uj", os.O_WRONLY | os.O_CREAT, 0o644)
        os.pwrite(file, f"{energy:012d}\n".encode(), 0)
        os.close(file)
