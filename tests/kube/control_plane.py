"""The real control plane of Kubernetes for tests: etcd, kube-apiserver and, if wanted, kube-scheduler and
kube-controller-manager, on free ports of the loopback.

    with ControlPlane() as cluster:
        cluster.make_device_class()
        cluster.make_node("n1")
        cluster.put_devices("n1", ["GPU-a", "GPU-b"])
        cluster.make_pod("training", gpus=1)
        cluster.wait_for_devices("training")
        with cluster.api_server.hanging():
            ...

Each part is a Service: kill(), stop(), start(), and killed(), away() and hanging() for the time of a
`with`. The API server keeps its port and its certificate. Nothing is left of it, not even if this process is
killed.
"""

import base64
import http.client
import json
import os
import re
import secrets
import ssl
import subprocess
import sys
from pathlib import Path

import pytest

from program import free_port, wait_until

TESTS = Path(__file__).resolve().parents[1]
sys.path += [str(TESTS / "slurm"), str(TESTS / "fleet")]
from audit_log import POLICY, AuditLog  # noqa: E402
from cluster_objects import ClusterObjects, kubeconfig  # noqa: E402
from kube_api import Api  # noqa: E402
from place import Place  # noqa: E402
from service import Service  # noqa: E402

BUILT = TESTS.parent / "tools/kube_control_plane.sh"
ENVIRONMENT = {"PATH": os.environ["PATH"], "TZ": "UTC"}
USERS = {"administrator": "system:masters", "system:kube-scheduler": "", "system:kube-controller-manager": ""}
CERTIFICATE = re.compile("-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----\n", re.DOTALL)


def programs():
    """Returns the folder of the four programs. Skips a test where they are not built."""
    done = subprocess.run([BUILT], capture_output=True, text=True, check=False)
    if done.returncode == 3:
        pytest.skip(done.stderr)
    assert done.returncode == 0, done.stderr
    return Path(done.stdout.strip())


def is_healthy(port):
    """Whether a part that only this test can reach says so; it has made its certificate itself."""
    connection = http.client.HTTPSConnection("127.0.0.1", port, timeout=2,
                                             context=ssl._create_unverified_context())
    try:
        connection.request("GET", "/healthz")
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


class ControlPlane(ClusterObjects):
    """`etcd` and `api_server`, and with `scheduling` also `scheduler` and `controllers`: Services. `api` makes
    requests as the administrator, `audit` is the log of all writes. `flags` are more of the API server's: {"v": 4}."""

    def __init__(self, scheduling=True, flags=None):
        self._programs = programs()
        self._tokens = {user: secrets.token_hex(16) for user in USERS}
        self.place = Place()
        try:
            self._start_etcd()
            self._start_api_server(flags)
            if scheduling:
                self._start_scheduling()
        except BaseException:
            self.end()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end()

    def end(self):
        self.place.close()

    def kubeconfig(self, token, name="kubeconfig"):
        """Writes one for the owner of the token; returns its path."""
        ca = base64.b64encode(self.api.ca_pem.encode()).decode()
        return self.place.write(name, kubeconfig(self.api.url, ca, token))

    # The parts.

    def _service(self, name, flags, ready):
        words = (str(self._programs / name), *(f"--{flag}={value}" for flag, value in flags.items()))
        return Service(self.place, "the control plane", f"{name}.log", words, ready, ENVIRONMENT)

    def _start_etcd(self):
        self._store = f"http://127.0.0.1:{free_port()}"
        peers = f"http://127.0.0.1:{free_port()}"

        def answers():
            connection = http.client.HTTPConnection(self._store.removeprefix("http://"), timeout=2)
            try:
                connection.request("GET", "/health")
                return connection.getresponse().status == 200
            except OSError:
                return False
            finally:
                connection.close()

        self.etcd = self._service("etcd", {
            "name": "only", "data-dir": "etcd", "log-level": "warn",
            "unsafe-no-fsync": "true",  # it need not outlive a crash of the machine
            "listen-client-urls": self._store, "advertise-client-urls": self._store,
            "listen-peer-urls": peers, "initial-advertise-peer-urls": peers, "initial-cluster": f"only={peers}",
        }, answers)
        self.etcd.start()

    def _start_api_server(self, more):
        key = self.place.write("accounts.key", "")
        subprocess.run(["openssl", "ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", key], check=True)
        port = free_port()
        self.api = None
        self.audit = AuditLog(self.place.outside("audit.log"))
        flags = {
            "etcd-servers": self._store, "bind-address": "127.0.0.1", "secure-port": port,
            # Else it looks for another address of this machine.
            "advertise-address": "127.0.0.1", "service-cluster-ip-range": "10.0.0.0/24",
            "cert-dir": self.place.outside("certificates"), "endpoint-reconciler-type": "none",
            "service-account-key-file": key, "service-account-signing-key-file": key,
            "service-account-issuer": "https://kubernetes.default.svc", "authorization-mode": "RBAC",
            "token-auth-file": self.place.write("tokens.csv", "".join(
                f'{self._tokens[user]},{user},{user},"{group}"\n' for user, group in USERS.items())),
            # Without the controller that makes accounts, a Pod would have to wait for one.
            "disable-admission-plugins": "ServiceAccount",
            # Else SIGTERM takes a minute, which is how long it lets clients watch.
            "shutdown-send-retry-after": "true",
            "audit-policy-file": self.place.write("audit.json", json.dumps(POLICY)),
            "audit-log-path": self.place.outside("audit.log"),
        } | (more or {})

        def answers():
            if not self.api:
                self.api = self._administrator(port)
            return self.api and self.api.is_ready()

        self.api_server = self._service("kube-apiserver", flags, answers)
        self.api_server.start()
        # It makes this one a moment after it is ready.
        wait_until(lambda: self.api.request("GET", "/api/v1/namespaces/default").status == 200,
                   "the default namespace")

    def _start_scheduling(self):
        self.scheduler = self._client("kube-scheduler", {})
        self.controllers = self._client("kube-controller-manager", {
            "service-account-private-key-file": self.place.outside("accounts.key"),
            "use-service-account-credentials": "true",  # else most controllers may not do their work
            # No kubelet says that a node lives. It stays as ready as the test has written it.
            "node-monitor-grace-period": "24h", "node-startup-grace-period": "24h"})
        for one in (self.scheduler, self.controllers):
            one.begin()
        for one in (self.scheduler, self.controllers):
            one.wait()

    def _client(self, name, flags):
        port = free_port()
        file = self.kubeconfig(self._tokens[f"system:{name}"], f"{name}.json")
        return self._service(name, {
            "kubeconfig": file, "authentication-kubeconfig": file, "authorization-kubeconfig": file,
            "bind-address": "127.0.0.1", "secure-port": port, "cert-dir": self.place.outside("certificates"),
            "leader-elect": "false"} | flags, lambda: is_healthy(port))

    def _administrator(self, port):
        """None until the server has made its certificate: the last in the file is the CA's."""
        file = self.place.outside("certificates/apiserver.crt")
        found = CERTIFICATE.findall(file.read_text(encoding="ascii")) if file.exists() else []
        return Api(f"https://127.0.0.1:{port}", found[-1], self._tokens["administrator"]) if found else None
