"""The history of the GPUs: over HTTP, on the command line, through restarts and with broken disks."""

import csv
import io
import json
import re
import sqlite3

from program import wait_until


def readings(yard, gpu=0, metric="power_draw", **more):
    query = "".join(f"&{name}={value}" for name, value in more.items())
    answer = yard.get(f"/api/gpu/devices/{gpu}/history?metric={metric}{query}")
    assert answer.status == 200, answer.text
    return answer.json()


def values(history):
    return [point for point in history["points"] if point["mean"] is not None]


def wait_for_readings(yard, count):
    """However many points they are in: after a restart a minute may hold them all."""
    return wait_until(lambda: readings(yard)["summary"]["readings"] >= count and readings(yard),
                      f"{count} readings")


def test_restart_keeps_minutes_and_notes_finer_ring_start(daemon):
    yard = daemon("--simulate", "2")
    first = wait_for_readings(yard, 3)
    began = first["points"][0]["t_ms"]
    yard.stop()
    yard = daemon("--simulate", "2", directory=yard.directory)
    wait_for_readings(yard, 1)
    history = readings(yard, since="1h")
    assert history["resolution"] == "minute"
    assert any("single readings since" in note for note in history["notes"]), history["notes"]
    assert history["points"][0]["t_ms"] <= began
    assert history["summary"]["readings"] >= len(values(first)) + 1
    wait_until(lambda: readings(yard, since="1s")["resolution"] == "reading",
               "the finer ring to reach back a second")


def test_damaged_file_is_moved_aside_and_reported_once(daemon, tmp_path):
    place = tmp_path / "damaged"
    (place / "state").mkdir(parents=True)
    (place / "state/history.db").write_bytes(b"no database at all" * 1000)
    yard = daemon("--simulate", "1", directory=place)
    wait_for_readings(yard, 2)
    for _ in range(3):
        history = readings(yard, since="2h")
        assert any("replaced with a new one" in note for note in history["notes"]), history["notes"]
        assert values(history)
    assert yard.log().count("replaced with a new one") == 1
    assert (place / "state/history.db.aside").read_bytes().startswith(b"no database")
    assert yard.stop() == 0
    runs = sqlite3.connect(place / "state/history.db").execute("SELECT count(*) FROM runs")
    assert runs.fetchone() == (1,)


def test_the_command_line_shows_draws_and_exports(shared, run):
    yard = shared("--simulate", "2")
    wait_for_readings(yard, 4)
    where = {"GPUYARD_SOCKET": yard.socket, "LC_ALL": "C.UTF-8"}
    table = run("history", "--metric", "power", "--since", "5m", **where)
    assert table.returncode == 0 and len(table.stdout.splitlines()) == 3, table.stderr
    assert re.search(r"[▁▂▃▄▅▆▇█]{20}", table.stdout) and " W" in table.stdout
    assert "simulated" in table.stderr
    ascii_table = run("history", "--metric", "power", GPUYARD_SOCKET=yard.socket, LC_ALL="C")
    assert ascii_table.stdout.isascii()
    for charset, sign in (("braille", "[\u2801-\u28ff]"), ("block", "[▀▄█]"), ("ascii", "#")):
        plot = run("history", "0", "--plot", "--charset", charset, **where)
        assert re.search(sign, plot.stdout) and plot.stdout.startswith("GPU 0 NVIDIA"), plot.stdout
        assert "\x1b" not in plot.stdout
    assert "\x1b" in run("history", "0", "--plot", "--color", "always", **where).stdout
    body = json.loads(run("history", "1", "--metric", "temp,util", "--json", **where).stdout)
    assert [one["metric"] for one in body["series"]] == [
        "temperature_core_celsius", "utilization_gpu_percent"]
    rows = list(csv.DictReader(io.StringIO(run("history", "0,1", "--csv", **where).stdout)))
    assert {row["index"] for row in rows} == {"0", "1"}
