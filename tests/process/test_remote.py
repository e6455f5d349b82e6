"""-H: a daemon of another machine, through Debian's ssh and sshd; and the errors when it cannot be
reached."""

import json
import os
import signal
import socket
import subprocess

import pytest

import proofs
from far_host import UID, FarHost
from library_world import EXAMPLES
from program import PATIENCE, PROGRAM, Daemon, open_directory, program_for_others, wait_until
from sim_world import World

GREETING = b"gpuyard-dial-stdio 1\n"
READS = (["devices"], ["devices", "0"], ["processes"], ["energy"], ["leases"], ["queue"], ["usage"],
         ["power"], ["alerts"], ["alerts", "history"], ["alerts", "rules"],
         ["alerts", "sinks"], ["alerts", "silences"], ["driver"], ["doctor"],
         ["query", "--fields", "uuid"], ["history", "0"])


@pytest.fixture(scope="module")
def far_daemon():
    """A daemon of root's on two GPUs, in a place that every user may enter; and that place."""
    with open_directory() as place:
        world = World(place)
        world.start("--gpus", "2", "--load", "idle")
        os.chmod(place / "world", 0o755)
        (place / "daemon").mkdir(mode=0o755)
        daemon = Daemon(place / "daemon", GPUYARD_SIM_WORLD=str(world.directory)).ready()
        try:
            yield place, daemon
        finally:
            daemon.kill()
            world.end()


@pytest.fixture(scope="module")
def lab(far_daemon):
    place, daemon = far_daemon
    host = FarHost(place, program_for_others(place), daemon.socket)
    proofs.record("ssh", "ran")
    yield host
    host.end()


def test_every_reading_verb_answers_as_on_its_host(lab):
    for words in READS:
        done = lab.go(*words, "--json", "-H", "lab")
        assert done.returncode == 0, f"{words}: {done.stderr}"
        assert json.loads(done.stdout), words
    for words in (["audit"], ["operations"]):  # which alice may not read
        assert json.loads(lab.must(*words, "--json", "-H", "ssh://root@lab")), words
    assert lab.must("free", "-H", "lab") == lab.must(
        "free", GPUYARD_SOCKET=str(lab.place / "daemon" / "gpuyard.sock"))
    uuids = [gpu["uuid"] for gpu in json.loads(lab.must("-H", "ssh://lab", "devices", "--json"))["devices"]]
    here = lab.must("query", "--fields", "uuid", "--format", "csv,noheader",
                    GPUYARD_SOCKET=str(lab.place / "daemon" / "gpuyard.sock"))
    assert uuids == here.split()


def test_remote_lease_belongs_to_ssh_user(lab):
    taken = json.loads(lab.must("lease", "take", "--for", "1h", "--json", "-H", "lab"))["lease"]
    assert taken["uid"] == UID and taken["binding"] == "detached" and taken["state"] == "held"
    seen = json.loads(lab.must("leases", "--json", GPUYARD_HOST="lab"))["leases"]
    assert [lease["id"] for lease in seen] == [taken["id"]]
    lab.must("lease", "release", taken["id"], "-H", "lab")
    cordon = ("cordon", "0", "--reason", "x")
    assert lab.go(*cordon, "-H", "lab").returncode == 4, "alice may not, though root asks her ssh to"
    lab.must(*cordon, "-H", "ssh://root@lab")
    lab.must("uncordon", "0", "-H", "ssh://root@lab")


def test_exported_lease_addresses_remote_daemon(lab):
    text = lab.must("lease", "take", "--for", "1h", "--export", "--quiet", "-H", "lab")
    assert "export GPUYARD_HOST='ssh://lab'" in text and "export GPUYARD_SOCKET" not in text
    script = f'eval "$EXPORTED"; "{PROGRAM}" lease release >/dev/null'
    subprocess.run(["sh", "-c", script], env=lab.environment | {"EXPORTED": text}, check=True,
                   timeout=PATIENCE)


def test_many_requests_share_one_login(lab):
    before = lab.logins()
    lines = lab.must("watch", "--json", "--interval", "100ms", "--count", "5", "-H", "lab").splitlines()
    assert len(lines) == 5
    assert lab.logins() == before + 1


def follower(lab):
    one = lab.start("events", "--follow", "-H", "lab")
    wait_until(lab.dialling, "the far end")
    return one


def test_killed_client_leaves_no_ssh_processes(lab):
    one = follower(lab)
    one.kill()
    one.communicate()
    wait_until(lambda: lab.processes() == [], lambda: f"these to end: {lab.processes()}")


def test_client_killed_during_handshake_leaves_no_ssh(lab):
    with socket.create_server(("127.0.0.1", 0)) as silent:  # takes connections and says nothing
        port = silent.getsockname()[1]
        one = lab.start("devices", "-H", f"ssh://lab:{port}")
        wait_until(lab.processes, "ssh to start")
        one.kill()
        one.communicate()
        wait_until(lambda: lab.processes() == [], lambda: f"these to end: {lab.processes()}")


