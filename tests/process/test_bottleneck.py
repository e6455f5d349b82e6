"""Why a GPU is slow: thirty GPUs of one simulated machine, each with its own trouble or none."""

import json
import os
import signal
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
    finally:
        busy.kill()
        if holder:
            holder.kill()


def test_past_bottleneck_is_shown_with_its_cause(world, daemon, run, tmp_path):
    """Also after the daemon was killed: in the route, in the snapshots of both moments, and on the command line."""
    config = tmp_path / "gpuyard.toml"
    # Nearly all of the last minute: a cause is over seconds after its end, and not a minute after.
    config.write_text("[control]\nenabled = true\n[bottleneck]\nleast_share_percent = 90\n", encoding="utf-8")
    world.start("--gpus", "2", "--load", "steady:0.9")
    words = ("--config", str(config))
    yard = daemon(*words, GPUYARD_SIM_WORLD=str(world.directory))

    def gpuyard(*arguments):
        done = run(*arguments, GPUYARD_SOCKET=yard.socket)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def told():
        return yard.get("/api/gpu/bottlenecks?since=10m").json()["gpus"]

    def newest():
        return told()[0]["spells"][0]

    def cause_at(moment, gpu=0):
        device = yard.get(f"/api/gpu/snapshot?at={moment}").json()["devices"][gpu]
        return device["bottleneck"] and device["bottleneck"]["cause"]

    gpuyard("power", "0", "300", "--yes")
    wait_until(lambda: newest()["bottleneck"]["cause"] == "power_cap", lambda: f"the cap: {told()[0]}", 0.2)
    assert newest()["on"] and "power cap" in gpuyard("why", "0", "--since", "10m")
    gpuyard("power", "0", "--restore", "--yes")
    wait_until(lambda: newest()["bottleneck"]["cause"] == "none", lambda: f"its end: {told()[0]}", 0.2)

    capped, other = told()
    fine, slow = capped["spells"][:2]
    assert (slow["bottleneck"]["cause"], slow["on"], fine["on"]) == ("power_cap", False, True)
    assert slow["ended"] == fine["began"] and "limited by its power limit" in slow["bottleneck"]["text"]
    shares = {share["cause"]: share for share in capped["shares"]}
    assert shares["power_cap"]["seconds"] >= 10 and shares["power_cap"]["percent"] > 0
    assert 0 < capped["known_seconds"] < 300, "of ten minutes: before, there was no daemon"
    assert all(spell["bottleneck"]["cause"] in ("none", "not_known") for spell in other["spells"])
    assert (cause_at(slow["began"]), cause_at(slow["ended"])) == ("power_cap", "none")
    assert cause_at(slow["began"], gpu=1) == "none"
    long_ago = yard.get("/api/gpu/snapshot?at=2h").json()["devices"][0]
    assert long_ago["bottleneck"] is None and "not assessed at this time" in long_ago["missing"]["bottleneck"]

    assert "GPU 0 has no bottleneck." in gpuyard("why")
    past = gpuyard("why", "--since", "10m")
    assert "power cap" in past and "none" in past and "BOTTLENECKS BY SHARE OF COVERED TIME" in past
    for name, *verb in (("why", "why"), ("bottlenecks", "why", "--since", "10m"),
                        ("stays", "processes", "--since", "10m")):
        validate(json.loads(gpuyard(*verb, "--json")), name)

    yard.stop(signal.SIGKILL)
    yard = daemon(*words, directory=yard.directory, GPUYARD_SIM_WORLD=str(world.directory))
    wait_until(lambda: newest()["on"], "the new daemon's first judgement", 0.2)
    after = told()[0]["spells"]
    assert slow in after, after
    assert [spell for spell in after if spell["began"] == fine["began"] and not spell["on"]], "over with its daemon"
    assert cause_at(slow["began"]) == "power_cap"
