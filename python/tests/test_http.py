"""HTTP without I/O: what an answer may be, and what is refused."""

import json
import random
import time

import pytest

from gpuyard import http
from gpuyard.errors import (Busy, Conflict, Denied, DeviceLost, Error, Internal, Invalid, NotFound,
                            TimedOut, Unavailable, Unsupported, error_of_answer)

HEAD = b"HTTP/1.1 200 OK\r\n"


def parsed(data, most=http.MOST_BODY, pieces=None):
    parser = http.Parser(most)
    step = pieces or len(data)
    for at in range(0, len(data), step):
        parser.feed(data[at:at + step])
    return parser


def test_request_has_required_headers_only():
    text = http.encode(http.Request("POST", "/a?b=c", b"{}"), "localhost", "gpy_x")
    assert text == (b"POST /a?b=c HTTP/1.1\r\nHost: localhost\r\nUser-Agent: gpuyard-python\r\n"
                    b"Authorization: Bearer gpy_x\r\nContent-Type: application/json\r\n"
                    b"Content-Length: 2\r\n\r\n{}")
    assert b"Content" not in http.encode(http.Request("GET", "/"), "localhost")


@pytest.mark.parametrize("target", ["a", "", "/a b", "/a\r\nX: y", "/ä", "/\0"])
def test_invalid_request_target_is_refused(target):
    with pytest.raises(Invalid):
        http.encode(http.Request("GET", target), "localhost")


def test_invalid_request_method_is_refused():
    with pytest.raises(Invalid):
        http.encode(http.Request("GET / HTTP/1.1\r\nX:", "/"), "localhost")


@pytest.mark.parametrize("pieces", [1, 2, 3, 7, 1000])
@pytest.mark.parametrize("data", [
    HEAD + b"Content-Length: 5\r\n\r\nhello",
    HEAD + b"Transfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n2;x=y\r\nlo\r\n0\r\n\r\n",
    HEAD + b"transfer-encoding: Chunked\r\n\r\n5\r\nhello\r\n0\r\nA: b\r\n\r\n",
    b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" + HEAD + b"Content-Length: 5\r\n\r\nhello",
])
def test_response_in_any_pieces_is_the_same(data, pieces):
    parser = parsed(data, pieces=pieces)
    assert parser.done and parser.reusable
    assert parser.response().body == b"hello"


def test_body_without_length_ends_with_connection():
    parser = parsed(HEAD + b"\r\nhello")
    assert not parser.done
    parser.feed(b"")
    assert parser.response().body == b"hello"
    assert not parser.reusable


def test_connection_closed_by_daemon_is_not_reused():
    assert not parsed(HEAD + b"Connection: close\r\nContent-Length: 0\r\n\r\n").reusable


@pytest.mark.parametrize("data", [
    b"SSH-2.0-OpenSSH_9.2\r\n\r\n",
    b"HTTP/2 200 OK\r\n\r\n",
    b"HTTP/1.1 20 OK\r\n\r\n",
    b"HTTP/1.1 101 Switching Protocols\r\n\r\n",
    HEAD + b"no field\r\n\r\n",
    HEAD + b"Content-Length : 5\r\n\r\n",
    HEAD + b"Content-Length: -5\r\n\r\n",
    HEAD + b"Content-Length: 0x5\r\n\r\n",
    HEAD + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\n",
    HEAD + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
    HEAD + b"Transfer-Encoding: gzip, chunked\r\n\r\n",
    HEAD + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n",
    HEAD + b"Transfer-Encoding: chunked\r\n\r\n-1\r\n",
    HEAD + b"Transfer-Encoding: chunked\r\n\r\n2\r\nabc\r\n",
    b"HTTP/1.1 103 E\r\n\r\n" * 9 + HEAD + b"\r\n",
])
def test_invalid_response_is_refused(data):
    with pytest.raises(Internal):
        parsed(data)


