"""`gpuyard check`, as a monitoring system runs it: its line and its exit code are all that is looked at."""

import json

import pytest
from lease_yard import LeaseYard
from program import wait_until
from schemas import validate

QUICK = "[rule.gpu-lost]\nclear_hold_s = 2\n[rule.driver-down]\nhold_s = 1\n"
DAEMON_GONE = {"GPUYARD_SOCKET": "/nowhere/gpuyard.sock"}


@pytest.fixture
def yard(tmp_path, daemon):
    file = tmp_path / "alerts.toml"
    file.write_text(QUICK, encoding="utf-8")
    yard = LeaseYard(tmp_path, daemon, 2, f'[alerts]\nfile = "{file}"\n')
    yield yard
    yard.end()


def checked(yard, *flags, **environment):
    done = yard.go("check", *flags, **environment)
    assert done.stderr == "", done.stderr
    assert done.stdout.count("\n") == 1
    return done.returncode, done.stdout.rstrip("\n")


def wait_for_code(yard, code):
    wait_until(lambda: yard.go("check").returncode == code, f"exit code {code}")


def test_lost_gpu_is_critical_until_it_is_back(yard):
    wait_for_code(yard, 0)
    assert checked(yard) == (0, "GPU OK - 2 of 2 GPUs are good | good=2 bad=0 unknown=0 cordoned=0")
    assert checked(yard, "--npd") == (0, "2 of 2 GPUs are good")
    yard.must("sim", "inject", "--gpu", "1", "--lost")
    wait_for_code(yard, 2)
    code, line = checked(yard)
    assert code == 2 and line.startswith("GPU CRITICAL - GPU 1 is lost"), line
    assert "reset the GPU or reboot the machine" in line and line.endswith("| good=1 bad=1 unknown=0 cordoned=0")
    code, line = checked(yard, "--npd")
    assert code == 1 and line.startswith("GPU 1 is lost") and len(line.encode()) <= 80
    done = yard.go("check", "--json")
    assert done.returncode == 2
    answer = json.loads(done.stdout)
    validate(answer, "verdict")
    assert [gpu["verdict"] for gpu in answer["gpus"]] == ["good", "bad"]
    assert answer["gpus"][1]["rule"] == "gpu-lost" and answer["gpus"][1]["minor"] == 1
    assert yard.daemon.get("/api/gpu/verdict").json() == answer
    yard.must("sim", "reset", "--gpu", "1")
    wait_for_code(yard, 0)


def test_what_cannot_be_asked_is_unknown(yard):
    code, line = checked(yard, **DAEMON_GONE)
    assert code == 3 and line.startswith("GPU UNKNOWN - ") and "|" not in line
    assert checked(yard, "--npd", **DAEMON_GONE)[0] == 2


@pytest.mark.parametrize("words", (["--nagios"], ["0"], ["--npd", "--json"], ["-H", "a", "-H", "b"]))
def test_wrong_usage_is_unknown(yard, words):
    done = yard.go("check", *words)
    assert done.returncode == 3 and done.stdout == "" and done.stderr.startswith("gpuyard: ")
