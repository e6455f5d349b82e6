"""gpuyard query and smi: what scripts that called nvidia-smi rely on, and our own JSON."""

import csv
import io
import json
import re
import signal
import subprocess
import time

import pytest
from program import PROGRAM, clean_environment


def rows(text):
    """CSV as a script reads it: by the words of the header."""
    return list(csv.DictReader(io.StringIO(text), skipinitialspace=True))


@pytest.fixture
def world(run, tmp_path):
    """A world of two idle GPUs."""
    place = str(tmp_path / "world")
    assert run("sim", "start", "--gpus", "2", "--world", place, "--load", "idle").returncode == 0
    yield place
    run("sim", "stop", "--world", place)


def test_query_prints_nvidia_smi_csv(run):
    result = run("query", "--simulate", "2", "--fields",
                 "timestamp,name,index,count,driver_version,pci.bus_id,pstate,memory.total,"
                 "utilization.gpu,temperature.gpu,power.limit,clocks.max.sm,fan.speed,gpu_uuid")
    assert result.returncode == 0, result.stderr
    header, first, second = result.stdout.splitlines()
    assert header == (
        "timestamp, name, index, count, driver_version, pci.bus_id, pstate, memory.total [MiB], "
        "utilization.gpu [%], temperature.gpu, power.limit [W], clocks.max.sm [MHz], "
        "fan.speed [%], uuid")
    assert re.fullmatch(
        r"\d{4}/\d\d/\d\d \d\d:\d\d:\d\d\.\d{3}, NVIDIA H100 80GB HBM3, 0, 2, 535\.104\.05, "
        r"00000000:[0-9A-F]{2}:00\.0, P\d+, 81559 MiB, \d+ %, \d+, 700\.00 W, 1980 MHz, \[N/A\], "
        r"GPU-[0-9a-f-]{36}", first)
    assert ", 1, 2, " in second


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


def test_every_field_that_is_listed_can_be_queried(run):
    listed = [line.split()[0] for line in run("query", "--list").stdout.splitlines()[1:]]
    assert len(listed) > 120 and "memory.used" in listed and "memory_used_bytes" in listed
    result = run("query", "--simulate", "1", "--fields", ",".join(listed))
    assert result.returncode == 0, result.stderr
    header, values = result.stdout.splitlines()
    assert len(header.split(", ")) == len(values.split(", ")) == len(listed)


def test_only_the_probes_of_the_fields_are_asked(run, world):
    run("sim", "inject", "--world", world, "--gpu", "0", "--call", "power_usage", "--never-returns")
    began = time.monotonic()
    result = run("query", "--local", "--fields", "temperature.gpu", GPUYARD_SIM_WORLD=world)
    assert result.returncode == 0 and "[" not in result.stdout
    assert time.monotonic() - began < 1.5, "it waited for a reading nobody asked for"
    table = run("devices", "--local", GPUYARD_SIM_WORLD=world)
    assert "GPU 0 is unresponsive" in table.stdout
