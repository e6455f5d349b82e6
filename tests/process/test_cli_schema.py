"""The output of --json: its schemas are committed, generated from the records, and hold."""

import json
import os

import jsonschema
import pytest

from schemas import COMMITTED, committed, validate

# Each schema, and commands that answer by it.
ANSWERS = {
    "alert": [],  # alerts: of a daemon that has some
    "alert-history": [],
    "alerts": [],
    "audit": [],  # what changes GPUs: test_control_cli.py
    "bottlenecks": [],  # of a daemon that has some: test_bottleneck.py
    "changes": [],
    "config": [("config", "print", "--json")],
    "cordon": [],  # leases: test_lease_cli.py
    "devices": [("devices", "--json", "--simulate", "2"),
                ("devices", "1", "--json", "--simulate", "2"),
                ("watch", "--json", "--count", "1", "--simulate", "1")],
    "doctor": [("doctor", "--json"), ("doctor", "--json", "--simulate", "1")],
    "driver": [("driver", "--json", "--simulate", "1"),
               ("driver", "--json", "--nvml", "/nowhere/libnvidia-ml.so.1")],
    "events": [],  # needs a daemon: test_events_stream.py
    "energy": [],  # only of a daemon: test_energy.py
    "energy-command": [("energy", "--simulate", "2", "--report", "-", "--", "true")],
    "fleet": [],  # many machines: tests/fleet
    "fleet-alerts": [],
    "fleet-doctor": [],
    "fleet-free": [],
    "fleet-gpus": [],
    "fleet-queue": [],
    "fleet-usage": [],
    "fleet-users": [],
    "free": [],
    "history": [("history", "--json"), ("history", "0", "--json", "--metric", "fan_speed,energy")],
    "hosts": [("host", "list", "--json")],
    "kube": [],  # of a cluster: tests/kube
    "lease": [],
    "leases": [],
    "management": [],
    "operations": [],
    "processes": [("processes", "--json", "--simulate", "2"),
                  ("processes", "--json", "--nvml", "/nowhere/libnvidia-ml.so.1"),
                  ("query", "--processes", "--json", "--simulate", "2")],
    "query": [("query", "--fields", "name,power.draw,fan.speed,throttle_reasons", "--json",
               "--simulate", "2"),
              ("watch", "power.draw", "--json", "--count", "1", "--simulate", "1")],
    "queue": [],
    "rules": [],
    "run": [],
    "silence": [],
    "silences": [],
    "sim-status": [("sim", "status", "--json")],
    "sink-tests": [],
    "sinks": [],
    "slurm": [],  # tests/slurm
    "slurm-free": [],
    "slurm-leases": [],
    "slurm-queue": [],
    "stays": [],
    "tls": [],  # test_network.py
    "token": [],  # test_tokens.py
    "tokens": [],
    "usage": [],
    "verdict": [],  # test_check.py
    "version": [("version", "--json")],
    "why": [],
}


def test_every_schema_has_a_file_and_a_command(run):
    named = [line.split()[0] for line in run("schema").stdout.splitlines()]
    assert named == sorted(ANSWERS)
    assert sorted(os.listdir(COMMITTED)) == sorted(f"{name}.json" for name in named)


@pytest.mark.parametrize("name", sorted(ANSWERS))
def test_the_committed_schema_is_the_generated_one(run, name):
    generated = run("schema", name)
    assert generated.returncode == 0
    assert generated.stdout == committed(name), f"write it anew: gpuyard schema {name} > docs/schema/{name}.json"


@pytest.mark.parametrize("name", sorted(ANSWERS))
def test_json_output_validates_against_committed_schema(run, daemon, tmp_path, name):
    jsonschema.Draft202012Validator.check_schema(json.loads(committed(name)))
    world = str(tmp_path / "world")
    if name == "sim-status":
        assert run("sim", "start", "--gpus", "2", "--world", world).returncode == 0
    try:
        for command in ANSWERS[name]:
            where = {"GPUYARD_SIM_WORLD": world} if name == "sim-status" else {}
            if name == "history":
                where = {"GPUYARD_SOCKET": daemon("--simulate", "1").socket}
            result = run(*command, **where)
            validate(json.loads(result.stdout), name)
    finally:
        if name == "sim-status":
            run("sim", "stop", "--world", world)


def test_without_a_driver_the_answer_keeps_its_schema(run):
    result = run("devices", "--json", "--nvml", "/nowhere/libnvidia-ml.so.1")
    assert result.returncode == 5
    validate(json.loads(result.stdout), "devices")


def test_an_unknown_schema_is_exit_code_6(run):
    result = run("schema", "nonsense")
    assert result.returncode == 6 and result.stdout == "" and "nonsense" in result.stderr
