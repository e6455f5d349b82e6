"""gpuyard smi in nvidia-smi's place: what scripts and exporters ask it, and the program under that name."""

import os
import re
import signal
import subprocess
import time
import xml.etree.ElementTree
from pathlib import Path

import pytest

from program import PATIENCE, PROGRAM, read_until

DATA = Path(__file__).resolve().parent.parent / "data" / "nvidia_smi"
LIBRARY = os.path.abspath(os.environ.get("GPUYARD_SIM_LIB", "build/release/sim/libnvidia-ml.so.1"))


@pytest.fixture
def fleet(world):
    """Two idle GPUs."""
    return world.start("--gpus", "2", "--load", "idle")


def link_of(world):
    return world.directory / "nvidia-smi"


def run_link(world, *arguments, program=None, **environment):
    """nvidia-smi as a program that knows nothing of gpuyard runs it: found in PATH."""
    named = world.environment | {"PATH": f"{world.directory}:{os.environ['PATH']}"} | environment
    named.pop("GPUYARD_SIM_WORLD", None)
    return subprocess.run([program or "nvidia-smi", *map(str, arguments)], env=named, text=True,
                          capture_output=True, timeout=PATIENCE, check=False)


def answer_of(world, *arguments):
    done = run_link(world, *arguments)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return done.stdout


def names(file):
    return (DATA / file).read_text().split()


# ---- its forms


def test_no_argument_is_the_table(fleet):
    lines = answer_of(fleet).splitlines()
    assert re.fullmatch(r"\w{3} \w{3} [ \d]\d \d\d:\d\d:\d\d \d{4} {7}", lines[0])
    assert re.fullmatch(r"\| NVIDIA-SMI 535\.104\.05 +Driver Version: 535\.104\.05 +CUDA Version: 12\.2 +\|", lines[2])
    assert {len(line) for line in lines[1:]} == {89}
    for index, gpu in enumerate(fleet.status()["gpus"]):
        row = next(line for line in lines if line.startswith(f"|   {index}  NVIDIA H100 80GB HBM3"))
        assert gpu["pci_address"] in row
    assert "|  No running processes found" in lines[-2]


def test_list_has_a_line_for_each_gpu(fleet):
    expected = [f"GPU {gpu['index']}: {gpu['name']} (UUID: {gpu['uuid']})" for gpu in fleet.status()["gpus"]]
    assert answer_of(fleet, "-L").splitlines() == expected
    assert answer_of(fleet, "--list-gpus", "-i", "1").splitlines() == expected[1:]


@pytest.mark.parametrize("branch, version", [("535", "535.129.03"), ("580", "580.65.06")])
def test_every_field_of_the_manuals_is_taken(world, branch, version):
    world.start("--gpus", "2", "--load", "idle", "--driver-version", version)
    fields = names(f"fields_{branch}.txt")
    header, *rows = answer_of(world, f"--query-gpu={','.join(fields)}", "--format=csv").splitlines()
    assert len(header.split(", ")) == len(fields) and len(rows) == 2
    for row in rows:
        cells = row.split(", ")
        assert len(cells) == len(fields) and all(cells)
        assert cells[fields.index("pci.device_id")] == "[N/A]"
        assert cells[fields.index("driver_version")] == version
        assert float(cells[fields.index("power.limit")].removesuffix(" W")) == 700


def test_xml_is_well_formed_and_has_the_same_values(world):
    world.start("--gpus", "2", "--model", "h100,rtx4090", "--load", "steady:0.9")
    root = xml.etree.ElementTree.fromstring(answer_of(world, "-q", "-x"))
    assert root.tag == "nvidia_smi_log" and root.findtext("attached_gpus") == "2"
    for element, gpu in zip(root.findall("gpu"), world.status()["gpus"], strict=True):
        assert element.get("id") == element.findtext("pci/pci_bus_id") == gpu["pci_address"]
        assert element.findtext("product_name") == gpu["name"]
        assert element.findtext("uuid") == gpu["uuid"]
        assert element.findtext("fb_memory_usage/total") == f"{gpu['memory_total_bytes'] >> 20} MiB"
        assert element.findtext("utilization/gpu_util") == f"{gpu['utilization_percent']} %"
        assert abs(int(element.findtext("temperature/gpu_temp").removesuffix(" C"))
                   - gpu["temperature_celsius"]) <= 1
    assert root.findtext("gpu[2]/ecc_mode/current_ecc") == "N/A"
    assert root.findtext("gpu[2]/remapped_rows") == "N/A"
    assert root.findtext("gpu[1]/remapped_rows/remapped_row_pending") == "No"


