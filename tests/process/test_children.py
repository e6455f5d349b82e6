"""The processes that the program starts itself: what they hold, and what they leave behind."""

import json
import os
import resource
import shutil
import signal
import subprocess
import tempfile

import pytest

from program import PROGRAM, Daemon, clean_environment, wait_until


def descriptors(pid):
    """The target of each descriptor of a process; a socket or pipe without its number."""
    place = f"/proc/{pid}/fd"
    return {int(fd): os.readlink(f"{place}/{fd}").split(":")[0] for fd in os.listdir(place)}


@pytest.fixture
def place():
    """A folder with the worlds of one test only."""
    with tempfile.TemporaryDirectory(prefix="gpuyard-", dir="/tmp") as directory:
        yield directory


def worlds(place):
    return [name for name in os.listdir(place) if name.startswith("gpuyard-world-")]


def test_driver_host_inherits_only_socket_and_log(daemon, tmp_path):
    with open(tmp_path / "foreign", "w", encoding="ascii") as foreign:
        os.set_inheritable(foreign.fileno(), True)
        place = tmp_path / "d"
        place.mkdir()
        environment = clean_environment(place)
        process = subprocess.Popen(
            [PROGRAM, "serve", "--listen", "127.0.0.1:0", "--socket", str(place / "s"),
             "--state", str(place / "state"), "--simulate", "1"], env=environment, close_fds=False,
            stdout=subprocess.DEVNULL, stderr=open(place / "log", "w"))
    try:
        host = Daemon.__new__(Daemon)
        host.process = process
        pid = wait_until(host.driver_host, "the driver-host")
        wait_until(lambda: os.path.exists(place / "s"), "the socket")
        held = wait_until(lambda: len(d := descriptors(pid)) >= 4 and d, "the host's descriptors")
        assert held[0] == held[1] == "/dev/null"
        assert held[2] == str(place / "log") and held[3] == "socket"
        # NVML may open descriptors of its own; none of ours may be there.
        assert not {str(tmp_path / "foreign"), str(place / "state" / "lock")} & set(held.values())
        assert list(held.values()).count("socket") == 1
    finally:
        process.terminate()
        process.wait(30)


# The daemon raises its own limit to the hard limit.
def test_driver_host_gets_original_descriptor_limit(daemon):
    yard = daemon("--simulate", "1")
    host = wait_until(yard.driver_host, "the driver-host")
    usual = resource.getrlimit(resource.RLIMIT_NOFILE)
    if usual[0] == usual[1]:
        resource.prlimit(os.getpid(), resource.RLIMIT_NOFILE, (usual[1] // 2, usual[1]))
        try:
            yard = daemon("--simulate", "1")
        finally:
            resource.prlimit(os.getpid(), resource.RLIMIT_NOFILE, usual)
        host = wait_until(yard.driver_host, "the driver-host")
        usual = (usual[1] // 2, usual[1])
    assert resource.prlimit(yard.process.pid, resource.RLIMIT_NOFILE)[0] == usual[1]
    assert resource.prlimit(host, resource.RLIMIT_NOFILE) == usual


def test_replaced_binary_still_starts_original_driver_host(tmp_path):
    build = os.path.dirname(os.path.abspath(PROGRAM))
    program = tmp_path / "gpuyard"
    shutil.copy(PROGRAM, program)
    (tmp_path / "sim").symlink_to(build + "/sim")
    place = tmp_path / "d"
    place.mkdir()
    yard = Daemon(place, "--simulate", "1", program=str(program))
    try:
        yard.ready()
        first = yard.driver_host()
        program.unlink()
        program.write_text("#!/bin/sh\nexit 3\n", encoding="ascii")
        program.chmod(0o755)
        os.kill(first, signal.SIGKILL)
        wait_until(lambda: yard.driver_host() not in (None, first), "another driver-host")
        wait_until(lambda: yard.get("/api/gpu/driver").status == 200, "the driver to be back")
    finally:
        yard.stop(signal.SIGKILL)


def start_devices(tmp_path, place):
    return subprocess.Popen([PROGRAM, "devices", "--simulate", "2", "--json"],
                            env=clean_environment(tmp_path, TMPDIR=place), stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_private_world_ends_after_killed_command(tmp_path, place, number):
    process = start_devices(tmp_path, place)
    wait_until(lambda: any(os.path.exists(f"{place}/{world}/lock") for world in worlds(place))
               or process.poll() is not None, "the world's keeper")
    process.send_signal(number)
    process.communicate(timeout=30)
    wait_until(lambda: not worlds(place), "the world to go")


def test_private_world_ends_after_closed_pipe(tmp_path, place):
    process = start_devices(tmp_path, place)
    process.stdout.close()
    process.wait(30)
    wait_until(lambda: not worlds(place), "the world to go")


def test_private_world_failing_to_start_leaves_no_files(tmp_path, place):
    result = subprocess.run(["sh", "-c", f'ulimit -f 0; exec "{PROGRAM}" devices --simulate 1'],
                            env=clean_environment(tmp_path, TMPDIR=place), capture_output=True, text=True,
                            timeout=30, check=False)
    assert result.returncode != 0 and "simulating" in result.stderr
    assert not worlds(place)


def test_simulate_option_ignores_configured_nvml_library(daemon, tmp_path):
    file = tmp_path / "gpuyard.toml"
    file.write_text('[driver]\nnvml = "/nowhere/libnvidia-ml.so.1"\n', encoding="ascii")
    yard = daemon("--simulate", "2", "--config", str(file))
    assert yard.get("/api/gpu/devices").json()["count"] == 2
