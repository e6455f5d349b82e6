"""gpuyard fleet doctor: machines that are not as the others, or do not answer."""

import json
import re
import time

import pytest

from asking import hang_up, logins, names, view
from faults import stopped
from munge import Munge, need_no_munge
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


def level(fleet):
    return findings(fleet)[0]["level"]


def test_a_clock_that_is_wrong(fleet):
    with fleet.nodes[3].wrong_clock(30):
        finds(fleet, "clock", ["n4"])
        assert level(fleet) == "info"
    with fleet.nodes[3].wrong_clock(3605):
        finds(fleet, "clock", ["n4"], "sudo timedatectl set-ntp true")
        assert re.search("360. s ahead of", fleet.go("fleet", "doctor").stdout)
        # munge is installed there, and refuses such a credential. No munged needs to run for that.
        with fleet.nodes[3].other_command("unmunge", "echo 'unmunge: Error: no munged' >&2; exit 6\n"):
            assert level(fleet) == "error"
        with fleet.nodes[3].other_command("unmunge", "exit 127\n"):  # as a shell without that program
            assert level(fleet) == "warning"


def unknown(fleet, what, code=0):
    """The unknown facts of that kind: their hosts and texts."""
    answer = view(fleet, "doctor", code=code)
    return [(one["hosts"], one["text"]) for one in answer["unknown"] if one["what"] == what]


def test_uid_of_the_user_differs(fleet):
    assert unknown(fleet, "uid") == []
    with fleet.nodes[1].other_command("id", 'case $1 in -un) echo alice ;; *) echo 1007 ;; esac\n'):
        finds(fleet, "uid", ["n2"], "1000 on 7 machines", "1007", "usermod -u 1000 alice")


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


def test_versions_of_slurm_are_unknown_from_an_older_daemon(fleet):
    with fleet.nodes[5].older_daemon("/api/gpu/host"):
        (hosts, text), = unknown(fleet, "slurm")
        assert hosts == ["n6"] and "too old and lacks /api/gpu/host" in text


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


def test_munge_key_is_unknown_without_munge_here(fleet):
    need_no_munge()
    with fleet.nodes[1].other_command("unmunge", "echo 'unmunge: Error: no munged' >&2; exit 6\n"):
        (hosts, text), = unknown(fleet, "munge_key")
        assert len(hosts) == 8
        assert text == "the munge key on all 8 machines: munge is not installed on this machine"


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