def test_finished_command_leaves_no_ssh_processes(lab):
    lab.must("devices", "-H", "lab")
    wait_until(lambda: lab.processes() == [], lambda: f"these to end: {lab.processes()}")


def test_verb_continues_after_remote_end_is_killed(lab):
    one = lab.start("watch", "--json", "--interval", "100ms", "-H", "lab")
    try:
        assert json.loads(one.stdout.readline())
        first = lab.dialling()
        for pid in first:
            os.kill(pid, signal.SIGKILL)
        wait_until(lambda: set(lab.dialling()) - set(first), "another")
        for _ in range(5):
            assert json.loads(one.stdout.readline())
    finally:
        one.kill()
        one.communicate()


def test_program_with_library_connects_over_ssh(lab):
    done = subprocess.run([EXAMPLES / "example_client", "ssh://lab"], env=lab.environment, text=True,
                          capture_output=True, timeout=PATIENCE, check=False)
    assert done.returncode == 0 and "event: lease" in done.stdout, done.stderr
    wait_until(lambda: not lab.processes(), "both ends to be gone")


def test_lease_only_ssh_key_allows_leasing_only(lab):
    lab.must("leases", "-H", "lease")
    taken = lab.must("lease", "take", "--for", "1h", "--quiet", "-H", "lease").splitlines()[0]
    lab.must("lease", "release", taken, "-H", "lease")
    refused = lab.go("cordon", "0", "--reason", "x", "-H", "ssh://root@lease")
    assert refused.returncode == 4, "not even root may do more there"


def test_login_shell_with_greeting_is_accepted(lab):
    noisy = lab.place / "noisy"
    noisy.write_text(f'#!/bin/sh\necho "Welcome to the lab!"\nexec "{lab.program}" "$@"\n')
    noisy.chmod(0o755)
    lab.must("devices", "-H", f"ssh://lab{noisy}")


def test_ssh_failure_has_exit_code_and_remedy(lab):
    def said(code, *words, host="lab", **environment):
        done = lab.go("devices", "-H", host, **environment)
        assert done.returncode == code and done.stdout == "", done
        for word in (*words, "ssh://"):
            assert word in done.stderr, done.stderr

    said(4, "Permission denied", "ssh-copy-id", host="ssh://stranger")
    said(5, "gpuyard was not found there", "hosts.toml", host="ssh://lab/nowhere/gpuyard")
    said(5, "Connection refused", host="ssh://lab:1")
    said(5, "ssh is not installed on this machine", "openssh-client", PATH="/nowhere")
    lab.trust("stranger_key")
    try:
        said(4, "its host key has changed", "administrator")
    finally:
        lab.trust("host_key")


def test_remote_machine_without_daemon_is_reported(far_daemon, lab):
    wrapper = lab.place / "elsewhere"
    wrapper.write_text(f'#!/bin/sh\nGPUYARD_SOCKET=/nowhere.sock exec "{lab.program}" "$@"\n')
    wrapper.chmod(0o755)
    done = lab.go("leases", "-H", f"ssh://lab{wrapper}")
    assert done.returncode == 5 and "/nowhere.sock" in done.stderr and "ssh://lab" in done.stderr


# Without any ssh.


class Dial:
    """`gpuyard dial-stdio` between pipes."""

    def __init__(self, yard, *words):
        self.process = subprocess.Popen([PROGRAM, "dial-stdio", *words], env=yard.environment | {
            "GPUYARD_SOCKET": yard.socket}, stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def test_claim_through_dial_stdio_has_no_process_binding(daemon):
    """The process that the kernel names is dial-stdio, and ends with the connection."""
    one = Dial(daemon("--simulate", "1")).process
    assert one.stdout.readline() == GREETING
    for wish, status in (('{"gpus": 1}', b"403"),
                         ('{"gpus": 1, "binding": "detached", "ttl_s": 60, "answer_within_s": 0}', b"200")):
        one.stdin.write(f"POST /api/gpu/leases HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                        f"Content-Length: {len(wish)}\r\n\r\n{wish}".encode())
        one.stdin.flush()
        assert one.stdout.readline().split()[1] == status
        length = 0
        while (line := one.stdout.readline().strip()):
            length = int(line.split()[1]) if line.lower().startswith(b"content-length") else length
        answer = one.stdout.read(length)
        assert status == b"200" or b"a remote lease cannot be bound" in answer
    one.communicate(timeout=PATIENCE)


def test_dial_stdio_leads_to_a_unix_socket_alone(daemon, run):
    yard = daemon("--simulate", "1")
    done = run("dial-stdio", GPUYARD_SOCKET=f"127.0.0.1:{yard.port}")
    assert done.returncode == 2 and done.stdout == "" and "Unix socket" in done.stderr
    done = run("dial-stdio", GPUYARD_SOCKET="/nowhere.sock")
    assert done.returncode == 5 and done.stdout == "" and "/nowhere.sock" in done.stderr
