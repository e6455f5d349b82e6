"""Alerts reach those who look after GPUs: signed, once, in order, with any failure of a receiver."""

import hashlib
import hmac
import itertools
import json
import re
import shutil
import time
from datetime import datetime

import pytest

import alertmanager
from alertmanager import Alertmanager
from alerts_yard import brake, webhook
from program import wait_until
from receiver import Receiver, secret_file


def said_of(receiver):
    """The notifications that the receiver accepted, in order."""
    return [told.json() for told in receiver.taken()]


def statuses(receiver):
    return [body["status"] for body in said_of(receiver)]


def test_firing_and_resolved_reach_every_sink_kind(tmp_path, alerts_yard, opened, record_property):
    record_property("contract", "C17")
    desk, slack, pager = opened(Receiver()), opened(Receiver()), opened(Receiver([(202, {})] * 9))
    key = secret_file(tmp_path, "key", "s3cret\n")
    url = secret_file(tmp_path, "url", slack.url("/services/T0/B0/xyz"))
    routing = secret_file(tmp_path, "routing", "R0UTINGKEY")
    script = secret_file(
        tmp_path, "page", '#!/bin/sh\necho "$1 $GPUYARD_ALERT_STATUS $GPUYARD_ALERT_RULE '
        '$GPUYARD_ALERT_GPU_INDEX $GPUYARD_ALERT_GPU_UUID $GPUYARD_ALERT_SEVERITY '
        f'$GPUYARD_ALERT_LEVEL $GPUYARD_ALERT_SIMULATED $GPUYARD_ALERT_MESSAGE" >>{tmp_path}/run\n')
    script.chmod(0o755)
    yard = alerts_yard(
        brake("brake", f'command = ["{script}", "a b"]') +
        webhook("desk", desk, f'secret_file = "{key}"') +
        f'[sink.slack]\nkind = "slack"\nurl_file = "{url}"\n'
        f'[sink.pager]\nkind = "pagerduty"\nurl = "{pager.url("/v2/enqueue")}"\n'
        f'routing_key_file = "{routing}"\n', gpus=2)
    alert = yard.fire(1, "brake")
    uuid = yard.world.uuid(1)
    yard.clear(1)
    for one in (desk, slack, pager):
        wait_until(lambda one=one: len(one.taken()) == 2, "both words")

    for told in desk.told:
        signed = f'{told.headers["x-gpuyard-timestamp"]}.{told.text}'.encode()
        mac = hmac.new(b"s3cret", signed, hashlib.sha256).hexdigest()
        assert told.headers["x-gpuyard-signature"] == f"sha256={mac}"
        assert told.headers["x-gpuyard-delivery"] == told.json()["id"]
    firing, over = said_of(desk)
    assert (firing["status"], over["status"]) == ("firing", "resolved")
    assert (firing["key"], firing["message"]) == (f"brake/{uuid}", "GPU 1 brakes")
    assert (firing["severity"], firing["level"]) == (75, "error")
    assert firing["gpu"]["uuid"] == uuid and firing["simulated"] is True
    assert (firing["started_at"], firing["ended_at"]) == (alert["fired"], None)
    past = yard.history()[0]
    assert (over["started_at"], over["ended_at"]) == (past["fired"], past["resolved"])

    assert [told.json()["text"] for told in slack.told] == [
        f"{word}: [simulated] GPU 1 brakes" for word in ("ERROR", "RESOLVED")]
    trigger, resolve = said_of(pager)
    assert (trigger["event_action"], resolve["event_action"]) == ("trigger", "resolve")
    assert trigger["dedup_key"] == resolve["dedup_key"] == f"brake/{uuid}"
    assert trigger["routing_key"] == "R0UTINGKEY"

    ran = tmp_path / "run"
    wait_until(lambda: ran.exists() and ran.read_text().count("\n") == 2, "the command")
    assert ran.read_text().splitlines() == [
        f"a b {status} brake 1 {uuid} 75 error 1 GPU 1 brakes" for status in ("firing", "resolved")]


def test_alert_is_logged_with_severity(alerts_yard, record_property):
    record_property("contract", "C9")
    yard = alerts_yard(brake("brake", 'advice = "Wait."'))
    alert = yard.fire(0, "brake")
    assert (alert["severity"], alert["level"], alert["message"]) == (75, "error", "GPU 0 brakes")
    assert alert["advice"] == "Wait."
    yard.clear(0)
    line = r"^\S+ (error|info) ((?:ALERT|RESOLVED) .*)$"
    said = wait_until(lambda: len(found := re.findall(line, yard.log(), re.M)) == 2 and found, "it")
    assert said == [("error", "ALERT [severity 75]: GPU 0 brakes"),
                    ("info", "RESOLVED [severity 75]: GPU 0 brakes")]


