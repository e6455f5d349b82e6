"""A real Alertmanager of a test's own, on loopback, with its data in the test's directory."""

import json
import subprocess
import urllib.request

from program import free_port, wait_until

PROGRAM = "prometheus-alertmanager"


class Alertmanager:
    """The real Alertmanager, which forwards alerts to `receiver`."""

    def __init__(self, directory, receiver, resolve_timeout="5m"):
        self.port = free_port()
        config = directory / "alertmanager.yml"
        config.write_text(
            f"global:\n  resolve_timeout: {resolve_timeout}\n"
            "route:\n  receiver: desk\n  group_by: [alertname]\n  group_wait: 1s\n"
            "  group_interval: 1s\n  repeat_interval: 1h\nreceivers:\n- name: desk\n"
            f"  webhook_configs:\n  - url: {receiver.url()}\n")
        self.log = (directory / "alertmanager.log").open("w")
        self.process = subprocess.Popen(
            [PROGRAM, f"--config.file={config}",
             f"--storage.path={directory}/alertmanager", "--cluster.listen-address=",
             f"--web.listen-address=127.0.0.1:{self.port}"], stdout=self.log, stderr=self.log)
        wait_until(self.is_ready, "Alertmanager")

    def url(self, path=""):
        return f"http://127.0.0.1:{self.port}{path}"

    def get(self, path):
        with urllib.request.urlopen(self.url(path), timeout=10) as answer:
            return answer.read().decode()

    def is_ready(self):
        try:
            return "OK" in self.get("/-/ready")
        except OSError:
            return False

    def active(self):
        return json.loads(self.get("/api/v2/alerts"))

    def by_gpu(self):
        """The alerts that it has, by the GPU's UUID."""
        return {alert["labels"]["uuid"]: alert for alert in self.active()}

    def close(self):
        self.process.terminate()
        self.process.wait(timeout=10)
        self.log.close()
