"""A real Prometheus of a test's own, on loopback, with its data in the test's directory."""

import json
import shutil
import subprocess
import urllib.error
import urllib.parse
import urllib.request

import pytest

from program import free_port


class Prometheus:
    """Scrapes and evaluates every second, so that a test need not wait for what happens."""

    def __init__(self, directory):
        self.directory = directory
        self.port = free_port()
        self.process = None

    def start(self, *targets, rules=None):
        return self.start_with({}, *[f"127.0.0.1:{target}" for target in targets], rules=rules)

    def start_with(self, options, *addresses, rules=None):
        """`options`: of the scrapes, as TLS."""
        program = shutil.which("prometheus")
        assert program, "install the package prometheus"
        config = self.directory / "prometheus.yml"
        config.write_text(json.dumps({
            "global": {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"},
            "rule_files": [str(rules)] if rules else [],
            "scrape_configs": [{"job_name": "gpuyard", **options,
                                "static_configs": [{"targets": list(addresses)}]}]}))
        self.process = subprocess.Popen(
            [program, f"--config.file={config}", f"--storage.tsdb.path={self.directory}/tsdb",
             f"--web.listen-address=127.0.0.1:{self.port}"],
            stdout=subprocess.DEVNULL, stderr=open(self.directory / "prometheus.log", "w"))
        return self

    def ask(self, path, **parameters):
        """The data of an API's answer; None while it does not answer at all."""
        url = f"http://127.0.0.1:{self.port}/api/v1/{path}?" + urllib.parse.urlencode(parameters)
        try:
            with urllib.request.urlopen(url, timeout=10) as response:
                return json.load(response)["data"]
        except urllib.error.HTTPError as error:
            if error.code == 503:  # it is still starting
                return None
            pytest.fail(f"{path} {parameters}: {error.read().decode()}")
        except OSError:
            return None

    def query(self, expression):
        answer = self.ask("query", query=expression)
        return answer["result"] if answer else []

    def firing(self):
        """The alerts that fire: name and index of the GPU, if it is about one."""
        answer = self.ask("alerts")
        return {(alert["labels"]["alertname"], alert["labels"].get("device"))
                for alert in (answer["alerts"] if answer else []) if alert["state"] == "firing"}

    def stop(self):
        if self.process is not None:
            self.process.kill()
            self.process.wait()
