"""libgpuyard as it is installed, found and used: by another project, and by the examples."""

import json
import os
import re
import shutil

import pytest

from library_world import BUILD, EXAMPLES, SOURCE, output, start_world, status, stop_world
from net_yard import NetYard
from program import PROGRAM, clean_environment, wait_until

TOTAL = "85520809984"  # bytes of a simulated H100


@pytest.fixture(scope="module")
def prefix(tmp_path_factory):
    """An installed tree, moved after it was installed."""
    directory = tmp_path_factory.mktemp("install")
    output("cmake", "--install", BUILD, "--prefix", directory / "first")
    return (directory / "first").rename(directory / "moved")


@pytest.fixture
def world(tmp_path):
    environment = start_world(tmp_path)
    yield environment
    stop_world(environment)


def library_directory(prefix):
    return next(prefix.rglob("libgpuyard.so.0")).parent


def consume(prefix, program, world):
    """The consumer works on a fake fleet and on simulated GPUs."""
    environment = world | {"LD_LIBRARY_PATH": str(library_directory(prefix))}
    fake = output(program, "fake", env=environment)
    assert fake.count("80000000000 B used") == 3 and "2 80000000000.0" in fake
    assert "log: Power limit set to 250 W" in fake and "written: 250000 mW" in fake
    assert "waiting: 1 for 1" in fake and "leased: GPU 7 with fence 2" in fake
    assert "asked /nonexistent/gpuyard.sock: unavailable" in fake
    simulated = output(program, env=environment)
    assert "simulated true" in simulated
    assert simulated.count(f"of {TOTAL} B used") == 2 and f"1 {TOTAL}.0" in simulated


# ---- what is installed


def test_only_the_public_names_leave_the_library():
    library = BUILD / "libgpuyard.so.0"
    exported = output("nm", "-DC", "--defined-only", library).splitlines()
    names = [line.split(maxsplit=2)[2] for line in exported]
    strangers = [name for name in names
                 if "gpuyard::v0::" not in name.split("(")[0] and name != "GPUYARD_0"]
    assert names and not strangers
    assert "libgpuyard.so.0]" in output("readelf", "-d", library)


def test_the_library_leaves_the_process_alone():
    wanted = output("nm", "-D", "--undefined-only", BUILD / "libgpuyard.so.0")
    names = set(re.findall(r" U (\w+)", wanted))
    assert "dlopen" in names  # it is the right list
    # pthread_sigmask is there: Asio has it for a thread that it does not start here, and a test of the
    # exporter looks at the masks themselves. signal and sigaction are there for OpenSSL, which would ask
    # for the password of a key at a terminal; a client has no key.
    assert not names & {"sigprocmask", "setrlimit",
                        "prlimit", "setlocale", "atexit", "on_exit", "setenv", "putenv", "fork",
                        "chdir", "umask"}


def test_relocated_install_runs_program_and_simulation(prefix, tmp_path):
    shown = output(prefix / "bin" / "gpuyard", "devices", "--simulate", "2",
                   env=clean_environment(tmp_path))
    assert shown.count("GPU-") == 2 and "These GPUs are simulated." in shown


def test_public_headers_stand_alone(tmp_path):
    headers = sorted((SOURCE / "include" / "gpuyard").glob("*.h"))
    assert headers
    for header in headers:
        source = tmp_path / f"{header.stem}.cpp"
        source.write_text(f"#include <gpuyard/{header.name}>\n#include <gpuyard/{header.name}>\n")
        output("g++", "-std=c++20", "-Wall", "-Wextra", "-Werror", "-fsyntax-only",
               "-I", SOURCE / "include", source)


# ---- another project


def test_cmake_project_uses_package_with_its_own_libraries(prefix, world, tmp_path):
    build = tmp_path / "consumer"
    output("cmake", "-S", SOURCE / "tests" / "consumer", "-B", build, "-G", "Ninja",
           "-DCMAKE_CXX_COMPILER=g++", f"-DCMAKE_PREFIX_PATH={prefix}")
    output("cmake", "--build", build)
    needed = output("readelf", "-d", build / "consumer")
    assert "libgpuyard.so.0" in needed and "libfmt" in needed and "libsqlite3" in needed
    consume(prefix, build / "consumer", world)


