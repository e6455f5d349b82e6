#!/usr/bin/env python3
"""Floods of what all users share, by three users without rights. At the same time another user claims a GPU
again and again, root reads the audit, and a member of the control group has a line in it. Needs root, because
it runs as each of them. As a program it prints its figures.
"""

import argparse
import collections
import contextlib
import grp
import functools
import itertools
import json
import os
import re
import selectors
import socket
import sqlite3
import statistics
import subprocess
import time

from control_client import Caller
from control_yard import ControlYard
from program import PATIENCE, open_directory, program_for_others, wait_until
from several_users import Door, at_once
from sim_world import World

FLOODERS = 3
FIRST_OF_A_RUN = 2001
MEMBER = 1005
GROUP = grp.getgrgid(100).gr_name
MEMBERS_LINE = "set power_limit to 333 W"
TOKENS = "/api/gpu/tokens"
LEASES = "/api/gpu/leases"
GPUS = 5
CLAIMS_A_MINUTE = 600
OLD_ALERTS = 10_000
OLD_LINES = 100_000
CONNECTIONS = 500  # of each flooder: together more than the disk's whole queue has room for
WITH_WRONG_TOKEN = b"GET /api/gpu/load HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer gpuyard_wrong\r\n\r\n"


def request(method, path, body=None):
    text = b"" if body is None else json.dumps(body).encode()
    return f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(text)}\r\n\r\n".encode() + text


class Flood:
    """Connections that each send the next request as soon as the last one is answered, by one thread."""

    def __init__(self, connect, next_request, count):
        self.next_request = next_request  # the bytes of a connection's next request; None: no more
        self.selector = selectors.DefaultSelector()
        self.answers = collections.Counter()
        for number in range(count):
            with contextlib.suppress(OSError):
                one = connect()
                one.setblocking(False)
                self.selector.register(one, selectors.EVENT_READ, number)

    def send_next(self, one, number):
        data = self.next_request(number)
        if data is None:
            return
        try:
            one.send(data)
        except OSError:
            self.selector.unregister(one)
            one.close()

    def until(self, end):
        for key in list(self.selector.get_map().values()):
            self.send_next(key.fileobj, key.data)
        while time.monotonic() < end and self.selector.get_map():
            for key, _ in self.selector.select(0.1):
                with contextlib.suppress(BlockingIOError):
                    data = self.read(key.fileobj)
                    if data is None:
                        continue
                    statuses = re.findall(rb"HTTP/1\.1 (\d+) ", data)
                    self.answers.update(status.decode() for status in statuses)
                    if statuses:
                        self.send_next(key.fileobj, key.data)
        return dict(self.answers)

    def read(self, one):
        """The bytes that arrived; None if the daemon has closed the connection."""
        try:
            data = one.recv(1 << 20)
        except (ConnectionError, TimeoutError):
            data = b""
        if data:
            return data
        self.selector.unregister(one)
        one.close()
        return None


def local(door):
    one = socket.socket(socket.AF_UNIX)
    one.settimeout(PATIENCE)
    one.connect(door.path)
    return one


def remote(door, address):
    return socket.create_connection(("127.0.0.1", door.port), PATIENCE, (address, 0))


# The floods. Each runs in a process of its user, and returns how many answers of each status it got.

def revoke_again(door, uid, until):
    """Revokes a revoked token again and again."""
    caller = Caller(door.path)
    made = caller.ask("POST", TOKENS, {"name": f"t{uid}", "scope": "read"}).json()
    name = made["token"]["id"]
    caller.ask("DELETE", f"{TOKENS}/{name}")
    return Flood(lambda: local(door), lambda _: request("DELETE", f"{TOKENS}/{name}"), CONNECTIONS).until(until)


