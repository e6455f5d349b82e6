"""The daemon's one loop keeps turning while others wait: a disk that does not come back from a
write, a driver that holds its lock, a crowd of connections, and queries about a month, all at once.
"""

import re
import socket
import threading
import time

from own_disk import stuck_threads
from program import PATIENCE, wait_until

CROWD = 400
PROMPT = 2  # seconds: what waits for any of these would not come back at all
FACES = ["/health", "/api/gpu/devices", "/api/gpu/snapshot", "/metrics"]


def answers_promptly(yard, seconds):
    """Asks every face again and again; returns how often."""
    asked = 0
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for face in FACES:
            began = time.monotonic()
            assert yard.get(face).status == 200, face
            assert time.monotonic() - began < PROMPT, face
            asked += 1
    return asked


def late(yard):
    """Counts the times that the loop was more than a second late."""
    text = yard.get("/metrics").text
    count = {bound: int(value) for bound, value in
             re.findall(r'loop_lag_seconds_bucket{le="(\S+)"} (\d+)', text)}
    assert count["+Inf"] > 0
    return count["+Inf"] - count["1.0"]


def crowd(yard):
    """Clients that connect and say half a sentence."""
    sockets = []
    for _ in range(CROWD):
        one = socket.create_connection(("127.0.0.1", yard.port), timeout=PATIENCE)
        one.sendall(b"GET /metrics HT")
        sockets.append(one)
    return sockets


def ask_for_a_month(yard, stop):
    while not stop.is_set():
        for metric in ("power_draw", "energy_total", "memory_used"):
            answer = yard.get(f"/api/gpu/devices/0/history?metric={metric}&since=30d&points=20000")
            assert answer.status in (200, 503), answer.text


def reading_count(yard):
    return yard.get("/api/gpu/devices/0/history?metric=power_draw&since=5m").json()["summary"]["readings"]


def on(frozen, tmp_path, daemon, *arguments, **environment):
    """A daemon whose state lies on the file system that can be frozen."""
    place = tmp_path / "yard"
    place.mkdir()
    state = place / "state"
    state.symlink_to(frozen.mount / "state")
    (frozen.mount / "state").mkdir()
    return daemon(*arguments, directory=place, **environment)


def test_everything_at_once(daemon, frozen, tmp_path, world):
    world.start("--gpus", "4")
    yard = on(frozen, tmp_path, daemon, GPUYARD_SIM_WORLD=str(world.directory))
    wait_until(lambda: reading_count(yard) >= 2, "some history")
    frozen.freeze()
    world.hang_driver()
    sockets = crowd(yard)
    stop = threading.Event()
    asking = threading.Thread(target=ask_for_a_month, args=(yard, stop))
    asking.start()
    try:
        wait_until(lambda: stuck_threads(yard.process.pid), "a thread to be stuck in the write")
        assert answers_promptly(yard, 4) > 10
        devices = yard.get("/api/gpu/devices").json()["devices"]
        assert len(devices) == 4 and not any(gpu["is_available"] for gpu in devices)
        assert late(yard) == 0
    finally:
        stop.set()
        frozen.thaw()
        asking.join(PATIENCE)
        for one in sockets:
            one.close()
    world.heal_all()
    wait_until(lambda: all(gpu["is_available"]
                           for gpu in yard.get("/api/gpu/devices").json()["devices"]),
               "the GPUs to be back")
    assert yard.stop() == 0
    assert "corrupt" not in yard.log()
