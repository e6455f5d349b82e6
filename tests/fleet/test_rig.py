"""The rig itself: that each fault of a node is what it says, seen by a client that asks one host."""

import signal

import pytest

from program import PATIENCE, wait_until
from rig import SHARED, Fleet


@pytest.fixture(scope="module")
def fleet():
    with Fleet(nodes=3, gpus=2, https=True) as one:
        yield one


def fails(fleet, code, *words, host="n1", **options):
    done = fleet.go("devices", "-H", host, **options)
    assert done.returncode == code and not done.stdout, done
    for word in words:
        assert word in done.stderr, done.stderr


@pytest.fixture
def node(fleet):
    """n1, which answers before and after a fault; and so does n2 all the time."""
    fleet.must("devices", "-H", "n1")
    yield fleet.nodes[0]
    fleet.must("devices", "-H", "n1")
    wait_until(lambda: not fleet.ssh_processes() and not fleet.sessions(), "all connections to end")


def test_each_node_is_a_separate_machine(fleet):
    for one in fleet.nodes:
        assert one.must_here("hostname") == one.name + "\n"
        one.world.load(0, f"steady:0.{one.name[1]}")
        wait_until(lambda: f" {one.name[1]}0 %" in fleet.must("devices", "-H", one.name), "its own load")
        assert one.must_here("gpuyard", "run", "--no-wait", "--quiet", "--", "id", "-un") == "alice\n"


def test_node_is_reachable_by_each_transport_and_alias(fleet):
    node = fleet.nodes[0]
    try:
        for way in ("https", "unix"):
            fleet.know_hosts(node.host(way))
            fleet.must("devices", "-H", "n1")
        for pin in (None, f"sha256//{'A' * 43}="):
            fleet.know_hosts(node.host("https", pin=pin))
            fails(fleet, 4, "not trusted")
        fleet.know_hosts(node.host(), node.host(name="other"))
        for name in ("n1", "other", "ssh://n1b", "ssh://root@n1"):
            fleet.must("devices", "-H", name)
    finally:
        fleet.know_hosts(*(one.host() for one in fleet.nodes))


def test_sshd_faults_produce_expected_errors(fleet, node):
    with node.other_host_key():
        fails(fleet, 4, "its host key has changed")
    with node.other_host_key(known=None):
        fails(fleet, 4, "does not know its host key")
    with node.asks_for_password():
        fails(fleet, 4, "Permission denied (publickey,password)")
    with node.sshd_banner(200_000):
        fleet.must("devices", "-H", "n1")
    with node.sshd_banner(300_000):
        fails(fleet, 5, "ssh failed")
    with node.silent_sshd():  # 10 s
        fails(fleet, 5, "timed out during banner exchange")


def test_program_and_daemon_faults_produce_expected_errors(fleet, node):
    with node.no_gpuyard():
        fails(fleet, 5, "gpuyard was not found there")
    with node.half_an_answer(hangs=False):
        fails(fleet, 5, "the connection was closed")
    for fault in (node.half_an_answer, node.stopped_daemon):
        with fault():
            fails(fleet, 5, "no response")
    with node.killed_daemon():
        fails(fleet, 5, "nothing is listening")
    with node.big_banner(50_000):
        fleet.must("devices", "-H", "n1")
    with node.big_banner():
        assert "without a greeting" in fleet.go("devices", "-H", "n1").stderr
    with node.older_daemon("/api/gpu/queue", "/api/gpu/leases/"):
        fleet.must("devices", "-H", "n1")
        assert "/api/gpu/older/api/gpu/queue not found" in fleet.go("queue", "-H", "n1").stderr


def test_dead_link_fails_and_cut_off_link_hangs(fleet, node):
    with node.dead():
        fails(fleet, 5, "No route to host")
    one = fleet.start("events", "--follow", "-H", "n1")
    wait_until(fleet.sessions, "a connection")
    with node.cut_off():
        assert one.poll() is None and fleet.ssh_processes()
        fleet.must("devices", "-H", "n2")
    one.send_signal(signal.SIGINT)
    one.communicate(timeout=PATIENCE)


def test_ssh_masters_are_distinguished_from_sessions(fleet, node):
    assert fleet.ssh(*SHARED, "n1", "hostname").stdout == "n1\n"
    master = wait_until(fleet.ssh_masters, "a master")
    assert fleet.ssh(*SHARED, "n1", "hostname").stdout == "n1\n"
    assert fleet.ssh_masters() == fleet.ssh_processes() == master
    assert fleet.ssh(*SHARED, "-O", "exit", "n1").returncode == 0
