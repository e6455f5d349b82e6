"""Libraries that are preloaded into a daemon, to make what it waits for slow."""

import shutil
import subprocess
from pathlib import Path

import pytest

from program import PROGRAM

HERE = Path(__file__).parent


def build_shim(source, directory):
    """The path of the library. Skips the test where it cannot be made or would not be used."""
    if not shutil.which("g++"):
        pytest.skip("the library that delays needs g++")
    program = Path(PROGRAM).read_bytes()
    if b"__asan_init" in program or b"__tsan_init" in program:
        pytest.skip("a sanitizer's functions come before those of any library")
    library = (directory / source).with_suffix(".so")
    subprocess.run(["g++", "-shared", "-fPIC", "-o", str(library), str(HERE / source)], check=True, timeout=120)
    return str(library)
