#!/usr/bin/env python3
"""Runs clang-tidy on the sources that a change may have spoilt, or on all.

    lint_files.py BUILD JOBS [--all]        BUILD holds compile_commands.json

Without --all it lints what differs from a base: sources of changed text and one source for each changed
header first, in one batch with what else of their library includes such a header; then all other sources
that include one. Comments and blank lines make no difference. After MINUTES it stops, and names what is
left. The base is

    GPUYARD_LINT_BASE, a commit, where it is set and not empty;
    else the merge base with origin/main;
    where that is HEAD itself, or there is none, the commit before the last COMMITS;
    where the history here is shorter, nothing: all sources differ.

A base is never HEAD by choice of this program, because a change may have several commits.

Sources of one library or program are linted in batches, each as one text, because reading the headers
is most of the work: 14 sources of src/cli took 14 s of processor time so, and 60 s one by one. If a batch
is not clean,
its sources are linted one by one, and only that counts.

KNOWN is a file in the user's cache, for all clones: a hash for each source that was found clean, of its
text, of the text of each of our headers that it includes, directly or not, and of RULES. Names are no part
of it: a file that is moved stays clean. It is written source by source, so that a run that was stopped goes
on where it was.
The last run's sum is in SUMMARY, in one line.
"""

import hashlib
import json
import os
import re
import shlex
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from house import ROOT, code_of, our_files

