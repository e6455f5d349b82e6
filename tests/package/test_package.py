"""The output of ./yard package, checked without installing it: linters, the bill of materials, what the
program asks of a system, and that it comes out the same twice."""

import hashlib
import json
import os
import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def run(*command, **options):
    return subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, check=False, **options)


def test_lintian_reports_no_errors_or_warnings(deb, record_property):
    record_property("contract", "P1")
    found = run("lintian", "--allow-root", "--tag-display-limit", "0", str(deb))
    assert found.returncode == 0 and not re.search(r"^[EW]:", found.stdout, re.MULTILINE), found.stdout


def test_the_manual_is_clean(packages, record_property):
    record_property("contract", "P4")
    pages = sorted((packages / "tree/usr/share/man").rglob("*.[158]"))
    assert len(pages) > 40
    found = run("mandoc", "-T", "lint", *map(str, pages)).stdout.splitlines()
    # The pages refer to each other, and are not installed here.
    assert [line for line in found if "referenced manual not found" not in line] == []


def test_bill_of_materials_is_valid_and_complete(packages, record_property):
    record_property("contract", "P4")
    python = ROOT / "build/package-venv/bin"
    bill = packages / "gpuyard.spdx.json"
    valid = run(str(python / "pyspdxtools"), "-i", str(bill))
    assert valid.returncode == 0, valid.stdout
    complete = run(str(python / "ntia-checker"), str(bill)).stdout
    assert "Conformant: True" in complete, complete
    names = {one["name"] for one in json.loads(bill.read_text(encoding="utf-8"))["packages"]}
    assert {"gpuyard", "OpenSSL", "SQLite", "Boost", "preact"} <= names


def test_program_needs_glibc_2_34_at_most(packages, record_property):
    record_property("contract", "Y1")
    for name in ("bin/gpuyard", "lib/gpuyard/sim/libnvidia-ml.so.1"):
        symbols = run("objdump", "-T", str(packages / "tree/usr" / name)).stdout
        newest = max(tuple(map(int, found.split("."))) for found in re.findall(r"GLIBC_([\d.]+)", symbols))
        assert newest <= (2, 34), f"{name}: {newest}"


def test_wheel_platform_tag_is_manylinux_2_34(packages, record_property):
    record_property("contract", "Y1")
    wheels = sorted(packages.glob("*.whl"))
    assert [wheel.name.split("-", 2)[2] for wheel in wheels] == [
        "py3-none-any.whl", f"py3-none-manylinux_2_34_{os.uname().machine}.whl"]
    shown = run(str(ROOT / "build/package-venv/bin/auditwheel"), "show", str(wheels[1])).stdout
    assert wheels[1].stat().st_size < 8_000_000, "bar Y1"
    assert re.search(r'is consistent with\s+the following\s+platform tag: "manylinux_2_34_', shown), shown


def test_second_build_is_identical(packages, tmp_path, record_property):
    record_property("contract", "P4")
    def sums(place):
        return {path.name: hashlib.sha256(path.read_bytes()).hexdigest()
                for path in place.iterdir() if path.suffix in (".deb", ".gz", ".whl", ".json")}
    before = sums(packages)
    again = run(str(ROOT / "yard"), "package", env=os.environ | {"TZ": "Asia/Tokyo", "HOME": str(tmp_path)})
    assert again.returncode == 0, again.stdout
    assert sums(packages) == before
