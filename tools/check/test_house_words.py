import subprocess

import pytest

from house_words import main

# In pieces here too: this file is checked like any other.
PATH = "/wo" + "rk/main"
FARM = "/fa" + "rm/x"
SITE = "https:/" + "/registry.example.org/simple"


@pytest.fixture
def tree(tmp_path):
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    (tmp_path / ".gitignore").write_text("/build/\n")
    return tmp_path


@pytest.mark.parametrize("text", [
    f"cd {PATH}\n", f'"{FARM}"\n', f"DIR={PATH}/x\n", f"see {SITE}\n",
    "http:/" + "/deb.example.org/debian", "https:/" + "/proxy.example.org",
])
def test_a_word_of_the_workplace_is_found(tree, capsys, text):
    (tree / "notes.md").write_text("fine\n" + text)
    assert main(tree) == 1
    assert capsys.readouterr().out.startswith("notes.md:2: ")


@pytest.mark.parametrize("text", [
    "src/wo" + "rk/x.h", "the wo" + "rk/life balance", "https://example.org/wo" + "rk/1",
    "$HOME/wo" + "rk/x", "${root}/wo" + "rk/x", "https://example.org/registry.html", "PyPI",
])
def test_ordinary_text_passes(tree, text):
    (tree / "notes.md").write_text(text)
    assert main(tree) == 0


@pytest.mark.parametrize("text", [
    'fmt::print("{}", x);\n', "std::cout << x;\n", "std::fputs(x, stderr);\n", "::write(STDERR_FILENO, x, 1);\n"])
def test_only_one_file_may_write_to_a_terminal(tree, text):
    folder = tree / "src/cli/screen"
    folder.mkdir(parents=True)
    (folder / "terminal.cpp").write_text(text)
    assert main(tree) == 0
    (folder / "other.cpp").write_text(text)
    assert main(tree) == 1


def test_ignored_and_binary_files_are_left_alone(tree):
    (tree / "build").mkdir()
    (tree / "build/log").write_text(PATH)
    (tree / "image.bin").write_bytes(b"\0" + PATH.encode())
    assert main(tree) == 0


def test_our_own_tree_passes():
    assert main() == 0
