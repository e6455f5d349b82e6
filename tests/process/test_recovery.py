"""The recovery matrix: each way in which GPUs and drivers fail, its report at every face, and its
end without help. docs/recovery.md is this table; GPUYARD_WRITE_GOLDEN=1 rewrites it.
"""

import json
import os
import re
import signal
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Callable

import pytest

from program import children, wait_until

DOCUMENT = Path(__file__).parent.parent.parent / "docs" / "recovery.md"
SICK = 1  # the GPU that things happen to, of four
PROMPT = 5  # seconds a daemon may take to end, whatever hangs


@dataclass
class Row:
    fault: str
    breaks: Callable  # of (world, yard)
    heals: Callable
    recovers: str  # in words
    condition: str = "responsive"  # of the sick GPU
    why: str = ""  # a regular expression
    missing: dict = field(default_factory=dict)  # readings that are null, and why
    health: str | None = "healthy"  # None: not known
    cli: str = ""  # a line of `gpuyard devices`, as a regular expression
    series: list = field(default_factory=list)  # in /metrics
    no_series: list = field(default_factory=list)
    events: list = field(default_factory=list)  # their kinds, in order
    back: list = field(default_factory=list)  # those of the recovery
    everybody: bool = False  # all GPUs are struck
    driver_up: bool = True


def kill_host(world, yard):
    os.kill(yard.driver_host(), signal.SIGKILL)


def freeze_host(world, yard):
    os.kill(yard.driver_host(), signal.SIGSTOP)


def thaw_host(world, yard):
    for child in children(yard.process.pid):
        os.kill(child, signal.SIGCONT)


def nothing(world, yard):
    pass


def heal(world, yard):
    world.heal(SICK)


SILENT = r"the driver has not responded for \d+\.\d s; showing the last readings"

