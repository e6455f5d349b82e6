"""gpuyard fleet doctor: machines that are not as the others, or do not answer."""

import json
import re
import time

import pytest

from asking import view
from program import wait_until


def findings(fleet):
    """Whether it finds anything or not."""
    return json.loads(fleet.go("fleet", "doctor", "--json").stdout)["findings"]


def finds(fleet, what, hosts, *words, code=5):
    """Waits until doctor finds that and nothing else; what it says names the hosts."""
    def found():
        found.answer = view(fleet, "doctor", "--timeout", "2s", code=code)
        return [(one["what"], one["hosts"]) for one in found.answer["findings"]] == [(what, hosts)]
    wait_until(found, lambda: f"{what} of {hosts}: {found.answer['findings']}")
    assert found.answer["healthy"] is False
    text = fleet.go("fleet", "doctor", "--timeout", "2s")
    assert text.returncode == code
    for word in (*words, *hosts):
        assert word in text.stdout, text.stdout


@pytest.fixture(autouse=True)
def well(fleet):
    """Before each fault and after it, doctor finds nothing."""
    yield
    def healthy():
        return fleet.go("fleet", "doctor").returncode == 0
    wait_until(healthy, lambda: f"the fleet to be well again: {fleet.go('fleet', 'doctor').stdout}")


def test_machines_that_are_alike_are_well(fleet):
    answer = view(fleet, "doctor")
    assert answer["healthy"] is True and answer["findings"] == []
    assert "8 machines" in fleet.must("fleet", "doctor")


def test_another_driver(fleet):
    with fleet.nodes[1].other_world("--gpus", "4", "--load", "idle", "--machine", "n2",
                                    "--driver-version", "550.54.15"):
        finds(fleet, "driver", ["n2"], "550.54.15", "7 machines")


def test_another_configuration(fleet):
    with fleet.nodes[2].other_config('[lease]\nfair = "strict"\n'):
        finds(fleet, "configuration", ["n3"], "[lease]", "7 machines")


def test_a_clock_that_is_wrong(fleet):
    with fleet.nodes[3].wrong_clock(3605):
        finds(fleet, "clock", ["n4"])
        assert re.search("360. s ahead of", fleet.go("fleet", "doctor").stdout)


def test_gpu_listed_by_two_machines_is_shown_once(fleet):
    with fleet.nodes[7].other_world("--gpus", "4", "--load", "idle", "--machine", "n7"):
        def doubles():
            answer = view(fleet, "doctor", code=5)
            return len(answer["findings"]) == 4 and all(
                (one["what"], one["hosts"]) == ("gpu_twice", ["n7", "n8"]) for one in answer["findings"])
        wait_until(doubles, "four GPUs to be found twice")
        gpus = view(fleet, "gpus")["gpus"]
        assert len(gpus) == 28 and [gpu["host"] for gpu in gpus if gpu["also_on"] == ["n8"]] == ["n7"] * 4
        assert not {"n7", "n8"} <= {offer["host"] for offer in view(fleet, "free")["offers"]}


def test_a_machine_that_does_not_answer(fleet):
    with fleet.nodes[4].killed_daemon():
        finds(fleet, "unreachable", ["n5"], "nothing is listening")
    with fleet.nodes[4].stopped_daemon():
        finds(fleet, "unreachable", ["n5"], "in time")


def test_a_driver_that_is_gone(fleet):
    fleet.nodes[5].world.unload_driver()
    try:
        wait_until(lambda: "not_ready" in {one["what"] for one in findings(fleet)}, "the driver to be missed")
        assert {host for one in findings(fleet) for host in one["hosts"]} == {"n6"}
    finally:
        with fleet.nodes[5].killed_daemon():  # otherwise the daemon retries the driver only after a while
            fleet.nodes[5].world.load_driver()


def test_doctor_ends_within_timeout_of_slowest_machine(fleet):
    with fleet.nodes[4].stopped_daemon():
        began = time.monotonic()
        view(fleet, "doctor", "--timeout", "2s", code=5)
        assert time.monotonic() - began < 6
