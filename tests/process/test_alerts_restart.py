"""Alerts through the end of the daemon, requested or not: each sink is notified exactly once, and
acknowledgements and silences stay.
"""

import random
import signal
import threading
import time
from collections import Counter

import pytest

from alerts_yard import brake, webhook
from program import PATIENCE, wait_until
from receiver import Receiver

# A GPU each.
PENDING, TOLD, UNTOLD, ACKNOWLEDGED, SILENCED, QUARANTINED, OVER = range(7)


def of_gpu(receiver, gpu):
    """Status, and id of delivery, of what a receiver has taken of one GPU."""
    return [(told.json()["status"], told.headers["x-gpuyard-delivery"]) for told in receiver.taken()
            if (told.json()["gpu"] or {}).get("index") == gpu]


def words(receiver, gpu):
    return [status for status, _ in of_gpu(receiver, gpu)]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_alert_states_survive_daemon_restart(alerts_yard, opened, number, record_property):
    record_property("contract", "C17")
    desk, down = opened(Receiver()), opened(Receiver(usual=503))

    def rules(hold_s):
        return (brake("slow", f'gpus = ["{PENDING}"]\nhold_s = {hold_s}\nsinks = ["desk"]') +
                brake("quick", f'gpus = ["{TOLD}", "{ACKNOWLEDGED}", "{SILENCED}"]\nsinks = ["desk"]') +
                brake("grave", f'gpus = ["{QUARANTINED}"]\nquarantine = true\nsinks = ["desk"]') +
                brake("lost", f'gpus = ["{UNTOLD}", "{OVER}"]\nsinks = ["down"]') +
                webhook("desk", desk) + webhook("down", down))
    yard = alerts_yard(rules(hold_s=600), gpus=7)
    yard.must("alerts", "silence", "--gpu", str(SILENCED), "--for", "1h", "--comment", "being mended")
    silence = yard.get("silences")["silences"]
    for gpu in range(7):
        yard.brake(gpu)
    wait_until(lambda: len(yard.firing()) == 6 and yard.pending() == ["slow"], "all of them to fire")
    yard.clear(OVER)
    acknowledged = next(one for one in yard.firing() if one["gpu"]["index"] == ACKNOWLEDGED)
    wait_until(lambda: len(desk.taken()) == 3 and down.told, "words to those who hear")
    yard.must("alerts", "ack", str(acknowledged["number"]), "--note", "on my way")
    before = {one["gpu"]["index"]: one for one in yard.firing()}
    ended = yard.history()
    yard.noted("desk")
    tried = {told.headers["x-gpuyard-delivery"] for told in down.told}

    yard.end(number)
    down.usual = 200
    yard.start()

    assert {one["gpu"]["index"]: one for one in yard.firing()} == before
    assert before[ACKNOWLEDGED]["acknowledged"]["note"] == "on my way"
    assert before[SILENCED]["silenced"] and not before[SILENCED]["told"]
    assert before[QUARANTINED]["quarantines"]
    assert yard.get("silences")["silences"] == silence
    assert [one for one in yard.history() if one["state"] == "resolved"] == [
        one for one in ended if one["state"] == "resolved"]
    six = wait_until(lambda: yard.go("run", "--no-wait", "--gpus", "6", "--", "printenv",
                                     "CUDA_VISIBLE_DEVICES").stdout, "a lease of the others")
    assert yard.world.uuid(QUARANTINED) not in six and yard.world.uuid(TOLD) in six
    assert yard.go("run", "--no-wait", "--gpus", "7", "--", "true").returncode != 0

    # A sink that was down gets all that it missed, in order; other sinks get nothing.
    wait_until(lambda: len(down.taken()) == 3, "what was not delivered")
    assert words(down, UNTOLD) == ["firing"] and words(down, OVER) == ["firing", "resolved"]
    assert tried <= {told.headers["x-gpuyard-delivery"] for told in down.taken()}
    wait_until(lambda: yard.pending() == ["slow"], "the pending one to be so again")
    assert sorted(told.json()["gpu"]["index"] for told in desk.told) == [TOLD, ACKNOWLEDGED, QUARANTINED]
    yard.reload(rules(hold_s=0))
    wait_until(lambda: words(desk, PENDING) == ["firing"], "the pending one to fire")
    yard.must("alerts", "unsilence", silence[0]["id"])
    wait_until(lambda: words(desk, SILENCED) == ["firing"], "the silenced one to be told")
    for gpu in range(7):
        yard.release(gpu)
    wait_until(lambda: not yard.firing(), "the end of all")
    wait_until(lambda: len(desk.taken()) == 10 and len(down.taken()) == 4, "the last words")
    for gpu in (PENDING, TOLD, ACKNOWLEDGED, SILENCED, QUARANTINED):
        assert words(desk, gpu) == ["firing", "resolved"], gpu
    assert words(down, UNTOLD) == words(down, OVER) == ["firing", "resolved"]
    for receiver in (desk, down):
        assert set(Counter(told.headers["x-gpuyard-delivery"] for told in receiver.taken()).values()) == {1}
    numbers = [one["number"] for one in yard.history()]
    assert sorted(numbers) == list(range(1, 8))