ROWS = [
    Row("an unsupported reading (3)",
        lambda w, y: w.fail(SICK, "utilization_rates", 3), heal,
        "within ten minutes of being supported",
        missing={"utilization_gpu_percent": "Not Supported"},
        no_series=['gpu_utilization_percent{device="1"}'], cli=r"^ +1 .* - "),
    Row("a reading without permission (4)",
        lambda w, y: w.fail(SICK, "power_usage", 4), heal, "with the next reading",
        missing={"power_draw_w": "Insufficient Permissions"},
        no_series=['gpu_power_watts{device="1"}']),
    Row("one call fails once (999)",
        lambda w, y: w.fail(SICK, "temperature", 999, "--times", "1"), nothing,
        "with the next reading", series=['gpu_query_errors_total{device="1"} 1']),
    Row("a call takes 400 ms",
        lambda w, y: w.slow(SICK, "temperature", 400), heal,
        "no recovery needed: its readings are late",
        series=['gpu_temperature_celsius{device="1"}']),
    Row("the GPU falls off the bus (15)",
        lambda w, y: w.lose(SICK), lambda w, y: w.reset(SICK), "with the next reading after a reset",
        condition="unavailable", why="GPU is lost", missing={"power_draw_w": "GPU is lost"},
        health="unhealthy", cli="^GPU 1 is unavailable: GPU is lost",
        series=['gpu_responsive{device="1"} 0', 'gpu_health{device="1"} 2'],
        no_series=['gpu_power_watts{device="1"}'], events=["gpu_unavailable", "health_changed"],
        back=["gpu_responsive", "health_changed"]),
    Row("the GPU requires a reset (16)",
        lambda w, y: w.require_reset(SICK), lambda w, y: w.reset(SICK),
        "with the next reading after a reset",
        condition="unavailable", why="GPU requires reset", health="unhealthy",
        missing={"power_draw_w": "GPU requires reset"},
        cli="^GPU 1 is unavailable: GPU requires reset", series=['gpu_responsive{device="1"} 0'],
        no_series=['gpu_power_watts{device="1"}'], events=["gpu_unavailable", "health_changed"],
        back=["gpu_responsive", "health_changed"]),
    Row("a call on one GPU hangs",
        lambda w, y: w.hang(SICK), heal, "when the call returns",
        condition="unresponsive", why=SILENT, health=None, cli="^GPU 1 is unresponsive: ",
        series=['gpu_responsive{device="1"} 0'], no_series=['gpu_power_watts{device="1"}'],
        events=["gpu_unresponsive"], back=["gpu_responsive"]),
    Row("every call hangs: a lock held in the driver",
        lambda w, y: w.hang_driver(), lambda w, y: w.heal_all(),
        "when calls return; the driver-host is replaced after 30 s, unless two killed ones still hang",
        condition="unresponsive", why=SILENT, health=None, cli="^GPU 1 is unresponsive: ", everybody=True,
        series=['gpu_responsive{device="0"} 0', 'gpu_responsive{device="1"} 0'],
        no_series=["gpu_power_watts{"], events=["gpu_unresponsive"], back=["gpu_responsive"]),
    Row("the driver is unloaded (9)",
        lambda w, y: w.unload_driver(), lambda w, y: w.load_driver(),
        "within 10 s of being loaded", driver_up=False, everybody=True,
        condition="gone", series=["gpuyard_driver_up 0"], no_series=["gpu_power_watts{"],
        events=["driver_down"], back=["driver_up"]),
    Row("the driver is replaced at runtime (18)",
        lambda w, y: w.reload_driver(seconds=1, version="550.54.15"), nothing,
        "with a new driver-host, which loads the new one", everybody=True, events=["driver_down", "driver_up"],
        series=["gpuyard_driver_up 1"]),
    Row("the driver-host crashes", kill_host, nothing,
        "with another driver-host, within 100 ms", events=["driver_down", "driver_up"], everybody=True,
        series=["gpuyard_driver_up 1"]),
    Row("the driver-host is stopped", freeze_host, thaw_host,
        "when it continues; it is replaced after 30 s", condition="unresponsive", why=SILENT,
        health=None, everybody=True, cli="^GPU 1 is unresponsive: ", series=['gpu_responsive{device="1"} 0'],
        no_series=["gpu_power_watts{"], events=["gpu_unresponsive"], back=["gpu_responsive"]),
    Row("Xid 79, the event alone", lambda w, y: w.xid(SICK, 79), nothing,
        "no recovery needed",
        series=['xid="79"} 1'], events=["xid"]),
    Row("an uncorrectable memory error",
        lambda w, y: w.memory_errors(SICK, uncorrected=1), nothing,
        "with a reset, a reboot, cleared counters or an acknowledged alert, not with a restart of the daemon", health="unhealthy",
        series=['gpu_health{device="1"} 2'], events=["health_changed"]),
    Row("ambient temperature 30 degrees higher",
        lambda w, y: w.heat(SICK, 30), lambda w, y: w.heat(SICK, 0), "when it is cool again",
        health="degraded", series=['gpu_health{device="1"} 1'], events=["health_changed"],
        back=["health_changed"]),
    Row("the board's power brake",
        lambda w, y: w.inject(SICK, "--power-brake"), heal, "when it is released",
        series=['gpu_throttle_reason_active{device="1",reason="hw_power_brake"} 1']),
    Row("a PCIe link of one lane",
        lambda w, y: w.inject(SICK, "--pcie-width", "1"), heal, "when the link is whole again",
        series=['gpu_pcie_width{device="1"} 1']),
]
"""Each row strikes the second of four GPUs."""


class Events:
    """The kinds of what happened to the sick GPU, or to none."""

    def __init__(self, yard):
        self.yard = yard
        self.seen = len(self.kinds())

    def kinds(self):
        text = self.yard.get("/api/gpu/events?samples=none&since=oldest&follow=false").text
        told = [json.loads(block.split("data: ", 1)[1].splitlines()[0])
                for block in text.split("\n\n") if "event: device" in block]
        return [one["kind"] for one in told if one["index"] in (None, SICK)]

    def new(self):
        return self.kinds()[self.seen:]

    def forget(self):
        self.seen = len(self.kinds())


def in_order(wanted, found):
    rest = iter(found)
    return all(any(kind == one for one in rest) for kind in wanted)


def snapshot(yard):
    return yard.get("/api/gpu/snapshot").json()


def all_well(yard):
    now = snapshot(yard)
    return (now["driver_initialised"] and len(now["devices"]) == 4
            and all(gpu["condition"] == "responsive" and gpu["readings"]["power_draw_w"] is not None
                    for gpu in now["devices"]))


