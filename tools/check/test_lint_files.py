import json
import subprocess

import pytest

from lint_files import main


@pytest.fixture
def tree(tmp_path):
    """A repository of two sources, where b.cpp includes a header."""
    (tmp_path / "src/base").mkdir(parents=True)
    (tmp_path / "src/base/a.cpp").write_text("int a;\n")
    (tmp_path / "src/base/b.cpp").write_text('#include "base/b.h"\n')
    (tmp_path / "src/base/b.h").write_text("#pragma once\n")
    (tmp_path / "cc.json").write_text(json.dumps(
        [{"directory": str(tmp_path), "file": name, "command": ""}
         for name in ("src/base/a.cpp", "src/base/b.cpp", "build/made.cpp")]))
    git(tmp_path, "init", "-q")
    commit(tmp_path)
    return tmp_path


def git(root, *arguments):
    subprocess.run(["git", "-C", str(root), "-c", "user.name=t", "-c", "user.email=t@example.org",
                    *arguments], check=True, capture_output=True)


def commit(root):
    git(root, "add", ".")
    git(root, "commit", "-q", "--allow-empty", "-m", "x")


def chosen(tree, capfd, *arguments):
    assert main([str(tree / "cc.json"), *arguments], tree.resolve()) == 0
    return [name for name in capfd.readouterr().out.split("\0") if name]


def test_a_first_commit_is_all_new(tree, capfd):
    assert chosen(tree, capfd) == ["src/base/a.cpp", "src/base/b.cpp"]


def test_only_the_last_commit_counts_without_a_remote(tree, capfd):
    commit(tree)
    assert chosen(tree, capfd) == []
    (tree / "src/base/a.cpp").write_text("int b;\n")
    commit(tree)
    assert chosen(tree, capfd) == ["src/base/a.cpp"]


def test_what_is_not_committed_counts(tree, capfd):
    commit(tree)
    (tree / "src/base/a.cpp").write_text("int c;\n")
    assert chosen(tree, capfd) == ["src/base/a.cpp"]


def test_a_changed_header_brings_its_includers(tree, capfd):
    commit(tree)
    (tree / "src/base/b.h").write_text("#pragma once\nint b();\n")
    assert chosen(tree, capfd) == ["src/base/b.cpp"]


def test_a_branch_counts_from_where_it_left_main(tree, capfd):
    commit(tree)
    git(tree, "update-ref", "refs/remotes/origin/main", "HEAD")
    (tree / "src/base/a.cpp").write_text("int d;\n")
    commit(tree)
    commit(tree)
    assert chosen(tree, capfd) == ["src/base/a.cpp"]


def test_all_is_all(tree, capfd):
    commit(tree)
    assert len(chosen(tree, capfd, "--all")) == 2


def test_compile_commands_without_our_sources_fail(tree):
    (tree / "cc.json").write_text("[]")
    assert main([str(tree / "cc.json")], tree) == 1
