"""State of the machine that outlives the daemon: its boards, their memory errors, and the GPU of
each alert."""

import json
import os
import re
import signal

import pytest

from program import PROGRAM, wait_until

RESET = f'[control]\nenabled = true\nreset_command = ["{PROGRAM}", "sim", "reset", "--gpu", "{{uuid}}"]\n'


def gpu(yard, name):
    return yard.get(f"devices/{name}")


def may_run(yard, index):
    return yard.go("run", "--no-wait", "--quiet", "--among", str(index), "--", "true").returncode == 0


def wait_for_errors(yard):
    wait_until(lambda: gpu(yard, 0)["health"] == "unhealthy", "the verdict")
    assert gpu(yard, 0)["health_reasons"] == ["1 new uncorrectable ECC error"]


def break_memory(yard):
    wait_until(lambda: gpu(yard, 0)["health"] == "healthy", "the first verdict")
    yard.world.memory_errors(0, uncorrected=1)
    wait_for_errors(yard)


def events(yard):
    return [json.loads(line) for line in yard.must("events", "--json").splitlines()]


def samples(yard, family):
    return re.findall(rf"^gpuyard_{family}\{{(.*)\}} (\S+)$", yard.daemon.get("/metrics").text, re.M)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_verdict_survives_restart_until_acknowledged(alerts_yard, number, record_property):
    record_property("contract", "A9 A10")
    yard = alerts_yard("", gpus=2)
    break_memory(yard)
    wait_until(lambda: yard.firing("gpu-unhealthy"), "the alert")
    yard.restart(number)
    wait_for_errors(yard)
    assert not may_run(yard, 0) and may_run(yard, 1)
    # An alert that a kill kept from the disk fires again with the next evaluation.
    [alert] = wait_until(lambda: yard.firing("gpu-unhealthy"), "the alert after the restart")
    yard.must("alerts", "ack", str(alert["number"]))
    wait_until(lambda: gpu(yard, 0)["health"] == "healthy", "the end of the verdict")
    for alert in yard.firing():  # its Xid quarantines it, too
        yard.must("alerts", "ack", str(alert["number"]))
    wait_until(lambda: may_run(yard, 0), "the GPU to be leased again")
    yard.restart(number)
    wait_until(lambda: gpu(yard, 0)["health"] == "healthy", "the verdict after the restart")
    yard.world.memory_errors(0, uncorrected=1)
    wait_for_errors(yard)


def test_a_reset_ends_a_verdict(alerts_yard):
    yard = alerts_yard("", gpus=1)
    yard.settings(RESET)
    yard.restart(signal.SIGTERM)
    break_memory(yard)
    assert "reset" in yard.must("reset", "0", "--yes")
    wait_until(lambda: gpu(yard, 0)["health"] == "healthy", "the end of the verdict")


@pytest.mark.parametrize("down", [False, True])
def test_a_reset_by_another_program_ends_a_verdict(alerts_yard, down):
    yard = alerts_yard("", gpus=1)
    break_memory(yard)
    if down:
        yard.end()
    yard.world.must("reset", "--gpu", "0")
    if down:
        yard.start()
    wait_until(lambda: gpu(yard, 0)["health"] == "healthy", "the end of the verdict")


def test_cleared_counters_end_a_verdict(alerts_yard, record_property):
    record_property("contract", "A9")
    yard = alerts_yard("", gpus=1)
    yard.settings("[control]\nenabled = true\n")
    yard.restart(signal.SIGTERM)
    break_memory(yard)
    yard.must("ecc", "0", "--clear", "aggregate", "--yes")
    wait_until(lambda: gpu(yard, 0)["health"] == "healthy", "the end of the verdict")


