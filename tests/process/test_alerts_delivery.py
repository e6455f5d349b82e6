"""Alerts reach those who look after GPUs: signed, once, in order, with any failure of a receiver."""

import hashlib
import hmac
import json
import shutil
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
    told_again()  # by the new life, beyond the end that the other life had named
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
