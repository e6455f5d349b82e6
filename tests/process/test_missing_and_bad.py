"""Missing, broken or wrong parts: each has a helpful answer, and nothing hangs."""

import ctypes
import fcntl
import json
import os
import re
import signal
import socket
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


def test_at_debug_level_an_empty_answer_is_explained(daemon, record_property):
    record_property("contract", "E9")
    yard = daemon("--nvml", "/nowhere/lib.so", "--log-level", "debug")
    yard.get("/api/gpu/devices")
    assert "NVML not initialized, returning empty device list" in yard.log()


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


def test_daemon_without_driver_gives_cli_exit_5(daemon, run):
    yard = daemon("--nvml", "/nowhere/lib.so")
    devices = run("devices", "--json", "--socket", yard.socket)
    assert devices.returncode == 5
    assert json.loads(devices.stdout)["devices"] == []


def test_free_without_a_driver_fails_at_once(daemon, run):
    yard = daemon("--nvml", "/nowhere/lib.so")
    began = time.monotonic()
    free = run("free", "-n", "1", "--socket", yard.socket)
    assert free.returncode == 5, free.stderr
    assert time.monotonic() - began < 10


def test_library_without_nvml_counts_as_missing_driver(daemon):
    yard = daemon("--nvml", "libc.so.6")
    assert yard.get("/api/gpu/driver").status == 503
    assert yard.get("/api/gpu/devices").json()["count"] == 0


def test_missing_simulated_world_reads_driver_not_loaded(run, tmp_path):
    devices = run("devices", "--local", GPUYARD_SIM_WORLD=str(tmp_path / "no-world"))
    assert devices.returncode == 5
    assert "failed to initialise NVML: Driver Not Loaded" in devices.stderr


# ---- a sick GPU or a sick driver-host


def test_lost_gpu_is_listed_beside_seven_available_gpus(daemon, record_property):
    record_property("contract", "E2 E6 E9 A13")
    yard = daemon("--simulate", "8")
    yard.sim("inject", "--gpu", "3", "--lost")
    body = yard.get("/api/gpu/devices").json()
    assert body["count"] == 8
    sick = body["devices"][3]
    assert sick["is_available"] is False and sick["error_message"] == "GPU is lost"
    assert sick["name"] is not None
    assert all(sick[key] is None for key in ("total_memory_mb", "free_memory_mb", "used_memory_mb",
                                             "utilization_percent", "temperature_c"))
    assert all(gpu["is_available"] for gpu in body["devices"] if gpu["index"] != 3)
    yard.wait_for_log("Error querying GPU device 3: GPU is lost")
    wait_until(lambda: 'gpu_responsive{device="3"} 0' in yard.get("/metrics").text, "the metric")
    yard.sim("inject", "--gpu", "3", "--clear")
    assert yard.get("/api/gpu/devices").json()["devices"][3]["is_available"] is True


def test_failing_reading_is_null_and_has_no_series(daemon, record_property):
    record_property("contract", "E2 A8")
    yard = daemon("--simulate", "8")
    yard.sim("inject", "--gpu", "5", "--call", "utilization_rates", "--code", "3")
    gpu = yard.get("/api/gpu/devices").json()["devices"][5]
    assert gpu["utilization_percent"] is None and gpu["is_available"] is True
    wait_until(lambda: 'gpu_utilization_percent{device="5"}' not in yard.get("/metrics").text,
               "the series to go")
    assert 'utilization_percent{device="4"}' in yard.get("/metrics").text


def test_failing_query_is_logged_once_in_agreed_words(daemon, record_property):
    record_property("contract", "E9")
    yard = daemon("--simulate", "2")
    yard.sim("inject", "--gpu", "0", "--call", "utilization_rates", "--code", "999")
    line = "Error querying GPU device 0: Unknown Error"
    yard.wait_for_log(line)
    for _ in range(20):
        yard.get("/api/gpu/devices")
    assert yard.log().count(line) == 1


def test_hanging_gpu_is_unavailable_while_others_answer(daemon, record_property):
    record_property("contract", "E2 A13")
    yard = daemon("--simulate", "8")
    yard.sim("inject", "--gpu", "2", "--call", "any", "--never-returns")
    body = yard.get("/api/gpu/devices").json()
    assert body["devices"][2]["is_available"] is False
    assert sum(gpu["is_available"] for gpu in body["devices"]) == 7

    def unresponsive():
        gpu = yard.get("/api/gpu/snapshot").json()["devices"][2]
        return gpu["condition"] == "unresponsive" and gpu["readings"]["power_draw_w"] is not None
    wait_until(unresponsive, "the GPU to be called unresponsive with its last readings")
    assert yard.stop() == 0


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


