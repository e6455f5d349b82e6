"""Alerts through kills of the daemon: each sink is notified exactly once."""

import random
import signal
import threading
import time
from collections import Counter

from alerts_yard import brake, webhook
from program import PATIENCE, wait_until
from receiver import Receiver


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
