#!/usr/bin/env python3
"""Proves that tests can fail: makes each mistake of mutants/*.toml in a copy, and runs its test.

    mutants.py BUILD [NAME...]      BUILD: where the programs are built; NAME: a part of a name

A mistake is a piece of one source, which must be there exactly once, and what is put in its place.
The source is compiled as BUILD compiles it, without optimisation, and linked in front of the rooms
that the program is made of. Nothing in the tree or in BUILD is changed. A test that does not end
counts as one that failed.
"""

import json
import re
import shlex
import subprocess
import sys
import tempfile
import time
import tomllib
from pathlib import Path

from house import ROOT, report

SECONDS = 120  # for one test


def mutated(text: str, mutant: dict[str, str]) -> str | None:
    """The source with the mistake; nothing unless its place is there exactly once."""
    if text.count(mutant["old"]) != 1 or mutant["old"] == mutant["new"]:
        return None
    return text.replace(mutant["old"], mutant["new"])


def replace_arguments(words: list[str], given: dict[str, str]) -> list[str]:
    """The words with what follows each option replaced."""
    out = list(words)
    for option, value in given.items():
        out[out.index(option) + 1] = value
    return out


def compile_command(build: Path, source: Path, mutant: Path, output: Path) -> list[str]:
    """Returns BUILD's compile command of the source, for another file."""
    commands = json.loads((build / "compile_commands.json").read_text())
    found = next(one for one in commands if Path(one["file"]).resolve() == source.resolve())
    words = shlex.split(found["command"])
    return replace_arguments(words, {"-o": str(output), "-c": str(mutant)}) + ["-O0", "-w"]


def link_command(build: Path, program: str, first: Path, output: Path) -> list[str]:
    """Returns BUILD's link command of the program, with an object before all others."""
    lines = subprocess.run(["ninja", "-C", build, "-t", "commands", program], check=True,
                           capture_output=True, text=True).stdout.splitlines()
    words = shlex.split(re.sub(r"^: && | && :$", "", lines[-1]))
    words = replace_arguments(words, {"-o": str(output)})
    return words[:1] + [str(first)] + words[1:]


def passes(program: Path, test: str) -> bool:
    """Whether the one test runs and passes."""
    try:
        done = subprocess.run([program, f"--gtest_filter={test}"], capture_output=True, text=True,
                              timeout=SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return False
    if "Running 0 tests" in done.stdout:
        raise LookupError(f"{program.name} has no test {test}")
    return done.returncode == 0


def survives(build: Path, program: str, mutant: dict[str, str], place: Path) -> str | None:
    """Returns the problem: the mistake cannot be made, or no test finds it."""
    source = ROOT / mutant["file"]
    text = mutated(source.read_text(), mutant)
    if text is None:
        return f"{mutant['name']}: not once in {mutant['file']}: {mutant['old']!r}"
    copy, output, made = place / source.name, place / "mutant.o", place / program
    copy.write_text(text)
    for command in (compile_command(build, source, copy, output),
                    link_command(build, program, output, made)):
        run = subprocess.run(command, cwd=build, capture_output=True, text=True, check=False)
        if run.returncode != 0:
            return f"{mutant['name']}: does not compile\n{run.stderr}"
    if passes(made, mutant["test"]):
        return f"{mutant['name']}: {mutant['test']} does not notice it"
    return None


def program_of(build: Path, name: str) -> Path:
    return next(path for path in build.rglob(name) if path.is_file())


def judge(build: Path, path: Path, wanted: list[str]) -> tuple[int, list[str]]:
    """Returns the number of mistakes made in a file, and their problems."""
    listed = tomllib.loads(path.read_text())
    mutants = [one for one in listed["mutant"]
               if not wanted or any(word in one["name"] for word in wanted)]
    program = listed["program"]
    whole = program_of(build, program)
    problems = [f"{test} fails as it is" for test in sorted({one["test"] for one in mutants})
                if not passes(whole, test)]
    for mutant in mutants:
        began = time.monotonic()
        with tempfile.TemporaryDirectory() as place:
            problem = survives(build, program, mutant, Path(place))
        if problem:
            problems.append(problem)
        else:
            print(f"{time.monotonic() - began:5.1f} s  {mutant['name']}: {mutant['test']}",
                  flush=True)
    return len(mutants), problems


def main(arguments: list[str]) -> int:
    build = Path(arguments[0]).resolve()
    made, problems = 0, []
    for path in sorted((ROOT / "mutants").glob("*.toml")):
        count, found = judge(build, path, arguments[1:])
        made += count
        problems += found
    return report("mutants", problems, f"{made} mistakes, each noticed by its test")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
