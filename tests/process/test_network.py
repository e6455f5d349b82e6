"""gpuyard over a network, with real clients: curl, OpenSSL, Prometheus, and gpuyard itself. The three
recipes of docs/network.md are among them; the first, by ssh, is in test_remote.py too."""

import json
import os
import pty
import signal
import stat
import subprocess

import pytest
from net_yard import NetYard, openssl, refuses_to_start
from program import PATIENCE, PROGRAM, wait_until
from prometheus_server import Prometheus
from receiver import make_certificate
from schemas import validate


@pytest.fixture
def net(daemon, tmp_path):
    def make(**options):
        return NetYard(daemon, tmp_path, **options)
    return make


def test_tls_init_keeps_key_and_pin_matches_openssl(net):
    yard = net()
    told = json.loads(yard.must("tls", "show", "--state", str(yard.state), "--json"))
    validate(told, "tls")
    assert told["names"] == ["DNS:localhost", "IP:127.0.0.1"]
    public = openssl("x509", "-in", yard.certificate, "-pubkey", "-noout")
    der = openssl("pkey", "-pubin", "-outform", "DER", input=public)
    hashed = openssl("dgst", "-sha256", "-binary", input=der)
    assert told["pin"] == "sha256//" + openssl("base64", "-A", input=hashed).decode()
    assert stat.S_IMODE(yard.key.stat().st_mode) == 0o600
    assert "P-256" in openssl("x509", "-in", yard.certificate, "-text", "-noout").decode()
    before = yard.certificate.read_text()
    again = json.loads(yard.must("tls", "init", "--state", str(yard.state), "--name", "localhost,127.0.0.1",
                                 "--json"))
    assert again["pin"] == told["pin"] and again["fingerprint"] != told["fingerprint"]
    assert yard.certificate.read_text() != before
    yard.wait_until_shown(yard.certificate)


def test_anonymous_client_reads_health_only(net):
    yard = net()
    assert yard.curl("/health")[0] == 200
    for path in ("/metrics", "/api/gpu/snapshot", "/api/gpu/leases", "/api/gpu/tokens"):
        status, body = yard.curl(path)
        assert status == 401 and "Authorization: Bearer" in body or path.endswith("tokens"), (path, body)
    assert yard.curl("/health", trust=False) == (None, 60)
    status, body = yard.curl("/health", "--pinnedpubkey", yard.pin, "-k", trust=False)
    assert status == 200
    assert yard.curl("/health", "--pinnedpubkey", "sha256//" + "A" * 43 + "=")[0] is None
    plain = subprocess.run(["curl", "-sS", f"http://127.0.0.1:{yard.port}/health"], capture_output=True,
                           text=True, timeout=PATIENCE, check=False)
    assert "https://" in plain.stdout


def test_anonymous_metrics_setting_allows_metrics_only(net):
    yard = net(tls='anonymous = "metrics"')
    assert yard.curl("/metrics")[0] == 200
    assert yard.curl("/api/gpu/snapshot")[0] == 401


def test_every_verb_that_reads_reads_over_https(net):
    yard = net()
    yard.make_token("laptop", "--scope", "lease")
    yard.know_host(token="laptop")
    for words in (("devices",), ("watch", "--count", "1"), ("processes",), ("query", "--fields", "name"),
                  ("history",), ("events",), ("driver",), ("energy",), ("doctor",), ("leases",), ("queue",),
                  ("free",), ("usage",), ("alerts",), ("operations",), ("power",)):
        done = yard.go("-H", "dgx1", *words)
        assert done.returncode in (0, 7), (words, done.stdout, done.stderr)
    assert "On https://127.0.0.1" in yard.must("-H", "dgx1", "leases")
    refused = yard.go("-H", "dgx1", "run", "--", "true")
    assert refused.returncode == 2 and "runs its command on this machine" in refused.stderr
    refused = yard.go("-H", "dgx1", "token", "list")
    assert refused.returncode != 0 and "tokens are managed on the machine itself" in refused.stderr


