"""The tests of mutants.py."""

import tomllib

from house import ROOT
from mutants import mutated, replace_arguments


def test_mistake_is_made_only_where_unique():
    mistake = {"name": "", "old": "a < b", "new": "a <= b"}
    assert mutated("if (a < b) return;", mistake) == "if (a <= b) return;"
    assert mutated("if (a < b && a < b)", mistake) is None
    assert mutated("if (a > b)", mistake) is None


def test_mutant_without_effect_is_none():
    assert mutated("a", {"old": "a", "new": "a"}) is None


def test_value_after_option_is_replaced():
    assert replace_arguments(["g++", "-c", "x", "-o", "y"], {"-o": "z"}) == [
        "g++", "-c", "x", "-o", "z"]


def test_every_mutant_applies_to_current_source():
    for path in (ROOT / "mutants").glob("*.toml"):
        for one in tomllib.loads(path.read_text())["mutant"]:
            assert one["file"].endswith(".cpp"), f"{one['name']}: what is compiled is a .cpp"
            assert mutated((ROOT / one["file"]).read_text(), one) is not None, one["name"]
