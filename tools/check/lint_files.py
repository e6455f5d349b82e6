#!/usr/bin/env python3
"""Prints the sources clang-tidy should look at, NUL separated.

    lint_files.py COMPILE_COMMANDS [--all]

Those changed since the branch left origin/main (on origin/main itself: by the last commit), with
what is not committed yet; for a changed header, the sources that include it. --all: every source
of the compile commands that is ours.
"""

import json
import re
import subprocess
import sys
from pathlib import Path

from house import ROOT

OURS = ("src/", "simulator/", "tests/", "fuzz/")


def git(root: Path, *arguments: str) -> str | None:
    """What git prints, or nothing where it fails."""
    run = subprocess.run(["git", "-C", str(root), *arguments], capture_output=True, text=True)
    return run.stdout.strip("\n") if run.returncode == 0 else None


def base_commit(root: Path) -> str | None:
    """What to compare with; nothing in a history of one commit."""
    base = git(root, "merge-base", "HEAD", "origin/main")
    if base and base != git(root, "rev-parse", "HEAD"):
        return base
    return git(root, "rev-parse", "--verify", "--quiet", "HEAD~1")


def changed_files(root: Path) -> set[str] | None:
    """Names below the root, or nothing when everything is new."""
    base = base_commit(root)
    if base is None:
        return None
    committed = git(root, "diff", "--name-only", "--no-renames", base) or ""
    untracked = git(root, "ls-files", "--others", "--exclude-standard") or ""
    return set(committed.splitlines()) | set(untracked.splitlines())


def included_as(header: str) -> str:
    """How sources write a header: src/device/sample.h is "device/sample.h"."""
    top, _, rest = header.partition("/")
    return rest if top in ("src", "simulator", "include") else header


def sources(root: Path, compile_commands: Path) -> list[str]:
    """Our sources that the build compiles, below the root."""
    names = set()
    for entry in json.loads(compile_commands.read_text(encoding="utf-8")):
        path = (Path(entry["directory"]) / entry["file"]).resolve()
        if path.is_relative_to(root):
            names.add(path.relative_to(root).as_posix())
    return sorted(name for name in names if name.startswith(OURS) and name.endswith(".cpp"))


def select(root: Path, names: list[str], changed: set[str] | None) -> list[str]:
    """The sources that changed, or include a header that did."""
    if changed is None:
        return names
    headers = {included_as(name) for name in changed if name.endswith(".h")}
    includes = re.compile(r'^[ \t]*#[ \t]*include[ \t]*"([^"]+)"', re.MULTILINE)
    return [name for name in names if name in changed or
            headers.intersection(includes.findall((root / name).read_text(encoding="utf-8")))]


def main(arguments: list[str], root: Path = ROOT) -> int:
    names = sources(root, Path(arguments[0]))
    if not names:
        print("lint: the compile commands hold no source of ours", file=sys.stderr)
        return 1
    chosen = names if "--all" in arguments[1:] else select(root, names, changed_files(root))
    print(f"lint: {len(chosen)} of {len(names)} sources", file=sys.stderr)
    sys.stdout.write("".join(f"{name}\0" for name in chosen))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
