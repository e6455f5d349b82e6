"""GET /api/gpu/stream/power: the present power, many times a second, while a client reads."""

import json
import socket
import time

from program import PATIENCE, wait_until


class Stream:
    """A raw listener on TCP: each event is (name, id, data)."""

    def __init__(self, yard, query):
        self.socket = socket.create_connection(("127.0.0.1", yard.port), timeout=PATIENCE)
        self.socket.sendall(f"GET /api/gpu/stream/power?{query} HTTP/1.0\r\nHost: localhost\r\n\r\n".encode())
        self.file = self.socket.makefile("r", encoding="utf-8", newline="\n")
        while self.file.readline().strip():
            pass

    def next(self):
        fields = {}
        while True:
            line = self.file.readline()
            if not line:
                return None
            line = line.rstrip("\n")
            if line:
                name, _, value = line.partition(": ")
                fields[name] = value
            elif "data" in fields:
                return fields["event"], fields.get("id"), json.loads(fields["data"])
            else:
                fields = {}

    def close(self):
        self.file.close()
        self.socket.close()


def samples(stream, count):
    return [stream.next()[2] for _ in range(count)]


def test_first_value_is_immediate_and_rate_matches_request(shared, record_property):
    record_property("contract", "B19")
    yard = shared("--simulate", "4")
    began = time.monotonic()
    stream = Stream(yard, "gpus=0&hz=50")
    first = stream.next()
    assert time.monotonic() - began < 1
    assert first[0] == "power" and first[1] is None
    heard = samples(stream, 50)
    assert {sample["index"] for sample in heard} == {0}
    for sample in heard:
        assert sample["instant"] and 0 < sample["power_w"] < 1000, sample
    times = [sample["t_ms"] for sample in heard]
    assert times == sorted(times) and 700 <= times[-1] - times[0] <= 3000
    stream.close()


def test_hanging_gpu_gives_reason_while_others_stream(daemon, world, record_property):
    record_property("contract", "B19")
    world.start("--gpus", "2")
    yard = daemon(GPUYARD_SIM_WORLD=str(world.directory))
    wait_until(lambda: len(yard.get("/api/gpu/snapshot").json()["devices"]) == 2, "the GPUs")
    world.hang(1)
    stream = Stream(yard, "hz=20")
    heard = samples(stream, 60)
    sick = [sample for sample in heard if sample["index"] == 1]
    assert sick and all(sample["power_w"] is None and sample["why"] for sample in sick[1:])
    assert sum(sample["power_w"] is not None for sample in heard if sample["index"] == 0) > 30
    world.heal(1)
    wait_until(lambda: (sample := stream.next()[2])["index"] == 1
               and sample["power_w"] is not None, "the GPU to be back")
    stream.close()


def test_missing_driver_returns_503(daemon):
    answer = daemon("--nvml", "/nowhere/lib.so").get("/api/gpu/stream/power")
    assert answer.status == 503
