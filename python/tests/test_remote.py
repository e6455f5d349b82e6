"""Daemons elsewhere: over TLS with a pin and a token, and through ssh."""

import asyncio
import os
import shutil
import ssl
import stat
import subprocess
import sys
import time

import pytest

import gpuyard
from far_host import UID, FarHost
from gpuyard import tls_pins
from gpuyard.daemon_address import _checksum
from gpuyard.errors import Denied
from net_yard import NetYard
from program import PROGRAM, Daemon, open_directory, program_for_others, wait_until
from sim_world import World

OTHER_PIN = "sha256//AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="


@pytest.fixture(scope="module")
def far(tmp_path_factory):
    """A daemon that speaks TLS, and the files of its clients."""
    started = []

    def daemon(*arguments, directory, **environment):
        started.append(Daemon(directory, *arguments, **environment))
        return started[-1].ready()
    # Two GPUs of which the second is idle, in a world that ends with the daemon.
    yield NetYard(daemon, tmp_path_factory.mktemp("far"))
    for one in started:
        one.kill()


@pytest.fixture
def client(far, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(far.place))
    return far


@pytest.fixture(scope="module")
def token(far):
    return far.make_token("lease", "--scope", "lease")


def test_pinned_host_with_token_is_reachable_by_name(client, token):
    client.know_host("dgx1", token="lease")
    with gpuyard.Client("dgx1") as yard:
        assert yard.is_elsewhere and len(yard.devices()) == 2
        with yard.lease(1, wait=30) as lease:
            assert lease.record.binding == "detached" and lease.record.pid is None
            assert [one.id for one in yard.leases()] == [lease.id]
        with yard.energy() as e:
            time.sleep(1.2)
        assert e.joules > 0
        with yard.events(since="oldest") as events:
            assert events.next(10)


def test_the_asyncio_client_does_the_same(client, token):
    client.know_host("dgx1", token="lease")

    async def main():
        async with gpuyard.aio.Client("dgx1") as yard:
            assert len(await yard.devices()) == 2
            async with yard.lease(1, wait=30) as lease:
                assert lease.record.binding == "detached"
            events = yard.events(since="oldest")
            assert await events.next(10)
            events.close()
        client.know_host("dgx1", pin=OTHER_PIN, token="lease")
        with pytest.raises(Denied, match="not trusted: its public key"):
            await gpuyard.aio.Client("dgx1").devices()
    asyncio.run(main())


def test_unpinned_key_is_refused_before_token_is_sent(client):
    client.make_token("pinned", "--scope", "read")
    client.know_host("dgx1", pin=OTHER_PIN, token="pinned")
    def last_used():
        tokens = gpuyard.Client("unix://" + client.daemon.socket).request("GET", "/api/gpu/tokens")
        return next(one["last_used"] for one in tokens["tokens"] if one["name"] == "pinned")
    with pytest.raises(Denied, match="gpuyard tls show"):
        gpuyard.Client("dgx1").devices()
    assert last_used() is None
    client.know_host("dgx1", token="pinned")
    gpuyard.Client("dgx1").devices()
    wait_until(last_used, "the daemon to note that it was used")


def test_without_a_pin_the_certificate_must_be_trusted(client, token, monkeypatch):
    monkeypatch.setenv("GPUYARD_TOKEN", token)
    (client.place / "gpuyard" / "hosts.toml").write_text("")
    with pytest.raises(Denied, match="not trusted"):
        gpuyard.Client(client.host).devices()
    monkeypatch.setenv("SSL_CERT_FILE", str(client.certificate))
    assert len(gpuyard.Client(client.host).devices()) == 2
    by_address = client.host.replace("127.0.0.1", "127.0.0.2")
    with pytest.raises(gpuyard.Error):
        gpuyard.Client(by_address).devices()


