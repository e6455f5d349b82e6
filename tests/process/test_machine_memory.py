"""State of the machine that outlives the daemon: its boards, their memory errors, and the GPU of
each alert."""

import json
import re
import signal


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


def test_verdict_survives_restart_until_acknowledged(alerts_yard, record_property):
    record_property("contract", "A9 A10")
    yard = alerts_yard("", gpus=2)
    break_memory(yard)
    wait_until(lambda: yard.firing("gpu-unhealthy"), "the alert")
    yard.restart(signal.SIGKILL)
    wait_for_errors(yard)
    assert not may_run(yard, 0) and may_run(yard, 1)
    # An alert that a kill kept from the disk fires again with the next evaluation.
    [alert] = wait_until(lambda: yard.firing("gpu-unhealthy"), "the alert after the restart")
    yard.must("alerts", "ack", str(alert["number"]))
    wait_until(lambda: gpu(yard, 0)["health"] == "healthy", "the end of the verdict")
    for alert in yard.firing():  # its Xid quarantines it, too
        yard.must("alerts", "ack", str(alert["number"]))
    wait_until(lambda: may_run(yard, 0), "the GPU to be leased again")
    yard.restart(signal.SIGKILL)
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
