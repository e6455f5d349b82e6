"""A test program in which every test was skipped is skipped, not passed: in CTest's table and among the proofs."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from test_orders import CMAKE_READS, ROOT, link


def run_tests(place: Path, text: str) -> tuple[int, str]:
    """The status of pytest on these tests, and the proofs they left."""
    (place / "conftest.py").write_text(f"import sys\nsys.path.insert(0, {str(ROOT / 'tests')!r})\n"
                                       "from skipped import pytest_sessionfinish\n")
    (place / "test_some.py").write_text(f"import pytest\n{text}")
    proofs = place / "proofs"
    done = subprocess.run([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", place,
                           place / "test_some.py"], env=os.environ | {"YARD_PROOFS": str(proofs)}, check=False,
                          stdout=subprocess.DEVNULL)
    return done.returncode, proofs.read_text() if proofs.exists() else ""


SKIPPED = "def test_{}():\n    pytest.skip('no {}')\n"
PASSED = "def test_good():\n    pass\n"
FAILED = "def test_bad():\n    assert False\n"


@pytest.mark.parametrize("text, status, proofs", [
    (SKIPPED.format("a", "ip") + SKIPPED.format("b", "ip"), 77, "test_some\tskipped (no ip)\n"),
    (SKIPPED.format("a", "ip") + SKIPPED.format("b", "root"), 77, "test_some\tskipped (no ip; no root)\n"),
    ("pytest.importorskip('no_such_module', reason='no module')\n" + PASSED, 77, "test_some\tskipped (no module)\n"),
    (SKIPPED.format("a", "ip") + PASSED, 0, ""),
    (SKIPPED.format("a", "ip") + FAILED, 1, ""),
    ("", 5, ""),
])
def test_program_is_skipped_only_with_every_test(tmp_path, text, status, proofs):
    assert run_tests(tmp_path, text) == (status, proofs)


@pytest.fixture(scope="module")
def build(tmp_path_factory):
    """A build folder of preset release in which nothing is built."""
    place = tmp_path_factory.mktemp("configured")
    link(place, *CMAKE_READS)
    (place / "build").mkdir()
    subprocess.run(["cmake", "--preset", "release"], cwd=place, check=True, capture_output=True)
    return place / "build/release"


def test_ctest_knows_that_any_python_program_may_skip(build):
    shown = subprocess.run(["ctest", "--test-dir", build, "--show-only=json-v1"], check=True, capture_output=True)
    tests = [one for one in json.loads(shown.stdout)["tests"] if "--junitxml" in str(one.get("command"))]
    assert len(tests) > 50
    for one in tests:
        assert {"name": "SKIP_RETURN_CODE", "value": 77} in one["properties"], one["name"]


def test_fleet_without_ip_is_skipped_in_both_tables(build, tmp_path):
    proofs = tmp_path / "proofs"
    done = subprocess.run([shutil.which("ctest"), "--test-dir", build, "-R", "^test_rig_killed$"], check=False,
                          env={"PATH": str(tmp_path), "YARD_PROOFS": str(proofs)}, text=True, capture_output=True)
    assert "Skipped" in done.stdout and "Passed" not in done.stdout
    assert proofs.read_text().startswith("test_rig_killed\tskipped (")
