"""Missing, broken or wrong parts: each has a helpful answer, and nothing hangs."""

import ctypes
import fcntl
import json
import os
import re
import signal
import subprocess
import termios
import time

import pytest

from program import PATIENCE, PROGRAM, UnixConnection, clean_environment, wait_until


# ---- no driver


def test_daemon_without_library_serves_and_says_so(daemon, record_property):
    record_property("contract", "E6 E7 E9 E13")
    yard = daemon("--nvml", "/nowhere/libnvidia-ml.so.1")
    devices = yard.get("/api/gpu/devices")
    assert (devices.status, devices.json()) == (200, {"devices": [], "count": 0})
    driver = yard.get("/api/gpu/driver")
    assert driver.status == 503
    assert list(driver.json()) == ["detail"] and "/nowhere/libnvidia-ml.so.1" in driver.json()["detail"]
    assert yard.get("/ready").status == 503
    assert yard.get("/health").status == 200
    assert "\ngpuyard_driver_up 0\n" in yard.get("/metrics").text
    assert re.search(r"NVML initialization failed: .*\. GPU features disabled\.", yard.log())


def the_loader_finds_nvml():
    try:
        return bool(ctypes.CDLL("libnvidia-ml.so.1"))
    except OSError:
        return False


@pytest.mark.skipif(the_loader_finds_nvml(), reason="this machine has NVIDIA's library")
def test_missing_library_is_logged_in_agreed_words(daemon, record_property):
    record_property("contract", "E9")
    assert ("NVML initialization failed: NVML Shared Library Not Found. GPU features disabled."
            in daemon().log())


def test_missing_driver_exits_5_with_empty_json(run, record_property):
    record_property("contract", "E6 A14 C18 E10")
    devices = run("devices", "--json", "--nvml", "/nowhere/lib.so")
    assert devices.returncode == 5
    assert json.loads(devices.stdout)["devices"] == []
    assert "failed to initialise NVML: " in devices.stderr
    for way in ("ldconfig -p", "gpuyard doctor", "--simulate 4"):
        assert way in devices.stderr, devices.stderr
    driver = run("driver", "--json", "--nvml", "/nowhere/lib.so")
    assert driver.returncode == 5
    assert json.loads(driver.stdout)["driver_version"] is None


def test_free_without_a_driver_fails_at_once(daemon, run):
    yard = daemon("--nvml", "/nowhere/lib.so")
    began = time.monotonic()
    free = run("free", "-n", "1", "--socket", yard.socket)
    assert free.returncode == 5, free.stderr
    assert time.monotonic() - began < 10


# ---- a sick GPU or a sick driver-host


def test_unopenable_gpu_is_unavailable_while_others_return(daemon, record_property):
    record_property("contract", "A13 E6")
    yard = daemon("--simulate", "4")
    yard.sim("inject", "--gpu", "2", "--call", "any", "--never-returns")
    os.kill(yard.driver_host(), signal.SIGKILL)
    wait_until(lambda: sum(gpu["is_available"]
                           for gpu in yard.get("/api/gpu/devices").json()["devices"]) == 3,
               "the three good GPUs to be back")
    sick = yard.get("/api/gpu/devices").json()["devices"][2]
    assert sick["error_message"] == "the driver did not open this GPU in time"


def test_full_log_pipe_does_not_block_daemon(tmp_path):
    # A full pipe: a writer that waits for it never returns.
    read_end, write_end = os.pipe()
    os.set_blocking(write_end, False)
    try:
        while True:
            os.write(write_end, b"x" * 4096)
    except BlockingIOError:
        os.set_blocking(write_end, True)
    path = str(tmp_path / "g.sock")
    process = subprocess.Popen([PROGRAM, "serve", "--simulate", "1", "--listen", "127.0.0.1:0",
                                "--socket", path, "--state", str(tmp_path / "s")],
                               env=clean_environment(tmp_path), stderr=write_end)
    try:
        def answers():
            connection = UnixConnection(path)
            try:
                connection.request("GET", "/ready")
                return connection.getresponse().status == 200
            except OSError:
                return False
            finally:
                connection.close()
        wait_until(answers, "the daemon to be ready although its log is stuck")
        process.terminate()
        assert process.wait(30) == 0
    finally:
        process.kill()
        os.close(read_end)
        os.close(write_end)


@pytest.mark.parametrize("arguments", [["version"], ["config", "init"], ["devices", "--simulate", "1"]],
                         ids=" ".join)
def test_closed_descriptors_and_full_disks_are_no_crash(tmp_path, arguments):
    command = " ".join([PROGRAM, *arguments])
    for redirection in ("<&- >&- 2>&-", ">/dev/full 2>/dev/full", ">&-", "2>&-"):
        status = subprocess.run(["sh", "-c", f"exec {command} {redirection}"],
                                env=clean_environment(tmp_path), stdout=subprocess.DEVNULL,
                                timeout=30, check=False).returncode
        assert status in (0, 1), (redirection, status)


def test_closed_standard_descriptors_keep_log_out_of_state(tmp_path):
    state = tmp_path / "s"
    process = subprocess.Popen(
        ["sh", "-c", f"exec {PROGRAM} serve --simulate 1 --listen 127.0.0.1:0 "
                     f"--socket {tmp_path}/g.sock --state {state} <&- >&- 2>&-"],
        env=clean_environment(tmp_path))
    try:
        wait_until(lambda: (tmp_path / "g.sock").exists(), "the daemon to listen")
        assert (state / "lock").read_text() == str(process.pid)
    finally:
        process.kill()
        process.wait()


def test_a_closed_terminal_ends_the_daemon_cleanly(daemon):
    keyboard, terminal = os.openpty()

    def take_terminal():
        os.setsid()
        fcntl.ioctl(terminal, termios.TIOCSCTTY, 0)
    yard = daemon("--simulate", "1", preexec_fn=take_terminal)
    os.close(terminal)
    os.close(keyboard)
    assert yard.process.wait(PATIENCE) == 0
    assert not os.path.exists(yard.socket)


def test_without_a_terminal_a_hangup_is_no_end(daemon):
    yard = daemon("--simulate", "1", preexec_fn=os.setsid)
    yard.process.send_signal(signal.SIGHUP)
    yard.wait_for_log("configuration reloaded")
    assert yard.process.poll() is None


# ---- something else is there already


def test_second_daemon_on_same_state_is_refused(daemon, run):
    yard = daemon("--simulate", "1")
    second = run("serve", "--state", yard.state, "--socket", yard.socket + "2",
                 "--listen", "127.0.0.1:0")
    assert second.returncode == 7
    assert f"(PID {yard.process.pid})" in second.stderr and "--state" in second.stderr
    assert yard.get("/health").status == 200
