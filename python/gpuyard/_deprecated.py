"""The former names of modules, classes and functions. For one version they still work, with a
DeprecationWarning that names the new one."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Mapping, Optional, Sequence

if TYPE_CHECKING:
    from importlib.abc import Loader
    from importlib.machinery import ModuleSpec
    from types import ModuleType
else:
    Loader = object

_MODULES: Mapping[str, str] = {
    "gpuyard.following": "gpuyard.event_follower",
    "gpuyard.hosts": "gpuyard.daemon_address",
    "gpuyard.leasing": "gpuyard.lease_context",
    "gpuyard.magic": "gpuyard.ipython",
    "gpuyard.measuring": "gpuyard.energy_window",
    "gpuyard.plans": "gpuyard.calls",
    "gpuyard.simple": "gpuyard.shortcuts",
    "gpuyard.streaming": "gpuyard.event_stream",
    "gpuyard.trust": "gpuyard.tls_pins",
    "gpuyard.wire": "gpuyard.transport",
    "gpuyard.yard": "gpuyard.client",
    "gpuyard.aio.leasing": "gpuyard.aio.lease_context",
    "gpuyard.aio.measuring": "gpuyard.aio.energy_window",
    "gpuyard.aio.streaming": "gpuyard.aio.event_stream",
    "gpuyard.aio.wire": "gpuyard.aio.transport",
    "gpuyard.aio.yard": "gpuyard.aio.client",
}

# Former names in a module, by the module's present name.
_NAMES: Mapping[str, Mapping[str, str]] = {
    "gpuyard": {"Yard": "Client"},
    "gpuyard.aio": {"Yard": "Client"},
    "gpuyard.callbacks.common": {"AlertWatch": "AlertPoller"},
    # These come with the module's former name: the new module never had them.
    "gpuyard.calls": {"Plan": "CallSequence", "wish": "lease_request"},
    "gpuyard.client": {"Yard": "Client", "asked": "request_of"},
    "gpuyard.daemon_address": {"daemon_meant": "select_daemon"},
    "gpuyard.event_follower": {"Follower": "EventFollower"},
    "gpuyard.lease_context": {"Holding": "LeaseBase"},
    "gpuyard.models": {
        "AcknowledgeWish": "AcknowledgeRequest", "AdoptWish": "AdoptRequest", "Change":
        "ChangeResult", "ChangeWish": "ChangeOptions", "Changes": "ChangeResults", "ClearEccWish":
        "ClearEccRequest", "ClocksWish": "LockedClocksRequest", "ComputeModeWish":
        "ComputeModeRequest", "CordonWish": "CordonRequest", "Cordoned": "CordonResult",
        "EnabledWish": "EnableRequest", "EnergyWindowWish": "EnergyWindowRequest", "JobWish":
        "SlurmJobRequest", "LeasePlace": "QueuePosition", "LeaseUse": "LeaseUsage", "LeaseWish":
        "LeaseRequest", "MemberWish": "MemberRequest", "PowerLimitWish": "PowerLimitRequest",
        "ProcessInFull": "ProcessWithArguments", "RenewWish": "RenewRequest", "SilenceWish":
        "SilenceRequest", "SinkTestWish": "SinkTestRequest", "SlurmBegun": "SlurmJobStarted",
        "Spell": "BottleneckSpan", "Stay": "ProcessSpan", "Stays": "ProcessSpans", "TokenWish":
        "TokenRequest", "Unsignalled": "UnsignalledProcesses",
    },
    "gpuyard.transport": {"Wire": "Transport", "no_answer": "timeout_error",
                          "no_connection": "connection_error"},
    "gpuyard.aio.client": {"Yard": "Client"},
    "gpuyard.aio.transport": {"Wire": "Transport", "turn": "yield_to_loop"},
}


def find(module: str, name: str) -> Any:
    """Returns the present object of a module's former name. Raises AttributeError for any other name."""
    from importlib import import_module

    former = f"{module}.{name}"
    if former in _MODULES:
        return import_module(former)
    new = _NAMES[module].get(name)
    if new is None:
        raise AttributeError(f"module {module!r} has no attribute {name!r}")
    warn(former, f"{module}.{new}")
    return getattr(import_module(module), new)


def warn(former: str, new: str) -> None:
    """Warns where the caller's program uses the former name, not where this package or an import
    passes it on."""
    import warnings

    frame = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
    while frame.f_back and _module_of(frame.f_globals) in ("gpuyard", "importlib",
                                                           "_frozen_importlib"):
        frame = frame.f_back
    warnings.warn_explicit(
        f"{former} is deprecated; use {new}", DeprecationWarning, frame.f_code.co_filename,
        frame.f_lineno, frame.f_globals.get("__name__"),
        frame.f_globals.setdefault("__warningregistry__", {}))


def _module_of(names: Mapping[str, Any]) -> str:
    return str(names.get("__name__", "")).partition(".")[0]


class _Finder(Loader):
    """Finds each module by its former name, too: the same module, not a copy."""

    def find_spec(self, name: str, path: Optional[Sequence[str]] = None,
                  target: Optional[ModuleType] = None) -> Optional[ModuleSpec]:
        from importlib.machinery import ModuleSpec

        return ModuleSpec(name, self) if name in _MODULES else None

    def create_module(self, spec: ModuleSpec) -> None:
        """An empty one, which exec_module() replaces."""

    def exec_module(self, module: ModuleType) -> None:
        from importlib import import_module

        former = module.__name__
        new = _MODULES[former]
        warn(former, new)
        sys.modules[former] = present = import_module(new)
        for old_name, new_name in _NAMES.get(new, {}).items():
            setattr(present, old_name, getattr(present, new_name))


# Last, so that it costs nothing unless no other finder knows the module.
sys.meta_path.append(_Finder())
