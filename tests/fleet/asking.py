"""Queries of a whole fleet for tests, and checks of the answers."""

import json

from program import wait_until


def read(done, code=0):
    """The answer of a `gpuyard fleet ... --json` that has ended."""
    assert done.returncode == code, f"{done.args}: {done.returncode}: {done.stdout}{done.stderr}"
    return json.loads(done.stdout)


def view(fleet, *words, code=0, **environment):
    return read(fleet.go("fleet", *words, "--json", **environment), code)


def problems(answer):
    """Why hosts did not answer, by their names."""
    return {one["host"]: one["problem"] for one in answer["hosts"] if one["problem"]}


def answered(answer):
    return [one["host"] for one in answer["hosts"] if not one["problem"] and not one["same_as"]]


def names(fleet):
    return [node.name for node in fleet.nodes]


def logins(fleet):
    return [node.logins() for node in fleet.nodes]


def hang_up(fleet):
    fleet.must("fleet", "hang-up")
    wait_until(lambda: not fleet.ssh_processes(), lambda: f"every ssh to end: {fleet.ssh_processes()}")


def only_masters_are_left(fleet):
    wait_until(lambda: fleet.ssh_processes() == fleet.ssh_masters(), lambda:
               f"ssh to end: {fleet.ssh_processes()}, of which are masters: {fleet.ssh_masters()}")
