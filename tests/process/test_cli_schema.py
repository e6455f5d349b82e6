"""The output of --json: its schemas are committed, generated from the records, and hold."""

import json
import os

import jsonschema
import pytest

from schemas import COMMITTED, committed, validate

# Commands that answer by a schema without a daemon's past. Tests of the others' commands validate those.
ANSWERS = {
    "config": [("config", "print", "--json")],
    "devices": [("devices", "--json", "--simulate", "2"),
                ("devices", "1", "--json", "--simulate", "2"),
                ("watch", "--json", "--count", "1", "--simulate", "1")],
    "doctor": [("doctor", "--json"), ("doctor", "--json", "--simulate", "1")],
    "driver": [("driver", "--json", "--simulate", "1"),
               ("driver", "--json", "--nvml", "/nowhere/libnvidia-ml.so.1")],
    "energy-command": [("energy", "--simulate", "2", "--report", "-", "--", "true")],
    "history": [("history", "--json"), ("history", "0", "--json", "--metric", "fan_speed,energy")],
    "hosts": [("host", "list", "--json")],
    "processes": [("processes", "--json", "--simulate", "2"),
                  ("processes", "--json", "--nvml", "/nowhere/libnvidia-ml.so.1"),
                  ("query", "--processes", "--json", "--simulate", "2")],
    "query": [("query", "--fields", "name,power.draw,fan.speed,throttle_reasons", "--json",
               "--simulate", "2"),
              ("watch", "power.draw", "--json", "--count", "1", "--simulate", "1")],
    "sim-status": [("sim", "status", "--json")],
    "version": [("version", "--json")],
}


def test_each_committed_schema_is_the_generated_one(run):
    named = [line.split()[0] for line in run("schema").stdout.splitlines()]
    assert sorted(os.listdir(COMMITTED)) == sorted(f"{name}.json" for name in named)
    for name in named:
        jsonschema.Draft202012Validator.check_schema(json.loads(committed(name)))
        assert run("schema", name).stdout == committed(name), (
            f"write it anew: gpuyard schema {name} > docs/schema/{name}.json")


@pytest.mark.parametrize("name", ANSWERS)
def test_json_output_validates_against_committed_schema(run, daemon, tmp_path, name):
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
