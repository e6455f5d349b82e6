"""Leases of Kubernetes' pods, as an agent reports them: what they use, and when they end."""

import os
import random
import subprocess
import time

import pytest

from program import PROGRAM, clean_environment, wait_until
from test_lease_usage import EXACT, counts, everything, joules, move, serving, usage

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


def test_joules_of_random_pods_and_of_none_add_up_to_counters(daemon, world):
    """Pods of one to three GPUs and a few seconds, as the GPUs fall free. GPUYARD_PODS=300: that many."""
    number = int(os.environ.get("GPUYARD_PODS", "24"))
    chance = random.Random(number)

    def counter():
        return {one["uuid"]: one["energy_joules"] for one in world.status()["gpus"]}

    def around(act):
        """The counters before and after it, and its result: a busy machine takes its time for that."""
        before = counter()
        result = act()
        return (before, counter()), result

    def bounds(start, end, uuids):
        """What these GPUs used at least and at most, between two calls of `around`."""
        return [sum(last[uuid] - first[uuid] for uuid in uuids)
                for first, last in ((start[1], end[0]), (start[0], end[1]))]

    world.start("--gpus", "8", "--load", "steady:0.8:1G")
    yard = serving(daemon, world)
    free = [world.uuid(gpu) for gpu in range(8)]
    begun, running, used = 0, {}, []
    counts(yard)
    start, everything_before = around(lambda: everything(usage(yard, "pod")))
    while begun < number or running:
        for pod, (uuids, end, started) in list(running.items()):
            if time.monotonic() < end:
                continue
            used.append(bounds(started, around(lambda: gone(yard, pod))[0], uuids))
            del running[pod]
            free += uuids
        while free and begun < number:
            uuids = [free.pop(chance.randrange(len(free))) for _ in range(min(len(free), chance.randint(1, 3)))]
            pod = f"team-{begun % 7}/pod-{begun}"
            started, _ = around(lambda: report(yard, pod, *uuids))
            running[pod] = (uuids, time.monotonic() + chance.uniform(1, 6), started)
            begun += 1
        time.sleep(0.05)
    wait_until(lambda: not pods(yard), "the end of the last pod")
    counts(yard)
    end, by_pod = around(lambda: usage(yard, "pod"))
    assert len(by_pod["rows"]) == number
    of_pods = sum(joules(row) for row in by_pod["rows"]), *map(sum, zip(*used))
    of_all = everything(by_pod) - everything_before, *bounds(start, end, start[0])
    for name, (counted, least, most) in (("pods", of_pods), ("all", of_all)):
        print(f"{number} pods, {name}: {counted:.0f} J, by the counters {least:.0f} to {most:.0f} J")
        assert least * 0.99 < counted < most * 1.01, name


def test_leases_only_observe_from_the_first_pod_on(daemon, world, tmp_path):
    world.start("--gpus", "2", "--load", "idle")
    place = tmp_path / "yard"
    yard = daemon(GPUYARD_SIM_WORLD=str(world.directory), directory=place)
    first = report(yard, TRAINER, world.uuid(0))
    assert first["state"] == "held" and first["binding"] == "job" and first["user"] == "(pods)"
    assert report(yard, TRAINER, world.uuid(0))["id"] == first["id"]
    claim = {"binding": "detached", "ttl_s": 60}
    refused = yard.get("/api/gpu/leases", unix=True, method="POST", body=claim)
    assert refused.status == 409 and "Kubernetes allocates the GPUs" in refused.text
    free = subprocess.run([PROGRAM, "free", "--socket", yard.socket], capture_output=True, text=True, check=False)
    assert free.returncode == 7 and "Kubernetes allocates the GPUs" in free.stderr and "--through slurm" not in free.stderr

    assert yard.stop() == 0
    yard = daemon(GPUYARD_SIM_WORLD=str(world.directory), directory=place)
    second = report(yard, TRAINER, world.uuid(0), world.uuid(1))
    assert second["id"] != first["id"]
    ended = yard.get(f"/api/gpu/leases/{first['id']}", unix=True).json()["lease"]
    assert (ended["state"], ended["ending"]) == ("ended", "taken_over")
    assert pods(yard)[TRAINER]["uuids"] == [world.uuid(0), world.uuid(1)]
    assert yard.get("/api/gpu/leases", unix=True, method="POST", body=claim).status == 409


def test_no_lease_of_a_pod_ends_while_a_process_is_on_its_gpu(daemon, world, tmp_path):
    world.start("--gpus", "1", "--load", "idle")
    yard = daemon(GPUYARD_SIM_WORLD=str(world.directory))
    lease = report(yard, TRAINER, world.uuid(0))
    environment = clean_environment(tmp_path, GPUYARD_SIM_WORLD=str(world.directory),
                                    CUDA_VISIBLE_DEVICES=world.uuid(0))
    with subprocess.Popen(["sh", "-c", f'"{PROGRAM}" sim attach --pid $$ --vram 2G --load 0.5 && exec sleep 600'],
                          env=environment) as process:
        try:
            wait_until(lambda: yard.get("/api/gpu/devices/0/processes").json()["processes"], "the process to be seen")
            assert gone(yard, TRAINER)["id"] == lease["id"]
            left = wait_until(lambda: (one := pods(yard)[TRAINER])["left"] and one, "what is left")
            assert left["state"] == "draining" and f"PID {process.pid}" in left["left"]
            assert gone(yard, TRAINER)["state"] == "draining"
        finally:
            process.kill()
    wait_until(lambda: not pods(yard), "the end of the lease")
    assert gone(yard, TRAINER)["ending"] == "released"
    assert yard.get(f"{PODS}/default/another", unix=True, method="DELETE").status == 404


def squatters(yard):
    answer = yard.get("/api/gpu/alerts").json()
    return [one for one in answer["alerts"] if one["rule"] == "squatter"]


def test_process_of_no_pod_is_an_alert(daemon, world, tmp_path):
    world.start("--gpus", "2", "--load", "idle")
    rules, config = tmp_path / "rules.toml", tmp_path / "gpuyard.toml"
    rules.write_text("[rule.squatter]\nhold_s = 0\nclear_hold_s = 0\n", encoding="utf-8")
    config.write_text(f'[alerts]\nfile = "{rules}"\n', encoding="utf-8")
    yard = daemon("--config", str(config), GPUYARD_SIM_WORLD=str(world.directory))
    with subprocess.Popen(["sleep", "600"]) as stray:
        try:
            world.attach(1, stray.pid)
            report(yard, TRAINER, world.uuid(0))
            time.sleep(20)  # the agent may report its pod late
            assert not squatters(yard)
            alert, = wait_until(lambda: squatters(yard), "the alert")
            assert alert["gpu"]["index"] == 1 and alert["level"] == "warning"
            assert f"(PID {stray.pid} (sleep) of UID " in alert["message"]
            named, = yard.get("/api/gpu/queue", unix=True).json()["squatters"]
            assert named["pid"] == stray.pid and named["resolve"].startswith(f"kill {stray.pid}  # ")
            withheld = {one["index"]: one["why"] for one in yard.get("/api/gpu/queue").json()["withheld"]}
            assert withheld[1] == "observed", "it warns only"
        finally:
            stray.kill()
    wait_until(lambda: not squatters(yard), "the end of the alert")
