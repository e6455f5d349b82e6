"""The servers that a benchmark run compares, all on one simulated world and pinned to one core."""

import http.client
import json
import os
import re
import socket
import subprocess
import sys
import time
from pathlib import Path

from rows import NotMeasured, Unavailable

ROOT = Path(__file__).resolve().parent.parent
PROGRAM = ROOT / "build/release/gpuyard"
LIBRARY = ROOT / "build/release/sim"
PYTHON = ROOT / "build/bench-venv/bin/python"
ALL_SMI = ROOT / "build/clients/all-smi/all-smi"
SERVER_CORE = "0"
CLIENT_CORE = "1"
PATIENCE = 15
LONGEST_CLIENT = 900  # seconds, for a client that never ends

# The route whose answer never changes, and the peers' routes that each of ours is compared with.
FIXED = "/health"
PEERS_OF = {"gpuyard /metrics": ("prometheus_client /metrics", "all-smi /metrics"),
            "gpuyard /api/gpu/snapshot": ("fastapi /api/gpu/devices",),
            "gpuyard /api/gpu/devices": ("fastapi /api/gpu/devices",)}

# One client of a benchmark asks for more than one user may have. The limits of a listener stay.
LIFTED = "[shares]\n" + "".join(f"{key} = 1000000\n" for key in (
    "connections", "streams", "waiting_claims", "claims_a_minute", "changes_a_minute"))


def client(*words, environment=None, core=CLIENT_CORE):
    """The JSON that a client on the other core prints."""
    out = subprocess.run(["taskset", "-c", core, *map(str, words)], env=environment, check=True,
                         capture_output=True, text=True, timeout=LONGEST_CLIENT).stdout
    return json.loads(out)


def with_config(directory, text):
    """A daemon's arguments for this configuration."""
    file = Path(directory) / "gpuyard.toml"
    file.write_text(text)
    return "--config", file


class World:
    """A simulated fleet for everybody."""

    def __init__(self, directory, gpus, *arguments):
        self.directory = directory
        # On the clients' core: one that a server wakes would else move to the servers' core, and wait there.
        subprocess.run(["taskset", "-c", CLIENT_CORE, PROGRAM, "sim", "start", "--gpus", str(gpus), "--world",
                        directory, *arguments], check=True, capture_output=True, text=True)
        self.environment = os.environ | {"GPUYARD_SIM_WORLD": str(directory),
                                         "LD_LIBRARY_PATH": str(LIBRARY)}

    def stop(self):
        # The figures are taken; a keeper that stays is said, and does not cost them.
        subprocess.run([PROGRAM, "sim", "stop", "--world", self.directory], check=False)


class Server:
    """A process that listens on 127.0.0.1:port."""

    def __init__(self, command, environment, log, log_stdout=False):
        self.log = Path(log)
        with open(self.log, "w") as written:
            self.process = subprocess.Popen(["taskset", "-c", SERVER_CORE, *map(str, command)],
                                            env=environment, stderr=written,
                                            stdout=written if log_stdout else subprocess.DEVNULL)
        self.port = None

    def wait_until(self, ready):
        deadline = time.monotonic() + PATIENCE
        while not ready():
            if time.monotonic() > deadline or self.process.poll() is not None:
                said = self.log.read_text().strip().splitlines()
                self.stop()
                raise NotMeasured(f"{self.log.stem} did not start: {said[-1] if said else 'it wrote no log'}")
            time.sleep(0.05)

    def answers(self, path):
        try:
            connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=1)
            connection.request("GET", path)
            answer = connection.getresponse()
            answer.read()
            return answer.status == 200
        except OSError:
            return False

    def takes_connections(self, path):
        with socket.socket(socket.AF_UNIX) as probe:
            return probe.connect_ex(path) == 0

    def stop(self):
        self.process.terminate()
        try:
            self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            print(f"bench: {self.log.stem} did not stop within {PATIENCE} s and is killed", file=sys.stderr)
            self.process.kill()
            self.process.wait()


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def peer(name, world, directory, path):
    """One of bench/peers."""
    if not PYTHON.exists():
        raise Unavailable("its packages could not be had")
    port = free_port()
    server = Server([PYTHON, ROOT / f"bench/peers/{name}.py", port], world.environment,
                    f"{directory}/{name}.log")
    server.port = port
    server.wait_until(lambda: server.answers(path))
    return server


def all_smi(world, directory):
    """all-smi's API mode: it reads the GPUs once a second, and answers from that. Before it loads NVML it
    asks lspci for an NVIDIA board: it gets an lspci that lists one."""
    if not ALL_SMI.exists():
        raise Unavailable("it could not be had")
    lspci = Path(directory) / "all-smi-bin/lspci"
    lspci.parent.mkdir()
    lspci.write_text('#!/bin/sh\necho "11:00.0 3D controller: NVIDIA Corporation"\n')
    lspci.chmod(0o755)
    port = free_port()
    environment = world.environment | {"PATH": f"{lspci.parent}{os.pathsep}{os.environ['PATH']}"}
    server = Server([ALL_SMI, "api", "--port", port, "--interval", "1"], environment, f"{directory}/all-smi.log")
    server.port = port
    server.wait_until(lambda: server.answers("/metrics"))
    return server


class Yard(Server):
    """gpuyard's own daemon, once it has read its GPUs."""

    def __init__(self, world, directory, *arguments, nvml=LIBRARY / "libnvidia-ml.so.1", runtime=None):
        words = ["--nvml", nvml, "--listen", "127.0.0.1:0", "--socket", f"{runtime or directory}/s",
                 "--state", f"{directory}/state"]
        super().__init__([PROGRAM, "serve", *arguments, *words], world.environment, f"{directory}/gpuyard.log")
        self.wait_until(lambda: "NVML init" in self.log.read_text())
        self.port = int(re.search(r"http://127.0.0.1:(\d+)", self.log.read_text()).group(1))
        self.wait_until(lambda: self.answers("/metrics"))

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
        super().__init__([ROOT / "build/release/bench/event_stream", hz], None, f"{directory}/event_stream.log",
                         log_stdout=True)
        self.wait_until(lambda: re.fullmatch(r"\d+\n", self.log.read_text()))
        self.port = int(self.log.read_text())
