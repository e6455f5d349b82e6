"""The choice of compiled clients to run, and their recorded results."""

import shutil
import subprocess
from datetime import date
from pathlib import Path

import pytest

import client_results
from client_results import RESULTS, content, note, outcome

ROOT = Path(__file__).resolve().parents[2]
DAY = date(2026, 11, 20)
NOTED = "ran (2026-11-20, unchanged since)"
FILES = {
    "simulator/sim/a.cpp": "int a;\n", "simulator/sim/a_test.cpp": "int b;\n", "src/gpu/nvml/abi.h": "int c;\n",
    "src/faces/zeus/facade.cpp": "int d;\n", "src/base/log.cpp": "int e;\n", "docs/clients.md": "text\n",
    "tests/program.py": "import os\n", "tests/clients/fleet.py": "from program import x\n", "tests/clients/conftest.py": "",
    "tests/clients/run.sh": "run\n", "tests/clients/powercap.py": "",
    "tests/clients/go_nvml/go.mod": "module x\n\nrequire github.com/NVIDIA/go-nvml v0.13.0-1\n",
    "tests/clients/test_zeusd.py": "from fleet import y\nfrom powercap import z\n",
    "tests/clients/test_go_nvml.py": "from fleet import y\n", "tests/clients/test_all_smi.py": "from fleet import y\n",
    "tools/clients_zeusd.sh": "readonly version=0.5.0\n", "tools/clients_go_nvml.sh": "go\n",
    "tools/clients_all_smi.sh": "readonly version=0.9.0\n",
    ".ci/proofs.tsv": "",
}
CLIENTS = ["zeusd", "go-nvml", "all-smi"]


def write(root, name, text):
    (root / name).parent.mkdir(parents=True, exist_ok=True)
    (root / name).write_text(text)


def report(tests=2, failures=0, errors=0, skipped=0):
    return (f'<testsuites><testsuite tests="{tests}" failures="{failures}" errors="{errors}" skipped="{skipped}"/>'
            "</testsuites>")


@pytest.fixture
def tree(tmp_path):
    for name, text in FILES.items():
        write(tmp_path, name, text)
    write(tmp_path, ".gitignore", "/build/\n__pycache__/\n")
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    return tmp_path


def noted(tree, *clients):
    for client in clients or CLIENTS:
        write(tree, f"build/reports/test_{client.replace('-', '_')}.xml", report())
    return note(tree, tree / "build/reports", DAY)


def test_a_passed_run_is_noted(tree):
    assert noted(tree) == CLIENTS
    assert [outcome(tree, client) for client in CLIENTS] == [NOTED] * 3
    lines = (tree / RESULTS).read_text().splitlines()
    assert [line.split("\t")[0:4:2] for line in lines[1:]] == [["zeusd", "0.5.0"], ["go-nvml", "0.13.0-1"], ["all-smi", "0.9.0"]]


def test_empty_record_gives_no_proof(tree):
    assert outcome(tree, "zeusd") == ""


@pytest.mark.parametrize("numbers", [{"failures": 1}, {"errors": 1}, {"skipped": 1}, {"tests": 0}])
def test_a_run_with_gaps_is_not_noted(tree, numbers):
    write(tree, "build/reports/test_zeusd.xml", report(**numbers))
    assert note(tree, tree / "build/reports", DAY) == []
    assert not (tree / RESULTS).exists()


def test_a_new_note_keeps_the_others(tree):
    noted(tree, "zeusd")
    (tree / "build/reports/test_zeusd.xml").unlink()
    assert noted(tree, "all-smi") == ["all-smi"]
    assert [outcome(tree, client) for client in CLIENTS] == [NOTED, "", NOTED]