def test_connection_error_names_cause_and_remedy(net):
    yard = net()
    token = yard.make_token("laptop")
    unknown = yard.go("-H", yard.host, "devices")
    assert unknown.returncode != 0 and "certificate" in unknown.stderr, unknown.stderr
    yard.know_host(pin="sha256//" + "A" * 43 + "=", token="laptop")
    wrong_pin = yard.go("-H", "dgx1", "devices")
    assert wrong_pin.returncode != 0 and yard.pin in wrong_pin.stderr, wrong_pin.stderr
    yard.know_host()
    nothing = yard.go("-H", "dgx1", "devices")
    assert nothing.returncode != 0 and "gpuyard token create" in nothing.stderr, nothing.stderr
    mistyped = yard.go("-H", "dgx1", "devices", GPUYARD_TOKEN=token[:-1])
    assert mistyped.returncode == 2 and "part of it is missing" in mistyped.stderr, mistyped.stderr
    assert yard.go("-H", "dgx1", "devices", GPUYARD_TOKEN=token).returncode == 0
    yard.local("token", "revoke", "laptop")
    revoked = yard.go("-H", "dgx1", "devices", GPUYARD_TOKEN=token)
    assert revoked.returncode != 0 and "was revoked at" in revoked.stderr, revoked.stderr
    os.chmod(yard.place / "laptop.token", 0o644)
    yard.know_host(token="laptop")
    open_to_all = yard.go("-H", "dgx1", "devices")
    assert open_to_all.returncode != 0 and "chmod 600" in open_to_all.stderr, open_to_all.stderr


def test_host_added_with_pin_is_reachable_by_name(net):
    yard = net()
    yard.make_token("laptop", "--scope", "read")
    add = ("host", "add", "dgx1", yard.host)
    token = ("--token-file", str(yard.place / "laptop.token"))
    alone = yard.go(*add)
    assert alone.returncode != 0 and yard.pin in alone.stderr and "--pin" in alone.stderr, alone.stderr
    wrong = yard.go(*add, "--pin", "sha256//" + "A" * 43 + "=")
    assert wrong.returncode != 0 and "the connection may be intercepted" in wrong.stderr, wrong.stderr
    assert not (yard.place / "gpuyard" / "hosts.toml").exists()
    yard.must(*add, "--pin", yard.pin, *token)
    assert "GPU" in yard.must("-H", "dgx1", "devices")
    again = yard.go(*add, "--pin", yard.pin)
    assert again.returncode != 0 and "already" in again.stderr, again.stderr
    answered = answer_at_terminal(yard, ("host", "add", "dgx2", yard.host, *token), "y\n")
    assert yard.pin in answered and "Do the pins match?" in answered, answered
    assert "dgx2" in (yard.place / "gpuyard" / "hosts.toml").read_text()


def answer_at_terminal(yard, words, answer):
    """Returns the terminal's output to a person who types `answer`."""
    leader, follower = pty.openpty()
    one = subprocess.Popen([PROGRAM, *words], env=yard.environment, stdin=follower, stdout=follower,
                           stderr=follower, start_new_session=True)
    os.close(follower)
    seen = b""
    os.write(leader, answer.encode())
    try:
        while chunk := os.read(leader, 4096):
            seen += chunk
    except OSError:  # its other end is closed
        pass
    os.close(leader)
    assert one.wait(PATIENCE) == 0, seen
    return seen.decode()


