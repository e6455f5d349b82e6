"""Energy is the integral of power, as another process sees both through NVML."""

import json
import os
import subprocess
import sys
import time


# The A100's power reading is of the moment; other models of its age and younger ones average it.
MODEL = "a100"
SECONDS = 5
HERTZ = 100
# Tolerance of the energy. The world moves every 10 ms and a sample may be as late as that, so each end of the
# integral may be off by a step of 500, twice that at most on a busy machine.
TOLERANCE = 0.01

# NVML's own functions, called as any program calls them.
SAMPLER = """
import ctypes, json, sys, time

library, seconds, hertz = sys.argv[1], float(sys.argv[2]), float(sys.argv[3])
nvml = ctypes.CDLL(library)
assert nvml.nvmlInit_v2() == 0
gpu = ctypes.c_void_p()
assert nvml.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(gpu)) == 0
power, energy = ctypes.c_uint(), ctypes.c_ulonglong()
samples = []
start = due = time.monotonic()
while due < start + seconds:
    assert nvml.nvmlDeviceGetPowerUsage(gpu, ctypes.byref(power)) == 0
    assert nvml.nvmlDeviceGetTotalEnergyConsumption(gpu, ctypes.byref(energy)) == 0
    samples.append((time.monotonic(), power.value / 1e3, energy.value / 1e3))
    due += 1 / hertz
    time.sleep(max(0, due - time.monotonic()))
json.dump(samples, sys.stdout)
"""


def test_energy_counter_is_integral_of_power_readings(world):
    world.start("--gpus", "1", "--model", MODEL, "--load", "idle")
    sampler = subprocess.Popen(
        [sys.executable, "-c", SAMPLER, os.path.abspath(os.environ["GPUYARD_SIM_LIB"]),
         str(SECONDS), str(HERTZ)], env=world.environment, stdout=subprocess.PIPE)
    # Load that changes while it is watched is the point.
    for load in ("steady:1", "steady:0.3", "training", "idle"):
        time.sleep(SECONDS / 5)  # how long a load lasts is part of the integral
        world.must("load", "--gpu", "0", load)
    output, _ = sampler.communicate(timeout=60)
    assert sampler.returncode == 0
    samples = json.loads(output)
    assert len(samples) > SECONDS * HERTZ / 4, "the sampler was starved"

    integral = sum((t1 - t0) * (p0 + p1) / 2
                   for (t0, p0, _), (t1, p1, _) in zip(samples, samples[1:]))
    counted = samples[-1][2] - samples[0][2]
    powers = [power for _, power, _ in samples]
    assert min(powers) < 70 and max(powers) > 350, "the load did not change"
    assert all(a[2] <= b[2] for a, b in zip(samples, samples[1:])), "energy went backwards"
    assert abs(counted - integral) <= TOLERANCE * counted, (counted, integral)