def test_failing_sinks_delay_no_other_and_catch_up(alerts_yard, opened, record_property):
    record_property("contract", "C17")
    ill = {"errs": Receiver([503], usual=500), "asks": Receiver(usual=(429, {"Retry-After": "2"})),
           "drops": Receiver(usual="drop"), "hangs": Receiver(usual="hang")}
    for one in ill.values():
        opened(one)
    good = opened(Receiver())

    def rules_and_sinks(timeout):
        return (brake("brake") + webhook("good", good) +
                "".join(webhook(name, one, f"timeout_s = {timeout}") for name, one in ill.items()) +
                '[rule.sink-failing]\nat = 1\nsinks = ["good"]\n')
    yard = alerts_yard(rules_and_sinks(1))
    yard.fire(0, "brake")
    wait_until(good.taken, "the one that is well")
    wait_until(lambda: all(yard.sink(name)["failing_since"] for name in ill), "all of them to fail")
    wait_until(lambda: len(good.taken()) == 2, "the alert that sinks fail")
    # Shown while it lasts: to programs, to people and to Prometheus.
    shown = yard.must("alerts", "sinks")
    for name in ill:
        assert yard.sink(name)["queued"] == 1 and yard.sink(name)["last_error"]
        assert f"\n{name} has received nothing since " in shown
    queued = yard.metric("gpuyard_sink_queued")
    assert {labels for labels, count in queued.items() if count} == {
        f'{{sink="{name}",kind="webhook"}}' for name in ill}
    wait_until(lambda: len(ill["asks"].told) > 1, "another try after the pause that was asked for")
    asks = list(ill["asks"].told)
    assert all(after.when - before.when >= 2 for before, after in zip(asks, asks[1:]))
    for name, one in ill.items():
        one.usual = 200
    # A pause may be minutes long, but a sink that is changed is tried at once. More than one change,
    # because what was under way at the first still fails as it began.
    timeouts = itertools.cycle((2, 3))

    def all_told():
        yard.reload(rules_and_sinks(next(timeouts)))
        return all(statuses(one) == ["firing"] for one in ill.values())
    wait_until(all_told, "the alert at all of them")
    for one in ill.values():
        assert len({told.headers["x-gpuyard-delivery"] for told in one.told}) == 1
    wait_until(lambda: not any(yard.sink(name)["failing_since"] for name in ill), "all to be well")

    def counted(name):
        labels = f'{{sink="{name}",kind="webhook"}}'
        return [yard.metric(f"gpuyard_sink_{what}_total")[labels] for what in ("retries", "delivered")]
    for name, one in ill.items():
        wait_until(lambda name=name, one=one: counted(name) == [len(one.told) - 1, 1],
                   f"the figures of the one that {name}, which may be a second old")

    def told_of_failing():
        return [body["status"] for body in said_of(good) if body["rule"] == "sink-failing"]
    assert wait_until(lambda: len(told_of_failing()) == 2 and told_of_failing(),
                      "the alert of a sink that fails, and its end") == ["firing", "resolved"]


def test_alerts_test_exit_code_reports_failed_sinks(alerts_yard, opened):
    well, refuses = opened(Receiver()), opened(Receiver(usual=404))
    yard = alerts_yard(webhook("well", well, 'min_level = "critical"'))
    done = yard.go("alerts", "test")
    assert done.returncode == 0, done.stdout + done.stderr
    body = said_of(well)[0]
    assert body["test"] is True and body["rule"] == "test"
    yard.reload(webhook("well", well) + webhook("refuses", refuses))
    done = yard.go("alerts", "test", "--json")
    assert done.returncode == 7
    answers = {one["sink"]: one for one in json.loads(done.stdout)["sinks"]}
    assert answers["well"]["delivered"] and answers["log"]["delivered"]
    assert not answers["refuses"]["delivered"] and "404" in answers["refuses"]["why"]
    assert yard.go("alerts", "test", "--sink", "well").returncode == 0
    done = yard.go("alerts", "test", "--sink", "nobody")
    assert done.returncode == 6 and "gpuyard alerts sinks" in done.stderr
    yard.end()
    assert yard.go("alerts", "test").returncode == 5


SECRETS = ("HMAC-s3cret-key", "R0UTING-s3cret", "BEARER-s3cret", "PASS-s3cret", "T0S3CRET", "H00KS3CRET")


