"""gpuyard doctor: what is there, what is not, and what to do next."""

import json

from program import wait_until


def test_a_machine_with_gpus_is_healthy(run, record_property):
    record_property("contract", "E16")
    result = run("doctor", "--simulate", "3", "--json")
    body = json.loads(result.stdout)
    assert result.returncode == 0 and result.stderr == ""
    assert body["healthy"] and body["cuda_available"] and body["simulated"]
    assert body["driver"]["gpus"] == 3 and body["driver"]["library"].endswith("libnvidia-ml.so.1")
    assert not body["daemon"]["reachable"] and body["advice"] == []


def test_missing_driver_exits_5_with_advice(run, record_property):
    record_property("contract", "E13")
    arguments = ("doctor", "--nvml", "/nowhere/libnvidia-ml.so.1")
    result = run(*arguments)
    assert result.returncode == 5
    assert "/nowhere/libnvidia-ml.so.1: cannot open shared object file" in result.stdout
    assert "--nvml" in result.stdout and "--simulate" in result.stdout
    body = json.loads(run(*arguments, "--json").stdout)
    assert not body["healthy"] and not body["cuda_available"] and body["advice"]
    assert body["driver"]["error"].startswith("/nowhere/libnvidia-ml.so.1")


def test_a_daemon_is_found_with_its_version(daemon, run):
    yard = daemon("--simulate", "2")
    result = run("doctor", "--nvml", "/nowhere/x.so", "--json", GPUYARD_SOCKET=yard.socket)
    body = json.loads(result.stdout)
    assert result.returncode == 0, "the daemon has GPUs"
    assert body["daemon"]["reachable"] and body["daemon"]["ready"]
    assert body["daemon"]["address"] == yard.socket
    assert body["daemon"]["version"] == json.loads(run("version", "--json").stdout)["version"]
    assert body["simulated"] is True and body["cuda_available"] is False


def test_daemon_started_before_driver_gets_restart_advice(daemon, run, tmp_path):
    world = str(tmp_path / "world")
    assert run("sim", "start", "--gpus", "1", "--world", world).returncode == 0
    yard = daemon("--nvml", "/nowhere/libnvidia-ml.so.1")
    driver = {"GPUYARD_SOCKET": yard.socket, "GPUYARD_SIM_WORLD": world}
    try:
        body = json.loads(run("doctor", "--json", **driver).stdout)
        alone = json.loads(run("doctor", "--json", "--simulate", "1", GPUYARD_SOCKET=yard.socket).stdout)
    finally:
        run("sim", "stop", "--world", world)
    assert body["driver"]["gpus"] == 1 and body["daemon"]["reachable"] and body["daemon"]["ready"] is False
    assert body["daemon"]["reads_kernel_log"] is not None, "what a daemon that is not ready says of itself"
    assert "started before the driver" in body["advice"][0] and "systemctl restart" in body["advice"][0]
    assert alone["advice"] == [], "the simulated GPUs of one command say nothing about the daemon's"


def test_missing_named_daemon_is_reported(run, tmp_path):
    nobody = str(tmp_path / "nobody.sock")
    result = run("doctor", "--socket", nobody)
    assert result.returncode == 5 and nobody in result.stdout


def test_lost_gpu_is_counted_with_its_reason(lease_yard):
    yard = lease_yard(gpus=2)
    assert "2 good, 0 bad, 0 unknown" in yard.must("doctor")
    yard.world.lose(0)
    wait_until(lambda: "1 good, 1 bad, 0 unknown" in yard.must("doctor"), lambda: f"the verdict: {yard.must('doctor')}")
    body = json.loads(yard.must("doctor", "--json"))
    assert body["daemon"]["verdicts"] == {"good": 1, "bad": 1, "unknown": 0}
    assert any(line.startswith("GPU 0") for line in body["advice"]), body["advice"]
