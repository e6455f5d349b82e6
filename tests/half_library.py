"""Libraries in which functions are missing, made of the simulated one."""

import os
import subprocess
from pathlib import Path

WHOLE = os.environ.get("GPUYARD_SIM_LIB", "build/release/sim/libnvidia-ml.so.1")


def exported(library):
    """The names of NVML that a library exports."""
    listing = subprocess.run(["nm", "-D", "--defined-only", library], capture_output=True, text=True,
                             check=True).stdout
    # An old library's names may carry a version: "nvmlInit@@libnvidia-ml.so.1".
    names = (line.split()[-1].split("@")[0] for line in listing.splitlines() if " T " in line)
    return {name for name in names if name.startswith("nvml")}


def without(names, path):
    """A copy of the simulated library whose dynamic symbols no longer have these names."""
    library = Path(WHOLE).read_bytes()
    for name in names:
        old = b"\0" + name.encode() + b"\0"
        assert library.count(old) >= 1, name
        library = library.replace(old, b"\0x" + old[2:])
    Path(path).write_bytes(library)
    return str(path)
