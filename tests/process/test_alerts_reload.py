"""SIGHUP: other rules and sinks come into force as a whole or not at all, and nothing that waits is lost."""

import os

from alerts_yard import brake, webhook
from program import wait_until
from receiver import Receiver


def statuses(receiver):
    return [(told.json()["rule"], told.json()["status"]) for told in receiver.taken()]


def words(receiver, rule):
    return [status for of, status in statuses(receiver) if of == rule]


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


def test_removed_rule_resolves_alert_with_reason(alerts_yard, opened):
    desk = opened(Receiver())
    yard = alerts_yard(brake("one") + brake("other") + webhook("desk", desk))
    yard.fire(0, "one")
    wait_until(lambda: len(yard.firing()) == 2, "both")
    yard.reload(brake("other", "enabled = false") + webhook("desk", desk))
    assert yard.firing() == []
    past = {alert["rule"]: alert for alert in yard.history()}
    assert past["one"]["ending"] == "its rule was removed"
    assert past["other"]["ending"] == "its rule was disabled"
    wait_until(lambda: sorted(statuses(desk)) == [
        (rule, status) for rule in ("one", "other") for status in ("firing", "resolved")], "the ends")
    yard.noted("desk")
    yard.restart(9)
    assert yard.firing() == [] and len(desk.told) == 4


def test_notified_sinks_get_resolved_after_rule_change(alerts_yard, opened, record_property):
    record_property("contract", "C17")
    named, usual, later = opened(Receiver()), opened(Receiver()), opened(Receiver())
    sinks = webhook("named", named, 'min_level = "critical"') + webhook("later", later)
    yard = alerts_yard(brake("gone", 'sinks = ["named"]') + brake("goes_on") + sinks +
                       webhook("usual", usual))
    yard.fire(0, "gone")
    wait_until(lambda: statuses(named) and statuses(usual) and statuses(later), "the beginnings")
    # One rule is gone, and the other is another sink's business. To `usual` less matters now.
    yard.reload(brake("goes_on", 'sinks = ["named"]') + webhook("named", named) +
                webhook("usual", usual, 'min_level = "critical"'))
    wait_until(lambda: words(named, "gone") == ["firing", "resolved"], "its end")
    wait_until(lambda: words(named, "goes_on") == ["firing"], "the other, at who is to hear of it now")
    for sink in ("named", "usual"):
        yard.noted(sink)
    yard.restart(9)
    yard.clear(0)
    for receiver in (named, usual):
        wait_until(lambda receiver=receiver: words(receiver, "goes_on") == ["firing", "resolved"],
                   "the other's end")
    assert statuses(later) == [("goes_on", "firing")] and not words(usual, "gone")


def test_restart_notifies_new_sinks_and_logs_removed_ones(alerts_yard, opened):
    down, fresh = opened(Receiver(usual=503)), opened(Receiver())
    yard = alerts_yard(brake("brake") + webhook("down", down))
    yard.fire(0, "brake")
    wait_until(lambda: down.told, "a try")
    yard.end()
    yard.rules(brake("brake") + webhook("fresh", fresh))
    yard.start()
    line = f"Sink down: a notification of alert brake/{yard.world.uuid(0)} was dropped because the sink no longer exists"
    yard.daemon.wait_for_log(line)
    wait_until(lambda: statuses(fresh) == [("brake", "firing")], "what fires already at the new sink")
    yard.noted("down")
    yard.restart(9)  # and that is that
    assert line not in yard.daemon.log() and down.url() not in yard.log()


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
