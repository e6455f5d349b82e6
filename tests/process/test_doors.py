"""A listener, a certificate or a sink that cannot be used is closed alone: all else works, an alert and the
notes name the cause, and it opens without a restart once the cause is removed. Also which causes end the start,
and the revocation of a client certificate on open connections."""

import contextlib
import datetime
import http.client
import json
import os
import re
import resource
import signal
import socket
import ssl
import subprocess
import threading
import time

import pytest
from alerts_yard import brake, webhook
from control_client import Caller as User, connect
from net_yard import NetYard, openssl
from program import PATIENCE, PROGRAM, Caller, clean_environment, free_port, read_until, wait_until
from receiver import Receiver, secret_file

AT_ONCE = "".join(f"[rule.{name}]\nhold_s = 0\nclear_hold_s = 0\n"
                  for name in ("certificate-refused", "listener-closed"))


def can_connect(port):
    with contextlib.closing(socket.socket()) as one:
        return one.connect_ex(("127.0.0.1", port)) == 0


class Yard(Caller):
    """A daemon whose listeners or certificate a test breaks."""

    def __init__(self, daemon, place):
        self.start_daemon = daemon
        self.place = place
        self.state = place / "state"
        self.environment = clean_environment(place)
        self.port = free_port()
        self.tls = self.state / "tls"
        self.must("tls", "init", "--state", str(self.state), "--name", "localhost,127.0.0.1")
        (place / "alerts.toml").write_text(AT_ONCE)
        self.configure(f'[tls]\nlisten = ["127.0.0.1:{self.port}"]\n')

    def configure(self, text):
        (self.place / "gpuyard.toml").write_text(f'[alerts]\nfile = "{self.place}/alerts.toml"\n{text}')

    def start(self):
        self.daemon = self.start_daemon("--simulate", "2", "--config", str(self.place / "gpuyard.toml"),
                                        directory=self.place)
        self.environment["GPUYARD_SOCKET"] = self.daemon.socket
        return self

    def firing(self):
        return {one["rule"] for one in self.daemon.get("/api/gpu/alerts", unix=True).json()["alerts"]}

    def notes(self):
        return self.daemon.get("/ready", unix=True).json()["notes"]

    def works(self):
        """A lease can be granted and released."""
        lease = wait_until(lambda: self.claimed(), "a lease")
        self.must("lease", "release", lease)

    def claimed(self):
        done = self.go("lease", "take", "--for", "1m", "--json")
        return json.loads(done.stdout)["lease"]["id"] if done.returncode == 0 else None

    def is_shut(self, rule, words):
        self.works()
        wait_until(lambda: rule in self.firing(), f"the alert {rule}")
        notes = self.notes()
        assert len(notes) == 1 and words in notes[0], notes
        assert words in self.go("doctor").stdout

    def is_mended(self, rule):
        wait_until(lambda: not self.notes(), lambda: f"an end of the notes: {self.notes()}")
        wait_until(lambda: rule not in self.firing(), f"the end of the alert {rule}")
        self.works()


@pytest.fixture
def yard(daemon, tmp_path):
    return Yard(daemon, tmp_path)


def dated(place, key, out, begins, ends, signer=None):
    """Creates a certificate for this machine, valid from `begins` to `ends` in seconds from now; self-signed, or
    signed by `signer`.pem."""
    folder = place / f"ca-{out.name}"
    (folder / "new").mkdir(parents=True)
    (folder / "index.txt").touch()
    (folder / "ca.cnf").write_text(
        f"[ca]\ndefault_ca = one\n[one]\ndatabase = {folder}/index.txt\nrand_serial = yes\n"
        f"new_certs_dir = {folder}/new\ndefault_md = sha256\npolicy = any\ncopy_extensions = copy\n"
        "unique_subject = no\n[any]\ncommonName = supplied\n")
    openssl("req", "-new", "-key", key, "-subj", "/CN=dgx1", "-addext",
            "subjectAltName=DNS:localhost,IP:127.0.0.1", "-out", folder / "one.csr")

    def moment(seconds):
        at = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=seconds)
        return at.strftime("%Y%m%d%H%M%SZ")
    how = (["-cert", f"{signer}.pem", "-keyfile", f"{signer}.key"] if signer else
           ["-selfsign", "-keyfile", key])
    openssl("ca", "-batch", "-config", folder / "ca.cnf", "-in", folder / "one.csr", "-out", out, "-notext",
            "-startdate", moment(begins), "-enddate", moment(ends), *how)


DAY = 86_400