@pytest.mark.parametrize("data", [b"", HEAD, HEAD + b"Content-Length: 5\r\n\r\nhell",
                                  HEAD + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello"])
def test_truncated_response_is_refused(data):
    parser = parsed(data) if data else http.Parser()
    with pytest.raises(Unavailable):
        parser.feed(b"")


@pytest.mark.parametrize("data", [
    HEAD + b"X: " + b"y" * http.MOST_HEAD,
    HEAD + b"Content-Length: 100\r\n\r\n",
    HEAD + b"\r\n" + b"y" * 100,
    HEAD + b"Transfer-Encoding: chunked\r\n\r\n64\r\n",
    HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + b"1" * (http.MOST_CHUNK_LINE + 1),
    HEAD + b"Transfer-Encoding: chunked\r\n\r\n0\r\n" + b"A: b\r\n" * http.MOST_HEAD,
])
def test_everything_has_a_limit(data):
    with pytest.raises(Internal):
        parsed(data, most=99, pieces=1024)


GOOD = [HEAD + b"Content-Length: 5\r\n\r\nhello",
        HEAD + b"Transfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n2\r\nlo\r\n0\r\n\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\n" + HEAD + b"Connection: close\r\n\r\nhello"]


@pytest.mark.parametrize("seed", range(20))
def test_mutated_response_parses_or_raises_library_error(seed):
    chance = random.Random(seed)
    for _ in range(300):
        data = bytearray(chance.choice(GOOD))
        for _ in range(chance.randrange(4)):
            at = chance.randrange(len(data))
            data[at:at + chance.randrange(3)] = chance.choice(
                [b"", b"\r\n", b"\0", b"9", b"chunked", bytes([chance.randrange(256)])])
        parser = http.Parser(most_body=1000)
        try:
            while data and not parser.done:
                count = chance.randrange(1, 9)
                parser.feed(bytes(data[:count]))
                del data[:count]
            if not parser.done:
                parser.feed(b"")
            assert len(parser.response().body) <= 1000
        except Error:
            pass


def test_many_small_chunks_parse_in_linear_time():
    data = HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + b"1\r\nx\r\n" * 200_000 + b"0\r\n\r\n"
    began = time.process_time()
    assert parsed(data).response().body == b"x" * 200_000
    assert time.process_time() - began < 5


def test_data_after_response_is_refused():
    parser = parsed(HEAD + b"Content-Length: 0\r\n\r\n")
    with pytest.raises(Internal):
        parser.feed(b"x")


@pytest.mark.parametrize("status, body, kind, words", [
    (404, b'{"error":{"code":"not_found","message":"no GPU 9"}}', NotFound, "no GPU 9"),
    (503, b'{"error":{"code":"busy","message":"too many"}}', Busy, "Try again"),
    (503, b'{"detail":"NVML not found"}', Unavailable, "NVML not found"),
    (401, b"no token", Denied, "no token"),
    (409, b"[]", Conflict, "[]"),
    (422, b"", Unsupported, "status 422 and no message"),
    (502, b'{"error":3}', DeviceLost, "doctor"),
    (504, b'{"error":{"code":3}}', TimedOut, ""),
    (400, b"\xff\xfe", Invalid, ""),
    (500, b"[" * 100_000, Internal, ""),
    (418, b'{"error":{"code":"teapot","message":"short"}}', Internal, "short"),
    (504, b"<html><h1>504 Gateway Time-out</h1></html>", TimedOut, "status 504 from a proxy"),
])
def test_error_has_daemon_message_and_hint(status, body, kind, words):
    error = error_of_answer(status, body)
    assert type(error) is kind and error.status == status
    assert words in str(error)


HINT = "usermod x  # as root\nlogin"
WHOLE = "no scope: no group; try `usermod x` (as root), then `login`"


@pytest.mark.parametrize("fields, message, hint", [
    ({"message": WHOLE, "hint": HINT}, "no scope: no group", HINT),
    ({"message": WHOLE}, WHOLE, ""),
    ({"message": WHOLE, "hint": "other"}, WHOLE, ""),
    ({"message": WHOLE, "hint": 3}, WHOLE, ""),
    ({"message": "no; try `a\x1b`", "hint": "a\x1b"}, "no", "a?"),
])
def test_error_text_has_message_and_separate_hint(fields, message, hint):
    error = error_of_answer(403, json.dumps({"error": {"code": "denied", **fields}}).encode())
    assert (error.message, error.hint) == (message, hint)
    assert str(error) == fields["message"].replace("\x1b", "?")


@pytest.mark.parametrize("body", [
    json.dumps({"error": {"code": "conflict", "message": "a\x1b]0;P\x07\n\u009b\u202eb"}}).encode(),
    "a\x1b]0;P\x07\n\u009b\u202eb".encode()])
def test_an_error_has_no_control_characters(body):
    error = error_of_answer(409, body)
    assert str(error) == error.message == "a?]0;P????b"
    assert str(Denied("\ud800\x7f")) == "??"


def test_redirect_is_error_naming_its_target():
    error = error_of_answer(302, b"", {"location": "https://elsewhere/\x1blogin"})
    assert type(error) is Invalid and error.status == 302
    assert "status 302, to https://elsewhere/?login. Redirects are not followed" in str(error)
    assert "use the daemon's own address" in str(error)


@pytest.mark.parametrize("message, said", [
    ("body: /among: GPU index 99 is out of range", "among: GPU index 99 is out of range"),
    ("body: /among/0: must be a text; /among/1: must be a text",
     "among: must be a text; among: must be a text"),
    ("/gpus/0: names a GPU twice", "gpus: names a GPU twice"),
    ("body: /: must be an object", "body: /: must be an object"),
    ("/run/gpuyard: Permission denied", "/run/gpuyard: Permission denied"),
])
def test_error_position_in_body_is_named_as_field(message, said):
    body = json.dumps({"error": {"code": "invalid", "message": message}}).encode()
    assert error_of_answer(400, body).message == said
