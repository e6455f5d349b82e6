"""Alerts arrive at real receivers over plain HTTP and TLS."""

import hashlib
import hmac
import json
import os
import subprocess
import threading
import time

from program import clean_environment, wait_until
from receiver import Receiver, make_certificate, secret_file

DRIVER = os.environ.get("GPUYARD_NOTIFY_DRIVER", "build/release/src/io/notify/notify_driver")


def notice(ident, gpu=3, **other):
    return {
        "id": ident, "key": f"hot/GPU-{gpu}", "rule": "hot", "status": "firing", "severity": 85,
        "level": "critical", "message": f"GPU {gpu} is at 91 °C", "advice": "Check its fans.",
        "gpu": {"index": gpu, "uuid": f"GPU-{gpu}", "pci_address": "00000000:3B:00.0",
                "name": "NVIDIA H100"},
        "host": "node7", "started_at": rfc3339(time.time() - 60), "ended_at": None,
        "simulated": False, "test": False} | other


def resolved(ident, gpu=3):
    return notice(ident, gpu, status="resolved", ended_at=rfc3339(time.time()))


def rfc3339(seconds):
    whole = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))
    return f"{whole}.{int(seconds % 1 * 1000):03}Z"


class Driver:
    """The queues and sinks, without the daemon around them."""

    def __init__(self, directory, toml, **environment):
        self.file = directory / "alerts.toml"
        self.file.write_text(toml)
        with (directory / "log").open("a") as log:
            self.process = subprocess.Popen([DRIVER, self.file], stdin=subprocess.PIPE, text=True,
                                            stdout=subprocess.PIPE, stderr=log,
                                            env=clean_environment(directory, **environment))
        self.said = []
        self.thread = threading.Thread(target=self.listen)
        self.thread.start()
        wait_until(lambda: self.said, "the driver")
        assert self.said == ["ready"]

    def listen(self):
        for line in self.process.stdout:
            self.said.append(line.rstrip("\n"))

    def tell(self, *lines):
        for line in lines:
            self.process.stdin.write((line if isinstance(line, str) else json.dumps(line)) + "\n")
        self.process.stdin.flush()

    def hear(self, *lines):
        wait_until(lambda: set(lines) <= set(self.said), f"{lines} among {self.said}")

    def figures(self):
        before = len(self.said)
        self.tell("figures")
        count = self.file.read_text().count("[sink.")
        wait_until(lambda: len([s for s in self.said[before:] if s[0] == "{"]) >= count, "figures")
        found = [json.loads(line) for line in self.said[before:] if line[0] == "{"]
        return {one["name"]: one for one in found}

    def close(self):
        self.process.stdin.close()
        self.process.wait(timeout=10)
        self.thread.join()
        self.process.stdout.close()


def test_webhook_is_signed_and_retried_until_accepted(tmp_path, opened, record_property):
    record_property("contract", "C17")
    receiver = opened(Receiver([500, "drop", 503]))
    key = secret_file(tmp_path, "key", "s3cret\n")
    driver = opened(Driver(tmp_path, f'[sink.desk]\nkind = "webhook"\nsecret_file = "{key}"\n'
                           f'url = "{receiver.url("/in?team=1")}"\n'))
    driver.tell(notice("n-1"))
    driver.hear("delivered desk n-1")
    assert len(receiver.told) == 4
    for told in receiver.told:
        assert told.path == "/in?team=1"
        assert told.headers["content-type"] == "application/json"
        assert told.headers["x-gpuyard-delivery"] == "n-1"  # how a receiver knows it again
        signed = f'{told.headers["x-gpuyard-timestamp"]}.{told.text}'.encode()
        mac = hmac.new(b"s3cret", signed, hashlib.sha256).hexdigest()
        assert told.headers["x-gpuyard-signature"] == f"sha256={mac}"
        assert abs(int(told.headers["x-gpuyard-timestamp"]) - time.time()) < 60
        body = told.json()
        assert body.pop("schema") == 1
        assert body == notice("n-1", started_at=body["started_at"])
    figures = driver.figures()["desk"]
    assert (figures["delivered_total"], figures["retries_total"], figures["queued"]) == (1, 3, 0)
    assert not figures["failing"]


def test_slack_and_pagerduty_are_notified_over_tls(tmp_path, opened, record_property):
    record_property("contract", "C17")
    certificate = make_certificate(tmp_path)
    slack = opened(Receiver(certificate=certificate))
    pager = opened(Receiver([(202, {})], certificate=certificate))
    url = secret_file(tmp_path, "url", slack.url("/services/T0/B0/xyz", "localhost"))
    key = secret_file(tmp_path, "key", "R0UTINGKEY")
    driver = opened(Driver(
        tmp_path,
        f'[sink.slack]\nkind = "slack"\nurl_file = "{url}"\nca_file = "{certificate[0]}"\n'
        f'[sink.pager]\nkind = "pagerduty"\nurl = "{pager.url("/v2/enqueue")}"\n'
        f'routing_key_file = "{key}"\nca_file = "{certificate[0]}"\n'))
    driver.tell(notice("n-1"), resolved("n-2"))
    driver.hear("delivered slack n-2", "delivered pager n-2")
    assert [t.path for t in slack.told] == ["/services/T0/B0/xyz"] * 2
    assert slack.told[0].headers["host"] == f"localhost:{slack.port}"
    assert slack.told[0].json()["text"] == "CRITICAL: GPU 3 is at 91 °C"
    assert slack.told[1].json()["text"] == "RESOLVED: GPU 3 is at 91 °C"
    trigger, resolve = (told.json() for told in pager.told)
    assert trigger["routing_key"] == resolve["routing_key"] == "R0UTINGKEY"
    assert (trigger["event_action"], resolve["event_action"]) == ("trigger", "resolve")
    assert trigger["dedup_key"] == resolve["dedup_key"] == "hot/GPU-3"
    assert trigger["payload"]["severity"] == "critical"
