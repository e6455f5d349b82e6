"""A terminal for a program that draws: a pty, and what it shows."""

import contextlib
import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import termios
import time

from program import PROGRAM, clean_environment, wait_until

LEAVES = b"\x1b[?25h\x1b[?1049l"
MOUSE_ON, MOUSE_OFF = b"\x1b[?1000h\x1b[?1006h", b"\x1b[?1006l\x1b[?1000l"


class Screen:
    """The screen of a terminal that got these bytes: moves, erasures and signs of one column each."""

    def __init__(self, rows, columns):
        self.rows, self.columns = rows, columns
        self.cells = [[" "] * columns for _ in range(rows)]
        self.row = self.column = 0

    def take(self, text):
        for parameters, name, sign in re.findall(r"\x1b\[([?0-9;]*)([A-Za-z])|([^\x1b])", text):
            if name == "H":
                row, column = (parameters or "1;1").split(";")
                self.row, self.column = int(row) - 1, int(column) - 1
            elif name == "J":
                self.cells = [[" "] * self.columns for _ in range(self.rows)]
            elif sign and self.row < self.rows and self.column < self.columns:
                self.cells[self.row][self.column] = sign
                self.column += 1

    def text(self):
        return "\n".join("".join(row).rstrip() for row in self.cells)


class Terminal:
    """A program on a terminal of 80x24, and all that it has written."""

    def __init__(self, place, *arguments, size=(24, 80), verb=("top",), **extra):
        self.master, self.slave = pty.openpty()
        self.resize(*size)
        self.before = termios.tcgetattr(self.slave)
        environment = clean_environment(place, **({"TERM": "no-such-terminal", "LC_ALL": "C.UTF-8"} | extra))
        self.program = subprocess.Popen([PROGRAM, *verb, *arguments], env=environment, stdin=self.slave,
                                        stdout=self.slave, stderr=self.slave, start_new_session=True,
                                        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
        self.size = size
        self.written = b""

    def resize(self, rows, columns):
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def read(self, seconds=0.05):
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0 and select.select([self.master], [], [], left)[0]:
            try:
                self.written += os.read(self.master, 65536)
            except OSError:
                break
        return self.written

    def text(self):
        screen = Screen(*self.size)
        screen.take(self.read().decode("utf-8", "ignore"))
        return screen.text()

    def wait_for(self, words):
        wait_until(lambda: words in self.text(), lambda: f"{words} in\n{self.text()}")

    def press(self, keys):
        os.write(self.master, keys)

    def ended(self):
        """Checks that the program ends and the terminal is restored. Returns the exit code."""
        wait_until(lambda: self.read() is not None and self.program.poll() is not None, "top to end")
        self.read()
        assert self.written.endswith(LEAVES), self.written[-200:]
        assert self.written.rfind(MOUSE_OFF) >= self.written.rfind(MOUSE_ON)
        assert termios.tcgetattr(self.slave) == self.before
        return self.program.returncode

    def close(self):
        self.program.kill()
        self.program.wait()
        for fd in (self.master, self.slave):
            with contextlib.suppress(OSError):
                os.close(fd)


class LineTerminal(Terminal):
    """A program that writes lines rather than a screen, and all of its text."""

    def text(self):
        return self.read().decode("utf-8", "ignore")

    def until(self, words):
        wait_until(lambda: words in self.text(), lambda: f"{words!r} in {self.text()!r}")
        return self.text()

    def end(self):
        """The exit code, negative for a signal, and the text."""
        wait_until(lambda: self.read() is not None and self.program.poll() is not None, "the program to end")
        return self.program.returncode, self.text()
