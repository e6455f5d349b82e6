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
    "kube.condition=Ready", "kube.condition=a'b", "kube.taintNode=sometimes", "kube.effect=PreferNoSchedule",
    "kube.events=some", "daemon.enabled=false", "hostPaths.podResources=a", "kube.restartPlugin=app=a",
    "kube.restartPlugin=GPU/app=a", "kube.restartPlugin=gpu-operator/app", "kube.restartPlugin=gpu-operator/a'=b",
])
def test_the_schema_refuses(wrong):
    done = run(tool("helm"), "template", "gpuyard", CHART, *NEW_KUBERNETES, "--set", wrong, check=False)
    assert done.returncode != 0 and "schema" in done.stderr, done.stderr


def test_simulated_gpus_are_a_demo_only_on_request():
    assert "mixed" in rendered("--set", "simulate=4")
    assert "mixed" not in rendered("--set", "simulate=4,demo=true")


@pytest.mark.parametrize("namespace", ["123", "1e3", "true"])
def test_namespace_that_is_a_number_or_a_word_of_yaml_stays_text(namespace):
    text = rendered("--namespace", namespace, "--set", "kube.enabled=true", "--set", "createNamespace=true")
    objects = {(one["kind"], one["metadata"]["name"]): one for one in documents(text)}
    assert ("Namespace", namespace) in objects
    # Events about Nodes are in `default`, wherever the agent is.
    assert {one["metadata"].get("namespace") for one in objects.values()} == {None, namespace, "default"}
    bindings = [one for (kind, _), one in objects.items() if kind == "ClusterRoleBinding"]
    assert [subject["namespace"] for one in bindings for subject in one["subjects"]] == [namespace] * 2


def test_image_that_is_a_number_in_yaml_stays_text():
    text = rendered("--set-string", "image.repository=1,image.tag=30")
    (daemon_set,) = [one for one in documents(text) if one["kind"] == "DaemonSet"]
    assert {one["image"] for one in every_container(daemon_set["spec"]["template"]["spec"])} == {"1:30"}


MANIFESTS = {"daemonset.yaml": [], "daemonset_agent.yaml": ["agent"]}


@pytest.mark.parametrize("name, words", MANIFESTS.items(), ids=MANIFESTS)
def test_manifest_matches_rendered_chart(name, words):
    made = run(KUBERNETES / "render.sh", *words, env=os.environ | {"HELM": tool("helm")}).stdout
    assert made == (KUBERNETES / name).read_text(encoding="utf-8"), "run packaging/kubernetes/render.sh"
    images = sum(line.strip().startswith("image:") for line in made.splitlines())
    assert f"in the {['three', 'four'][images - 3]} `image:` lines" in made


def test_rights_for_a_restart_of_the_plugin_match_the_rendered_chart():
    made = run(KUBERNETES / "render.sh", "restart", env=os.environ | {"HELM": tool("helm")}).stdout
    assert made == (KUBERNETES / "agent_restart.yaml").read_text(encoding="utf-8"), "run render.sh restart"


@pytest.mark.parametrize("name", [*MANIFESTS, "agent_restart.yaml"])
def test_the_manifest_is_valid_kubernetes(name):
    for version in ("1.30", "1.37"):
        run(tool("kubernetes-validate"), "--strict", "-k", version, KUBERNETES / name)


IMAGES = {"tag": ("registry.example.com:5000/team/gpuyard", "1.2-rc1"), "digest": ("lab/gpuyard@sha256", "ab" * 32),
          "number": ("1", "30")}


