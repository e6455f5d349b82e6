import subprocess
import sys

import pytest

from contract_rows import compare, main, read_contract, read_report

CONTRACT = """# The contract
| row | state | what |
|---|---|---|
| A4 | done | the index |
| A5 | done | total memory |
| B1 | partial | any library |
| C1 | planned | alerts |
"""

# As GoogleTest 1.12 writes it.
GTEST = """<?xml version="1.0" encoding="UTF-8"?>
<testsuites tests="3" name="AllTests"><testsuite name="Device" tests="3">
  <testcase name="HasAnIndex" status="run" result="completed" classname="Device">
    <properties><property name="contract" value="A4, A5"/><property name="other" value="Z9"/></properties>
  </testcase>
  <testcase name="Fails" status="run" result="completed" classname="Device">
    <failure message="no" type=""/><properties><property name="contract" value="B1"/></properties>
  </testcase>
  <testcase name="Skips" status="run" result="skipped" classname="Device">
    <skipped message="no"/><properties><property name="contract" value="C1"/></properties>
  </testcase>
  <testcase name="Plain" status="run" result="completed" classname="Device" />
</testsuite></testsuites>
"""


@pytest.fixture
def yard(tmp_path):
    (tmp_path / "contract.md").write_text(CONTRACT)
    (tmp_path / "reports").mkdir()
    (tmp_path / "reports/device_test.xml").write_text(GTEST)
    return tmp_path


def check(yard, *arguments):
    return main([*arguments, str(yard / "reports")], yard / "contract.md")


def test_proven_rows_pass(yard, capsys):
    assert check(yard) == 0
    assert capsys.readouterr().out == \
        "contract: 2 done, 1 partial, 1 planned; 1 passed tests prove 2 rows\n"


@pytest.mark.parametrize("row, why", [("B1 | partial", "Device.Fails, which did not pass"),
                                      ("C1 | planned", "Device.Skips, which did not pass")])
def test_failed_or_skipped_test_proves_no_row(yard, capsys, row, why):
    claimed = CONTRACT.replace(row, row.split(" | ")[0] + " | done")
    (yard / "contract.md").write_text(claimed)
    assert check(yard) == 1
    assert why in capsys.readouterr().out


def test_a_done_row_that_no_test_names_fails(yard, capsys):
    (yard / "contract.md").write_text(CONTRACT + "| D4 | done | a lease |\n")
    assert check(yard) == 1
    assert "D4 is claimed done: no test names it" in capsys.readouterr().out


def test_partial_run_lists_unjudged_rows(yard, capsys):
    (yard / "contract.md").write_text(
        CONTRACT.replace("C1 | planned", "C1 | done") + "| D4 | done | a lease |\n")
    assert check(yard, "--partial") == 0
    out = capsys.readouterr().out
    assert "1 passed tests prove 2 rows\n" in out
    assert out.endswith("not judged, their proofs are not among these tests: C1, D4\n")


def test_partial_run_rejects_failed_proof_or_unknown_row(yard, capsys):
    (yard / "contract.md").write_text(CONTRACT.replace("B1 | partial", "B1 | done"))
    assert check(yard, "--partial") == 1
    assert "B1 is claimed done: only Device.Fails" in capsys.readouterr().out
    (yard / "contract.md").write_text(CONTRACT.replace("| C1 |", "| C2 |"))
    assert check(yard, "--partial") == 1
    assert "names contract row 'C1'" in capsys.readouterr().out


def test_several_folders_prove_together(yard, capsys):
    (yard / "contract.md").write_text(CONTRACT + "| D4 | done | a lease |\n")
    other = yard / "other/clients"
    other.mkdir(parents=True)
    (other / "lease.xml").write_text(GTEST.replace("A4, A5", "D4").replace("B1", "A4"))
    assert main([str(yard / "reports"), str(yard / "other")], yard / "contract.md") == 0
    assert "prove 3 rows" in capsys.readouterr().out


def test_missing_reports_fail_before_judging_rows(yard, capsys):
    assert main([str(yard / "nowhere"), str(yard / "reports")], yard / "contract.md") == 1
    assert capsys.readouterr().out == f"no test report in {yard / 'nowhere'}\n"


def test_a_test_that_names_an_unknown_row_fails(yard, capsys):
    (yard / "reports/x.xml").write_text(GTEST.replace("A4, A5", "A4 A5 A99"))
    assert check(yard) == 1
    assert "Device.HasAnIndex names contract row 'A99'" in capsys.readouterr().out


@pytest.mark.parametrize("line, problem", [("| A6 | finished | x |", "the state is 'finished'"),
                                           ("| A4 | done | again |", "already there")])
def test_a_wrong_table_fails(line, problem):
    assert problem in read_contract(CONTRACT + line + "\n")[1][0]


def test_disabled_test_proves_no_row(yard):
    path = yard / "reports/d.xml"
    path.write_text('<testsuite><testcase name="a" classname="b" status="notrun"><properties>'
                    '<property name="contract" value="A4"/></properties></testcase></testsuite>')
    assert [proof.passed for proof in read_report(path)] == [False]


@pytest.mark.parametrize("torn", ["", "<testsuites><testcase"])
def test_a_torn_report_fails(yard, torn):
    (yard / "reports/torn.xml").write_text(torn)
    assert check(yard) == 1


def test_no_reports_and_no_contract_fail(yard, tmp_path):
    (yard / "reports/device_test.xml").unlink()
    assert check(yard) == 1
    assert main([str(yard)], tmp_path / "nowhere.md") == 1


def test_an_empty_contract_fails(yard):
    (yard / "contract.md").write_text("# nothing yet\n")
    assert check(yard) == 1


def test_pytest_report_is_readable(tmp_path):
    (tmp_path / "test_a.py").write_text(
        "def test_a(record_property):\n    record_property('contract', 'A4')\n")
    subprocess.run([sys.executable, "-m", "pytest", "-q", "--junit-xml=r.xml", "-p", "no:cacheprovider",
                    "test_a.py"], cwd=tmp_path, check=True, capture_output=True)
    proofs = read_report(tmp_path / "r.xml")
    assert [(proof.row, proof.passed) for proof in proofs] == [("A4", True)]
    assert compare({"A4": "done"}, proofs) == []
