"""Alerts that name their cause: what stops work is seen behind a flood of notes, the kernel's own words are said,
and advice fits the fault."""

import contextlib
import os
import re
import socket
import threading
import time

import pytest

from program import PATIENCE, wait_until
from receiver import Receiver


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


def test_nvlink_xid_line_decides_whether_fatal(start):
    yard, fifo = start()
    with kernel(fifo) as log:
        log.write(line(1, slot(yard, 0), "149, pid='<unknown>', name=<unknown>, "
                                         "NETIR_LINK_DOWN Fatal XC0 i0 Link 14"))
        log.write(line(2, slot(yard, 1), "145, pid='<unknown>', name=<unknown>, "
                                         "RLW_SRC_TRACK Nonfatal XC1 i0 Link 17"))
    fatal = wait_for(yard, "xid-declared-fatal", 0)
    assert fatal["severity"] == 90
    assert fatal["message"] == ("GPU 0: Xid 149. An NVLink error in the network interface (NETIR). "
                                "(NETIR_LINK_DOWN Fatal XC0 i0 Link 14)")
    warning = wait_for(yard, "xid-nvlink", 1)
    assert warning["severity"] == 45
    assert "(RLW_SRC_TRACK Nonfatal XC1 i0 Link 17)" in warning["message"]
    wait_until(lambda: withheld(yard) == {0}, "GPU 0 alone to be withheld")


def test_corrupted_inforom_has_separate_alert_and_advice(tmp_path, world, daemon):
    world.start("--gpus", "3", "--load", "idle")
    world.inject(0, "--call", "identity", "--code", "14")
    world.inject(1, "--call", "firmware", "--code", "14")
    world.inject(2, "--call", "identity", "--code", "999")
    yard = daemon(GPUYARD_SIM_WORLD=str(world.directory))

    def alerts():
        return {(one["rule"], one["gpu"]["index"]): one
                for one in yard.get("/api/gpu/alerts").json()["alerts"] if one["gpu"]}
    expected = {("inforom-corrupted", 0), ("gpu-unreadable", 0), ("inforom-corrupted", 1), ("gpu-unreadable", 2)}
    found = wait_until(lambda: expected <= set(alerts()) and alerts(), f"{expected}")
    assert set(found) == expected
    assert "RMA" in found[("inforom-corrupted", 0)]["advice"]
    assert found[("gpu-unreadable", 2)]["message"] == "The driver reports no readings for GPU 2: Unknown Error"
    assert found[("gpu-unreadable", 0)]["message"].endswith(": Corrupted infoROM")
    assert "hangs" not in found[("gpu-unreadable", 2)]["advice"]


class Proxy:
    """Takes one request in plain text, passes it on to where its target says, and the answer back."""

    def __init__(self):
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.port = self.socket.getsockname()[1]
        self.heads = []
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            client, _ = self.socket.accept()
            client.settimeout(PATIENCE)
            with client, contextlib.suppress(OSError):
                self.pass_on(client)

    def pass_on(self, client):
        request = b""
        while b"\r\n\r\n" not in request:
            if not (more := client.recv(65536)):
                return  # a client that gave up
            request += more
        head, _, body = request.partition(b"\r\n\r\n")
        length = int(re.search(rb"Content-Length: (\d+)", head)[1])
        while len(body) < length:
            if not (more := client.recv(65536)):
                return
            body += more
        self.heads.append(head.decode())
        host, port, path = re.match(rb"POST http://([^:/]+):(\d+)(\S+) ", head).groups()
        with socket.create_connection((host, int(port)), timeout=PATIENCE) as server:
            rest = head.split(b"\r\n", 1)[1]
            server.sendall(b"POST " + path + b" HTTP/1.1\r\n" + rest + b"\r\n\r\n" + body)
            server.shutdown(socket.SHUT_WR)  # so that the receiver ends after its answer
            while answer := server.recv(65536):
                client.sendall(answer)


def test_a_sink_passes_its_proxy(start, opened):
    receiver, proxy = opened(Receiver()), Proxy()
    yard, _ = start(alerts=f'[sink.desk]\nkind = "webhook"\nurl = "{receiver.url()}"\n'
                           f'proxy = "http://127.0.0.1:{proxy.port}"\n')
    assert yard.go("alerts", "test").returncode == 0
    assert len(receiver.told) == 1 and receiver.told[0].json()["test"] is True
    assert proxy.heads[0].startswith(f"POST {receiver.url()}")


# The variable's value may contain a password.
def test_unused_proxy_variable_is_named_without_value(tmp_path, daemon, run):
    file = tmp_path / "alerts.toml"
    file.write_text('[sink.desk]\nkind = "webhook"\nurl = "https://desk.invalid/x"\ntimeout_s = 2\n',
                    encoding="utf-8")
    config = tmp_path / "gpuyard.toml"
    config.write_text(f'[alerts]\nfile = "{file}"\n', encoding="utf-8")
    yard = daemon("--simulate", "1", "--config", str(config), https_proxy="http://127.0.0.1:9")
    ended = run("alerts", "test", GPUYARD_SOCKET=yard.socket)
    assert ended.returncode != 0
    said = "https_proxy is set but not used: to connect through a proxy, set proxy in [sink.desk]"
    assert said in ended.stdout + ended.stderr
    assert "127.0.0.1:9" not in ended.stdout + ended.stderr, "it may hold a password"