@pytest.mark.parametrize("namespace", ["gpuyard", "team-a", "gpuyard-gpuyard", "123"])
@pytest.mark.parametrize("repository, tag", IMAGES.values(), ids=IMAGES)
def test_program_prints_the_rendered_chart(namespace, repository, tag):
    if not PROGRAM.exists():
        pytest.skip(f"{PROGRAM} is missing")
    values = f"image.repository={repository},image.tag={tag}"
    chart = rendered("--namespace", namespace, "--no-hooks", "--set", "createNamespace=true,kube.enabled=true",
                     "--set-string", values)
    printed = run(PROGRAM, "kube", "manifest", "--image", f"{repository}:{tag}", "--namespace", namespace).stdout
    head, objects = printed.split("\n---\n", 1)
    assert all(line.startswith("#") for line in head.splitlines())
    wanted = [line for line in chart.splitlines() if not line.startswith("# Source: ")]
    assert ["---", *objects.splitlines()] == wanted


def every_container(spec):
    return spec.get("initContainers", []) + spec["containers"]


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
        if one["name"] == "agent":
            assert security["runAsUser"] == 0 and security["capabilities"] == {"drop": ["ALL"]}
        elif one["name"] != "folders":
            assert security["runAsUser"] == (0 if controls else USER)
            assert security["runAsNonRoot"] is not controls
            assert security["capabilities"].get("add", []) == (["SYS_ADMIN"] if controls else [])
    no_daemon = "daemon.enabled=false" in settings
    assert ("Service" in kinds) == (not no_daemon and "tls.enabled=false" not in settings)
    assert spec.get("hostPID", False) is not no_daemon


@pytest.mark.parametrize("settings", CHARTS.values(), ids=CHARTS)
def test_the_program_takes_the_configuration_of_the_chart(settings, tmp_path):
    if not PROGRAM.exists():
        pytest.skip(f"{PROGRAM} is missing")
    data = next((one for one in documents(rendered(*settings)) if one["kind"] == "ConfigMap"), {}).get("data")
    if "daemon.enabled=false" in settings:
        assert data is None
        return
    path = tmp_path / "gpuyard.toml"
    path.write_text(data["gpuyard.toml"], encoding="utf-8")
    run(PROGRAM, "config", "validate", "--config", path)


# The Kubernetes agent.

def of_kind(kind, *settings):
    return [one for one in documents(rendered(*settings)) if one["kind"] == kind]


@pytest.mark.parametrize("settings", CHARTS.values(), ids=CHARTS)
def test_only_agent_mounts_a_token(settings):
    (daemon_set,) = of_kind("DaemonSet", *settings)
    spec = daemon_set["spec"]["template"]["spec"]
    tokens = {one["name"] for one in spec["volumes"] if "projected" in one}
    mounting = [one["name"] for one in every_container(spec)
                if tokens & {mount["name"] for mount in one["volumeMounts"]}]
    agent = "kube.enabled=true" in settings
    assert mounting == (["agent"] if agent else []) and len(tokens) == agent
    assert all(one["automountServiceAccountToken"] is False for one in of_kind("ServiceAccount", *settings))
    tolerated = {one["key"] for one in spec.get("tolerations", [])}
    assert ("gpuyard.io/gpu-sick" in tolerated) == agent


@pytest.mark.parametrize("settings", CHARTS.values(), ids=CHARTS)
def test_only_agent_mounts_the_kubelets_directory(settings):
    (daemon_set,) = of_kind("DaemonSet", *settings)
    spec = daemon_set["spec"]["template"]["spec"]
    asks = "kube.enabled=true" in settings
    paths = [one["hostPath"]["path"] for one in spec["volumes"] if one["name"] == "pod-resources"]
    assert paths == (["/var/lib/kubelet/pod-resources"] if asks else [])
    mounts = [(one["name"], mount["readOnly"]) for one in every_container(spec) for mount in one["volumeMounts"]
              if mount["name"] == "pod-resources"]
    assert mounts == ([("agent", True)] if asks else [])


def test_agent_knows_its_own_pod():
    (daemon_set,) = of_kind("DaemonSet", "--set", "kube.enabled=true")
    agent = next(one for one in daemon_set["spec"]["template"]["spec"]["containers"] if one["name"] == "agent")
    assert agent["args"][agent["args"].index("--pod") + 1] == "$(POD_NAMESPACE)/$(POD_NAME)"
    fields = {one["name"]: one["valueFrom"]["fieldRef"]["fieldPath"] for one in agent["env"] if "valueFrom" in one}
    assert (fields["POD_NAMESPACE"], fields["POD_NAME"]) == ("metadata.namespace", "metadata.name")


