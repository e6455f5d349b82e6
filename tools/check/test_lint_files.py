import json

import pytest

import lint_files
from lint_files import KNOWN, main

# Notes what it is asked of, and dislikes sources with a BAD in them.
TIDY = """#!/bin/bash
source="${@: -1}"
echo "${source##*/}" >>"${0%/*}/asked"
! grep -n BAD "$source"
"""


@pytest.fixture
def tree(tmp_path, monkeypatch):
    """A source by itself, and one that sees a header by way of another."""
    root = tmp_path.resolve()
    for name, text in {"src/base/a.cpp": "int a;\n", "src/base/b.cpp": '#include "base/b.h"\n',
                       "src/base/b.h": "#include <gpuyard/c.h>\n", "include/gpuyard/c.h": "#pragma once\n",
                       ".clang-tidy": "Checks: a\n", "tools/check/requirements.txt": "", "clang-tidy": TIDY, KNOWN: ""}.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    (root / "clang-tidy").chmod(0o755)
    monkeypatch.setattr(lint_files, "TIDY", (str(root / "clang-tidy"),))
    compiled(root, "src/base/a.cpp", "src/base/b.cpp", "build/made.cpp")
    return root


def compiled(root, *names):
    (root / "compile_commands.json").write_text(json.dumps(
        [{"directory": str(root), "file": name, "command": f"g++ -I{root}/src -I{root}/include -c {name}"}
         for name in names]))


def lint(tree, *arguments):
    """The exit status, and the sources that clang-tidy was asked of."""
    lint_files.text_hash.cache_clear()
    lint_files.included.cache_clear()
    asked = tree / "asked"
    asked.write_text("")
    return main([str(tree), "2", *arguments], tree), sorted(asked.read_text().split())


def test_what_was_found_clean_is_not_looked_at_again(tree):
    assert lint(tree, "--record") == (0, ["a.cpp", "b.cpp"])
    assert lint(tree, "--record") == (0, [])
    assert lint(tree) == (0, [])


def test_only_a_run_that_records_writes(tree):
    assert lint(tree) == lint(tree) == (0, ["a.cpp", "b.cpp"])
    assert (tree / KNOWN).read_text() == ""


@pytest.mark.parametrize("text, again", [
    ("// Why it is there.\n\nint a;  // one\n", []), ("// NOLINTNEXTLINE(all)\nint a;\n", ["a.cpp"]),
    ('const char* a = "//";\n', ["a.cpp"])])
def test_a_comment_changes_nothing(tree, text, again):
    lint(tree, "--record")
    (tree / "src/base/a.cpp").write_text(text)
    assert lint(tree) == (0, again)


@pytest.mark.parametrize("changed, again", [
    ("src/base/a.cpp", ["a.cpp"]), ("src/base/b.h", ["b.cpp"]), ("include/gpuyard/c.h", ["b.cpp"]),
    (".clang-tidy", ["a.cpp", "b.cpp"]), ("tools/check/requirements.txt", ["a.cpp", "b.cpp"])])
def test_a_change_brings_those_that_see_it(tree, changed, again):
    lint(tree, "--record")
    (tree / changed).write_text((tree / changed).read_text() + "int changed;\n")
    assert lint(tree) == (0, again)


def test_a_file_that_was_moved_is_still_clean(tree):
    lint(tree, "--record")
    (tree / "src/core").mkdir()
    (tree / "src/base/a.cpp").rename(tree / "src/core/other.cpp")
    compiled(tree, "src/core/other.cpp", "src/base/b.cpp")
    assert lint(tree) == (0, [])


def test_what_is_not_clean_fails_until_it_is(tree, capfd):
    (tree / "src/base/a.cpp").write_text("int BAD;\n")
    assert lint(tree, "--record") == (1, ["a.cpp", "b.cpp"])
    assert "1:int BAD;" in capfd.readouterr().out
    assert lint(tree, "--record") == (1, ["a.cpp"])
    (tree / "src/base/a.cpp").write_text("int good;\n")
    assert lint(tree, "--record") == (0, ["a.cpp"])


def test_hashes_are_sorted_and_dropped_with_their_source(tree):
    (tree / KNOWN).write_text("ffffffffffffffff\n0000000000000000\n")
    lint(tree, "--record")
    lines = (tree / KNOWN).read_text().splitlines()
    assert len(lines) == 2 and lines == sorted(lines) and "0000000000000000" not in lines
    compiled(tree, "src/base/b.cpp")
    lint(tree, "--record")
    assert len((tree / KNOWN).read_text().splitlines()) == 1


def test_a_run_that_was_stopped_goes_on(tree, monkeypatch):
    found = lint_files.lint_all

    def stopped(root, build, names, jobs):
        yield from found(root, build, names[:1], jobs)
        raise KeyboardInterrupt
    with monkeypatch.context() as patch:
        patch.setattr(lint_files, "lint_all", stopped)
        with pytest.raises(KeyboardInterrupt):
            lint(tree, "--record")
    assert lint(tree, "--record") == (0, ["b.cpp"])


def test_too_many_unknown_sources_fail_at_once(tree, monkeypatch, capfd):
    monkeypatch.setattr(lint_files, "LIMIT", 1)
    assert lint(tree) == (1, [])
    assert "run ./yard check --all" in capfd.readouterr().out
    assert lint(tree, "--record") == (0, ["a.cpp", "b.cpp"])
    assert lint(tree) == (0, [])


def test_compile_commands_without_our_sources_fail(tree):
    compiled(tree, "build/made.cpp")
    assert lint(tree) == (1, [])
