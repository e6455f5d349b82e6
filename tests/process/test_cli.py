"""The verbs, as a person or a script uses them."""

import json
import os
import re
import subprocess
import tempfile

from program import PROGRAM, clean_environment


def test_devices_shows_a_simulated_fleet_without_any_daemon(run):
    result = run("devices", "--simulate", "8")
    assert result.returncode == 0, result.stderr
    lines = result.stdout.splitlines()
    assert lines[0].split()[:3] == ["GPU", "NAME", "UTIL"]
    assert len([line for line in lines if " H100 80GB HBM3 " in line]) == 8
    assert lines[-1] == "These GPUs are simulated."


def test_private_world_ends_with_its_command(run):
    with tempfile.TemporaryDirectory(prefix="gpuyard-", dir="/tmp") as place:
        assert run("devices", "--simulate", "2", TMPDIR=place).returncode == 0
        assert not os.listdir(place)


# GPM metrics need two readings.
def test_single_gpu_view_includes_gpm_metrics(run):
    assert "\nGPM\n" in run("devices", "0", "--simulate", "1").stdout


def test_missing_world_is_named_in_error(run):
    result = run("devices", GPUYARD_SIM_WORLD="/nowhere/world")
    assert result.returncode == 5 and "/nowhere/world" in result.stderr


def test_table_has_same_numbers_in_every_locale(run):
    for locale in ("de_DE.UTF-8", "fr_FR.UTF-8", "C"):
        text = run("devices", "--simulate", "1", LC_ALL=locale).stdout
        assert "GiB" in text and not re.search(r"\d,\d", text), text


def test_daemon_and_local_driver_list_same_gpus(shared, run):
    yard = shared("--simulate", "3")
    world = {"GPUYARD_SIM_WORLD": yard.state + "/world"}

    def uuids(*arguments, **environment):
        body = json.loads(run("devices", "--json", *arguments, **environment).stdout)
        return [gpu["uuid"] for gpu in body["devices"]]
    through_daemon = uuids("--socket", yard.socket)
    assert len(through_daemon) == 3
    assert uuids(GPUYARD_SOCKET=yard.socket) == through_daemon
    assert uuids("--local", **world) == through_daemon
    assert uuids("--socket", f"127.0.0.1:{yard.port}") == through_daemon
    assert uuids("--socket", f"http://127.0.0.1:{yard.port}") == through_daemon


def test_daemon_at_default_socket_is_found(shared, tmp_path):
    if os.geteuid() == 0:
        place = None  # root's usual place is the system's; a test must not touch it
    else:
        place = tmp_path / "gpuyard" / "gpuyard.sock"
    yard = shared("--simulate", "3")
    environment = clean_environment(tmp_path)
    if place is None:
        environment["GPUYARD_SOCKET"] = yard.socket
    else:
        place.parent.mkdir()
        place.symlink_to(yard.socket)
    result = subprocess.run([PROGRAM, "devices", "--json"], env=environment, capture_output=True,
                            text=True, timeout=30, check=True)
    assert json.loads(result.stdout)["simulated"] is True


def test_every_face_marks_simulated_daemon(shared, run):
    yard = shared("--simulate", "3")
    assert "simulated" in run("driver", "--socket", yard.socket).stdout
    assert json.loads(run("driver", "--socket", yard.socket, "--json").stdout)["simulated"] is True
    assert "simulated" in run("devices", "--socket", yard.socket).stdout
    for path in ("/api/gpu/devices", "/api/gpu/devices/0", "/api/gpu/driver", "/api/gpu/snapshot",
                 "/metrics", "/health", "/ready", "/api/gpu/devices/9"):
        assert yard.get(path).headers["x-gpuyard-simulated"] == "true", path


def test_version(run):
    assert run("version").stdout.startswith("gpuyard 0.")
    assert json.loads(run("version", "--json").stdout)["version"].count(".") == 2


def test_completion_scripts_are_valid(run, tmp_path):
    script = tmp_path / "completion.bash"
    script.write_text(run("completion", "bash").stdout)
    words = subprocess.run(
        ["bash", "-c", f"source {script}; COMP_WORDS=(gpuyard query --f); COMP_CWORD=2; _gpuyard; "
         'echo "${COMPREPLY[@]}"'], capture_output=True, text=True, check=True).stdout.split()
    assert words == ["--fields", "--format"]


def test_configuration_file_beats_defaults_and_flag_beats_file(run, daemon, tmp_path):
    file = tmp_path / "gpuyard.toml"
    file.write_text('[metrics]\nprefix = "mine"\n')
    yard = daemon("--simulate", "1", "--config", str(file))
    assert "mine_gpu_info" in yard.get("/metrics").text
    other = daemon("--simulate", "1", "--config", str(file), "--metrics-prefix", "flag")
    assert "flag_gpu_info" in other.get("/metrics").text


def test_an_installed_program_finds_its_simulated_library(tmp_path):
    prefix = tmp_path / "prefix"
    subprocess.run(["cmake", "--install", os.path.dirname(PROGRAM), "--component", "program",
                    "--prefix", str(prefix)], check=True, capture_output=True, timeout=60)
    result = subprocess.run([prefix / "bin" / "gpuyard", "devices", "--simulate", "1"],
                            env=clean_environment(tmp_path), capture_output=True, text=True,
                            timeout=30, check=False)
    assert result.returncode == 0, result.stderr
    assert "These GPUs are simulated." in result.stdout