def test_agent_without_the_kubelets_directory():
    (daemon_set,) = of_kind("DaemonSet", "--set", "kube.enabled=true", "--set", "hostPaths.podResources=")
    spec = daemon_set["spec"]["template"]["spec"]
    agent = next(one for one in spec["containers"] if one["name"] == "agent")
    assert agent["args"][agent["args"].index("--kubelet") + 1] == "none"
    assert "pod-resources" not in {one["name"] for one in spec["volumes"]}


def test_chart_without_agent_gives_no_rights():
    for kind in ("ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding", "ValidatingAdmissionPolicy", "Job"):
        assert not of_kind(kind)


def test_agent_may_patch_nodes_only_to_taint_them():
    def verbs(*settings):
        role = of_kind("ClusterRole", "--set", "kube.enabled=true", *settings)[0]
        return next(rule["verbs"] for rule in role["rules"] if rule.get("resources") == ["nodes"])
    assert verbs() == verbs("--set", "kube.taintNode=any") == ["get", "patch"]
    assert verbs("--set", "kube.taintNode=never") == ["get"]


def names_of(kind, *settings):
    return {one["metadata"]["name"] for one in of_kind(kind, "--set", "kube.enabled=true", *settings)}


def agent_arguments(*settings):
    (daemon_set,) = of_kind("DaemonSet", "--set", "kube.enabled=true", *settings)
    containers = daemon_set["spec"]["template"]["spec"]["containers"]
    return next(one["args"] for one in containers if one["name"] == "agent")


def test_agent_may_create_events_about_nodes_and_nothing_more_of_them():
    (role,) = of_kind("Role", "--set", "kube.enabled=true")
    assert role["metadata"]["namespace"] == "default"
    assert role["rules"] == [{"apiGroups": [""], "resources": ["events"], "verbs": ["create"]}]
    (binding,) = of_kind("RoleBinding", "--set", "kube.enabled=true")
    assert binding["metadata"]["namespace"] == "default"
    assert binding["roleRef"]["name"] == role["metadata"]["name"]
    (account,) = of_kind("ServiceAccount", "--set", "kube.enabled=true", "--no-hooks")
    assert [(one["kind"], one["name"], one["namespace"]) for one in binding["subjects"]] == [
        ("ServiceAccount", account["metadata"]["name"], "gpuyard")]
    for kind in ("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"):
        assert "gpuyard-agent-events" in names_of(kind)
    assert "--no-events" not in agent_arguments()


def test_agent_without_events_has_no_right_to_write_them():
    for kind in ("Role", "RoleBinding"):
        assert names_of(kind, "--set", "kube.events=false") == set()
    for kind in ("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"):
        assert names_of(kind, "--set", "kube.events=false") == {"gpuyard-agent-nodes", "gpuyard-agent-rules"}
    assert "--no-events" in agent_arguments("--set", "kube.events=false")


def test_policy_admits_the_effect_that_the_values_name():
    for effect, admitted in (("None", "['None']"), ("NoSchedule", "['None', 'NoSchedule']"),
                             ("NoExecute", "['None', 'NoSchedule', 'NoExecute']")):
        text = rendered("--set", "kube.enabled=true", "--set", f"kube.effect={effect}")
        assert f"object.spec.taint.effect in {admitted}\n" in text and f'- "{effect}"\n' in text


def test_agent_needs_kubernetes_with_policies():
    words = (tool("helm"), "template", "gpuyard", CHART, "--set", "kube.enabled=true", "--kube-version", "1.29.9")
    refused = run(*words, check=False)
    assert refused.returncode != 0 and "needs Kubernetes 1.30 or newer" in refused.stderr
    assert "kube.policy=false" in refused.stderr
    assert "ValidatingAdmissionPolicy" not in run(*words, "--set", "kube.policy=false").stdout


