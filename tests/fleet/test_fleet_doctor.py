"""gpuyard fleet doctor: machines that are not as the others, or do not answer."""

import json
import time

import pytest

from asking import hang_up, logins, names, view
from faults import stopped
from munge import Munge
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


def level(fleet):
    return findings(fleet)[0]["level"]


def unknown(fleet, what, code=0):
    """The unknown facts of that kind: their hosts and texts."""
    answer = view(fleet, "doctor", code=code)
    return [(one["hosts"], one["text"]) for one in answer["unknown"] if one["what"] == what]


def test_uid_is_unknown_without_a_shell_or_an_answer(fleet):
    with fleet.nodes[1].other_command("id", "exec sleep 60\n"):
        assert unknown(fleet, "uid") == [(["n2"], "your UID on n2: id did not respond within 3 s")]
    # A key that may only run one command.
    with fleet.nodes[2].sshd_with(f"ForceCommand {fleet.nodes[2].program} dial-stdio"):
        hang_up(fleet)
        (hosts, text), = unknown(fleet, "uid")
        assert hosts == ["n3"] and "may only run another command" in text
        assert "unknown: your UID on n3: its login runs no shell" in fleet.must("fleet", "doctor")
    hang_up(fleet)
    fleet.know_hosts(fleet.nodes[0].host(), fleet.nodes[1].host(), fleet.nodes[2].host("https"),
                     fleet.nodes[3].host("unix"))
    try:
        assert {hosts[0]: text.split(": ")[1] for hosts, text in unknown(fleet, "uid")} == {
            "n3": "only a login through ssh shows it, and it is reached by https",
            "n4": "only a login through ssh shows it"}
    finally:
        fleet.know_hosts(*(node.host() for node in fleet.nodes))


def test_doctor_logs_in_to_each_machine_once(fleet):
    hang_up(fleet)
    before = logins(fleet)
    view(fleet, "doctor")
    assert logins(fleet) == [count + 1 for count in before]


def test_munge_keys(fleet):
    munge = Munge(fleet)
    with munge.daemon("a") as one, munge.daemon("b"):
        with munge.keys("a"):
            answer = view(fleet, "doctor")
            assert answer["healthy"] and answer["unknown"] == []
            assert "munge keys" in fleet.must("fleet", "doctor")
        with munge.keys("a", n2="b"):
            finds(fleet, "munge_key", ["n2"], "differs from this machine's", "ssh root@n2")
            assert level(fleet) == "error"
        with munge.keys("b", **dict.fromkeys(names(fleet), "a")):
            finds(fleet, "munge_key", names(fleet), "this machine's munge key differs")
        with munge.keys("a", n2=None, n3="none"):
            texts = {hosts[0]: text for hosts, text in unknown(fleet, "munge_key")}
            assert texts["n2"] == "the munge key on n2: munge is not installed there"
            assert "Failed to access" in texts["n3"] and texts.keys() == {"n2", "n3"}
        with munge.keys("a", n2="b"), stopped([one.pid]):  # the client's hangs
            began = time.monotonic()
            (hosts, text), = unknown(fleet, "munge_key")
            assert len(hosts) == 8 and "no response for 3 s" in text
            assert time.monotonic() - began < 12
        with munge.daemon("hangs") as hanging, munge.keys("a", n2="hangs"), stopped([hanging.pid]):
            assert unknown(fleet, "munge_key") == [
                (["n2"], "the munge key on n2: munged did not respond within 3 s")]


def test_a_machine_that_does_not_answer(fleet):
    with fleet.nodes[4].killed_daemon():
        finds(fleet, "unreachable", ["n5"], "nothing is listening")
    with fleet.nodes[4].stopped_daemon():
        finds(fleet, "unreachable", ["n5"], "in time")
