"""`gpuyard host`: the names of remote daemons, in hosts.toml."""

import pytest
from net_yard import NetYard


@pytest.fixture
def yard(daemon, tmp_path):
    return NetYard(daemon, tmp_path)


def hosts_file(yard):
    return yard.place / "gpuyard" / "hosts.toml"


def listed(yard):
    return [tuple(line.split()) for line in yard.must("host", "list").splitlines()[1:]]


def test_added_hosts_are_listed_and_removed(yard):
    empty = yard.must("host", "list")
    assert empty.startswith("No hosts in ") and "gpuyard host add" in empty
    for name in ("dgx1", "n1.lab"):
        yard.must("host", "add", name, yard.host, "--pin", yard.pin)
    assert listed(yard) == [("dgx1", yard.host), ("n1.lab", yard.host)]
    yard.must("host", "remove", "dgx1")
    assert listed(yard) == [("n1.lab", yard.host)]
    again = yard.go("host", "remove", "dgx1")
    assert again.returncode == 6 and 'host "dgx1" not found' in again.stderr and "gpuyard host list" in again.stderr


def test_removing_a_host_keeps_every_other_line(yard):
    yard.must("host", "add", "dgx1", yard.host, "--pin", yard.pin)
    hosts_file(yard).write_text("# mine\n[lab]\nurl = \"ssh://lab\"  # by ssh\n\n" + hosts_file(yard).read_text())
    yard.must("host", "remove", "dgx1")
    assert hosts_file(yard).read_text() == "# mine\n[lab]\nurl = \"ssh://lab\"  # by ssh\n"
    assert hosts_file(yard).stat().st_mode & 0o777 == 0o600


def test_second_entry_of_host_must_match_first(yard):
    yard.make_token("laptop")
    yard.know_host(token="laptop")
    before = hosts_file(yard).read_text()
    refused = yard.go("host", "add", "dgx2", yard.host, "--pin", yard.pin)
    assert refused.returncode == 2 and "dgx1 and dgx2 are the same host" in refused.stderr, refused.stderr
    assert hosts_file(yard).read_text() == before
    yard.must("host", "add", "dgx2", yard.host, "--pin", yard.pin, "--token-file", str(yard.place / "laptop.token"))
    assert "GPU" in yard.must("-H", "dgx2", "devices")
