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


def test_noheader_and_nounits_leave_bare_values(run):
    result = run("query", "--simulate", "1", "--fields", "memory.total,power.limit",
                 "--format", "csv,noheader,nounits")
    assert result.stdout == "81559, 700.00\n"


def test_nvidia_smi_fields_and_format_work_in_query(run):
    simulated = ["query", "--simulate", "1"]
    ours = run(*simulated, "--fields", "name,memory.total", "--format", "csv,noheader").stdout
    assert ours == "NVIDIA H100 80GB HBM3, 81559 MiB\n"


def test_smi_accepts_nvidia_smi_options(run, world):
    environment = {"GPUYARD_SIM_WORLD": world}
    result = run("smi", "--query-gpu=index,name", "--format=csv,noheader", "-i", "1", **environment)
    assert (result.returncode, result.stdout) == (0, "1, NVIDIA H100 80GB HBM3\n"), result.stderr
    apps = run("smi", "--query-compute-apps=pid,used_memory", "--format=csv", **environment)
    assert apps.stdout.splitlines()[0] == "pid, used_gpu_memory [MiB]"
    assert "temperature.gpu" in run("smi", "--help-query-gpu").stdout


def test_unknown_field_is_usage_error_suggesting_nearest(run):
    result = run("query", "--simulate", "1", "--fields", "name,memory.totl")
    assert result.returncode == 2 and result.stdout == ""
    assert '"memory.totl"' in result.stderr and '"memory.total"' in result.stderr


@pytest.mark.parametrize("arguments", [
    (), ("--fields", "name", "--format", "xml"), ("--fields", "name", "--format", "noheader"),
    ("--fields", "name", "--interval", "0"), ("--fields", ""), ("--processes", "--fields", "x"),
    ("--fields", "name", "--format", "json,noheader"),
])
def test_invalid_query_exits_2_without_output(run, arguments):
    result = run("query", *arguments)
    assert result.returncode == 2 and result.stdout == "" and result.stderr


def test_missing_gpu_is_exit_code_6(run):
    for gpu in ("7", "GPU-nonsense", "0,7"):
        result = run("query", "--simulate", "2", "--fields", "name", "--gpu", gpu)
        assert result.returncode == 6 and result.stdout == "" and "there are 2" in result.stderr


def test_json_keys_carry_units_and_null_has_reason(run):
    result = run("query", "--simulate", "1", "--fields", "power.limit,fan.speed,index", "--json")
    body = json.loads(result.stdout)
    assert body["schema"] == 1 and body["simulated"] is True
    gpu = body["devices"][0]
    assert gpu["values"] == {"power_limit_set_w": 700, "fan.speed": None, "index": 0}
    assert gpu["missing"] == {"fan.speed": "Not Supported"}
    assert gpu["uuid"] and gpu["pci_address"]


def test_lost_gpu_is_named_in_its_row_only(run, world):
    assert run("sim", "inject", "--world", world, "--gpu", "1", "--lost").returncode == 0
    result = run("query", "--local", "--fields", "index,temperature.gpu",
                 "--format", "csv,noheader", GPUYARD_SIM_WORLD=world)
    first, second = result.stdout.splitlines()
    assert re.fullmatch(r"0, \d+", first)
    assert second == "1, [GPU is lost]"


def test_hanging_gpu_reads_timeout_instead_of_stale_value(run, world):
    run("sim", "inject", "--world", world, "--gpu", "0", "--call", "temperature", "--never-returns")
    result = run("query", "--local", "--fields", "index,temperature.gpu",
                 "--format", "csv,noheader", GPUYARD_SIM_WORLD=world)
    assert result.stdout.splitlines()[0] == "0, [Timeout]"


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


def test_no_locale_changes_a_number(run):
    for locale in ("de_DE.UTF-8", "C", "tr_TR.UTF-8"):
        result = run("query", "--simulate", "1", "--fields", "power.limit,power_limit_w",
                     "--format", "csv,noheader", LC_ALL=locale)
        assert result.stdout == "700.00 W, 700\n"


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


def test_processes_query_lists_compute_processes(run):
    result = run("query", "--simulate", "1", "--processes", "--fields",
                 "pid,process_name,gpu_uuid,used_memory")
    assert result.returncode == 0, result.stderr
    assert result.stdout.splitlines()[0] == "pid, process_name, gpu_uuid, used_gpu_memory [MiB]"
    body = json.loads(run("query", "--simulate", "1", "--processes", "--json").stdout)
    assert body["schema"] == 1 and isinstance(body["processes"], list)


def test_query_without_driver_is_exit_code_5(run, tmp_path):
    result = run("query", "--local", "--nvml", str(tmp_path / "none.so"), "--fields", "name")
    assert result.returncode == 5 and result.stdout == ""
    assert "failed to initialise NVML" in result.stderr and "gpuyard doctor" in result.stderr
