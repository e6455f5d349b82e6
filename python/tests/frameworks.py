"""Stand-ins for frameworks that are too big to install for a test: the base class of a callback,
with its hooks as the framework's own source has them.

They are those of trainer_callback.py of transformers 5.24.0 and of pytorch/callbacks/callback.py of
Lightning 2.6.6. The tests of real trainings in test_hf.py and test_lightning.py run where the
framework is installed, and compare the hooks with it.
"""

import importlib
import inspect
import sys
import types


class TrainerCallback:
    def on_train_begin(self, args, state, control, **kwargs): ...
    def on_train_end(self, args, state, control, **kwargs): ...
    def on_epoch_begin(self, args, state, control, **kwargs): ...
    def on_epoch_end(self, args, state, control, **kwargs): ...
    def on_step_end(self, args, state, control, **kwargs): ...


class LightningCallback:
    def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx): ...
    def on_train_epoch_start(self, trainer, pl_module): ...
    def on_train_epoch_end(self, trainer, pl_module): ...
    def on_train_start(self, trainer, pl_module): ...
    def on_train_end(self, trainer, pl_module): ...
    def on_exception(self, trainer, pl_module, exception): ...


def put(monkeypatch, name, **attributes):
    """A module of this name that has these attributes."""
    parts = name.split(".")
    for count in range(1, len(parts) + 1):
        path = ".".join(parts[:count])
        monkeypatch.setitem(sys.modules, path, types.ModuleType(path))
    for key, value in attributes.items():
        setattr(sys.modules[name], key, value)


def callback_module(monkeypatch, name):
    """gpuyard.callbacks.NAME, imported afresh, and unloaded after the test."""
    path = f"gpuyard.callbacks.{name}"
    monkeypatch.delitem(sys.modules, path, raising=False)
    module = importlib.import_module(path)
    monkeypatch.setitem(sys.modules, path, module)
    return module


def hooks_of(base):
    return {name: list(inspect.signature(function).parameters)
            for name, function in vars(base).items() if name.startswith("on_")}


def check_hooks(callback, base):
    """Every hook that the callback has is one of the base's, with the same parameters."""
    for name, parameters in hooks_of(callback).items():
        assert hooks_of(base).get(name) == parameters, name