@pytest.mark.parametrize("compiler", ["g++", "clang++-19"])
def test_pkg_config_finds_the_library(prefix, world, tmp_path, compiler):
    if shutil.which(compiler) is None:
        pytest.skip(f"no {compiler} here")
    environment = os.environ | {"PKG_CONFIG_PATH": str(library_directory(prefix) / "pkgconfig")}
    flags = output("pkg-config", "--cflags", "--libs", "gpuyard", env=environment).split()
    program = tmp_path / "consumer"
    output(compiler, "-std=c++20", SOURCE / "tests" / "consumer" / "consumer.cpp", "-o", program,
           *flags, "-lfmt", "-lsqlite3")
    consume(prefix, program, world)


def test_examples_build_as_standalone_project(prefix, tmp_path):
    build = tmp_path / "examples"
    output("cmake", "-S", SOURCE / "examples", "-B", build, "-G", "Ninja",
           "-DCMAKE_CXX_COMPILER=g++", f"-DCMAKE_PREFIX_PATH={prefix}")
    output("cmake", "--build", build, "--target", "example_fake_fleet")
    output(build / "example_fake_fleet",
           env=os.environ | {"LD_LIBRARY_PATH": str(library_directory(prefix))})


# ---- the examples


def test_the_fake_fleet_example_passes_all_its_checks(record_property):
    record_property("contract", "A15 A10")
    shown = output(EXAMPLES / "example_fake_fleet")
    assert shown.count("ok ") == 6 and "FAILED" not in shown


def test_the_energy_example_measures_each_gpu(world):
    shown = output(EXAMPLES / "example_energy", "1", env=world)
    lines = shown.splitlines()
    assert len(lines) == 3
    for index, line in enumerate(lines[:2]):
        assert re.fullmatch(rf"GPU {index}: [\d.]+ J, mean [\d.]+ W, peak [\d.]+ W", line), line
    assert re.fullmatch(r"[\d.]+ J in 1[\d.]* s", lines[2]), lines[2]


def test_power_limit_example_sets_reads_and_restores(world, record_property):
    record_property("contract", "B1 B2")
    shown = output(EXAMPLES / "example_power_limit", "1", "300", "0", env=world)
    assert shown == "GPU 1: 700 W -> 300 W\nGPU 1: back to 700 W\n"
    status_text = output(PROGRAM, "sim", "status", "--world", world["GPUYARD_SIM_WORLD"], "--json",
                         env=world)
    writes = json.loads(status_text)["writes"]
    assert [(w["gpu"], w["setting"], w["values"], w["nvml_code"]) for w in writes] == [
        (1, "power_limit", [300000], 0), (1, "power_limit", [700000], 0)]


def test_power_limit_example_prints_allowed_range(world, record_property):
    record_property("contract", "B15 B17")
    done = status(EXAMPLES / "example_power_limit", "0", "5000", "0", env=world)
    assert done.returncode == 1
    assert re.fullmatch(r"5000 W is out of range: this GPU's power limit may be \d+ W to \d+ W",
                        done.stderr.splitlines()[-1])


def test_pool_example_serves_six_jobs_and_frees_gpus(record_property):
    record_property("contract", "D2 D4 D7 D9 D11")
    shown = output(EXAMPLES / "example_pool").splitlines()
    served = [line for line in shown if line.startswith("job ")]
    assert len(served) == 6 and len(set(served)) == 6
    assert shown[-1] == "GPU 0 free, GPU 1 free; no claims are waiting"
    assert any(line.startswith("helper: ") for line in shown)


def test_health_example_distinguishes_healthy_unknown_and_lost(world, record_property):
    record_property("contract", "A10")
    check = EXAMPLES / "example_health_check"
    healthy = status(check, env=world)
    assert (healthy.returncode, healthy.stdout.count("): healthy")) == (0, 2), healthy
    place = world["GPUYARD_SIM_WORLD"]
    output(PROGRAM, "sim", "inject", "--world", place, "--gpu", "1", "--call", "temperature",
           "--code", "4", env=world)
    unknown = status(check, env=world)
    assert unknown.returncode == 2
    assert "): unknown\n  temperature unknown: Insufficient Permissions\n" in unknown.stdout
    output(PROGRAM, "sim", "inject", "--world", place, "--gpu", "0", "--call", "any",
           "--code", "15", env=world)
    assert status(check, env=world).returncode == 1


