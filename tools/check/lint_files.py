#!/usr/bin/env python3
"""Runs clang-tidy on the sources that are not known to be clean.

    lint_files.py BUILD JOBS [--record]     BUILD holds compile_commands.json

clean_sources.txt has a hash for each source that was found clean: of its text, of the text of each
of our headers that it includes, directly or not, and of RULES. Names are no part of it, and neither
are comments and blank lines: a file that is moved or explained better stays clean. Without --record more than LIMIT unknown sources are a failure: CI
has no time for them. With --record each clean source is noted as soon as it is found, so that a run
that was stopped goes on where it was; at the end the hashes are sorted, and those that no source
has any more are dropped.
"""

import hashlib
import json
import re
import shlex
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor, as_completed
from functools import cache
from pathlib import Path

from house import ROOT

OURS = ("src/", "simulator/", "tests/", "fuzz/")
RULES = (".clang-tidy", "tools/check/requirements.txt")  # what is looked for, and by which version
KNOWN = "tools/check/clean_sources.txt"
LIMIT = 200  # sources
TIDY = ("build/lint-venv/bin/clang-tidy", "--quiet", "--extra-arg=-Wno-unknown-warning-option")
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*["<]([^">]+)[">]', re.MULTILINE)
# Strings are matched so that what looks like a comment in one is none.
COMMENT = re.compile(rb'R"([^()\\\s]*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|//[^\n]*|/\*.*?\*/', re.DOTALL)


@cache
def text_hash(path: Path) -> str:
    def judged(found: re.Match) -> bytes:
        return b"" if found[0].startswith(b"//") and b"NOLINT" not in found[0] else found[0]
    lines = COMMENT.sub(judged, path.read_bytes()).splitlines()
    return hashlib.sha256(b"\n".join(line.rstrip() for line in lines if line.strip())).hexdigest()


@cache
def included(path: Path) -> tuple[str, ...]:
    return tuple(INCLUDE.findall(path.read_text(encoding="utf-8")))


def our_headers(root: Path, source: Path, folders: list[Path]) -> set[Path]:
    """Our headers that a source includes, followed through them."""
    seen: set[Path] = set()
    unread = [source]
    while unread:
        path = unread.pop()
        for name in included(path):
            found = next((folder / name for folder in [path.parent, *folders]
                          if (folder / name).is_file()), None)
            if found and (header := found.resolve()) not in seen and header.is_relative_to(root):
                seen.add(header)
                unread.append(header)
    return seen


def sources(root: Path, build: Path) -> dict[str, str]:
    """Our sources that BUILD compiles, below the root, each with its hash."""
    rules = [text_hash(root / name) for name in RULES]
    hashes = {}
    for entry in json.loads((build / "compile_commands.json").read_text(encoding="utf-8")):
        source = (Path(entry["directory"]) / entry["file"]).resolve()
        name = source.relative_to(root).as_posix() if source.is_relative_to(root) else ""
        if name.startswith(OURS) and name.endswith(".cpp"):
            folders = [Path(word[2:]) for word in shlex.split(entry["command"])
                       if word.startswith(f"-I{root}/") and "/build/" not in word]
            parts = sorted(map(text_hash, our_headers(root, source, folders)))
            whole = "\n".join([*rules, text_hash(source), *parts])
            hashes[name] = hashlib.sha256(whole.encode()).hexdigest()[:16]
    return dict(sorted(hashes.items()))


def lint(root: Path, build: Path, name: str) -> tuple[bool, str]:
    """Whether a source is clean, and what clang-tidy says of it."""
    run = subprocess.run([*TIDY, "-p", str(build), str(root / name)], cwd=root, check=False,
                         stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return run.returncode == 0, run.stdout


def lint_all(root: Path, build: Path, names: list[str], jobs: int):
    """Yields each source with whether it is clean, as they are done; prints what is wrong."""
    pool = ThreadPoolExecutor(jobs)
    try:
        waiting = {pool.submit(lint, root, build, name): name for name in names}
        for count, done in enumerate(as_completed(waiting), start=1):
            clean, output = done.result()
            print(f"lint: [{count}/{len(names)}] {waiting[done]}", flush=True)
            if not clean:
                print(output, flush=True)
            yield waiting[done], clean
    finally:
        pool.shutdown(cancel_futures=True)


def check(root: Path, build: Path, jobs: int, record: bool) -> int:
    known = root / KNOWN
    hashes = sources(root, build)
    if not hashes:
        print("lint: the compile commands hold no source of ours")
        return 1
    clean = set(known.read_text(encoding="ascii").split()) if known.exists() else set()
    unknown = [name for name, value in hashes.items() if value not in clean]
    print(f"lint: {len(unknown)} of {len(hashes)} sources are not known to be clean", flush=True)
    if len(unknown) > LIMIT and not record:
        print(f"lint: more than {LIMIT}; run ./yard check --all and commit {KNOWN}")
        return 1
    bad = []
    try:
        for name, is_clean in lint_all(root, build, unknown, jobs):
            if not is_clean:
                bad.append(name)
            elif record:
                clean.add(hashes[name])
                with known.open("a", encoding="ascii") as file:
                    file.write(f"{hashes[name]}\n")
    finally:
        if record:
            left = sorted(clean & set(hashes.values()))
            known.write_text("".join(f"{value}\n" for value in left), encoding="ascii")
    if bad:
        print(f"lint: {len(bad)} sources are not clean:", *bad, sep="\n  ")
    return 1 if bad else 0


def main(arguments: list[str], root: Path = ROOT) -> int:
    build, jobs, *rest = arguments
    return check(root, Path(build), int(jobs), "--record" in rest)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
