"""The callback for Lightning: with its interface, and in a real Trainer where it is there."""

import time
import types

import pytest

import frameworks
from gpuyard.callbacks import common


@pytest.fixture
def callback(monkeypatch):
    frameworks.put(monkeypatch, "lightning.pytorch.callbacks",
                   Callback=frameworks.LightningCallback)
    return frameworks.callback_module(monkeypatch, "lightning").EnergyCallback


class Module:
    def __init__(self):
        self.logged = []

    def log(self, name, value, on_step=None, on_epoch=None, rank_zero_only=False, batch_size=None):
        assert on_epoch and on_step is False and rank_zero_only
        self.logged.append((name, value))


def train(callback, epochs=2, batches=2, local_rank=0, batch=lambda: time.sleep(0.6)):
    """Calls the hooks in the order of the Trainer."""
    trainer = types.SimpleNamespace(local_rank=local_rank, should_stop=False, batches=0)
    module = Module()
    try:
        callback.on_train_start(trainer, module)
        for _ in range(epochs):
            callback.on_train_epoch_start(trainer, module)
            for number in range(batches):
                batch()
                trainer.batches += 1
                callback.on_train_batch_end(trainer, module, None, None, number)
                if trainer.should_stop:
                    break
            callback.on_train_epoch_end(trainer, module)
            if trainer.should_stop:
                break
        callback.on_train_end(trainer, module)
    except BaseException as error:
        callback.on_exception(trainer, module, error)
        raise
    return trainer, module


def test_hooks_match_framework_interface(callback):
    frameworks.check_hooks(callback, frameworks.LightningCallback)


def test_energy_of_each_epoch_is_logged_by_module(callback, yard):
    _, module = train(callback())
    names = [name for name, _ in module.logged]
    joules = [value for name, value in module.logged if name == common.EPOCH]
    assert names == [common.EPOCH, common.TOTAL] * 2 and all(value > 0 for value in joules)
    assert module.logged[-1][1] == pytest.approx(sum(joules))


def test_one_process_of_a_machine_measures(callback, yard):
    assert train(callback(), local_rank=1, batch=lambda: None)[1].logged == []


def test_a_critical_alert_stops_the_training(callback, yard):
    one = callback()
    one.training.watch = types.SimpleNamespace(alert="hot", start=lambda: None, stop=lambda: None)
    assert train(one, epochs=9, batch=lambda: None)[0].batches == 1
    assert one.training.stopped_by == "hot"


def test_failed_training_leaves_no_window_and_no_poller(callback, yard):
    def fail():
        raise RuntimeError("the data is wrong")
    one = callback()
    with pytest.raises(RuntimeError):
        train(one, batch=fail)
    assert yard.request("GET", "/api/gpu/energy/windows")["windows"] == []
    assert one.training.watch._stop is None


def test_real_trainer_runs_callback(yard, tmp_path, monkeypatch):
    lightning = pytest.importorskip("lightning.pytorch", reason="Lightning is not installed")
    torch = pytest.importorskip("torch", reason="torch is not installed")
    EnergyCallback = frameworks.callback_module(monkeypatch, "lightning").EnergyCallback
    frameworks.check_hooks(EnergyCallback, lightning.Callback)

    class Model(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(3, 1)

        def training_step(self, batch, number):
            time.sleep(0.3)
            return ((self.layer(batch) - 1) ** 2).mean()

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), 0.01)

    data = torch.utils.data.DataLoader(torch.ones(8, 3), batch_size=4)

    def fit(callback, epochs):
        trainer = lightning.Trainer(max_epochs=epochs, accelerator="cpu", callbacks=[callback],
                                    default_root_dir=str(tmp_path), enable_progress_bar=False,
                                    enable_checkpointing=False, logger=False,
                                    enable_model_summary=False)
        trainer.fit(Model(), data)
        return trainer
    trainer = fit(EnergyCallback(), 2)
    assert trainer.callback_metrics[common.EPOCH] > 0
    assert trainer.callback_metrics[common.TOTAL] > trainer.callback_metrics[common.EPOCH]

    stops = EnergyCallback()
    stops.training.watch = types.SimpleNamespace(alert="hot", start=lambda: None, stop=lambda: None)
    assert fit(stops, 9).global_step == 1
