"""Settings and alerts of a daemon that may control its GPUs."""

import pytest

import gpuyard
from gpuyard.callbacks.common import AlertPoller, critical_of
from ground import Ground
from program import wait_until

RULES = """[rule.brake]
on = "power_brake"
at = 1
severity = 100
message = "GPU {gpu} brakes"
advice = "Look at its power supply"
"""


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    place = tmp_path_factory.mktemp("control")
    (place / "alerts.toml").write_text(RULES)
    config = f'[control]\nenabled = true\ngroup = ""\n[alerts]\nfile = "{place}/alerts.toml"\n'
    ground = Ground(place, gpus=2, config=config)
    yield ground.start()
    ground.end()


def limit_of(yard, index):
    return yard.devices()[index].readings.power_limit_set_w


@pytest.fixture
def ready(yard):
    def in_turn():
        gpus = yard.request("GET", "/api/gpu/manage")["gpus"]
        return len(gpus) == 2 and all(gpu["settings"] for gpu in gpus)
    wait_until(in_turn, "GPUs to control")
    return yard


def test_a_power_limit_is_set_and_restored(ready):
    before = limit_of(ready, 0)
    (change,) = ready.set(0, "power_limit", 300, lasting="30m")
    assert change.outcome == "applied" and change.after.power_limit_mw == 300_000 and change.until
    wait_until(lambda: limit_of(ready, 0) == 300, "the limit")
    (change,) = ready.restore(0, "power_limit")
    assert change.outcome == "restored"
    wait_until(lambda: limit_of(ready, 0) == before, "the old limit")


def test_each_setting_has_its_kind_of_value(ready):
    assert len(ready.set("all", "gpu_clocks", (345, 1200))) == 2
    assert len(ready.set([0, 1], "persistence", True)) == 2
    assert ready.set("0", "compute_mode", "exclusive_process")[0].after.compute_mode
    assert len(ready.restore("all")) >= 4
    for setting, value in (("power_limit", "much"), ("persistence", 1), ("gpu_clocks", (1,)),
                           ("colour", 3), ("ecc", "on"), ("gpu_clocks", True),
                           ("power_limit", True)):
        with pytest.raises(gpuyard.Invalid):
            ready.set(0, setting, value)


def test_value_out_of_range_is_refused_with_range(ready):
    with pytest.raises(gpuyard.Error, match="700|W"):
        ready.set(0, "power_limit", 5000)


def test_alert_fires_for_its_gpu_and_is_acknowledged(ready, shared, monkeypatch):
    assert ready.alerts() == []
    shared.world.inject(1, "--power-brake")
    (alert,) = wait_until(ready.alerts, "an alert")
    assert alert.level == "critical" and alert.gpu.index == 1 and "GPU 1 brakes" in alert.message
    assert critical_of([alert], None) is alert and critical_of([alert], ["1"]) is alert
    assert critical_of([alert], ["0"]) is None and critical_of([alert], []) is None

    watch = AlertPoller(every=0.1)
    watch.start()
    assert wait_until(lambda: watch.alert, "the watch to see it").number == alert.number
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    other = AlertPoller(every=0.1)
    other.start()

    done = ready.acknowledge(alert.number, "fan ordered")
    assert done.acknowledged.note == "fan ordered"
    assert critical_of(ready.alerts(), None) is None
    assert other.alert is None
    watch.stop()
    other.stop()
    with pytest.raises(gpuyard.NotFound):
        ready.acknowledge(999_999)
    shared.world.heal(1)
    wait_until(lambda: not ready.alerts(), "the alert to be over")
