"""The servers that a benchmark run compares, all on one simulated world and pinned to one core."""

import http.client
import os
import re
import socket
import subprocess
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PROGRAM = ROOT / "build/release/gpuyard"
LIBRARY = ROOT / "build/release/sim"
PYTHON = ROOT / "build/bench-venv/bin/python"
SERVER_CORE = "0"
PATIENCE = 15


class World:
    """A simulated fleet for everybody."""

    def __init__(self, directory, gpus, *arguments):
        self.directory = directory
        subprocess.run([PROGRAM, "sim", "start", "--gpus", str(gpus), "--world", directory,
                        *arguments], check=True, stdout=subprocess.DEVNULL)
        self.environment = os.environ | {"GPUYARD_SIM_WORLD": str(directory),
                                         "LD_LIBRARY_PATH": str(LIBRARY)}

    def stop(self):
        subprocess.run([PROGRAM, "sim", "stop", "--world", self.directory], check=True)


class Server:
    """A process that listens on 127.0.0.1:port."""

    def __init__(self, command, environment, log, log_stdout=False):
        self.log = Path(log)
        written = open(self.log, "w")
        self.process = subprocess.Popen(["taskset", "-c", SERVER_CORE, *map(str, command)],
                                        env=environment, stderr=written,
                                        stdout=written if log_stdout else subprocess.DEVNULL)
        self.port = None

    def wait_for(self, path):
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=1)
                connection.request("GET", path)
                answer = connection.getresponse()
                answer.read()
                if answer.status == 200:
                    return
            except OSError:
                pass
            if time.monotonic() > deadline or self.process.poll() is not None:
                raise SystemExit(f"bench: a server did not start:\n{self.log.read_text()}")
            time.sleep(0.05)

    def stop(self):
        self.process.terminate()
        self.process.wait(PATIENCE)


def wait_for_socket(server, path):
    deadline = time.monotonic() + PATIENCE
    while True:
        with socket.socket(socket.AF_UNIX) as probe:
            if probe.connect_ex(path) == 0:
                return
        if time.monotonic() > deadline or server.process.poll() is not None:
            raise SystemExit(f"bench: a server did not start:\n{server.log.read_text()}")
        time.sleep(0.05)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def peer(name, world, directory, path):
    """One of bench/peers."""
    port = free_port()
    server = Server([PYTHON, ROOT / f"bench/peers/{name}.py", port], world.environment,
                    f"{directory}/{name}.log")
    server.port = port
    server.wait_for(path)
    return server


class Yard(Server):
    """gpuyard's own daemon."""

    def __init__(self, world, directory, *arguments, nvml=LIBRARY / "libnvidia-ml.so.1"):
        super().__init__([PROGRAM, "serve", *arguments, "--nvml", nvml, "--listen", "127.0.0.1:0", "--socket",
                          f"{directory}/s", "--state", f"{directory}/state"], world.environment, f"{directory}/gpuyard.log")
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline and "NVML init" not in self.log.read_text():
            time.sleep(0.05)
        self.port = int(re.search(r"http://127.0.0.1:(\d+)", self.log.read_text()).group(1))
        self.wait_for("/metrics")

    def processes(self):
        """Its processes by what they are."""
        pid = self.process.pid
        found = {"daemon": pid}
        for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
            words = Path(f"/proc/{child}/cmdline").read_text().split("\0")
            found[words[1]] = int(child)
        return found


class EventStream(Server):
    """The streaming half of a daemon, at so many snapshots a second."""

    def __init__(self, hz, directory):
        self.process = subprocess.Popen(
            ["taskset", "-c", SERVER_CORE, ROOT / "build/release/bench/event_stream", str(hz)],
            stdout=subprocess.PIPE, text=True)
        self.port = int(self.process.stdout.readline())
