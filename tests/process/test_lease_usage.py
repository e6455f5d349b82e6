"""Usage under leases as a daemon counts it, compared with the simulated world's count."""

import signal

import pytest

from program import wait_until

USAGE = "/api/gpu/usage"
LEASES = "/api/gpu/leases"
EXACT = 0.01  # joules: counters are whole millijoules
JOULES = 3.6e6  # in a kWh


def usage(yard, by="lease"):
    answer = yard.get(f"{USAGE}?by={by}", unix=True)
    assert answer.status == 200, answer.text
    return answer.json()


def joules(row):
    return (row["energy_kwh"] or 0) * JOULES


def id_of(name):
    """Pads the name: ids chosen by a client have at least 16 characters."""
    return name.ljust(16, "-")


def row_of(report, name):
    return next((row for row in report["rows"] if row["key"] == id_of(name)), None)


def joules_of(yard, lease):
    row = row_of(usage(yard), lease)
    return joules(row) if row else 0


def everything(report):
    return sum(joules(row) for row in report["rows"]) + joules(report["unleased"])


def claim(yard, name, **wish):
    def granted():
        # The world's load belongs to no process, so that its GPU counts as used.
        forced = yard.get("/api/gpu/manage/all/override", unix=True, method="PUT", body={"reason": "a test's load"})
        assert forced.status in (200, 409, 503), forced.text
        answer = yard.get(LEASES, unix=True, method="POST", body={
            "id": id_of(name), "binding": "detached", "ttl_s": 600, "answer_within_s": 5} | wish)
        if answer.status == 503:  # the leases of the last life are still being looked at
            return False
        assert answer.status == 200, answer.text
        return answer.json()["lease"]["state"] == "held"
    wait_until(granted, f"lease {name}")


def lease(yard, name):
    answer = yard.get(f"{LEASES}/{id_of(name)}", unix=True)
    assert answer.status == 200, answer.text
    return answer.json()["lease"]


def release(yard, name):
    answer = yard.get(f"{LEASES}/{id_of(name)}", unix=True, method="DELETE")
    assert answer.status == 200, answer.text
    wait_until(lambda: lease(yard, name)["state"] == "ended", f"the end of lease {name}")


def counts(yard):
    """Until another reading was counted, under leases or none."""
    def hours():
        report = usage(yard)
        return report["unleased"]["gpu_hours"] + sum(row["gpu_hours"] for row in report["rows"])
    before = hours()
    wait_until(lambda: hours() > before, "a reading to be counted")
    return yard


@pytest.fixture
def still(world):
    """One busy GPU in a world that moves only by `step`, so that its counters are exact."""
    world.start("--gpus", "1", "--load", "steady:0.8:1G", "--stepped")
    world.must("step", "5s")
    world.joules = lambda: world.gpu(0)["energy_joules"]
    return world


def serving(daemon, world, **options):
    return counts(daemon(GPUYARD_SIM_WORLD=str(world.directory), **options))


def move(yard, world, time):
    """Moves the world, until all that it used is counted, under a lease or under none."""
    before, counted = world.joules(), everything(usage(yard))
    world.must("step", time)
    used = world.joules() - before
    assert used > 100
    wait_until(lambda: abs(everything(usage(yard)) - counted - used) < EXACT,
               f"{used} J to be counted")
    return used


def test_leased_and_unleased_energy_add_up_to_counter(daemon, still):
    yard, start = serving(daemon, still), still.joules()
    assert usage(yard)["simulated"] is True
    claim(yard, "first")
    used = {"first": move(yard, still, "10s")}
    release(yard, "first")
    used[""] = move(yard, still, "4s")
    claim(yard, "second")
    used["second"] = move(yard, still, "7s")
    release(yard, "second")
    used[""] += move(yard, still, "2s")

    report = usage(yard)
    assert abs(joules(row_of(report, "first")) - used["first"]) < EXACT
    assert abs(joules(row_of(report, "second")) - used["second"]) < EXACT
    assert abs(joules(report["unleased"]) - used[""]) < EXACT
    assert abs(everything(report) - (still.joules() - start)) < EXACT
    for row in report["rows"]:
        assert row["leases"] == 1 and row["energy_estimated"] is False
        assert row["energy_unknown_gpu_hours"] < 1e-6
    assert abs(lease(yard, "first")["use"]["energy_mj"] / 1000 - used["first"]) < EXACT

    by_user = usage(yard, "user")
    assert [row["uid"] for row in by_user["rows"]] == [0]
    assert by_user["rows"][0]["key"] == "root" and by_user["rows"][0]["leases"] == 2
    assert abs(everything(by_user) - everything(report)) < EXACT
    by_gpu, by_day = usage(yard, "gpu"), usage(yard, "day")
    assert [row["key"] for row in by_gpu["rows"]] == [still.uuid(0)]
    assert sum(joules(row) for row in by_day["rows"]) == pytest.approx(
        used["first"] + used["second"], abs=EXACT)


def test_usage_survives_restart_without_energy_of_outage(daemon, still, tmp_path):
    place = tmp_path / "yard"
    yard = serving(daemon, still, directory=place)
    claim(yard, "over")
    over = move(yard, still, "3s")
    release(yard, "over")
    claim(yard, "long")
    first = move(yard, still, "5s")
    assert yard.stop() == 0
    still.must("step", "20s")
    yard = serving(daemon, still, directory=place)
    then = move(yard, still, "6s")
    use = lease(yard, "long")["use"]
    assert abs(use["energy_mj"] / 1000 - first - then) < EXACT
    assert use["energy_unknown_s"] > 0 and use["energy_unknown_s"] < use["held_s"]
    assert abs(lease(yard, "over")["use"]["energy_mj"] / 1000 - over) < EXACT

    # A lease that is over is on the disk: a kill takes nothing of it.
    release(yard, "long")
    counts(counts(yard))
    yard.stop(signal.SIGKILL)
    yard = serving(daemon, still, directory=place)
    assert abs(joules_of(yard, "long") - first - then) < EXACT
    assert abs(lease(yard, "long")["use"]["energy_mj"] / 1000 - first - then) < EXACT
