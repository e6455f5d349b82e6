"""gpuyard: lease GPUs, measure their energy, watch them and change their settings.

    with gpuyard.lease(2, min_free="40G", wait="10m") as lease: ...
    with gpuyard.energy() as e: train()
    print(e.joules)

gpuyard.Client("ssh://dgx1") connects to the daemon of another machine. gpuyard.aio is the same for
asyncio. Modules are imported when they are first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from . import _deprecated

if TYPE_CHECKING:
    from . import aio as aio
    from . import errors as errors
    from . import models as models
    from .client import Client as Client
    from .client import Client as Yard
    from .energy_window import Energy as Energy
    from .errors import Busy as Busy
    from .errors import Conflict as Conflict
    from .errors import Denied as Denied
    from .errors import DeviceLost as DeviceLost
    from .errors import Error as Error
    from .errors import Internal as Internal
    from .errors import Invalid as Invalid
    from .errors import NotFound as NotFound
    from .errors import TimedOut as TimedOut
    from .errors import Unavailable as Unavailable
    from .errors import Unsupported as Unsupported
    from .event_follower import Event as Event
    from .event_stream import Events as Events
    from .lease_context import Lease as Lease
    from .shortcuts import devices as devices
    from .shortcuts import energy as energy
    from .shortcuts import events as events
    from .shortcuts import lease as lease
    from .shortcuts import measured as measured

    __version__: str

_PLACES = {
    "Client": "client", "Lease": "lease_context", "Energy": "energy_window",
    "Event": "event_follower", "Events": "event_stream",
    **dict.fromkeys(("devices", "energy", "events", "lease", "measured"), "shortcuts"),
    **dict.fromkeys(("Error", "Unsupported", "NotFound", "Denied", "Conflict", "Invalid", "Busy",
                     "Unavailable", "DeviceLost", "TimedOut", "Internal"), "errors"),
}

__all__ = [
    "Busy", "Client", "Conflict", "Denied", "DeviceLost", "Energy", "Error", "Event", "Events",
    "Internal", "Invalid", "Lease", "NotFound", "TimedOut", "Unavailable", "Unsupported", "Yard",
    "__version__", "aio", "devices", "energy", "errors", "events", "lease", "measured", "models",
]


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name == "__version__":
        from .version import version_of
        value: Any = version_of()
    elif name in _PLACES:
        value = getattr(import_module(f".{_PLACES[name]}", __name__), name)
    elif name in ("aio", "callbacks", "errors", "models"):
        value = import_module(f".{name}", __name__)
    else:
        return _deprecated.find(__name__, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(set(__all__) - {"Yard"})  # a former name


def load_ipython_extension(shell: Any) -> None:
    """%load_ext gpuyard"""
    from .ipython import load_ipython_extension as load
    load(shell)
