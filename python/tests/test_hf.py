"""The callback for Hugging Face's Trainer: by its interface, and in a real one if it is there."""

import time
import types

import pytest

import frameworks
from gpuyard import cuda
from gpuyard.callbacks import common


@pytest.fixture
def callback(monkeypatch):
    frameworks.put(monkeypatch, "transformers", TrainerCallback=frameworks.TrainerCallback)
    return frameworks.callback_module(monkeypatch, "hf").EnergyCallback


def train(callback, epochs=2, steps=2, local_zero=True, world_zero=True,
          step=lambda: time.sleep(0.6)):
    """Calls the hooks in the order of the Trainer."""
    state = types.SimpleNamespace(
        log_history=[], epoch=0, global_step=0, is_local_process_zero=local_zero,
        is_world_process_zero=world_zero)
    control = types.SimpleNamespace(should_training_stop=False)
    args = object()
    callback.on_train_begin(args, state, control, model=None)
    for epoch in range(epochs):
        callback.on_epoch_begin(args, state, control, model=None)
        for _ in range(steps):
            step()
            state.global_step += 1
            assert callback.on_step_end(args, state, control, model=None) is control
            if control.should_training_stop:
                break
        state.epoch = epoch + 1
        callback.on_epoch_end(args, state, control, model=None)
        if control.should_training_stop:
            break
    callback.on_train_end(args, state, control, model=None)
    return state


def test_hooks_match_framework_interface(callback):
    frameworks.check_hooks(callback, frameworks.TrainerCallback)


def test_energy_of_each_epoch_is_in_history(callback, yard):
    history = train(callback()).log_history
    assert [entry["epoch"] for entry in history] == [1, 2]
    assert all(entry[common.EPOCH] > 0 for entry in history)
    assert history[1][common.TOTAL] == pytest.approx(sum(entry[common.EPOCH] for entry in history))
    assert yard.request("GET", "/api/gpu/energy/windows")["windows"] == []


def test_trainer_log_receives_energy(callback, yard):
    logged = []
    state = train(callback(types.SimpleNamespace(log=logged.append)))
    assert [set(entry) for entry in logged] == [{common.EPOCH, common.TOTAL}] * 2
    assert state.log_history == []


def test_local_zero_measures_and_world_zero_logs(callback, yard):
    second = callback()
    assert train(second, local_zero=False, world_zero=False, step=lambda: None).log_history == []
    assert second.training.energy.last is None
    other_machine = callback()
    assert train(other_machine, world_zero=False, step=lambda: None).log_history == []
    assert other_machine.training.energy.last is not None


def test_a_critical_alert_stops_the_training(callback, yard):
    one = callback()
    one.training.watch = types.SimpleNamespace(alert="hot", start=lambda: None, stop=lambda: None)
    assert train(one, epochs=9, step=lambda: None).global_step == 1
    assert one.training.stopped_by == "hot"
    assert train(callback(stop_on_critical_alert=False), step=lambda: None).global_step == 4


def test_real_trainer_runs_callback(yard, tmp_path, monkeypatch):
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    torch = pytest.importorskip("torch", reason="torch is not installed")
    monkeypatch.setenv("WANDB_DISABLED", "true")
    assert cuda.initialised_by() is None and torch.cuda.is_initialized() is False
    EnergyCallback = frameworks.callback_module(monkeypatch, "hf").EnergyCallback
    frameworks.check_hooks(EnergyCallback, transformers.TrainerCallback)

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(3, 1)

        def forward(self, x, labels):
            time.sleep(0.3)
            return {"loss": ((self.layer(x) - labels) ** 2).mean()}

    data = [{"x": torch.ones(3), "labels": torch.ones(1)} for _ in range(8)]
    arguments = transformers.TrainingArguments(
        str(tmp_path), num_train_epochs=2, per_device_train_batch_size=4, report_to=[],
        save_strategy="no", logging_strategy="no", disable_tqdm=True)
    trainer = transformers.Trainer(Model(), arguments, train_dataset=data)
    one = EnergyCallback(trainer)
    trainer.add_callback(one)
    trainer.train()
    history = [entry for entry in trainer.state.log_history if common.EPOCH in entry]
    assert len(history) == 2 and all(entry[common.EPOCH] > 0 for entry in history)

    stops = EnergyCallback()
    stops.training.watch = types.SimpleNamespace(alert="hot", start=lambda: None, stop=lambda: None)
    trainer = transformers.Trainer(Model(), arguments, train_dataset=data, callbacks=[stops])
    trainer.train()
    assert trainer.state.global_step == 1
