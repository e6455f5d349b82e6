"""The pod of the chart, run on simulated GPUs as its manifest says: users, capabilities, folders, probes."""

import contextlib
import sys
from pathlib import Path

from common import CHARTS, documents, env_of, rendered, run, tool
from pod import Container, Pod

# Asks an address, with the file of who signed the server's certificate and that of a client's, or empty ones.
ASK = """
import ssl, sys, urllib.request, urllib.error
address, authority, key, client = sys.argv[1:]
context = ssl.create_default_context(cafile=authority) if authority else ssl._create_unverified_context()
if client:
    context.load_cert_chain(client, key)
try:
    with urllib.request.urlopen(address, context=context, timeout=10) as answer:
        print(answer.status, answer.read(2000).decode())
except urllib.error.HTTPError as refused:
    print(refused.code)
"""


def ask(network, path, authority="", key="", client=""):
    done = run("nsenter", f"--net=/proc/{network}/ns/net", sys.executable, "-c", ASK,
               f"https://127.0.0.1:9411{path}", authority, key, client)
    return done.stdout


@contextlib.contextmanager
def running_pod(image, place, network, *settings, secrets=None, before=None):
    _, config, root = image
    pod = Pod(documents(rendered("--set", "simulate=2", *settings)), root, place, network, secrets)
    if before:
        before(pod)
    pod.start_init_containers(env_of(config))
    one = pod.spec["containers"][0]
    made, words = pod.container(env_of(config), one)
    with made.running(*words, answers=one["startupProbe"]["exec"]["command"], log=place / "log") as daemon:
        for probe in ("livenessProbe", "readinessProbe"):
            made.wait_until(one[probe]["exec"]["command"])
        yield pod, made, daemon


def capabilities(daemon):
    status = Path(f"/proc/{daemon.pid}/status").read_text(encoding="utf-8")
    return int(status.split("CapEff:\t")[1].split()[0], 16)


def test_pod_without_capabilities_exposes_only_metrics(image, tmp_path, network):
    with running_pod(image, tmp_path, network) as (pod, made, daemon):
        assert capabilities(daemon) == 0
        assert made.run("gpuyard", "devices").stdout.count("H100") == 2
        assert "gpuyard_build_info" in ask(network, "/metrics")
        assert ask(network, "/ready").startswith("200")
        assert ask(network, "/api/gpu/devices").startswith("401")


def test_neighbour_pod_can_lease_but_not_set(image, tmp_path, network):
    control = ("--set", "control.enabled=true")
    with running_pod(image, tmp_path, network, *control) as (pod, made, _):
        def neighbour(**more):
            return Container(image[2], user=0, mounts=[(pod.source("run") / "lease", "/run/gpuyard", True)],
                             env=env_of(image[1]) | {"GPUYARD_SOCKET": "/run/gpuyard/lease.sock"}, **more)

        # `run` tells the number of the command's process, which means nothing outside its pod.
        run_verb = ("gpuyard", "run", "-n", "1", "--", "sh", "-c", "echo $CUDA_VISIBLE_DEVICES")
        assert "not found" in neighbour().run(*run_verb, check=False).stderr
        assert neighbour(host_pid=True).run(*run_verb).stdout.startswith("GPU-")
        neighbour().run("gpuyard", "lease", "take", "-n", "1", "--for", "1h")
        assert "root" in made.run("gpuyard", "leases").stdout
        assert neighbour().run("gpuyard", "power", "0", "300", "--yes", check=False).returncode == 4


def test_second_daemon_on_node_is_refused(image, tmp_path, network):
    with running_pod(image, tmp_path, network) as (pod, _, _):
        again, words = pod.container(env_of(image[1]), pod.spec["initContainers"][0])
        refused = again.run(*words, check=False)
        assert refused.returncode == 1 and "another gpuyard is already running on /run/gpuyard" in refused.stderr


def test_control_toggle_keeps_state_and_adds_sys_admin(image, tmp_path, network):
    sys_admin = 1 << 21
    with running_pod(image, tmp_path, network) as (_, made, _):
        made.run("gpuyard", "token", "create", "kept")
        refused = made.run("gpuyard", "power", "0", "300", "--yes", check=False)
        assert refused.returncode == 4, refused.stdout + refused.stderr
    with running_pod(image, tmp_path, network, "--set", "control.enabled=true") as (_, made, daemon):
        assert capabilities(daemon) == sys_admin
        made.run("gpuyard", "power", "0", "300", "--yes")
        assert "kept" in made.run("gpuyard", "token", "list").stdout
    with running_pod(image, tmp_path, network) as (_, made, daemon):
        assert capabilities(daemon) == 0
        assert "kept" in made.run("gpuyard", "token", "list").stdout


def certificate(place, name):
    """A secret of the type kubernetes.io/tls, with a certificate that is its own authority."""
    run("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "30",
        "-subj", f"/CN={name}", "-addext", f"subjectAltName=IP:127.0.0.1,DNS:{name}",
        "-keyout", place / "key", "-out", place / "crt")
    crt = (place / "crt").read_text(encoding="utf-8")
    return {"tls.key": (place / "key").read_text(encoding="utf-8"), "tls.crt": crt, "ca.crt": crt}


def served(network):
    return run("nsenter", f"--net=/proc/{network}/ns/net", sys.executable, "-c",
               "import ssl; print(ssl.get_server_certificate(('127.0.0.1', 9411)))").stdout.strip()


def test_renewed_certificate_is_served_without_restart(image, tmp_path, network):
    tool("openssl")
    first, second = certificate(tmp_path, "first"), certificate(tmp_path, "second")
    settings = ("--set", "tls.secretName=gpuyard-tls")
    with running_pod(image, tmp_path, network, *settings, secrets={"gpuyard-tls": first}) as (pod, made, daemon):
        (tmp_path / "ca").write_text(first["ca.crt"], encoding="utf-8")
        assert "gpuyard_build_info" in ask(network, "/metrics", tmp_path / "ca")
        assert served(network) == first["tls.crt"].strip()
        pod.write_secret("tls", second)
        for _ in range(50):
            if served(network) == second["tls.crt"].strip():
                break
            made.run("sleep", "0.1")
        assert served(network) == second["tls.crt"].strip(), (tmp_path / "log").read_text(encoding="utf-8")
        assert daemon.poll() is None


def test_client_certificate_allows_metrics_only(image, tmp_path, network):
    tool("openssl")
    secret = certificate(tmp_path, "prometheus.monitoring.svc")
    with running_pod(image, tmp_path, network, *CHARTS["secret"], secrets={"gpuyard-tls": secret}):
        authority = tmp_path / "crt"
        assert ask(network, "/metrics", authority).startswith("401")
        assert "gpuyard_build_info" in ask(network, "/metrics", authority, tmp_path / "key", authority)
        assert ask(network, "/api/gpu/devices", authority, tmp_path / "key", authority).startswith("403")


# A ConfigMap's folder is world-writable and refused, so the chart mounts each configuration file by itself.
def test_world_writable_configuration_folder_is_refused(image, tmp_path, network):
    """If this fails, the daemon takes a ConfigMap's folder by now, and the chart can mount it whole."""
    pod = Pod(documents(rendered("--set", "control.enabled=true")), image[2], tmp_path, network)
    made = Container(image[2], user=0, mounts=[(pod.source("config"), "/etc/gpuyard", True)], env=env_of(image[1]))
    refused = made.run("gpuyard", "config", "validate", check=False)
    assert refused.returncode == 2 and "mode 0777" in refused.stderr, refused.stdout + refused.stderr