def test_secrets_are_never_shown(tmp_path, alerts_yard, opened):
    hook, bearer, basic, slack, pager = (opened(Receiver([500, "drop"], usual=404)) for _ in range(5))
    key, routing, token, password, url = (
        secret_file(tmp_path, f"secret{n}", text) for n, text in enumerate(
            [*SECRETS[:4], slack.url(f"/services/{SECRETS[4]}/xyz")]))
    sinks = (
        f'[sink.hook]\nkind = "webhook"\nurl = "{hook.url("/" + SECRETS[5])}"\nsecret_file = "{key}"\n'
        f'[sink.bearer]\nkind = "webhook"\nurl = "{bearer.url()}"\nbearer_token_file = "{token}"\n'
        f'[sink.basic]\nkind = "webhook"\nurl = "{basic.url()}"\nusername = "us"\n'
        f'password_file = "{password}"\n'
        f'[sink.slack]\nkind = "slack"\nurl_file = "{url}"\n'
        f'[sink.pager]\nkind = "pagerduty"\nurl = "{pager.url("/v2/enqueue")}"\n'
        f'routing_key_file = "{routing}"\n')
    yard = alerts_yard(brake("brake") + sinks)
    yard.settings('[log]\nlevel = "debug"\n')
    yard.reload()
    yard.fire(0, "brake")
    names = ("hook", "bearer", "basic", "slack", "pager")
    wait_until(lambda: all(yard.sink(name)["dead_letters_total"] for name in names), "refusals")
    sent = "".join(told.text + told.path + str(told.headers)
                   for one in (hook, bearer, slack, pager) for told in one.told)
    for secret in SECRETS[1:3] + SECRETS[4:]:
        assert secret in sent  # they are used, and the receivers' answers repeat them

    said = [yard.must("alerts", what, "--json") for what in ("sinks", "rules", "history")]
    said += [yard.must("alerts", "sinks"), yard.daemon.get("/metrics").text,
             yard.must("config", "print", "--config", str(yard.config)),
             yard.must("config", "print", "--json", "--config", str(yard.config)),
             yard.go("alerts", "test", "--json").stdout]
    for broken in (sinks + "min_level = 3\n", sinks.replace('kind = "slack"', 'kind = "slacc"'),
                   sinks.replace("url_file", "urll_file"), sinks + "= nonsense\n",
                   sinks.replace(hook.url("/"), "ftp://us:" + SECRETS[3] + "@127.0.0.1/"),
                   sinks.replace("secret_file", "key = '" + SECRETS[0] + "'\nsecret_file", 1)):
        yard.rules(broken)
        done = yard.go("config", "check", "--config", str(yard.config))
        assert done.returncode != 0, broken
        assert "configuration not reloaded" in yard.reload()
        said += [done.stdout, done.stderr]
    said.append(yard.log())
    for text in said:
        for secret in SECRETS:
            assert secret not in text


@pytest.mark.skipif(not shutil.which(alertmanager.PROGRAM), reason="no Alertmanager")
def test_alertmanager_keeps_one_alert_across_resends_and_restart(
        tmp_path, alerts_yard, opened, record_property):
    record_property("contract", "C17")
    desk = opened(Receiver())
    real = opened(Alertmanager(tmp_path, desk, resolve_timeout="2s"))
    yard = alerts_yard(brake("brake", 'advice = "Wait."') +
                       f'[sink.am]\nkind = "alertmanager"\nresend_s = 5\nurl = "{real.url()}"\n', gpus=2)
    mine = [yard.fire(gpu, "brake") for gpu in (0, 1)]
    alerts = wait_until(lambda: len(real.by_gpu()) == 2 and real.by_gpu(), "both alerts")
    uuids = [yard.world.uuid(gpu) for gpu in (0, 1)]
    host = alerts[uuids[0]]["labels"]["instance"]
    assert host
    for gpu, (uuid, alert) in enumerate(zip(uuids, mine)):
        assert alerts[uuid]["labels"] == {
            "alertname": "brake", "uuid": uuid, "instance": host, "severity": "error",
            "job": "gpuyard", "simulated": "true"}
        assert alerts[uuid]["startsAt"] == alert["fired"]
        assert alerts[uuid]["annotations"]["gpu"] == str(gpu)
        assert alerts[uuid]["annotations"]["summary"] == f"[simulated] GPU {gpu} brakes"
    # A group, that is passed on in one message.
    wait_until(lambda: [t for t in desk.told if len(t.json()["alerts"]) == 2], "both in one message")

    def ends():
        text = real.by_gpu()[uuids[0]]["endsAt"]
        return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()

    def told_again():
        former = ends()
        return wait_until(lambda: (now := ends()) > former and now, "the repetition")
    told_again()  # the other life has all of the time until it would end
    yard.restart(9)
    assert [one["number"] for one in yard.firing("brake")] == [one["number"] for one in mine]
    # Told by another life, and past what it said first, it goes on as the same.
    would_end = told_again()
    wait_until(lambda: time.time() > would_end, "the end of what the other life told first")
    again = real.by_gpu()
    assert [again[uuid]["fingerprint"] for uuid in uuids] == [
        alerts[uuid]["fingerprint"] for uuid in uuids]
    assert [again[uuid]["startsAt"] for uuid in uuids] == [one["fired"] for one in mine]
    assert all(again[uuid]["status"]["state"] == "active" for uuid in uuids)
    assert not any(one["status"] == "resolved" for told in desk.told for one in told.json()["alerts"])
    yard.clear(0)
    wait_until(lambda: list(real.by_gpu()) == [uuids[1]], "the end of one")
    wait_until(lambda: [one for told in desk.told for one in told.json()["alerts"]
                        if one["status"] == "resolved" and one["labels"]["uuid"] == uuids[0]],
               "the end of one, passed on")
