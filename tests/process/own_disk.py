"""A disk of a test's own for a daemon's state, which can be filled."""

import subprocess

import pytest


@pytest.fixture
def own_disk(tmp_path):
    """The state directory of a daemon in "yard"."""
    state = tmp_path / "yard" / "state"
    state.mkdir(parents=True)
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m,mode=0700", "tmpfs", state],
                      capture_output=True, check=False).returncode != 0:
        pytest.skip("only root may mount a disk of its own")
    yield state
    subprocess.run(["umount", "-l", state], check=True)


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