OURS = ("src/", "simulator/", "tests/", "fuzz/")
RULES = (".clang-tidy", "tools/check/requirements.txt")  # what is looked for, and by which version
KNOWN = "gpuyard/lint-clean.txt"
MOST_KNOWN = 50_000  # hashes; the newest are kept
SUMMARY = "build/lint/summary.txt"
COMMITS = 20
MINUTES = 10
TIDY = ("build/lint-venv/bin/clang-tidy", "--quiet", "--extra-arg=-Wno-unknown-warning-option")
BATCH = 28  # sources, as in a unity build of src/cli in preset asan: other sources may share names
BATCHES = "build/lint/batches"
# Sources are headers there: what .clang-tidy says of headers has to hold of them, too.
IN_BATCH = ("--header-filter=/(src|include|simulator|tests|fuzz)/.*[.](h|cpp)$",
            "--exclude-header-filter=/src/base/third_party/.*[.]h$")
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*["<]([^">]+)[">]', re.MULTILINE)


@dataclass(frozen=True)
class Source:
    """A source that is compiled: the hash that KNOWN has if it is clean, our headers that it includes,
    how it is compiled, and what it may be linted with.
    """
    hash: str
    headers: frozenset[str]
    flags: tuple[str, ...]
    batch: tuple[str, int]


@dataclass(frozen=True)
class Base:
    commit: str  # empty: everything differs
    why: str

    def __str__(self) -> str:
        return f"{self.commit[:9]}, {self.why}" if self.commit else self.why


class NoBase(Exception):
    """GPUYARD_LINT_BASE names no commit of this clone."""


@cache
def text_hash(path: Path) -> str:
    return hashlib.sha256(code_of(path.read_bytes())).hexdigest()


@cache
def included(root: Path, path: Path, folders: tuple[Path, ...]) -> tuple[Path, ...]:
    """Our headers that a file includes itself."""
    found = []
    for name in INCLUDE.findall(path.read_text(encoding="utf-8")):
        header = next((folder / name for folder in (path.parent, *folders) if (folder / name).is_file()), None)
        if header and (resolved := header.resolve()).is_relative_to(root):
            found.append(resolved)
    return tuple(found)


def our_headers(root: Path, source: Path, folders: tuple[Path, ...]) -> set[Path]:
    """Our headers that a source includes, followed through them."""
    seen: set[Path] = set()
    unread = [source]
    while unread:
        new = set(included(root, unread.pop(), folders)) - seen
        seen |= new
        unread += new
    return seen


def flags_of(command: str) -> tuple[tuple[str, ...], str]:
    """A compiler's flags without its name, input and output; and the folder of the objects beside this one."""
    words, flags, output = iter(shlex.split(command)[1:]), [], ""
    for word in words:
        if word in ("-c", "-o"):
            output = next(words) if word == "-o" else (next(words) and output)
        else:
            flags.append(word)
    return tuple(flags), output.partition(".dir/")[0]


def sources(root: Path, build: Path) -> dict[str, Source]:
    """Our sources that BUILD compiles, by their names below the root."""
    rules = [text_hash(root / name) for name in RULES]
    found = {}
    places: Counter[str] = Counter()
    for entry in json.loads((build / "compile_commands.json").read_text(encoding="utf-8")):
        source = (Path(entry["directory"]) / entry["file"]).resolve()
        name = source.relative_to(root).as_posix() if source.is_relative_to(root) else ""
        if name.startswith(OURS) and name.endswith(".cpp"):
            flags, target = flags_of(entry["command"])
            folders = tuple(Path(word[2:]) for word in flags if word.startswith(f"-I{root}/") and "/build/" not in word)
            headers = our_headers(root, source, folders)
            whole = "\n".join([*rules, text_hash(source), *sorted(map(text_hash, headers))])
            found[name] = Source(hashlib.sha256(whole.encode()).hexdigest()[:16],
                                 frozenset(one.relative_to(root).as_posix() for one in headers), flags,
                                 (target or name, places[target] // BATCH))
            places[target] += 1
    return dict(sorted(found.items()))


def git(root: Path, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(["git", "-C", str(root), *arguments], capture_output=True, check=False)


def commit_of(root: Path, *arguments: str) -> str:
    """The commit that git prints, or nothing."""
    run = git(root, *arguments)
    return run.stdout.decode().strip() if run.returncode == 0 else ""


def base_of(root: Path, told: str) -> Base:
    if told:
        commit = commit_of(root, "rev-parse", "--verify", "--quiet", f"{told}^{{commit}}")
        if not commit:
            raise NoBase(f"GPUYARD_LINT_BASE is '{told}', which is not a commit of this clone")
        return Base(commit, "as told")
    head = commit_of(root, "rev-parse", "--verify", "--quiet", "HEAD")
    merged = commit_of(root, "merge-base", "HEAD", "refs/remotes/origin/main")
    if merged and merged != head:
        return Base(merged, "the merge base with origin/main")
    history = git(root, "rev-list", "--first-parent", f"--max-count={COMMITS + 1}", "HEAD").stdout.decode().split()
    if len(history) > COMMITS:
        return Base(history[-1], f"{COMMITS} commits back")
    return Base("", f"no base, the history here is shorter than {COMMITS} commits")


def changed_files(root: Path, base: Base) -> set[str]:
    """Returns the files that differ from the base and can change a finding, new files among them."""
    ours = {name for name in (path.relative_to(root).as_posix() for path in our_files(root))
            if name.startswith((*OURS, "include/")) or name in RULES}
    if not base.commit:
        return ours
    differ = git(root, "diff", "--name-only", "-z", "--no-renames", base.commit, "--").stdout
    untracked = git(root, "ls-files", "-z", "--others", "--exclude-standard").stdout
    names = {name for name in (differ + untracked).decode().split("\0") if name}
    return {name for name in names & ours
            if code_of(git(root, "show", f"{base.commit}:{name}").stdout) != code_of((root / name).read_bytes())}


def in_order(all_sources: dict[str, Source], changed: set[str]) -> tuple[list[str], list[str]]:
    """The sources to lint: those that show each changed text, and the others that a header has changed."""
    first = [name for name in all_sources if name in changed]
    shown = {header for name in first for header in all_sources[name].headers}
    for header in sorted(changed - shown):
        users = [name for name, source in all_sources.items() if header in source.headers]
        if users:
            first.append(min(users, key=lambda name: (Path(name).with_suffix("") != Path(header).with_suffix(""),
                                                      Path(name).parent != Path(header).parent, name)))
            shown |= all_sources[first[-1]].headers
    if changed & set(RULES):
        return first, [name for name in all_sources if name not in first]
    return first, [name for name, source in all_sources.items()
                   if name not in first and source.headers & changed]


def tidy(root: Path, file: Path, flags: tuple[str, ...], until: float, *options: str) -> tuple[bool | None, str]:
    """Whether a text is clean, or None if there was no time; and what clang-tidy says of it."""
    left = until - time.monotonic()
    if left <= 0:
        return None, ""
    try:
        run = subprocess.run([*TIDY, *options, str(file), "--", *flags], cwd=root, check=False,
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                             timeout=None if left == float("inf") else left)
    except subprocess.TimeoutExpired:
        return None, ""
    return run.returncode == 0, run.stdout


def lint_batch(root: Path, names: list[str], flags: tuple[str, ...], until: float) -> dict[str, tuple[bool | None, str]]:
    """Returns the verdict of `tidy` on each source."""
    if len(names) > 1:
        text = "".join(f'#include "{root / name}"  // NOLINT(bugprone-suspicious-include)\n' for name in names)
        batch = root / BATCHES / f"{hashlib.sha256(text.encode()).hexdigest()[:16]}.cpp"
        batch.parent.mkdir(parents=True, exist_ok=True)
        batch.write_text(text, encoding="utf-8")
        clean, _ = tidy(root, batch, flags, until, *IN_BATCH)
        if clean:
            return dict.fromkeys(names, (True, ""))
    return {name: tidy(root, root / name, flags, until) for name in names}


def in_batches(all_sources: dict[str, Source], names: list[str]) -> list[list[str]]:
    """The sources in their order, but those of one batch beside the first of them."""
    batches: dict[tuple, list[str]] = {}
    for name in names:
        batches.setdefault((all_sources[name].batch, all_sources[name].flags), []).append(name)
    return list(batches.values())


def lint_all(root: Path, all_sources: dict[str, Source], batches: list[list[str]], jobs: int,
             until: float) -> Iterator[tuple[str, bool | None]]:
    """Yields each source with its result, as they are done; prints what is wrong."""
    pool = ThreadPoolExecutor(jobs)
    try:
        waiting = [pool.submit(lint_batch, root, names, all_sources[names[0]].flags, until) for names in batches]
        for done in as_completed(waiting):
            for name, (clean, output) in done.result().items():
                if clean is False:
                    print(output, flush=True)
                yield name, clean
    finally:
        pool.shutdown(cancel_futures=True)


def counted(number: int) -> str:
    return "1 source" if number == 1 else f"{number} sources"


def chosen(root: Path, all_sources: dict[str, Source], everything: bool) -> tuple[list[str], list[str], str]:
    """The sources to lint, those that come first, the others, and why these."""
    if everything:
        return list(all_sources), [], "all"
    base = base_of(root, os.environ.get("GPUYARD_LINT_BASE", ""))
    first, others = in_order(all_sources, changed_files(root, base))
    return first, others, f"base {base}; {len(first)} for changed texts, {len(others)} for their headers"


def known_file() -> Path:
    """KNOWN, in a directory that exists, and of bounded length."""
    file = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / KNOWN
    file.parent.mkdir(parents=True, exist_ok=True)
    hashes = file.read_text(encoding="ascii").split() if file.exists() else []
    if len(hashes) > MOST_KNOWN:
        file.write_text("".join(f"{one}\n" for one in hashes[-MOST_KNOWN // 2:]), encoding="ascii")
    return file


def check(root: Path, build: Path, jobs: int, everything: bool) -> int:
    until = float("inf") if everything else time.monotonic() + MINUTES * 60
    known = known_file()
    all_sources = sources(root, build)
    if not all_sources:
        print("lint: the compile commands hold no source of ours")
        return 1
    try:
        first, others, why = chosen(root, all_sources, everything)
    except NoBase as error:
        print(f"lint: {error}")
        return 1
    clean = set(known.read_text(encoding="ascii").split()) if known.exists() else set()
    wanted = first + others
    batches = in_batches(all_sources, [name for name in wanted if all_sources[name].hash not in clean])
    # The longest before the others, so that no core waits for it at the end.
    batches.sort(key=lambda names: (set(first).isdisjoint(names), -len(names)))
    unknown = sum(map(len, batches))
    summary = f"{len(wanted)} of {counted(len(all_sources))}, {why}; {len(wanted) - unknown} known to be clean"
    print(f"lint: {summary}", flush=True)
    (root / SUMMARY).parent.mkdir(parents=True, exist_ok=True)
    bad, left = [], []
    for name, is_clean in lint_all(root, all_sources, batches, jobs, until):
        if is_clean is None:
            left.append(name)
        elif not is_clean:
            bad.append(name)
        else:
            with known.open("a", encoding="ascii") as file:
                file.write(f"{all_sources[name].hash}\n")
    if left:
        print(f"lint: after {MINUTES} minutes {counted(len(left))} of {unknown} left without a look:",
              *sorted(left, key=wanted.index), sep="\n  ")
        summary += f"; {len(left)} left after {MINUTES} minutes"
    (root / SUMMARY).write_text(f"{summary}\n", encoding="utf-8")
    if bad:
        print(f"lint: {counted(len(bad))} not clean:", *sorted(bad), sep="\n  ")
    return 1 if bad else 0


def main(arguments: list[str], root: Path = ROOT) -> int:
    build, jobs, *rest = arguments
    return check(root, Path(build), int(jobs), "--all" in rest)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
