"""A row of the benchmarks that cannot be measured says why, and the others go on."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "bench"))

import rows  # noqa: E402
import run as bench_run  # noqa: E402


def refused():
    raise rows.NotMeasured("503 busy")


def missing():
    raise rows.Unavailable("no such peer")


def test_rows_beside_a_failed_one_have_figures():
    found = rows.medians({"bad": refused, "good": iter([{"us": 1}, {"us": 9}, {"us": 2}]).__next__}, 3)
    assert found == {"bad": {"failed": "503 busy"}, "good": {"us": 2}}


def test_a_failed_row_takes_no_further_turn():
    turns = []
    rows.medians({"bad": lambda: turns.append(1) or refused()}, 5)
    assert len(turns) == 1


def test_a_warm_up_turn_is_not_counted():
    found = rows.medians({"cold": iter([{"us": 90}, {"us": 2}]).__next__}, 1, warm_up=1)
    assert found == {"cold": {"us": 2}}


def test_a_failed_row_is_in_the_table(capsys):
    rows.line("bad", 10, rows.row(refused), lambda one: f"{one['us']}")
    rows.line("good", 10, {"us": 3}, lambda one: f"{one['us']:>5}")
    assert capsys.readouterr().out == "bad         FAILED: 503 busy\ngood          3\n"


def test_only_our_rows_fail_the_run():
    result = {"gpus": 8, "http": {"gpuyard": rows.row(refused), "peer": rows.row(refused, peer=True)},
              "crowd": rows.row(missing), "top": {"us": 1.0}}
    assert rows.verdict(result) == "\nbench: without figures: http: gpuyard"
    assert rows.why_not(result["http"]["peer"]) == "(not measured: 503 busy)"
    assert rows.verdict({"crowd": rows.row(missing)}) is None


def test_failure_reason_is_last_line_of_client():
    words = ["taskset", "-c", "0", sys.executable, "-c", "import sys; sys.exit('x\\nbench: a round failed')"]
    found = rows.row(lambda: subprocess.run(words, check=True, capture_output=True, text=True))
    assert found == {"failed": f"{Path(sys.executable).name}: a round failed"}


def test_a_server_that_failed_is_started_once():
    started = []
    with rows.Stage() as stage:
        for _ in range(2):
            with pytest.raises(rows.NotMeasured):
                stage.get("daemon", lambda: started.append(1) or refused())
    assert len(started) == 1


def test_a_quick_run_has_every_size_of_a_full_one():
    assert bench_run.QUICK.keys() == bench_run.FULL.keys()
    assert all(bench_run.QUICK[name] < size for name, size in bench_run.FULL.items())


def test_without_a_build_every_table_says_so(tmp_path):
    shutil.copytree(ROOT / "bench", tmp_path / "bench", ignore=shutil.ignore_patterns("__pycache__"))
    run = subprocess.run([sys.executable, "-B", tmp_path / "bench/run.py", "--json", tmp_path / "figures"],
                         capture_output=True, text=True, timeout=60, check=False)
    assert run.returncode == 1
    for title in ("Idle daemon", "Listeners", "HTTP over TCP", "driver call to text", "200 rules", "Command line",
                  "Leasing", "power limit", "asks for the load", "64 simulated GPUs", "driver calls with ten tops"):
        assert title in run.stdout, title
    assert run.stdout.count("FAILED: ") > 20 and "Traceback" not in run.stderr
    assert "bench: without figures: idle; " in run.stderr and (tmp_path / "figures").exists()
