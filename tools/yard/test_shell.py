"""The shell parts of ./yard, run against stand-ins for apt, dpkg and CMake."""

import contextlib
import os
import pty
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def executable(path: Path, body: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/bash\n{body}\n")
    path.chmod(0o755)


@pytest.fixture
def yard(tmp_path):
    """A copy of the shell files, with a folder of stand-ins first on PATH."""
    (tmp_path / "tools").mkdir()
    for folder in ("yard", "packages"):
        (tmp_path / "tools" / folder).symlink_to(ROOT / "tools" / folder)
    (tmp_path / "CMakePresets.json").write_text("{}")

    def run(script: str, **environment: str) -> subprocess.CompletedProcess[str]:
        kept = {k: v for k, v in os.environ.items() if k not in ("CI", "YARD_STAGES", "YARD_PROOFS", "GPUYARD_WARNINGS_AS_ERRORS")}
        return subprocess.run(
            ["bash", "-c", "set -euo pipefail\nsource tools/yard/common.sh\n"
             f"source tools/yard/stages.sh\n{script}"],
            cwd=tmp_path, stdout=subprocess.PIPE, stderr=run.stderr, text=True, stdin=subprocess.DEVNULL,
            env=kept | {"PATH": f"{tmp_path}/bin:{os.environ['PATH']}",
                        "XDG_CACHE_HOME": f"{tmp_path}/cache"} | environment)
    run.at = tmp_path
    run.stderr = subprocess.PIPE
    return run


@pytest.fixture
def apt(yard):
    """dpkg that knows the packages in `installed`; apt-get that notes its calls in `calls`."""
    executable(yard.at / "bin/dpkg-query", """
        for name in "${@:3}"; do
          grep -qx "$name" installed && echo "installed $name"
        done; true""")
    executable(yard.at / "bin/apt-get", 'echo "$*" >>calls; [[ $1 != install ]] || ((!${APT_FAILS:-0}))')
    executable(yard.at / "bin/sudo", 'exec "$@"')
    (yard.at / "installed").write_text("cmake\ng++\n")

    def calls() -> list[str]:
        path = yard.at / "calls"
        return path.read_text().splitlines() if path.exists() else []
    return calls


def test_only_missing_packages_are_installed(yard, apt):
    run = yard("install_packages build")
    assert run.returncode == 0, run.stderr
    update, install = apt()
    assert update.startswith("update")
    assert "ninja-build" in install and " cmake" not in install and "--no-install-recommends" in install
    assert run.stderr.startswith("Installing with apt: ccache libboost1.81-dev")


def test_complete_installation_runs_no_apt(yard, apt):
    yard("packages_of build test clients check bench >installed; install_packages build test clients check bench")
    assert apt() == []


def test_the_conflicting_boost_is_named(yard, apt):
    assert "conflicts" not in yard("install_packages build").stderr
    (yard.at / "installed").write_text("libboost1.74-dev\n")
    assert "libboost1.74-dev is installed; it conflicts" in yard("install_packages build").stderr


def test_failing_apt_is_a_failure(yard, apt):
    run = yard("install_packages build", APT_FAILS="1")
    assert run.returncode == 1
    assert "apt could not install" in run.stderr


def test_packages_match_release_or_list_known_releases(yard, apt):
    def build_of(release):
        return yard(f"release_here() {{ echo {release}; }}\ninstall_packages build").stderr
    assert "libboost1.81-dev" in build_of("bookworm") and "elsewhere" not in build_of("bookworm")
    assert "libboost1.83-dev" in build_of("trixie") and "1.81" not in build_of("trixie")
    of_none = build_of("sid")
    assert "bookworm: libboost1.81-dev" in of_none and "noble: libboost1.83-dev" in of_none


def test_a_package_list_has_names_only(yard):
    names = yard("packages_of build test clients check bench").stdout.split()
    assert "prometheus" in names and not [name for name in names if "#" in name]


def test_stage_prints_log_tail_only_on_failure(yard):
    run = yard('stage "a b" bash -c "echo hidden"\nstage bad bash -c "seq 100; exit 3"\n'
               'echo "failed: ${failed_stages[*]}"', YARD_STAGES="stages")
    assert "hidden" not in run.stdout and (yard.at / "build/logs/a-b.log").read_text() == "hidden\n"
    assert "\n41\n" in run.stdout and "\n40\n" not in run.stdout
    assert run.stdout.endswith("failed: bad\n")
    assert re.fullmatch(r"a b\t\d\tok\t\d+\nbad\t\d\tfailed\t\d+\n", (yard.at / "stages").read_text())


def test_a_stage_stops_at_its_first_failing_command(yard):
    run = yard("work() { false; echo went on; }\nshown_stage x work\necho \"${failed_stages[*]}\"")
    assert run.stdout == "== x\nx\n"


def test_shown_stage_ends_with_output_of_its_command(yard):
    assert yard("shown_stage x echo last").stdout == "== x\nlast\n"


def test_stages_beside_others_are_shown_and_counted_when_joined(yard):
    run = yard("""stage early false
        both() { stage well true; stage bad sh -c 'until [ -e go ]; do sleep 0.01; done; exit 3'; }
        start_beside both
        shown_stage other touch go
        join_beside
        join_beside
        echo "failed: ${failed_stages[*]}"
    """)
    assert run.stdout.index("== other") < run.stdout.index("== well") < run.stdout.index("-- bad FAILED")
    assert run.stdout.endswith("\nfailed: early bad\n")


def test_killed_stages_beside_others_are_a_failure(yard):
    run = yard('work() { kill -9 "$BASHPID"; }\nstart_beside work\njoin_beside\necho "failed: ${failed_stages[*]}"')
    assert run.stdout == "failed: stages beside others\n"


def test_last_record_of_a_proof_counts(yard):
    run = yard('record_proof p "skipped (why)"\nrecord_proof q ran\nrecord_proof p ran\n'
               'proofs_table "$YARD_PROOFS"', YARD_PROOFS="proofs")
    assert [line.split() for line in run.stdout.splitlines()[1:]] == [["p", "ran"], ["q", "ran"]]


def test_python_and_shell_write_the_same_proofs(yard):
    yard('record_proof p "skipped (why)"\n'
         f"PYTHONPATH={ROOT}/tests python3 -c 'import proofs; proofs.record(\"p\", \"skipped (why)\")'",
         YARD_PROOFS="proofs")
    assert (yard.at / "proofs").read_text() == "p\tskipped (why)\n" * 2


def test_only_skips_with_an_allowed_reason_are_excused(yard):
    (yard.at / ".ci").mkdir()
    (yard.at / ".ci/proofs.tsv").write_text("# name, reason\nssh\tskipped (no Debian)\ttools/x.sh\n"
                                            "Slurm\tskipped (no Debian)\ttools/y.sh\nzeus\tskipped (no PyPI)\n")
    run = yard('record_proof ssh "skipped (no Debian)"\nrecord_proof Slurm "skipped (no ip)"\n'
               'record_proof zeus "skipped (no ip)"\nrecord_proof zeus ran\nrecord_proof test_rig "skipped (no ip)"\n'
               'unexcused_skips "$YARD_PROOFS"', YARD_PROOFS="proofs")
    assert run.stdout.split() == ["Slurm", "test_rig"]


@pytest.fixture
def ninja(yard):
    """CMake and Ninja that note their calls; what Ninja has to do is in `steps`, what it says in `says`."""
    executable(yard.at / "bin/cmake", """
        echo "cmake $*" >>calls; mkdir -p "build/$2"; touch "build/$2/build.ninja\"""")
    executable(yard.at / "bin/ninja", """
        [[ "$*" != *" -n"* ]] || { seq -f '[%g/9] CXX a.o' "$(<steps)"; exit; }
        echo "ninja $*" >>calls
        [[ "$*" == *build.ninja ]] || { cat says; exit "${NINJA_FAILS:-0}"; }""")
    executable(yard.at / "bin/nproc", "echo 2")
    (yard.at / "steps").write_text("100")
    (yard.at / "says").write_text("[1/2] CXX a.o\n[2/2] CXX b.o\n")


def test_cmake_configures_once(yard, ninja):
    assert yard("build release; build release x y; build release").returncode == 0
    yard("build release", CI="true")  # warnings become errors: another configuration
    (yard.at / "CMakePresets.json").write_text("{ }")
    yard("build release", CI="true")
    calls = (yard.at / "calls").read_text().splitlines()
    configured, built = "cmake --preset release", "ninja -C build/release -j 2"
    looked = "ninja -C build/release build.ninja"
    assert calls == [configured, built, looked, built + " x y", looked, built, configured, built,
                     configured, built]


def test_build_prints_expected_duration_at_start(yard, ninja):
    run = yard("build release")
    assert run.stdout == ""
    assert run.stderr == ("Building release: 100 steps, about 5 min; all output goes to "
                          "build/logs/build-release.log.\n")
    (yard.at / "cache/gpuyard/build-times/release").write_text("200 100\n")
    assert "100 steps, about 60 s;" in yard("build release").stderr
    assert "about 10 s;" in yard("build release").stderr  # as the last one took
    (yard.at / "steps").write_text("0")
    assert yard("build release").stderr == ""


# Like CMake's where a folder is globbed: build.ninja may be stale at any time.
BUILD_NINJA = """
rule run
  command = touch $out
rule look
  command = true
  restat = 1
build always: phony
build globs: look | always
build build.ninja: look | globs
  generator = 1
build a: run
build b: run a
build c: run
default b c
"""


def test_steps_are_counted_before_the_first_build(yard):
    """With the real Ninja, which in a dry run gets no further than a stale build.ninja."""
    (yard.at / "build/release").mkdir(parents=True)
    (yard.at / "build/release/globs").touch()
    (yard.at / "build/release/build.ninja").write_text(BUILD_NINJA)
    count = "count_steps release {}"
    assert yard(count.format("b")).stdout == "2\n"
    assert yard(count.format("")).stdout == "3\n"
    assert yard("ninja -C build/release a >&2; " + count.format("b")).stdout == "1\n"
    assert yard("ninja -C build/release b c >&2; " + count.format("")).stdout == "0\n"


def test_build_logs_all_output_and_prints_sparse_progress(yard, ninja):
    (yard.at / "says").write_text("[1/2] CXX a.o\na.cpp: warning: odd\n[2/2] CXX b.o\n")
    shown = yard("build release").stderr.splitlines()[1:]
    assert shown == ["a.cpp: warning: odd"]
    assert (yard.at / "build/logs/build-release.log").read_text().endswith((yard.at / "says").read_text())
    shown = yard("progress_interval=0; build release").stderr.splitlines()[1:]
    assert shown == (yard.at / "says").read_text().splitlines()


def test_the_error_of_a_build_stands_last(yard, ninja):
    (yard.at / "says").write_text("[1/3] CXX a.o\nFAILED: a.o\ng++ a.cpp\na.cpp: error: wrong\n"
                                  "[2/3] CXX b.o\nb.cpp: warning: odd\nninja: build stopped: x.\n")
    run = yard("build release", NINJA_FAILS="1")
    assert run.returncode == 1
    assert run.stderr.splitlines()[1:] == ["b.cpp: warning: odd", "FAILED: a.o", "g++ a.cpp",
                                           "a.cpp: error: wrong"]
    assert not (yard.at / "cache").exists()


def test_on_a_terminal_one_line_moves(yard, ninja):
    reader, yard.stderr = pty.openpty()
    yard("build release")
    os.close(yard.stderr)
    shown = b""
    with contextlib.suppress(OSError):  # the end of a terminal whose other side is closed
        while more := os.read(reader, 10000):
            shown += more
    shown = shown.decode()
    assert "\r\033[K[1/2] CXX a.o\r\033[K[2/2] CXX b.o\r\033[K" in shown


def test_a_failed_configuration_is_tried_again(yard):
    executable(yard.at / "bin/cmake", 'echo "$*" >>calls; exit 1')
    assert yard("build release").returncode != 0
    assert yard("build release").returncode != 0
    assert (yard.at / "calls").read_text() == "--preset release\n" * 2


def test_memory_limits_the_jobs(yard):
    executable(yard.at / "bin/nproc", "echo 64")
    assert yard("available_mib() { echo $((4 * mib_per_job + 100)); }; build_jobs").stdout == "4\n"
    assert yard("available_mib() { echo 300; }; build_jobs").stdout == "1\n"
    assert yard("available_mib() { echo 900000; }; build_jobs").stdout == "64\n"


GREETING = 'if [[ $1 == devices ]]; then {}; fi; echo "$*"'


@pytest.mark.parametrize("devices, served, said", [
    ("""printf '{\\n "devices": [\\n {"id": 0}]}'; exit""", "serve --greet --port 1", ""),
    ("""printf '{"devices": []}'; exit""", "serve --greet --simulate 4 --port 1",
     "No NVIDIA GPU found. Starting with 4 simulated GPUs."),
    ("exit 5", "serve --greet --simulate 4 --port 1", "No NVIDIA GPU found. Starting with 4 simulated GPUs."),
    ("exit 124", "serve --greet --port 1", "did not respond within 10 s"),
])
def test_run_simulates_where_there_is_no_gpu(yard, devices, served, said):
    executable(yard.at / "build/release/gpuyard", GREETING.format(devices))
    run = yard("source tools/yard/run.sh\ninstall_packages() { :; }\nprepare_web() { :; }\nbuild() { :; }\nyard_run --port 1")
    assert (run.stdout, run.returncode) == (served + "\n", 0)
    assert said in run.stderr


def test_run_leaves_a_simulation_asked_for_alone(yard):
    executable(yard.at / "build/release/gpuyard", GREETING.format("exit 5"))
    run = yard("source tools/yard/run.sh\ninstall_packages() { :; }\nprepare_web() { :; }\nbuild() { :; }\nyard_run --simulate 8")
    assert (run.stdout, run.stderr) == ("serve --greet --simulate 8\n", "")
