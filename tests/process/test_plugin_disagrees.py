"""GPUs that are healthy here and that Kubernetes' device plugin hides: the agent's report, and the alert."""

from program import wait_until

RULE = "plugin-disagrees"
QUICK = f"[rule.{RULE}]\nhold_s = 2\n"
REPORT = "/api/gpu/kubernetes/plugin"


def report(yard, *hidden):
    answer = yard.daemon.get(REPORT, unix=True, method="PUT", body={"hidden": list(hidden)})
    assert answer.status == 200, answer.text
    assert answer.json()["hidden"] == list(hidden)


def cordon(yard, gpu, method="PUT"):
    body = {"reason": "its fan"} if method == "PUT" else None
    answer = yard.daemon.get(f"/api/gpu/manage/{gpu}/cordon", unix=True, method=method, body=body)
    assert answer.status == 200, answer.text


def fired(yard):
    return wait_until(lambda: yard.firing(RULE), "the alert")


def wait_for_end(yard):
    wait_until(lambda: not yard.firing(RULE) and RULE not in yard.pending(), "the end of the alert")


def test_hidden_gpu_is_an_alert_while_it_is_healthy(alerts_yard):
    yard = alerts_yard(QUICK, gpus=2)
    report(yard, yard.world.uuid(1))
    alert, = fired(yard)
    assert alert["gpu"]["index"] == 1 and alert["level"] == "warning"
    assert alert["message"] == "GPU 1 is healthy, but Kubernetes' device plugin does not offer it to pods"
    assert "--selector app=nvidia-device-plugin-daemonset --field-selector spec.nodeName=NODE`" in alert["advice"]
    assert yard.get("verdict")["gpus"][1]["verdict"] == "good", "it warns only"

    cordon(yard, 1)
    wait_for_end(yard)
    cordon(yard, 1, "DELETE")
    fired(yard)

    report(yard)
    wait_for_end(yard)