def test_gpu_that_failed_to_open_recovers(daemon):
    yard = daemon("--simulate", "2")
    yard.sim("inject", "--gpu", "1", "--call", "identity", "--code", "999")
    os.kill(yard.driver_host(), signal.SIGKILL)

    def broken():
        devices = yard.get("/api/gpu/devices").json()["devices"]
        return devices[0]["is_available"] and devices[1]["error_message"] == "Unknown Error"
    wait_until(broken, "the GPU to be broken")
    yard.sim("inject", "--gpu", "1", "--clear")
    wait_until(lambda: yard.get("/api/gpu/devices").json()["devices"][1]["is_available"],
               "the GPU to be opened again")


def test_replaced_driver_starts_a_new_session(daemon):
    yard = daemon("--simulate", "2")
    host = yard.driver_host()
    for gpu in "01":
        yard.sim("inject", "--gpu", gpu, "--call", "any", "--code", "18")
    wait_until(lambda: yard.driver_host() not in (None, host), "another driver-host")
    for gpu in "01":
        yard.sim("inject", "--gpu", gpu, "--clear")
    wait_until(lambda: all(gpu["is_available"]
                           for gpu in yard.get("/api/gpu/devices").json()["devices"]),
               "the GPUs to be back")


def test_replaced_binary_still_starts_driver_host(daemon, tmp_path):
    import shutil
    copy = tmp_path / "gpuyard"
    shutil.copy(PROGRAM, copy)
    shutil.copytree(os.path.join(os.path.dirname(PROGRAM), "sim"), tmp_path / "sim")
    yard = daemon("--simulate", "1", program=str(copy))
    host = yard.driver_host()
    copy.unlink()
    copy.write_text("another version")
    os.kill(host, signal.SIGKILL)
    wait_until(lambda: yard.driver_host() not in (None, host), "another driver-host")
    wait_until(lambda: yard.get("/api/gpu/driver").status == 200, "the driver to be back")


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


def test_dead_world_server_unloads_driver_until_restart(daemon):
    yard = daemon("--simulate", "2")
    os.kill(yard.keeper(), signal.SIGKILL)
    wait_until(lambda: yard.get("/api/gpu/driver").json() == {"detail": "Driver Not Loaded"},
               "the driver to be gone")
    assert yard.get("/ready").status == 503
    yard.sim("start", "--gpus", "2")
    try:
        wait_until(lambda: yard.get("/ready").status == 200, "the new world to be found")
    finally:
        yard.sim("stop")


def test_a_killed_driver_host_is_replaced(daemon):
    yard = daemon("--simulate", "4")
    before = yard.get("/api/gpu/snapshot").json()
    first = yard.driver_host()
    os.kill(first, signal.SIGKILL)
    assert yard.get("/health").status == 200
    assert yard.get("/api/gpu/devices").status == 200
    wait_until(lambda: yard.driver_host() not in (None, first), "another driver-host")
    wait_until(lambda: yard.get("/api/gpu/driver").status == 200, "the driver to be back")
    after = wait_until(lambda: (s := yard.get("/api/gpu/snapshot").json())["devices"] and s,
                       "devices")
    assert ([gpu["uuid"] for gpu in after["devices"]] == [gpu["uuid"] for gpu in before["devices"]])
    assert "driver-host exited; starting another" in yard.log()


def test_stopped_driver_host_does_not_stop_api(daemon):
    yard = daemon("--simulate", "4")
    os.kill(yard.driver_host(), signal.SIGSTOP)
    body = yard.get("/api/gpu/devices").json()
    assert body["count"] == 4 and not any(gpu["is_available"] for gpu in body["devices"])
    os.kill(yard.driver_host(), signal.SIGCONT)
    wait_until(lambda: all(gpu["is_available"]
                           for gpu in yard.get("/api/gpu/devices").json()["devices"]),
               "the GPUs to be back")


# ---- something else is there already


def test_second_daemon_on_same_state_is_refused(daemon, run):
    yard = daemon("--simulate", "1")
    second = run("serve", "--state", yard.state, "--socket", yard.socket + "2",
                 "--listen", "127.0.0.1:0")
    assert second.returncode == 7
    assert f"(PID {yard.process.pid})" in second.stderr and "--state" in second.stderr
    assert yard.get("/health").status == 200


def test_socket_in_use_is_refused_with_exit_7(daemon, run, tmp_path):
    yard = daemon("--simulate", "1")
    second = run("serve", "--state", str(tmp_path / "other"), "--socket", yard.socket,
                 "--listen", "127.0.0.1:0")
    assert second.returncode == 7 and yard.socket in second.stderr
    assert yard.get("/health", unix=True).status == 200


