"""The GPUs that CUDA gives this process, and whether that can still be changed.

Imports no framework: one that is not in sys.modules has not initialised CUDA.
"""

from __future__ import annotations

import os
import sys
import threading
from typing import Any, Callable, Mapping, Optional, Sequence

VISIBLE = "CUDA_VISIBLE_DEVICES"
ORDER = "CUDA_DEVICE_ORDER"
UUID_LENGTH = 40  # of "GPU-ce751ccb-2c51-4ca8-8a5f-e1cbf99717fc"
_NAMES = (VISIBLE, ORDER, "GPUYARD_LEASE", "GPUYARD_FENCE")


def _is_torch_initialised(module: Any) -> bool:
    return bool(module.cuda.is_initialized())


def _is_numba_initialised(module: Any) -> bool:
    return bool(module.driver.is_initialized)


def _is_tensorflow_initialised(module: Any) -> bool:
    # A list of the physical GPUs initialises CUDA, also before anything runs on one.
    context = module._context
    return context is not None and any(device.device_type == "GPU"
                                       for device in context._physical_devices or ())


def _is_jax_initialised(module: Any) -> bool:
    # JAX on a CPU has a backend, too, which does not use CUDA.
    return any(name in ("cuda", "gpu", "rocm") for name in module._backends)


def _is_cupy_initialised(module: Any) -> bool:
    # Reads the current context from the driver. Without one it returns 0, or the error that CUDA is
    # not initialised; it initialises nothing.
    return bool(module.ctxGetCurrent())


_FRAMEWORKS: Sequence[tuple[str, str, Callable[[Any], bool]]] = (
    ("torch", "torch", _is_torch_initialised),
    ("cupy", "cupy_backends.cuda.api.driver", _is_cupy_initialised),
    ("numba", "numba.cuda.cudadrv.driver", _is_numba_initialised),
    ("numba", "numba_cuda.numba.cuda.cudadrv.driver", _is_numba_initialised),
    ("tensorflow", "tensorflow.python.eager.context", _is_tensorflow_initialised),
    ("jax", "jax._src.xla_bridge", _is_jax_initialised),
)


def initialised_by() -> Optional[str]:
    """The library that has initialised CUDA in this process; None: none was found."""
    for name, module, has_initialised in _FRAMEWORKS:
        loaded = sys.modules.get(module)
        if loaded is None:
            continue
        try:
            if has_initialised(loaded):
                return name
        except Exception:  # another version stores it elsewhere; the next check may find it
            continue
    return "a library" if _has_open("/dev/nvidia-uvm") else None


def _has_open(device: str) -> bool:
    """CUDA opens this device when it is initialised; NVML, which only monitors, does not."""
    try:
        for number in os.listdir("/proc/self/fd"):
            try:
                if os.readlink(f"/proc/self/fd/{number}") == device:
                    return True
            except OSError:
                continue
    except OSError:
        pass
    return False


class _Visible:
    """The environment variables of this process's leases; those of the newest are set. Leases may
    end in any order; the end of the last one restores the original values."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._before: dict[str, Optional[str]] = {}
        self._leases: list[tuple[object, Mapping[str, str]]] = []

    def show(self, owner: object, uuids: Sequence[str], lease: str, fence: Optional[int]) -> None:
        values = {VISIBLE: ",".join(uuids), ORDER: "PCI_BUS_ID", "GPUYARD_LEASE": lease}
        if fence is not None:
            values["GPUYARD_FENCE"] = str(fence)
        with self._lock:
            if not self._leases:
                self._before = {name: os.environ.get(name) for name in _NAMES}
            self._leases.append((owner, values))
            self._apply(values)

    def hide(self, owner: object) -> None:
        with self._lock:
            kept = [one for one in self._leases if one[0] is not owner]
            if len(kept) == len(self._leases):
                return
            self._leases = kept
            self._apply(kept[-1][1] if kept else self._before)

    @staticmethod
    def _apply(values: Mapping[str, Optional[str]]) -> None:
        for name in _NAMES:
            value = values.get(name)
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


visible = _Visible()


def my_gpus(environment: Optional[Mapping[str, str]] = None) -> Optional[list[str]]:
    """The GPUs that CUDA gives this process, as named in its environment: UUIDs, which may be
    shortened, or indexes. None: all GPUs. As in CUDA, an invalid name ends the list, a MIG instance
    stands alone, here as its GPU, and the list is empty if it names a GPU twice."""
    text = (os.environ if environment is None else environment).get(VISIBLE)
    if text is None:
        return None
    names: list[str] = []
    for name in text.split(","):
        name = name.strip()
        if name.startswith("MIG-GPU-") and not names:
            return [name[len("MIG-"):].partition("/")[0]]
        if not (name.isdigit() or name.startswith("GPU-")):
            break
        if name in names:
            return []
        names.append(name)
    return names


def why_no_gpu(environment: Optional[Mapping[str, str]] = None) -> str:
    """The message if my_gpus() is empty, or names GPUs that the daemon does not have."""
    text = (os.environ if environment is None else environment).get(VISIBLE, "")
    said = f"{VISIBLE}={text!r}"
    if text.strip().startswith("MIG-"):
        return f"{said} is a MIG instance of an unknown GPU"
    return f"{said} makes no GPU visible to this process"


def is_mine(index: Optional[int], uuid: str, names: Optional[Sequence[str]]) -> bool:
    """Whether a GPU of the daemon is among the names that my_gpus() returned."""
    if names is None:
        return True
    return any(uuid.startswith(name) if name.startswith("GPU-") else name == str(index)
               for name in names)
