#!/usr/bin/env python3
"""Writes the wheels of gpuyard: one with the program for Linux, one with the client alone.

    python/make_wheels.py --program build/release/gpuyard \\
        --simulator build/release/sim/libnvidia-ml.so.1 --out dist

The same files give the same bytes: times are SOURCE_DATE_EPOCH's or those of 1980, and the order is
that of the names.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import importlib.util
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path
from typing import NamedTuple, Optional

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
NEWEST_GLIBC = (2, 34)  # of RHEL 9, Ubuntu 22.04, Debian 12
SUMMARY = "Watches, leases and measures the GPUs of a machine"


class File(NamedTuple):
    name: str
    data: bytes
    mode: int = 0o644


class Refused(Exception):
    """No wheel is written."""


def version_of_checkout() -> str:
    """By the package's own reader of CMakeLists.txt."""
    spec = importlib.util.spec_from_file_location("version", HERE / "gpuyard" / "version.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    version = module.version_in((ROOT / "CMakeLists.txt").read_text(encoding="utf-8"))
    if not version:
        raise Refused("CMakeLists.txt has no project(gpuyard VERSION ...)")
    return str(version)


def objdump(option: str, program: Path) -> str:
    done = subprocess.run(["objdump", option, str(program)], capture_output=True, text=True,
                          check=False)
    if done.returncode != 0:
        raise Refused(f"{program} is no ELF file that objdump reads: {done.stderr.strip()}")
    return done.stdout


def glibc_needs(program: Path) -> list[tuple[tuple[int, ...], str]]:
    """The versions of glibc that a program or library needs, newest first, with the symbols."""
    needs = set()
    # The dynamic loader goes by these versions, whether a symbol of them is used or not.
    for name in re.findall(r" GLIBC_(\w[\w.]*)$", objdump("-p", program), re.MULTILINE):
        numbers = name.split(".")
        # For example GLIBC_ABI_DT_RELR, which no glibc of the tag has.
        version = tuple(map(int, numbers)) if all(map(str.isdigit, numbers)) else (9999,)
        needs.add((version, "" if version < (9999,) else f"GLIBC_{name}"))
    for line in objdump("-T", program).splitlines():
        found = re.search(r"\*UND\*.*\(?GLIBC_([0-9.]+)\)?\s+(\S+)$", line)
        if found:
            needs.add((tuple(map(int, found.group(1).split("."))), found.group(2)))
    named = {version for version, symbol in needs if symbol}
    return sorted((one for one in needs if one[1] or one[0] not in named), reverse=True)


def check_glibc(program: Path) -> None:
    """Refused if the wheel's tag would be a lie."""
    newer = [f"{symbol or 'something'} (glibc {'.'.join(map(str, version))})"
             for version, symbol in glibc_needs(program) if version > NEWEST_GLIBC]
    if newer:
        limit = ".".join(map(str, NEWEST_GLIBC))
        raise Refused(f"{program} needs a newer glibc than {limit}: {', '.join(newer)}. "
                      "--any-only writes the client's wheel without it")


def stripped(program: Path) -> bytes:
    with tempfile.TemporaryDirectory() as place:
        copy = Path(place) / program.name
        shutil.copy2(program, copy)
        subprocess.run(["strip", "--strip-unneeded", str(copy)], check=True)
        return copy.read_bytes()


def package_files() -> list[File]:
    names = sorted(path for path in (HERE / "gpuyard").rglob("*")
                   if path.suffix == ".py" or path.name == "py.typed")
    return [File(str(path.relative_to(HERE)), path.read_bytes()) for path in names]


def readme() -> str:
    page = ROOT / "docs" / "python.md"
    return page.read_text(encoding="utf-8") if page.exists() else SUMMARY + ".\n"


def info_files(version: str, tag: str) -> list[File]:
    info = f"gpuyard-{version}.dist-info"
    metadata = "\n".join([
        "Metadata-Version: 2.1",
        "Name: gpuyard",
        f"Version: {version}",
        f"Summary: {SUMMARY}",
        "License: Apache-2.0",
        "License-File: LICENSE",
        *([] if tag.endswith("-any") else ["License-File: COPYRIGHT"]),
        "Keywords: gpu,cuda,energy,lease,nvml",
        "Classifier: License :: OSI Approved :: Apache Software License",
        "Classifier: Programming Language :: Python :: 3",
        "Classifier: Typing :: Typed",
        "Requires-Python: >=3.9",
        "Description-Content-Type: text/markdown",
    ]) + "\n\n" + readme()
    wheel = "\n".join([
        "Wheel-Version: 1.0",
        "Generator: gpuyard make_wheels",
        # A wheel with a program has its files in a place of one platform.
        f"Root-Is-Purelib: {'true' if tag.endswith('-any') else 'false'}",
        f"Tag: {tag}",
    ]) + "\n"
    return [
        File(f"{info}/LICENSE", (ROOT / "LICENSE").read_bytes()),
        File(f"{info}/METADATA", metadata.encode("utf-8")),
        File(f"{info}/WHEEL", wheel.encode("utf-8")),
    ]


def record_of(files: list[File], info: str) -> File:
    lines = []
    for file in files:
        digest = base64.urlsafe_b64encode(hashlib.sha256(file.data).digest()).rstrip(b"=")
        lines.append(f"{file.name},sha256={digest.decode()},{len(file.data)}")
    lines.append(f"{info}/RECORD,,")
    return File(f"{info}/RECORD", ("\n".join(lines) + "\n").encode("utf-8"))


def zip_time() -> tuple[int, int, int, int, int, int]:
    """Zip has no time before 1980."""
    since = max(int(os.environ.get("SOURCE_DATE_EPOCH", "315532800")), 315532800)
    at = time.gmtime(since)
    return at.tm_year, at.tm_mon, at.tm_mday, at.tm_hour, at.tm_min, at.tm_sec


def write_wheel(out: Path, version: str, tag: str, more: list[File]) -> Path:
    files = sorted([*package_files(), *more, *info_files(version, tag)],
                   # The dist-info comes last, as the format recommends.
                   key=lambda file: (".dist-info/" in file.name, file.name))
    files.append(record_of(files, f"gpuyard-{version}.dist-info"))
    out.mkdir(parents=True, exist_ok=True)
    path = out / f"gpuyard-{version}-{tag}.whl"
    draft = path.with_suffix(".new")
    with zipfile.ZipFile(draft, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as wheel:
        for file in files:
            entry = zipfile.ZipInfo(file.name, zip_time())
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.create_system = 3  # Unix, which gives the mode below its meaning
            entry.external_attr = (0o100000 | file.mode) << 16
            wheel.writestr(entry, file.data, compresslevel=9)
    draft.replace(path)
    return path


def make(out: Path, version: str, program: Optional[Path], simulator: Optional[Path],
         notices: Optional[Path] = None) -> list[Path]:
    """The paths of the wheels. Refused before anything is written."""
    parts: list[File] = []
    if program and simulator:
        for one in (program, simulator):
            check_glibc(one)
        data = f"gpuyard-{version}.data"
        parts = [
            File(f"{data}/scripts/gpuyard", stripped(program), 0o755),
            File(f"{data}/data/lib/gpuyard/sim/libnvidia-ml.so.1", stripped(simulator), 0o755),
            # The third-party projects that the program contains.
            File(f"gpuyard-{version}.dist-info/COPYRIGHT",
                 (ROOT / "packaging" / "debian" / "copyright").read_bytes()),
        ]
        if notices:
            parts.append(File(f"gpuyard-{version}.dist-info/NOTICES", notices.read_bytes()))
    wheels = [write_wheel(out, version, "py3-none-any", [])]
    if parts:
        glibc = "_".join(map(str, NEWEST_GLIBC))
        tag = f"py3-none-manylinux_{glibc}_{platform.machine()}"
        wheels.append(write_wheel(out, version, tag, parts))
    return wheels


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--program", type=Path, help="the program gpuyard")
    parser.add_argument("--simulator", type=Path, help="its simulated libnvidia-ml.so.1")
    parser.add_argument("--notices", type=Path, help="licences of what the program is linked with")
    parser.add_argument("--any-only", action="store_true", help="only the client's wheel")
    parser.add_argument("--out", type=Path, required=True, help="the folder of the wheels")
    parser.add_argument("--version", help="instead of that of CMakeLists.txt")
    chosen = parser.parse_args()
    if not chosen.any_only and not (chosen.program and chosen.simulator):
        parser.error("--program and --simulator are needed, or --any-only")
    program = None if chosen.any_only else chosen.program
    try:
        version = chosen.version or version_of_checkout()
        wheels = make(chosen.out, version, program, chosen.simulator, chosen.notices)
    except Refused as error:
        print(f"make_wheels: {error}", file=sys.stderr)
        return 1
    for wheel in wheels:
        print(f"{wheel} {wheel.stat().st_size} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
