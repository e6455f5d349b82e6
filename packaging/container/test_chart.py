"""The files by themselves: the Dockerfile, the Helm chart, and the manifest that is written from it."""

import os

import pytest

from common import CHART, CHARTS, HERE, KUBERNETES, NEW_KUBERNETES, PROGRAM, USER, documents, rendered, run, tool


def test_hadolint_accepts_dockerfile():
    done = run(tool("hadolint"), "--failure-threshold", "style", HERE / "Dockerfile", check=False)
    assert done.returncode == 0 and not done.stdout, done.stdout


@pytest.mark.parametrize("settings", CHARTS.values(), ids=CHARTS)
def test_helm_lint_reports_no_findings(settings):
    run(tool("helm"), "lint", "--strict", CHART, *NEW_KUBERNETES, *settings)


@pytest.mark.parametrize("settings", CHARTS.values(), ids=CHARTS)
def test_rendered_chart_is_valid_kubernetes(settings, tmp_path):
    validate = tool("kubernetes-validate")
    path = tmp_path / "rendered.yaml"
    path.write_text(rendered(*settings), encoding="utf-8")
    for version in ("1.30", "1.37"):
        run(validate, "--strict", "-k", version, path)


@pytest.mark.parametrize("wrong", [
    "simulate=65", "control.enabld=true", "tls.anonymous=all", "tls.port=80", "tls.clients={DNS:a = read}",
    "config.lease=strict", "hostPaths.run=run", "image.repository=", "maxUnavailable=half", "config.lease.a.b=1",
])
def test_the_schema_refuses(wrong):
    done = run(tool("helm"), "template", "gpuyard", CHART, *NEW_KUBERNETES, "--set", wrong, check=False)
    assert done.returncode != 0 and "schema" in done.stderr, done.stderr


def test_simulated_gpus_are_a_demo_only_on_request():
    assert "mixed" in rendered("--set", "simulate=4")
    assert "mixed" not in rendered("--set", "simulate=4,demo=true")


def test_manifest_matches_rendered_chart():
    made = run(KUBERNETES / "render.sh", env=os.environ | {"HELM": tool("helm")}).stdout
    assert made == (KUBERNETES / "daemonset.yaml").read_text(encoding="utf-8"), "run packaging/kubernetes/render.sh"


def test_the_manifest_is_valid_kubernetes():
    run(tool("kubernetes-validate"), "--strict", KUBERNETES / "daemonset.yaml")


def every_container(spec):
    return spec["initContainers"] + spec["containers"]


@pytest.mark.parametrize("settings", CHARTS.values(), ids=CHARTS)
def test_pods_request_no_gpu_and_minimal_privileges(settings):
    kinds = {one["kind"]: one for one in documents(rendered(*settings))}
    spec = kinds["DaemonSet"]["spec"]["template"]["spec"]
    controls = "control.enabled=true" in settings
    assert spec["automountServiceAccountToken"] is False
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    for one in every_container(spec):
        assert not any("gpu" in name for kind in one["resources"].values() for name in kind)
        security = one["securityContext"]
        assert security["readOnlyRootFilesystem"] and not security["allowPrivilegeEscalation"]
        assert security["capabilities"]["drop"] == ["ALL"] and "privileged" not in security
        if one["name"] != "folders":
            assert security["runAsUser"] == (0 if controls else USER)
            assert security["runAsNonRoot"] is not controls
            assert security["capabilities"].get("add", []) == (["SYS_ADMIN"] if controls else [])
    assert ("Service" in kinds) == ("tls.enabled=false" not in settings)


@pytest.mark.parametrize("settings", CHARTS.values(), ids=CHARTS)
def test_the_program_takes_the_configuration_of_the_chart(settings, tmp_path):
    if not PROGRAM.exists():
        pytest.skip(f"{PROGRAM} is missing")
    data = next(one for one in documents(rendered(*settings)) if one["kind"] == "ConfigMap")["data"]
    path = tmp_path / "gpuyard.toml"
    path.write_text(data["gpuyard.toml"], encoding="utf-8")
    run(PROGRAM, "config", "validate", "--config", path)