def make_and_revoke(door, uid, until):
    """Creates and revokes one token after the other."""
    caller, answers = Caller(door.path), collections.Counter()
    for number in itertools.count():
        if time.monotonic() > until:
            return dict(answers)
        made = caller.ask("POST", TOKENS, {"name": f"n{uid}-{number}", "scope": "read"})
        answers[str(made.status)] += 1
        if made.status == 201:
            answers[str(caller.ask("DELETE", f"{TOKENS}/{made.json()['token']['id']}").status)] += 1


def ask_the_disk(door, uid, until):
    """Reads all old alerts over TCP, without a token."""
    address = f"127.0.2.{uid % 250}"
    wanted = request("GET", "/api/gpu/alerts/history?limit=1000")
    return Flood(lambda: remote(door, address), lambda _: wanted, 70).until(until)


def ask_from_many_addresses(door, uid, until):
    """As ask_the_disk, from 150 addresses of loopback with a connection each."""
    addresses = (f"127.{uid % 250}.0.{number}" for number in range(1, 151))
    wanted = request("GET", "/api/gpu/alerts/history?limit=1000")
    return Flood(lambda: remote(door, next(addresses)), lambda _: wanted, 150).until(until)


def ask_the_audit(door, _uid, until):
    """Reads, as a member of the control group, the audit of a GPU that has no lines."""
    wanted = request("GET", "/api/gpu/manage/audit?gpu=3&limit=1000")
    return Flood(lambda: local(door), lambda _: wanted, 50).until(until)


def be_refused(door, uid, until):
    """Sends a wrong token from many addresses, and reads few of the answers."""
    answers, opened = collections.Counter(), collections.deque()

    def read_oldest():
        with contextlib.suppress(OSError), opened.popleft() as one:
            one.setblocking(False)
            answers[one.recv(12).decode()[-3:] or "closed"] += 1
    for number in range(1, 1101):
        if time.monotonic() > until:
            break
        with contextlib.suppress(OSError):
            opened.append(remote(door, f"127.{uid % 250}.{number // 250}.{number % 250 + 1}"))
            opened[-1].sendall(WITH_WRONG_TOKEN)
            answers["sent"] += 1
        if len(opened) > 100:
            read_oldest()
    while opened:
        read_oldest()
    return dict(answers)


DETACHED = {"binding": "detached", "ttl_s": 60}


def claim_in_bursts(door, uid, until, binding=DETACHED):
    """Makes all claims of a minute at once, and releases each immediately."""
    turns = collections.Counter()

    def next_request(number):
        turn = turns[number]
        turns[number] += 1
        name = f"burst-{uid}-{number:04d}-{turn // 2:04d}"
        if turn % 2:
            return request("DELETE", f"{LEASES}/{name}")
        if sum(turns.values()) > 2 * CLAIMS_A_MINUTE:
            return None
        return request("POST", LEASES, {"id": name, "wait_s": 0} | binding)
    return Flood(lambda: local(door), next_request, CONNECTIONS).until(until)


def claim_for_itself(door, uid, until):
    """As claim_in_bursts, for the claiming process itself, which the daemon has to inspect."""
    return claim_in_bursts(door, uid, until, {})


# The other users.

def claim_again(door, _uid, until):
    """Claims a GPU again and again: how long each claim took, and the refusals."""
    caller, waits, refused = Caller(door.path), [], collections.Counter()
    bindings = itertools.cycle((DETACHED, {}))
    while time.monotonic() < until:
        began = time.monotonic()
        answer = caller.ask("POST", LEASES, {"answer_within_s": 5} | next(bindings))
        if answer.status != 200 or answer.json()["lease"]["state"] != "held":
            refused[f"{answer.status} {answer.text[:200]}"] += 1
        else:
            waits.append(time.monotonic() - began)
            caller.ask("DELETE", f"{LEASES}/{answer.json()['lease']['id']}")
        time.sleep(0.02)
    return {"waits": waits, "refused": dict(refused)}


