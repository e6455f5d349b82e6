"""Energy as a daemon stores it and as a command measures it, compared with the simulated world's count."""

import json
import os
import signal
import subprocess

import pytest

from program import PATIENCE, PROGRAM, clean_environment, wait_until
from schemas import validate

WINDOWS = "/api/gpu/energy/windows"
EXACT = 0.01  # joules: counters are whole millijoules


def call(yard, method, path, body=None, tcp=False):
    return yard.get(path, unix=not tcp, method=method, body=body)


def begin(yard, **wish):
    answer = call(yard, "POST", WINDOWS, wish)
    assert answer.status == 201, answer.text
    return answer.json()


def end(yard, window):
    answer = call(yard, "DELETE", f"{WINDOWS}/{window['id']}")
    assert answer.status == 200, answer.text
    return answer.json()


def report(yard):
    return call(yard, "GET", "/api/gpu/energy").json()


def has_readings(yard, gpus):
    """Until every GPU was read once."""
    wait_until(lambda: sum(gpu["joules"] is not None for gpu in report(yard)["gpus"]) == gpus,
               "the first readings of energy")
    return yard


@pytest.fixture
def still(world):
    """A world that moves only by `step`, so that its counters are exact."""
    world.start("--gpus", "2", "--load", "steady:0.8", "--stepped")
    world.must("step", "5s")

    def joules(gpu):
        return world.gpu(gpu)["energy_joules"]
    world.joules = joules
    return world


def serving(daemon, world, **options):
    yard = has_readings(daemon(GPUYARD_SIM_WORLD=str(world.directory), **options), 2)
    wait_until(lambda: report(yard)["notes"] == [], "the books to be read")
    return yard


# ---- windows


# ---- what happens to daemons and GPUs


def test_killed_daemon_leaves_no_gap_in_energy(daemon, still, tmp_path):
    place = tmp_path / "yard"
    yard = serving(daemon, still, directory=place)
    seen = report(yard)["gpus"][0]["since"]
    window, before = begin(yard, name="long"), still.joules(0)
    still.must("step", "3s")
    yard.process.send_signal(signal.SIGKILL)
    yard.process.wait()
    away = still.joules(0)
    still.must("step", "20s")
    yard = serving(daemon, still, directory=place)
    wait_until(lambda: report(yard)["gpus"][0]["accounts"]["daemon_down_joules"] > 0,
               "the energy of the time between")
    still.must("step", "2s")
    ended = end(yard, window)
    now = still.joules(0)
    assert abs(ended["gpus"][0]["joules"] - (now - before)) < EXACT
    assert ended["name"] == "long" and ended["gpus"][0]["interrupted"] is False
    gpu = report(yard)["gpus"][0]
    assert gpu["since"] == seen and gpu["epoch"]["number"] == 1
    assert gpu["accounts"]["daemon_down_joules"] >= now - away - 2000
    assert abs(sum(gpu["accounts"].values()) - gpu["joules"]) < EXACT


# ---- a command


def test_measured_command_keeps_output_and_exit_status(run, tmp_path):
    path = tmp_path / "report.json"
    done = run("energy", "--simulate", "2", "--report", str(path), "--",
               "sh", "-c", "echo out; echo err >&2; sleep 1; exit 7")
    assert (done.returncode, done.stdout) == (7, "out\n")
    assert done.stderr.startswith("err\ngpuyard: ") and "GPU 1: " in done.stderr
    told = json.loads(path.read_text())
    assert told["exit_code"] == 7 and told["simulated"] is True
    assert 1 <= told["seconds"] < 15 and len(told["gpus"]) == 2
    for gpu in told["gpus"]:
        assert gpu["seconds"] >= 1 and gpu["joules"] > 50
        assert gpu["peak_w"] >= gpu["mean_w"] * 0.99


@pytest.mark.parametrize("command, code", [
    (["/nowhere/command"], 127), (["/etc/passwd"], 126), (["sh", "-c", "kill -TERM $$"], 143),
    (["true"], 0)], ids=lambda value: str(value))
def test_abnormal_command_end_has_shell_exit_code(run, command, code):
    assert run("energy", "--simulate", "1", "--", *command).returncode == code


def test_signals_reach_measured_command(tmp_path):
    script = "trap 'echo caught; exit 3' TERM; echo ready; while :; do sleep 0.1; done"
    process = subprocess.Popen([PROGRAM, "energy", "--simulate", "1", "--", "sh", "-c", script],
                               env=clean_environment(tmp_path), text=True,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=PATIENCE)
    assert (process.returncode, out) == (3, "caught\n")
    assert "gpuyard: " in err


