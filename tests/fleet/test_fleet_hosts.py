"""gpuyard fleet --hosts: each way to say which machines are meant; and who is shown the token."""

import json
import subprocess
import time

import pytest

from asking import answered, names, problems, view
from lab_servers import HERE, SRV, A, Lab, address, service

TRUSTED = {"SSL_CERT_FILE": "/run/fleet/client/lab-cert.pem"}


@pytest.fixture(scope="module")
def lab(fleet):
    return Lab(fleet)


@pytest.fixture(autouse=True)
def known(fleet):
    """hosts.toml has all by ssh again."""
    yield
    fleet.know_hosts(*(node.host() for node in fleet.nodes))


def targets(*groups):
    """Returns the JSON of file_sd and http_sd: each of `groups` is (targets, labels)."""
    return json.dumps([{"targets": list(some), "labels": labels} for some, labels in groups])


def asked(fleet, which, **environment):
    return answered(view(fleet, "--hosts", which, **environment))


def refused(fleet, which, *words, code=2, **environment):
    done = fleet.go("fleet", "--hosts", which, **environment)
    assert done.returncode == code and not done.stdout, done
    for word in words:
        assert word in done.stderr, done.stderr


# Hosts named by the user.


def test_names_and_urls_can_be_mixed(fleet):
    n1, n2, n3, n4 = fleet.nodes[:4]
    fleet.know_hosts(n4.host("https"), n1.host())
    some = ["n1", "ssh://n2", "ssh://root@n3", n4.https_url, f"unix://{fleet.nodes[4].daemon_socket}", "n6"]
    assert asked(fleet, ",".join(some)) == some
    assert answered(view(fleet, "--hosts", "n1,n2", "--hosts", "n3")) == ["n1", "n2", "n3"]
    assert asked(fleet, " n1 , ,n2,") == ["n1", "n2"]
    assert asked(fleet, "n1,n2,n1") == ["n1", "n2"]
    assert n2.name in fleet.must("fleet", "gpus", "--hosts", "n2") and n3.name not in asked(fleet, "n2")


def test_file_with_other_name_is_read_as_hosts(fleet):
    fleet.enclosure.write("/run/fleet/client/rack.toml", fleet.nodes[1].host(name="two"))
    assert asked(fleet, "/run/fleet/client/rack.toml,n3") == ["two", "n3"]
    refused(fleet, "/run/fleet/client/none.toml", "none.toml", "No such file", code=6)


def test_hosts_flag_overrides_environment(fleet):
    assert answered(view(fleet, GPUYARD_HOSTS="n2,n3")) == ["n2", "n3"]
    assert asked(fleet, "n1", GPUYARD_HOSTS="n2,n3") == ["n1"]


def test_unknown_host_is_reported_while_others_answer(fleet):
    answer = view(fleet, "--hosts", "n1,nobody,n2")
    assert answered(answer) == ["n1", "n2"]
    assert "unknown host" in problems(answer)["nobody"]


# Prometheus's discovery formats.


def sd_of(fleet):
    """Two by https, of which hosts.toml has the pin and the token, and one by ssh."""
    n1, n2, n3 = fleet.nodes[:3]
    fleet.know_hosts(n1.host("https"), n2.host("https"))
    tls = [f"{node.address}:9411" for node in (n1, n2)]
    return targets((tls, {"__scheme__": "https", "rack": "7"}), (["n3:9410"], {})), [n1.address, n2.address, n3.name]


def test_http_sd(fleet, lab):
    text, expected = sd_of(fleet)
    with lab.http({"/targets?rack=7": text, "/empty": "[]", "/object": "{}", "/html": "<html>"}) as url:
        answer = view(fleet, "--hosts", f"http_sd:{url}/targets?rack=7")
        assert answered(answer) == expected, problems(answer)
        refused(fleet, f"http_sd:{url}/gone", "status 404", code=5)
        for path in ("object", "html"):
            refused(fleet, f"http_sd:{url}/{path}", "is not a Prometheus target list", code=5)
        refused(fleet, f"http_sd:{url}/empty", "no machine")
    refused(fleet, f"http_sd:{url}/gone", "Connection refused", code=5)


# DNS.


def test_dns_leads_to_ssh_or_to_https(fleet, lab):
    n3 = fleet.nodes[2]
    records = {("_ssh._tcp.lab", SRV): [service("n1", 22), service("n2", 22)],
               ("_gpuyard._tcp.lab", SRV): [service("n3.lab", 9411)],
               ("n3.lab", A): [address(n3.address)]}
    fleet.know_hosts(n3.host("https").replace(n3.address, "n3.lab"))
    with lab.dns(records), n3.other_config('[server]\nallowed_hosts = ["n3.lab"]\n'):
        assert asked(fleet, "dns:_ssh._tcp.lab") == ["n1", "n2"]
        answer = view(fleet, "--hosts", "dns:_gpuyard._tcp.lab")
        assert answered(answer) == ["n3.lab"] and answer["hosts"][0]["url"] == "https://n3.lab:9411"
        refused(fleet, "dns:_none._tcp.lab", "no DNS SRV record", code=5)


def test_silent_dns_server_times_out(fleet, lab):
    with lab.dns(None):
        began = time.monotonic()
        refused(fleet, "dns:_gpuyard._tcp.lab", "_gpuyard._tcp.lab", "does not respond", code=5)
        assert time.monotonic() - began < 8


