import subprocess

import pytest

from words import HARMLESS, main

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
    (folder / "output.cpp").write_text(text)
    assert main(tree) == 0
    (folder / "other.cpp").write_text(text)
    assert main(tree) == 1


def test_ignored_and_binary_files_are_left_alone(tree):
    (tree / "build").mkdir()
    (tree / "build/log").write_text(PATH)
    (tree / "image.bin").write_bytes(b"\0" + PATH.encode())
    assert main(tree) == 0


def write(tree, name, text):
    (tree / name).parent.mkdir(parents=True, exist_ok=True)
    (tree / name).write_text(text)


@pytest.mark.parametrize(("name", "text"), [
    ("src/a/a.cpp", 'say("the driver was told");'),
    ("src/a/a.cpp", 'say("a user who "\n    "waits");'),
    ("src/a/a.h", 'auto help = R"x(a lease\n is given up)x";'),
    ("src/a/a.cpp", "if (c == '\"') say(\"the driver was told\");"),
    ("src/a/a.def", 'ROW(a, "the lease is held back")'),
    ("web/page/a.js", "const line = 'nobody waits';"),
    ("web/page/a.js", "h`<p class=\"a\">${x ? { a: `the GPU is ${y} no row` } : 1} nobody waits</p>`;"),
    ("web/page/a.js", "h`<p>${f({ a: `nobody ${b} waits` })}</p>`;"),
    ("web/page/a.js", 'const q = /["`]/g; say("nobody waits");'),
    ("python/gpuyard/a.py", "raise E('the driver was '\n        'told')"),
    ("python/gpuyard/a.py", "raise E(f'{a} is handed {b} out, for ever')"),
    ("python/gpuyard/a.py", "def f(): \"\"\"Told by the daemon.\"\"\"\n"),
])
def test_a_stilted_literal_is_found(tree, capsys, name, text):
    write(tree, name, "\n" + text)
    assert main(tree) == 1
    assert capsys.readouterr().out.startswith(f"{name}:2: ")


@pytest.mark.parametrize(("name", "text"), [
    ("src/a/a.cpp", 'std::set<Id> told;  // "what was told before"\nsay("the driver responds");'),
    ("src/a/a.cpp", 'x["told"] = 1; /* "it was told" */'),
    ("src/a/a_test.cpp", 'say("it was told");'),
    ("src/base/third_party/a.h", 'say("it was told");'),
    ("web/page/a.js", "// it was told: 'nobody waits'\nconst told = (a) => `${told(a)} of ${b}`; const c = { told };"),
    ("web/page/a.js", 'const q = (a) => a.replace(/["\\$`]/g, "x"); const b = told ?? `a b`; // told'),
    ("python/gpuyard/a.py", "told = f'{told} of {b}'  # it was told"),
    ("tools/a.py", "print('it was told')"),
])
def test_names_comments_and_other_folders_pass(tree, name, text):
    write(tree, name, text)
    assert main(tree) == 0


def test_an_exception_needs_its_literal(tree, capsys):
    name, parts = next(iter(HARMLESS.items()))
    write(tree, name, "".join(f'say("{part}");\n' for part in parts))
    assert main(tree) == 0
    write(tree, name, "")
    assert main(tree) == 1
    assert "exception without a literal: " + parts[0] in capsys.readouterr().out


def test_our_own_tree_passes():
    assert main() == 0
