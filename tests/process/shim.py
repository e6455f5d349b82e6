"""Libraries preloaded into a daemon that slow down the calls it waits for."""

import shutil
import subprocess
from pathlib import Path

import pytest

from program import PROGRAM

HERE = Path(__file__).parent


def build_shim(source, directory):
    """Compiles the library and returns its path. Skips the test if it cannot be compiled or would not be used."""
    if not shutil.which("g++"):
        pytest.skip("the library that delays needs g++")
    program = Path(PROGRAM).read_bytes()
    if b"__asan_init" in program or b"__tsan_init" in program:
        pytest.skip("a sanitizer's functions come before those of any library")
    library = (directory / source).with_suffix(".so")
    subprocess.run(["g++", "-shared", "-fPIC", "-o", str(library), str(HERE / source)], check=True, timeout=120)
    return str(library)