def test_example_without_driver_says_where_drivers_are_sought(tmp_path, record_property):
    record_property("contract", "C18 E10")
    environment = clean_environment(tmp_path) | {"GPUYARD_SIM_WORLD": str(tmp_path / "none")}
    done = status(EXAMPLES / "example_health_check", env=environment)
    assert done.returncode == 5
    assert done.stderr.startswith("failed to initialise NVML: Driver Not Loaded\n")
    assert "modprobe" in done.stderr


def test_library_page_shows_compiled_programs():
    page = (SOURCE / "docs" / "library.md").read_text()
    programs = re.findall(r"```cpp\n// examples/(\w+\.cpp)\n(.*?)```", page, re.DOTALL)
    assert programs
    for name, text in programs:
        assert text == (SOURCE / "examples" / name).read_text(), name
    assert page.count("```cpp") == len(programs), "every program on the page is a compiled one"


# ---- health in the daemon


def test_daemon_judges_gpus_by_configured_temperatures(daemon, tmp_path, record_property):
    record_property("contract", "A10")
    config = tmp_path / "gpuyard.toml"
    config.write_text('[health]\ntemperatures_of = ["1 = -10/-5"]\n')
    yard = daemon("--simulate", "3", "--config", str(config))

    def judged():
        gpus = yard.get("/api/gpu/snapshot").json()["devices"]
        return gpus if all(gpu["health"] for gpu in gpus) else None
    gpus = wait_until(judged, "every GPU to be judged")
    assert gpus[1]["health"] == "unhealthy"
    assert re.fullmatch(r"temperature \d+ C is above -5 C", gpus[1]["health_reasons"][0])
    assert gpus[0]["health"] == "healthy" and gpus[0]["health_reasons"] == []
    assert 'gpuyard_gpu_health{device="1"} 2\n' in yard.get("/metrics").text
    yard.sim("inject", "--gpu", "0", "--lost")
    wait_until(lambda: yard.get("/api/gpu/snapshot").json()["devices"][0]["health"] == "unhealthy",
               "the lost GPU to be unhealthy")
    wait_until(lambda: 'gpuyard_gpu_health{device="0"} 2\n' in yard.get("/metrics").text,
               "the metric")


# ---- the client


def test_a_program_asks_the_daemon_of_its_machine(daemon, tmp_path):
    yard = daemon("--simulate", "2").ready()
    shown = output(EXAMPLES / "example_client", f"unix://{yard.socket}", env=clean_environment(tmp_path))
    lines = shown.splitlines()
    assert re.fullmatch(r"GPU 0: NVIDIA H100.*, \d+ W", lines[0]), shown
    assert re.fullmatch("held: GPU [01] with fence 1", lines[2]), shown
    assert lines[3:] == ["used: 1 GPU", "event: lease"]
    wait_until(lambda: not yard.get("/api/gpu/leases", unix=True).json()["leases"], "the GPU to be free")


def test_program_reaches_remote_daemon_with_token(daemon, tmp_path):
    """The pin and the token are those of hosts.toml; a call beyond the token's scope gives its error code."""
    yard = NetYard(daemon, tmp_path)
    yard.make_token("ci", "--scope", "lease")
    yard.make_token("look", "--scope", "read")
    yard.know_host(token="ci")
    assert "held: GPU" in output(EXAMPLES / "example_client", "dgx1", env=yard.environment)
    yard.know_host(token="look")
    refused = status(EXAMPLES / "example_client", "dgx1", env=yard.environment)
    assert refused.returncode == 1 and "no GPU: " in refused.stderr and "(denied)" in refused.stderr
    yard.know_host(pin="sha256//" + "A" * 43 + "=")
    stranger = status(EXAMPLES / "example_client", "dgx1", env=yard.environment)
    assert stranger.returncode == 1 and "(denied)" in stranger.stderr, stranger.stderr