@pytest.mark.parametrize("name, again", [
    ("simulator/sim/a.cpp", CLIENTS), ("src/gpu/nvml/abi.h", CLIENTS), ("tests/program.py", CLIENTS),
    ("tests/clients/conftest.py", CLIENTS), ("tests/clients/run.sh", CLIENTS),
    ("src/faces/zeus/facade.cpp", ["zeusd"]), ("tests/clients/powercap.py", ["zeusd"]), ("tools/clients_zeusd.sh", ["zeusd"]),
    ("tests/clients/go_nvml/go.mod", ["go-nvml"]), ("tests/clients/test_all_smi.py", ["all-smi"]),
    ("src/base/log.cpp", []), ("docs/clients.md", []), ("simulator/sim/a_test.cpp", [])])
def test_a_change_ends_the_notes_of_its_clients(tree, name, again):
    noted(tree)
    write(tree, name, (tree / name).read_text() + "changed\n")
    assert [client for client in CLIENTS if outcome(tree, client) == ""] == again


def test_new_simulator_file_invalidates_every_note(tree):
    noted(tree)
    write(tree, "simulator/sim/b.h", "int b;\n")
    assert [outcome(tree, client) for client in CLIENTS] == ["", "", ""]


def test_a_comment_ends_no_note(tree):
    noted(tree)
    write(tree, "simulator/sim/a.cpp", "// Why.\n\nint a;\n")
    assert outcome(tree, "zeusd") == NOTED


def test_another_version_ends_the_note(tree):
    noted(tree, "go-nvml")
    text = (tree / RESULTS).read_text()
    assert f"{content(tree, 'go-nvml')}\t0.13.0-1" in text
    (tree / RESULTS).write_text(text.replace("0.13.0-1", "0.12.0"))
    assert outcome(tree, "go-nvml") == ""


def test_our_own_tree_names_each_version():
    assert all(client_results.version_of(ROOT, client) for client in CLIENTS)


@pytest.fixture
def yard(tree):
    """./yard clients with stand-ins for what it installs and compiles; zeusd's test fails."""
    for folder in ("tools/yard", "tools/check"):
        shutil.copytree(ROOT / folder, tree / folder, ignore=shutil.ignore_patterns("__pycache__"))

    def run(*arguments):
        for client in CLIENTS:
            write(tree, f"reports/test_{client.replace('-', '_')}.xml", report(failures=int(client == "zeusd")))
        write(tree, "build/proofs", "")
        done = subprocess.run(["bash", "-c", """set -euo pipefail
            source tools/yard/common.sh
            source tools/yard/clients.sh
            install_packages() { :; }
            prepare_web() { :; }
            prepare_clients() { echo "prepare $*" >>build/calls; }
            build_and_test() { echo "test $*" >>build/calls; mkdir -p build/release/reports; cp -r reports build/release/reports/clients; }
            rm -f build/calls; rm -rf build/release
            yard_clients "$@" """, "yard", *arguments], cwd=tree, capture_output=True, text=True, stdin=subprocess.DEVNULL,
            env={"PATH": "/usr/bin:/bin", "HOME": str(tree), "YARD_PROOFS": "build/proofs", "PYTHONDONTWRITEBYTECODE": "1"})
        assert done.returncode == 0, done.stdout + done.stderr
        calls = tree / "build/calls"
        return calls.read_text().splitlines() if calls.exists() else []
    return run


EVERY = ["prepare tools/clients_zeusd.sh tools/clients_go_nvml.sh tools/clients_all_smi.sh",
         "test clients release reports/clients --tests-regex ^test_(zeusd|go_nvml|all_smi)$"]


def test_only_changed_clients_run_in_ci(tree, yard):
    assert yard("--changed") == EVERY
    assert yard("--changed") == ["prepare tools/clients_zeusd.sh",
                                 "test clients release reports/clients --tests-regex ^test_(zeusd)$"]
    today = date.today().isoformat()
    assert (tree / "build/proofs").read_text() == "".join(
        f"{client}\tran ({today}, unchanged since)\n" for client in ("go-nvml", "all-smi"))


def test_every_client_runs_without_changed_option(yard):
    yard()
    assert yard() == EVERY


def test_unchanged_clients_need_no_build(tree, yard):
    noted(tree)
    assert yard("--changed") == []