def read_the_audit(door, _uid, until):
    """Reads the audit as root: how long each answer took, and the refusals."""
    caller, waits, refused = Caller(door.path), [], collections.Counter()
    while time.monotonic() < until:
        began = time.monotonic()
        answer = caller.ask("GET", "/api/gpu/manage/audit?limit=10")
        waits.append(time.monotonic() - began)
        if answer.status != 200:
            refused[f"{answer.status} {answer.text[:200]}"] += 1
        time.sleep(0.05)
    return {"waits": waits, "refused": dict(refused)}


def columns_of(table):
    return {"alerts": ("number, rule, gpu, gpu_index, gpu_name, pci_address, state, severity, value, message, advice, "
                       "fired_ms, resolved_ms, ending, heard_by, simulated"),
            "control_audit": "at_ms, by, request_id, action, gpu, gpu_index, outcome, forced, took_ns, source"}[table]


def fill(state, uuid):
    """Gives the daemon a past: old alerts, and old lines of administrators."""
    now = round(time.time() * 1000)
    with contextlib.closing(sqlite3.connect(f"{state}/state.db")) as book, book:
        book.executemany(
            f"INSERT INTO alerts({columns_of('alerts')}) VALUES(?,'thermal',?,0,'NVIDIA H100','0000:01:00.0',"
            "'resolved',50,81,'GPU 0 is at 81 C','check it',?,?,'','[]',1)",
            ((number, uuid, now, now) for number in range(1, OLD_ALERTS + 1)))
        book.executemany(
            f"INSERT INTO control_audit({columns_of('control_audit')}) VALUES(?,'uid 0','r',?,?,0,'applied',0,1000,"
            "'administrator')", ((now, f"old line {number}", uuid) for number in range(OLD_LINES)))


class Floods:
    """A daemon with five GPUs, of which each user may have one, and its flooders."""

    def __init__(self, place, old=False):
        self.place = place
        self.world = World(place)
        self.yard = ControlYard(self.world, place, "--gpus", str(GPUS), "--load", "idle", group=GROUP)
        with open(self.yard.config, "a", encoding="utf-8") as file:
            file.write("[lease]\nmost_gpus_per_user = 1\n[server]\nlisten = [\"127.0.0.1:0\"]\n")
        self.daemon = None
        self.old = old
        self.uids = itertools.count(FIRST_OF_A_RUN)

    def start(self):
        self.yard.start()
        if self.old:
            self.yard.stop()
            fill(self.yard.daemon.state, self.world.uuid(0))
            self.yard.start()
        self.daemon = self.yard.daemon
        probe = Caller(self.daemon.socket)
        wait_until(lambda: claim_once(probe), "leases")
        member = self.yard.caller(MEMBER, groups=(100,))
        assert member.put("0", "power-limit", {"power_limit_mw": 333_000}).status == 200

    def run(self, seconds, *floods):
        """Runs these floods: what the flooders, another user and root got. Flooders and user are new in each run,
        so that none has used up a share: a run claims up to 45 times a second, of 600 a minute."""
        door = Door(self.daemon.socket, self.daemon.port)
        lines = len(self.daemon.log().splitlines())
        tasks = [(uid, (), flood) for uid, flood in
                 zip(itertools.islice(self.uids, FLOODERS), itertools.cycle(floods))]
        if ask_the_disk in floods:
            tasks.append((MEMBER, (100,), ask_the_audit))
        other = next(self.uids)
        tasks += [(other, (), claim_again), (0, (), read_the_audit)]
        found = at_once(seconds, [(uid, groups, functools.partial(task, door)) for uid, groups, task in tasks])
        return {"other": found.pop(other), "root": found.pop(0), "flooders": found,
                "log": len(self.daemon.log().splitlines()) - lines, "member": self.has_line(MEMBERS_LINE)}

    def has_line(self, action, by=f"uid {MEMBER}"):
        """Whether the audit has it."""
        def rows():
            return self.daemon.kept(f"SELECT count(*) FROM control_audit WHERE action = '{action}' AND by LIKE '{by}%'")
        return wait_until(rows, "the audit")[0][0] > 0

    def refused_lines(self):
        """Counts the audit's refusals over TCP, and tells if one is of 127.9.9.9."""
        def rows():
            return self.daemon.kept("SELECT by FROM control_audit WHERE source = 'refused_over_tcp'")
        found = wait_until(rows, "the audit")
        return len(found), any("127.9.9.9" in by for by, in found)

    def be_refused_from(self, address):
        with remote(Door(self.daemon.socket, self.daemon.port), address) as one:
            one.sendall(WITH_WRONG_TOKEN)
            assert one.recv(12) in (b"HTTP/1.1 401", b"HTTP/1.1 403", b"HTTP/1.1 429")

    def end(self):
        self.yard.end()
        self.world.end()