def test_a_missing_certificate_closes_tls_alone(yard):
    aside = (yard.tls / "certificate.pem").rename(yard.place / "aside.pem")
    yard.start()
    assert not can_connect(yard.port)
    yard.is_shut("certificate-refused", "No such file")
    assert "gpuyard_tls_certificate_refused 1" in yard.daemon.get("/metrics", unix=True).text
    aside.rename(yard.tls / "certificate.pem")
    wait_until(lambda: can_connect(yard.port), "TLS")
    yard.is_mended("certificate-refused")
    served = ssl.get_server_certificate(("127.0.0.1", yard.port))
    assert "".join(served.split()) == "".join((yard.tls / "certificate.pem").read_text().split())
    metrics = yard.daemon.get("/metrics", unix=True).text
    assert "gpuyard_tls_certificate_refused 0" in metrics
    assert f"listening on https://127.0.0.1:{yard.port}" in yard.daemon.log()


def test_taken_address_is_opened_when_free(yard):
    with contextlib.closing(socket.socket()) as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        taken = other.getsockname()[1]
        yard.configure(f'[tls]\nlisten = ["127.0.0.1:{yard.port}"]\n[zeus]\nlisten = ["127.0.0.1:{taken}"]\n')
        yard.start()
        yard.is_shut("listener-closed", f"zeus.listen 127.0.0.1:{taken} is closed")
        assert can_connect(yard.port), "the other listener is open"
    wait_until(lambda: can_connect(taken), "the address")
    yard.is_mended("listener-closed")


def test_a_taken_main_listener_ends_the_start(tmp_path):
    with contextlib.closing(socket.socket()) as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        done = subprocess.run([PROGRAM, "serve", "--listen", f"127.0.0.1:{other.getsockname()[1]}", "--state",
                               str(tmp_path / "state"), "--socket", str(tmp_path / "g.sock")],
                              env=clean_environment(tmp_path), capture_output=True, text=True, timeout=PATIENCE,
                              check=False)
    assert done.returncode == 7 and "in use by another program" in done.stderr, done.stderr


def test_a_sink_with_a_bad_file_waits_alone(alerts_yard, opened, tmp_path):
    desk, pager = opened(Receiver()), opened(Receiver())
    key = tmp_path / "routing"
    rules = (brake("brake") + "[rule.sink-failing]\nat = 1\n" + webhook("desk", desk) +
             f'[sink.pager]\nkind = "pagerduty"\nurl = "{pager.url("/v2/enqueue")}"\n'
             f'routing_key_file = "{key}"\n')
    yard = alerts_yard(rules)
    assert f"sink.pager.routing_key_file: opening {key}: No such file" in yard.log()
    yard.fire(0, "brake")
    wait_until(lambda: yard.firing("sink-failing"), "the alert about the sink")
    wait_until(lambda: {one.json()["rule"] for one in desk.taken()} == {"brake", "sink-failing"},
               "both alerts at the open sink")
    assert "routing_key_file" in yard.sink("pager")["last_error"] and not pager.told
    for words, closed in ((("alerts", "sinks"), "pager is closed: "), (("doctor",), "alert sink pager is closed: ")):
        assert closed + f"{yard.file}:" in yard.go(*words).stdout
    checked = yard.go("config", "validate", "--config", str(yard.config))
    assert checked.returncode == 2 and str(key) in checked.stderr
    # A reload changes the rest of the file.
    assert "configuration reloaded: " in yard.reload(rules + "[rule.memory]\nenabled = false\n")
    key.write_text("R0UTINGKEY")
    key.chmod(0o644)
    wait_until(lambda: "chmod o-rwx" in yard.sink("pager")["last_error"], "the new cause")
    key.chmod(0o600)
    wait_until(lambda: pager.taken(), "the notification that waited for the sink")
    assert pager.taken()[0].json()["routing_key"] == "R0UTINGKEY"
    wait_until(lambda: not yard.firing("sink-failing"), "its end")


def test_a_reload_closes_no_open_sink(alerts_yard, opened, tmp_path):
    desk = opened(Receiver())
    key = secret_file(tmp_path, "key", "s3cret")
    yard = alerts_yard(brake("brake") + webhook("desk", desk, f'secret_file = "{key}"'))
    os.chmod(key, 0o644)
    assert "configuration not reloaded" in yard.reload()
    yard.fire(0, "brake")
    wait_until(lambda: desk.taken(), "the alert")


class Certified:
    """An open connection with a client certificate."""

    def __init__(self, yard, name):
        context = ssl.create_default_context(cafile=yard.certificate)
        context.load_cert_chain(f"{yard.place}/{name}.pem", f"{yard.place}/{name}.key")
        self.connection = http.client.HTTPSConnection("127.0.0.1", yard.port, context=context, timeout=PATIENCE)

    def get(self, path):
        self.connection.request("GET", path)
        answer = self.connection.getresponse()
        return answer.status, answer.read().decode()

    def stream(self):
        """Reads events until the server ends them; returns the thread that does."""
        self.connection.request("GET", "/api/gpu/events")
        answer = self.connection.getresponse()
        assert answer.status == 200

        def read():
            with contextlib.suppress(http.client.IncompleteRead):
                answer.read()
        reader = threading.Thread(target=read, daemon=True)
        reader.start()
        return reader


