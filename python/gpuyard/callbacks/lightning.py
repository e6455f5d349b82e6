# pyright: basic, reportMissingImports=false
"""A callback for Lightning: `Trainer(callbacks=[EnergyCallback()])`.

The joules of an epoch are logged as gpu_energy_joules by the module, and so by its loggers.
"""

from __future__ import annotations

from typing import Any

try:
    from lightning.pytorch.callbacks import Callback
except ImportError:  # the package's older name
    from pytorch_lightning.callbacks import Callback

from .common import Training


class EnergyCallback(Callback):  # type: ignore[misc, unused-ignore]
    def __init__(self, *, stop_on_critical_alert: bool = True) -> None:
        super().__init__()
        self.training = Training(stop_on_critical_alert=stop_on_critical_alert)

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        self.training.begin()

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        self.training.end()

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        self.training.end()

    def on_train_epoch_start(self, trainer: Any, pl_module: Any) -> None:
        # Only the first process of each machine measures: several may see the same GPUs, which
        # the sum would count several times.
        if trainer.local_rank == 0:
            self.training.begin_epoch()

    def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        for name, joules in self.training.end_epoch().items():
            pl_module.log(name, joules, on_step=False, on_epoch=True, rank_zero_only=True,
                          batch_size=1)

    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any,
                           batch_idx: int) -> None:
        def stop() -> None:
            trainer.should_stop = True
        self.training.step(stop)
