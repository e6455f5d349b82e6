"""Ten thousand requests, good and bad, of several users on connections that stay open: each is answered,
and each GPU ends with a value of an accepted request.
"""

import grp
import os
import random
import threading

import pytest

from control_yard import ControlYard

GPUS = 4
REQUESTS = 10_000
BASE = 700000
CLOCK_STEP = 15  # MHz, of an H100
GROUP = grp.getgrgid(100).gr_name

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can ask as other users")

# Invalid bodies.
NONSENSE = ["", "{", "[]", "null", '"x"', "{}", '{"power_limit_mw": "300"}', '{"power_limit_mw": 1.5}',
            '{"power_limit_mw": null}', '{"power_limit_mw": 300000, "for_s": "long"}',
            '{"power_limit_mw": 300000, "for_s": -1}', '{"power_limit_mw": 300000, "for_s": 1e300}',
            '{"power_limit_mw": -300000}', '{"power_limit_mw": 99999999999999999999}',
            '{"power_limit_mw": 300000, "extra": 1}', "\x00", "[" * 1000, '{"power_limit_mw": 1e400}']


class User:
    """Sends random requests, and records the acknowledged values by (gpu, what)."""

    def __init__(self, yard, seed, caller):
        self.chance = random.Random(seed)
        self.caller = caller
        self.yard = yard
        self.has = {}
        self.asked = {gpu: {BASE} for gpu in range(GPUS)}  # power limits that were accepted
        self.answers = {}
        self.problems = []

    def run(self, count):
        try:
            for _ in range(count):
                answer = self.one()
                self.answers[answer.status] = self.answers.get(answer.status, 0) + 1
        except Exception as error:  # an exception in a thread would be lost
            self.problems.append(repr(error))

    def one(self):
        gpu = self.chance.randrange(GPUS)
        kind = self.chance.choices(
            ["power", "clocks", "restore power", "restore clocks", "bad value", "nonsense", "no gpu",
             "read", "dry run"], [30, 12, 20, 10, 8, 8, 4, 4, 4])[0]
        return getattr(self, kind.replace(" ", "_"))(gpu)

    def expect(self, answer, *allowed):
        if answer.status not in allowed:
            self.problems.append(f"{answer.status}, not one of {allowed}: {answer.text[:300]}")
        return answer

    def power(self, gpu):
        watts = self.chance.randrange(200, 701)
        answer = self.expect(self.caller.power(gpu, watts), 200, 429, 503)
        if answer.status == 200:
            self.has[gpu, "power"] = watts * 1000
            self.asked[gpu].add(watts * 1000)
        return answer

    def clocks(self, gpu):
        least = self.chance.randrange(210, 1500, CLOCK_STEP)
        most = self.chance.randrange(least, 1980, CLOCK_STEP)
        answer = self.expect(self.caller.clocks(gpu, least, most), 200, 409, 429, 503)
        if answer.status == 200:
            self.has[gpu, "clocks"] = [least, most]
        return answer

    def restore_power(self, gpu):
        return self.restored(gpu, "power", self.caller.delete(gpu, "power-limit"))

    def restore_clocks(self, gpu):
        return self.restored(gpu, "clocks", self.caller.delete(gpu, "gpu-clocks"))

    def restored(self, gpu, what, answer):
        self.expect(answer, *((200, 429, 503) if (gpu, what) in self.has else (404, 409, 429, 503)))
        if answer.status == 200:
            self.has.pop((gpu, what), None)
        return answer

    def bad_value(self, gpu):
        watts = self.chance.choice((0, 1, 199, 701, 1000, 100000))
        return self.expect(self.caller.power(gpu, watts), 400, 422, 429, 503)

    def nonsense(self, gpu):
        text = self.chance.choice(NONSENSE)
        return self.expect(self.caller.ask("PUT", f"/api/gpu/manage/{gpu}/power-limit", raw=text),
                           400, 422)

    def no_gpu(self, _):
        name = self.chance.choice(("99", "-1", "GPU-", "0000:ff:00.0", "0,99", "x"))
        return self.expect(self.caller.power(name, 300), 400, 404)

    def read(self, gpu):
        return self.expect(self.caller.ask("GET", f"/api/gpu/manage/{gpu}"), 200)

    def dry_run(self, gpu):
        watts = self.chance.randrange(200, 701)
        return self.expect(self.caller.power(gpu, watts, dry_run=True), 200, 429, 503)


def test_ten_thousand_requests_leave_only_requested_settings(world, tmp_path, record_property):
    record_property("contract", "B13")
    yard = ControlYard(world, tmp_path, "--gpus", str(GPUS), "--load", "idle", group=GROUP,
                       shares={"changes_a_minute": REQUESTS})
    try:
        yard.start()
        callers = [yard.root] + [yard.caller(1000 + i, groups=(100,)) for i in range(3)]
        users = [User(yard, seed, caller) for seed, caller in enumerate(callers)]
        threads = [threading.Thread(target=user.run, args=(REQUESTS // len(users),)) for user in users]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        check(yard, users)
    finally:
        yard.end()


def check(yard, users):
    assert [user.problems for user in users] == [[]] * len(users)
    assert sum(sum(user.answers.values()) for user in users) == REQUESTS
    accepted = sum(user.answers.get(200, 0) for user in users)
    assert REQUESTS / 3 < accepted < REQUESTS  # the mix is one
    assert all(user.caller.connections < 20 for user in users), "connections were not kept"
    status = yard.world.status()
    for gpu in range(GPUS):
        claims = [user.has[gpu, "power"] for user in users if (gpu, "power") in user.has]
        found = status["gpus"][gpu]
        assert found["power_limit_w"] * 1000 == min(claims, default=BASE)
        locks = [user.has[gpu, "clocks"] for user in users if (gpu, "clocks") in user.has]
        assert len(locks) <= 1  # one owner
        assert found["settings"]["locked_sm_mhz"] == (locks[0] if locks else [])
    # Before that: every write was requested, and none was refused.
    for gpu in range(GPUS):
        asked = set().union(*(user.asked[gpu] for user in users))
        written = yard.writes(gpu, ok_only=False)
        assert {write[2] for write in written if write[1] == "power_limit"} <= asked
    assert yard.root.restore_all(force=True).status in (200, 207)
    assert [gpu["power_limit_w"] for gpu in yard.world.status()["gpus"]] == [700] * GPUS
