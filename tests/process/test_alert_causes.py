"""Alerts that name their cause: what stops work is seen behind a flood of notes, the kernel's own words are said,
and advice fits the fault."""

import os
import re
import time

import pytest

from program import wait_until


@pytest.fixture
def start(tmp_path, lease_yard):
    def begin(alerts=""):
        file = tmp_path / "alerts.toml"
        file.write_text(alerts, encoding="utf-8")
        fifo = tmp_path / "kmsg"
        os.mkfifo(fifo)
        return lease_yard(gpus=2, config=f'[alerts]\nfile = "{file}"\n[events]\nkernel_log = "{fifo}"\n'), fifo
    return begin


def kernel(fifo):
    """The writing end of the kernel log; fails if no daemon reads it."""
    log = os.open(fifo, os.O_WRONLY | os.O_NONBLOCK)
    os.set_blocking(log, True)
    return open(log, "w", encoding="ascii")


def line(sequence, slot, text):
    stamp = int(time.clock_gettime(time.CLOCK_MONOTONIC) * 1e6)
    return f"3,{sequence},{stamp},-;NVRM: Xid (PCI:{slot}): {text}\n"


def slot(yard, gpu):
    return yard.daemon.get(f"/api/gpu/devices/{gpu}").json()["pci_address"].rsplit(".", 1)[0]


def firing(yard):
    return {(one["rule"], one["gpu"] and one["gpu"]["index"]): one
            for one in yard.json("alerts", "alerts")["alerts"]}


def wait_for(yard, rule, gpu=0):
    return wait_until(lambda: firing(yard).get((rule, gpu)), f"the alert {rule} of GPU {gpu}")


def withheld(yard):
    return {one["index"] for one in yard.queue()["withheld"]}


def dropped(yard):
    text = yard.daemon.get("/metrics").text
    return {source: int(count) for source, count in
            re.findall(r'^gpuyard_events_dropped_total\{source="(\w+)"\} (\d+)$', text, re.M)}


def test_fatal_xid_fires_behind_flood_of_minor_xids(start):
    yard, fifo = start()
    place = slot(yard, 0)
    with kernel(fifo) as log:
        for n in range(3000):
            log.write(line(n, place, f"31, pid={n + 10}, name=python3, Ch {n:08x}"))
        log.write(line(4000, place, "95, pid=99, name=python3, Uncontained"))
        log.write(line(4001, place, "79, GPU has fallen off the bus."))
    fatal = wait_for(yard, "xid-fatal")
    assert fatal["xid"] == 79 and fatal["level"] == "critical"
    wait_until(lambda: withheld(yard) == {0}, "GPU 0 to be withheld")
    assert firing(yard)[("xid-program", 0)]["level"] == "info"
    counts = wait_until(lambda: dropped(yard), "the metric")
    assert counts["driver"] == 0 and 2000 < counts["kernel_log"] < 3000
    events = yard.daemon.get("/api/gpu/events?samples=none&since=oldest&follow=false").text
    assert '"xid":95' in events and '"xid":79' in events
