"""Namespaces of a test's own, in which it can set up whole machines: network, mounts, processes, names.

One process holds them, and is their init. It ends when its stdin does, that is when this process ends,
however it ends; the kernel then kills every process in there, and the rest goes with them. The files are
in a tmpfs of theirs, /run, so that nothing has to be deleted.

A process in there is a child of this one, with a pid that means the same here as everywhere else
outside: poll(), kill() and /proc work as usual.
"""

import contextlib
import ctypes
import os
import re
import shutil
import socket
import subprocess
from pathlib import Path

import pytest

from program import PATIENCE, children, runs, wait_until

CLONE_NEWUTS = 0x04000000
LIBC = ctypes.CDLL(None, use_errno=True)

# An init that reaps: a process whose SIGCHLD is ignored leaves no zombies.
HOLD = """
set -e
mount -t tmpfs -o mode=0755 tmpfs /run
ip link set lo up
echo held
exec env --ignore-signal=CHLD cat
"""


def check(result):
    if result != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def enter(namespace):
    """Moves this thread there; of a namespace of processes, only the children that it starts from now on."""
    file = os.open(namespace, os.O_RDONLY | os.O_CLOEXEC)
    try:
        check(LIBC.setns(file, 0))
    finally:
        os.close(file)


@contextlib.contextmanager
def within(pid, kind):
    """Enters a namespace of that process for a while."""
    back = os.open(f"/proc/thread-self/ns/{kind}", os.O_RDONLY | os.O_CLOEXEC)
    try:
        enter(f"/proc/{pid}/ns/{kind}")
        try:
            yield
        finally:
            check(LIBC.setns(back, 0))
    finally:
        os.close(back)


class Enclosure:
    def __init__(self):
        if os.geteuid() != 0 or not all(map(shutil.which, ("unshare", "ip"))):
            pytest.skip("namespaces of a test's own need root, unshare and ip")
        self._started = []
        self._unshare = subprocess.Popen(
            ["unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc",
             "sh", "-c", HOLD],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        if self._unshare.stdout.readline() != b"held\n":
            pytest.skip(f"no namespaces can be made here: {self._unshare.communicate()[1].decode()}")
        self.holder = children(self._unshare.pid)[0]

    def outside(self, path):
        """Returns the outside path of a file that is called `path` in there."""
        return Path(f"/proc/{self.holder}/root{path}")

    def write(self, path, text, mode=0o644):
        """Replaces a file as a whole, and makes its folders."""
        file = self.outside(path)
        file.parent.mkdir(parents=True, exist_ok=True)
        new = file.with_name(f".{file.name}.new")
        new.write_text(text, encoding="utf-8")
        new.chmod(mode)
        new.rename(file)

    def popen(self, *words, net=None, uid=0, preexec_fn=None, **options):
        """A process in there; on the machine that `ip netns` calls `net`, if one is given."""
        def go_in():
            enter(self.outside(f"/run/netns/{net}") if net else f"/proc/{self.holder}/ns/net")
            if net:
                check(LIBC.unshare(CLONE_NEWUTS))
                socket.sethostname(net)
            enter(f"/proc/{self.holder}/ns/mnt")
            os.chdir("/")
            if uid:
                os.setgroups([])
                os.setgid(uid)
                os.setuid(uid)
            if preexec_fn:
                preexec_fn()

        with within(self.holder, "pid"):
            one = subprocess.Popen(words, preexec_fn=go_in, **{"stdin": subprocess.DEVNULL} | options)
        self._started.append(one)
        return one

    def run(self, *words, timeout=PATIENCE, input=None, **options):
        """Returns the CompletedProcess, with its output as text."""
        pipes = {"stdin": subprocess.PIPE} if input is not None else {}
        one = self.popen(*words, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **pipes,
                         **options)
        try:
            out, err = one.communicate(input, timeout=timeout)
        except subprocess.TimeoutExpired:
            one.kill()
            one.communicate()
            raise
        self._started.remove(one)
        return subprocess.CompletedProcess(words, one.returncode, out, err)

    def must(self, *words, **options):
        done = self.run(*words, **options)
        assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"
        return done.stdout

    def connects(self, address, port):
        """Whether a TCP connection leads there from the machine that holds the others together."""
        with within(self.holder, "net"):
            one = socket.socket()
        with one, contextlib.suppress(OSError):
            one.settimeout(1)
            one.connect((address, port))
            return True
        return False

    def pids(self):
        """Returns the outside pids of its processes, without the holder."""
        mine = os.readlink(f"/proc/{self.holder}/ns/pid")
        found = []
        for pid in map(int, filter(str.isdigit, os.listdir("/proc"))):
            with contextlib.suppress(OSError):
                if pid != self.holder and os.readlink(f"/proc/{pid}/ns/pid") == mine:
                    found.append(pid)
        return found

    def close(self):
        """The init waits until the processes that were started from here are reaped."""
        self._unshare.stdin.close()
        for one in self._started:
            if one.poll() is None:
                one.kill()
            one.wait(PATIENCE)
            for stream in (one.stdin, one.stdout, one.stderr):
                if stream:
                    stream.close()
        self._unshare.wait(PATIENCE)
        self._unshare.stdout.close()
        self._unshare.stderr.close()


def nothing_is_left(one, pids):
    """Kills the process `one`, which holds an enclosure with these processes, and looks for what stays."""
    spaces = {os.readlink(f"/proc/{pids[0]}/ns/{kind}") for kind in ("net", "mnt", "pid")}
    one.kill()
    one.communicate()
    wait_until(lambda: not any(map(runs, pids)), "every process of it to end")
    numbers = {re.search(r"\d+", space).group() for space in spaces}

    def left():
        listing = subprocess.run(["lsns", "-no", "NS"], capture_output=True, text=True, check=False)
        # It fails when a process of the machine ends while it reads /proc.
        return numbers & set(listing.stdout.split()) if listing.returncode == 0 else numbers

    # The kernel takes a namespace away a moment after its last process has ended.
    wait_until(lambda: not left(), lambda: f"the namespaces {left()} to end")
    assert "alice" not in Path("/etc/passwd").read_text()