# The restart of the device plugin.

PLUGIN = "nvidia/app.kubernetes.io/name=nvidia-device-plugin"
RESTARTING = ("--set", "kube.enabled=true", "--set", f"kube.restartPlugin={PLUGIN}")


def for_restart(kind, *settings):
    """The only object of its kind that is there for the restart; None: there is none."""
    found = [one for one in of_kind(kind, *settings) if one["metadata"]["name"] == "gpuyard-agent-plugin"]
    assert len(found) <= 1
    return found[0] if found else None


def test_plugin_is_restarted_only_on_request():
    assert "--restart-plugin" not in agent_arguments()
    assert not for_restart("Role", "--set", "kube.enabled=true")
    assert not for_restart("Role", "--set", f"kube.restartPlugin={PLUGIN}")
    words = agent_arguments(*RESTARTING)
    assert words[words.index("--restart-plugin") + 1] == PLUGIN


def test_role_for_the_restart_is_of_the_plugins_namespace():
    role = for_restart("Role", *RESTARTING)
    assert role["metadata"]["namespace"] == "nvidia"
    assert role["rules"] == [{"apiGroups": [""], "resources": ["pods"], "verbs": ["list", "delete"]}]
    binding = for_restart("RoleBinding", *RESTARTING)
    assert binding["metadata"]["namespace"] == "nvidia" and binding["roleRef"]["name"] == role["metadata"]["name"]
    assert binding["subjects"] == [{"kind": "ServiceAccount", "name": "gpuyard", "namespace": "gpuyard"}]


def test_namespace_of_the_plugin_that_is_a_number_stays_text():
    for kind in ("Role", "RoleBinding"):
        found = for_restart(kind, "--set", "kube.enabled=true", "--set", "kube.restartPlugin=123/app=x")
        assert found["metadata"]["namespace"] == "123"


def test_policy_for_the_restart_has_namespace_label_and_node():
    policy = for_restart("ValidatingAdmissionPolicy", *RESTARTING)
    assert policy["spec"]["matchConstraints"]["resourceRules"] == [
        {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["DELETE"], "resources": ["pods"]}]
    assert [one["expression"] for one in policy["spec"]["validations"]] == [
        "variables.node != ''", "request.namespace == 'nvidia'",
        "oldObject.metadata.?labels[?'app.kubernetes.io/name'].orValue('') == 'nvidia-device-plugin'",
        "oldObject.spec.?nodeName.orValue('') == variables.node"]
    assert for_restart("ValidatingAdmissionPolicyBinding", *RESTARTING)
    assert not for_restart("ValidatingAdmissionPolicy", *RESTARTING, "--set", "kube.policy=false")


def test_restart_needs_the_kubelet():
    refused = run(tool("helm"), "template", "gpuyard", CHART, *NEW_KUBERNETES, *RESTARTING,
                  "--set", "hostPaths.podResources=", check=False)
    assert refused.returncode != 0 and "kube.restartPlugin needs hostPaths.podResources" in refused.stderr


def test_what_follows_an_uninstall_takes_its_rights_along():
    hooks = [one for one in documents(rendered("--set", "kube.enabled=true"))
             if one["metadata"].get("annotations", {}).get("helm.sh/hook") == "post-delete"]
    assert [one["kind"] for one in hooks] == ["ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Job"]
    for one in hooks:
        assert one["metadata"]["annotations"]["helm.sh/hook-delete-policy"] == "before-hook-creation,hook-succeeded"
    pod = hooks[-1]["spec"]["template"]["spec"]
    assert pod["containers"][0]["args"] == ["kube", "withdraw"]
    assert "gpuyard.io/gpu-sick" in {one["key"] for one in pod["tolerations"]}
    assert pod["serviceAccountName"] == hooks[0]["metadata"]["name"] != "gpuyard"
    assert "withdraw" not in (KUBERNETES / "daemonset_agent.yaml").read_text(encoding="utf-8")
