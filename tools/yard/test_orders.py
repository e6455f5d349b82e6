"""The verbs of ./yard, each after each other one in a fresh clone: CMake checks again after packages were
installed, or Ninja would not know what they make possible. Stand-ins for apt, CMake, Ninja and what
verbs start; then the same once with the real CMake.
"""

import itertools
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
VERBS = re.search(r"^  (run \| .*)\)$", (ROOT / "yard").read_text(), re.MULTILINE).group(1).split(" | ")
ARGUMENTS = {"fleet-test": ["view"]}
# `seen` is what was installed when CMake last looked; a build that does not know all packages is `stale`.
STAND_INS = {
    "dpkg-query": """
        printf '%s\\n' "${@:3}" | grep -Fxf - installed | sed 's/^/installed /'""",
    "apt-get": """[[ $1 != install ]] || printf '%s\\n' "$@" >>installed""",
    "sudo": 'exec "$@"',
    "cmake": """
        [[ $1 == --preset ]] || exit 0
        mkdir -p "build/$2"; touch "build/$2/build.ninja"; cp installed "build/$2/seen\"""",
    "ninja": """
        [[ "$*" == "-C build/"*" -j "* ]] || exit 0
        echo "${2#build/}" >>built
        cmp -s installed "$2/seen" || echo "${2#build/}" >>stale""",
    "ctest": "[[ $* != *' -N' ]] || echo '  Test #1: x_test'",
    "git": "exit 1",
    "python3": """[[ $* != "-m venv --clear "* ]] || { mkdir -p "$4/bin"; cp "$0" "$4/bin/python"; }""",
}


def executable(path: Path, body: str = "") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/bash\n{body}\n")
    path.chmod(0o755)


def link(place: Path, *names: str) -> None:
    for name in names:
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).symlink_to(ROOT / name)


def run(place: Path, *words: str) -> subprocess.CompletedProcess[str]:
    kept = {k: v for k, v in os.environ.items()
            if k not in ("CI", "YARD_STAGES", "YARD_PROOFS", "GPUYARD_WARNINGS_AS_ERRORS")}
    return subprocess.run(words, cwd=place, text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, check=False,
                          env=kept | {"PATH": f"{place}/bin:{os.environ['PATH']}",
                                      "XDG_CACHE_HOME": f"{place}/cache"})


@pytest.fixture
def clone(tmp_path):
    """A fresh clone on a machine without any package that the verbs check."""
    place = tmp_path / "clone"
    link(place, "yard", "tools/yard", "tools/packages", "CMakePresets.json", "CMakeLists.txt", ".ci/proofs.tsv")
    for name, body in STAND_INS.items():
        executable(place / "bin" / name, body)
    for script in (*(ROOT / "tools").glob("*.sh"), ROOT / "tests/fleet/view.py"):
        executable(place / script.relative_to(ROOT))
    executable(place / "build/release/gpuyard")
    executable(place / "build/web/state")
    (place / "installed").write_text("")
    return place


def lines(file: Path) -> list[str]:
    return file.read_text().split() if file.exists() else []


def test_cmake_has_seen_every_package_in_any_order(clone, tmp_path):
    after = {}  # a clone in which one verb has run, of each kind of verbs: by what is installed and built then
    for verb in VERBS:
        place = tmp_path / verb
        shutil.copytree(clone, place, symlinks=True)
        said = run(place, "./yard", verb, *ARGUMENTS.get(verb, [])).stdout
        assert lines(place / "built") and not lines(place / "stale"), said
        after.setdefault((*lines(place / "installed"), *sorted({*lines(place / "built")})), verb)
    for first, second in itertools.permutations(after.values(), 2):
        place = tmp_path / f"{first}-{second}"
        shutil.copytree(tmp_path / first, place, symlinks=True)
        said = run(place, "./yard", second, *ARGUMENTS.get(second, [])).stdout
        assert not lines(place / "stale"), f"./yard {second} after ./yard {first}: {said}"


# The files of the repository that CMake reads.
CMAKE_READS = ("CMakeLists.txt", "CMakePresets.json", "LICENSE", "bench", "cmake", "docs", "examples", "include",
               "packaging", "python", "simulator", "src", "tests", "tools", "web")
LOOKING = """
set -euo pipefail
source tools/yard/common.sh
cmake() { # finds no other Google Benchmark than that in the folder `installs`
  command cmake "$@" "-DCMAKE_IGNORE_PATH=$(echo {/usr,}/lib/*/cmake/benchmark | tr " " ";")"
}
export CMAKE_PREFIX_PATH=$PWD/installs
configure release >configured 2>&1 || { cat configured; exit 1; }
ninja -C build/release -t targets all | grep -c "^bench/pipeline: " || true
"""


def test_cmake_finds_benchmark_installed_later(tmp_path):
    """The real CMake; Google Benchmark comes from a folder, because it can be hidden there."""
    link(tmp_path, *CMAKE_READS)
    executable(tmp_path / "bin/dpkg-query", STAND_INS["dpkg-query"])
    (tmp_path / "installed").write_text("cmake\n")
    (tmp_path / "build").mkdir()

    def looking():
        done = run(tmp_path, "bash", "-c", LOOKING)
        assert done.returncode == 0, done.stdout
        return done.stdout

    assert looking() == "0\n"
    package = tmp_path / "installs/lib/cmake/benchmark/benchmarkConfig.cmake"
    package.parent.mkdir(parents=True)
    package.write_text("add_library(benchmark::benchmark INTERFACE IMPORTED)\n")
    (tmp_path / "installed").write_text("cmake\nlibbenchmark-dev\n")
    assert looking() == "1\n"