# The tokens of the environment.

TOKEN_OF = "/run/fleet/client/token-{}"


def shown_to(fleet, lab, which, pages=None, **environment):
    """Whether a TLS server that `which(port)` leads to receives a token: from the file that GPUYARD_TOKEN_FILE
    names for it, or from `environment` instead."""
    token = fleet.nodes[0].token
    fleet.enclosure.write(TOKEN_OF.format(HERE), token, 0o600)
    with lab.tls(pages) as (port, shown):
        fleet.go("fleet", "--hosts", which(port), **(environment or {"GPUYARD_TOKEN_FILE": TOKEN_OF}), **TRUSTED)
    assert shown, "it was asked"
    assert set(shown) <= {None, f"Bearer {token}"}
    return any(shown)


def sd(port):
    return targets(([f"{HERE}:{port}"], {"__scheme__": "https"}))


def test_machine_named_by_user_receives_token(fleet, lab):
    def in_a_file(port):
        fleet.enclosure.write("/run/fleet/client/tls.json", sd(port))
        return "/run/fleet/client/tls.json"
    def named(port):
        return f"https://{HERE}:{port}"
    assert shown_to(fleet, lab, named)
    assert shown_to(fleet, lab, in_a_file)
    # A token that names no host is sent to no host of a fleet.
    assert not shown_to(fleet, lab, named, GPUYARD_TOKEN=fleet.nodes[0].token)
    assert not shown_to(fleet, lab, named, GPUYARD_TOKEN_FILE=TOKEN_OF.format(HERE))


# Anyone on the network can forge a host list that comes by DNS or without TLS.
def test_insecure_discovery_sends_no_token(fleet, lab):
    pages = {}
    with lab.http(pages) as url:
        def by_http(port):
            pages["/sd"] = sd(port)
            return f"http_sd:{url}/sd"
        assert not shown_to(fleet, lab, by_http)
    records = {("tls.lab", A): [address(HERE)]}
    with lab.dns(records):
        def by_dns(port):
            records["_gpuyard._tcp.lab", SRV] = [service("tls.lab", port)]
            return "dns:_gpuyard._tcp.lab"
        assert not shown_to(fleet, lab, by_dns)


# The discovery server that sends the list gets no token itself.
def test_token_goes_only_to_tls_discovered_hosts(fleet, lab):
    pages = {}
    fleet.enclosure.write(TOKEN_OF.format(HERE), fleet.nodes[0].token, 0o600)
    with lab.tls(pages) as (port, shown):
        pages["/sd"] = sd(port)
        fleet.go("fleet", "--hosts", f"http_sd:https://{HERE}:{port}/sd", GPUYARD_TOKEN_FILE=TOKEN_OF, **TRUSTED)
    assert shown[0] is None and all(one == f"Bearer {fleet.nodes[0].token}" for one in shown[1:]), shown
    assert len(shown) > 1


def test_each_machine_receives_only_its_token(fleet):
    node = fleet.nodes[0]
    fleet.know_hosts(f'[n1]\nurl = "{node.https_url}"\npin = "{node.pin}"\n')
    assert "token" in problems(view(fleet, code=5))["n1"]
    assert "GPUYARD_TOKEN_FILE to a path with {}" in problems(view(fleet, code=5, GPUYARD_TOKEN=node.token))["n1"]
    fleet.enclosure.write(TOKEN_OF.format(node.address), node.token, 0o600)
    assert answered(view(fleet, GPUYARD_TOKEN_FILE=TOKEN_OF)) == ["n1"]
    assert names(fleet)[0] == "n1"


# The same hosts as a list for Prometheus.


def test_targets_are_written_for_machines_that_do_not_respond_too(fleet, tmp_path):
    n1, n2, n3 = fleet.nodes[:3]
    fleet.know_hosts(n1.host(), n2.host("https"), n3.host("unix"))
    file = tmp_path / "gpuyard.json"
    done = fleet.go("fleet", "--write-file-sd", str(file))
    assert done.returncode == 0 and "2 targets written" in done.stdout, done
    assert f"{n3.name} has no address on the network" in done.stderr, done.stderr
    written = json.loads(file.read_text())
    assert [one["labels"] for one in written] == [{}, {"__scheme__": "https"}]
    assert answered(view(fleet, "--hosts", str(file)))[0] == n1.name
    config = tmp_path / "prometheus.yml"
    config.write_text(f"scrape_configs: [{{job_name: gpuyard, file_sd_configs: [{{files: ['{file}']}}]}}]")
    checked = subprocess.run(["promtool", "check", "config", config], capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert fleet.go("fleet", "--hosts", "off.invalid", "--write-file-sd", str(file)).returncode == 0
    assert json.loads(file.read_text())[0]["targets"] == ["off.invalid:9411"]


def test_an_incomplete_list_never_replaces_the_targets(fleet, tmp_path):
    file = tmp_path / "gpuyard.json"
    file.write_text("old", encoding="utf-8")
    for hosts, code in (("n1,dns:_none._tcp.lab.invalid", 5), ("unix:///run/none.sock", 6)):
        done = fleet.go("fleet", "--hosts", hosts, "--write-file-sd", str(file))
        assert done.returncode == code and "was not changed" in done.stderr, done
    assert file.read_text(encoding="utf-8") == "old"
