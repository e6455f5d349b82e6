"""gpuyard: lease GPUs, measure their energy, watch them and change their settings.

    with gpuyard.lease(2, min_free="40G", wait="10m") as lease: ...
    with gpuyard.energy() as e: train()
    print(e.joules)

gpuyard.Yard("ssh://dgx1") connects to the daemon of another machine. gpuyard.aio is the same for
asyncio. Modules are imported when they are first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from . import aio as aio
    from . import errors as errors
    from . import models as models
    from .measuring import Energy as Energy
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
    from .streaming import Events as Events
    from .following import Event as Event
    from .leasing import Lease as Lease
    from .simple import devices as devices
    from .simple import energy as energy
    from .simple import events as events
    from .simple import lease as lease
    from .simple import measured as measured
    from .yard import Yard as Yard

    __version__: str

_PLACES = {
    "Yard": "yard", "Lease": "leasing", "Energy": "measuring", "Event": "following",
    "Events": "streaming",
    **dict.fromkeys(("devices", "energy", "events", "lease", "measured"), "simple"),
    **dict.fromkeys(("Error", "Unsupported", "NotFound", "Denied", "Conflict", "Invalid", "Busy",
                     "Unavailable", "DeviceLost", "TimedOut", "Internal"), "errors"),
}

__all__ = [
    "Busy", "Conflict", "Denied", "DeviceLost", "Energy", "Error", "Event", "Events", "Internal",
    "Invalid", "Lease", "NotFound", "TimedOut", "Unavailable", "Unsupported", "Yard",
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
        raise AttributeError(f"module 'gpuyard' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)


def load_ipython_extension(shell: Any) -> None:
    """%load_ext gpuyard"""
    from .magic import load_ipython_extension as load
    load(shell)