@pytest.fixture
def clients(daemon, tmp_path):
    """A daemon that accepts client certificates for "localhost"; certify(name, seconds) creates one."""
    def ca(yard):
        openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
                "-subj", "/CN=lab", "-out", tmp_path / "ca.pem", "-keyout", tmp_path / "ca.key")
    yard = NetYard(daemon, tmp_path, before=ca,
                   tls=f'client_ca = "{tmp_path}/ca.pem"\nclients = ["DNS:localhost = read"]')

    def make(name, seconds):
        openssl("genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256", "-out",
                tmp_path / f"{name}.key")
        dated(tmp_path, tmp_path / f"{name}.key", tmp_path / f"{name}.pem", -DAY, seconds,
              signer=tmp_path / "ca")
    yard.certify = make
    return yard


def test_a_resumed_session_does_not_outlive_its_certificate(clients):
    clients.certify("short", 5)
    context = ssl.create_default_context(cafile=clients.certificate)
    context.maximum_version = ssl.TLSVersion.TLSv1_2  # whose ticket comes with the handshake
    context.load_cert_chain(f"{clients.place}/short.pem", f"{clients.place}/short.key")

    def connect(session=None):
        plain = socket.create_connection(("127.0.0.1", clients.port), PATIENCE)
        return context.wrap_socket(plain, server_hostname="localhost", session=session)

    def answers(one):
        with contextlib.suppress(OSError):
            one.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            return one.recv(4096).startswith(b"HTTP/1.1 200")
        return False
    with connect() as first:
        session = first.session
    with connect(session) as again:
        assert again.session_reused and answers(again)

    def is_refused():
        try:
            with connect(session) as late:
                return not answers(late)
        except OSError:
            return True
    wait_until(is_refused, "the end of the certificate", every=0.2)
    clients.certify("long", DAY)
    assert Certified(clients, "long").get("/health")[0] == 200, "only the expired certificate is refused"


def test_a_certificate_is_revoked_by_sighup(clients):
    clients.certify("long", DAY)
    asking, listening = Certified(clients, "long"), Certified(clients, "long")
    assert asking.get("/api/gpu/snapshot")[0] == 200
    reader = listening.stream()
    fingerprint = openssl("x509", "-in", clients.place / "long.pem", "-noout", "-fingerprint", "-sha256").decode()
    text = clients.config.read_text()
    clients.config.write_text(text + f'revoked = ["{fingerprint.split("=")[1].strip()}"]\n')
    clients.daemon.process.send_signal(signal.SIGHUP)
    status, body = wait_until(lambda: (lambda got: got[0] != 200 and got)(asking.get("/api/gpu/snapshot")),
                              "the revocation")
    assert status == 403 and "tls.revoked" in body
    reader.join(5)
    assert not reader.is_alive(), "its stream goes on"
    assert "takes effect when the daemon restarts" not in clients.daemon.log()
    clients.config.write_text(text)
    clients.daemon.process.send_signal(signal.SIGHUP)
    wait_until(lambda: asking.get("/api/gpu/snapshot")[0] == 200, "the end of the revocation")


def start_with(tmp_path, descriptors):
    return subprocess.Popen(
        [PROGRAM, "serve", "--listen", "127.0.0.1:0", "--socket", str(tmp_path / "g.sock"), "--state",
         str(tmp_path / "state"), "--simulate", "1", "--load", "idle"], env=clean_environment(tmp_path),
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors, descriptors)))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")
def test_crowd_cannot_keep_root_out_with_fewest_descriptors(open_place):
    one = start_with(open_place, 64)
    root, crowd = None, []
    try:
        path = str(open_place / "g.sock")
        wait_until(lambda: os.path.exists(path), "the socket")
        log = read_until(one.stderr, "listening on http://")
        port = int(re.search(r"listening on http://127\.0\.0\.1:(\d+)\n", log).group(1))
        for _ in range(100):  # at all listeners at the same time
            crowd += [connect(path, 61101), connect(str(open_place / "g.lease.sock"), 61101),
                      socket.create_connection(("127.0.0.1", port), PATIENCE, ("127.0.0.9", 0))]
        time.sleep(1)
        began = time.monotonic()
        root = User(path)
        assert root.ask("GET", "/api/gpu/load").status == 200
        assert time.monotonic() - began < 3
    finally:
        for client in crowd + [root] * (root is not None):
            client.close()
        one.terminate()
        one.communicate(timeout=PATIENCE)


def test_too_few_descriptors_end_the_start(tmp_path):
    one = start_with(tmp_path, 63)
    message = one.communicate(timeout=PATIENCE)[1]
    assert one.returncode == 2, message
    assert "LimitNOFILE" in message and "ulimit -n" in message
