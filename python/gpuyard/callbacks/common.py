"""What the callbacks of all frameworks have in common. Knows no framework."""

from __future__ import annotations

import logging
import threading
from typing import Callable, Mapping, Optional

from .. import cuda, models
from ..errors import Error
from ..measuring import Energy
from ..simple import energy
from ..yard import Yard

# The names in the frameworks' logs.
EPOCH = "gpu_energy_joules"
TOTAL = "gpu_energy_joules_total"

log = logging.getLogger("gpuyard")


class EpochEnergy:
    """Measures epoch after epoch on this process's GPUs. Never the reason why a training fails."""

    def __init__(self) -> None:
        self.last: Optional[Energy] = None
        self.total: Optional[float] = 0.0
        self._running: Optional[Energy] = None
        self._warned = False

    def begin(self) -> None:
        self.abandon()
        self._running = energy(name="epoch").begin()

    def end(self) -> Mapping[str, float]:
        """For the logs: joules of the epoch, and since the first. Nothing where it is not known."""
        if self._running is None:
            return {}
        spent, self._running = self._running.end(), None
        self.last = spent
        joules = spent.joules
        if joules is None or self.total is None:
            # A sum that lacks an epoch would look as if that epoch had cost nothing.
            self.total = None
        else:
            self.total += joules
        if spent.why and not self._warned:
            self._warned = True
            log.warning("energy of the epoch: %s", spent.why)
        values = {EPOCH: joules, TOTAL: self.total}
        return {name: value for name, value in values.items() if value is not None}

    def abandon(self) -> None:
        """An epoch that did not end, as after an exception, ends its window."""
        if self._running is not None:
            self._running.end()
            self._running = None


class AlertWatch:
    """Looks in a thread of its own for a critical alert of this process's GPUs.

    An acknowledged alert does not count: somebody looks after it, and wants the training to go on.
    """

    EVERY = 2.0  # seconds

    def __init__(self, every: float = EVERY) -> None:
        self._every = every
        self._alert: Optional[models.Alert] = None
        self._stop: Optional[threading.Event] = None

    @property
    def alert(self) -> Optional[models.Alert]:
        """The alert because of which to stop."""
        return self._alert

    def start(self) -> None:
        self.stop()
        self._alert = None
        self._stop = threading.Event()
        threading.Thread(target=self._look, args=(self._stop, cuda.my_gpus()), daemon=True,
                         name="gpuyard-alerts").start()

    def stop(self) -> None:
        if self._stop is not None:
            self._stop.set()
            self._stop = None

    def _look(self, stop: threading.Event, names: Optional[list[str]]) -> None:
        warned = False
        while not stop.is_set():
            try:
                with Yard() as yard:
                    found = critical_of(yard.alerts(), names)
            except Error as error:
                if not warned:
                    log.warning("nobody watches the alerts of the GPUs: %s", error)
                warned, found = True, None
            if found:
                log.error("training stops: %s. %s", found.message, found.advice)
                self._alert = found
                return
            stop.wait(self._every)


def critical_of(alerts: list[models.Alert], names: Optional[list[str]]) -> Optional[models.Alert]:
    """The first critical alert of a GPU that has one of these names (None: of any)."""
    for alert in alerts:
        urgent = alert.level == "critical" and alert.state == "firing" and not alert.acknowledged
        if urgent and alert.gpu and cuda.is_mine(alert.gpu.index, alert.gpu.uuid, names):
            return alert
    return None


Stop = Callable[[], None]


class Training:
    """One training: begins and ends both of the above, as the framework says."""

    def __init__(self, *, stop_on_critical_alert: bool = True, measures: bool = True) -> None:
        self.energy = EpochEnergy()
        self.watch = AlertWatch()
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
        """After each step: calls `stop` if it is to be the last."""
        if self.watch.alert is not None and self.stopped_by is None:
            self.stopped_by = self.watch.alert
            stop()
