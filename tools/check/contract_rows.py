#!/usr/bin/env python3
"""Checks docs/contract.md against the tests: a row claimed done has a test that ran and passed.

    contract_rows.py REPORTS...     JUnit XML files, or folders of them

A row of the contract is a table line `| A4 | done | what it says |`, its state done, partial or
planned. A test names the rows it proves: RecordProperty("contract", "A4 A5") in GoogleTest,
record_property("contract", "A4") in pytest. Both become a <property> of their <testcase>.
"""

import re
import sys
import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass
from pathlib import Path

from house import ROOT, report

STATES = ("done", "partial", "planned")
ROW = re.compile(r"^\|\s*([A-Z]\d+)\s*\|\s*([^|]*?)\s*\|")
NOT_PASSED = ("failure", "error", "skipped")


@dataclass(frozen=True)
class Proof:
    test: str
    row: str
    passed: bool


def read_contract(text: str) -> tuple[dict[str, str], list[str]]:
    """The rows with their states, and what is wrong with the table."""
    rows: dict[str, str] = {}
    problems = []
    for number, line in enumerate(text.splitlines(), start=1):
        found = ROW.match(line)
        if not found:
            continue
        row, state = found.groups()
        where = f"docs/contract.md:{number}: {row}"
        if state not in STATES:
            problems.append(f"{where}: the state is '{state}'; it may be {', '.join(STATES)}")
        elif row in rows:
            problems.append(f"{where}: this row is already there")
        else:
            rows[row] = state
    return rows, problems


def read_report(path: Path) -> list[Proof]:
    """What the tests of one report claim to prove."""
    proofs = []
    for case in ElementTree.parse(path).iter("testcase"):
        passed = (case.get("status") != "notrun" and
                  all(case.find(tag) is None for tag in NOT_PASSED))
        test = f"{case.get('classname')}.{case.get('name')}"
        for claim in case.iterfind("properties/property[@name='contract']"):
            for row in re.split(r"[\s,]+", claim.get("value", "").strip()):
                proofs.append(Proof(test, row, passed))
    return proofs


def compare(rows: dict[str, str], proofs: list[Proof]) -> list[str]:
    """Rows without proof, and proofs without a row."""
    problems = [f"{proof.test} names contract row '{proof.row}', not a row of docs/contract.md"
                for proof in proofs if proof.row not in rows]
    proven = {proof.row for proof in proofs if proof.passed}
    for row, state in rows.items():
        if state == "done" and row not in proven:
            tried = sorted({proof.test for proof in proofs if proof.row == row})
            why = f"only {', '.join(tried)}, which did not pass" if tried else "no test names it"
            problems.append(f"docs/contract.md: {row} is claimed done: {why}")
    return problems


def report_files(arguments: list[str]) -> list[Path]:
    files: list[Path] = []
    for path in map(Path, arguments):
        files += sorted(path.glob("*.xml")) if path.is_dir() else [path]
    return files


def main(arguments: list[str], contract: Path = ROOT / "docs/contract.md") -> int:
    if not contract.is_file():
        return report("contract", [f"{contract} is not there"], "")
    rows, problems = read_contract(contract.read_text(encoding="utf-8"))
    if not rows:
        problems.append("docs/contract.md has no row; this check would pass on anything")
    files = report_files(arguments)
    if not files:
        problems.append(f"no test report in {' '.join(arguments) or 'no folder'}")
    proofs: list[Proof] = []
    for path in files:
        try:
            proofs += read_report(path)
        except (OSError, ElementTree.ParseError) as error:
            problems.append(f"{path}: not a whole test report: {error}")
    problems += compare(rows, proofs)
    states = list(rows.values())
    counts = ", ".join(f"{states.count(state)} {state}" for state in STATES)
    proven = len({proof.row for proof in proofs if proof.passed} & rows.keys())
    tests = len({proof.test for proof in proofs if proof.passed})
    return report("contract", problems, f"{counts}; {tests} passed tests prove {proven} rows")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
