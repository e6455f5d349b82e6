"""The energy of blocks, against the daemon's own account of it."""

import asyncio
import json
import logging
import subprocess
import time

import pytest

import gpuyard
from gpuyard import models
from gpuyard.energy_window import by_gpu_of, joules_of, why_of
from program import PROGRAM


def test_joules_are_live_inside_and_final_after_block(yard):
    with gpuyard.energy() as e:
        time.sleep(1.2)
        early = e.joules
        assert early > 0 and not e.final
        time.sleep(1.2)
        assert e.joules > early
    final = e.joules
    time.sleep(1.2)
    assert e.final and e.joules == final > early
    assert sum(e.by_gpu.values()) == pytest.approx(final)
    assert len(e.by_gpu) == 4 and e.why is None and e.seconds == pytest.approx(2.4, abs=1)
    assert e.co2(grid=300) == pytest.approx(final / 3.6e6 * 300)
    assert e.kwh == pytest.approx(final / 3.6e6)
    assert yard.request("GET", "/api/gpu/energy/windows")["windows"] == []


def test_window_matches_cli_account_within_one_percent(yard, shared):
    def account():
        done = subprocess.run([PROGRAM, "energy", "--json"], env=shared.environment(),
                              capture_output=True, text=True, check=True, timeout=30)
        return json.loads(done.stdout)["joules"]
    before = account()
    with yard.energy() as e:
        inner = account()
        time.sleep(5)
        end = account()
    outer = account() - before
    assert (end - inner) * 0.99 <= e.joules <= outer * 1.01


def test_energy_gpus_follow_lease_or_environment(yard, monkeypatch):
    with gpuyard.lease(2) as lease, gpuyard.energy() as e:
        assert set(e.by_gpu) == set(lease.uuids)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1,3")
    with gpuyard.energy() as e:
        pass
    assert len(e.by_gpu) == 2
    whole = yard.devices()[2].uuid
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", whole[:10])
    with gpuyard.energy() as e:
        pass
    assert list(e.by_gpu) == [whole]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    with gpuyard.energy() as e:
        pass
    assert e.joules is None and e.why == "CUDA_VISIBLE_DEVICES='' makes no GPU visible to this process"
    with gpuyard.energy([0, whole]) as e:
        pass
    assert len(e.by_gpu) == 2


def test_missing_daemon_gives_no_energy_with_reason(monkeypatch, tmp_path):
    monkeypatch.setenv("GPUYARD_SOCKET", str(tmp_path / "none.sock"))
    with gpuyard.energy() as e:
        pass
    assert e.joules is None and e.by_gpu == {} and e.co2(grid=1) is None and e.kwh is None
    assert e.seconds is None and "gpuyard serve" in e.why and "gpuyard serve" in repr(e)


def test_interrupted_block_finishes_window_and_reraises(yard):
    with pytest.raises(KeyboardInterrupt):
        with gpuyard.energy() as e:
            raise KeyboardInterrupt
    assert e.final and e.joules is not None
    assert yard.request("GET", "/api/gpu/energy/windows")["windows"] == []


# A restarted daemon would also count energy that was used after the block.
def test_daemon_outage_at_block_end_makes_energy_unknown(make_ground, monkeypatch):
    ground = make_ground(gpus=1)
    monkeypatch.setenv("GPUYARD_SOCKET", ground.socket)
    monkeypatch.setattr("gpuyard.energy_window.ENDS_WITHIN", 0.3)
    with gpuyard.energy() as e:
        ground.kill()
    ground.start()
    # The daemon's present value would include the time after the block.
    assert e.joules is None and e.why


def test_measured_function_has_energy_of_last_call(yard, caplog):
    @gpuyard.measured
    def work(a, b=1):
        """Its words."""
        time.sleep(0.7)
        return a + b

    @gpuyard.measured(gpus=[0], name="other")
    def fails():
        raise KeyError

    @gpuyard.measured
    async def later():
        await asyncio.sleep(0.7)
        return 3
    assert work.energy is None and work.__doc__ == "Its words."
    with caplog.at_level(logging.INFO, "gpuyard"):
        assert work(1, b=2) == 3
    assert work.energy.joules > 0 and work.energy.final and "work" in caplog.text
    first = work.energy
    work(1)
    assert work.energy is not first
    with pytest.raises(KeyError):
        fails()
    assert fails.energy.final and len(fails.energy.by_gpu) == 1
    assert asyncio.run(later()) == 3
    assert later.energy.joules > 0
    assert yard.request("GET", "/api/gpu/energy/windows")["windows"] == []


def test_energy_window_functions_can_be_called_directly(yard):
    window = yard.begin_energy_window([0], "mine")
    measured = yard.measure_energy(window)
    assert measured.name == "mine" and len(measured.gpus) == 1
    assert yard.end_energy_window(window).id == window
    with pytest.raises(gpuyard.NotFound):
        yard.measure_energy(window)


def window_of(*gpus):
    """gpus: joules, seconds, unknown seconds."""
    return models.EnergyWindow.read({
        "schema": 1, "id": "x", "name": None, "owner_uid": 0, "simulated": True, "began_at": "",
        "ends_at": "", "seconds": 10, "joules": 0, "notes": [], "estimate": None,
        "gpus": [{"index": i, "uuid": f"GPU-{i}", "joules": joules, "seconds": seconds,
                  "mean_w": None, "peak_w": None, "estimated": False, "interrupted": False,
                  "epochs_crossed": 0, "unknown_seconds": unknown, "age_seconds": 0,
                  "why": None if joules is not None else "it has no counter"}
                 for i, (joules, seconds, unknown) in enumerate(gpus)]})


def test_unknown_energy_is_none_not_zero():
    known = window_of((5, 10, 0), (7, 10, 0))
    assert joules_of(known) == 12 and why_of(known) is None
    partly = window_of((5, 10, 0), (7, 10, 4))
    assert joules_of(partly) == 12 and "GPU 1: 4.0 s of 10.0 s" in why_of(partly)
    unknown = window_of((5, 10, 0), (0, 10, 10))
    assert joules_of(unknown) is None and "no energy data for GPU 1" in why_of(unknown)
    assert by_gpu_of(unknown) == {"GPU-0": 5, "GPU-1": None}
    without = window_of((5, 10, 0), (None, 0, 0))
    assert joules_of(without) is None and by_gpu_of(without) == {"GPU-0": 5, "GPU-1": None}
    assert why_of(without) == "no energy data for GPU 1: it has no counter"
    assert joules_of(window_of()) is None and why_of(window_of())
