"""The recovery that the driver requests for a GPU: a reading, a metric, and the alert `recovery-needed`."""

from program import wait_until

REPORTS_IT = "570.86.15"  # the first branch that does


def alerts(yard):
    return {one["gpu"]["index"]: one for one in yard.get("/api/gpu/alerts").json()["alerts"]
            if one["rule"] == "recovery-needed"}


def readings(yard, gpu):
    return yard.get("/api/gpu/snapshot").json()["devices"][gpu]["readings"]


def withheld(yard):
    return {one["index"] for one in yard.get("/api/gpu/queue").json()["withheld"]}


def test_requested_recovery_is_reported_and_quarantines(run, world, daemon):
    world.start("--gpus", "2", "--load", "idle", "--driver-version", REPORTS_IT)
    yard = daemon(GPUYARD_SIM_WORLD=str(world.directory))
    wait_until(lambda: readings(yard, 1)["recovery_action"] == "none", "the action to be read")
    assert alerts(yard) == {}
    world.inject(1, "--recovery-action", "drain_p2p")
    fired = wait_until(lambda: alerts(yard), "the alert")
    assert list(fired) == [1] and fired[1]["level"] == "critical"
    assert fired[1]["message"] == "GPU 1 needs recovery: the driver requests a drain of peer-to-peer traffic"
    assert "`nvidia-smi --gpu-reset -i 1`" in fired[1]["advice"]
    assert readings(yard, 1)["recovery_action"] == "drain_p2p"
    assert 'gpuyard_gpu_recovery_action{device="1"} 3' in yard.get("/metrics").text
    shown = run("devices", "1", GPUYARD_SOCKET=yard.socket)
    assert "recovery action" in shown.stdout
    wait_until(lambda: withheld(yard) == {1}, "the quarantine of this GPU alone")  # each is withheld at first
    # The request may change while the alert fires.
    world.inject(1, "--recovery-action", "reset")
    wait_until(lambda: alerts(yard)[1]["message"].endswith("requests a reset of the GPU"), "the new request")
    world.reset(1)
    wait_until(lambda: not alerts(yard) and 1 not in withheld(yard), "the end of both")
