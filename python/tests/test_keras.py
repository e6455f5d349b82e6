"""The callback in a real Keras, on JAX without a GPU. requirements-keras.txt has what it needs."""

import csv
import os
import sys
import time

import pytest

os.environ.setdefault("KERAS_BACKEND", "jax")
keras = pytest.importorskip("keras", reason="Keras is not installed: see requirements-keras.txt")
pytest.importorskip("jax", reason="JAX is not installed: see requirements-keras.txt")

import numpy  # noqa: E402  (Keras brings it)

from gpuyard import cuda  # noqa: E402
from gpuyard.callbacks import common  # noqa: E402
from gpuyard.callbacks.keras import EnergyCallback  # noqa: E402
from ground import Ground  # noqa: E402
from program import wait_until  # noqa: E402

RULES = '[rule.brake]\non = "power_brake"\nat = 1\nseverity = 100\nmessage = "GPU {gpu} brakes"\n'


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    place = tmp_path_factory.mktemp("keras")
    (place / "alerts.toml").write_text(RULES)
    ground = Ground(place, gpus=2, config=f'[alerts]\nfile = "{place}/alerts.toml"\n')
    yield ground.start()
    ground.end()


class Slow(keras.callbacks.Callback):
    """Each batch takes a while, so that an epoch uses energy."""

    def __init__(self, seconds, then=None):
        super().__init__()
        self.seconds = seconds
        self.then = then
        self.batches = 0

    def on_train_batch_end(self, batch, logs=None):
        self.batches += 1
        time.sleep(self.seconds)
        if self.then:
            self.then(self.batches)


def fit(*callbacks, epochs=2):
    model = keras.Sequential([keras.layers.Input((3,)), keras.layers.Dense(1)])
    model.compile(optimizer="sgd", loss="mse")
    x = numpy.ones((40, 3))
    return model.fit(x, x[:, :1], epochs=epochs, batch_size=10, verbose=0,
                     callbacks=list(callbacks))


def test_epoch_energy_is_in_history_and_later_callbacks(yard, tmp_path):
    energy = EnergyCallback()
    log = tmp_path / "log.csv"
    history = fit(Slow(0.3), energy, keras.callbacks.CSVLogger(str(log))).history
    joules, total = history[common.EPOCH], history[common.TOTAL]
    assert len(joules) == 2 and all(one > 0 for one in joules)
    assert total == [joules[0], pytest.approx(sum(joules))]
    rows = list(csv.DictReader(log.open()))
    assert float(rows[1][common.EPOCH]) == pytest.approx(joules[1])
    assert energy.training.energy.last.final
    assert yard.request("GET", "/api/gpu/energy/windows")["windows"] == []


def test_critical_alert_of_used_gpus_stops_training(yard, shared, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", yard.devices()[1].uuid)
    mine = EnergyCallback()
    mine.training.watch = common.AlertPoller(every=0.1)
    slow = Slow(0.1, then=lambda n: shared.world.inject(1, "--power-brake") if n == 3 else None)
    try:
        fit(slow, mine, epochs=200)
        assert slow.batches < 400
        assert mine.training.stopped_by.rule == "brake" and mine.training.stopped_by.gpu.index == 1

        # The alert does not concern a training on the other GPU.
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
        other = EnergyCallback()
        other.training.watch = common.AlertPoller(every=0.1)
        slow = Slow(0.1)
        fit(slow, other, epochs=3)
        assert slow.batches == 12 and other.training.stopped_by is None
    finally:
        shared.world.heal(1)
        wait_until(lambda: not yard.alerts(), "the alert to be over")


def test_jax_without_gpu_has_not_initialised_cuda():
    import jax
    jax.numpy.ones(3).sum()
    # The place that cuda.py reads: this test fails if JAX keeps its backends elsewhere.
    assert "cpu" in sys.modules["jax._src.xla_bridge"]._backends
    assert cuda.initialised_by() is None


def test_training_without_daemon_runs_without_energy(monkeypatch, tmp_path, caplog):
    monkeypatch.setenv("GPUYARD_SOCKET", str(tmp_path / "none"))
    history = fit(EnergyCallback()).history
    assert len(history["loss"]) == 2 and common.EPOCH not in history
    assert "gpuyard serve" in caplog.text


def test_a_training_that_fails_leaves_no_window(yard):
    energy = EnergyCallback()

    def fail(n):
        raise RuntimeError("the data is wrong")
    with pytest.raises(RuntimeError, match="data is wrong"):
        fit(Slow(0, then=fail), energy)
    # Keras does not report an exception to a callback, so that the window is ended with the next
    # training, or with the callback itself.
    fit(energy, epochs=1)
    assert yard.request("GET", "/api/gpu/energy/windows")["windows"] == []
