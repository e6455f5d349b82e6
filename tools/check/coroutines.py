#!/usr/bin/env python3
"""Finds coroutine code that g++ 12 compiles wrongly.

    coroutines.py BUILD [FILE...]     BUILD holds compile_commands.json

A full expression that holds a co_await and also an aggregate or braced temporary, or a lambda with
captures, destroys that temporary twice. Therefore src/io/http writes one co_await per statement and gives it
named locals; this runs clang-query over the coroutines of src/io/http to see that it does; over those
in a header by way of the source of that name. Not seen by the matcher:
an aggregate written with parentheses, `Agg(a, b)`. We do not write that form.
docs/decisions/005-no-coroutines-outside-http.md has the whole story.
"""

import re
import subprocess
import sys
from pathlib import Path

from house import ROOT, report

# clang-query reads a command to the end of its line, so this becomes one line.
MATCHER = " ".join("""
match expr(isExpansionInFileMatching("/src/io/http/"), exprWithCleanups(
  hasDescendant(coawaitExpr()),
  hasDescendant(expr(anyOf(
    initListExpr(), cxxStdInitializerListExpr(), lambdaExpr(hasAnyCapture(lambdaCapture())))))))
""".split())

LOCATION = re.compile(r'^(\S+:\d+:\d+): note: "root" binds here', re.MULTILINE)
BROKEN = re.compile(r"^\S*:?.*\berror: .*", re.MULTILINE)
TALLY = re.compile(r"^\d+ match(?:es)?\.$", re.MULTILINE)


def judge(build: Path, files: list[Path]) -> list[str]:
    """Returns the places of the wrong form, or the reason why none could be found."""
    run = subprocess.run(
        ["clang-query-19", "-p", str(build), "--extra-arg=-Wno-everything", "-c", "set output diag",
         "-c", MATCHER, *map(str, files)], capture_output=True, text=True)
    # A file that does not parse has no matches, which is no proof.
    problems = sorted(set(BROKEN.findall(run.stdout + run.stderr)))
    if run.returncode != 0 or (not problems and not TALLY.search(run.stdout)):
        problems.append(f"clang-query-19 failed ({run.returncode}): {run.stderr.strip()[-2000:]}")
    problems += [f"{where}: a temporary beside a co_await; give it a name of its own first"
                 for where in sorted(set(LOCATION.findall(run.stdout)))]
    return problems


def coroutines_in(folder: Path) -> list[Path]:
    texts = {file: file.read_text(encoding="utf-8") for file in folder.rglob("*.*")
             if file.suffix in (".h", ".cpp")}
    return sorted({file.with_suffix(".cpp") for file, text in texts.items() if "co_await" in text})


def main(arguments: list[str]) -> int:
    if not arguments:
        print(__doc__, file=sys.stderr)
        return 2
    build = Path(arguments[0])
    if not (build / "compile_commands.json").is_file():
        return report("coroutines", [f"{build}/compile_commands.json is not there"], "")
    files = [Path(name) for name in arguments[1:]] or coroutines_in(ROOT / "src/io/http")
    if not files:
        return report("coroutines", ["src/io/http has no coroutine; this would pass on anything"], "")
    return report("coroutines", judge(build, files), f"{len(files)} files of src/io/http")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
