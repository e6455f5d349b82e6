"""The rules of .ci/run, with a stand-in for ./yard."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PYPI, REAL, PAGE = "nvidia-ml-py clients", "real NVML", "API page in Chromium"


@pytest.fixture
def ci(tmp_path):
    shutil.copytree(ROOT / ".ci", tmp_path / ".ci")
    (tmp_path / "tools/yard").mkdir(parents=True)
    (tmp_path / "tools/check").mkdir()
    shutil.copy(ROOT / "tools/yard/stages.sh", tmp_path / "tools/yard")

    def run(yard: str, clients_venv: str = "exit 0", web_assets: str = "exit 0",
            contract: str = "pass", driver: bool = False, under=(), **environment: str):
        (tmp_path / "tools/check/contract_rows.py").write_text(contract)
        for name, body in (("yard", "source tools/yard/stages.sh\n" + yard),
                           ("tools/clients_venv.sh", clients_venv),
                           ("tools/web_assets.sh", web_assets)):
            (tmp_path / name).write_text(f"#!/bin/bash\n{body}\n")
            (tmp_path / name).chmod(0o755)
        module = tmp_path / "version"
        module.touch() if driver else module.unlink(missing_ok=True)
        environment = {"PATH": "/usr/bin:/bin", "GPUYARD_CI_DRIVER": str(module)} | environment
        return subprocess.run([*under, tmp_path / ".ci/run"], env=environment,
                              capture_output=True, text=True, stdin=subprocess.DEVNULL)
    return run


WANTED = [line.split("\t")[0] for line in (ROOT / ".ci/proofs.tsv").read_text().splitlines()
          if line and not line.startswith("#")]
GOOD = 'record_stage "$1" 75 ok 60\n' + "".join(
    f"record_proof '{name}' ran\n" for name in WANTED if name != REAL)


def test_a_good_run_ends_with_both_tables(ci):
    run = ci(GOOD)
    assert run.returncode == 0, run.stdout
    lines = [" ".join(line.split()) for line in run.stdout.splitlines()]
    stages = lines[lines.index("stage time busy result") + 1:]
    assert stages[:3] == ["check 1:15 60% ok", "test 1:15 60% ok", "clients 1:15 60% ok"]
    beside = sorted(stages[3:7])  # they run at the same time
    verbs = [row.removesuffix(" 1:15 60% ok") for row in beside if "1:15" in row]
    assert verbs == ["attack", "bench", "package"]
    assert sum(bool(re.fullmatch(r"bench 0:\d\d \d+% ok", row)) for row in beside) == 1
    assert re.fullmatch(r"contract \d:\d\d \d+% ok", stages[7])
    assert "benchmarks ran" in lines
    assert f"{PYPI} ran" in lines
    assert lines[-1] == "ci: passed"
    assert f"{REAL} skipped (no NVIDIA driver here)" in lines


def test_yard_runs_without_input_and_as_ci(ci):
    assert ci(GOOD + "[[ $CI == true ]] && ! read -r").returncode == 0


@pytest.mark.parametrize("verb", ["check", "test", "clients", "attack", "package", "bench"])
def test_failing_verb_fails_run_but_others_continue(ci, verb):
    run = ci(GOOD + f"[[ $1 != {verb} ]]")
    assert run.returncode == 1
    assert f"ci: FAILED: ./yard {verb} failed" in run.stdout
    assert "clients 1:15 60% ok" in " ".join(run.stdout.split())


@pytest.mark.parametrize("kind", ["stage", "shown_stage"])
def test_output_of_failed_stage_follows_the_tables(ci, kind):
    run = ci(GOOD + f"""if [[ $1 == check ]]; then
      {kind} "tidy up" sh -c 'seq 100; echo a finding; exit 3'
      {kind} "well" echo all is well
      stage_failed "tidy up" && ! stage_failed well
      exit 1
    fi""")
    assert run.returncode == 1
    end = run.stdout[run.stdout.index("\nproof "):]
    assert "== tidy up failed; its last lines (build/logs/tidy-up.log):\n62\n" in end
    assert "\n100\na finding\n" in end
    assert "all is well" not in end
    assert re.search(r"^tidy up +\d:\d\d +\d+% +failed$", run.stdout, re.MULTILINE)
    assert re.search(r"^well +\d:\d\d +\d+% +ok$", run.stdout, re.MULTILINE)


REPORTS = "import sys\nfor place in sys.argv[1:]: open(place + '/now.xml')\n"


def test_contract_is_checked_against_reports_of_both_presets(ci):
    tests = 'mkdir -p build/{asan,release}/reports; touch build/{asan,release}/reports/now.xml\n'
    assert ci(GOOD + tests, contract=REPORTS).returncode == 0
    run = ci(GOOD, contract=REPORTS)  # what is there now is of another run
    assert run.returncode == 1
    assert "ci: FAILED: the contract is not proven" in run.stdout
    assert re.search(r"^contract +\d:\d\d +\d+% +failed$", run.stdout, re.MULTILINE)


def test_unmentioned_proof_fails_run(ci):
    run = ci("true")
    assert run.returncode == 1
    assert f"proof '{PYPI}' was neither run nor skipped" in run.stdout
    assert f"{PYPI} MISSING" in " ".join(run.stdout.split())


def test_program_skipped_as_a_whole_fails(ci):
    run = ci(GOOD + "record_proof test_fleet 'skipped (no ip)'")
    assert run.returncode == 1
    assert "ci: FAILED: all of test_fleet was skipped (no ip)" in run.stdout


SKIPPED = GOOD + f"record_proof '{PYPI}' 'skipped (PyPI does not answer)'"


def test_a_skip_is_fine_while_pypi_is_silent(ci):
    assert ci(SKIPPED, clients_venv="exit 3").returncode == 0


def test_a_skip_fails_when_pypi_answers(ci):
    run = ci(SKIPPED)
    assert run.returncode == 1
    assert "but that is not so" in run.stdout


def test_with_a_driver_real_nvml_has_to_run(ci):
    assert f"proof '{REAL}' was neither run nor skipped" in ci(GOOD, driver=True).stdout
    skipped = GOOD + f"record_proof '{REAL}' 'skipped (no NVIDIA driver here)'"
    assert "but that is not so" in ci(skipped, driver=True).stdout
    assert ci(skipped).returncode == 0
    assert ci(GOOD + f"record_proof '{REAL}' ran", driver=True).returncode == 0


OWN_DEV = ROOT / "tests/own_dev.sh"


@pytest.mark.skipif(os.path.exists("/proc/driver/nvidia/version"), reason="there is a driver")
@pytest.mark.skipif(subprocess.run([OWN_DEV, "true"], capture_output=True).returncode != 0,
                    reason="no mount namespace can be made here")
def test_a_device_file_alone_is_no_driver(ci):
    in_own_dev = [OWN_DEV, "sh", "-c", 'touch /dev/nvidiactl; exec "$0"']
    run = ci(GOOD, under=in_own_dev, GPUYARD_CI_DRIVER="")
    assert run.returncode == 0, run.stdout
    assert f"{REAL} skipped (no NVIDIA driver here)" in " ".join(run.stdout.split())


def test_page_proof_may_be_skipped_only_without_npm(ci):
    skipped = GOOD + f"record_proof '{PAGE}' 'skipped (no npm, or its registry does not answer)'"
    assert ci(skipped, web_assets="exit 3").returncode == 0
    for other in ("exit 0", "exit 1"):
        assert "but that is not so" in ci(skipped, web_assets=other).stdout


def test_another_reason_for_a_skip_fails(ci):
    run = ci(GOOD + f"record_proof '{PYPI}' 'skipped (no time)'", clients_venv="exit 3")
    assert run.returncode == 1
    assert f"proof '{PYPI}' may not be skipped (no time)" in run.stdout


def test_each_test_runs_in_one_verb(ci, tmp_path):
    ci(GOOD + 'echo "$*" ${GPUYARD_CHECKED:-} >>build/verbs')
    verbs = (tmp_path / "build/verbs").read_text().splitlines()
    assert verbs[:3] == ["check", "test ON", "clients --changed ON"]
    assert sorted(verbs[3:]) == ["attack --short ON", "bench --quick ON", "package test ON"]


UNCHANGED = "ran (2026-11-20, unchanged since)"


@pytest.mark.parametrize("noted, good", [
    (f"print('{UNCHANGED}')", True), ("print('ran (2026-11-21, unchanged since)')", False), ("pass", False),
    ("raise SystemExit(2)", False)])
def test_an_earlier_run_counts_only_while_unchanged(ci, tmp_path, noted, good):
    (tmp_path / "tools/yard/client_results.py").write_text(noted)
    run = ci(GOOD + f"record_proof zeusd '{UNCHANGED}'")
    assert f"zeusd {UNCHANGED}" in " ".join(run.stdout.split())
    assert run.returncode == (0 if good else 1)
    assert good or f"proof 'zeusd': {UNCHANGED}, but that is not so" in run.stdout


def test_a_proof_without_a_note_has_to_run(ci):
    run = ci(GOOD + f"record_proof '{PYPI}' '{UNCHANGED}'")
    assert f"proof '{PYPI}': {UNCHANGED}, but that is not so" in run.stdout


def test_benchmarks_are_left_out_where_no_time_is_left(ci):
    run = ci(GOOD, GPUYARD_CI_BUDGET_MINUTES="2")
    assert run.returncode == 0, run.stdout
    assert "benchmarks not run (less than 150 s of the budget left)" in " ".join(run.stdout.split())


def test_over_the_budget_fails(ci):
    run = ci(GOOD + "[[ $1 != check ]] || sleep 1", GPUYARD_CI_BUDGET_MINUTES="0")
    assert run.returncode == 1
    assert "over the budget of 0 minutes" in run.stdout


@pytest.mark.parametrize("asked, granted", [("", "45"), ("25", "25"), ("90", "80"), ("many", "80")])
def test_the_budget_has_a_ceiling(ci, asked, granted):
    assert f"of {granted}:00 minutes" in ci(GOOD, GPUYARD_CI_BUDGET_MINUTES=asked).stdout
