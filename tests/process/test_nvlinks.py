"""NVLinks that were up and go down: an event, an alert, a bottleneck."""

import json

from program import wait_until

LINKS = 18  # of an H100


def told(run, yard, *arguments):
    done = run(*arguments, GPUYARD_SOCKET=yard.socket)
    assert done.returncode == 0, done.stderr
    return done.stdout


def events(yard, kind):
    text = yard.get("/api/gpu/events?since=oldest&follow=false&samples=none").text
    return [one for line in text.splitlines() if line.startswith("data: ") and f'"kind":"{kind}"' in line
            for one in [json.loads(line[6:])]]


def cause(yard, gpu):
    return yard.get("/api/gpu/snapshot").json()["devices"][gpu]["bottleneck"]


def alerts(run, yard):
    return [one for one in json.loads(told(run, yard, "alerts", "--json"))["alerts"] if one["rule"] == "nvlink-down"]


def test_nvlink_loss_raises_event_alert_and_bottleneck(run, world, daemon):
    world.start("--gpus", "2", "--model", "h100", "--load", "steady:0.5")
    yard = daemon(GPUYARD_SIM_WORLD=str(world.directory))
    wait_until(lambda: f"{LINKS} of {LINKS} up" in told(run, yard, "devices", "1"), "the links to be read")
    assert alerts(run, yard) == [] and events(yard, "nvlink_down") == []
    world.inject(1, "--nvlink-down", str(LINKS))
    event = wait_until(lambda: events(yard, "nvlink_down"), "the event")
    assert len(event) == 1 and event[0]["index"] == 1
    assert "has lost NVLink 0-17: 0 of 18 NVLinks are up" in event[0]["text"]
    found = wait_until(lambda: (one := cause(yard, 1))["cause"] == "narrow_link" and one, "the cause")
    assert found["brief"] == "NVLink down" and "0-17 were up until" in found["text"]
    assert "0-17 were up until" in told(run, yard, "why", "1")
    assert "It has only 0 of 18 NVLinks: 0-17 were up until" in told(run, yard, "devices", "1").replace("\n", " ")
    fired, = wait_until(lambda: alerts(run, yard), "the alert")
    assert fired["gpu"]["index"] == 1 and fired["message"] == "NVLinks of GPU 1 went down: 18"
    assert cause(yard, 0)["cause"] != "narrow_link"
    world.inject(1, "--clear")
    assert "0-17 up: 18 of 18 NVLinks are up" in wait_until(lambda: events(yard, "nvlink_up"), "the links")[0]["text"]
    wait_until(lambda: cause(yard, 1)["cause"] != "narrow_link", "the cause to be over")
