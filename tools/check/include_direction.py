#!/usr/bin/env python3
"""Checks that includes run one way and that each third-party library stays in its room.

WINGS and ARROWS below are the tables ARCHITECTURE.md draws; a new folder needs a row here. Every
include of our own names its wing and room: "gpu/device/snapshot.h", "sim/world.h", "gpuyard/monitor.h".
"""

import re
import sys
from collections.abc import Iterable
from fnmatch import fnmatch
from pathlib import Path

from house import ROOT, report

PUBLIC = "gpuyard"  # include/gpuyard: stands on the standard library alone, so all may stand on it
EVERYTHING = None

# wing, a folder of src/ -> its rooms, as an include names them. A wing stands on those before it.
WINGS: dict[str, tuple[str, ...]] = {
    "base": ("base",),
    "gpu": ("gpu/device", "gpu/nvml", "gpu/driver", "gpu/telemetry", "gpu/events"),
    "core": ("core/auth", "core/bottleneck", "core/history", "core/energy", "core/processes", "core/control", "core/lease", "core/usage", "core/andon"),
    "io": ("io/http", "io/kubelet", "io/store", "io/notify", "io/kube"),
    "faces": ("faces/protocol", "faces/client", "faces/fleet", "faces/api", "faces/metrics", "faces/zeus", "faces/cpu", "faces/recording", "faces/library"),
    "daemon": ("daemon", "daemon/config"),
    "cli": ("cli",),
}
OUTSIDE = {"sim": "simulator/sim", "sim_nvml": "simulator/sim_nvml", PUBLIC: "include/gpuyard"}
ALONE = {"core"}  # wings whose rooms do not know each other

# room -> the rooms (or single headers) it may include, besides itself and the public headers
ARROWS: dict[str, set[str] | None] = {
    "base": set(),
    "gpu/device": {"base"},
    "gpu/nvml": {"base", "gpu/device"},
    "gpu/driver": {"base", "gpu/device"},
    "gpu/telemetry": {"base", "gpu/device"},
    "gpu/events": {"base", "gpu/device"},
    "core/bottleneck": {"base", "gpu/device"},
    "core/history": {"base", "gpu/device"},
    "core/energy": {"base", "gpu/device"},
    "core/processes": {"base", "gpu/device"},
    "core/control": {"base", "gpu/device"},
    "core/lease": {"base", "gpu/device"},
    "core/usage": {"base", "gpu/device"},
    "core/andon": {"base", "gpu/device"},
    "core/auth": {"base", "gpu/device"},
    "io/http": {"base"},
    "io/kubelet": {"base"},
    "io/store": {"base", "gpu/device", "core/auth", "core/andon", "core/bottleneck", "core/energy", "core/control", "core/lease", "core/usage", "core/history", "core/processes"},
    "io/notify": {"base", "io/http"},
    "io/kube": {"base", "io/http"},
    "faces/protocol": {"base", "gpu/device", "core/auth", "core/andon", "core/energy", "core/control", "core/lease", "core/usage"},
    "faces/api": {"base", "gpu/device", "core/auth", "core/andon", "core/bottleneck", "core/energy", "core/control", "core/lease", "core/usage", "faces/protocol", "gpu/telemetry", "core/history", "io/http", "faces/metrics", "core/processes"},
    "faces/metrics": {"base", "gpu/device"},
    "faces/cpu": {"base"},
    "faces/zeus": {"base", "gpu/device", "faces/cpu", "io/http"},
    "faces/client": {"base", "gpu/device", "core/auth", "io/http", "core/lease", "faces/protocol"},
    "faces/fleet": {"base", "gpu/device", "core/andon", "core/lease", "core/auth", "io/http", "faces/protocol", "faces/client"},
    "faces/recording": {"base", "gpu/device", "faces/protocol"},
    "faces/library": {"base", "gpu/device", "core/andon", "core/energy", "core/lease", "gpu/nvml", "gpu/driver", "faces/recording", "io/http", "faces/metrics", "faces/protocol", "faces/client"},
    "daemon/config": {"base"},
    "daemon": EVERYTHING,
    "cli": {"base", "gpu/device", "core/andon", "io/http", "io/kube", "io/kubelet", "core/processes", "faces/protocol", "faces/client", "faces/fleet", "daemon/config", "faces/library", "daemon", "faces/recording",
            "sim"},
    "sim": {"base", "gpu/nvml/abi.h"},
    "sim_nvml": {"base", "sim", "gpu/nvml/abi.h"},
    PUBLIC: set(),
}