def claim_once(caller):
    answer = caller.ask("POST", LEASES, {"binding": "detached", "ttl_s": 60, "answer_within_s": 1})
    if answer.status != 200 or answer.json()["lease"]["state"] != "held":
        return False
    return caller.ask("DELETE", f"{LEASES}/{answer.json()['lease']['id']}").status == 200


def runs_at_once(floods, count, uid=1006):
    """Starts `gpuyard run` this many times at once as one user: the exit codes, the messages, the seconds."""
    program = program_for_others(floods.place)
    environment = {"PATH": os.environ["PATH"], "HOME": "/", "GPUYARD_SOCKET": floods.daemon.socket}
    began = time.monotonic()
    started = [subprocess.Popen([program, "run", "--quiet", "--", "true"], env=environment, user=uid, group=uid,
                                extra_groups=[], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT, text=True) for _ in range(count)]
    try:
        printed = [one.communicate(timeout=4 * PATIENCE)[0] for one in started]
    finally:
        for one in started:
            one.kill()
    return ([one.returncode for one in started], [text for text in printed if text], time.monotonic() - began)


def idle_flooders(found):
    """The flooders whose requests did not reach what they flood: their flood proves nothing."""
    return {uid: answers for uid, answers in found["flooders"].items() if not answers.keys() & {"200", "429", "sent"}}


KINDS = {
    "revoked": (revoke_again,),
    "tokens": (make_and_revoke,),
    "disk": (ask_the_disk,),
    "addresses": (be_refused,),
    "spread": (ask_from_many_addresses,),
    "bursts": (claim_in_bursts, claim_for_itself),
    "all": (revoke_again, ask_the_disk, be_refused),
}


@contextlib.contextmanager
def flooded(old=False):
    with open_directory() as place:
        floods = Floods(place, old)
        try:
            floods.start()
            yield floods
        finally:
            floods.end()


def figures(found):
    """The figures, without each single wait."""
    short = dict(found)
    for who in ("other", "root"):
        waits = found[who].get("waits", [])
        short[who] = {"answers": len(waits), "refused": found[who].get("refused", found[who]),
                      "median_ms": round(statistics.median(waits) * 1000, 1) if waits else None,
                      "longest_ms": round(max(waits, default=0) * 1000, 1)}
    return short


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=8)
    parser.add_argument("kind", nargs="*", choices=[*KINDS, "runs", []], default=[])
    asked = parser.parse_args()
    for kind in asked.kind or [*KINDS, "runs"]:
        with flooded(old=kind in ("disk", "spread", "all")) as floods:
            if kind == "runs":
                codes, messages, took = runs_at_once(floods, 100)
                print(kind, collections.Counter(codes), messages[:2], f"{took:.1f} s", flush=True)
                continue
            floods.be_refused_from("127.9.9.9")
            found = figures(floods.run(asked.seconds, *KINDS[kind]))
            found["refused lines, 127.9.9.9"] = floods.refused_lines()
            print(kind, json.dumps(found, indent=1), flush=True)


if __name__ == "__main__":
    main()
