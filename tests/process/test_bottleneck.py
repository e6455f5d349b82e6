"""Why a GPU is slow: thirty GPUs of one simulated machine, each with its own trouble or none."""

import json
import os
import subprocess

import pytest

from program import PROGRAM, wait_until
from schemas import validate

# The load of each GPU, its fault, and the expected cause, in the order of their indexes.
H100 = [
    ("idle", {}, "none"),
    ("training", {}, "none"),
    ("steady:0.5", {}, "none"),
    ("bursty:0.5", {}, "none"),
    ("steady:0.9", {"xid": 13}, "none"),
    ("steady:0.9", {"memory_heat": 20}, "none"),
    ("starved", {}, "none"),  # no process is listed whose CPU use is a hint
    ("training:0.9:40G", {"heat": 45}, "heat"),
    ("steady:1:40G", {"heat": 50, "power_brake": True}, "heat"),
    ("steady:0.9", {"power_brake": True}, "power_brake"),
    ("training", {"power_brake": True}, "power_brake"),
    ("steady:1", {"limit": 300}, "power_cap"),
    ("training", {"limit": 400}, "power_cap"),
    ("steady:1", {"limit": 300, "power_brake": True}, "power_brake"),
    ("steady:1", {"limit": 300, "pcie_width": 8}, "power_cap"),
    ("steady:0.8", {"pcie_width": 8}, "narrow_link"),
    ("steady:0.8", {"pcie_generation": 3}, "narrow_link"),
    ("steady:0.8:79G", {"pcie_width": 4}, "narrow_link"),
    ("idle", {"pcie_width": 8}, "none"),
    ("waiting", {}, "waiting"),
    ("waiting:1:79G", {}, "waiting"),
    ("steady:0.5:79G", {}, "memory_full"),
    ("idle", {"lost": True}, "lost"),
    ("steady:0.9", {"lost": True}, "lost"),
    ("idle", {"call": "any", "never_returns": True}, "stale"),
    ("steady:0.9", {"call": "throttle_reasons", "code": 3}, "not_known"),
    ("steady:0.9", {"call": "utilization_rates", "code": 3}, "not_known"),
    ("idle", {"leased": True}, "leased_idle"),
    ("idle", {"process": True}, "starved"),
]
OTHERS = [("rtx4090", "waiting", {}, "waiting"), ("t4", "steady:0.4", {}, "none")]
GPUS = [("h100", *row) for row in H100] + OTHERS
SAID_TO_THE_WORLD = ("heat", "memory_heat", "power_brake", "pcie_width", "pcie_generation", "lost", "xid",
                     "call", "code", "never_returns")


def scenario():
    models = ",".join([f"h100:{len(H100)}", *(model for model, *_ in OTHERS)])
    text = f'[world]\nmodel = "{models}"\nwarm_up = "60s"\n'
    for index, (_, workload, what, _) in enumerate(GPUS):
        text += f'[[gpu]]\ngpu = {index}\nworkload = "{workload}"\n'
        wrong = {key: value for key, value in what.items() if key in SAID_TO_THE_WORLD}
        if wrong:
            text += f'[[at]]\ntime = "1s"\ngpu = {index}\n'
            text += "".join(f"{key} = {json.dumps(value)}\n" for key, value in wrong.items())
    return text


@pytest.fixture
def slow_yard(world, daemon, tmp_path):
    file = tmp_path / "scenario.toml"
    file.write_text(scenario(), encoding="utf-8")
    config = tmp_path / "gpuyard.toml"
    config.write_text("[control]\nenabled = true\n[bottleneck]\nidle_after_s = 5\n", encoding="utf-8")
    world.start("--scenario", str(file))
    yard = daemon("--config", str(config), GPUYARD_SIM_WORLD=str(world.directory))
    yield yard


def index_with(what):
    return next(index for index, (_, _, wrong, _) in enumerate(GPUS) if what in wrong)


def test_each_of_thirty_gpus_has_one_cause(slow_yard, world, tmp_path):
    """The reason stands in the snapshot, the table, the metrics and the stream alike."""
    yard = slow_yard
    environment = {**os.environ, "GPUYARD_SOCKET": yard.socket, "GPUYARD_SIM_WORLD": str(world.directory)}

    def gpuyard(*arguments):
        return subprocess.run([PROGRAM, *arguments], env=environment, text=True, capture_output=True,
                              check=True, timeout=30).stdout

    # On a busy machine it would not get its whole core. Among processes of other sessions only the
    # priority of the session's autogroup counts.
    busy = subprocess.Popen(["sh", "-c", "echo -19 > /proc/self/autogroup; renice -n -15 -p $$ > /dev/null; "
                             "while :; do :; done"], stderr=subprocess.DEVNULL, start_new_session=True)
    holder = None
    try:
        for index, (_, _, what, _) in enumerate(GPUS):
            if "limit" in what:
                gpuyard("power", str(index), str(what["limit"]), "--yes")
        world.attach(index_with("process"), busy.pid, "--load", "0.25")
        holder = subprocess.Popen([PROGRAM, "run", "--among", str(index_with("leased")), "--", "sleep", "300"],
                                  env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

        def wrong():
            devices = yard.get("/api/gpu/snapshot").json()["devices"]
            return [f"GPU {index} ({GPUS[index][1]}, {GPUS[index][2]}): {wanted}, not "
                    f"{device['bottleneck']}"
                    for index, (device, (*_, wanted)) in enumerate(zip(devices, GPUS))
                    if device["bottleneck"]["cause"] != wanted]

        # Half a minute of waiting is looked for, and heat takes its time.
        for _ in range(70):
            if not (found := wrong()):
                break
            wait_until(lambda began=yard.get("/api/gpu/snapshot").json()["generation"]:
                       yard.get("/api/gpu/snapshot").json()["generation"] > began, "the next second", 0.2)
        assert not found, "\n".join(found)

        metrics = yard.get("/metrics").text
        for index, (*_, wanted) in enumerate(GPUS):
            assert f'gpuyard_gpu_bottleneck{{device="{index}",cause="{wanted}"}} 1' in metrics
        table = gpuyard("devices")
        assert "BOTTLENECK" in table and "busy at" in table and "narrow PCIe link" in table
        assert f"GPU {index_with('process')} is probably waiting for its process on the CPU" in table
        assert yard.get("/").text.splitlines()[0] == table.splitlines()[0]
        events = yard.get("/api/gpu/events?since=oldest&follow=false&samples=none").text
        assert "event: bottleneck" in events
        for name, *verb in (("why", "why"), ("bottlenecks", "why", "--since", "10m"),
                            ("stays", "processes", "--since", "10m")):
            validate(json.loads(gpuyard(*verb, "--json")), name)
    finally:
        busy.kill()
        if holder:
            holder.kill()
