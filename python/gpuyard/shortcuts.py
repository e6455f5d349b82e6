"""The functions that most programs need. They use the daemon of GPUYARD_HOST or GPUYARD_SOCKET
[default: the daemon of this machine]."""

from __future__ import annotations

import functools
import inspect
import logging
from typing import Any, Callable, Optional, TypeVar, overload

from . import cuda, models
from .calls import Gpus
from .client import Client
from .energy_window import Energy
from .event_stream import Events
from .lease_context import Lease
from .units import Duration, Size

F = TypeVar("F", bound=Callable[..., Any])

log = logging.getLogger("gpuyard")


def devices() -> list[models.Device]:
    """All GPUs with all their readings."""
    with Client() as client:
        return client.devices()


def events(*, since: str = "", gpus: Optional[Gpus] = None) -> Events:
    """The events from now on: `for event in gpuyard.events(): ...`"""
    return Client().events(since=since, gpus=gpus)


def lease(gpus: int = 1, *, min_free: Optional[Size] = None, among: Optional[Gpus] = None,
          model: Optional[str] = None, max_time: Optional[Duration] = None,
          ttl: Optional[Duration] = None, wait: Optional[Duration] = None,
          note: Optional[str] = None) -> Lease:
    """Leases GPUs for a `with` block, in which CUDA_VISIBLE_DEVICES is set to them.

    Raises Conflict if CUDA is already initialised in this process, because it would not use the
    leased GPUs. See Client.lease() for the parameters.
    """
    taken = Client().lease(gpus, min_free=min_free, among=among, model=model, max_time=max_time,
                         ttl=ttl, wait=wait, note=note)
    taken.set_environment()
    return taken


def energy(gpus: Optional[Gpus] = None, *, name: Optional[str] = None) -> Energy:
    """Measures the energy of GPUs in a `with` block [default: the GPUs of this process]."""
    return Energy(lambda: _client_for(gpus), name)


def _client_for(gpus: Optional[Gpus]) -> tuple[Optional[Client], Optional[Gpus]]:
    """The daemon and the GPUs, at the beginning of a block: a lease may have changed the GPUs."""
    client = Client()
    if gpus is not None:
        return client, gpus
    names = cuda.my_gpus()
    if names is None:
        return client, None
    if not names:
        return None, None
    # The daemon needs complete UUIDs; CUDA also accepts their beginning.
    if any(name.startswith("GPU-") and len(name) < cuda.UUID_LENGTH for name in names):
        mine = [device.uuid for device in client.devices()
                if cuda.is_mine(device.index, device.uuid, names)]
        return (client, mine) if mine else (None, None)
    return client, names


@overload
def measured(function: F) -> F: ...
@overload
def measured(*, gpus: Optional[Gpus] = None, name: Optional[str] = None) -> Callable[[F], F]: ...


def measured(function: Optional[F] = None, *, gpus: Optional[Gpus] = None,
             name: Optional[str] = None) -> Any:
    """Decorator that measures the energy of each call. `function.energy` is the Energy of the last
    call that ended; the logger "gpuyard" gets a line for each call."""
    if function is None:
        return functools.partial(measured, gpus=gpus, name=name)
    label = name or _shorten(function.__qualname__)
    wrapper: Any = (_wrap_coroutine if inspect.iscoroutinefunction(function) else
                    _wrap_function)(function, gpus, label)
    wrapper.energy = None
    return wrapper


def _shorten(name: str) -> str:
    """A name for a measurement, at most 64 bytes."""
    return name.rsplit("<locals>.", 1)[-1].encode("utf-8")[:64].decode("utf-8", "ignore")


def _wrap_function(function: Callable[..., Any], gpus: Optional[Gpus], label: str) -> Any:
    @functools.wraps(function)
    def wrapper(*arguments: Any, **named: Any) -> Any:
        spent = energy(gpus, name=label).begin()
        try:
            return function(*arguments, **named)
        finally:
            _record(wrapper, spent.end(), label)
    return wrapper


def _wrap_coroutine(function: Callable[..., Any], gpus: Optional[Gpus], label: str) -> Any:
    @functools.wraps(function)
    async def wrapper(*arguments: Any, **named: Any) -> Any:
        import asyncio
        loop = asyncio.get_running_loop()
        # The daemon responds in a millisecond or two, but may be unavailable.
        spent = await loop.run_in_executor(None, energy(gpus, name=label).begin)
        try:
            return await function(*arguments, **named)
        finally:
            _record(wrapper, await loop.run_in_executor(None, spent.end), label)
    return wrapper


def _record(wrapper: Any, spent: Energy, label: str) -> None:
    wrapper.energy = spent
    log.info("%s: %r", label, spent)
