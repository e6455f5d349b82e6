"""The selection of the tests of each preset."""

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("folder", ["process", "clients"])
def test_every_file_of_tests_is_registered(folder):
    names = set(re.findall(r"\btest_\w+", (ROOT / "tests/CMakeLists.txt").read_text()))
    files = {path.stem for path in (ROOT / "tests" / folder).glob("test_*.py")}
    assert files and not files - names


def test_the_readme_names_every_memory_test():
    listed = re.search(r"set\(memory_tests\s([^)]*)\)", (ROOT / "tests/CMakeLists.txt").read_text())[1].split()
    section = (ROOT / "tests/README.md").read_text().split("\n## What runs under the sanitizers")[1].split("\n## ")[0]
    table = [row for row in section.splitlines() if row.startswith("|")]
    assert sorted(re.findall(r"`(test_\w+)`", "\n".join(table))) == sorted(listed)
    assert 0 < len(listed) <= 10, "each costs twice as much there"


@pytest.mark.parametrize("checked, left_out", [
    ("", "^(compiled-client)$"), ("ON", "^(compiled-client|memory|checked)$")])
def test_tests_already_checked_are_left_out(checked, left_out):
    run = subprocess.run(["bash", "-c", f"""set -euo pipefail
        source tools/yard/test.sh
        shown_stage() {{ :; }}
        stage() {{ :; }}
        start_beside() {{ :; }}
        build_and_test() {{ printf '%s\\n' "$@"; }}
        GPUYARD_CHECKED={checked} yard_test --repeat x"""], cwd=ROOT, capture_output=True, text=True, check=True)
    assert run.stdout.splitlines() == ["release", "release", "reports", "--label-exclude", left_out, "--repeat", "x"]
