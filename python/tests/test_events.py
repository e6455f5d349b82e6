"""The stream of events of a real daemon, across its death."""

import time

import gpuyard
from ground import open_files


def next_of(events, wanted, seconds=30):
    """The next event that `wanted` takes, and all before it."""
    seen = []
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        event = events.next(1)
        if event:
            seen.append(event)
            if wanted(event):
                return seen
    raise AssertionError(f"waited for an event; there were {seen}")


def is_lease(lease, state):
    def check(event):
        return event.name == "lease" and event.data["id"] == lease and event.data["state"] == state
    return check


def test_events_arrive_once_and_in_order(yard):
    with gpuyard.events() as events:
        assert events.next(0.5) is None or events.last  # it listens from here on
        with yard.lease(1) as lease:
            pass
        seen = next_of(events, is_lease(lease.id, "ended"))
    states = [event.data["state"] for event in seen if event.name == "lease"]
    assert [s for s in states if s != "waiting"] == ["held", "draining", "ended"]
    ids = [event.id for event in seen if event.name != "load"]
    assert len(ids) == len(set(ids))
    again = yard.events(since=seen[0].id)
    assert [event.id for event in next_of(again, is_lease(lease.id, "ended"))
            if event.name != "load"] == ids[1:]
    again.close()


def test_daemon_restart_reports_away_back_and_lost(make_ground):
    ground = make_ground(gpus=1)
    yard = gpuyard.Client("unix://" + ground.socket)
    events = yard.events()
    with yard.lease(1) as lease:
        next_of(events, lambda event: event.name == "lease") if events.last else events.next(0.5)
    next_of(events, is_lease(lease.id, "ended"))
    ground.kill()
    away = next_of(events, lambda event: event.kind == "away")[-1]
    assert away.why
    assert events.next(1.5) is None  # reported once
    ground.start()
    kinds = [event.kind for event in next_of(events, lambda event: event.kind == "lost")]
    assert kinds == ["back", "lost"]  # the new daemon has other numbers
    with yard.lease(1) as lease:
        pass
    next_of(events, is_lease(lease.id, "ended"))
    events.close()


def test_leaving_event_loop_closes_stream(yard):
    before = open_files()
    with yard.events(since="oldest") as events:
        for event in events:
            assert event.kind in ("happened", "lost")
            assert open_files() > before
            break
    assert open_files() == before
