"""SIGHUP: other rules and sinks come into force as a whole or not at all, and nothing that waits is lost."""

from alerts_yard import brake, webhook
from program import wait_until
from receiver import Receiver


def statuses(receiver):
    return [(told.json()["rule"], told.json()["status"]) for told in receiver.taken()]


def test_reload_applies_changes_and_keeps_queued_notifications(alerts_yard, opened, record_property):
    record_property("contract", "C17")
    down, fresh = opened(Receiver(usual=503)), opened(Receiver())
    yard = alerts_yard(brake("brake") + webhook("down", down))
    hot = '[rule.hot]\non = "temperature_c"\nat = {at}\nseverity = 60\nmessage = "warm"\n'
    first = yard.fire(0, "brake")
    wait_until(lambda: down.told, "a try")
    assert "3 sinks from" in yard.reload(
        brake("brake") + hot.format(at=200) + webhook("down", down) + webhook("fresh", fresh))
    assert yard.sink("down")["queued"] == 1  # it waits as it did
    assert yard.firing("brake") == [first]
    wait_until(lambda: statuses(fresh) == [("brake", "firing")], "what fires already at the new sink")
    yard.reload(brake("brake") + hot.format(at=1) + webhook("down", down) + webhook("fresh", fresh))
    wait_until(lambda: statuses(fresh)[1:] == [("hot", "firing")], "the changed rule at the new sink")
    down.usual = 200
    yard.reload(brake("brake") + hot.format(at=1) + webhook("down", down, "timeout_s = 7") +
                webhook("fresh", fresh))
    wait_until(lambda: sorted(statuses(down)) == [("brake", "firing"), ("hot", "firing")],
               "what waited")
    assert len({told.headers["x-gpuyard-delivery"] for told in down.told}) == 2
    # Less bad than it is now: over, without anything else having changed.
    yard.reload(brake("brake") + hot.format(at=200) + webhook("down", down) + webhook("fresh", fresh))
    wait_until(lambda: statuses(fresh)[2:] == [("hot", "resolved")], "the end by another threshold")


def test_a_key_that_needs_a_restart_is_named(alerts_yard):
    yard = alerts_yard(brake("brake"))
    yard.settings('[metrics]\nprefix = "other"\n[log]\nlevel = "debug"\n')
    said = yard.reload()
    assert "metrics.prefix has changed; it takes effect when the daemon restarts" in said
    assert "log.level" not in said
    assert "gpuyard_alert_rules" in yard.daemon.get("/metrics").text
    yard.end()
    yard.start()
    assert "other_alert_rules" in yard.daemon.get("/metrics").text