def test_missing_wrong_or_readable_token_is_refused(client, token, monkeypatch):
    client.know_host("dgx1")
    with pytest.raises(Denied):
        gpuyard.Client("dgx1").devices()
    wrong = token[:20] + "".join("a" if c != "a" else "b" for c in token[20:-6])
    monkeypatch.setenv("GPUYARD_TOKEN", wrong + _checksum(wrong))
    with pytest.raises(Denied):
        gpuyard.Client("dgx1").devices()
    monkeypatch.setenv("GPUYARD_TOKEN", wrong + token[-6:])
    with pytest.raises(gpuyard.Invalid, match="mistyped"):
        gpuyard.Client("dgx1")
    monkeypatch.delenv("GPUYARD_TOKEN")
    file = client.place / "open.token"
    file.write_text(token)
    file.chmod(0o644)
    with pytest.raises(Denied, match="chmod 600"):
        gpuyard.Client("dgx1", token_file=str(file))
    file.chmod(0o600)
    assert len(gpuyard.Client("dgx1", token_file=str(file)).devices()) == 2


def test_the_pin_is_that_of_tls_show(far):
    certificate = ssl.PEM_cert_to_DER_cert(far.certificate.read_text())
    assert tls_pins.pin_of(certificate) == far.pin


def test_truncated_or_altered_certificate_is_refused(far):
    certificate = ssl.PEM_cert_to_DER_cert(far.certificate.read_text())
    key = tls_pins.public_key_in(certificate)
    end = certificate.index(key) + len(key)
    for length in range(end):
        with pytest.raises(Denied):
            tls_pins.public_key_in(certificate[:length])
    for at in range(0, end):
        for value in (0x00, 0x80, 0x84, 0xFF):
            changed = certificate[:at] + bytes([value]) + certificate[at + 1:]
            try:
                tls_pins.public_key_in(changed)
            except Denied:
                pass
    with pytest.raises(Denied):
        tls_pins.public_key_in(b"\x30\x84\xff\xff\xff\xff" + b"x" * 70_000)


@pytest.fixture
def near_ssh(far, tmp_path, monkeypatch):
    """An `ssh` that stays on this machine: it takes ssh's own words and runs the command."""
    place = tmp_path / "bin"
    place.mkdir()

    def write(text):
        file = place / "ssh"
        file.write_text("#!/bin/sh\n" + text)
        file.chmod(file.stat().st_mode | stat.S_IXUSR)
    write(f'echo "$@" >> {tmp_path}/words\n'
          'while [ "$1" != -- ]; do shift; done\nshift 2\n'
          f'export GPUYARD_SOCKET={far.daemon.socket}\necho "Welcome to the lab"\n'
          f'exec {shutil.which(PROGRAM) or os.path.abspath(PROGRAM)} dial-stdio\n')
    monkeypatch.setenv("PATH", f"{place}:{os.environ['PATH']}")
    return write


@pytest.fixture
def logins(tmp_path):
    """The command lines with which ssh was called."""
    return lambda: (tmp_path / "words").read_text().splitlines()


def test_ssh_requests_share_login_and_streams_do_not(near_ssh, logins):
    with gpuyard.Client("ssh://alice@lab:2222") as yard:
        for _ in range(3):
            assert len(yard.devices()) == 2
        (words,) = logins()
        assert words.endswith("-p 2222 -l alice -- lab gpuyard dial-stdio")
        assert "-oBatchMode=yes" in words
        with yard.events(since="oldest") as events:
            assert events.next(10)
        with yard.lease(1, wait=30) as lease:
            assert lease.record.binding == "detached"
        assert len(logins()) == 2
    with pytest.raises(gpuyard.Invalid):
        gpuyard.Client("ssh://lab; reboot")


def test_dead_ssh_connection_is_restarted_for_reads(near_ssh, logins):
    with gpuyard.Client("ssh://lab") as yard:
        yard.devices()
        (connection,) = yard._transport._idle
        connection._login._process.kill()
        connection._login._process.wait()
        assert len(yard.devices()) == 2
    assert len(logins()) == 2


