"""The dashboard that we ship: every panel asks a real Prometheus for something that is there."""

import json
import os
import re
from pathlib import Path

from program import wait_until

ROOT = Path(__file__).parents[2]
MINIMAL_FILE = ROOT / "packaging/grafana/gpuyard-minimal.json"
DASHBOARD = json.loads((ROOT / "packaging/grafana/gpuyard.json").read_text())
NO_SINK = ("gpuyard_sink_",)  # is in the configuration
# The simulated driver is older than these.
NEWER = ("gpuyard_gpu_throttle_sw_thermal_seconds", "gpuyard_gpu_throttle_hw_thermal_seconds")
VARIABLES = {"$node": ".*", "$gpu": ".*", "$__rate_interval": "10s", "$__range": "10s"}


def panels(dashboard=DASHBOARD):
    for panel in dashboard["panels"]:
        yield panel
        yield from panel.get("panels", [])


def expressions(dashboard=DASHBOARD):
    for panel in panels(dashboard):
        for target in panel.get("targets", []):
            yield panel["title"], target["expr"]


def chosen(expression):
    for name, value in VARIABLES.items():
        expression = expression.replace(name, value)
    assert "$" not in expression, expression
    return expression


def test_panels_have_unique_ids_and_grid_positions():
    ids = [panel["id"] for panel in panels()]
    assert len(ids) == len(set(ids)) > 30
    taken = set()
    for panel in panels():
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24, panel["title"]
        cells = {(x, y) for x in range(place["x"], place["x"] + place["w"])
                 for y in range(place["y"], place["y"] + place["h"])}
        assert not cells & taken, panel["title"]
        taken |= cells


def test_panels_use_chosen_data_source_node_and_gpu():
    assert [variable["name"] for variable in DASHBOARD["templating"]["list"]] == [
        "datasource", "node", "gpu"]
    for panel in panels():
        if panel["type"] != "row":
            assert panel["datasource"]["uid"] == "${datasource}", panel["title"]
    for title, expression in expressions():
        for selector in re.findall(r"gpuyard_\w+(\{[^}]*\})?", expression):
            assert 'instance=~"$node"' in selector, (title, expression)
        for selector in re.findall(r"gpuyard_gpu_\w+(\{[^}]*\})", expression):
            assert 'device=~"$gpu"' in selector, (title, expression)


def test_every_panel_shows_something_of_a_simulated_yard(daemon, prometheus):
    yard = daemon("--simulate", "4", "--model", "h100:2,rtx4090:2")
    prometheus.start(yard.port)
    yard.sim("inject", "--gpu", "0", "--xid", "79")
    wait_until(lambda: prometheus.query("gpuyard_alert_severity"), "the alert of the Xid")
    wait_until(lambda: prometheus.query("gpuyard_gpu_gpm_tensor_percent"), "the slow tier")
    wait_until(lambda: prometheus.query("rate(gpuyard_gpu_energy_joules_total[10s])"), "a rate")
    for title, expression in expressions():
        silent = any(word in expression for word in NO_SINK + NEWER)
        found = prometheus.query(chosen(expression))
        assert found or silent, (title, expression)
        if "gpuyard_gpu_xid_" in expression:
            assert all(float(one["value"][1]) >= 1 for one in found), (title, "shows no first Xid")


def test_the_variables_find_nodes_and_gpus(daemon, prometheus):
    prometheus.start(daemon("--simulate", "2").port)
    wait_until(lambda: prometheus.query("gpuyard_gpu_responsive"), "a first scrape")
    for variable in DASHBOARD["templating"]["list"][1:]:
        series, label = re.fullmatch(r"label_values\((.*), (\w+)\)",
                                     variable["definition"]).groups()
        values = {one["metric"][label] for one in prometheus.query(chosen(series))}
        assert len(values) == (1 if variable["name"] == "node" else 2), variable["name"]


def only_in_full_profile():
    """The families that `[metrics] profile = "minimal"` leaves out, from the reference of metrics."""
    introduction, table = (ROOT / "docs/metrics.md").read_text().split("|---|", 1)
    minimal = introduction.split("and the readings ")[1].split("\n\n")[0]
    readings = set(re.findall(r"^\| `\w+` \| `(\w+)`", table, re.M))
    left_out = readings - set(re.findall(r"`(\w+)`", minimal))
    assert len(readings) > 60 and len(readings) - len(left_out) > 8
    return left_out | {"gpu_xid_errors_total", "gpu_xid_last_seen_timestamp_seconds", "loop_lag_seconds_bucket"}


def minimal_dashboard():
    """The panels of the dashboard that need no more than the minimal profile, moved together."""
    left_out = only_in_full_profile()

    def is_minimal(panel):
        expressions = " ".join(target["expr"] for target in panel.get("targets", []))
        return not left_out & set(re.findall(r"gpuyard_(\w+)", expressions))

    kept = [panel for panel in json.loads(json.dumps(DASHBOARD))["panels"] if is_minimal(panel)]
    kept = [panel for panel, following in zip(kept, kept[1:] + [{"type": "row"}])
            if panel["type"] != "row" or following["type"] != "row"]
    x = y = height = 0
    for panel in kept:
        place = panel["gridPos"]
        if x + place["w"] > 24 or panel["type"] == "row":
            x, y, height = 0, y + height, 0
        place["x"], place["y"] = x, y
        x, height = x + place["w"], max(height, place["h"])
    return DASHBOARD | {"uid": "gpuyard-minimal", "title": "gpuyard: many machines", "panels": kept}


def test_minimal_dashboard_is_made_from_the_full_one():
    text = json.dumps(minimal_dashboard(), indent=2) + "\n"
    if os.environ.get("GPUYARD_WRITE_GOLDEN"):
        MINIMAL_FILE.write_text(text)
    assert MINIMAL_FILE.read_text() == text
    assert 10 < len(list(panels(minimal_dashboard()))) < len(list(panels()))