def test_board_missing_after_restart_raises_alert(alerts_yard, record_property):
    record_property("contract", "A10")
    yard = alerts_yard("", gpus=4)
    wait_until(lambda: may_run(yard, 2), "the daemon to lease GPUs")
    yard.must("lease", "take", "--among", "2", "--for", "1h")
    boards = [gpu(yard, index)["uuid"] for index in range(4)]
    gone = boards[2]
    wait_until(lambda: gpu(yard, 2)["health"] == "healthy", "a verdict")
    yard.end(signal.SIGTERM)
    yard.world.unplug(2)
    yard.start()

    alert = wait_until(lambda: yard.firing("gpu-missing"), "the alert")[0]
    assert alert["message"].startswith(f"GPU {gone} (was 2) is missing: not present since ")
    assert (alert["gpu"]["uuid"], alert["gpu"]["index"]) == (gone, None)
    assert gpu(yard, 2)["uuid"] == boards[3], "the others have moved up"
    kinds = [(one["kind"], one["device"], one["index"]) for one in events(yard)]
    assert ("gpu_missing", gone, None) in kinds
    assert "(was 2) is missing" in yard.log()
    assert f'rule="gpu-missing",device="{gone}",level="critical"' in dict(samples(yard, "alert_firing"))
    lost = dict(samples(yard, "gpu_lost"))
    assert (lost[f'device="{gone}"'], lost['device="2"'], len(lost)) == ("1", "0", 4)
    assert gone in yard.must("leases")
    assert "not present" in next(line for line in yard.must("energy").splitlines() if gone in line)
    assert may_run(yard, 2), "the healthy GPU with that index is leased"

    yard.restart(signal.SIGKILL)
    again = wait_until(lambda: yard.firing("gpu-missing"), "the alert after another restart")[0]
    assert again["number"] == alert["number"] and again["message"] == alert["message"]
    yard.must("alerts", "ack", str(alert["number"]), "--note", "sent to be repaired")
    wait_until(lambda: not yard.firing(), "the end of the alert")
    ended = yard.history()[0]
    assert ended["ending"] == "acknowledged: the GPU was removed from this machine"
    assert ended["gpu"]["index"] is None
    wait_until(lambda: len(yard.get("devices")["devices"]) == 3, "the board to be forgotten")
    assert gone in yard.must("leases"), "its lease names it by its UUID"
    yard.restart(signal.SIGTERM)
    wait_until(lambda: may_run(yard, 2), "the daemon to lease GPUs")
    assert not yard.firing()


def test_returned_board_ends_missing_alert(alerts_yard):
    yard = alerts_yard("[rule.gpu-missing]\nclear_hold_s = 1\n", gpus=2)
    gone = wait_until(lambda: gpu(yard, 0)["uuid"], "the GPU")
    wait_until(lambda: gpu(yard, 0)["health"] == "healthy", "its verdict")
    yard.end(signal.SIGTERM)
    yard.world.unplug(0)
    yard.start()
    wait_until(lambda: yard.firing("gpu-missing"), "the alert")
    yard.end(signal.SIGTERM)
    yard.world.plug(gone, 1)
    yard.start()
    wait_until(lambda: gpu(yard, gone)["health"] == "healthy", "the board to be back")
    wait_until(lambda: not yard.firing("gpu-missing"), "the end of the alert")


def test_an_alert_takes_no_index_of_another_gpu(alerts_yard):
    yard = alerts_yard("", gpus=4)
    boards = [gpu(yard, index)["uuid"] for index in range(4)]
    wait_until(lambda: gpu(yard, 2)["health"] == "healthy", "a verdict")
    yard.world.unplug(2)
    alert = wait_until(lambda: yard.firing("gpu-lost"), "the alert")[0]
    assert alert["message"].startswith("GPU 2 is lost") and alert["gpu"]["index"] == 2
    yard.restart(signal.SIGTERM)
    wait_until(lambda: gpu(yard, 2)["uuid"] == boards[3], "the others to move up")
    alert = wait_until(lambda: (now := yard.firing("gpu-lost")) and
                       now[0]["message"].startswith(f"GPU {boards[2]} (was 2) is lost") and now[0],
                       lambda: f"its name; now {yard.firing()}")
    assert (alert["gpu"]["uuid"], alert["gpu"]["index"]) == (boards[2], None)
    named = [labels for labels, _ in samples(yard, "alert_firing")]
    assert named and all('device="2"' not in labels for labels in named)
    assert boards[2] in yard.must("alerts")


def test_another_world_has_no_missing_boards(alerts_yard):
    yard = alerts_yard("", gpus=4)
    wait_until(lambda: gpu(yard, 3)["health"] == "healthy", "a verdict")
    yard.end(signal.SIGTERM)
    yard.world.must("stop")
    yard.world.start("--gpus", "2", "--load", "idle")
    yard.start()
    wait_until(lambda: gpu(yard, 1)["health"] == "healthy", "a verdict")
    assert len(yard.get("devices")["devices"]) == 2 and not yard.firing()


def test_kernel_xid_of_missing_board_names_that_board(alerts_yard):
    yard = alerts_yard("", gpus=2)
    board = gpu(yard, 0)
    wait_until(lambda: gpu(yard, 0)["health"] == "healthy", "a verdict")
    yard.end(signal.SIGTERM)
    yard.world.unplug(0)
    log = yard.place / "kmsg"
    os.mkfifo(log)
    yard.settings(f'[events]\nkernel_log = "{log}"\n')
    keep = os.open(log, os.O_RDWR)
    try:
        yard.start()
        wait_until(lambda: yard.firing("gpu-missing"), "the alert")
        slot = board["pci_address"].rsplit(".", 1)[0]
        os.write(keep, f"4,1,1,-;NVRM: Xid (PCI:{slot}): 79, GPU has fallen off the bus.\n".encode())
        told = wait_until(lambda: [one for one in events(yard) if one["xid"] == 79], "the event")
        assert told[0]["device"] == board["uuid"] and told[0]["index"] is None
    finally:
        os.close(keep)