def test_killed_ten_times_while_alerts_come_and_go(alerts_yard, opened, record_property):
    record_property("contract", "C17")
    seed = random.randrange(2**32)
    dice = random.Random(seed)
    desk = opened(Receiver())
    gpus = 4
    yard = alerts_yard(brake("brake", 'sinks = ["desk"]') + webhook("desk", desk), gpus=gpus)
    on = [False] * gpus
    # Of each life: until when it was, and what it had not noted then.
    lives = []

    def live(dead):
        deadline = time.monotonic() + PATIENCE
        while not dead():
            assert time.monotonic() < deadline, f"seed {seed}: nothing was told"
            gpu = dice.randrange(gpus)
            on[gpu] = not on[gpu]
            (yard.brake if on[gpu] else yard.release)(gpu)
            time.sleep(dice.uniform(0, 0.5))  # whenever it is: that is what is tested

    for life in range(10):
        process = yard.daemon.process
        if life == 1:  # the daemon dies before the answer
            desk.on_told = process.kill
        elif life % 2:  # the answer has just arrived, or is about to
            delay = dice.uniform(0, 0.01)
            desk.on_told = lambda kill=process.kill, delay=delay: threading.Timer(delay, kill).start()
        if life % 2:
            live(lambda process=process: process.poll() is not None)
            desk.on_told = lambda: None
        else:
            until = time.monotonic() + dice.uniform(0.1, 1.6)
            live(lambda until=until: time.monotonic() > until)
        yard.end(signal.SIGKILL)
        waiting = yard.daemon.kept("SELECT id FROM alert_outbox")  # whose delivery it has not noted
        lives.append((time.monotonic(), {row[0] for row in waiting}))
        yard.start()
    for gpu in range(gpus):
        yard.release(gpu)
    wait_until(lambda: not yard.firing(), "the end of all")

    def told():
        return [one for one in yard.history() if one["told"]]

    def bodies():
        return {t.headers["x-gpuyard-delivery"]: t.json() for t in desk.told}.values()

    # The last words wait for the disk before they wait for the sink.
    wait_until(lambda: len(bodies()) >= 2 * len(told()), f"the last words (seed {seed})")
    assert len(told()) > 3, f"seed {seed}: too little happened"
    heard = Counter((body["key"], body["started_at"], body["status"]) for body in bodies())
    wanted = Counter((f"brake/{one['gpu']['uuid']}", one["fired"], status)
                     for one in told() for status in ("firing", "resolved"))
    # No alert is left out, and no two deliveries say the same of one.
    assert heard == wanted, f"seed {seed}"
    numbers = [one["number"] for one in yard.history()]
    assert len(set(numbers)) == len(numbers)

    # A delivery came again only if a daemon was killed between the two on whose disk it still waited.
    # Answers are stored in their order: that daemon had not stored the later one either.
    deliveries = {}
    for one in desk.told:
        deliveries.setdefault(one.headers["x-gpuyard-delivery"], []).append(one)
    for ident, times in deliveries.items():
        for first, again in zip(times, times[1:]):
            killed, waiting = next((one for one in lives if one[0] > first.when), (0, set()))
            assert killed < again.when and ident in waiting, f"seed {seed}: {ident}"
            later = {one.headers["x-gpuyard-delivery"] for one in desk.told
                     if first.when < one.when < killed}
            assert later <= waiting, f"seed {seed}: {ident}"
    twice = sum(len(times) > 1 for times in deliveries.values())
    assert twice >= 1, f"seed {seed}: no daemon was killed before it could note an answer"
