"""Leases of Kubernetes' pods, as an agent reports them: what they use."""

import subprocess

import pytest

from program import PROGRAM, wait_until
from test_lease_usage import EXACT, everything, joules, move, serving, usage

PODS = "/api/gpu/pods"
TRAINER = "default/trainer.v1-0"


def report(yard, pod, *uuids, note="trainer, sidecar"):
    """The lease of the pod, once the daemon takes the report."""
    def taken():
        answer = yard.get(f"{PODS}/{pod}", unix=True, method="PUT", body={"uuids": list(uuids), "note": note})
        if answer.status == 503:  # the leases of the last life are still being looked at
            return False
        assert answer.status == 200, answer.text
        return answer.json()["lease"]
    return wait_until(taken, f"the report of {pod}")


def gone(yard, pod):
    answer = yard.get(f"{PODS}/{pod}", unix=True, method="DELETE")
    assert answer.status == 200, answer.text
    return answer.json()["lease"]


def pods(yard):
    answer = yard.get(PODS, unix=True)
    assert answer.status == 200, answer.text
    return {one["pod"]: one for one in answer.json()["pods"]}


@pytest.fixture
def still(world):
    """One busy GPU in a world that moves only by `step`, so that its counters are exact."""
    world.start("--gpus", "1", "--load", "steady:0.8:1G", "--stepped")
    world.must("step", "5s")
    world.joules = lambda: world.gpu(0)["energy_joules"]
    return world


def test_joules_of_pods_and_of_none_add_up_to_counter(daemon, still):
    yard, start = serving(daemon, still), still.joules()
    used = {}
    for pod in (TRAINER, "default/eval", "web/chat", TRAINER):
        report(yard, pod, still.uuid(0))
        used[pod] = used.get(pod, 0) + move(yard, still, "8s")
        gone(yard, pod)
        wait_until(lambda: not pods(yard), f"the end of {pod}")
        used[""] = used.get("", 0) + move(yard, still, "3s")

    free = subprocess.run([PROGRAM, "free", "--socket", yard.socket], capture_output=True, text=True, check=False)
    assert free.returncode == 7 and "Kubernetes allocates the GPUs" in free.stderr and "--through slurm" not in free.stderr

    by_pod = usage(yard, "pod")
    assert {row["key"] for row in by_pod["rows"]} == set(used) - {""}
    for row in by_pod["rows"]:
        assert abs(joules(row) - used[row["key"]]) < EXACT, row
        assert row["leases"] == (2 if row["key"] == TRAINER else 1) and row["uid"] is None
    assert abs(joules(by_pod["unleased"]) - used[""]) < EXACT
    assert abs(everything(by_pod) - (still.joules() - start)) < EXACT

    by_namespace = {row["key"]: joules(row) for row in usage(yard, "pod_namespace")["rows"]}
    assert by_namespace == {"default": pytest.approx(used[TRAINER] + used["default/eval"], abs=EXACT),
                            "web": pytest.approx(used["web/chat"], abs=EXACT)}
    by_user = usage(yard, "user")["rows"]
    assert [(row["key"], row["uid"]) for row in by_user] == [("(pods)", None)]

    shown = subprocess.run([PROGRAM, "usage", "--by", "namespace", "--socket", yard.socket], check=True,
                           capture_output=True, text=True).stdout.splitlines()
    assert shown[0].startswith("NAMESPACE ") and {line.split()[0] for line in shown[1:3]} == {"default", "web"}
