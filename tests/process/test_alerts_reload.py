"""SIGHUP: other rules and sinks come into force as a whole or not at all, and nothing that waits is lost."""

import os

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


def test_invalid_file_changes_no_rules_and_logs_line(alerts_yard, opened):
    desk = opened(Receiver())
    yard = alerts_yard(brake("brake") + webhook("desk", desk))
    alert = yard.fire(0, "brake")
    rules, sinks = yard.get("rules"), [sink["name"] for sink in yard.get("sinks")["sinks"]]
    good = yard.file.read_text()
    lines = good.count("\n")
    for wrong, why in (("[rule.brake2\n", "expected ']'"),
                       ("[rule.x]\nat = 'high'\n", "rule x: at: expected a number"),
                       ('[sink.x]\nkind = "fax"\n', "sink.x.kind"), ("[rules]\n", "rules")):
        yard.file.write_text(good + wrong)
        said = yard.reload()
        place = lines + (1 if wrong.count("\n") == 1 else 2)
        assert f"configuration not reloaded: {yard.file}:{place}: " in said, said
        assert why in said.split(f"{place}: ", 1)[1], said
        assert yard.get("rules") == rules and yard.firing() == [alert]
        assert [sink["name"] for sink in yard.get("sinks")["sinks"]] == sinks
    if os.geteuid() == 0:
        yard.file.chmod(0o666)
        assert f"other users can write to {yard.file}" in yard.reload()
        yard.file.chmod(0o644)
        yard.config.chmod(0o666)
        assert f"other users can write to {yard.config}" in yard.reload(), "which names what root runs and loads"
        yard.config.chmod(0o644)
    yard.file.unlink()
    assert f"{yard.file}" in yard.reload()
    assert yard.get("rules") == rules and yard.firing() == [alert]
    yard.file.write_text(good)
    assert "configuration reloaded: " in yard.reload()
    yard.clear(0)
    wait_until(lambda: len(desk.taken()) == 2, "the end, at the sink that stayed")


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
