"""gpuyard fleet: what it shows is what the machines' own daemons say."""

import json
import signal

import pytest

from asking import answered, names, view
from program import PATIENCE, wait_until
from schemas import validate

VIEWS = (("fleet",), ("fleet-gpus", "gpus"), ("fleet-users", "users"), ("fleet-free", "free"),
         ("fleet-queue", "queue"), ("fleet-alerts", "alerts"), ("fleet-usage", "usage"),
         ("fleet-usage", "usage", "--by", "host"), ("fleet-doctor", "doctor"))


@pytest.fixture(scope="module")
def busy(fleet):
    """People have GPUs and wait for some; one GPU is cordoned, one is broken, one is used on the quiet."""
    n1, n2, n3, n4, n5 = fleet.nodes[:5]
    n1.must_here("gpuyard", "lease", "take", "-n", "2", "--for", "1h", "--quiet")
    n2.must_here("gpuyard", "lease", "take", "-n", "4", "--for", "1h", "--quiet", user="root")
    n2.popen("gpuyard", "lease", "take", "-n", "1", "--for", "1h", "--quiet")
    n3.must_here("gpuyard", "cordon", "0", "--reason", "a loud fan", user="root")
    n4.world.xid(1, 79)
    command = n5.popen("gpuyard", "run", "--quiet", "--", "sleep", "600")
    stranger = n5.popen("sh", "-c", "gpuyard sim attach --gpu 3 --pid $$ --vram 2G && exec sleep 600", user="root")
    wait_until(lambda: view(fleet, "alerts")["alerts"] and view(fleet, "queue")["waiting"] and
               {user["user"]: user["gpus"] for user in view(fleet, "users")["users"]} ==
               {"alice": 3, "root": 5}, "all of it to be seen")
    yield fleet
    stranger.kill()
    command.send_signal(signal.SIGTERM)
    command.wait(PATIENCE)


def said(node, *words, user="alice"):
    return json.loads(node.must_here("gpuyard", *words, "--json", user=user))


@pytest.mark.parametrize("schema, words", [(one[0], one[1:]) for one in VIEWS])
def test_each_view_is_as_its_schema_says(busy, schema, words):
    answer = view(busy, *words)
    validate(answer, schema)
    assert busy.must("schema", schema), "the program knows it as well"
    assert answer["simulated"] is True and answered(answer) == names(busy)


@pytest.mark.parametrize("words", [one[1:] for one in VIEWS])
def test_each_view_has_a_table_that_names_machines(busy, words):
    table = busy.must("fleet", *words)
    assert "n2" in table or words in (("usage",), ("free",), ("alerts",), ("doctor",)), table
    assert "\x1b" not in table and busy.go("fleet", *words).stderr == ""


def test_node_counts_match_each_daemons_answers(busy, record_property):
    record_property("contract", "F1")
    shown = view(busy)["nodes"]
    assert [one["host"] for one in shown] == names(busy)
    for node, one in zip(busy.nodes, shown):
        leases = said(node, "leases")["leases"]
        assert one["gpus"] == len(said(node, "devices")["devices"]) == 4
        assert one["leased"] == sum(len(lease["gpus"]) for lease in leases if lease["state"] == "held")
        assert one["waiting"] == len(said(node, "queue")["waiting"])
        assert one["alerts"] == len(said(node, "alerts")["alerts"])
        assert one["gpus"] == sum(one[use] for use in ("free", "leased", "outside", "withheld"))
    assert [one["free"] for one in shown] == [2, 0, 3, 3, 2, 4, 4, 4]
    assert [one["withheld"] for one in shown] == [0, 0, 1, 1, 0, 0, 0, 0]
    assert shown[4]["outside"] == 1 and shown[3]["worst_alert"] == "critical"


def test_every_gpu_row_shows_use_and_user(busy):
    gpus = view(busy, "gpus")["gpus"]
    own = [(node.name, gpu["index"], gpu["uuid"]) for node in busy.nodes
           for gpu in said(node, "devices")["devices"]]
    assert [(gpu["host"], gpu["index"], gpu["uuid"]) for gpu in gpus] == own and len(own) == 32
    had = {(node.name, gpu["uuid"], lease["user"]) for node in busy.nodes
           for lease in said(node, "leases")["leases"] for gpu in lease["gpus"]}
    assert {(gpu["host"], gpu["uuid"], gpu["user"]) for gpu in gpus if gpu["use"] == "leased"} == had
    assert {(gpu["host"], gpu["index"], gpu["user"]) for gpu in gpus if gpu["use"] == "outside"} == {
        ("n5", 3, "root")}
    withheld = {(gpu["host"], gpu["index"]): gpu["why"] for gpu in gpus if gpu["use"] == "withheld"}
    assert withheld[("n3", 0)] == "cordoned" and set(withheld) == {("n3", 0), ("n4", 1)}


def test_users_view_lists_hosts_and_gpu_indexes(busy):
    users = {user["user"]: {(place["host"], index) for place in user["places"]
                            for index in place["indexes"]} for user in view(busy, "users")["users"]}
    own = {"root": {("n5", 3)}}
    for node in busy.nodes:
        for lease in said(node, "leases")["leases"]:
            own.setdefault(lease["user"], set()).update((node.name, gpu["index"]) for gpu in lease["gpus"])
    assert users == own


def test_queue_and_alerts_match_each_daemons_answers(busy):
    for words, rows, field in ((("queue",), "waiting", "lease"), (("alerts",), "alerts", "alert")):
        shown = [(one["host"], one[field]) for one in view(busy, *words)[rows]]
        assert shown == [(node.name, one) for node in busy.nodes for one in said(node, *words)[rows]]
        assert len(shown) == 1


def hours(usage):
    return {row["key"]: row["gpu_hours"] for row in usage["rows"]}


def total_of(parts):
    total = {}
    for part in parts:
        for key, value in part.items():
            total[key] = total.get(key, 0) + value
    return total


def test_usage_is_the_sum_of_the_machines_books(busy):
    """The energy grows during the test, so that the fleet's sum lies between two readings."""
    def books():
        return [hours(said(node, "usage")) for node in busy.nodes]
    before = books()
    by_user, by_host = (hours(view(busy, "usage", "--by", by)["usage"]) for by in ("user", "host"))
    after = books()
    least, most = total_of(before), total_of(after)
    assert set(by_user) == set(least) == {"alice", "root"}
    assert all(least[user] <= by_user[user] <= most[user] for user in least), (least, by_user, most)
    for node, low, high in zip(busy.nodes, before, after):
        assert sum(low.values()) <= by_host.get(node.name, 0) <= sum(high.values())


def test_a_machine_that_is_named_twice_counts_once(fleet, record_property):
    record_property("contract", "F1")
    answer = view(fleet, "--hosts", "n1,n1b,ssh://root@n1,n2")
    assert [one["same_as"] for one in answer["hosts"]] == [None, "n1", "n1", None]
    assert sum(node["gpus"] for node in answer["nodes"]) == 8
    assert "n1b: same daemon as n1" in fleet.go("fleet", "--hosts", "n1,n1b").stderr