TESTS = ("*_test.cpp", "*_for_tests.h")

# what begins an include -> where it may stand; a place ends in "/" or is a pattern like "*_test.cpp"
CONFINED: dict[str, tuple[str, ...]] = {
    "boost/asio": ("src/io/http/",),
    "boost/beast": ("src/io/http/",),
    "sqlite3.h": ("src/io/store/",),
    "CLI/": ("src/cli/options.cpp",),
    "toml++/": ("src/base/third_party/",),
    "base/third_party/toml.h": ("src/base/",),
    "base/toml_reader.h": ("src/base/", "src/core/andon/rule_*", "src/daemon/config/config.cpp",
                           "src/io/notify/sink_config.cpp", "src/faces/client/daemon_address.cpp", "simulator/sim/scenario_*"),
    "spdlog/": ("src/base/",),
    "nghttp2/": ("src/io/kubelet/unary_call.cpp",),
    "zlib.h": ("src/io/http/", "src/core/auth/token.cpp"),
    "openssl/": ("src/io/http/", "src/core/auth/token.cpp", "src/io/notify/requests.cpp", "src/base/base64.cpp",
                 "src/base/sha256.cpp"),
    "dlfcn.h": ("src/gpu/nvml/", "src/faces/library/public_monitor.cpp", "simulator/*_test.cpp"),
    "gtest/": TESTS,
    "gmock/": TESTS,
    "rapidcheck": TESTS,
}

# what begins an include -> how many sources may see it, each counted as if it were compiled by itself: what our
# own headers include is seen too
SEEN_BY_AT_MOST: dict[str, int] = {
    "boost/json": 60,
}
FORWARD_ONLY = {"boost/json/fwd.hpp"}  # declares names and costs nothing

# The folders in which an include of ours is searched, as by the compiler.
INCLUDE_FOLDERS = ("include", "simulator", "src")
ROOMS_IN = ("include", "simulator", "src")
ALSO_COMPILED = ("bench", "examples", "fuzz", "tests")

