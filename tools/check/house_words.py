#!/usr/bin/env python3
"""Checks that no file names the place where it was written: an absolute path of a workplace, or the
address of a package registry or mirror, which are right on one machine only. Also checks that the
commands write to a terminal in one way only.
"""

import re
import sys
from pathlib import Path

from house import ROOT, our_files, report, text_of

# Put together from pieces, so that this file does not hold what it looks for.
WORKPLACES = ("wo" + "rk", "fa" + "rm")
REGISTRIES = ("registry", "deb", "files", "proxy", "static", "index")

PATTERNS = {
    "a path of one machine": re.compile(r"(?<![\w./~}-])/(?:" + "|".join(WORKPLACES) + r")/"),
    "the address of a registry": re.compile(r"https?://" + "(?:" + "|".join(REGISTRIES) + r")\."),
}

# The output of the commands passes through cli::Printable, which these calls do not require.
TERMINAL = "src/cli/screen/terminal.cpp"  # the only file that writes to it
PAST_PRINTABLE = {
    "unchecked text to a terminal": re.compile(
        r"fmt::print\b|std::c(?:out|err)\b|\bf?(?:puts|printf)\(|\bwrite\(STD(?:OUT|ERR)_FILENO"),
}


def judge(name: str, text: str) -> list[str]:
    """Every line of a text that says such a thing."""
    printing = name.startswith("src/cli/") and name != TERMINAL and not name.endswith("_test.cpp")
    patterns = PATTERNS | PAST_PRINTABLE if printing else PATTERNS
    return [f"{name}:{number}: {what}: {line.strip()[:120]}"
            for number, line in enumerate(text.splitlines(), start=1)
            for what, pattern in patterns.items() if pattern.search(line)]


def main(root: Path = ROOT) -> int:
    problems: list[str] = []
    files = our_files(root)
    for path in files:
        text = text_of(path)
        if text is not None:
            problems += judge(path.relative_to(root).as_posix(), text)
    return report("words", problems, f"{len(files)} files")


if __name__ == "__main__":
    sys.exit(main())
