"""The wheels: what is in them, that they are the same each time, and what is refused."""

import base64
import csv
import hashlib
import importlib.util
import io
import os
import platform
import shutil
import subprocess
import sys
import zipfile
from email.parser import BytesParser
from pathlib import Path

import pytest

from program import PROGRAM

PACKAGE = Path(__file__).resolve().parents[1]
LIBRARY = os.environ.get("GPUYARD_SIM_LIB", "")
needs_tools = pytest.mark.skipif(not shutil.which("objdump") or not LIBRARY,
                                 reason="needs objdump and GPUYARD_SIM_LIB")


@pytest.fixture
def wheels(monkeypatch):
    spec = importlib.util.spec_from_file_location("make_wheels", PACKAGE / "make_wheels.py")
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "make_wheels", module)
    spec.loader.exec_module(module)
    return module


def both(wheels, out, monkeypatch):
    """Both wheels of the program that there is, whatever glibc it was linked with."""
    newest = max(version for one in (PROGRAM, LIBRARY) for version, _ in wheels.glibc_needs(one))
    monkeypatch.setattr(wheels, "NEWEST_GLIBC", max(newest[:2], (2, 34)))
    return wheels.make(out, "1.2.3", Path(PROGRAM), Path(LIBRARY))


def check_record(wheel):
    (record,) = [name for name in wheel.namelist() if name.endswith("/RECORD")]
    rows = {row[0]: row[1:] for row in csv.reader(io.StringIO(wheel.read(record).decode()))}
    assert set(rows) == set(wheel.namelist())
    for name, (digest, size) in rows.items():
        if name == record:
            assert (digest, size) == ("", "")
            continue
        data = wheel.read(name)
        right = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        assert (digest, size) == (f"sha256={right}", str(len(data)))


def test_client_wheel_has_package_and_metadata(wheels, tmp_path):
    (path,) = wheels.make(tmp_path, "1.2.3", None, None)
    assert path.name == "gpuyard-1.2.3-py3-none-any.whl"
    with zipfile.ZipFile(path) as wheel:
        check_record(wheel)
        names = wheel.namelist()
        for name in ("__init__.py", "py.typed", "models.py", "aio/client.py", "callbacks/keras.py"):
            assert f"gpuyard/{name}" in names
        assert not any("test" in name or name.endswith(".pyc") for name in names)
        metadata = BytesParser().parsebytes(wheel.read("gpuyard-1.2.3.dist-info/METADATA"))
        assert (metadata["Name"], metadata["Version"], metadata["Requires-Python"],
                metadata["License"]) == ("gpuyard", "1.2.3", ">=3.9", "Apache-2.0")
        assert metadata["Requires-Dist"] is None and metadata.get_payload().strip()
        assert b"Apache License" in wheel.read("gpuyard-1.2.3.dist-info/LICENSE")
        assert b"Tag: py3-none-any\n" in wheel.read("gpuyard-1.2.3.dist-info/WHEEL")


def test_the_version_is_that_of_the_project(wheels):
    import gpuyard
    assert wheels.version_of_checkout() == gpuyard.__version__


@needs_tools
def test_the_same_files_give_the_same_bytes(wheels, tmp_path, monkeypatch):
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    first = both(wheels, tmp_path / "a", monkeypatch)
    second = both(wheels, tmp_path / "b", monkeypatch)
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in second]
    with zipfile.ZipFile(first[0]) as wheel:
        assert {entry.date_time for entry in wheel.infolist()} == {(2023, 11, 14, 22, 13, 20)}


@needs_tools
def test_program_wheel_is_stripped_and_runs_when_installed(wheels, tmp_path, monkeypatch):
    any_wheel, path = both(wheels, tmp_path / "dist", monkeypatch)
    assert platform.machine() in path.name and "manylinux_2_" in path.name
    print(f"{any_wheel.name} {any_wheel.stat().st_size} bytes, {path.name} {path.stat().st_size}")
    assert path.stat().st_size < 8_000_000
    with zipfile.ZipFile(path) as wheel:
        check_record(wheel)
        program = wheel.getinfo("gpuyard-1.2.3.data/scripts/gpuyard")
        assert program.external_attr >> 16 == 0o100755
        assert program.file_size <= os.path.getsize(PROGRAM)
        assert b"Root-Is-Purelib: false" in wheel.read("gpuyard-1.2.3.dist-info/WHEEL")
    target = tmp_path / "installed"
    done = subprocess.run([sys.executable, "-m", "pip", "install", "--no-index", "--no-deps",
                           "--quiet", "--prefix", str(target), str(path)], capture_output=True,
                          text=True, check=False)
    if "No module named pip" in done.stderr:
        pytest.skip("this Python has no pip")
    if "not a supported wheel" in done.stderr:
        pytest.skip("this machine's glibc is older than the program's")
    assert done.returncode == 0, done.stderr
    # Debian's Python puts bin into a folder "local".
    (program,) = target.rglob("bin/gpuyard")
    found = subprocess.run([program, "version"], capture_output=True, text=True, check=True,
                           timeout=30)
    assert "gpuyard" in found.stdout
    assert (program.parents[1] / "lib" / "gpuyard" / "sim" / "libnvidia-ml.so.1").exists()
    devices = subprocess.run([program, "devices", "--simulate", "2"], text=True,
                             capture_output=True, check=False, timeout=30,
                             env={"HOME": str(tmp_path), "PATH": os.environ["PATH"]})
    assert devices.returncode == 0 and "H100" in devices.stdout, devices.stderr


@needs_tools
def test_program_needing_newer_glibc_is_refused(tmp_path):
    source = tmp_path / "x.c"
    if not shutil.which("gcc"):
        pytest.skip("needs gcc to make such a program")
    source.write_text("#include <stdlib.h>\nint main(void) { return (int)arc4random(); }\n")
    program = tmp_path / "program"
    if subprocess.run(["gcc", str(source), "-o", str(program)], capture_output=True,
                      check=False).returncode != 0:
        pytest.skip("this machine's glibc has no newer symbol to try it with")
    out = tmp_path / "dist"
    done = subprocess.run(
        [sys.executable, str(PACKAGE / "make_wheels.py"), "--program", str(program), "--simulator",
         LIBRARY, "--out", str(out)], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "arc4random (glibc 2.36)" in done.stderr and "2.34" in done.stderr
    assert not out.exists()
    source.write_text("int main(void) { return 0; }\n")
    subprocess.run(["gcc", str(source), "-o", str(program)], check=True)
    done = subprocess.run(
        [sys.executable, str(PACKAGE / "make_wheels.py"), "--program", str(program), "--simulator",
         str(program), "--out", str(out)], capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "manylinux_2_34" in done.stdout, done.stderr


def test_missing_program_requires_any_only_option(tmp_path):
    command = [sys.executable, str(PACKAGE / "make_wheels.py"), "--out", str(tmp_path)]
    assert subprocess.run(command, capture_output=True, check=False).returncode == 2
    done = subprocess.run([*command, "--any-only", "--version", "9.9"], capture_output=True,
                          text=True, check=True)
    assert "gpuyard-9.9-py3-none-any.whl" in done.stdout
    assert len(list(tmp_path.iterdir())) == 1


@needs_tools
def test_non_elf_program_is_refused(wheels, tmp_path):
    file = tmp_path / "x"
    file.write_text("#!/bin/sh\n")
    with pytest.raises(wheels.Refused, match="no ELF file"):
        wheels.make(tmp_path / "dist", "1", file, Path(LIBRARY))
