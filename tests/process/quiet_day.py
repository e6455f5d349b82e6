#!/usr/bin/env python3
"""A day in which nothing is wrong: 24 hours of the simulated world's own time, in 15 minutes. Prints each
alert that fired, and ends with 1 if there was one that the world did not cause. On demand only:

    GPUYARD_BIN=build/release/gpuyard python3 tests/process/quiet_day.py models|demo [SPEED [HOURS]]

`models` is one GPU of each model for each kind of load; `demo` is what `serve --simulate 8` shows.
"""

import json
import os
import subprocess
import sys
import tempfile
import time

PROGRAM = os.environ.get("GPUYARD_BIN", "build/release/gpuyard")
MODELS = "a100:3,h100:3,h200:3,l40s:3,rtx4090:3,t4:3"
LOADS = ("idle", "steady:0.9", "training", "bursty")
# Rules that fire by design, with their GPUs: those of the demo, and of a load without end.
CAUSED = {"demo": {("thermal", 0), ("squatter", 2)}, "models": set()}
# A GPU that is busy for a day under a limit fires these; they are true.
BUSY = {"power", "memory"}


def ask(environment, *words):
    return json.loads(subprocess.run([PROGRAM, *words, "--json"], env=environment, check=True, timeout=60,
                                     capture_output=True, text=True).stdout)


def main():
    kind = sys.argv[1]
    speed = float(sys.argv[2]) if len(sys.argv) > 2 else 96
    hours = float(sys.argv[3]) if len(sys.argv) > 3 else 24
    with tempfile.TemporaryDirectory() as place:
        socket = f"{place}/gpuyard.sock"
        environment = os.environ | {"GPUYARD_SOCKET": socket, "GPUYARD_SIM_WORLD": f"{place}/state/world"}
        world = (["--simulate", "8"] if kind == "demo" else
                 ["--simulate", "18", "--model", MODELS, "--load", "idle"])
        daemon = subprocess.Popen([PROGRAM, "serve", *world, "--speed", str(speed), "--state", f"{place}/state",
                                   "--socket", socket, "--listen", "127.0.0.1:0"],
                                  stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            time.sleep(10)
            if kind == "models":
                for gpu in range(18):
                    subprocess.run([PROGRAM, "sim", "load", "--gpu", str(gpu), LOADS[gpu % len(LOADS)]],
                                   env=environment, check=True, timeout=60)
            until = time.monotonic() + hours * 3600 / speed
            seen = {}
            while time.monotonic() < until:
                time.sleep(2)
                for alert in ask(environment, "alerts")["alerts"]:
                    seen[alert["number"]] = alert
        finally:
            daemon.terminate()
            daemon.wait(timeout=60)
    false = 0
    for number, alert in sorted(seen.items()):
        gpu = alert["gpu"]["index"] if alert["gpu"] else None
        caused = (alert["rule"], gpu) in CAUSED[kind] or alert["rule"] in BUSY
        false += not caused
        print(f"{'caused' if caused else 'FALSE '}  {number}  {alert['rule']}  {alert['message']}")
    print(f"{kind}: {hours:g} h at {speed:g} times: {len(seen)} alerts, {false} false")
    return 1 if false else 0


if __name__ == "__main__":
    sys.exit(main())
