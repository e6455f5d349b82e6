# pyright: basic, reportMissingImports=false
"""A callback for the Trainer of Hugging Face's transformers.

    trainer.add_callback(EnergyCallback(trainer))

With the trainer, the joules of an epoch go through trainer.log() and so to its other callbacks;
without it, they are only in the log_history of the state.
"""

from __future__ import annotations

from typing import Any, Optional

from transformers import TrainerCallback

from .common import Training


class EnergyCallback(TrainerCallback):  # type: ignore[misc, unused-ignore]
    def __init__(self, trainer: Optional[Any] = None, *, stop_on_critical_alert: bool = True
                 ) -> None:
        self.trainer = trainer
        self.training = Training(stop_on_critical_alert=stop_on_critical_alert)

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.training.begin()

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.training.end()

    def on_epoch_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        # Only the first process of each machine measures: several may see the same GPUs, which
        # the sum would count several times.
        if state.is_local_process_zero:
            self.training.begin_epoch()

    def on_epoch_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        values = dict(self.training.end_epoch())
        if not values or not state.is_world_process_zero:
            return
        if self.trainer is not None:
            self.trainer.log(values)
        else:
            state.log_history.append({**values, "epoch": state.epoch, "step": state.global_step})

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> Any:
        def stop() -> None:
            control.should_training_stop = True
        self.training.step(stop)
        return control
