"""The asyncio client of a daemon, on this machine or another one."""

from __future__ import annotations

import asyncio
from typing import Any, Mapping, Optional, TypeVar

from .. import calls, daemon_address, models
from ..calls import CallSequence, Gpus, Sleep, Step, Value
from ..client import DEADLINE, answer_of, request_of
from ..units import Duration, Size, seconds_of
from .energy_window import Energy
from .event_stream import Events
from .lease_context import Lease
from .transport import Transport, yield_to_loop

T = TypeVar("T")


class Client:
    """A connection to one daemon, for the tasks of one event loop.

    `host` is "unix:///path", "ssh://[user@]host", "https://host[:9411]" or a name in hosts.toml
    [env: GPUYARD_HOST, GPUYARD_SOCKET; default: the daemon of this machine]. GPUs are named by
    index, UUID or PCI address.

    No request is sent until a method is called.
    """

    def __init__(self, host: str = "", *, token_file: str = "", deadline: float = DEADLINE) -> None:
        self._transport = Transport(daemon_address.select_daemon(host, token_file))
        self._deadline = deadline

    @property
    def name(self) -> str:
        """The address of the daemon, e.g. "/run/gpuyard/gpuyard.sock" or "ssh://lab"."""
        return self._transport.endpoint.name

    @property
    def is_elsewhere(self) -> bool:
        """Whether the daemon may be on another machine, where it does not see this process."""
        return self._transport.endpoint.is_elsewhere

    async def __aenter__(self) -> Client:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()
        await yield_to_loop()

    def __repr__(self) -> str:
        return f"gpuyard.aio.Client({self.name!r})"

    def close(self) -> None:
        """Closes idle ssh connections. The object can still be used."""
        self._transport.close()

    async def run(self, plan: CallSequence[T]) -> T:
        """Runs a call sequence. Errors and cancellation are thrown into it first."""
        try:
            step = next(plan)
            while True:
                try:
                    answer = await self._do(step)
                except BaseException as error:
                    step = plan.throw(error)
                else:
                    step = plan.send(answer)
        except StopIteration as end:
            value: T = end.value
            return value

    async def _do(self, step: Step) -> Any:
        if isinstance(step, Sleep):
            return await asyncio.sleep(step.seconds)
        return answer_of(await self._transport.exchange(*request_of(step, self._deadline)))

    # The API. Each method is one request, except lease() and events().

    async def request(self, method: str, target: str, body: Optional[Mapping[str, Any]] = None
                      ) -> Any:
        """Calls any route. Returns the JSON or the text of the response. See `/openapi.json`."""
        return await self.run(calls.request(method, target, body))

    async def devices(self) -> list[models.Device]:
        """All GPUs with all their readings, at most a second old."""
        return await self.run(calls.devices())

    def lease(self, gpus: int = 1, *, min_free: Optional[Size] = None,
              among: Optional[Gpus] = None, model: Optional[str] = None,
              max_time: Optional[Duration] = None, ttl: Optional[Duration] = None,
              wait: Optional[Duration] = None, note: Optional[str] = None) -> Lease:
        """Leases GPUs for an `async with` block: all of them or none, first come, first served.

        `wait`: how long to wait for the GPUs; None: no limit, 0: do not queue. `ttl`: how long the
        lease lasts after this process has died; None: on this machine it ends with the process, on
        another machine after two minutes.
        """
        if ttl is None and self.is_elsewhere:
            ttl = Lease.TTL
        request = calls.lease_request(gpus, min_free, among, model, max_time, ttl, note)
        return Lease(self, request, None if wait is None else seconds_of(wait))

    async def claim(self, wish: models.LeaseRequest,
                    wait: Optional[Duration] = None) -> models.Lease:
        """Claims GPUs and waits for them. They are held until release(), or as `wish` requests."""
        return await self.run(calls.claim(wish, None if wait is None else seconds_of(wait)))

    async def leases(self) -> list[models.Lease]:
        """All leases that are held or draining, oldest first."""
        return await self.run(calls.leases())

    async def find_lease(self, lease: str) -> models.Lease:
        """The lease with this ID, also one that ended within the last day."""
        return await self.run(calls.find_lease(lease))

    async def renew(self, lease: str, ttl: Duration, fence: Optional[int] = None) -> models.Lease:
        """Extends a lease that has a TTL to `ttl` from now."""
        return await self.run(calls.renew(lease, seconds_of(ttl), fence))

    async def release(self, lease: str, fence: Optional[int] = None) -> models.Lease:
        """Releases a lease, or cancels a waiting claim."""
        return await self.run(calls.release(lease, fence))

    def energy(self, gpus: Optional[Gpus] = None, *, name: Optional[str] = None) -> Energy:
        """Measures the energy of GPUs in an `async with` block [default: all GPUs]."""
        return Energy(self, gpus, name)

    async def begin_energy_window(self, gpus: Optional[Gpus] = None, name: Optional[str] = None
                                  ) -> str:
        """Begins a measurement and returns its ID. It survives a restart of the daemon, and ends
        after a day by itself."""
        return (await self.run(calls.begin_window(gpus, name))).id

    async def measure_energy(self, window: str) -> models.EnergyWindow:
        """The energy of a measurement until now."""
        return await self.run(calls.measure_window(window))

    async def end_energy_window(self, window: str) -> models.EnergyWindow:
        """Ends a measurement and returns its energy."""
        return await self.run(calls.end_window(window))

    async def set(self, gpus: Gpus, setting: str, value: Value, *,
                  lasting: Optional[Duration] = None) -> list[models.ChangeResult]:
        """Changes a setting of GPUs, or of "all": set(0, "power_limit", 300, lasting="30m").

        power_limit: watts. gpu_clocks, memory_clocks: MHz, or (lowest, highest). persistence, ecc:
        True, False. compute_mode: "default", "prohibited", "exclusive_process".
        """
        return await self.run(calls.set_setting(gpus, setting, value, lasting))

    async def restore(self, gpus: Gpus, setting: Optional[str] = None) -> list[models.ChangeResult]:
        """Withdraws one of your settings, or all of them."""
        return await self.run(calls.restore_setting(gpus, setting))

    async def alerts(self) -> list[models.Alert]:
        """The alerts that are firing."""
        return await self.run(calls.alerts())

    async def acknowledge(self, alert: int, note: Optional[str] = None) -> models.Alert:
        """Acknowledges an alert: no more notifications until it is resolved."""
        return await self.run(calls.acknowledge(alert, note))

    def events(self, *, since: str = "", gpus: Optional[Gpus] = None) -> Events:
        """The events from now on, after the event `since`, or with "oldest" all stored events."""
        return Events(self._transport.endpoint, since, gpus, self._deadline)
