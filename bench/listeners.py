#!/usr/bin/env python3
"""Many listeners of one stream of events, as one process: what each of them heard, as JSON.

    bench/listeners.py PORT PATH COUNT SECONDS

Connects, waits until all have heard the beginning, says "ready" and counts until the time is over.
"""

import json
import resource
import selectors
import socket
import sys
import time

EVENT = b"event: snapshot"
PATIENCE = 60


def connect(port, path):
    one = socket.create_connection(("127.0.0.1", port), timeout=10)
    one.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    head = one.recv(65536)
    if not head.startswith(b"HTTP/1.1 200 "):
        raise ConnectionRefusedError(" ".join(head.decode("utf-8", "replace").split("\r\n\r\n")[-1].split()))
    return one, head.count(EVENT)


def connect_all(selector, port, path, count):
    heard = {}
    for number in range(count):
        try:
            one, events = connect(port, path)
        except OSError as error:
            sys.exit(f"bench: listener {number + 1} of {count} was refused: {error}")
        selector.register(one, selectors.EVENT_READ)
        heard[one] = events
    return heard


def listen(selector, seconds, heard):
    """Counts the events of each; an event's name that is cut between two reads is found, too."""
    rest = dict.fromkeys(heard, b"")
    total = 0
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        for key, _ in selector.select(left):
            got = key.fileobj.recv(65536)
            if not got:
                sys.exit("bench: a listener was cut off")
            total += len(got)
            text = rest[key.fileobj] + got
            heard[key.fileobj] += text.count(EVENT)
            rest[key.fileobj] = text[1 - len(EVENT):]
    return total


def main():
    port, path, count, seconds = int(sys.argv[1]), sys.argv[2], int(sys.argv[3]), float(sys.argv[4])
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(count + 100, hard), hard))
    selector = selectors.EpollSelector()
    heard = connect_all(selector, port, path, count)
    deadline = time.monotonic() + PATIENCE
    while min(heard.values()) == 0:
        listen(selector, 0.2, heard)
        if time.monotonic() > deadline:
            sys.exit(f"bench: a listener heard no event in {PATIENCE} s")
    print("ready", flush=True)
    heard = dict.fromkeys(heard, 0)
    received = listen(selector, seconds, heard)
    numbers = sorted(heard.values())
    print(json.dumps({"fewest": numbers[0], "most": numbers[-1], "events": sum(numbers),
                      "bytes_per_event": received / max(1, sum(numbers))}))


if __name__ == "__main__":
    main()
