"""The examples that watch GPUs: a monitor, and a training. Over simulated GPUs, which get hot and cool."""

import http.client
import re
import shutil

import pytest

from library_world import EXAMPLES, heat, output, start_world, started, status, stop_world
from program import clean_environment, wait_until


@pytest.fixture
def world(tmp_path):
    environment = start_world(tmp_path)
    yield environment
    stop_world(environment)


@pytest.fixture
def swift_world(tmp_path):
    """In which a GPU gets hot, and cool again, within a second or two."""
    environment = start_world(tmp_path, "--speed", "60", "--load", "steady:0.5:10G")
    yield environment
    stop_world(environment)


# ---- the monitor

LOG_LINE = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ (.*)")


def log_of(done):
    """The lines of a monitor's log without their times, which each of them has."""
    lines = [LOG_LINE.fullmatch(line) for line in done.stdout.splitlines()]
    assert all(lines), done.stdout
    return [line.group(1) for line in lines]


def test_monitor_example_prints_line_per_gpu_and_interval(world, record_property):
    record_property("contract", "C15 C5 C2 C10")
    done = status(EXAMPLES / "example_gpu_monitor", "--interval", "1", "--count", "2", env=world)
    assert done.returncode == 0, done
    lines = [line for line in log_of(done) if not line.startswith("ALERT")]
    assert len(lines) == 4
    for index, line in zip([0, 1, 0, 1], lines):
        assert re.fullmatch(rf"GPU {index}: \d+°C, \d+% util, \d+\.\d GB / 85\.5 GB", line), line


def test_monitor_example_reports_hot_gpu(swift_world, record_property):
    record_property("contract", "C15 C10 C9 C8 C6")
    heat(swift_world, 1, 80)

    def told():
        done = status(EXAMPLES / "example_gpu_monitor", "--count", "1", env=swift_world)
        return done if "GPU 1: temperature" in done.stderr else None
    done = wait_until(told, "the hot GPU to be told of")
    alerts = done.stderr.splitlines()
    assert alerts == [line for line in log_of(done) if line.startswith("ALERT")]
    hot = re.fullmatch(r"ALERT \[severity (\d+)\]: GPU 1: temperature is (\d+) C, threshold 80 C",
                       alerts[0])
    assert hot and int(hot[1]) == min(100, 50 + int(hot[2]) - 80)


def test_the_monitor_example_serves_prometheus(world, tmp_path, record_property):
    record_property("contract", "C15 C13 C14")
    monitor = EXAMPLES / "example_gpu_monitor"
    serving = started(monitor, "--interval", "5", "--prometheus", "--port", "0",
                      environment=world, directory=tmp_path)
    try:
        where = wait_until(lambda: re.search(r"serving http://127\.0\.0\.1:(\d+)/metrics\n",
                                             (tmp_path / "stderr").read_text()), "a port")
        connection = http.client.HTTPConnection("127.0.0.1", int(where[1]), timeout=30)
        connection.request("GET", "/metrics")
        answer = connection.getresponse()
        text = answer.read().decode()
        assert answer.getheader("X-Gpuyard-Simulated") == "true"
        for index in (0, 1):
            for name in ("temperature_celsius", "utilization_percent", "memory_used_bytes",
                         "power_watts"):
                assert re.search(rf'^gpuyard_gpu_{name}{{device="{index}"}} \S+$', text,
                                 re.MULTILINE), name
        if promtool := shutil.which("promtool"):
            output(promtool, "check", "metrics", input=text)
        taken = status(monitor, "--prometheus", "--port", where[1], env=world)
        assert taken.returncode == 1
        assert taken.stderr.startswith(f"127.0.0.1:{where[1]} is in use by another program;")
    finally:
        serving.kill()
        serving.wait()


@pytest.mark.parametrize("arguments", [["--interval"], ["--interval", "0"], ["--count", "x"],
                                       ["--nonsense", "1"], ["--port", "9090"],
                                       ["--prometheus", "--port", "65536"]], ids=" ".join)
def test_monitor_example_prints_usage(arguments):
    done = status(EXAMPLES / "example_gpu_monitor", *arguments)
    assert done.returncode == 2 and done.stderr.startswith("usage: ")


# ---- a training

TRAINING = EXAMPLES / "example_training_dlib"
with_dlib = pytest.mark.skipif(not TRAINING.exists(), reason="built without dlib")
EPOCH = (r"epoch \d+: [\d.]+ s, \d+ steps, \d+ J, peak [\d.]+ GB, \d+ C, \d+ % util")


@pytest.fixture
def training(swift_world, tmp_path):
    """Starts a training that goes on for long, and comes back when its first epoch is over."""
    processes = []

    def start(*arguments):
        processes.append(started(TRAINING, "--epochs", "1000000", "--points", "2000",
                                 "--interval", "0.1", *arguments, environment=swift_world,
                                 directory=tmp_path))
        shown = tmp_path / "stdout"
        wait_until(lambda: "epoch 1: " in shown.read_text(), "the first epoch")
        return processes[0], shown
    yield start
    for process in processes:
        process.kill()
        process.wait()


@with_dlib
def test_the_training_example_reports_each_epoch(world, record_property):
    record_property("contract", "C12")
    shown = output(TRAINING, "--epochs", "3", "--thermal", "150", env=world).splitlines()
    for epoch in shown[:3]:
        assert re.fullmatch(EPOCH + r"; accuracy [\d.]+", epoch), epoch
    assert re.fullmatch(rf"in all: {EPOCH}; paused 0 s, \d+ alerts", shown[3])
    assert shown[3].startswith("in all: epoch 3: ") and ", 2400 steps, " in shown[3]
    assert shown[4:] == ["verdict: trained"]


@with_dlib
def test_training_pauses_while_gpu_is_hot(training, swift_world, record_property):
    record_property("contract", "C12")
    _, shown = training()
    heat(swift_world, 1, 80)
    wait_until(lambda: "paused: GPU 1: temperature is " in shown.read_text(), "the pause")
    before = shown.read_text().count("epoch ")
    heat(swift_world, 1, 0)
    wait_until(lambda: "going on\n" in shown.read_text(), "the end of the pause")
    wait_until(lambda: shown.read_text().count("epoch ") > before + 1, "another epoch")


@with_dlib
def test_stop_option_ends_training_on_hot_gpu(training, swift_world, record_property):
    record_property("contract", "C12")
    process, shown = training("--on-alert", "stop")
    heat(swift_world, 0, 80)
    assert process.wait(60) == 3
    last = shown.read_text().splitlines()[-1]
    assert re.fullmatch(r"verdict: stopped: GPU 0: temperature is \d+ C, threshold 80 C", last), last


@with_dlib
def test_training_without_driver_runs_without_energy(tmp_path, record_property):
    record_property("contract", "C12")
    environment = clean_environment(tmp_path) | {"GPUYARD_SIM_WORLD": str(tmp_path / "none")}
    shown = output(TRAINING, "--epochs", "1", env=environment)
    assert "no joules: failed to initialise NVML: Driver Not Loaded\n" in shown
    assert shown.endswith("verdict: trained\n")