def test_processes_are_in_every_form(fleet):
    sleeper = subprocess.Popen(["sleep", "120"])
    try:
        fleet.must("attach", "--pid", str(sleeper.pid), "--gpu", "1", "--vram", "2G")
        apps = answer_of(fleet, "--query-compute-apps=pid,process_name,gpu_uuid,used_memory", "--format=csv,noheader")
        assert apps == f"{sleeper.pid}, sleep, {fleet.uuid(1)}, 2048 MiB\n"
        row = next(line for line in answer_of(fleet).splitlines() if f" {sleeper.pid} " in line)
        assert re.fullmatch(rf"\|    1   N/A  N/A +{sleeper.pid}      C   sleep +2048MiB \|", row)
        assert f"        Process ID                        : {sleeper.pid}\n" in answer_of(fleet, "-q", "-i", "1")
        root = xml.etree.ElementTree.fromstring(answer_of(fleet, "-q", "-x"))
        assert root.findtext("gpu[2]/processes/process_info/used_memory") == "2048 MiB"
        assert root.find("gpu[1]/processes/process_info") is None
    finally:
        sleeper.kill()
        sleeper.wait()


def test_remapped_rows_are_queried_by_their_own_names(fleet):
    assert answer_of(fleet, "--query-remapped-rows=gpu_uuid,remapped_rows.correctable,remapped_rows.histogram.max",
                     "--format=csv", "-i", "0") == (
        f"gpu_uuid, remapped_rows.correctable, remapped_rows.histogram.max\n{fleet.uuid(0)}, 0, [N/A]\n")


def test_output_goes_to_the_file(fleet, tmp_path):
    file = tmp_path / "gpus.csv"
    file.write_text("old and longer than what is written now\n" * 9)
    assert answer_of(fleet, "-f", file, "--query-gpu=index", "--format=csv,noheader") == ""
    assert file.read_text() == "0\n1\n"
    assert answer_of(fleet, f"--filename={file}", "-q", "-x") == ""
    assert file.read_text().endswith("</nvidia_smi_log>\n")


def test_a_loop_repeats_until_a_signal(fleet):
    process = subprocess.Popen([link_of(fleet), "--query-gpu=index", "--format=csv", "-i", "0", "-lms", "100"],
                               env=fleet.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    read_until(process.stdout, "index\n0\n0\n")
    process.send_signal(signal.SIGINT)
    assert process.wait(PATIENCE) == 0
    process.communicate()


def test_version_names_the_driver(fleet):
    assert "DRIVER version      : 535.104.05\n" in answer_of(fleet, "--version")


# ---- exit codes


def test_under_nvidia_smis_name_the_exit_codes_are_its_own(fleet):
    assert run_link(fleet, "--query-gpu=nonsense", "--format=csv").returncode == 2
    assert run_link(fleet, "--nonsense").returncode == 2
    assert run_link(fleet, "--query-gpu=name", "--format=xml").returncode == 2
    assert run_link(fleet, "-q", "-d", "NONSENSE").returncode == 2
    assert run_link(fleet, "-i", "9").returncode == 6
    fleet.lose(1)
    assert run_link(fleet, "-q", "-i", "0").returncode == 0
    lost = run_link(fleet, "--query-gpu=index,temperature.gpu", "--format=csv,noheader")
    assert lost.returncode == 15 and lost.stdout.splitlines()[1] == "1, [GPU is lost]"
    fleet.heal(1)
    fleet.must("driver", "unload")
    assert run_link(fleet).returncode == 9


def test_without_the_library_it_is_12(tmp_path, run):
    link = tmp_path / "nvidia-smi"
    link.symlink_to(os.path.abspath(PROGRAM))
    done = subprocess.run([link, "--nvml", tmp_path / "none.so", "-L"], capture_output=True, text=True,
                          timeout=PATIENCE, check=False)
    assert done.returncode == 12 and "failed to initialise NVML" in done.stderr
    ours = run("smi", "--nvml", str(tmp_path / "none.so"), "-L")
    assert ours.returncode == 5, "gpuyard smi keeps the exit codes of gpuyard"


# ---- the links


def test_a_world_has_a_link_that_ends_with_it(fleet):
    assert os.path.samefile(link_of(fleet), PROGRAM)
    fleet.must("stop")
    assert not link_of(fleet).is_symlink()


def test_a_link_of_a_dead_world_is_replaced(fleet):
    os.kill(fleet.status()["keeper_pid"], signal.SIGKILL)
    assert link_of(fleet).is_symlink()
    fleet.start("--gpus", "1", "--load", "idle")
    assert len(answer_of(fleet, "-L").splitlines()) == 1


def test_the_link_beside_the_library_shows_the_default_world(fleet):
    link = Path(LIBRARY).parent / "nvidia-smi"
    environment = fleet.environment | {"PATH": f"{link.parent}:{os.environ['PATH']}"}
    done = subprocess.run(["nvidia-smi", "-L"], env=environment, capture_output=True, text=True,
                          timeout=PATIENCE, check=False)
    assert done.returncode == 0 and fleet.uuid(1) in done.stdout, done.stderr


def test_one_gpu_that_hangs_holds_up_no_other(fleet):
    fleet.hang(0, "temperature")
    began = time.monotonic()
    done = run_link(fleet, "--query-gpu=index,temperature.gpu", "--format=csv,noheader")
    assert time.monotonic() - began < 10
    first, second = done.stdout.splitlines()
    assert first == "0, [Timeout]" and re.fullmatch(r"1, \d+", second)
