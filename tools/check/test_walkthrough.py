"""Holds docs/walkthrough.md to the source: each step's file is there and has what the step names."""

import re

import pytest
from house import ROOT

TEXT = (ROOT / "docs/walkthrough.md").read_text(encoding="utf-8")
STEP = re.compile(r"^\d+\. \[([^\]]+)\]\(\.\./(src/[^)]+)\): (.*?)(?=^\d+\. |^## |\Z)", re.MULTILINE | re.DOTALL)
STEPS = STEP.findall(TEXT)


def test_each_walk_has_at_most_twelve_steps():
    walks = TEXT.split("\n## ")[1:]
    assert len(walks) == 4
    for walk in walks:
        steps = re.findall(r"^(\d+)\. ", walk, re.MULTILINE)
        assert steps == [str(number + 1) for number in range(len(steps))]
        assert 1 < len(steps) <= 12
    assert len(STEPS) == len(re.findall(r"^\d+\. ", TEXT, re.MULTILINE)), "a step begins with its file"


@pytest.mark.parametrize("name, path, words", STEPS)
def test_step_names_exist_in_source(name, path, words):
    assert path == f"src/{name}"
    source = (ROOT / path).read_text(encoding="utf-8")
    code = [one for one in re.findall(r"`([A-Za-z_:]+)`", words) if "::" in one or one.islower() and "_" in one]
    for one in code:
        assert one.split("::")[-1] in source, f"{path} has no {one}"
