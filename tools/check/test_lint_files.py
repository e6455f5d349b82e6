import json
import shutil
import subprocess

import pytest

import lint_files
from lint_files import KNOWN, SUMMARY, main

# Notes the sources of what it is asked of, one line each time, and dislikes those with a BAD in them.
TIDY = """#!/bin/bash
for source; do [[ $source != *.cpp ]] || break; done
mapfile -t sources < <(sed -n 's,^#include "\\(/.*\\)".*,\\1,p' "$source")
((${#sources[@]} > 0)) || sources=("$source")
names=("${sources[@]##*/}")
echo "${names[*]}" >>"${0%/*}/asked"
! grep -n BAD "${sources[@]}"
"""
# A source by itself, one that sees a header by way of another, and two that share the second header.
FILES = {"src/base/a.cpp": "int a;\n", "src/base/b.cpp": '#include "base/b.h"\n', "src/base/b.h": "#include <gpuyard/c.h>\n",
         "src/base/c.cpp": "#include <gpuyard/c.h>\n", "include/gpuyard/c.h": "#pragma once\n",
         ".clang-tidy": "Checks: a\n", "tools/check/requirements.txt": "", "docs/a.md": "", ".gitignore": "/build/\n"}
ALL = ["a.cpp", "b.cpp", "c.cpp"]


def write(root, name, text):
    (root / name).parent.mkdir(parents=True, exist_ok=True)
    (root / name).write_text(text)


def git(root, *arguments):
    return subprocess.run(["git", "-C", root, "-c", "user.name=n", "-c", "user.email=e", "-c", "commit.gpgsign=false", *arguments],
                          check=True, capture_output=True, text=True).stdout.strip()


def commit(root, **texts):
    """A commit with these texts of sources of src/base."""
    for stem, text in texts.items():
        write(root, f"src/base/{stem}.cpp", text)
    git(root, "add", "-A")
    git(root, "commit", "-q", "--allow-empty", "-m", "why")
    return git(root, "rev-parse", "HEAD")


