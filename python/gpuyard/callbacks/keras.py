# pyright: basic, reportMissingImports=false
"""A callback for Keras 3: `model.fit(..., callbacks=[EnergyCallback()])`.

The joules of an epoch are in its logs as gpu_energy_joules, and so in the History and in a
CSVLogger that follows this callback.
"""

from __future__ import annotations

from typing import Any, Optional

import keras

from .common import Training


class EnergyCallback(keras.callbacks.Callback):  # type: ignore[misc, unused-ignore]
    def __init__(self, *, stop_on_critical_alert: bool = True) -> None:
        super().__init__()
        self.training = Training(stop_on_critical_alert=stop_on_critical_alert)

    def on_train_begin(self, logs: Optional[dict[str, Any]] = None) -> None:
        self.training.begin()

    def on_train_end(self, logs: Optional[dict[str, Any]] = None) -> None:
        self.training.end()

    def on_epoch_begin(self, epoch: int, logs: Optional[dict[str, Any]] = None) -> None:
        self.training.begin_epoch()

    def on_epoch_end(self, epoch: int, logs: Optional[dict[str, Any]] = None) -> None:
        values = self.training.end_epoch()
        if logs is not None:
            logs.update(values)

    def on_train_batch_end(self, batch: int, logs: Optional[dict[str, Any]] = None) -> None:
        self.training.step(self._stop)

    def _stop(self) -> None:
        self.model.stop_training = True