def test_running_daemon_measures_command(run, daemon, still):
    yard = serving(daemon, still)
    before = [still.joules(0), still.joules(1)]
    step = [PROGRAM, "sim", "step", "--world", str(still.directory), "10s"]
    done = run("energy", "--json", "--socket", yard.socket, "--", *step)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stderr)
    used = [still.joules(0) - before[0], still.joules(1) - before[1]]
    assert abs(told["joules"] - sum(used)) < EXACT
    assert call(yard, "GET", WINDOWS).json()["windows"] == [], "it leaves none behind"
    one = run("energy", "--json", "--socket", yard.socket, "--", "true", CUDA_VISIBLE_DEVICES="1")
    assert [gpu["index"] for gpu in json.loads(one.stderr)["gpus"]] == [1]
    named = run("energy", "--json", "--socket", yard.socket, "--gpus", "1,0", "--", "true")
    assert [gpu["index"] for gpu in json.loads(named.stderr)["gpus"]] == [0, 1]
    refused = run("energy", "--socket", yard.socket, "--gpus", "5", "--", "true")
    assert refused.returncode == 6 and 'gpus: GPU "5" not found' in refused.stderr


# ---- what cannot be read


NO_ENERGY = ("power_usage", "total_energy", "field_values")


def blind(world, gpu, code=3):
    for which in NO_ENERGY:
        world.fail(gpu, which, code)


def test_unmeasurable_gpu_is_named_and_excluded_from_sum(run, daemon, still):
    blind(still, 0)
    yard = has_readings(daemon(GPUYARD_SIM_WORLD=str(still.directory)), 1)
    wait_until(lambda: not any("until the state is read" in note for note in report(yard)["notes"]), "the books")
    still.must("step", "5s")
    told = json.loads(run("energy", "--json", "--socket", yard.socket).stdout)
    validate(told, "energy")
    unknown, known = told["gpus"]
    assert unknown["index"] == 0 and unknown["joules"] is None and "not supported" in unknown["why"].lower()
    assert unknown["accounts"] is unknown["epoch"] is unknown["since"] is None
    assert known["joules"] is not None and known["why"] is None
    assert told["partial"] is True and told["joules"] == known["joules"]
    assert any("GPU 0" in note and "not included in the sum" in note for note in told["notes"])
    table = run("energy", "--socket", yard.socket).stdout.splitlines()
    assert table[1].split()[:4] == ["0", "-", "-", "-"] and "neither an energy counter nor power" in table[1]
    assert "at least" in next(line for line in table if line.startswith("Total:"))


def test_command_on_unmeasurable_gpu_has_unknown_energy(run, world):
    world.start("--gpus", "2", "--load", "steady:0.5")
    blind(world, 0)
    way = {"GPUYARD_SIM_WORLD": str(world.directory)}
    words = ["--local", "--nvml", os.environ["GPUYARD_SIM_LIB"]]
    one = run("energy", *words, "--gpus", "0", "--", "sh", "-c", "sleep 1.5; echo ran; exit 4", **way)
    assert (one.returncode, one.stdout) == (4, "ran\n"), one.stderr
    assert "gpuyard: energy unknown in 1." in one.stderr and "0 J" not in one.stderr, one.stderr
    assert "GPU 0: energy unknown\n" in one.stderr or "GPU 0: energy unknown (no reading" in one.stderr
    both = run("energy", *words, "--json", "--", "sleep", "1.5", **way)
    told = json.loads(both.stderr)
    assert [gpu["joules"] is None for gpu in told["gpus"]] == [True, False]
    assert told["partial"] is True and told["joules"] == told["gpus"][1]["joules"] > 0
    assert "at least" in run("energy", *words, "--", "sleep", "1.5", **way).stderr


def test_energy_is_shown_as_a_table(run, daemon, still):
    yard = serving(daemon, still)
    still.must("step", "10s")
    wait_until(lambda: report(yard)["joules"] > 1000, "some energy")
    shown = run("energy", "--socket", yard.socket)
    assert shown.returncode == 0, shown.stderr
    assert "Total: " in shown.stdout and "These GPUs are simulated." in shown.stdout
    alone = run("energy", "--simulate", "1")
    assert alone.returncode == 5 and "energy accounting needs a daemon" in alone.stderr
