"""The ways in which a node of a fleet fails. Each is real (a signal, a link, sshd's configuration, another
program in the PATH) and lasts as long as its `with`."""

import contextlib
import os
import signal
from pathlib import Path

from program import children, wait_until

OLDER = Path(__file__).with_name("older.py")

# Greets, takes a request, and answers it in part.
HALF = r"""#!/bin/sh
echo "gpuyard-dial-stdio 1"
read -r line
printf 'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 100000\r\n\r\n{"schema":1,"devi'
"""
HANG = "exec cat >/dev/null\n"  # until its client closes the connection


@contextlib.contextmanager
def stopped(pids):
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)


class Faults:
    """The faults of a Node."""

    # The network.

    def _set_link(self, state):
        self.enclosure.must("ip", "link", "set", self.link, state)

    @contextlib.contextmanager
    def cut_off(self):
        """Packets are lost from now on, also of connections that are open. A new one times out or, a
        few seconds after the client's kernel has lost its neighbour, has no route."""
        self._set_link("down")
        try:
            yield
        finally:
            self._set_link("up")
            wait_until(lambda: self.enclosure.connects(self.address, 22), f"the link to {self.name}")

    @contextlib.contextmanager
    def dead(self):
        """No machine has that address: connecting fails after 3 s, when ARP gives up."""
        with self.cut_off():
            self.enclosure.run("ip", "neigh", "del", self.address, "dev", "br0")
            yield

    # sshd.

    def _reload_sshd(self, *first):
        before = self.listens()
        self.sshd_config(*first)
        self.sshd.send_signal(signal.SIGHUP)
        wait_until(lambda: self.listens() > before, f"the sshd of {self.name} to listen again")

    @contextlib.contextmanager
    def sshd_with(self, *lines):
        """Adds these lines to the sshd's configuration. Open sessions stay as they are."""
        self._reload_sshd(*lines)
        try:
            yield
        finally:
            self._reload_sshd()

    def silent_sshd(self):
        """The kernel accepts connections, and sshd says nothing. Sessions that are open go on."""
        return stopped([self.sshd.pid])

    def asks_for_password(self):
        return self.sshd_with("AuthorizedKeysFile none", "PasswordAuthentication yes")

    @contextlib.contextmanager
    def other_host_key(self, known="other_key"):
        """The client knows another key for that address; with known=None, none at all."""
        self.trust(known)
        try:
            yield
        finally:
            self.trust("host_key")

    # The daemon.

    def stopped_daemon(self):
        return stopped([self.daemon.pid, *children(self.daemon.pid)])

    @contextlib.contextmanager
    def killed_daemon(self):
        self.daemon.kill()
        self.daemon.wait()
        try:
            yield
        finally:
            self.start_daemon()
            self.ready()

    @contextlib.contextmanager
    def _changed(self, change, back):
        """The daemon restarts after each change."""
        with self.killed_daemon():
            change()
        try:
            yield
        finally:
            with self.killed_daemon():
                back()

    def other_config(self, text):
        """Adds this to the node's configuration. Only a node with https has one."""
        return self._changed(lambda: self.write_config(text), self.write_config)

    # The program that ssh runs there.

    @contextlib.contextmanager
    def _other_program(self, text):
        self.far_program(text)
        try:
            yield
        finally:
            self.far_program()

    def no_gpuyard(self):
        return self._other_program("")

    def half_an_answer(self, hangs=True):
        """The daemon greets and sends half of the first response; then it hangs, or it ends."""
        return self._other_program(HALF + (HANG if hangs else ""))

    def older_daemon(self, *paths):
        """The daemon knows no route of these: it answers 404 itself. A path that ends with / stands for
        all below it."""
        self.enclosure.write(f"{self.place}/older.py", OLDER.read_text(encoding="utf-8"))
        words = " ".join(["/usr/bin/python3", "-IS", f"{self.place}/older.py", self.program, *paths])
        return self._other_program(
            f'#!/bin/sh\n[ "$1" = dial-stdio ] || exec {self.program} "$@"\nexec {words}\n')

    @contextlib.contextmanager
    def big_banner(self, size=10_000_000):
        """The shell's start-up file prints so much, in lines, before the command starts."""
        self.enclosure.write(f"{self.place}/home/.bashrc",
                             f"yes 'Welcome to {self.name}!' | head -c {size}; echo\n")
        try:
            yield
        finally:
            self.enclosure.outside(f"{self.place}/home/.bashrc").unlink()

    # Programs in the PATH there.

    @contextlib.contextmanager
    def other_command(self, name, script):
        """A script in the place of a program, such as `id`."""
        self.enclosure.write(f"{self.place}/bin/{name}", "#!/bin/sh\n" + script, 0o755)
        try:
            yield
        finally:
            self.enclosure.outside(f"{self.place}/bin/{name}").unlink()
