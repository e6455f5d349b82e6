"""The blocking client: asks one daemon, on this machine or on another."""

from __future__ import annotations

import json
import time
from typing import Any, Mapping, Optional, TypeVar

from . import hosts, http, models, plans
from .measuring import Energy
from .errors import Internal, error_of_answer
from .streaming import Events
from .leasing import Lease
from .plans import Call, Gpus, Plan, Sleep, Step, Value
from .units import Duration, Size, seconds_of
from .wire import Wire

T = TypeVar("T")

DEADLINE = 2.0  # seconds that one request may take, from connecting to the last byte


def answer_of(response: http.Response) -> Any:
    """The JSON of an answer, or its text if it is none. Raises what a refusal says."""
    if response.status // 100 != 2:
        raise error_of_answer(response.status, response.body, response.fields)
    if response.fields.get("content-type", "").startswith("application/json"):
        try:
            return json.loads(response.body)
        except (ValueError, RecursionError):
            raise Internal("the daemon's answer is no JSON") from None
    return response.body.decode("utf-8", "replace")


class Yard:
    """One daemon. Any thread may use it at any time.

    `host` is "unix:///path", "ssh://[user@]host", "https://host[:9411]" or a name in hosts.toml;
    nothing: what GPUYARD_HOST or GPUYARD_SOCKET name, else the daemon of this machine. GPUs are
    named by index, UUID or PCI address.

    Nothing is asked until a function is called, so that a daemon that is away is no error here.
    """

    def __init__(self, host: str = "", *, token_file: str = "", deadline: float = DEADLINE) -> None:
        self._wire = Wire(hosts.daemon_meant(host, token_file))
        self._deadline = deadline

    @property
    def name(self) -> str:
        """Whom it asks: "/run/gpuyard/gpuyard.sock", "ssh://lab"."""
        return self._wire.endpoint.name

    @property
    def is_elsewhere(self) -> bool:
        """Whether a lease lasts for a time there, since the daemon does not see this process."""
        return self._wire.endpoint.is_elsewhere

    def __enter__(self) -> Yard:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"gpuyard.Yard({self.name!r})"

    def close(self) -> None:
        """Ends the connections by ssh that wait for another request; more can be asked."""
        self._wire.close()

    def run(self, plan: Plan[T]) -> T:
        """Does what a plan says; what goes wrong, Ctrl-C too, is told to the plan first."""
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
        return answer_of(self._wire.exchange(*asked(step, self._deadline)))

    # What can be asked. Each function is one request, but lease() and events().

    def request(self, method: str, target: str, body: Optional[Mapping[str, Any]] = None) -> Any:
        """Any route: the answer's JSON, or its text. `/openapi.json` tells all routes."""
        return self.run(plans.request(method, target, body))

    def devices(self) -> list[models.Device]:
        """All GPUs in full, from the newest snapshot, at most a second old."""
        return self.run(plans.devices())

    def lease(self, gpus: int = 1, *, min_free: Optional[Size] = None,
              among: Optional[Gpus] = None, model: Optional[str] = None,
              max_time: Optional[Duration] = None, ttl: Optional[Duration] = None,
              wait: Optional[Duration] = None, note: Optional[str] = None) -> Lease:
        """GPUs for a `with` block: all of them or none, first come, first served.

        `wait`: how long to wait for them; None: for ever, 0: not at all. `ttl`: the lease lasts so
        long after this process has died; None: a daemon of this machine ends it with the process,
        one elsewhere after two minutes.
        """
        if ttl is None and self.is_elsewhere:
            ttl = Lease.TTL
        wish = plans.wish(gpus, min_free, among, model, max_time, ttl, note)
        return Lease(self, wish, None if wait is None else seconds_of(wait))

    def claim(self, wish: models.LeaseWish, wait: Optional[Duration] = None) -> models.Lease:
        """Claims GPUs and waits for them; they are held until release(), or as the wish says."""
        return self.run(plans.claim(wish, None if wait is None else seconds_of(wait)))

    def leases(self) -> list[models.Lease]:
        """All leases that are held or draining, oldest first."""
        return self.run(plans.leases())

    def find_lease(self, lease: str) -> models.Lease:
        """The lease of this id, also one that ended within the last day."""
        return self.run(plans.find_lease(lease))

    def renew(self, lease: str, ttl: Duration, fence: Optional[int] = None) -> models.Lease:
        """Lets a lease with a time last so long from now on."""
        return self.run(plans.renew(lease, seconds_of(ttl), fence))

    def release(self, lease: str, fence: Optional[int] = None) -> models.Lease:
        """Gives up a lease, or its place in the queue."""
        return self.run(plans.release(lease, fence))

    def energy(self, gpus: Optional[Gpus] = None, *, name: Optional[str] = None) -> Energy:
        """Measures the energy of these GPUs, or all, in a `with` block."""
        return Energy(lambda: (self, gpus), name)

    def begin_energy_window(self, gpus: Optional[Gpus] = None, name: Optional[str] = None) -> str:
        """Begins to measure, and returns the window's id. It survives the daemon, and is over after
        a day if nobody ends it."""
        return self.run(plans.begin_window(gpus, name)).id

    def measure_energy(self, window: str) -> models.EnergyWindow:
        """The energy used in it until now."""
        return self.run(plans.measure_window(window))

    def end_energy_window(self, window: str) -> models.EnergyWindow:
        """Ends it, and returns the energy used in it."""
        return self.run(plans.end_window(window))

    def set(self, gpus: Gpus, setting: str, value: Value, *, lasting: Optional[Duration] = None
            ) -> list[models.Change]:
        """Sets what GPUs, or "all", should have: set(0, "power_limit", 300, lasting="30m").

        power_limit: watts. gpu_clocks, memory_clocks: MHz, or (lowest, highest). persistence, ecc:
        True, False. compute_mode: "default", "prohibited", "exclusive_process".
        """
        return self.run(plans.set_setting(gpus, setting, value, lasting))

    def restore(self, gpus: Gpus, setting: Optional[str] = None) -> list[models.Change]:
        """Gives up what this user wanted, of one setting or of all."""
        return self.run(plans.restore_setting(gpus, setting))

    def alerts(self) -> list[models.Alert]:
        """What fires now."""
        return self.run(plans.alerts())

    def acknowledge(self, alert: int, note: Optional[str] = None) -> models.Alert:
        """Somebody looks after an alert: nobody is told of it again until it is over."""
        return self.run(plans.acknowledge(alert, note))

    def events(self, *, since: str = "", gpus: Optional[Gpus] = None) -> Events:
        """What happens from now on, after the event `since`, or with "oldest" all that is known."""
        return Events(self._wire.endpoint, since, gpus, self._deadline)


def asked(call: Call, deadline: float) -> tuple[http.Request, float]:
    """The request of a call, and how long it may take."""
    request = http.Request(call.method, call.target, call.encoded_body())
    return request, max(deadline, call.least) + call.more
