"""Server-sent events without I/O, and what a follower makes of them."""

import pytest

from gpuyard.errors import Denied, Internal, Unavailable
from gpuyard.event_follower import Event, EventFollower
from gpuyard.sse import EventParser, ServerEvent

STREAM = (b"\xef\xbb\xbfretry: 2000\n\n: a comment\n\nid: e-1\nevent: device\ndata: {\ndata: }\n\n"
          b"data:bare\r\n\r\nid\ndata: \xc3\xa4\r\rid: a\0b\ndata: z\n\n")
EVENTS = [ServerEvent("device", "e-1", "{\n}"), ServerEvent("message", "e-1", "bare"),
          ServerEvent("message", "", "ä"), ServerEvent("message", "", "z")]


@pytest.mark.parametrize("pieces", [1, 2, 3, 5, 1000])
def test_events_parse_alike_in_any_chunking(pieces):
    parser = EventParser()
    events = []
    for at in range(0, len(STREAM), pieces):
        events += parser.feed(STREAM[at:at + pieces])
    assert events == EVENTS


def test_unterminated_event_is_not_delivered():
    assert EventParser().feed(b"data: x\n") == []


@pytest.mark.parametrize("data", [b"data: " + b"x" * 100, b"data: x\n" * 100, b"x" * 101])
def test_an_event_has_a_limit(data):
    with pytest.raises(Internal):
        EventParser(most=100).feed(data)


def test_size_limit_counts_one_event_only():
    parser = EventParser(most=100)
    for _ in range(100):
        parser.feed(b"data: 12345678\n\n")


def happened(number, name="device"):
    return ServerEvent(name, f"e-{number}", str(number))


def test_follower_resumes_after_last_event():
    follower = EventFollower("here")
    assert follower.target() == "/api/gpu/events?samples=none"
    assert follower.on_connect() is None
    assert follower.on_event(ServerEvent("resync", "e-6", "{}")) is None
    assert follower.on_event(happened(7)) == Event("happened", "device", "e-7", 7)
    assert follower.on_disconnect(Unavailable("gone")) == Event("away", id="e-7", why="gone")
    assert follower.on_disconnect(Unavailable("gone")) is None
    assert follower.target() == "/api/gpu/events?samples=none&since=e-7"
    assert follower.on_connect() == Event("back", id="e-7")


def test_resync_reports_loss_and_restarts_from_oldest():
    follower = EventFollower("here", since="other-3")
    follower.on_connect()
    assert follower.on_event(ServerEvent("resync", "e-6", "{}")) == Event("lost")
    assert "since=oldest" in follower.target()
    follower.on_connect()
    assert follower.on_event(happened(1)).id == "e-1"


def test_first_failure_and_refusal_end_the_follower():
    with pytest.raises(Unavailable):
        EventFollower("here").on_disconnect(Unavailable("never there"))
    follower = EventFollower("here")
    follower.on_connect()
    with pytest.raises(Denied):
        follower.on_disconnect(Denied("not you"))


def test_non_json_data_is_delivered_as_text():
    assert EventFollower("here").on_event(ServerEvent("new", "e-1", "{")).data == "{"
