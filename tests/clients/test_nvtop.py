"""Debian's nvtop, driven in a terminal, shows every GPU of every model with the values of the world."""

import re
import subprocess
import uuid

import pytest

from fleet import HERE, World, close
from program import PATIENCE, wait_until
from proofs import record

PROGRAM = HERE.parent.parent / "build" / "clients" / "nvtop" / "root" / "usr" / "bin" / "nvtop"
# " Device 0 [NVIDIA H100 80GB HBM3] PCIe GEN 5@16x RX: ..." and the line below it.
DEVICE = re.compile(r"Device (\d+) +\[([^\]]+)\]")
CLOCK = re.compile(r"GPU (\d+)MHz? +MEM (\d+)MHz? +TEMP +(\d+).+?POW +(\d+) / +(\d+) W")
LOAD = re.compile(r"GPU\[[| ]*(\d+)%\]")
LINK = re.compile(r"PCIe GEN (\d)@ ?(\d+)x")


class Terminal:
    """A program in a tmux of its own."""

    def __init__(self, world, program):
        self.server = f"gpuyard-{uuid.uuid4().hex[:8]}"
        self.environment = world.environment() | {"TERM": "xterm-256color"}
        # One GPU to a line: nvtop puts as many beside each other as fit.
        self.tmux("-f", "/dev/null", "new-session", "-d", "-x", "78", "-y", "50", str(program))

    def tmux(self, *arguments):
        return subprocess.run(["tmux", "-L", self.server, *arguments], env=self.environment,
                              capture_output=True, text=True, timeout=PATIENCE).stdout

    def screen(self):
        return self.tmux("capture-pane", "-p")

    def close(self):
        self.tmux("kill-server")


@pytest.fixture
def screen(world):
    terminal = Terminal(world.settled(), PROGRAM)
    try:
        def whole():
            text = terminal.screen()
            # The first picture has no rates yet.
            return len(LOAD.findall(text)) == len(LINK.findall(text)) == 2 and text
        yield wait_until(whole, "nvtop to show both GPUs")
    finally:
        terminal.close()


def test_nvtop_shows_the_fleet(world, screen, record_property):
    expected = world.gpus()
    devices, lines = DEVICE.findall(screen), CLOCK.findall(screen)
    assert [(int(index), name.strip()) for index, name in devices] == [
        (gpu["index"], gpu["name"]) for gpu in expected], screen
    assert len(lines) == len(expected), screen
    loads, links = LOAD.findall(screen), LINK.findall(screen)
    for gpu, line, load, link in zip(expected, lines, loads, links, strict=True):
        clock, memory_clock, temperature, power, limit = map(int, line)
        assert close(clock, gpu["sm_clock_mhz"], 30)
        assert memory_clock == gpu["memory_clock_mhz"]
        assert close(temperature, gpu["temperature_celsius"], 1)
        assert close(power, gpu["power_w"], 2)
        assert limit == gpu["power_limit_w"]
        assert int(load) == gpu["utilization_percent"]
        assert link == (str(gpu["pcie_generation"]), "16")
    record_property("matrix", f"nvtop\t{world.model}\tname, PCIe link, clocks, temperature, power, "
                              "limit, utilisation")
    record("nvtop", "ran")


def test_nvtop_shows_a_real_process(tmp_path):
    one = World(tmp_path / "world", "t4", load="idle")
    pid = one.process(gpu=1, vram="2G", load="0.5")
    terminal = Terminal(one, PROGRAM)
    try:
        line = wait_until(lambda: re.search(rf"^ *{pid} .*$", terminal.screen(), re.MULTILINE),
                          "nvtop to show the process")
        assert re.search(r" 1 +Compute .* 2048MiB .*sleep", line.group()), line.group()
    finally:
        terminal.close()
        one.stop()
