"""The common part of the callbacks. It depends on no framework."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, Any, Callable, Mapping, Optional

from .. import _deprecated, cuda, models
from ..client import Client
from ..energy_window import Energy
from ..errors import Error
from ..shortcuts import energy

# The names in the frameworks' logs.
EPOCH = "gpu_energy_joules"
TOTAL = "gpu_energy_joules_total"

log = logging.getLogger("gpuyard")


class EpochEnergy:
    """Measures each epoch on the GPUs of this process. It never makes a training fail."""

    def __init__(self) -> None:
        self.last: Optional[Energy] = None
        self.total: Optional[float] = 0.0
        self._running: Optional[Energy] = None
        self._warned = False

    def begin(self) -> None:
        self.abandon()
        self._running = energy(name="epoch").begin()

    def end(self) -> Mapping[str, float]:
        """For the logs: joules of the epoch and of all epochs, without unknown values."""
        if self._running is None:
            return {}
        spent, self._running = self._running.end(), None
        self.last = spent
        joules = spent.joules
        if joules is None or self.total is None:
            # A sum without an epoch would count that epoch as zero.
            self.total = None
        else:
            self.total += joules
        if spent.why and not self._warned:
            self._warned = True
            log.warning("energy of the epoch: %s", spent.why)
        values = {EPOCH: joules, TOTAL: self.total}
        return {name: value for name, value in values.items() if value is not None}

    def abandon(self) -> None:
        """Ends the measurement of an epoch that did not end, e.g. after an exception."""
        if self._running is not None:
            self._running.end()
            self._running = None


class AlertPoller:
    """Checks for critical alerts of this process's GPUs, in a thread of its own.

    An acknowledged alert does not count: its owner wants the training to continue.
    """

    EVERY = 2.0  # seconds

    def __init__(self, every: float = EVERY) -> None:
        self._every = every
        self._alert: Optional[models.Alert] = None
        self._stop: Optional[threading.Event] = None

    @property
    def alert(self) -> Optional[models.Alert]:
        """The alert that is the reason to stop."""
        return self._alert

    def start(self) -> None:
        self.stop()
        self._alert = None
        self._stop = threading.Event()
        threading.Thread(target=self._poll, args=(self._stop, cuda.my_gpus()), daemon=True,
                         name="gpuyard-alerts").start()

    def stop(self) -> None:
        if self._stop is not None:
            self._stop.set()
            self._stop = None

    def _poll(self, stop: threading.Event, names: Optional[list[str]]) -> None:
        warned = False
        while not stop.is_set():
            try:
                with Client() as client:
                    found = critical_of(client.alerts(), names)
            except Error as error:
                if not warned:
                    log.warning("the alerts of the GPUs are not monitored: %s", error)
                warned, found = True, None
            if found:
                log.error("stopping the training: %s. %s", found.message, found.advice)
                self._alert = found
                return
            stop.wait(self._every)


def critical_of(alerts: list[models.Alert], names: Optional[list[str]]) -> Optional[models.Alert]:
    """The first critical alert of a GPU with one of these names (None: of any GPU)."""
    for alert in alerts:
        urgent = alert.level == "critical" and alert.state == "firing" and not alert.acknowledged
        if urgent and alert.gpu and cuda.is_mine(alert.gpu.index, alert.gpu.uuid, names):
            return alert
    return None


Stop = Callable[[], None]


class Training:
    """One training: starts and stops the measurement and the watch of the alerts."""

    def __init__(self, *, stop_on_critical_alert: bool = True, measures: bool = True) -> None:
        self.energy = EpochEnergy()
        self.watch = AlertPoller()
        self._stops = stop_on_critical_alert
        self._measures = measures
        self.stopped_by: Optional[models.Alert] = None

    def begin(self) -> None:
        self.stopped_by = None
        if self._stops:
            self.watch.start()

    def end(self) -> None:
        self.watch.stop()
        self.energy.abandon()

    def begin_epoch(self) -> None:
        if self._measures:
            self.energy.begin()

    def end_epoch(self) -> Mapping[str, float]:
        return self.energy.end()

    def step(self, stop: Stop) -> None:
        """To call after each step: calls `stop` if the training must stop."""
        if self.watch.alert is not None and self.stopped_by is None:
            self.stopped_by = self.watch.alert
            stop()


if TYPE_CHECKING:
    AlertWatch = AlertPoller
else:
    def __getattr__(name: str) -> Any:
        return _deprecated.find(__name__, name)
