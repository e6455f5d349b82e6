"""Another machine, as ssh sees one: Debian's sshd on loopback, with users of its own.

It runs in a mount namespace in which /etc/passwd and the like are files of the test, so that nothing
stays on the machine: no user, no key, no configuration.
"""

import contextlib
import os
import pathlib
import re
import shutil
import subprocess

import pytest

from program import (PATIENCE, PROGRAM, Caller, clean_environment, command_line, free_port, runs,
                     wait_until)

USER = "alice"
UID = 1000
SSHD = pathlib.Path(__file__).parents[2] / "build" / "clients" / "sshd" / "root" / "usr" / "sbin" / "sshd"
SSH = shutil.which("ssh")

START = """
set -e
for name in passwd group shadow; do mount --bind "$0/$name" "/etc/$name"; done
mount -t tmpfs -o mode=0755 tmpfs /run
mkdir -m 0755 /run/sshd
exec "$1" -D -e -f "$0/sshd_config"
"""

PASSWD = f"""root:x:0:0::/root:/bin/sh
sshd:x:990:65534::/run/sshd:/usr/sbin/nologin
{USER}:x:{UID}:{UID}::HOME:/bin/sh
"""
GROUP = f"root:x:0:\nnogroup:x:65534:\n{USER}:x:{UID}:\n"
SHADOW = f"root:*:19000::::::\nsshd:!:19000::::::\n{USER}:*:19000::::::\n"

SSHD_CONFIG = """ListenAddress 127.0.0.1
Port {port}
HostKey {place}/host_key
AuthorizedKeysFile {place}/authorized_keys
PasswordAuthentication no
KbdInteractiveAuthentication no
UsePAM no
PidFile none
StrictModes no
AllowUsers {user} root
SetEnv {environment}
"""

SSH_CONFIG = """Host *
  HostName 127.0.0.1
  Port {port}
  User {user}
  IdentityFile {place}/%n_key
  IdentitiesOnly yes
  IdentityAgent none
  UserKnownHostsFile {place}/known_hosts
  GlobalKnownHostsFile /dev/null
  StrictHostKeyChecking yes
"""


def quietly(*command):
    subprocess.run(command, check=True, capture_output=True, timeout=PATIENCE)


class FarHost(Caller):
    """A host `lab` that ssh reaches, with gpuyard in its PATH, and `lease`, whose key may only lease.
    Every user of the machine must be able to enter `place`."""

    def __init__(self, place, program, socket):
        if os.geteuid() != 0 or not SSHD.exists() or not SSH:
            pytest.skip("an sshd of a test's own needs root, openssh-client and tools/clients_sshd.sh")
        self.place = place
        self.program = program
        self.port = free_port()
        self._write_users()
        self._write_keys()
        far = f"PATH={os.path.dirname(program)}:/usr/bin:/bin GPUYARD_SOCKET={socket}"
        names = {"port": self.port, "place": place, "user": USER, "environment": far}
        self._write("sshd_config", SSHD_CONFIG.format(**names))
        self._write("ssh_config", SSH_CONFIG.format(**names))
        self._write("bin/ssh", f'#!/bin/sh\nexec {SSH} -F {place}/ssh_config "$@"\n', 0o755)
        self._write("gpuyard/hosts.toml", '[lab]\nurl = "ssh://lab"\n[lease]\nurl = "ssh://lease"\n')
        self.environment = clean_environment(
            place, PATH=f"{place}/bin:{os.environ['PATH']}", GPUYARD_SOCKET="", TZ="UTC")
        self._start()

    def _write(self, name, text, mode=0o644):
        file = self.place / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(text, encoding="utf-8")
        file.chmod(mode)

    def _write_users(self):
        home = self.place / "home"
        home.mkdir()
        os.chown(home, UID, UID)
        self._write("passwd", PASSWD.replace("HOME", str(home)))
        self._write("group", GROUP)
        self._write("shadow", SHADOW, 0o600)

    def _write_keys(self):
        for name in ("host_key", "lab_key", "lease_key", "stranger_key"):
            quietly("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(self.place / name))
        lease_only = f'command="{self.program} dial-stdio --lease-only",restrict '
        self._write("authorized_keys", self._public("lab_key") + lease_only + self._public("lease_key"))
        self.trust("host_key")

    def _public(self, name):
        return (self.place / f"{name}.pub").read_text(encoding="utf-8")

    def trust(self, key):
        self._write("known_hosts", f"[127.0.0.1]:{self.port} {self._public(key)}")

    def _start(self):
        self.log = self.place / "sshd.log"
        self.sshd = subprocess.Popen(
            ["unshare", "--mount", "--propagation", "private", "sh", "-c", START, str(self.place), str(SSHD)],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=open(self.log, "w"))

        def listens():
            if self.sshd.poll() is not None:
                pytest.skip(f"no sshd can run here: {self.log.read_text()}")
            return "Server listening" in self.log.read_text()
        wait_until(listens, "sshd to listen")

    def logins(self):
        return len(re.findall("Accepted publickey", self.log.read_text()))

    def start(self, *arguments):
        return subprocess.Popen([PROGRAM, *arguments], env=self.environment, text=True,
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def dialling(self):
        """The far ends of connections."""
        return [pid for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if self._dials(pid)]

    def processes(self):
        """The processes of the connections, on both sides."""
        near = [pid for pid in map(int, filter(str.isdigit, os.listdir("/proc")))
                if f"{self.place}/ssh_config" in command_line(pid) and runs(pid)]
        return near + self.dialling()

    def _dials(self, pid):
        with contextlib.suppress(OSError):
            return (os.readlink(f"/proc/{pid}/exe") == self.program and "dial-stdio" in command_line(pid)
                    and runs(pid))
        return False

    def end(self):
        self.sshd.terminate()
        self.sshd.wait(PATIENCE)
