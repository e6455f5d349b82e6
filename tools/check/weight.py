#!/usr/bin/env python3
"""What the house weighs: C++ files that are no tests, small headers, and lines of code, wing by wing.

    weight.py [ROOT]      another checkout may be weighed too, so that before and after are counted alike

A line of code is neither blank nor all comment. A wing is a folder of src/, or simulator/. In our own
checkout each of LIMITS is held.
"""

import re
import sys
from collections import Counter
from pathlib import Path

from house import ROOT, report

SMALL = 40  # lines; a header this short usually belongs to its neighbour
LONG = 400  # lines; a file longer than this usually hides two concepts
# Longer than that, each for one table that is read as a whole: the verbs, NVML's binary interface.
TABLES = {"src/cli/verbs.h", "src/gpu/nvml/abi.h"}
LIMITS = {"files": 667, "small headers": 60, "long files": 0}
NOT_CODE = re.compile(r'R"([^()\\\s]*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|//[^\n]*|/\*.*?\*/', re.DOTALL)


def is_test(path: Path) -> bool:
    return "_test." in path.name or "_for_tests." in path.name


def code_lines(text: str) -> int:
    """Lines that are neither blank nor all comment."""
    def kept(found: re.Match) -> str:
        comment = found[0].startswith(("//", "/*"))
        return "\n" * found[0].count("\n") if comment else found[0]
    return sum(bool(line.strip()) for line in NOT_CODE.sub(kept, text).split("\n"))


def wing(path: str) -> str:
    parts = path.split("/")
    return "/".join(parts[:2]) if parts[0] == "src" else parts[0]


def weigh(root: Path) -> tuple[Counter, dict[str, Counter], list[str]]:
    """All together, by wing, and which files are too long."""
    all_of_it, wings, long = Counter(), {}, []
    for top in ("src", "simulator"):
        for path in sorted((root / top).rglob("*")):
            if path.suffix not in (".h", ".cpp", ".def") or is_test(path):
                continue
            text = path.read_text(encoding="utf-8")
            name = path.relative_to(root).as_posix()
            lines = text.count("\n")
            found = Counter({"files": 1, "code lines": code_lines(text),
                             "small headers": path.suffix == ".h" and lines <= SMALL,
                             "long files": lines > LONG and name not in TABLES})
            if found["long files"]:
                long.append(f"{name}: {lines} lines, more than {LONG}")
            all_of_it += found
            wings.setdefault(wing(name), Counter()).update(found)
    return all_of_it, wings, long


def main(arguments: list[str]) -> int:
    root = Path(arguments[0]).resolve() if arguments else ROOT
    whole, wings, long = weigh(root)
    columns = ("files", "small headers", "long files", "code lines")
    print(f"{'':12}" + "".join(f"{name:>15}" for name in columns))
    for name, counted in [*wings.items(), ("all", whole)]:
        print(f"{name:12}" + "".join(f"{counted[column]:15,}" for column in columns))
    if root != ROOT:
        return 0
    problems = [f"{whole[name]} {name}, at most {limit} may be" for name, limit in LIMITS.items()
                if whole[name] > limit]
    if whole["files"] == 0:
        problems.append("no source file was found; this check would pass on anything")
    return report("weight", problems + long, "within its limits")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
