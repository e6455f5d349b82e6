"""Blocks of a page that show commands with their output, and a place in which these commands run.

Numbers, ids and the width of columns differ from run to run; `...` stands for any text, and on a line of its own
for any lines.
"""

import contextlib
import getpass
import os
import pty
import re
import signal
import subprocess
import textwrap
from pathlib import Path

from program import PATIENCE, PROGRAM, Daemon, clean_environment, read_until, wait_until

ROOT = Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"^```(?P<language>\S*)\n(?P<fenced>.*?)^```$|(?<=\n\n)(?P<indented>(?: {4}[^\n]*\n)+)",
                   re.MULTILINE | re.DOTALL)
UUID = re.compile(r"GPU-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
# Commands that only read are run again until the world or the daemon has come so far.
READS = re.compile(r"(?:cat|curl|gpuyard (?:alerts|audit|check|devices|fleet|leases|processes|queue|usage|why))\b")
# Lines that a page about real GPUs does not show.
SIMULATED = {"These GPUs are simulated.", "Includes simulated GPUs."}
# Ends the output of a command that runs until it is interrupted.
INTERRUPT = "Press Ctrl-C to stop."


class Block:
    def __init__(self, match):
        self.language = match["language"]  # None: indented
        self.text = textwrap.dedent(match["fenced"] or match["indented"] or "")
        self.first = self.text.partition("\n")[0].removeprefix("$ ")

    def steps(self):
        """(command, lines that it prints)"""
        for part in re.split(r"^\$ ", self.text, flags=re.MULTILINE)[1:]:
            command, _, output = part.partition("\n")
            yield command, output.splitlines()


def blocks(text):
    return [Block(match) for match in BLOCK.finditer(text)]


def steps(text):
    return [step for block in blocks(text) for step in block.steps()]


def normal(line):
    """A line without what differs from run to run."""
    line = UUID.sub("GPU-UUID", line)
    # Before a time of another day, as that of a limit that ends after midnight.
    line = re.sub(r"\b\d{4}-\d\d-\d\d (?=\d\d:\d\d)", "", line)
    line = re.sub(r"\b[0-9a-f]{16}\b", "ID", line)
    line = re.sub(r"<?\d+(?:[.:]\d+)*(?:[smhd](?:\d\d)?\b)?", "N", line)
    return " ".join(line.split())


def line_pattern(line):
    words = (re.escape(part.strip()) for part in normal(line).split("..."))
    return r"\s*.*?\s*".join(words)


def of_this_user(line):
    """A line of a page, which shows the commands of root."""
    return re.sub(r"\broot\b", getpass.getuser(), line)


def pattern(lines):
    return re.compile("".join(r"(?:.*\n)*?" if line.strip() == "..." else line_pattern(line) + r"\n" for line in lines))


def shows(lines, printed):
    return pattern(lines).fullmatch("".join(normal(line) + "\n" for line in printed.splitlines()))


class Place:
    """A directory in which the commands of a page run as they stand there. `replaced` are texts of the page that are
    others here, as a path; `hidden` are lines that it leaves out. Every user must be able to enter `directory`."""

    def __init__(self, directory):
        self.directory = directory
        self.rest = contextlib.ExitStack()  # to end with it
        self.replaced = {}
        self.hidden = set()
        self.environment = clean_environment(directory, PATH=f"{directory}/bin:{os.environ['PATH']}", TZ="UTC",
                                             NO_COLOR="1")
        self.link("bin/gpuyard", os.path.abspath(PROGRAM))

    def link(self, name, target):
        (self.directory / name).parent.mkdir(parents=True, exist_ok=True)
        (self.directory / name).symlink_to(Path(target).absolute())

    def write(self, name, text):
        """A file of this place; it may be run."""
        file = self.directory / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
        file.chmod(0o755)
        return file

    def serve(self, *arguments, config="", name="daemon", **environment):
        """Starts a daemon, the first for the commands; with "--simulate", "8" its GPUs have a demo."""
        file = self.write(f"{name}/gpuyard.toml", config)
        one = Daemon(file.parent, "--config", str(file), *arguments, demo=True, **environment)
        self.rest.callback(one.stop)
        its = {"GPUYARD_SOCKET": one.socket, "GPUYARD_SIM_WORLD": f"{one.state}/world"} | environment
        self.environment = its | self.environment
        return one

    def here(self, text):
        for shown, real in self.replaced.items():
            text = text.replace(shown, real)
        return text

    def there(self, text):
        for shown, real in self.replaced.items():
            text = text.replace(real, shown)
        return "".join(line for line in text.splitlines(keepends=True) if line.strip() not in self.hidden)

    def run(self, command):
        """What it prints, with the texts of the page."""
        done = subprocess.run(["sh", "-c", self.here(command)], cwd=self.directory, env=self.environment,
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=2 * PATIENCE, check=False)
        return self.there(done.stdout + done.stderr)

    def run_until(self, command, ending):
        """What it prints on a terminal before it is interrupted."""
        terminal, its_end = pty.openpty()
        with open(terminal, "rb", buffering=0) as stream:
            process = subprocess.Popen(["sh", "-c", f"stty cols 128 && exec {self.here(command)}"], cwd=self.directory,
                                       env=self.environment, stdin=its_end, stdout=its_end, stderr=its_end)
            os.close(its_end)
            try:
                printed = read_until(stream, ending)
            finally:
                process.send_signal(signal.SIGINT)
                process.wait(PATIENCE)
        return self.there(printed)

    def check(self, command, lines):
        """Runs a command of a page, and fails if it does not print what the page shows."""
        lines = [of_this_user(line) for line in lines]
        printed = ""

        def as_shown():
            nonlocal printed
            printed = self.run_until(command, INTERRUPT) if INTERRUPT in lines else self.run(command)
            return shows(lines, printed)

        if READS.match(command):
            wait_until(as_shown, lambda: f"{command} prints\n{printed}", every=0.3)
        else:
            assert as_shown(), f"{command} prints\n{printed}"

    def close(self):
        self.rest.close()