def test_setup_open_to_strangers_does_not_start(tmp_path):
    for text, words in [
            ('[server]\nlisten = ["10.1.2.3:9410"]\n', "FILE:2: server.listen"),
            ('[server]\nlisten = ["127.0.0.1:0"]\ninsecure_read_only = ["10.1.2.3:9410"]\n', "FILE:3:"),
            ('[zeus]\nlisten = ["0.0.0.0:4938"]\n', "FILE:2: zeus.listen"),
            ('[tls]\nlisten = ["nonsense"]\n', "FILE:2: tls.listen"),
            ('[tls]\nclients = ["CN=x = read"]\n', "FILE:2:"),
            ('[tls]\nclients = ["DNS:x = lease"]\n', "uid NUMBER"),
            ('[tls]\nclients = ["DNS:x = read"]\n', "tls.client_ca"),
            ('[tls]\nrevoked = ["abc"]\n', "64"),
            ('[tls]\nanonymous = "lease"\n', 'expected none, metrics or read')]:
        said = refuses_to_start(tmp_path, text)
        assert words in said, (text, said)
    said = refuses_to_start(tmp_path, "", "--listen", "0.0.0.0:0")
    assert "--listen" in said and "tls.listen" in said


def test_address_declared_insecure_is_accepted(tmp_path):
    config = tmp_path / "g.toml"
    config.write_text('[server]\nlisten = ["0.0.0.0:0"]\ninsecure_read_only = ["0.0.0.0:0"]\n')
    done = subprocess.run([PROGRAM, "config", "validate", "--config",
                           str(config)], capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 0, done.stderr


def test_expiring_certificate_and_token_raise_alerts(net, tmp_path):
    """A certificate of six days, a token of ten (the rule concerns those made for four weeks), and then a
    certificate that is invalid."""
    rules = tmp_path / "alerts.toml"
    rules.write_text("".join(f"[rule.{name}]\nhold_s = 0\nclear_hold_s = 0\n{more}\n" for name, more in (
        ("certificate-ends", ""), ("certificate-refused", ""), ("token-ends", "at = 40"))))

    def six_days(yard):
        openssl("req", "-x509", "-key", yard.key, "-days", "6", "-subj", "/CN=dgx1", "-addext",
                "subjectAltName=DNS:localhost,IP:127.0.0.1", "-out", yard.certificate)
    yard = net(more=f'[alerts]\nfile = "{rules}"', before=six_days)
    yard.make_token("soon", "--expires", "10d")
    yard.make_token("later", "--expires", "30d")

    def firing():
        alerts = yard.daemon.get("/api/gpu/alerts", unix=True).json()["alerts"]
        return {one["rule"]: one["message"] for one in alerts}
    wait_until(lambda: {"certificate-ends", "token-ends"} <= firing().keys(), "both alerts")
    assert "in 6 days" in firing()["certificate-ends"] and "in 30 days" in firing()["token-ends"]
    assert "certificate-refused" not in firing()
    yard.certificate.write_text("no certificate")
    wait_until(lambda: "certificate-refused" in firing(), "the alert about the broken one")


def test_new_certificate_is_served_and_mismatched_one_ignored(net):
    yard = net()
    token = yard.make_token("t", "--scope", "metrics")
    own = yard.place / "own"
    own.mkdir()
    certificate, key = make_certificate(own)
    good = yard.certificate.read_text()
    key.chmod(0o600)
    for path, new in ((yard.certificate, certificate), (yard.key, key)):
        os.replace(new, path)
    yard.wait_until_shown(yard.certificate)
    served = yard.shown()
    yard.certificate.write_text(good)  # of another key
    wait_until(lambda: "stays in use: " in yard.daemon.log(), "the complaint")
    assert yard.shown() == served
    trouble = yard.daemon.get("/ready", unix=True).json()["notes"]
    assert len(trouble) == 1 and "key" in trouble[0]
    yard.daemon.wait_for_readings(1)
    metrics = yard.curl("/metrics", "-k", token=token)[1]
    assert "gpuyard_tls_certificate_expiry_timestamp_seconds" in metrics
    failures = [line for line in metrics.splitlines() if "reload_failures_total " in line and line[0] != "#"]
    assert float(failures[0].split()[1]) >= 1
    yard.daemon.process.send_signal(signal.SIGHUP)
    assert yard.curl("/health", "-k")[0] == 200


def test_client_certificates_are_matched_by_san(net):
    def ca(yard):
        make = yard.place
        openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
                "-subj", "/CN=lab", "-out", make / "ca.pem", "-keyout", make / "ca.key")
        for name, san in (("prom", "DNS:prometheus.lab"), ("ci", "URI:spiffe://lab/ci"), ("x", "DNS:stranger"),
                          ("gone", "DNS:prometheus.lab")):
            openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj",
                    "/CN=prometheus.lab", "-addext", f"subjectAltName={san}", "-out", make / f"{name}.csr",
                    "-keyout", make / f"{name}.key")
            openssl("x509", "-req", "-in", make / f"{name}.csr", "-CA", make / "ca.pem", "-CAkey", make / "ca.key",
                    "-CAcreateserial", "-days", "1", "-copy_extensions", "copy", "-out", make / f"{name}.pem")
        fingerprint = openssl("x509", "-in", make / "gone.pem", "-noout", "-fingerprint", "-sha256").decode()
        yard.config.write_text(
            f'[tls]\nlisten = ["127.0.0.1:0"]\nclient_ca = "{make}/ca.pem"\n'
            f'clients = ["DNS:prometheus.lab = metrics", "URI:spiffe://lab/ci = lease uid 1234"]\n'
            f'revoked = ["{fingerprint.split("=")[1].strip()}"]\n')
    yard = net(before=ca)

    def ask(who, path, *more):
        return yard.curl(path, "--cert", f"{yard.place}/{who}.pem", "--key", f"{yard.place}/{who}.key", *more)
    assert ask("prom", "/metrics")[0] == 200
    assert ask("prom", "/api/gpu/snapshot")[0] == 403
    status, body = ask("x", "/health")
    assert status == 403 and "DNS:stranger" in body
    status, body = ask("gone", "/metrics")
    assert status == 403 and "tls.revoked" in body
    wish = json.dumps({"binding": "detached", "ttl_s": 60})
    json_type = ("-H", "Content-Type: application/json")
    status, body = ask("ci", "/api/gpu/leases", "-d", wish, *json_type)
    assert status == 200 and json.loads(body)["lease"]["uid"] == 1234, body
    assert ask("ci", "/api/gpu/leases", "-d", wish)[0] == 403  # as a form of another page would be sent
    assert ask("ci", "/api/gpu/leases", "-d", wish, *json_type, "-H", "Origin: https://evil.example")[0] == 403
    assert ask("ci", "/api/gpu/leases", "-d", wish, *json_type, "-H", "Sec-Fetch-Site: cross-site")[0] == 403
    assert yard.curl("/metrics")[0] == 401


