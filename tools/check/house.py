"""Shared by the checks: our files, their lines of code, and the report of a check."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# Strings are matched so that comment signs in one begin no comment.
COMMENT = re.compile(rb'R"([^()\\\s]*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|//[^\n]*|/\*.*?\*/', re.DOTALL)
OWN_INCLUDE = re.compile(rb'^([ \t]*#[ \t]*include[ \t]*)"[^"\n]*"', re.MULTILINE)


def our_files(root: Path = ROOT) -> list[Path]:
    """Files git tracks or would track, so that a new file is checked before it is committed."""
    listed = subprocess.run(
        ["git", "-C", str(root), "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        check=True, capture_output=True, text=True).stdout
    paths = sorted({root / name for name in listed.split("\0") if name})
    return [path for path in paths if path.is_file() and not path.is_symlink()]


def text_of(path: Path) -> str | None:
    """The file's text, or nothing when it is binary."""
    content = path.read_bytes()
    if b"\0" in content:
        return None
    return content.decode("utf-8", errors="replace")


def code_of(text: bytes) -> bytes:
    """A C++ text without its // comments, blank lines and the spelling of includes of ours: a moved header
    changes no code. Text for a linter stays: NOLINT, and the comment /* */ that names an argument.
    """
    def judged(found: re.Match) -> bytes:
        return b"" if found[0].startswith(b"//") and b"NOLINT" not in found[0] else found[0]
    lines = OWN_INCLUDE.sub(rb'\1""', COMMENT.sub(judged, text)).splitlines()
    return b"\n".join(line.rstrip() for line in lines if line.strip())


def report(check: str, problems: list[str], passed: str) -> int:
    """Prints what was found and answers the exit status."""
    for problem in problems:
        print(problem)
    if problems:
        plural = "s" if len(problems) > 1 else ""
        print(f"{check}: {len(problems)} problem{plural}", file=sys.stderr)
        return 1
    print(f"{check}: {passed}")
    return 0
