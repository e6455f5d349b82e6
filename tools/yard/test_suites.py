"""Which tests run where."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("folder", ["process", "clients"])
def test_every_file_of_tests_is_registered(folder):
    names = set(re.findall(r"\btest_\w+", (ROOT / "tests/CMakeLists.txt").read_text()))
    files = {path.stem for path in (ROOT / "tests" / folder).glob("test_*.py")}
    assert files and not files - names
