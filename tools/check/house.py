"""What the checks share: which files are ours, and how a check reports."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


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
