"""The daemon's reaction to a sick GPU, end to end on simulated GPUs: it is detected, reported, withheld,
notified to its holder, capped - and comes back by the rule."""

import json

import pytest
from lease_yard import LeaseYard
from program import read_until, wait_until

# The built-in rules as they are, but quicker to clear.
QUICK = """
[rule.gpu-lost]
clear_hold_s = 2
[rule.gpu-unhealthy]
clear_hold_s = 2
[rule.thermal]
hold_s = 1
clear_hold_s = 1
"""


@pytest.fixture
def start(tmp_path, daemon):
    yards = []

    def begin(gpus=2, alerts=QUICK, config=""):
        file = tmp_path / "alerts.toml"
        file.write_text(alerts, encoding="utf-8")
        yards.append(LeaseYard(tmp_path, daemon, gpus, f'[alerts]\nfile = "{file}"\n{config}'))
        return yards[-1]

    yield begin
    for yard in yards:
        yard.end()


def firing(yard):
    return {(one["rule"], one["gpu"] and one["gpu"]["index"]): one
            for one in yard.json("alerts", "alerts")["alerts"]}


def wait_for(yard, rule, gpu=0):
    return wait_until(lambda: firing(yard).get((rule, gpu)), f"the alert {rule} of GPU {gpu}")


def wait_until_over(yard, rule, gpu=0):
    wait_until(lambda: (rule, gpu) not in firing(yard), f"the alert {rule} of GPU {gpu} to end")


def withheld(yard):
    return {one["index"]: one for one in yard.queue()["withheld"]}


def run_now(yard, *flags):
    return yard.go("run", "--no-wait", "--quiet", *flags, "--", "true").returncode


def inject(yard, *flags):
    yard.must("sim", "inject", *flags)


def test_lost_gpu_is_withheld_within_two_ticks(start, record_property):
    record_property("contract", "C1")
    yard = start()
    inject(yard, "--gpu", "1", "--lost")
    seen = []  # numbers of readings that show it lost, each while it was not withheld yet

    def out():
        shown = yard.daemon.get("/api/gpu/snapshot").json()
        if 1 in withheld(yard):
            return True
        if shown["devices"][1]["condition"] != "responsive":
            seen.append(shown["generation"])
        return False
    wait_until(out, "GPU 1 to be withheld")
    assert not seen or seen[-1] - seen[0] < 2
    assert run_now(yard, "--among", "1") != 0
    alert = wait_for(yard, "gpu-lost", 1)
    assert alert["level"] == "critical" and alert["severity"] == 100 and alert["quarantines"]
    yard.daemon.wait_for_log("ALERT [severity 100]: GPU 1 is lost")
    assert run_now(yard, "--among", "0") == 0  # the other one is as it was


def test_lost_gpu_notifies_holder_and_command_continues(start):
    yard = start(gpus=1)
    job = yard.hold()
    inject(yard, "--gpu", "0", "--lost")
    said = read_until(job.stderr, "ALERT [severity 100]: GPU 0 is lost")
    assert job.poll() is None
    assert "reset the GPU or reboot the machine" in said.splitlines()[-1]
    yard.must("alerts", "ack", str(wait_for(yard, "gpu-lost")["number"]))
    assert "ALERT" not in read_until(job.stderr, "acknowledged by uid 0: GPU 0 is lost")


def test_braked_gpu_is_capped_until_alert_ends(start):
    yard = start(gpus=1, config="[control]\nenabled = true\n",
                 alerts='[rule.hot]\non="power_brake"\nat=1\ncap_w=300\n'
                        'message="GPU {gpu} is braked"\n')

    def owners():
        return yard.must("power", "0", "--json")
    assert "andon:hot" not in owners()
    inject(yard, "--gpu", "0", "--power-brake")
    wait_for(yard, "hot")
    wait_until(lambda: "andon:hot" in owners(), "the cap")
    wait_until(lambda: yard.daemon.get("/api/gpu/devices/0").json()["readings"]["power_limit_w"] == 300,
               "the power limit to be 300 W")
    inject(yard, "--gpu", "0", "--clear")
    wait_until_over(yard, "hot")
    wait_until(lambda: "andon:hot" not in owners(), "the cap to be lifted")
    wait_until(lambda: yard.daemon.get("/api/gpu/devices/0").json()["readings"]["power_limit_w"] > 300,
               "the power limit to be what it was")


def test_several_gpus_are_silenced_and_shown_together(start):
    yard = start(gpus=2, alerts="")
    both = yard.json("silences", "alerts", "silence", "0", "1", "--for", "1h")["silences"]
    # Two of one millisecond stand in the order of their ids, which is no order of GPUs.
    assert sorted(one["gpu"] for one in both) == sorted([yard.world.uuid(0), yard.world.uuid(1)])
    begun = yard.go("alerts", "silence", "--gpus", "1,9", "--for", "1h", "--json")
    assert begun.returncode == 6 and 'GPU "9" not found' in begun.stderr
    assert [one["gpu"] for one in json.loads(begun.stdout)["silences"]] == [yard.world.uuid(1)], "what was done"


def test_each_change_is_streamed_and_counted(start):
    yard = start(gpus=1)
    inject(yard, "--gpu", "0", "--xid", "79")
    wait_for(yard, "xid-fatal")
    events = yard.must("alerts", "--json")
    assert "Xid 79. The GPU has fallen off the bus." in events
    stream = yard.daemon.get("/api/gpu/events?samples=none&since=oldest&follow=false").text
    alerts = [json.loads(part.split("data: ", 1)[1]) for part in stream.split("\n\n")
              if "event: alert\n" in part]
    assert [(one["rule"], one["state"]) for one in alerts] == [("xid-fatal", "firing")]
    wait_until(lambda: 'gpuyard_alert_firing{' in yard.daemon.get("/metrics").text, "the metric")
