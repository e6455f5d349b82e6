#!/usr/bin/env python3
"""Checks docs/contract.md against the tests: a row claimed done has a test that ran and passed.

    contract_rows.py [--partial] REPORTS...     JUnit XML files, or folders of them

--partial: not all tests ran. A row claimed done that none of those proves and none failed is named
as not judged.

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
FAILED = ("failure", "error")


@dataclass(frozen=True)
class Proof:
    test: str
    row: str
    passed: bool
    failed: bool  # neither: it was skipped


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
    """Returns the rows that the tests of one report prove."""
    proofs = []
    for case in ElementTree.parse(path).iter("testcase"):
        failed = any(case.find(tag) is not None for tag in FAILED)
        passed = not failed and case.get("status") != "notrun" and case.find("skipped") is None
        test = f"{case.get('classname')}.{case.get('name')}"
        for claim in case.iterfind("properties/property[@name='contract']"):
            for row in re.split(r"[\s,]+", claim.get("value", "").strip()):
                proofs.append(Proof(test, row, passed, failed))
    return proofs


def unproven(rows: dict[str, str], proofs: list[Proof]) -> list[str]:
    """The rows that are claimed done and proven by no test that passed."""
    proven = {proof.row for proof in proofs if proof.passed}
    return [row for row, state in rows.items() if state == "done" and row not in proven]


def unjudged(rows: dict[str, str], proofs: list[Proof]) -> list[str]:
    """Returns the rows of these that no test failed either."""
    failed = {proof.row for proof in proofs if proof.failed}
    return [row for row in unproven(rows, proofs) if row not in failed]


def compare(rows: dict[str, str], proofs: list[Proof], partial: bool = False) -> list[str]:
    """Rows without proof, and proofs without a row."""
    problems = [f"{proof.test} names contract row '{proof.row}', not a row of docs/contract.md"
                for proof in proofs if proof.row not in rows]
    left_open = unjudged(rows, proofs) if partial else []
    for row in unproven(rows, proofs):
        if row not in left_open:
            tried = sorted({proof.test for proof in proofs if proof.row == row})
            why = f"only {', '.join(tried)}, which did not pass" if tried else "no test names it"
            problems.append(f"docs/contract.md: {row} is claimed done: {why}")
    return problems


def read_reports(arguments: list[str]) -> tuple[list[Proof], list[str]]:
    """Returns the rows that all reports prove, and the problems."""
    proofs: list[Proof] = []
    problems = [] if arguments else ["no folder of test reports was named"]
    for place in map(Path, arguments):
        files = sorted(place.rglob("*.xml")) if place.is_dir() else [place]
        if not files or not files[0].exists():
            problems.append(f"no test report in {place}")
            continue
        for path in files:
            try:
                proofs += read_report(path)
            except (OSError, ElementTree.ParseError) as error:
                problems.append(f"{path}: not a whole test report: {error}")
    return proofs, problems


def main(arguments: list[str], contract: Path = ROOT / "docs/contract.md") -> int:
    partial = "--partial" in arguments
    if not contract.is_file():
        return report("contract", [f"{contract} is not there"], "")
    rows, problems = read_contract(contract.read_text(encoding="utf-8"))
    if not rows:
        problems.append("docs/contract.md has no row; this check would pass on anything")
    proofs, broken = read_reports([word for word in arguments if word != "--partial"])
    # Without the reports of a whole run every row of its tests would be called unproven.
    problems += broken or compare(rows, proofs, partial)
    states = list(rows.values())
    counts = ", ".join(f"{states.count(state)} {state}" for state in STATES)
    proven = len({proof.row for proof in proofs if proof.passed} & rows.keys())
    tests = len({proof.test for proof in proofs if proof.passed})
    passed = f"{counts}; {tests} passed tests prove {proven} rows"
    if partial and (left_open := unjudged(rows, proofs)):
        passed += f"\nnot judged, their proofs are not among these tests: {', '.join(left_open)}"
    return report("contract", problems, passed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
