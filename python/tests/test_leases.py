"""Leases of this process, from a real daemon."""

import os
import sys
import threading
import time
import types

import pytest

import gpuyard
from program import wait_until


@pytest.fixture(autouse=True)
def all_free(shared):
    yield
    shared.wait_until_free()


def test_lease_sets_and_restores_cuda_visible_devices(yard, shared, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "7")
    with gpuyard.lease(2, min_free="40G", wait="1m", note="a test") as lease:
        assert os.environ["CUDA_VISIBLE_DEVICES"] == ",".join(lease.uuids)
        assert os.environ["CUDA_DEVICE_ORDER"] == "PCI_BUS_ID"
        assert os.environ["GPUYARD_LEASE"] == lease.id
        (held,) = shared.leases()
        assert held["id"] == lease.id and held["pid"] == os.getpid()
        assert [gpu["uuid"] for gpu in held["gpus"]] == lease.uuids and len(lease.uuids) == 2
        assert (held["binding"], held["note"], held["fence"]) == ("process", "a test", lease.fence)
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "7"
    assert "CUDA_DEVICE_ORDER" not in os.environ
    assert yard.find_lease(lease.id).ending == "released"


def test_a_yards_lease_leaves_the_environment_alone(yard):
    with yard.lease(1, among=[3]) as lease:
        assert "CUDA_VISIBLE_DEVICES" not in os.environ
        assert [gpu.index for gpu in lease.gpus] == [3]
        assert lease.refresh().state == "held"


def test_exception_in_block_releases_gpus_and_propagates(yard):
    with pytest.raises(KeyError):
        with gpuyard.lease(1) as lease:
            raise KeyError("mine")
    assert yard.find_lease(lease.id).ending == "released"


@pytest.mark.parametrize("name, loaded", [
    ("torch", types.SimpleNamespace(cuda=types.SimpleNamespace(is_initialized=lambda: True)))])
def test_initialised_cuda_refuses_lease(yard, shared, monkeypatch, name, loaded):
    monkeypatch.setitem(sys.modules, name, loaded)
    with pytest.raises(gpuyard.Conflict, match="torch has already initialised CUDA"):
        gpuyard.lease(1).take()
    assert shared.leases() == [] and "CUDA_VISIBLE_DEVICES" not in os.environ
    with yard.lease(1):  # which shows nothing to CUDA
        pass


def test_cuda_initialised_during_wait_releases_lease(yard, monkeypatch):
    answers = iter([None, "torch"])
    monkeypatch.setattr("gpuyard.cuda.initialised_by", lambda: next(answers))
    lease = gpuyard.lease(1)
    with pytest.raises(gpuyard.Conflict):
        lease.take()
    assert yard.find_lease(lease.id).ending == "released"


def test_unsatisfiable_or_unavailable_request_raises(yard):
    with pytest.raises(gpuyard.Invalid, match="9 GPUs requested"):
        gpuyard.lease(9).take()
    with pytest.raises(gpuyard.Error):
        gpuyard.lease(1, among=[17]).take()
    with yard.lease(4):
        with pytest.raises(gpuyard.Conflict):
            gpuyard.lease(1, wait=0).take()


def test_wait_that_times_out_leaves_the_queue(yard, shared):
    with yard.lease(4):
        began = time.monotonic()
        with pytest.raises(gpuyard.TimedOut, match="not available in time"):
            gpuyard.lease(1, wait="600ms").take()
        assert 0.5 < time.monotonic() - began < 5
        assert shared.waiting() == []


def test_concurrent_threads_never_share_a_gpu(yard):
    taken, wrong, lock = set(), [], threading.Lock()

    def work():
        for _ in range(3):
            with yard.lease(1, wait=60) as lease:
                with lock:
                    if lease.uuids[0] in taken:
                        wrong.append(lease.uuids)
                    taken.add(lease.uuids[0])
                time.sleep(0.01)
                with lock:
                    taken.discard(lease.uuids[0])
    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert not wrong and not any(thread.is_alive() for thread in threads)


def test_lease_handle_misuse_raises_invalid(yard):
    lease = yard.lease(1)
    with pytest.raises(gpuyard.Invalid, match="no GPUs are leased"):
        lease.gpus
    with pytest.raises(gpuyard.Invalid):
        lease.release()
    lease.take()
    with pytest.raises(gpuyard.Invalid, match="already been taken"):
        lease.take()
    with pytest.raises(gpuyard.Invalid, match="as long as this process"):
        lease.renew()
    lease.release()
    with pytest.raises(gpuyard.Invalid, match="not held"):
        lease.release()
    assert yard.find_lease(lease.id).ending == "released"
    assert lease.record.use.held_s > 0 and len(lease.uuids) == 1  # for a report at the end


def test_ttl_lease_is_renewed_during_block(yard):
    with yard.lease(1, ttl=10) as lease:
        assert lease.record.binding == "detached"
        until = lease.record.until
        wait_until(lambda: lease.refresh().until > until, "a renewal", every=0.2)
        assert lease.renew("1h").until > lease.record.asked
    assert yard.find_lease(lease.id).ending == "released" and lease.lost == ""


def test_externally_released_lease_is_reported_lost(yard):
    with pytest.warns(RuntimeWarning, match="could not be renewed"):
        with yard.lease(1, ttl=10) as lease:
            yard.release(lease.id)
            wait_until(lambda: lease.lost, "the handle to hear of it", every=0.1)
    assert lease.id in lease.lost


def test_low_level_functions_claim_renew_and_release(yard):
    wish = gpuyard.models.LeaseRequest(id="a-claim-of-mine-1", gpus=1, binding="detached", ttl_s=60)
    held = yard.claim(wish, wait=30)
    assert held.state == "held" and held.id == "a-claim-of-mine-1"
    assert [lease.id for lease in yard.leases()] == [held.id]
    assert yard.renew(held.id, "2m", held.fence).state == "held"
    with pytest.raises(gpuyard.Conflict):
        yard.renew(held.id, 60, held.fence + 1)
    assert yard.release(held.id, held.fence).id == held.id
    with pytest.raises(gpuyard.NotFound):
        yard.find_lease("no-such-lease-at-all")
    unnamed = yard.claim(gpuyard.models.LeaseRequest(gpus=1), wait=30)
    assert len(unnamed.id) == 32 and yard.release(unnamed.id).id == unnamed.id


def test_devices_and_every_other_route_are_there(yard):
    assert [device.index for device in yard.devices()] == [0, 1, 2, 3]
    assert gpuyard.devices()[0].readings.power_draw_w > 0
    assert yard.request("GET", "/health")["status"] == "ok"
    assert "gpuyard_" in yard.request("GET", "/metrics")
    with pytest.raises(gpuyard.NotFound):
        yard.request("GET", "/api/gpu/devices/9")
    with pytest.raises(gpuyard.Invalid):
        yard.request("GET", "no path")
    with pytest.raises(gpuyard.Invalid):
        yard.find_lease("..")


def test_unavailable_daemon_error_suggests_gpuyard_serve(monkeypatch, tmp_path):
    monkeypatch.setenv("GPUYARD_SOCKET", str(tmp_path / "none.sock"))
    for ask in (gpuyard.devices, lambda: gpuyard.lease(1).take(), lambda: gpuyard.events().next(1)):
        began = time.monotonic()
        with pytest.raises(gpuyard.Unavailable, match="gpuyard serve"):
            ask()
        assert time.monotonic() - began < 2
