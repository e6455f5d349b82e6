"""A real Prometheus and its own checker read what we export."""

import os
import re
import shutil
import subprocess
from pathlib import Path

from prometheus_client.openmetrics.parser import text_string_to_metric_families

from program import wait_until

GOLDEN = Path(__file__).parent / "golden"
MODELS = ["a100", "h100", "h200", "l40s", "rtx4090", "t4"]
CONTRACT = ["gpu_temperature_celsius", "gpu_utilization_percent", "gpu_memory_used_bytes",
            "gpu_power_watts"]


def samples(text, name):
    return re.findall(rf"^{name}(\{{.*\}}) (\S+)$", text, re.M)


def shape(text, device):
    """The lines of one GPU; what moves by itself is a `*`, and which GPU it is, a 0."""
    moving = re.compile(r"_(power|power_average|power_instant)_watts|_energy_|_utilization_"
                        r"|_(graphics|sm|memory|video)_clock_hertz|_gpu_(memory_)?temperature_celsius"
                        r"|memory_(used|free)_bytes|_throttle_|_performance_state|_fan_speed_"
                        r"|_pcie_generation{|_pcie_[tr]x_|_nvlink_[tr]x_|_gpm_|_gpu_health")
    cause = re.compile(r'cause="[a-z_]+"')
    lines = [line.replace(f'device="{device}"', 'device="0"')
             for line in text.splitlines() if f'device="{device}"' in line]
    lines = [cause.sub('cause="*"', line) for line in lines]
    return [line.rsplit(" ", 1)[0] + " *" if moving.search(line) else line for line in lines]


def test_series_of_each_model_match_committed_series(shared):
    """GPUYARD_WRITE_GOLDEN=1 rewrites the files."""
    yard = shared("--simulate", "6", "--model", ",".join(MODELS))
    # The performance monitors compare two samples of the slow tier.
    wait_until(lambda: "gpm_tensor" in yard.get("/metrics").text, "two rounds of the slow tier")
    text = yard.get("/metrics").text
    for device, model in enumerate(MODELS):
        found = "\n".join(shape(text, device)) + "\n"
        golden = GOLDEN / f"metrics_{model}.txt"
        if os.environ.get("GPUYARD_WRITE_GOLDEN"):
            golden.write_text(found)
        assert found == golden.read_text(), model


def test_promtool_accepts_metrics_of_all_models(shared):
    promtool = shutil.which("promtool")
    assert promtool, "install the package prometheus"
    yard = shared("--simulate", "6", "--model", ",".join(MODELS))
    wait_until(lambda: "gpm_tensor" in yard.get("/metrics").text, "two rounds of the slow tier")
    text = yard.get("/metrics").text
    checked = subprocess.run([promtool, "check", "metrics"], input=text, text=True,
                             capture_output=True, timeout=30, check=False)
    assert (checked.returncode, checked.stdout + checked.stderr) == (0, "")


def in_openmetrics(yard):
    return yard.get("/metrics", headers={"Accept": "application/openmetrics-text; version=1.0.0"})


def test_openmetrics_output_is_read_by_reference_parser(daemon):
    yard = daemon("--simulate", "6", "--model", ",".join(MODELS), "--metrics-dialect", "both")
    wait_until(lambda: "gpm_tensor" in yard.get("/metrics").text, "two rounds of the slow tier")
    yard.sim("inject", "--gpu", "0", "--xid", "79")
    wait_until(lambda: "xid_errors_total" in yard.get("/metrics").text, "the Xid to be counted")
    answer = in_openmetrics(yard)
    assert answer.headers["content-type"] == (
        "application/openmetrics-text; version=1.0.0; charset=utf-8")
    families = {family.name: family for family in text_string_to_metric_families(answer.text)}
    energy = families["gpuyard_gpu_energy_joules"]
    assert (energy.type, energy.unit, len(energy.samples)) == ("counter", "joules", 6)
    assert families["gpuyard_gpu_temperature_celsius"].unit == "celsius"
    assert families["gpuyard_gpu_xid_errors"].samples[0].labels["xid"] == "79"
    assert families["gpuyard_loop_lag_seconds"].type == "histogram"
    assert families["DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION"].type == "unknown"


def test_real_prometheus_scrapes_the_daemon(shared, prometheus, record_property):
    record_property("contract", "C14")
    query = prometheus.start(shared("--simulate", "4").port).query
    wait_until(lambda: query('up{job="gpuyard"} == 1'), "the target to be up")
    for family in CONTRACT:
        assert len(query(f"gpuyard_{family}")) == 4, family
    joined = query("gpuyard_gpu_power_watts * on(device) group_left(name) gpuyard_gpu_info")
    assert {row["metric"]["name"] for row in joined} == {"NVIDIA H100 80GB HBM3"}
    wait_until(lambda: query("sum(rate(gpuyard_gpu_energy_joules_total[10s])) > 0"),
               "joules to flow")
    # It is given OpenMetrics: only that has a unit, and names a counter's family without _total.
    about = prometheus.ask("targets/metadata", metric="gpuyard_gpu_energy_joules")
    assert [(one["type"], one["unit"]) for one in about] == [("counter", "joules")]