def is_said(row, yard):
    now = snapshot(yard)
    if now["driver_initialised"] != row.driver_up:
        return False
    if not row.driver_up:
        return yard.get("/ready").status == 503
    gpu = now["devices"][SICK]
    return (gpu["condition"] == row.condition and bool(re.fullmatch(row.why, gpu["why"] or ""))
            and all(gpu["readings"][key] is None and gpu["missing"][key] == why
                    for key, why in row.missing.items())
            and gpu["health"] == row.health)


def exports(row, yard):
    text = yard.get("/metrics").text
    return (all(one in text for one in row.series) and not any(one in text for one in row.no_series))


def keep_their_cadence(yard):
    """The other GPUs are read every second."""
    def readings():
        return [(gpu["readings"]["energy_total_j"], gpu["age_ms"])
                for gpu in snapshot(yard)["devices"] if gpu["index"] != SICK]
    before = readings()
    began = time.monotonic()
    wait_until(lambda: all(later > energy and age < 1500 for (energy, _), (later, age)
                           in zip(before, readings(), strict=True)), "another reading of each")
    assert time.monotonic() - began < 1.5


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.fault)
def test_recovers(row, daemon, run, world, record_property):
    record_property("contract", "A10 A13 E6")
    world.start("--gpus", "4", "--load", "steady:0.4")
    yard = daemon(GPUYARD_SIM_WORLD=str(world.directory))
    wait_until(lambda: all_well(yard), "a yard without faults")
    events = Events(yard)

    row.breaks(world, yard)
    wait_until(lambda: is_said(row, yard), f"the API to say: {row.condition} {row.why}")
    wait_until(lambda: exports(row, yard), f"{row.series} in /metrics, and not {row.no_series}")
    wait_until(lambda: in_order(row.events, events.new()), f"the events {row.events}")
    if row.cli:
        shown = run("devices", "--socket", yard.socket)
        assert re.search(row.cli, shown.stdout, re.MULTILINE), shown.stdout
    if not row.everybody:
        keep_their_cadence(yard)
    assert yard.get("/health").status == 200

    events.forget()
    row.heals(world, yard)
    if "ten minutes" in row.recovers or "not by itself" in row.recovers:
        return
    wait_until(lambda: all_well(yard), "everything to be well again by itself")
    wait_until(lambda: in_order(row.back, events.new()), f"the events {row.back}")


@pytest.mark.parametrize("row", [row for row in ROWS if row.condition == "unresponsive"],
                         ids=lambda row: row.fault)
def test_daemon_stops_promptly_with_hanging_gpu(row, daemon, world):
    world.start("--gpus", "4")
    yard = daemon(GPUYARD_SIM_WORLD=str(world.directory))
    row.breaks(world, yard)
    wait_until(lambda: snapshot(yard)["devices"][SICK]["condition"] == "unresponsive", "the hang")
    began = time.monotonic()
    assert yard.stop() == 0
    assert time.monotonic() - began < PROMPT


def test_gpu_keeps_identity_when_index_moves(daemon, world, record_property):
    record_property("contract", "A10")
    world.start("--gpus", "3")
    yard = daemon(GPUYARD_SIM_WORLD=str(world.directory))
    wait_until(lambda: len(snapshot(yard)["devices"]) == 3, "the GPUs")
    uuids = [gpu["uuid"] for gpu in snapshot(yard)["devices"]]
    world.unplug(0)
    wait_until(lambda: snapshot(yard)["devices"][0]["condition"] == "unavailable", "the loss")
    assert snapshot(yard)["devices"][0]["uuid"] == uuids[0]
    world.plug(uuid=uuids[0], index=2)
    kill_host(world, yard)  # who had opened the driver keeps its numbering

    def moved():
        devices = snapshot(yard)["devices"]
        return [gpu["uuid"] for gpu in devices] == [uuids[1], uuids[2], uuids[0]] and all(
            gpu["condition"] == "responsive" for gpu in devices)
    wait_until(moved, "the GPU to be found under its new index")
    assert yard.get(f"/api/gpu/devices/{uuids[0]}").json()["index"] == 2


