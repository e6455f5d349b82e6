"""io/kubelet against a server on Kubernetes' own stubs (kubelet/main.go): what a kubelet answers and
refuses, as grpc-go and its protobuf send it.
"""

import os
import subprocess
import time

import pytest

from kubelet_server import ROOT, kubelet
from proofs import record

DRIVER = os.environ.get("GPUYARD_KUBELET_DRIVER", ROOT / "build/release/src/io/kubelet/kubelet_driver")
UUID = "GPU-0b4a1f2e-93c6-4d02-8a8f-e1cbf99717f"


def call(socket, name, status=0, seconds=20):
    """The lines that the driver prints."""
    done = subprocess.run([DRIVER, socket, name, str(seconds)], stdout=subprocess.PIPE, text=True, timeout=60, check=False)
    assert done.returncode == status, done.stdout
    return done.stdout.splitlines()


def test_pods_of_a_node_are_listed(tmp_path):
    with kubelet(tmp_path, "node") as socket:
        assert call(socket, "pods") == [
            "pod gpuyard/agent",
            "pod ml/plugin",
            f"device main nvidia.com/gpu {UUID}0 whole",
            f"device main nvidia.com/gpu {UUID}1 whole",
            "pod ml/dra",
            "claim main ml/two-gpus gpu.nvidia.com/n1/gpu-0 whole",
            "claim main ml/two-gpus gpu.nvidia.com/n1/gpu-1 shared",
            "pod ml/shared",
            f"device main nvidia.com/gpu.shared {UUID}2::0 shared",
            f"device main nvidia.com/gpu.shared {UUID}3-4 shared",
            "device main nvidia.com/gpu.shared MIG-1 shared",
            "pod ml/vm",
        ]
        assert call(socket, "allocatable") == [
            f"device nvidia.com/gpu {UUID}0 whole",
            f"device nvidia.com/gpu {UUID}2::0 shared",
        ]
    record("kubelet", "ran")


def test_full_node_is_listed(tmp_path):
    with kubelet(tmp_path, "full") as socket:
        lines = call(socket, "pods")
    assert sum(line.startswith("pod ") for line in lines) == 110
    assert sum(line.startswith("device ") for line in lines) == 880


def test_empty_node_has_no_pods(tmp_path):
    with kubelet(tmp_path, "empty") as socket:
        assert call(socket, "pods") == []


def test_list_of_15_mib_is_read(tmp_path):
    with kubelet(tmp_path, "long") as socket:
        assert call(socket, "pods") == [f"pod ml/long-{i}" for i in range(15)]


@pytest.mark.parametrize("scenario, name, error", [
    ("too-long", "pods", "internal: listing pods at {}: the response is too large: "),
    ("busy", "pods", "busy: listing pods at {}: refused with RESOURCE_EXHAUSTED (8): rejected by rate limit: 100 %"),
    ("empty", "allocatable", "unsupported: listing allocatable devices at {}: refused with UNIMPLEMENTED (12): "),
    ("no-service", "pods", "unsupported: listing pods at {}: refused with UNIMPLEMENTED (12): unknown service"),
])
def test_refusal_is_named(tmp_path, scenario, name, error):
    with kubelet(tmp_path, scenario) as socket:
        (line,) = call(socket, name, status=1)
        assert line.startswith(error.format(socket))


def test_slow_kubelet_times_out(tmp_path):
    with kubelet(tmp_path, "slow") as socket:
        started = time.monotonic()
        (line,) = call(socket, "pods", status=1, seconds=1)
        assert line.startswith("timed_out: ")
        assert time.monotonic() - started < 15  # the server would take 20 s


def test_killed_kubelet_is_told_from_an_absent_one(tmp_path):
    with kubelet(tmp_path, "empty") as socket:
        assert call(socket, "pods") == []
    assert call(socket, "pods", status=1)[0].startswith("unavailable: ")
    socket.unlink()
    assert call(socket, "pods", status=1)[0].startswith("not_found: ")
