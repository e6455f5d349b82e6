"""The version. Its only source is CMakeLists.txt, from which a wheel gets it."""

from __future__ import annotations

import re
from pathlib import Path


def version_of() -> str:
    """The version of this checkout or of the installed wheel."""
    checkout = Path(__file__).resolve().parents[2] / "CMakeLists.txt"
    try:
        found = version_in(checkout.read_text(encoding="utf-8"))
        if found:
            return found
    except OSError:
        pass
    from importlib import metadata
    try:
        return metadata.version("gpuyard")
    except metadata.PackageNotFoundError:
        return "unknown"


def version_in(cmake: str) -> str:
    """"" if the text is not gpuyard's CMakeLists.txt."""
    found = re.search(r"^project\(\s*gpuyard\s+VERSION\s+([0-9.]+)", cmake, re.MULTILINE)
    return found.group(1) if found else ""
