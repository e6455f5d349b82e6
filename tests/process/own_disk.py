"""Disks of a test's own for a daemon's state: one that can be filled, one that can be frozen."""

import os
import subprocess

import pytest

from program import state_of, wait_until


def fill(disk):
    """Leaves no room on it, until the file that this returns is removed."""
    filler = disk / "filler"
    with open(filler, "wb", buffering=0) as file:
        try:
            while file.write(b"\0" * 4096):
                pass
        except OSError:
            pass
    return filler


def quietly(*command):
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


class FrozenDisk:
    """A small ext4 file system that can be frozen."""

    def __init__(self, directory):
        image, self.mount = directory / "image", directory / "mount"
        self.mount.mkdir()
        image.write_bytes(b"")
        os.truncate(image, 16 << 20)
        assert quietly("mkfs.ext4", "-q", str(image)).returncode == 0
        mounted = quietly("mount", "-o", "loop", str(image), str(self.mount))
        if mounted.returncode != 0:
            pytest.skip(f"no file system can be mounted here: {mounted.stderr.strip()}")

    def freeze(self):
        assert quietly("fsfreeze", "-f", str(self.mount)).returncode == 0

    def thaw(self):
        return quietly("fsfreeze", "-u", str(self.mount))

    def end(self):
        self.thaw()
        wait_until(lambda: quietly("umount", str(self.mount)).returncode == 0, "the file system to go")


def stuck_threads(pid):
    """Threads in uninterruptible sleep."""
    try:
        tasks = os.listdir(f"/proc/{pid}/task")
    except FileNotFoundError:
        return []
    return [task for task in tasks if state_of(f"{pid}/task/{task}") == "D"]
