"""The output of a command that fails: the event, its cause, and a command to run next."""

import re
import subprocess

import pytest

from program import PATIENCE, PROGRAM, clean_environment


def error(message, cause=None, *steps):
    text = f"gpuyard: {message}\n"
    if cause:
        text += f"  cause: {cause}\n"
    return text + "".join(("         " if at else "  try:   ") + step + "\n" for at, step in enumerate(steps))


@pytest.fixture
def leased(yard, run):
    """The daemon's socket; another claim of the same user holds GPU 0 of its two GPUs."""
    done = run("lease", "take", "-n", "1", "--for", "10m", GPUYARD_SOCKET=yard.socket)
    assert done.returncode == 0, done.stderr
    return yard.socket


def test_command_without_daemon_says_how_to_start_one(run):
    for words, what in ((("leases",), "leases need"), (("run", "--", "true"), "leases need"),
                        (("power",), "GPU settings need"), (("history",), "history needs"),
                        (("alerts",), "alerts need"), (("token", "list"), "tokens need"),
                        (("events",), "events need")):
        done = run(*words)
        assert (done.returncode, done.stderr) == (5, error(
            f"{what} a daemon, and none is running on this machine", None, "gpuyard serve")), words


def test_missing_daemon_error_suggests_serve_with_socket(run, tmp_path):
    socket = f"{tmp_path}/no yard.sock"
    for words in (("leases",), ("devices",), ("power",), ("alerts",)):
        done = run(*words, GPUYARD_SOCKET=socket)
        assert (done.returncode, done.stderr) == (5, error(
            f"nothing is listening at {socket}", "No such file or directory",
            f"gpuyard serve --socket '{socket}'")), words


def test_refusal_of_running_daemon_has_no_start_advice(daemon, run):
    yard = daemon("--nvml", "/nowhere/libnvidia-ml.so.1")
    for words in (("run", "--no-wait", "--", "true"), ("why",), ("power", "0", "300", "--yes")):
        done = run(*words, GPUYARD_SOCKET=yard.socket)
        assert done.returncode != 0 and "gpuyard serve" not in done.stderr, done.stderr


def test_claim_without_wait_says_how_to_wait(leased, run):
    done = run("run", "-n", "2", "--no-wait", "--", "sh", "-c", "exit 3", GPUYARD_SOCKET=leased)
    what, why, step = done.stderr.splitlines()
    assert done.returncode == 7 and what == "gpuyard: 2 GPUs cannot be leased now"
    assert re.fullmatch(r"  cause: 1 of 2 matching GPUs is free; leased: GPU \d \(\w+\)", why), why
    assert step == "  try:   gpuyard run -n 2 --wait 1h -- sh -c 'exit 3'"
    done = run("free", "-n", "2", GPUYARD_SOCKET=leased)
    assert done.returncode == 7 and done.stderr.endswith("  try:   gpuyard run -n 2 --wait 1h -- COMMAND\n")
    done = run("free", "-n", "3", GPUYARD_SOCKET=leased)
    assert done.returncode == 7 and "try:" not in done.stderr, "it would never be granted"


@pytest.mark.parametrize("words, code, expected", [
    (("run", "--wait", "1x", "--", "true"), 2,
     error('--wait: expected a duration such as 90s, 30m, 8h or 2d, from 1s to 365d; got "1x"')),
    (("alerts", "silence", "--for", "31d"), 2,
     error('--for: expected a duration from 1s to 30d; got "31d"')),
    (("lease", "take", "--for", "8d"), 2, error('--for: expected a duration from 10s to 7d; got "8d"')),
    (("devices", "9"), 6, error('GPU "9" not found; there are 2, named by index, UUID or PCI address', None,
                                "gpuyard devices")),
    (("history", "0", "--metric", "powr"), 2,
     error('unknown metric "powr" (did you mean "power"?)', None, "gpuyard query --list")),
    (("query", "--fields", "power.drow"), 2,
     error('unknown field "power.drow" (did you mean "power.draw"?)', None, "gpuyard query --list")),
    (("alerts", "silence", "--rule", "thermol", "--for", "1h"), 6,
     error('unknown rule "thermol" (did you mean "thermal"?)', None, "gpuyard alerts rules")),
    (("alerts", "ack", "99"), 6, error("alert 99 not found", None, "gpuyard alerts")),
    (("schema", "devics"), 6, error('unknown schema "devics" (did you mean "devices"?)', None,
                                    "gpuyard schema")),
    (("lease", "release", "abcdef"), 6,
     error('lease "abcdef" not found: ended leases are forgotten after a day', None, "gpuyard leases",
           "gpuyard queue")),
    (("token", "revoke", "none"), 6, error('token "none" not found', None, "gpuyard token list")),
    (("top",), 2, error("top needs a terminal", None, "gpuyard top --once  # prints one screen",
                        "gpuyard top --plain  # prints lines")),
])
def test_mistake_prints_expected_lines(yard, run, words, code, expected):
    done = run(*words, GPUYARD_SOCKET=yard.socket)
    assert (done.returncode, done.stderr) == (code, expected)


def test_missing_driver_has_cause_and_next_steps(run):
    done = run("devices", "--nvml", "/nowhere/libnvidia-ml.so.1")
    lines = done.stderr.splitlines()
    assert done.returncode == 5 and lines[0].startswith("gpuyard: failed to initialise NVML: ")
    assert lines[1:] == ["  try:   ldconfig -p | grep nvidia-ml", "         gpuyard doctor",
                         "         gpuyard devices --simulate 4  # works without a GPU"]


def test_json_error_has_message_and_hint(yard):
    answer = yard.get("/api/gpu/leases/abcdef", unix=True)
    assert answer.status == 404
    assert answer.json()["error"] == {
        "code": "not_found",
        "message": 'lease "abcdef" not found: ended leases are forgotten after a day; '
                   "try `gpuyard leases`, then `gpuyard queue`",
        "hint": "gpuyard leases\ngpuyard queue"}


def test_token_that_is_unknown_is_a_missing_permission(tmp_path, daemon, run):
    yard = daemon("--simulate", "1", GPUYARD_TOKEN="")
    done = subprocess.run(
        [PROGRAM, "lease", "take", "--for", "1m", "--socket", f"127.0.0.1:{yard.port}"],
        env=clean_environment(tmp_path), capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 4, done.stderr
    assert "  cause: " not in done.stderr and "TCP without TLS is read-only" in done.stderr