STANDARD_HEADER = re.compile(r"[a-z_]+$")  # <vector>, not <sys/types.h> and not <fmt/format.h>
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*(["<])([^">]+)[">]', re.MULTILINE)
COROUTINE = re.compile(r"\bco_(?:await|return|yield)\b")
NOT_CODE = re.compile(
    r'R"([^()\\\s]*)\(.*?\)\1"|//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"', re.DOTALL)


def wing_of(room: str) -> str | None:
    """The wing of a room; nothing for one outside src/."""
    return next((wing for wing, rooms in WINGS.items() if room in rooms), None)


def home_of(room: str) -> str:
    """The folder of a room, below the root."""
    return OUTSIDE.get(room, f"src/{room}")


def longest(rooms: Iterable[str]) -> str | None:
    return max(rooms, key=len, default=None)


def room_named(include: str) -> str | None:
    """The room that an include names."""
    return longest(room for room in ARROWS if include.startswith(room + "/"))


def room_of(path: str) -> str | None:
    """The room of a file, by its path below the root."""
    return longest(room for room in ARROWS if path.startswith(home_of(room) + "/"))


def line_of(text: str, offset: int) -> int:
    return text.count("\n", 0, offset) + 1


def stands_in(path: str, places: tuple[str, ...]) -> bool:
    for place in places:
        folder, _, pattern = place.rpartition("/")
        inside = not folder or path.startswith(folder + "/")
        if inside and (not pattern or fnmatch(path.rpartition("/")[2], pattern)):
            return True
    return False


def judge_confined(path: str, target: str) -> str | None:
    """Returns the problems of an include of a library that has a room."""
    for prefix, places in CONFINED.items():
        if target.startswith(prefix) and not stands_in(path, places):
            return f"<{target}> may stand only in {', '.join(places)}"
    return None


def judge_own(path: str, room: str, target: str) -> str | None:
    """Returns the problems of `#include "target"` in a file of `room`."""
    named = room_named(target)
    if named is None:
        return f'"{target}" names no room; write "wing/room/header.h"'
    if problem := judge_confined(path, target):
        return problem
    if named in (room, PUBLIC):
        return None
    allowed = ARROWS[room]
    if allowed is EVERYTHING or named in allowed or target in allowed:
        return None
    choice = ", ".join(sorted(allowed)) or "nothing"
    return f'{room} may not include {named} ("{target}"); it may include {choice}'


def judge_foreign(path: str, room: str, target: str) -> str | None:
    """Returns the problems of `#include <target>` in a file of `room`."""
    if room == PUBLIC and not STANDARD_HEADER.match(target):
        return f"a public header may include the standard library only, not <{target}>"
    return judge_confined(path, target)


def judge_wings() -> list[str]:
    """Returns the problems of the rows of ARROWS: an arrow against the order of the wings, or one between
    rooms that may not know each other."""
    order = list(WINGS)
    problems = []
    for room, wing in ((room, wing) for wing, rooms in WINGS.items() for room in rooms):
        for other in ARROWS[room] or ():
            to = wing_of(other)
            if to is None:
                continue
            if order.index(to) > order.index(wing):
                problems.append(f"{room} may not include {other}, a room of a later wing")
            elif to == wing and wing in ALONE:
                problems.append(f"{room} and {other} are rooms of one wing, which do not know each other")
    return problems


def judge_file(path: str, text: str) -> list[str]:
    """All problems of one file, each as `path:line: text`."""
    room = room_of(path)
    if room is None:
        return [f"{path}:1: stands in no room that has a row in tools/check/include_direction.py"]
    problems = []
    for found in INCLUDE.finditer(text):
        judge = judge_own if found[1] == '"' else judge_foreign
        problem = judge(path, room, found[2])
        if problem:
            problems.append(f"{path}:{line_of(text, found.start())}: {problem}")
    if room != "io/http":
        # Newlines stay, so that the line number is right.
        code = NOT_CODE.sub(lambda match: "\n" * match[0].count("\n"), text)
        for found in COROUTINE.finditer(code):
            where = f"{path}:{line_of(code, found.start())}"
            problems.append(f"{where}: {found[0]}: coroutines stand only in src/io/http"
                            " (docs/decisions/005-no-coroutines-outside-http.md)")
    return problems


def judge_tree(root: Path) -> tuple[list[str], int]:
    """The problems of a tree, and how many files were read."""
    problems, count = [], 0
    for top in ROOMS_IN:
        for path in sorted((root / top).rglob("*")):
            if path.suffix in (".h", ".cpp"):
                count += 1
                text = path.read_text(encoding="utf-8")
                problems += judge_file(path.relative_to(root).as_posix(), text)
    return problems, count


def includes_of(root: Path) -> dict[str, set[str]]:
    """Returns the includes of each of our files, by its path below the root; of our own files the paths."""
    read = {path.relative_to(root).as_posix(): path.read_text(encoding="utf-8")
            for top in ROOMS_IN + ALSO_COMPILED for path in (root / top).rglob("*") if path.suffix in (".h", ".cpp")}

    def meant(path: str, target: str) -> str:
        places = (path.rpartition("/")[0], *INCLUDE_FOLDERS)
        return next((f"{place}/{target}" for place in places if f"{place}/{target}" in read), target)

    return {path: {meant(path, found[2]) for found in INCLUDE.finditer(text)} - FORWARD_ONLY
            for path, text in read.items()}


def seen_from(source: str, includes: dict[str, set[str]]) -> set[str]:
    """All that a source includes, through our own headers too."""
    seen, waiting = {source}, [source]
    while waiting:
        new = includes.get(waiting.pop(), set()) - seen
        seen |= new
        waiting += new
    return seen


def names_one(names: set[str], prefix: str) -> bool:
    return any(name.startswith(prefix) for name in names)


def judge_seen(root: Path, limits: dict[str, int]) -> list[str]:
    """Returns the problems of the number of sources that see a costly library."""
    includes = includes_of(root)
    seen = [seen_from(path, includes) for path in includes if path.endswith(".cpp")]
    problems = []
    for prefix, limit in limits.items():
        count = sum(names_one(names, prefix) for names in seen)
        if count > limit:
            headers = sorted(path for path, names in includes.items()
                             if path.endswith(".h") and names_one(names, prefix))
            problems.append(f"{count} sources see <{prefix}...>, at most {limit} may; our headers that include it:"
                            f" {', '.join(headers) or 'none'}")
    return problems


def main() -> int:
    problems, count = judge_tree(ROOT)
    problems += judge_wings()
    problems += judge_seen(ROOT, SEEN_BY_AT_MOST)
    if count == 0:
        problems.append("no source file was found; this check would pass on anything")
    return report("include direction", problems, f"{count} files, all arrows run one way")


if __name__ == "__main__":
    sys.exit(main())