def test_recipe_a_prometheus_elsewhere_scrapes_with_a_token(net, tmp_path):
    yard = net()
    yard.make_token("prometheus", "--scope", "metrics", "--expires", "365d")
    folder = tmp_path / "prometheus"
    folder.mkdir()
    prometheus = Prometheus(folder)
    prometheus.start_with({"scheme": "https", "tls_config": {"ca_file": str(yard.certificate)},
                           "authorization": {"credentials_file": f"{yard.place}/prometheus.token"}},
                          f"127.0.0.1:{yard.port}")
    try:
        wait_until(lambda: [one for one in prometheus.query('up{job="gpuyard"}') if one["value"][1] == "1"],
                   "Prometheus to scrape")
        assert prometheus.query("gpuyard_gpu_info")
    finally:
        prometheus.stop()


def test_recipe_ci_leases_gpu_with_scoped_token(net):
    yard = net()
    token = yard.make_token("ci", "--scope", "lease", "--gpu", "1", "--expires", "30d")
    status, body = yard.curl("/api/gpu/leases", "--json",
                             json.dumps({"gpus": 1, "binding": "detached", "ttl_s": 3600, "note": "build 17"}),
                             token=token)
    assert status == 200, body
    lease = json.loads(body)["lease"]
    assert [gpu["index"] for gpu in lease["gpus"]] == [1]
    assert yard.curl(f"/api/gpu/leases/{lease['id']}", "-X", "DELETE", token=token)[0] == 200
    audited = yard.local("audit")
    assert "create token" in audited
