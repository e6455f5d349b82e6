#!/usr/bin/env python3
"""The last results of the foreign clients that are compiled, in .ci/clients.tsv.

    client_results.py outcome CLIENT      prints the proof that a noted result gives: `ran (DATE, unchanged
                                          since)`; nothing where there is none for what is here now
    client_results.py note REPORTS        notes each client whose test passed, by its report in that folder

A line of the file is a client, the content that its test touches, its version and the day (tab
separated). The content is a hash: of the simulator, of our NVML declarations, of what imitates zeusd
for zeusd alone, of the test with the modules of ours that it imports, and of what builds the client.
Comments of C++ and its tests are no part of it.
"""

import hashlib
import re
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from datetime import date
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1] / "check"))

from house import ROOT, code_of, our_files  # noqa: E402

RESULTS = ".ci/clients.tsv"
SIMULATED = ("simulator/", "src/gpu/nvml/abi.h")
# For each client what is ours in its test beside the simulated GPUs, and where its version stands.
CLIENTS = {
    "zeusd": (("src/faces/zeus/", "tools/clients_cargo.sh"), "tools/clients_zeusd.sh"),
    "go-nvml": (("tests/clients/go_nvml/", "tools/clients_go.sh"), "tests/clients/go_nvml/go.mod"),
    "all-smi": (("tools/clients_cargo.sh",), "tools/clients_all_smi.sh"),
}
VERSION = re.compile(r"^(?:readonly version=|require \S+ v)(\S+)$", re.MULTILINE)
IMPORT = re.compile(r"^(?:from|import) (\w+)", re.MULTILINE)
HEAD = "# The last passed run of each compiled client: client, content, version, day. ./yard clients writes this.\n"


def identifier(client: str) -> str:
    return client.replace("-", "_")


def imported(root: Path, path: Path) -> set[Path]:
    """A test and the modules of ours that it imports, directly or not."""
    seen, unread = {path}, [path]
    while unread:
        for name in IMPORT.findall(unread.pop().read_text(encoding="utf-8")):
            for folder in (root / "tests/clients", root / "tests"):
                module = folder / f"{name}.py"
                if module.is_file() and module not in seen:
                    seen.add(module)
                    unread.append(module)
    return seen


def touched(root: Path, client: str) -> Iterator[Path]:
    """The files that can change what the client's test finds."""
    places, version = CLIENTS[client]
    tests = {*imported(root, root / f"tests/clients/test_{identifier(client)}.py"), root / "tests/clients/conftest.py",
             root / "tests/clients/run.sh", root / f"tools/clients_{identifier(client)}.sh", root / version}
    for path in our_files(root):
        name = path.relative_to(root).as_posix()
        ours = name.startswith((*SIMULATED, *places)) and not path.stem.endswith(("_test", "_for_tests"))
        if ours or path in tests:
            yield path


def content(root: Path, client: str) -> str:
    whole = hashlib.sha256()
    for path in touched(root, client):
        text = path.read_bytes()
        code = code_of(text) if path.suffix in (".h", ".cpp") else text
        whole.update(f"{path.relative_to(root).as_posix()}\0{hashlib.sha256(code).hexdigest()}\n".encode())
    return whole.hexdigest()[:16]


def version_of(root: Path, client: str) -> str:
    found = VERSION.search((root / CLIENTS[client][1]).read_text(encoding="utf-8"))
    if not found:
        raise LookupError(f"{CLIENTS[client][1]} names no version of {client}")
    return found[1]


def read_results(root: Path) -> dict[str, tuple[str, str, str]]:
    path = root / RESULTS
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    rows = [line.split("\t") for line in lines if line and not line.startswith("#")]
    return {row[0]: (row[1], row[2], row[3]) for row in rows if len(row) == 4}


def outcome(root: Path, client: str) -> str:
    noted = read_results(root).get(client)
    if noted is None or noted[:2] != (content(root, client), version_of(root, client)):
        return ""
    return f"ran ({noted[2]}, unchanged since)"


def passed(report: Path) -> bool:
    """Whether the tests of a report ran, all of them, and passed."""
    if not report.exists():
        return False
    suites = list(ElementTree.parse(report).iter("testsuite"))
    ran = sum(int(suite.get("tests", 0)) for suite in suites)
    wrong = sum(int(suite.get(word, 0)) for suite in suites for word in ("failures", "errors", "skipped"))
    return ran > 0 and wrong == 0


def note(root: Path, reports: Path, today: date) -> list[str]:
    """The clients that have been noted."""
    results = read_results(root)
    noted = [client for client in CLIENTS if passed(reports / f"test_{identifier(client)}.xml")]
    for client in noted:
        results[client] = (content(root, client), version_of(root, client), today.isoformat())
    if noted:
        lines = ("\t".join((client, *results[client])) + "\n" for client in CLIENTS if client in results)
        (root / RESULTS).write_text(HEAD + "".join(lines), encoding="utf-8")
    return noted


def main(arguments: list[str], root: Path = ROOT) -> int:
    match arguments:
        case ["outcome", client] if client in CLIENTS:
            if found := outcome(root, client):
                print(found)
        case ["note", reports]:
            if noted := note(root, root / reports, date.today()):
                print(f"{', '.join(noted)}: passed, noted in {RESULTS}")
        case _:
            print(__doc__, file=sys.stderr)
            return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
