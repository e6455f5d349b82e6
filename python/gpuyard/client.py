"""The blocking client of a daemon, on this machine or another one."""

from __future__ import annotations

import json
import time
from typing import Any, Mapping, Optional, TypeVar

from . import calls, daemon_address, http, models
from .calls import Call, CallSequence, Gpus, Sleep, Step, Value
from .energy_window import Energy
from .errors import Internal, error_of_answer
from .event_stream import Events
from .lease_context import Lease
from .transport import Transport
from .units import Duration, Size, seconds_of

T = TypeVar("T")

DEADLINE = 2.0  # seconds that one request may take, from connecting to the last byte


def answer_of(response: http.Response) -> Any:
    """The JSON or the text of a response. Raises the error of a refused request."""
    if response.status // 100 != 2:
        raise error_of_answer(response.status, response.body, response.fields)
    if response.fields.get("content-type", "").startswith("application/json"):
        try:
            return json.loads(response.body)
        except (ValueError, RecursionError):
            raise Internal("the response of the daemon is not valid JSON") from None
    return response.body.decode("utf-8", "replace")


class Client:
    """A connection to one daemon. Safe to use from any thread.

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

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"gpuyard.Client({self.name!r})"

    def close(self) -> None:
        """Closes idle ssh connections. The object can still be used."""
        self._transport.close()

    def run(self, plan: CallSequence[T]) -> T:
        """Runs a call sequence. Errors, and Ctrl-C, are thrown into it first."""
        try:
            step = next(plan)
            while True:
                try:
                    answer = self._do(step)
                except BaseException as error:
                    step = plan.throw(error)
                else:
                    step = plan.send(answer)
        except StopIteration as end:
            value: T = end.value
            return value

    def _do(self, step: Step) -> Any:
        if isinstance(step, Sleep):
            return time.sleep(step.seconds)
        return answer_of(self._transport.exchange(*request_of(step, self._deadline)))

    # The API. Each method is one request, except lease() and events().

    def request(self, method: str, target: str, body: Optional[Mapping[str, Any]] = None) -> Any:
        """Calls any route. Returns the JSON or the text of the response. See `/openapi.json`."""
        return self.run(calls.request(method, target, body))

    def devices(self) -> list[models.Device]:
        """All GPUs with all their readings, at most a second old."""
        return self.run(calls.devices())

    def lease(self, gpus: int = 1, *, min_free: Optional[Size] = None,
              among: Optional[Gpus] = None, model: Optional[str] = None,
              max_time: Optional[Duration] = None, ttl: Optional[Duration] = None,
              wait: Optional[Duration] = None, note: Optional[str] = None) -> Lease:
        """Leases GPUs for a `with` block: all of them or none, first come, first served.

        `wait`: how long to wait for the GPUs; None: no limit, 0: do not queue. `ttl`: how long the
        lease lasts after this process has died; None: on this machine it ends with the process, on
        another machine after two minutes.
        """
        if ttl is None and self.is_elsewhere:
            ttl = Lease.TTL
        request = calls.lease_request(gpus, min_free, among, model, max_time, ttl, note)
        return Lease(self, request, None if wait is None else seconds_of(wait))

    def claim(self, wish: models.LeaseRequest, wait: Optional[Duration] = None) -> models.Lease:
        """Claims GPUs and waits for them. They are held until release(), or as `wish` requests."""
        return self.run(calls.claim(wish, None if wait is None else seconds_of(wait)))

    def leases(self) -> list[models.Lease]:
        """All leases that are held or draining, oldest first."""
        return self.run(calls.leases())

    def find_lease(self, lease: str) -> models.Lease:
        """The lease with this ID, also one that ended within the last day."""
        return self.run(calls.find_lease(lease))

    def renew(self, lease: str, ttl: Duration, fence: Optional[int] = None) -> models.Lease:
        """Extends a lease that has a TTL to `ttl` from now."""
        return self.run(calls.renew(lease, seconds_of(ttl), fence))

    def release(self, lease: str, fence: Optional[int] = None) -> models.Lease:
        """Releases a lease, or cancels a waiting claim."""
        return self.run(calls.release(lease, fence))

    def energy(self, gpus: Optional[Gpus] = None, *, name: Optional[str] = None) -> Energy:
        """Measures the energy of GPUs in a `with` block [default: all GPUs]."""
        return Energy(lambda: (self, gpus), name)

    def begin_energy_window(self, gpus: Optional[Gpus] = None, name: Optional[str] = None) -> str:
        """Begins a measurement and returns its ID. It survives a restart of the daemon, and ends
        after a day by itself."""
        return self.run(calls.begin_window(gpus, name)).id

    def measure_energy(self, window: str) -> models.EnergyWindow:
        """The energy of a measurement until now."""
        return self.run(calls.measure_window(window))

    def end_energy_window(self, window: str) -> models.EnergyWindow:
        """Ends a measurement and returns its energy."""
        return self.run(calls.end_window(window))

    def set(self, gpus: Gpus, setting: str, value: Value, *, lasting: Optional[Duration] = None
            ) -> list[models.ChangeResult]:
        """Changes a setting of GPUs, or of "all": set(0, "power_limit", 300, lasting="30m").

        power_limit: watts. gpu_clocks, memory_clocks: MHz, or (lowest, highest). persistence, ecc:
        True, False. compute_mode: "default", "prohibited", "exclusive_process".
        """
        return self.run(calls.set_setting(gpus, setting, value, lasting))

    def restore(self, gpus: Gpus, setting: Optional[str] = None) -> list[models.ChangeResult]:
        """Withdraws one of your settings, or all of them."""
        return self.run(calls.restore_setting(gpus, setting))

    def alerts(self) -> list[models.Alert]:
        """The alerts that are firing."""
        return self.run(calls.alerts())

    def acknowledge(self, alert: int, note: Optional[str] = None) -> models.Alert:
        """Acknowledges an alert: no more notifications until it is resolved."""
        return self.run(calls.acknowledge(alert, note))

    def events(self, *, since: str = "", gpus: Optional[Gpus] = None) -> Events:
        """The events from now on, after the event `since`, or with "oldest" all stored events."""
        return Events(self._transport.endpoint, since, gpus, self._deadline)


def request_of(call: Call, deadline: float) -> tuple[http.Request, float]:
    """The request of a call, and its deadline in seconds."""
    request = http.Request(call.method, call.target, call.encoded_body())
    return request, max(deadline, call.least) + call.more
