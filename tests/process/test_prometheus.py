"""A real Prometheus and its own checker read what we export."""

import json
import os
import re
import shutil
import socket
import subprocess
import urllib.parse
import urllib.request
from pathlib import Path

import pytest

from conftest import command_line, wait_until

GOLDEN = Path(__file__).parent / "golden"
MODELS = ["a100", "h100", "h200", "l40s", "rtx4090", "t4"]
CONTRACT = ["gpu_temperature_celsius", "gpu_utilization_percent", "gpu_memory_used_bytes",
            "gpu_power_watts"]


def samples(text, name):
    return re.findall(rf"^{name}(\{{.*\}}) (\S+)$", text, re.M)


def test_the_four_agreed_families_carry_the_device_alone(daemon, record_property):
    record_property("contract", "C14")
    for prefix in ("gpuyard", "acme"):
        text = daemon("--simulate", "2", "--metrics-prefix", prefix).get("/metrics").text
        for family in CONTRACT:
            found = samples(text, f"{prefix}_{family}")
            assert [labels for labels, _ in found] == ['{device="0"}', '{device="1"}'], family
        assert 'uuid="GPU-' in samples(text, f"{prefix}_gpu_info")[0][0]


def test_the_metrics_agree_with_the_snapshot(daemon):
    yard = daemon("--simulate", "1")

    def same_generation():
        before = yard.get("/api/gpu/snapshot").json()
        text = yard.get("/metrics").text
        return before == yard.get("/api/gpu/snapshot").json() and (before, text)
    snapshot, text = wait_until(same_generation, "two answers from one snapshot")
    readings = snapshot["devices"][0]["readings"]
    assert float(samples(text, "gpuyard_gpu_power_watts")[0][1]) == readings["power_draw_w"]
    assert float(samples(text, "gpuyard_gpu_energy_joules_total")[0][1]) == readings["energy_total_j"]
    assert float(samples(text, "gpuyard_gpu_sm_clock_hertz")[0][1]) == readings["clock_sm_mhz"] * 1e6


def shape(text, device):
    """The lines of one GPU; what moves by itself is a `*`, and which GPU it is, a 0."""
    moving = re.compile(r"_(power|power_average|power_instant)_watts|_energy_|_utilization_"
                        r"|_(graphics|sm|memory|video)_clock_hertz|_gpu_(memory_)?temperature_celsius"
                        r"|memory_(used|free)_bytes|_throttle_|_performance_state|_fan_speed_"
                        r"|_pcie_generation{|_pcie_[tr]x_|_nvlink_[tr]x_|_gpm_|_gpu_health")
    lines = [line.replace(f'device="{device}"', 'device="0"')
             for line in text.splitlines() if f'device="{device}"' in line]
    return [line.rsplit(" ", 1)[0] + " *" if moving.search(line) else line for line in lines]


def test_the_series_of_each_model_are_the_committed_ones(daemon):
    """GPUYARD_WRITE_GOLDEN=1 writes them anew."""
    yard = daemon("--simulate", "6", "--model", ",".join(MODELS))
    # The performance monitors compare two samples of the slow tier.
    wait_until(lambda: "gpm_tensor" in yard.get("/metrics").text, "two rounds of the slow tier")
    text = yard.get("/metrics").text
    for device, model in enumerate(MODELS):
        found = "\n".join(shape(text, device)) + "\n"
        golden = GOLDEN / f"metrics_{model}.txt"
        if os.environ.get("GPUYARD_WRITE_GOLDEN"):
            golden.write_text(found)
        assert found == golden.read_text(), model


def test_ten_thousand_processes_cost_no_series(daemon, run):
    yard = daemon("--simulate", "1")
    world = re.search(r"--directory (\S+)", command_line(yard.keeper())).group(1)
    wait_until(lambda: "gpm_tensor" in yard.get("/metrics").text, "two rounds of the slow tier")
    before = len(shape(yard.get("/metrics").text, 0))
    added = run("sim", "attach", "--synthetic", "10000", "--gpu", "0", "--vram", "1M",
                GPUYARD_SIM_WORLD=world)
    assert added.returncode == 0, added.stderr
    wait_until(lambda: 'gpuyard_gpu_processes_compute{device="0"} 10000' in
               yard.get("/metrics").text, "the processes to be counted")
    assert len(shape(yard.get("/metrics").text, 0)) == before
    listed = yard.get("/api/gpu/devices/0").json()["processes"]
    assert len(listed) == 1024  # the rest is counted


def test_promtool_finds_nothing_to_say(daemon):
    promtool = shutil.which("promtool")
    assert promtool, "install the package prometheus"
    yard = daemon("--simulate", "6", "--model", ",".join(MODELS))
    wait_until(lambda: "gpm_tensor" in yard.get("/metrics").text, "two rounds of the slow tier")
    text = yard.get("/metrics").text
    checked = subprocess.run([promtool, "check", "metrics"], input=text, text=True,
                             capture_output=True, timeout=30, check=False)
    assert (checked.returncode, checked.stdout + checked.stderr) == (0, "")


@pytest.fixture
def prometheus(tmp_path):
    """Starts a real Prometheus that scrapes one port; gives a function that queries it."""
    program = shutil.which("prometheus")
    assert program, "install the package prometheus"
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    processes = []

    def start(target):
        config = tmp_path / "prometheus.yml"
        config.write_text(json.dumps({
            "global": {"scrape_interval": "1s", "scrape_timeout": "1s"},
            "scrape_configs": [{"job_name": "gpuyard",
                                "static_configs": [{"targets": [f"127.0.0.1:{target}"]}]}]}))
        processes.append(subprocess.Popen(
            [program, f"--config.file={config}", f"--storage.tsdb.path={tmp_path}/tsdb",
             f"--web.listen-address=127.0.0.1:{port}"],
            stdout=subprocess.DEVNULL, stderr=open(tmp_path / "prometheus.log", "w")))

        def query(expression):
            url = f"http://127.0.0.1:{port}/api/v1/query?" + urllib.parse.urlencode(
                {"query": expression})
            try:
                with urllib.request.urlopen(url, timeout=10) as response:
                    return json.load(response)["data"]["result"]
            except OSError:
                return []
        return query

    yield start
    for process in processes:
        process.kill()
        process.wait()


def test_a_real_prometheus_scrapes_us(daemon, prometheus, record_property):
    record_property("contract", "C14")
    query = prometheus(daemon("--simulate", "4").port)
    wait_until(lambda: query('up{job="gpuyard"} == 1'), "the target to be up")
    for family in CONTRACT:
        assert len(query(f"gpuyard_{family}")) == 4, family
    joined = query("gpuyard_gpu_power_watts * on(device) group_left(name) gpuyard_gpu_info")
    assert {row["metric"]["name"] for row in joined} == {"NVIDIA H100 80GB HBM3"}
    wait_until(lambda: query("sum(rate(gpuyard_gpu_energy_joules_total[10s])) > 0"),
               "joules to flow")
