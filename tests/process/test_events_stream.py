"""GET /api/gpu/events with real clients: its events, resuming, and isolation of the clients."""

import json
import os
import re
import signal
import socket
import subprocess
import threading

import jsonschema
from chromium import Chromium
from program import PATIENCE, PROGRAM, clean_environment, wait_until


def restart_driver(yard):
    """Makes two events: driver_down, driver_up."""
    before = yard.driver_host()
    os.kill(before, signal.SIGKILL)
    wait_until(lambda: yard.driver_host() not in (None, before), "another driver-host")
    wait_until(lambda: yard.get("/ready").status == 200, "the driver to be back")


def test_curl_reads_stream_over_tcp_and_socket(shared):
    yard = shared("--simulate", "2")
    url = f"http://127.0.0.1:{yard.port}/api/gpu/events?follow=false"
    for arguments in ([url], ["--http1.0", url],
                      ["--unix-socket", yard.socket, "http://localhost/api/gpu/events?follow=false"]):
        done = subprocess.run(["curl", "-sN", *arguments], capture_output=True, text=True,
                              timeout=PATIENCE, check=False)
        assert done.returncode == 0, done  # the body was there in full, to its last chunk
        assert done.stdout.startswith("retry: 2000\n\nid: ")
        assert "event: resync\n" in done.stdout
    head = subprocess.run(["curl", "-sI", url], capture_output=True, text=True, timeout=PATIENCE,
                          check=True).stdout
    assert "Content-Type: text/event-stream" in head


class CutProxy:
    """Passes one origin's bytes on, and cuts all connections on request. Also serves a page."""

    PAGE = b"<!doctype html><title>listener</title>"

    def __init__(self, port):
        self.upstream = port
        self.sockets = []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(client,), daemon=True).start()

    def serve(self, client):
        request = client.recv(65536)
        if b" /api/" not in request.split(b"\r\n")[0]:
            client.sendall(b"HTTP/1.0 200 OK\r\nContent-Type: text/html\r\n\r\n" + self.PAGE)
            client.close()
            return
        server = socket.create_connection(("127.0.0.1", self.upstream))
        self.sockets += [client, server]
        server.sendall(request)
        try:
            while more := server.recv(65536):
                client.sendall(more)
        except OSError:
            pass
        for end in (client, server):
            end.close()

    def cut(self):
        cut, self.sockets = self.sockets, []
        for end in cut:
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def close(self):
        self.listener.close()
        self.cut()


LISTEN = """
window.seen = []; window.resyncs = 0;
const source = new EventSource('/api/gpu/events?samples=none');
source.addEventListener('resync', () => { window.resyncs += 1; });
source.addEventListener('device', (event) => {
  window.seen.push([event.lastEventId, JSON.parse(event.data).kind]);
});
"""


def test_browser_resumes_without_loss_or_repetition(daemon, tmp_path):
    yard = daemon("--simulate", "1")
    proxy = CutProxy(yard.port)
    try:
        with Chromium(tmp_path) as browser:
            page = browser.open(f"http://127.0.0.1:{proxy.port}/")
            page.wait_for("document.title == 'listener'")
            page.evaluate(LISTEN)
            page.wait_for("window.resyncs == 1")
            restart_driver(yard)
            page.wait_for("window.seen.length == 2")
            proxy.cut()
            restart_driver(yard)  # while it is away
            page.wait_for("window.seen.length == 4")
            proxy.cut()
            page.wait_for("source.readyState == EventSource.OPEN")
            restart_driver(yard)
            page.wait_for("window.seen.length == 6")
            seen = page.evaluate("window.seen")
            told = yard.get("/api/gpu/events?since=oldest&follow=false&samples=none").text
            assert [each[0] for each in seen] == re.findall(r"id: (\S+)\nevent: device\n", told)
            assert [each[1] for each in seen] == ["driver_down", "driver_up"] * 3
            assert page.evaluate("window.resyncs") == 1
    finally:
        proxy.close()


class Verb:
    """`gpuyard events` left running."""

    def __init__(self, yard, tmp_path, *arguments):
        self.process = subprocess.Popen(
            [PROGRAM, "events", "--socket", yard.socket, *arguments], text=True,
            env=clean_environment(tmp_path), stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def line(self):
        return self.process.stdout.readline()

    def end(self):
        self.process.terminate()
        return self.process.communicate(timeout=PATIENCE)


def test_events_command_prints_past_events(daemon, run):
    yard = daemon("--simulate", "1")
    restart_driver(yard)
    shown = run("events", "--socket", yard.socket)
    assert shown.returncode == 0 and shown.stderr == ""
    lines = shown.stdout.splitlines()
    assert [line.split()[1:3] for line in lines] == [["critical", "driver_down"], ["info", "driver_up"]]
    as_json = [json.loads(line) for line in
               run("events", "--json", "--socket", yard.socket).stdout.splitlines()]
    assert [each["kind"] for each in as_json] == ["driver_down", "driver_up"]
    schema = json.loads(run("schema", "events").stdout)
    assert sorted(as_json[0]) == sorted(schema["properties"])
    for each in as_json:
        jsonschema.validate(each, schema, cls=jsonschema.Draft202012Validator)
    after = run("events", "--json", "--socket", yard.socket, "--since", as_json[0]["id"])
    assert [json.loads(line)["id"] for line in after.stdout.splitlines()] == [as_json[1]["id"]]


def test_events_verb_follows_across_daemon_restart(daemon, tmp_path):
    yard = daemon("--simulate", "1", directory=tmp_path / "same")
    restart_driver(yard)
    verb = Verb(yard, tmp_path, "--follow", "--json")
    first = [json.loads(verb.line()) for _ in range(2)]
    assert [each["kind"] for each in first] == ["driver_down", "driver_up"]
    yard.stop()
    yard = daemon("--simulate", "1", directory=tmp_path / "same")
    restart_driver(yard)
    second = [json.loads(verb.line()) for _ in range(2)]
    assert [each["kind"] for each in second] == ["driver_down", "driver_up"]
    assert not {each["id"] for each in first} & {each["id"] for each in second}
    out, messages = verb.end()
    assert out == ""
    assert "retrying" in messages and "is reachable again" in messages
    assert "no longer has the events after" in messages


def test_events_command_errors_have_exit_codes(shared, run):
    nobody = run("events")
    assert nobody.returncode == 5 and "gpuyard serve" in nobody.stderr
    assert run("events", "--socket", "/nonexistent/a.sock", "--follow").returncode == 5
    yard = shared("--simulate", "2")
    assert run("events", "--socket", yard.socket, "--gpu", "7").returncode == 6
    assert run("events", "--socket", yard.socket, "--since", "nonsense").returncode == 2
