"""gpuyard query and smi: what scripts that called nvidia-smi rely on, and our own JSON."""

import csv
import io
import json
import signal
import subprocess

import pytest
from program import PROGRAM, clean_environment


def rows(text):
    """CSV as a script reads it: by the words of the header."""
    return list(csv.DictReader(io.StringIO(text), skipinitialspace=True))


@pytest.mark.parametrize("arguments", [
    (), ("--fields", "name", "--format", "xml"), ("--fields", "name", "--format", "noheader"),
    ("--fields", "name", "--interval", "0"), ("--fields", ""), ("--processes", "--fields", "x"),
    ("--fields", "name", "--format", "json,noheader"),
])
def test_invalid_query_exits_2_without_output(run, arguments):
    result = run("query", *arguments)
    assert result.returncode == 2 and result.stdout == "" and result.stderr


def test_the_daemon_answers_the_same_query(daemon, run):
    yard = daemon("--simulate", "2")
    result = run("query", "--socket", yard.socket, "--fields", "index,memory.total,fan.speed")
    assert result.stdout.splitlines()[1:] == ["0, 81559 MiB, [N/A]", "1, 81559 MiB, [N/A]"]


def test_an_interval_repeats_with_one_header(run):
    result = run("query", "--simulate", "1", "--fields", "index,power.draw", "--interval", "100ms",
                 "--count", "3")
    assert len(rows(result.stdout)) == 3 and result.stdout.count("index") == 1
    lines = run("query", "--simulate", "1", "--fields", "index", "--interval", "100ms",
                "--count", "2", "--json").stdout.splitlines()
    assert [json.loads(line)["devices"][0]["index"] for line in lines] == [0, 0]


def test_ctrl_c_ends_endless_query_with_exit_0(tmp_path):
    process = subprocess.Popen([PROGRAM, "query", "--simulate", "1", "--fields", "index",
                                "--interval", "100ms"], env=clean_environment(tmp_path),
                               stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "index\n"
    process.send_signal(signal.SIGINT)
    assert process.wait(10) == 0


def test_closed_output_pipe_ends_query_quietly(tmp_path):
    process = subprocess.Popen([PROGRAM, "query", "--simulate", "1", "--fields", "index",
                                "--interval", "100ms"], env=clean_environment(tmp_path),
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    process.stdout.readline()
    process.stdout.close()
    process.wait(10)
    assert process.stderr.read() == ""
    process.stderr.close()