def test_the_asyncio_client_goes_through_ssh_too(near_ssh, logins):
    async def main():
        async with gpuyard.aio.Client("ssh://lab") as yard:
            for _ in range(3):
                assert len(await yard.devices()) == 2
            async with yard.lease(1, wait=30) as lease:
                assert lease.record.binding == "detached"
        assert len(logins()) == 1
        near_ssh("echo 'Permission denied (publickey).' >&2; exit 255")
        with pytest.raises(Denied, match="ssh-copy-id"):
            await gpuyard.aio.Client("ssh://lab").devices()
    asyncio.run(main())


@pytest.mark.parametrize("text, kind, words", [
    ("echo 'Permission denied (publickey).' >&2; exit 255", gpuyard.Denied,
     "ssh-copy-id alice@lab"),
    ("echo 'Host key verification failed.' >&2; exit 255", gpuyard.Denied, "confirm it"),
    ("echo 'ssh: connect: Connection refused' >&2; exit 255", gpuyard.Unavailable, "sshd is running"),
    ("echo 'sh: gpuyard: not found' >&2; exit 127", gpuyard.Unavailable, "give its path"),
    ("echo 'gpuyard: no verb dial-stdio' >&2; exit 2", gpuyard.Unsupported, "newer version"),
    ("exit 0", gpuyard.Unavailable, "the connection was closed"),
    ("yes | head -c 100000; sleep 60", gpuyard.Internal, "without a greeting"),
    ("printf 'gpuyard-dial-stdio 1\\nmore'; sleep 60", gpuyard.Internal, "unexpected data"),
    ("yes | head -c 1000000 >&2; exit 255", gpuyard.Unavailable, "ssh alice@lab true` works"),
])
def test_ssh_failure_becomes_error_with_remedy(near_ssh, text, kind, words):
    near_ssh(text + "\n")
    with pytest.raises(kind, match=words):
        gpuyard.Client("ssh://alice@lab").devices()


def test_a_login_that_takes_too_long_is_ended(near_ssh, monkeypatch):
    near_ssh("exec sleep 600\n")
    monkeypatch.setattr("gpuyard.transport.LOGIN_SECONDS", 0.5)
    with pytest.raises(gpuyard.TimedOut, match="did not respond in time"):
        gpuyard.Client("ssh://lab").devices()


def test_missing_ssh_program_error_suggests_package(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(gpuyard.Unavailable, match="apt install openssh-client"):
        gpuyard.Client("ssh://lab").devices()


def test_real_sshd_carries_requests(monkeypatch):
    """Uses the sshd of the project's own tests, if there is one."""
    if "GPUYARD_SIM_LIB" not in os.environ:
        pytest.skip("GPUYARD_SIM_LIB names the simulated library that another user is given")
    if sys.version_info < (3, 10):
        pytest.skip("the project's own open_directory() needs Python 3.10")
    with open_directory() as place:
        world = World(place)
        world.start("--gpus", "2", "--load", "idle")
        os.chmod(place / "world", 0o755)
        (place / "daemon").mkdir(mode=0o755)
        daemon = Daemon(place / "daemon", GPUYARD_SIM_WORLD=str(world.directory)).ready()
        try:
            host = FarHost(place, program_for_others(place), daemon.socket)
            try:
                for name in ("PATH", "HOME", "XDG_CONFIG_HOME"):
                    monkeypatch.setenv(name, host.environment[name])
                with gpuyard.Client("lab") as yard:
                    assert len(yard.devices()) == 2
                    with yard.lease(1, wait=30) as lease:
                        # The daemon has another passwd, without alice: it knows her uid alone.
                        assert lease.record.uid == UID and lease.record.binding == "detached"
                    assert host.logins() == 1
            finally:
                host.end()
        finally:
            daemon.kill()
            subprocess.run([PROGRAM, "sim", "stop"], check=False, env={
                **os.environ, "GPUYARD_SIM_WORLD": str(world.directory)})
