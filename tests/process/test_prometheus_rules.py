"""The alerting rules that we ship: right by promtool, and firing in a real Prometheus."""

import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

from program import wait_until

ROOT = Path(__file__).parents[2]
RULES = ROOT / "packaging/prometheus/gpuyard.rules.yml"
MINIMAL_RULES = ROOT / "packaging/prometheus/gpuyard-minimal.rules.yml"
TESTS = ROOT / "packaging/prometheus/gpuyard.rules.test.yml"
ALERTS = re.findall(r"- alert: (\w+)", RULES.read_text())


def promtool(*arguments):
    program = shutil.which("promtool")
    assert program, "install the package prometheus"
    return subprocess.run([program, *arguments], text=True, capture_output=True, timeout=240,
                          check=False)


@pytest.mark.parametrize("rules", [RULES, MINIMAL_RULES], ids=["full", "minimal"])
def test_promtool_accepts_the_rules(rules):
    checked = promtool("check", "rules", "--lint-fatal", str(rules))
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert f"{rules.read_text().count('- alert: ')} rules found" in checked.stdout


def test_minimal_rules_repeat_the_full_ones():
    def by_name(file):
        rules = re.sub(r"^ *#.*\n", "", file.read_text(), flags=re.M)
        return dict(rule.split("\n", 1) for rule in re.split(r"- alert: ", rules)[1:])
    full, minimal = by_name(RULES), by_name(MINIMAL_RULES)
    forwarded = minimal.pop("GpuyardAlert")
    assert forwarded.split("for: 0s")[1].strip() == full["GpuyardSays"].split("for: 0s")[1].strip()
    assert len(minimal) == 2
    for name, rule in minimal.items():
        assert rule.strip() == full[name].strip(), name


def test_every_rule_fires_at_its_time():
    tested = promtool("test", "rules", str(TESTS))
    assert tested.returncode == 0, tested.stdout + tested.stderr
    text = TESTS.read_text()
    for alert in ALERTS:
        assert f"  - name: {alert}\n" in text, f"{alert} has no test"


def test_every_rule_has_severity_summary_and_advice():
    for rule in re.split(r"- alert: ", RULES.read_text())[1:]:
        name = rule.split("\n")[0]
        for wanted in (r"for: \d+[sm]", r"severity: ", r"summary: .", r"advice: .*\.['\"]"):
            assert re.search(wanted, rule), f"{name} lacks {wanted}"


def test_rules_query_only_existing_families():
    """A rule with a misspelt name would never fire."""
    introduction, table = (ROOT / "docs/metrics.md").read_text().split("|---|", 1)
    known = set(re.findall(r"`(\w+)[`{]", introduction))
    known |= set(re.findall(r"^\| `\w+` \| `(\w+)`", table, re.M))
    asked = set(re.findall(r"\bgpuyard_(\w+)", re.sub(r"#.*", "", RULES.read_text())))
    assert len(asked) > 20
    assert asked - known == {"driver_up"}


def built_in_rules():
    text = (ROOT / "src/core/andon/built_in_rules.cpp").read_text()
    return tomllib.loads(re.search(r'R"toml\((.*?)\)toml"', text, re.S).group(1))["rule"]


def shipped_rules():
    """By the built-in rule that each is: what it asks, `for` in seconds, severity, advice."""
    shipped = {}
    for rule in re.split(r"- alert: ", RULES.read_text())[1:]:
        meant = re.search(r"rule: ([a-z-]+)$", rule, re.M)
        if not meant:
            continue
        number, unit = re.search(r"for: (\d+)([sm])", rule).groups()
        shipped[meant.group(1)] = (
            re.search(r"expr: (.*?)\n        for:", rule, re.S).group(1),
            int(number) * (60 if unit == "m" else 1),
            re.search(r"severity: (\w+)", rule).group(1),
            re.search(r"""advice: (['"])(.*)\1""", rule).group(2))
    return shipped


def level_of(severity):
    return ("info" if severity < 40 else "warning" if severity < 60 else
            "error" if severity < 80 else "critical")


def test_shipped_rules_match_built_in_rules():
    built_in, shipped = built_in_rules(), shipped_rules()
    forwarded = re.search(r'alert_firing\{rule=~"([^"]*)"', RULES.read_text()).group(1).split("|")
    assert set(built_in) == set(shipped) | set(forwarded)
    # The result of a curve for a value just at the threshold.
    at_threshold = {"thermal": 50, "memory": 60, "power": 50, "idle": 40}
    for name, (expression, held, severity, advice) in shipped.items():
        rule = built_in[name]
        lasts = rule["at"] if rule["on"] in ("idle_s", "reserved_idle_s") else rule.get("hold_s", 0)
        assert held == lasts, name
        worst = rule.get("severity", at_threshold.get(rule.get("curve"), 50))
        assert severity == level_of(worst), name
        assert advice.replace("{{ $labels.device }}", "{gpu}") == rule["advice"], name
        if name in ("thermal", "slowdown-near", "memory", "power", "ecc-corrected"):
            assert re.search(rf"[<>]= {rule['at']}$", expression), name
        if "xids" in rule:
            assert re.search(rf'xid=~?"{"|".join(map(str, rule["xids"]))}"'.replace("|", r"\|"),
                             expression), name


def test_shipped_rules_fire_on_simulated_faults(daemon, prometheus):
    """The shipped file unchanged, with its `for`; Prometheus evaluates every second."""
    yard = daemon("--simulate", "4", "--model", "h100:2,rtx4090:2")
    yard.sim("load", "--gpu", "all", "idle")
    prometheus.start(yard.port, rules=RULES)
    wait_until(lambda: prometheus.query("gpuyard_gpu_temperature_celsius < 60"), "a first scrape")
    groups = prometheus.ask("rules")["groups"]
    assert sum(len(group["rules"]) for group in groups) == len(ALERTS)
    yard.sim("load", "--gpu", "1", "steady:1")
    yard.sim("inject", "--gpu", "1", "--heat", "100")
    yard.sim("inject", "--gpu", "0", "--xid", "79")
    yard.sim("inject", "--gpu", "2", "--lost")
    yard.sim("inject", "--gpu", "3", "--power-brake")
    expected = {("GpuHot", "1"), ("GpuXidFatal", "0"), ("GpuLost", "2"), ("GpuPowerBrake", "3")}
    wait_until(lambda: expected <= prometheus.firing(), f"{expected} to fire")
    assert ("GpuHot", "3") not in prometheus.firing()
    assert ("GpuyardDown", None) not in prometheus.firing()
    yard.sim("inject", "--gpu", "3", "--clear")
    wait_until(lambda: ("GpuPowerBrake", "3") not in prometheus.firing(), "the brake to be let go")


def test_minimal_rules_forward_the_alerts_of_a_minimal_profile(daemon, prometheus, tmp_path):
    config = tmp_path / "gpuyard.toml"
    config.write_text('[metrics]\nprofile = "minimal"\n', encoding="utf-8")
    yard = daemon("--simulate", "2", "--config", str(config))
    yard.sim("inject", "--gpu", "1", "--lost")
    prometheus.start(yard.port, rules=MINIMAL_RULES)
    wait_until(lambda: ("GpuyardAlert", "1") in prometheus.firing(), "the alert of the lost GPU")
    assert not prometheus.query('{__name__=~"gpuyard_gpu_xid.*|gpuyard_gpu_throttle.*|gpuyard_loop.*"}')
