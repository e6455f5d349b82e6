"""Finds the GPUs of this process and an initialised CUDA, without importing a framework."""

import os
import sys
import types

import pytest

from gpuyard import cuda

A = "GPU-aaaaaaaa-2c51-4ca8-8a5f-e1cbf99717fc"
B = "GPU-bbbbbbbb-2c51-4ca8-8a5f-e1cbf99717fc"


def module(**names):
    return types.SimpleNamespace(**names)


TENSORFLOW = "tensorflow.python.eager.context"
CPU, GPU = module(device_type="CPU"), module(device_type="GPU")


def raises():
    raise RuntimeError("another version")


@pytest.mark.parametrize("name, found, culprit", [
    ("torch", module(cuda=module(is_initialized=lambda: True)), "torch"),
    ("torch", module(cuda=module(is_initialized=lambda: False)), None),
    ("torch", module(), None),
    ("numba.cuda.cudadrv.driver", module(driver=module(is_initialized=True)), "numba"),
    ("numba.cuda.cudadrv.driver", module(driver=module(is_initialized=False)), None),
    ("numba_cuda.numba.cuda.cudadrv.driver", module(driver=module(is_initialized=True)), "numba"),
    (TENSORFLOW, module(_context=module(_physical_devices=[CPU, GPU])), "tensorflow"),
    (TENSORFLOW, module(_context=module(_physical_devices=[CPU])), None),
    (TENSORFLOW, module(_context=module(_physical_devices=None)), None),
    (TENSORFLOW, module(_context=None), None),
    ("jax._src.xla_bridge", module(_backends={"cpu": 1, "cuda": 2}), "jax"),
    ("jax._src.xla_bridge", module(_backends={"cpu": 1}), None),
    ("cupy_backends.cuda.api.driver", module(ctxGetCurrent=lambda: 7), "cupy"),
    ("cupy_backends.cuda.api.driver", module(ctxGetCurrent=raises), None),
])
def test_framework_that_initialised_cuda_is_named(monkeypatch, name, found, culprit):
    monkeypatch.setitem(sys.modules, name, found)
    assert cuda.initialised_by() == culprit


def test_open_cuda_device_counts_as_initialised(monkeypatch, tmp_path):
    assert not cuda._has_open("/dev/nvidia-uvm")
    device = tmp_path / "uvm"
    with open(device, "w"):
        assert cuda._has_open(str(device))
    assert not cuda._has_open(str(device))


def test_no_framework_is_imported():
    before = set(sys.modules)
    cuda.initialised_by()
    assert set(sys.modules) == before


@pytest.mark.parametrize("text, names", [
    (None, None), ("", []), ("0,1", ["0", "1"]), (f"{A}, {B}", [A, B]), ("GPU-aaaa", ["GPU-aaaa"]),
    ("0,-1,2", ["0"]), ("NoDevFiles", []), ("1,MIG-x", ["1"]), ("0,0", []), ("MIG-x", []),
    (f"MIG-{A}/1/0,{B}", [A]), ("none", []),
])
def test_visible_gpus_come_from_cuda_visible_devices(text, names):
    assert cuda.my_gpus({} if text is None else {"CUDA_VISIBLE_DEVICES": text}) == names


@pytest.mark.parametrize("text, why", [
    ("", "CUDA_VISIBLE_DEVICES='' makes no GPU visible to this process"),
    ("-1", "CUDA_VISIBLE_DEVICES='-1' makes no GPU visible to this process"),
    ("MIG-x", "CUDA_VISIBLE_DEVICES='MIG-x' is a MIG instance of an unknown GPU"),
])
def test_empty_cuda_visible_devices_has_a_reason(text, why):
    assert cuda.why_no_gpu({"CUDA_VISIBLE_DEVICES": text}) == why


def test_gpu_is_matched_by_index_uuid_or_prefix():
    assert cuda.is_mine(0, A, None)
    assert cuda.is_mine(0, A, ["0"]) and not cuda.is_mine(1, A, ["0"])
    assert cuda.is_mine(None, A, ["GPU-aaaa"]) and not cuda.is_mine(0, A, [B])
    assert not cuda.is_mine(0, A, [])


def test_leases_ending_out_of_order_restore_environment(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3")
    monkeypatch.delenv("CUDA_DEVICE_ORDER", raising=False)
    visible = cuda._Visible()
    one, two = object(), object()
    visible.show(one, [A], "lease-1", 1)
    visible.show(two, [B], "lease-2", 2)
    assert os.environ["CUDA_VISIBLE_DEVICES"] == B
    visible.hide(one)
    assert os.environ["CUDA_VISIBLE_DEVICES"] == B and os.environ["GPUYARD_FENCE"] == "2"
    assert os.environ["CUDA_DEVICE_ORDER"] == "PCI_BUS_ID"
    visible.hide(two)
    visible.hide(two)
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "3"
    assert "CUDA_DEVICE_ORDER" not in os.environ and "GPUYARD_LEASE" not in os.environ