# ---- the document


def words(values):
    return ", ".join(f"`{value}`" for value in values) or "-"


def document():
    lines = [
        "# Recover from faults of GPUs and drivers", "",
        "    gpuyard alerts        what is wrong, and what to do",
        "    gpuyard events        what has happened", "",
        "This page lists faults, their reports and their ends; [troubleshooting.md](troubleshooting.md) starts from a symptom.",
        "Unaffected GPUs are read every second. A missing reading is null with a reason in JSON, has no series in",
        "`/metrics`, and is `-` on the screen. `tests/process/test_recovery.py` tests each row, and writes this page.", "",
        "| fault | API | `gpuyard devices` | `/metrics` | events | ends |",
        "|---|---|---|---|---|---|"]
    for row in ROWS:
        said = f"`{row.condition}`" if row.driver_up else "no driver; `/ready` is 503"
        why = row.why.replace(r"\d+\.\d", "N").removesuffix("; showing the last readings")
        said += f": {why}" if why else ""
        said += f"; {words(row.missing)} null" if row.missing else ""
        said += f"; health `{row.health or 'null'}`" if row.health != "healthy" else ""
        cli = row.cli.lstrip("^").rstrip(" :").replace(r"^ +1 .* - ", "`-`") if row.cli else "-"
        cli = "`-` in its place" if row.cli.startswith("^ +1") else cli
        missing = [f"none of {words(row.no_series)}"] if row.no_series else []
        metrics = "; ".join([words(row.series)] * bool(row.series) + missing) or "-"
        events = words(row.events) + (f"; then {words(row.back)}" if row.back else "")
        scope = " (all GPUs)" if row.everybody else ""
        lines.append(f"| {row.fault}{scope} | {said} | {cli} | {metrics} | {events} | {row.recovers} |")
    lines += ["",
              "## After a restart", "",
              "`state.db` stores the boards, their indexes and their known memory errors (`test_machine_memory.py`):", "",
              "- The first verdict waits for it, 2 s at most; on a slower disk, the verdict is made again.",
              "- A board that the driver no longer lists is missing until it is back or its alert is acknowledged.",
              "- Changes are written at once; the time when a board was last seen, once an hour and when the daemon stops.",
              "- Simulated boards, recordings and another NVML (`--nvml`) count as another machine.", "",
              "## A row that cannot be read", "",
              "    sqlite3 state.db 'SELECT * FROM unreadable_rows'      # stop the daemon first",
              "    sqlite3 state.db 'DELETE FROM unreadable_rows'", "",
              "An error of the disk or the memory can make one row of `state.db` unreadable. The daemon moves it to the table",
              "`unreadable_rows` and continues. The log names the row, and so do `gpuyard queue` and `gpuyard doctor` until the",
              "daemon ends. Later daemons report only that the table has rows (`test_lease_disk.py`). The `content` of a row has",
              "the form that `INSERT INTO origin VALUES(...)` takes, so you can repair it and insert it again.", "",
              "| row | effect |", "|---|---|",
              "| a waiting or ended lease | it is forgotten |",
              "| a lease that had GPUs | it is ended, and its GPUs are cordoned: check which processes use them, then "
              "`gpuyard uncordon N`. If its GPUs cannot be read either, every GPU is cordoned, also "
              "one that the driver lists later |",
              "| a counter of leases | fences continue from a number that was never used |",
              "| a token | it is refused: create another one |",
              "| a setting | it stays as it is until it is set or reset; a user's request for it that cannot be "
              "read no longer counts |",
              "| an unresolved alert | its GPU is cordoned, because it may have been quarantined. It fires "
              "again if its cause is still present |",
              "| a resolved alert | it is left out of the history |",
              "| a board | its GPU is cordoned, because new memory errors cannot be distinguished from old ones |",
              "| an energy account, an energy window | the account starts again; the window is lost |", ""]
    return "\n".join(lines)


def test_the_document_is_this_table():
    if os.environ.get("GPUYARD_WRITE_GOLDEN"):
        DOCUMENT.write_text(document(), encoding="utf-8")
    assert DOCUMENT.read_text(encoding="utf-8") == document()
