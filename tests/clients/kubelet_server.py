"""A kubelet's PodResources server on Kubernetes' own stubs (kubelet/main.go), which tools/clients_kubelet.sh builds."""

import json
import subprocess
from contextlib import contextmanager
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SERVER = ROOT / "build" / "clients" / "kubelet" / "server"


def build():
    """Builds the server, or skips the test where that is not possible."""
    done = subprocess.run([ROOT / "tools" / "clients_kubelet.sh"], capture_output=True, text=True, check=False)
    if done.returncode == 3:
        pytest.skip(done.stderr.strip())
    assert done.returncode == 0, done.stderr


@contextmanager
def kubelet(directory, scenario):
    """A server's socket."""
    socket = directory / "kubelet.sock"
    with subprocess.Popen([SERVER, socket, scenario], stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout.readline() == "ready\n"
            yield socket
        finally:
            server.kill()


class ListedPods:
    """The pods that a server lists, in a file that is its scenario."""

    def __init__(self, directory):
        self.file = directory / "pods.json"
        self.put()

    def put(self, *pods):
        """Each is made by pod()."""
        new = self.file.with_suffix(".new")
        new.write_text(json.dumps(pods), encoding="utf-8")
        new.replace(self.file)


def pod(namespace, name, devices=(), claims=()):
    """`devices`: ids of a device plugin; `claims`: (driver, pool, device)."""
    return {"namespace": namespace, "name": name, "devices": list(devices),
            "claims": [dict(zip(("driver", "pool", "device"), one, strict=True)) for one in claims]}