def test_a_stale_socket_file_is_replaced(daemon, tmp_path):
    first = daemon("--simulate", "1")
    first.stop(signal.SIGKILL)
    assert os.path.exists(first.socket)
    second = daemon("--simulate", "1", directory=first.directory)
    assert second.get("/health", unix=True).status == 200


def test_file_that_is_no_socket_is_kept(run, tmp_path):
    precious = tmp_path / "thesis.txt"
    precious.write_text("x")
    served = run("serve", "--state", str(tmp_path / "s"), "--socket", str(precious),
                 "--listen", "127.0.0.1:0")
    assert served.returncode != 0 and str(precious) in served.stderr
    assert precious.read_text() == "x"


def test_busy_port_is_named_with_remedy(run, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as holder:
        port = holder.getsockname()[1]
        served = run("serve", "--state", str(tmp_path / "s"), "--socket", str(tmp_path / "g.sock"),
                     "--listen", f"127.0.0.1:{port}")
    assert served.returncode == 7
    assert f"127.0.0.1:{port}" in served.stderr and "--listen" in served.stderr


# ---- what the user says


@pytest.mark.parametrize("arguments", [
    ["nonsense"], ["devices", "--nonsense"], ["serve", "--simulate", "0"],
    ["serve", "--simulate", "65"], ["serve", "--simulate", "many"], ["serve", "--listen", "nowhere"],
    ["serve", "--metrics-prefix", "9"], ["serve", "--log-level", "loud"], ["sim", "start", "--load", "heavy"],
    ["devices", "--socket", "localhost"], ["serve", "--state", ""], ["serve", "--socket", ""], ["sim", "inject", "--gpu", "0"],
], ids=" ".join)
def test_bad_flags_are_usage_errors(run, arguments):
    result = run(*arguments)
    assert result.returncode == 2, result.stderr
    assert result.stdout == "" and result.stderr != ""


@pytest.mark.parametrize("text, said", [
    ("[server]\nlisten = 5\n", ":2: server.listen: expected a list of strings; got 5"),
    ("\n\n[server]\nlissten = []\n", ':4: unknown key "server.lissten"'),
    ("[sever]\n", ':1: unknown section "sever"'),
    ("[log]\nlevel = \"loud\"\n", ':2: log.level: expected debug, info, warning or error; got "loud"'),
    ("[server\n", ":1: "),
    ("a = = b\n", ":1: "),
], ids=range(6))
def test_a_bad_configuration_is_refused_with_its_line(run, tmp_path, text, said):
    file = tmp_path / "bad.toml"
    file.write_text(text)
    for verb in (["serve"], ["config", "validate"]):
        result = run(*verb, "--config", str(file))
        assert result.returncode == 2
        assert f"{file}{said}" in result.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="who is not root trusts himself")
def test_root_believes_no_file_that_others_may_change(run, tmp_path):
    file, alerts = tmp_path / "gpuyard.toml", tmp_path / "alerts.toml"
    file.write_text("")
    alerts.write_text("")
    for untrusted in (file, alerts):
        file.chmod(0o600)
        untrusted.chmod(0o646)
        result = run("serve", "--simulate", "1", "--config", str(file))
        assert result.returncode == 2
        assert f"other users can write to {untrusted}, which belongs to root (mode 0646)\n" in result.stderr
        assert f"  try:   chmod go-w {untrusted}\n" in result.stderr


def test_a_configuration_file_that_is_named_must_exist(run):
    result = run("config", "validate", "--config", "/nowhere/gpuyard.toml")
    assert result.returncode == 2 and "/nowhere/gpuyard.toml" in result.stderr


def test_silent_daemon_is_error_without_local_fallback(run, tmp_path):
    path = str(tmp_path / "mute.sock")
    with socket.socket(socket.AF_UNIX) as mute:
        mute.bind(path)
        mute.listen()
        result = run("devices", "--socket", path)
    assert result.returncode == 5 and path in result.stderr


def test_named_but_missing_daemon_is_error(run):
    result = run("devices", "--socket", "/nowhere/gpuyard.sock")
    assert result.returncode == 5 and "/nowhere/gpuyard.sock" in result.stderr


def test_state_directory_that_cannot_be_made_is_named(run):
    result = run("serve", "--state", "/dev/null/state", "--listen", "127.0.0.1:0")
    assert result.returncode != 0 and "/dev/null" in result.stderr


def test_a_closed_pipe_is_no_error(tmp_path):
    with subprocess.Popen([PROGRAM, "config", "init"], env=clean_environment(tmp_path),
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdout.close()
        assert process.wait(30) in (0, -signal.SIGPIPE)
        assert process.stderr.read() == b""