@pytest.fixture
def tree(tmp_path, monkeypatch):
    """A clone of one commit, with a clang-tidy that notes what it is asked of."""
    root = tmp_path.resolve()
    for name, text in FILES.items():
        write(root, name, text)
    write(root, "build/made.cpp", "")
    git(root, "init", "-q", "-b", "main")
    commit(root)
    write(root, "build/clang-tidy", TIDY)
    (root / "build/clang-tidy").chmod(0o755)
    monkeypatch.setattr(lint_files, "TIDY", (str(root / "build/clang-tidy"),))
    monkeypatch.delenv("GPUYARD_LINT_BASE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(root / "build/cache"))
    compiled(root, "src/base/a.cpp", "src/base/b.cpp", "src/base/c.cpp", "build/made.cpp")
    return root


def compiled(root, *names, together=False):
    """Each by itself, or as one library."""
    write(root, "build/compile_commands.json", json.dumps(
        [{"directory": str(root), "file": name, "command": f"g++ -I{root}/src -I{root}/include"
          f" -o {'a' if together else name}.dir/{name}.o -c {name}"} for name in names]))


def lint(tree, *arguments, jobs="1"):
    """The exit status, and the sources that clang-tidy was asked of, in order."""
    lint_files.text_hash.cache_clear()
    lint_files.included.cache_clear()
    write(tree, "build/asked", "")
    return main([str(tree / "build"), jobs, *arguments], tree), (tree / "build/asked").read_text().splitlines()


def forget(tree):
    (tree / "build/cache" / KNOWN).unlink(missing_ok=True)


# Sources known to be clean.

def test_a_clean_source_is_linted_once(tree):
    assert lint(tree, "--all") == (0, ALL)
    assert lint(tree, "--all") == lint(tree) == (0, [])


@pytest.mark.parametrize("text, again", [
    ("// Why it is there.\n\nint a;  // one\n", []), ("// NOLINTNEXTLINE(all)\nint a;\n", ["a.cpp"]),
    ('const char* a = "//";\n', ["a.cpp"]), ("int a(/*b=*/1);\n", ["a.cpp"])])
def test_plain_comment_change_is_not_linted_again(tree, text, again):
    lint(tree, "--all")
    write(tree, "src/base/a.cpp", text)
    assert lint(tree, "--all") == (0, again)


@pytest.mark.parametrize("changed, again", [
    ("src/base/a.cpp", ["a.cpp"]), ("src/base/b.h", ["b.cpp"]), ("include/gpuyard/c.h", ["b.cpp", "c.cpp"]),
    (".clang-tidy", ALL), ("tools/check/requirements.txt", ALL)])
def test_change_selects_including_sources(tree, changed, again):
    lint(tree, "--all")
    write(tree, changed, (tree / changed).read_text() + "int changed;\n")
    assert lint(tree, "--all") == (0, again)


def test_only_the_newest_hashes_are_kept(tree, monkeypatch):
    monkeypatch.setattr(lint_files, "MOST_KNOWN", 2)
    lint(tree, "--all")
    assert lint(tree, "--all")[1] != ALL
    assert len((tree / "build/cache" / KNOWN).read_text().split()) <= 3


def test_a_moved_file_is_still_clean(tree):
    lint(tree, "--all")
    (tree / "src/core").mkdir()
    (tree / "src/base/a.cpp").rename(tree / "src/core/other.cpp")
    compiled(tree, "src/core/other.cpp", "src/base/b.cpp")
    assert lint(tree, "--all") == (0, [])


def test_finding_fails_until_fixed(tree, capfd):
    write(tree, "src/base/a.cpp", "int BAD;\n")
    assert lint(tree, "--all") == (1, ALL)
    assert "1:int BAD;" in capfd.readouterr().out
    assert lint(tree, "--all") == (1, ["a.cpp"])
    write(tree, "src/base/a.cpp", "int good;\n")
    assert lint(tree, "--all") == (0, ["a.cpp"])


def test_a_stopped_run_goes_on(tree, monkeypatch):
    found = lint_files.lint_all

    def stopped(root, all_sources, batches, jobs, until):
        yield from found(root, all_sources, batches[:1], jobs, until)
        raise KeyboardInterrupt
    with monkeypatch.context() as patch:
        patch.setattr(lint_files, "lint_all", stopped)
        with pytest.raises(KeyboardInterrupt):
            lint(tree, "--all")
    assert lint(tree, "--all") == (0, ["b.cpp", "c.cpp"])


def test_compile_commands_without_our_sources_fail(tree):
    compiled(tree, "build/made.cpp")
    assert lint(tree) == (1, [])


# The linted sources: the difference from a base.

@pytest.fixture
def long(tree, monkeypatch):
    """A history that is longer than the commits looked back at, of which none touches a source."""
    monkeypatch.setattr(lint_files, "COMMITS", 3)
    for _ in range(4):
        commit(tree)
    return tree


def summary(tree):
    return (tree / SUMMARY).read_text()


def test_a_short_history_differs_everywhere(tree):
    assert lint(tree) == (0, ALL)
    assert "shorter than 20 commits" in summary(tree)


def test_a_shallow_clone_differs_everywhere(long, tmp_path_factory):
    place = tmp_path_factory.mktemp("clone") / "shallow"
    git(long, "clone", "-q", "--depth=1", f"file://{long}", place)
    git(place, "update-ref", "-d", "refs/remotes/origin/main")
    shutil.copytree(long / "build", place / "build")
    compiled(place, "src/base/a.cpp", "src/base/b.cpp")
    assert lint_files.base_of(place, "").commit == ""
    assert [name.rpartition("/")[2] for name in sorted(lint_files.changed_files(place, lint_files.base_of(place, "")))] == [
        ".clang-tidy", "c.h", "a.cpp", "b.cpp", "b.h", "c.cpp", "requirements.txt"]


def test_no_difference_lints_no_file(long):
    assert lint(long) == (0, [])
    assert "3 commits back; 0 for changed texts" in summary(long)


def test_each_of_the_last_commits_is_linted(long):
    commit(long, a="int BAD;\n")
    commit(long)
    assert lint(long) == (1, ["a.cpp"])
    commit(long)
    assert lint(long) == (1, ["a.cpp"])
    commit(long)
    assert lint(long) == (0, [])


def test_each_commit_since_origin_is_linted(long):
    git(long, "update-ref", "refs/remotes/origin/main", "HEAD")
    commit(long, a="int BAD;\n")
    for _ in range(5):
        commit(long)
    assert lint(long) == (1, ["a.cpp"])
    assert "the merge base with origin/main" in summary(long)


def test_origin_at_head_is_no_base(long):
    commit(long, a="int BAD;\n")
    git(long, "update-ref", "refs/remotes/origin/main", "HEAD")
    assert lint(long) == (1, ["a.cpp"])


def test_base_from_environment_is_used(long, monkeypatch):
    base = commit(long, b="int b;\n")
    commit(long, a="int c;\n")
    monkeypatch.setenv("GPUYARD_LINT_BASE", base)
    assert lint(long) == (0, ["a.cpp"])
    assert f"base {base[:9]}, as told; 1 for changed texts, 0 for their headers" in summary(long)


def test_an_unknown_base_fails(long, monkeypatch, capfd):
    monkeypatch.setenv("GPUYARD_LINT_BASE", "0123abc")
    assert lint(long) == (1, [])
    assert "'0123abc', which is not a commit of this clone" in capfd.readouterr().out


def test_uncommitted_and_new_files_are_linted(long):
    write(long, "src/base/a.cpp", "int other;\n")
    write(long, "src/base/d.cpp", "int d;\n")
    compiled(long, "src/base/a.cpp", "src/base/b.cpp", "src/base/d.cpp")
    assert lint(long) == (0, ["a.cpp", "d.cpp"])


def test_a_changed_comment_is_no_difference(long):
    write(long, "include/gpuyard/c.h", "// What it is for.\n#pragma once\n")
    assert lint(long) == (0, [])


def test_changed_rules_bring_every_source(long):
    write(long, ".clang-tidy", "Checks: b\n")
    assert lint(long) == (0, ALL)


def test_changed_files_come_before_includers(long):
    write(long, "include/gpuyard/c.h", "int c;\n")
    write(long, "src/base/z.cpp", "int z;\n")
    for name in ("d", "e"):
        write(long, f"src/base/{name}.cpp", "#include <gpuyard/c.h>\n")
    git(long, "add", "-A")
    git(long, "commit", "-q", "-m", "includers")
    base = git(long, "rev-parse", "HEAD")
    write(long, "include/gpuyard/c.h", "int other;\n")
    write(long, "src/base/z.cpp", "int other;\n")
    compiled(long, *(f"src/base/{name}.cpp" for name in "bcdez"))
    all_sources = lint_files.sources(long, long / "build")
    first, others = lint_files.in_order(all_sources, lint_files.changed_files(long, lint_files.Base(base, "")))
    assert first == ["src/base/z.cpp", "src/base/b.cpp"]  # one source shows the findings of the header
    assert others == ["src/base/c.cpp", "src/base/d.cpp", "src/base/e.cpp"]


# Batches.

@pytest.fixture
def library(tree):
    compiled(tree, "src/base/a.cpp", "src/base/b.cpp", "src/base/c.cpp", together=True)
    return tree


def test_sources_of_one_library_are_one_text(library):
    assert lint(library, "--all") == (0, ["a.cpp b.cpp c.cpp"])
    assert lint(library, "--all") == (0, [])


def test_finding_in_batch_is_attributed_to_its_source(library, capfd):
    write(library, "src/base/b.cpp", "int BAD;\n")
    assert lint(library, "--all") == (1, ["a.cpp b.cpp c.cpp", "a.cpp", "b.cpp", "c.cpp"])
    assert "lint: 1 source not clean:\n  src/base/b.cpp\n" in capfd.readouterr().out
    assert lint(library, "--all") == (1, ["b.cpp"])


def test_batch_that_does_not_compile_is_no_finding(library):
    clash = library / "build/clang-tidy"
    clash.write_text(TIDY.replace("\n!", "\n((${#sources[@]} == 1)) || exit 1\n!"))
    assert lint(library, "--all") == (0, ["a.cpp b.cpp c.cpp", "a.cpp", "b.cpp", "c.cpp"])
    assert lint(library, "--all") == (0, [])


def test_a_batch_has_a_limit(library, monkeypatch):
    monkeypatch.setattr(lint_files, "BATCH", 2)
    assert lint(library, "--all") == (0, ["a.cpp b.cpp", "c.cpp"])


def test_longest_batch_comes_first(tree, monkeypatch):
    monkeypatch.setattr(lint_files, "BATCH", 2)
    compiled(tree, *(f"src/base/{name}.cpp" for name in "bca"), together=True)
    assert lint(tree, "--all") == (0, ["b.cpp c.cpp", "a.cpp"])


def test_includers_join_the_batch_of_a_changed_file(long, monkeypatch):
    write(long, "src/base/d.cpp", "#include <gpuyard/c.h>\n")
    write(long, "src/base/e.cpp", "#include <gpuyard/c.h>\n")
    monkeypatch.setenv("GPUYARD_LINT_BASE", commit(long))
    commit(long, a="int other;\n")
    write(long, "include/gpuyard/c.h", "int other;\n")
    monkeypatch.setattr(lint_files, "BATCH", 3)
    compiled(long, *(f"src/base/{name}.cpp" for name in "bcdea"), together=True)
    assert lint(long) == (0, ["b.cpp c.cpp d.cpp", "a.cpp e.cpp"])
    forget(long)
    compiled(long, *(f"src/base/{name}.cpp" for name in "baecd"), together=True)
    assert lint(long) == (0, ["a.cpp b.cpp e.cpp", "c.cpp d.cpp"])


# The time limit.

def test_sources_without_time_are_named(long, monkeypatch, capfd):
    commit(long, a="int BAD;\n", b="int d;\n")
    slow = long / "build/clang-tidy"
    slow.write_text(TIDY.replace("\n!", "\n[[ $source != *b.cpp ]] || exec sleep 60\n!"))
    monkeypatch.setattr(lint_files, "MINUTES", 3 / 60)
    assert lint(long) == (1, ["a.cpp", "b.cpp"])  # a finding fails all the same
    assert "1 source of 2 left without a look:\n  src/base/b.cpp\n" in capfd.readouterr().out
    assert summary(long).endswith("; 1 left after 0.05 minutes\n")


def test_all_has_no_limit_of_time(tree, monkeypatch):
    monkeypatch.setattr(lint_files, "MINUTES", 0)
    assert lint(tree, "--all") == (0, ALL)
