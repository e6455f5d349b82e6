"""Alerts while the disk that stores them is full: notified all the same, and stored later."""

import os
from collections import Counter

import pytest

from alerts_yard import brake, webhook
from own_disk import fill
from program import wait_until
from receiver import Receiver


def words(receiver, rule, gpu=None):
    return [body["status"] for body in (told.json() for told in receiver.taken())
            if body["rule"] == rule and (gpu is None or body["gpu"]["index"] == gpu)]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount a disk of its own")
def test_full_disk_delays_no_notification_and_catches_up(own_disk, alerts_yard, opened, record_property):
    record_property("contract", "C17")
    desk = opened(Receiver())
    yard = alerts_yard(brake("brake") + "[rule.journal-down]\nhold_s = 0\nclear_hold_s = 12\n" +
                       webhook("desk", desk), gpus=3)
    yard.fire(0, "brake")
    wait_until(lambda: words(desk, "brake", 0) == ["firing"], "the one before")
    filler = fill(own_disk)
    note = "would be lost when"
    rounds = 0
    # Changes fit into the WAL until it has to grow.
    while not any(note in one for one in yard.get("alerts")["notes"]):
        rounds += 1
        assert rounds < 100
        yard.fire(1, "brake")
        yard.clear(1)
    wait_until(lambda: words(desk, "journal-down") == ["firing"], "that the disk is full")
    while_full = yard.fire(2, "brake")
    wait_until(lambda: words(desk, "brake", 2) == ["firing"], "an alert while the disk is full")
    yard.clear(0)
    wait_until(lambda: words(desk, "brake", 0) == ["firing", "resolved"], "an end while it is full")
    done = yard.go("alerts", "ack", str(while_full["number"]), "--note", "mine")
    assert done.returncode == 5 and note in done.stderr  # and reports it

    filler.unlink()
    wait_until(lambda: words(desk, "journal-down") == ["firing", "resolved"], "the disk to be well")
    assert not yard.get("alerts")["notes"]
    wait_until(lambda: not yard.sink("desk")["queued"], "all to be told")
    yard.noted("desk")
    before = len(desk.told)
    history = yard.history()
    firing = yard.firing()
    assert firing[0]["number"] == while_full["number"] and firing[0]["acknowledged"]["note"] == "mine"
    yard.restart(9)
    # As if the disk had been there all the time.
    assert yard.firing() == firing
    assert yard.history() == history
    assert sorted(one["number"] for one in history) == list(range(1, len(history) + 1))
    assert len(desk.told) == before
    counts = Counter((told.json()["key"], told.json()["started_at"], told.json()["status"])
                     for told in desk.taken())
    assert set(counts.values()) == {1}
    wanted = {(one["fired"], status) for one in history
              for status in (("firing", "resolved") if one["resolved"] else ("firing",))}
    assert {key[1:] for key in counts} == wanted
    yard.clear(2)
    wait_until(lambda: words(desk, "brake", 2) == ["firing", "resolved"], "the last end")
