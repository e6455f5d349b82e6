"""Callbacks for training frameworks: the energy of each epoch, and a stop on a critical alert.

    gpuyard.callbacks.hf.EnergyCallback           Hugging Face Trainer
    gpuyard.callbacks.lightning.EnergyCallback    Lightning
    gpuyard.callbacks.keras.EnergyCallback        Keras 3

A framework is imported only in its own module.
"""

from __future__ import annotations

from typing import Any

_MODULES = ("hf", "keras", "lightning")


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        from importlib import import_module
        return import_module(f".{name}", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
