"""The history of the GPUs: over HTTP, on the command line, through restarts and with broken disks."""

import csv
import io
import json
import re
import signal
import sqlite3
import time


from program import wait_until

HOUR = 3_600_000


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


def restarted(daemon, yard, how=signal.SIGTERM):
    yard.stop(how)
    return daemon("--simulate", "2", directory=yard.directory)


def test_each_reading_is_in_order_with_its_unit(daemon):
    history = wait_for_readings(daemon("--simulate", "2"), 4)
    assert history["metric"] == "power_draw_w" and history["unit"] == "W"
    assert history["resolution"] == "reading" and history["step_ms"] == 0
    times = [point["t_ms"] for point in history["points"]]
    assert times == sorted(set(times))
    # One a second and none lost, though a busy machine lets one be late.
    assert all(500 <= b - a < 2000 for a, b in zip(times, times[1:])), times
    assert abs(times[-1] / 1000 - time.time()) < 5
    for point in values(history):
        assert 0 < point["min"] == point["mean"] == point["max"] < 1000
    assert history["summary"]["readings"] == len(values(history))


def test_restart_keeps_minutes_and_notes_finer_ring_start(daemon):
    yard = daemon("--simulate", "2")
    first = wait_for_readings(yard, 3)
    began = first["points"][0]["t_ms"]
    yard = restarted(daemon, yard)
    wait_for_readings(yard, 1)
    history = readings(yard, since="1h")
    assert history["resolution"] == "minute"
    assert any("single readings since" in note for note in history["notes"]), history["notes"]
    assert history["points"][0]["t_ms"] <= began
    assert history["summary"]["readings"] >= len(values(first)) + 1
    wait_until(lambda: readings(yard, since="1s")["resolution"] == "reading",
               "the finer ring to reach back a second")


def test_history_continues_after_kill(daemon):
    yard = daemon("--simulate", "2")
    wait_for_readings(yard, 2)
    yard = restarted(daemon, yard)
    wait_for_readings(yard, 2)
    yard = restarted(daemon, yard, signal.SIGKILL)
    wait_for_readings(yard, 1)
    assert readings(yard, since="1h")["resolution"] == "minute"
    assert "history:" not in yard.log()


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


def varint(number):
    out = b""
    while number >= 0x80:
        out += bytes([number & 0x7f | 0x80])
        number >>= 7
    return out + bytes([number])


def constant_hour(begin_ms, value):
    """A block of 60 minutes in which nothing changed: see src/core/history/block.cpp."""
    columns = (value, 0, 0, 60)
    return (varint(60) + varint(2 * begin_ms) + varint(60_000) + varint(0) +
            b"".join(b"\0" + varint(2 * column) for column in columns))


def test_query_of_a_month_does_not_block_loop(daemon):
    yard = daemon("--simulate", "2")
    wait_for_readings(yard, 2)
    yard.stop()
    hours = 29 * 24
    db = sqlite3.connect(f"{yard.state}/history.db")
    begin = int(time.time() * 1000) - (hours + 1) * HOUR
    db.execute("INSERT INTO runs VALUES(0, 'a boot before', ?, 0, ?)", (begin, hours * HOUR))
    for (series,) in db.execute("SELECT id FROM series").fetchall():
        db.executemany("INSERT INTO minutes VALUES(?, 0, ?, ?)",
                       [(series, i * HOUR, constant_hour(i * HOUR, 123_000)) for i in range(hours)])
    db.commit()
    db.close()
    yard = daemon("--simulate", "2", directory=yard.directory)
    wait_for_readings(yard, 1)
    history = readings(yard, since="30d", points=2000)
    assert history["resolution"] == "minute" and history["step_ms"] >= 60_000
    assert 1000 < len(history["points"]) <= 2002
    assert history["summary"]["readings"] >= hours * 3600
    assert history["points"][5]["mean"] == 123
    times = [point["t_ms"] for point in history["points"]]
    assert times == sorted(set(times))
    lag = yard.get("/metrics").text
    slow = re.search(r'loop_lag_seconds_bucket\{le="0\.1"\} (\d+)', lag)
    count = re.search(r"loop_lag_seconds_count (\d+)", lag)
    assert slow and count and slow[1] == count[1], "the loop was never late by a tenth of a second"


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
