"""Calls are repeated for a limited time while the daemon reads its stored state, and while the caller is over a
share."""

import pytest

from gpuyard import calls
from gpuyard.calls import Call, Sleep
from gpuyard.errors import Busy, NotFound, Unavailable, error_of_answer

PUT_OFF = b'{"error":{"code":"unavailable","message":"still being read"}}'


def put_off(after="1"):
    return error_of_answer(503, PUT_OFF, {"retry-after": after, "x-gpuyard-reading": "true"})


def over_a_share(after="1", status=503):
    return error_of_answer(status, b'{"error":{"code":"busy","message":"too many"}}',
                           {"retry-after": after})


def test_call_is_repeated_after_retry_after():
    plan = calls.find_lease("a")
    call = next(plan)
    assert plan.throw(put_off("2")) == Sleep(2)
    assert plan.send(None) == call
    assert plan.throw(put_off()) == Sleep(1)
    assert plan.send(None) == call
    with pytest.raises(NotFound):
        plan.throw(NotFound("no such lease"))


@pytest.mark.parametrize("after", ["", "60", "soon", "-1"])
def test_call_without_short_retry_after_is_not_repeated(after):
    plan = calls.release("a")
    next(plan)
    with pytest.raises(Unavailable):
        plan.throw(put_off(after))


def test_call_is_repeated_for_30_s_at_most(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(calls.time, "monotonic", lambda: now[0])
    plan = calls.renew("a", 60, 7)
    next(plan)
    for _ in range(30):
        assert plan.throw(put_off()) == Sleep(1)
        now[0] += 1
        assert isinstance(plan.send(None), Call)
    with pytest.raises(Unavailable):
        plan.throw(put_off())


@pytest.mark.parametrize("status", [429, 503])
def test_call_over_quota_is_repeated_three_times(monkeypatch, status):
    now = [0.0]
    monkeypatch.setattr(calls.time, "monotonic", lambda: now[0])
    plan = calls.renew("a", 60, 7)
    next(plan)
    for _ in range(3):
        assert plan.throw(over_a_share(status=status)) == Sleep(1)
        now[0] += 1
        assert isinstance(plan.send(None), Call)
    with pytest.raises(Busy):
        plan.throw(over_a_share(status=status))


def test_exceeded_quota_is_retried_for_five_seconds(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(calls.time, "monotonic", lambda: now[0])
    plan = calls.leases()
    next(plan)
    assert plan.throw(over_a_share("4")) == Sleep(4)
    now[0] += 4
    plan.send(None)
    with pytest.raises(Busy):
        plan.throw(over_a_share("4"))


@pytest.mark.parametrize("plan", [calls.leases(), calls.acknowledge(1, None), calls.release("a")])
def test_a_503_that_may_last_is_not_repeated(plan):
    next(plan)
    with pytest.raises(Unavailable):
        plan.throw(error_of_answer(503, PUT_OFF, {"retry-after": "1"}))


def test_release_at_block_end_is_attempted_once():
    plan = calls.release("a", 7, insists=False)
    next(plan)
    with pytest.raises(Unavailable):
        plan.throw(put_off())


def test_a_change_of_a_setting_is_made_once():
    plan = calls.set_setting(0, "power_limit", 300, None)
    next(plan)
    with pytest.raises(Unavailable):
        plan.throw(put_off())


def test_an_interrupted_pause_ends_the_plan():
    plan = calls.leases()
    next(plan)
    assert plan.throw(put_off()) == Sleep(1)
    with pytest.raises(KeyboardInterrupt):
        plan.throw(KeyboardInterrupt())


def test_claim_is_repeated_until_interrupted():
    plan = calls.claim(calls.lease_request(1, None, None, None, None, None, None), None)
    call = next(plan)
    assert plan.throw(put_off()) == Sleep(calls.BETWEEN_CLAIMS)
    assert plan.send(None).target == call.target
    released = plan.throw(KeyboardInterrupt())
    assert released.method == "DELETE"
    with pytest.raises(KeyboardInterrupt):
        plan.send({})
