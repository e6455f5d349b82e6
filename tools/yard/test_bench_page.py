"""The tables that the benchmarks write into docs/performance.md."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "bench"))

import page  # noqa: E402
import rows  # noqa: E402

EMPTY = "".join(f"<!-- bench: {name} -->\n<!-- end -->\n" for name in page.TABLES)
UNAVAILABLE = {"unavailable": "no root"}
RESULT = {
    "idle": {"daemon": {"cpu_percent_of_core": 0.1234, "rss_mib": 12.34}}, "listeners": UNAVAILABLE,
    "http": {"gpuyard /health": {"bytes": 33, "requests_per_s": 100000, "p99_us": 300, "cpu_us_per_request": 9.8},
             "gpuyard /metrics": {"bytes": 82000, "requests_per_s": 28500, "p99_us": 1020, "cpu_us_per_request": 36.1},
             "prometheus_client /metrics": {"bytes": 7000, "requests_per_s": 1000, "p99_us": 9, "cpu_us_per_request": 9}},
    "pipeline_ns": {"whole_tick": 299818.2}, "start_ms": {"version": 4.17}, "andon_us": UNAVAILABLE,
    "control": UNAVAILABLE, "leases": UNAVAILABLE, "crowd": UNAVAILABLE, "top": UNAVAILABLE}
RESULT["leases"] = {"steps": {"queue/100": 304.1}, "socket": UNAVAILABLE, "clients": 64}
RESULT["top"] = {"calls": UNAVAILABLE, "fleets": {"8": UNAVAILABLE, "64": UNAVAILABLE}, "still": UNAVAILABLE}


def test_page_has_a_place_for_each_table():
    assert sorted(found[1] for found in page.BLOCK.finditer(page.PAGE.read_text())) == sorted(page.TABLES)


def test_tables_replace_earlier_ones_and_leave_the_text(tmp_path):
    file = tmp_path / "performance.md"
    file.write_text("# Figures\n" + EMPTY + "The text.\n")
    for when in ("first:\n", "second:\n"):
        page.write(RESULT, file, when)
    text = file.read_text()
    assert text.startswith("# Figures\n") and text.endswith("The text.\n") and "first:" not in text
    assert text.count("second:") == len(page.TABLES)
    assert "| daemon | 0.123 | 12.3 |" in text
    assert "| gpuyard /metrics | 82,000 | 28,500 | 1,020 | 36.1 | 0.28 | 28x |" in text
    assert "| fast tier, JSON and text together | 300 |" in text
    assert "| release and claim with 100 waiting, in order | 304 |" in text


def test_a_row_without_figures_says_why(tmp_path):
    file = tmp_path / "performance.md"
    file.write_text(EMPTY)
    page.write(RESULT, file, "")
    for name in ("all of them", "a claim that is granted", "8 GPUs, daemon: CPU"):
        assert f"| {name} | (not measured: no root) |" in file.read_text()


def test_write_keeps_tables_of_unmeasured_parts(tmp_path):
    file = tmp_path / "performance.md"
    file.write_text(EMPTY)
    page.write(RESULT, file, "first:\n")
    page.write({"leases": RESULT["leases"]}, file, "second:\n")
    assert file.read_text().count("second:") == 2
    assert file.read_text().count("first:") == len(page.TABLES) - 2


def test_a_page_without_a_place_is_left_alone(tmp_path):
    file = tmp_path / "performance.md"
    file.write_text(EMPTY.replace("<!-- bench: idle -->", ""))
    with pytest.raises(rows.NotMeasured, match="no place for idle"):
        page.write(RESULT, file, "")
    assert "second" not in file.read_text()


def test_figures_of_a_moment_are_not_written():
    run = subprocess.run([sys.executable, "-B", ROOT / "bench/run.py", "--quick", "--write"], capture_output=True,
                         text=True, timeout=60, check=False)
    assert run.returncode == 2 and "not allowed with argument --quick" in run.stderr
