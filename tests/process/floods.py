#!/usr/bin/env python3
"""Floods by three users without rights, who fill what all users share, and what others get at the same time:
a user who claims a GPU again and again, root who reads the audit, a member whose line is in it. Needs root, to
be all of them. As a program it prints what it finds.
"""

import argparse
import collections
import contextlib
import grp
import itertools
import json
import multiprocessing
import os
import pathlib
import re
import selectors
import shutil
import socket
import sqlite3
import statistics
import subprocess
import tempfile
import time

from control_client import Caller
from control_yard import ControlYard
from program import PATIENCE, program_for_others, wait_until
from sim_world import World

FLOODERS = (1001, 1003, 1004)
OTHER = 1002
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

    def __init__(self, connect, asked, count):
        self.asked = asked  # the bytes of a connection's next request; None: no more
        self.selector = selectors.DefaultSelector()
        self.told = collections.Counter()
        for number in range(count):
            with contextlib.suppress(OSError):
                one = connect()
                one.setblocking(False)
                self.selector.register(one, selectors.EVENT_READ, number)

    def go_on(self, one, number):
        wanted = self.asked(number)
        if wanted is None:
            return
        try:
            one.send(wanted)
        except OSError:
            self.selector.unregister(one)
            one.close()

    def until(self, end):
        for key in list(self.selector.get_map().values()):
            self.go_on(key.fileobj, key.data)
        while time.monotonic() < end and self.selector.get_map():
            for key, _ in self.selector.select(0.1):
                with contextlib.suppress(BlockingIOError):
                    data = self.read(key.fileobj)
                    if data is None:
                        continue
                    statuses = re.findall(rb"HTTP/1\.1 (\d+) ", data)
                    self.told.update(status.decode() for status in statuses)
                    if statuses:
                        self.go_on(key.fileobj, key.data)
        return dict(self.told)

    def read(self, one):
        """What came; None where the daemon has closed it."""
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


Door = collections.namedtuple("Door", "path port")


# What the flooders do. Each runs in a process of that user, and returns what it was told.

def revoke_again(door, uid, until):
    """A token that is revoked already, over and over."""
    caller = Caller(door.path)
    made = caller.ask("POST", TOKENS, {"name": f"t{uid}", "scope": "read"}).json()
    name = made["token"]["id"]
    caller.ask("DELETE", f"{TOKENS}/{name}")
    return Flood(lambda: local(door), lambda _: request("DELETE", f"{TOKENS}/{name}"), CONNECTIONS).until(until)


def make_and_revoke(door, uid, until):
    """Tokens, one after the other."""
    caller, told = Caller(door.path), collections.Counter()
    for number in itertools.count():
        if time.monotonic() > until:
            return dict(told)
        made = caller.ask("POST", TOKENS, {"name": f"n{uid}-{number}", "scope": "read"})
        told[str(made.status)] += 1
        if made.status == 201:
            told[str(caller.ask("DELETE", f"{TOKENS}/{made.json()['token']['id']}").status)] += 1


def ask_the_disk(door, uid, until):
    """All old alerts, without a name."""
    address = f"127.0.2.{uid % 250}"
    wanted = request("GET", "/api/gpu/alerts/history?limit=1000")
    return Flood(lambda: remote(door, address), lambda _: wanted, 70).until(until)


def ask_from_many_addresses(door, uid, until):
    """The same from 150 addresses of this machine, each of which has a connection."""
    addresses = (f"127.{uid % 250}.0.{number}" for number in range(1, 151))
    wanted = request("GET", "/api/gpu/alerts/history?limit=1000")
    return Flood(lambda: remote(door, next(addresses)), lambda _: wanted, 150).until(until)


def ask_the_audit(door, _uid, until):
    """A member, about one GPU of which there are no lines."""
    wanted = request("GET", "/api/gpu/manage/audit?gpu=3&limit=1000")
    return Flood(lambda: local(door), lambda _: wanted, 50).until(until)


def be_refused(door, uid, until):
    """Shows a wrong token, from many addresses, and waits for few of the answers."""
    told, opened = collections.Counter(), collections.deque()

    def read_oldest():
        with contextlib.suppress(OSError), opened.popleft() as one:
            one.setblocking(False)
            told[one.recv(12).decode()[-3:] or "closed"] += 1
    for number in range(1, 1101):
        if time.monotonic() > until:
            break
        with contextlib.suppress(OSError):
            opened.append(remote(door, f"127.{uid % 250}.{number // 250}.{number % 250 + 1}"))
            opened[-1].sendall(WITH_WRONG_TOKEN)
            told["sent"] += 1
        if len(opened) > 100:
            read_oldest()
    while opened:
        read_oldest()
    return dict(told)


DETACHED = {"binding": "detached", "ttl_s": 60}


def claim_in_bursts(door, uid, until, binding=DETACHED):
    """All claims of a minute at once, each released at once."""
    turns = collections.Counter()

    def asked(number):
        turn = turns[number]
        turns[number] += 1
        name = f"burst-{uid}-{number:04d}-{turn // 2:04d}"
        if turn % 2:
            return request("DELETE", f"{LEASES}/{name}")
        if sum(turns.values()) > 2 * CLAIMS_A_MINUTE:
            return None
        return request("POST", LEASES, {"id": name, "wait_s": 0} | binding)
    return Flood(lambda: local(door), asked, CONNECTIONS).until(until)


def claim_for_itself(door, uid, until):
    """The same for the process that claims, which the daemon has to look at."""
    return claim_in_bursts(door, uid, until, {})


# What the others do at the same time.

def claim_again(door, _uid, until):
    """How long each claim waited for its GPU, and what was refused."""
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
    """Root: how long each answer took, and what was refused."""
    caller, waits, refused = Caller(door.path), [], collections.Counter()
    while time.monotonic() < until:
        began = time.monotonic()
        answer = caller.ask("GET", "/api/gpu/manage/audit?limit=10")
        waits.append(time.monotonic() - began)
        if answer.status != 200:
            refused[f"{answer.status} {answer.text[:200]}"] += 1
        time.sleep(0.05)
    return {"waits": waits, "refused": dict(refused)}


def as_user(uid, deed, door, until, answers):
    if uid != 0:
        os.setgroups([])
        os.setresgid(uid, uid, uid)
        if deed is ask_the_audit:
            os.setgroups([100])
        os.setresuid(uid, uid, uid)
    try:
        answers.put((uid, deed(door, uid, until)))
    except Exception as error:  # pylint: disable=broad-except
        answers.put((uid, {"failed": repr(error)}))


def columns_of(table):
    return {"alerts": ("number, rule, gpu, gpu_index, gpu_name, pci_address, state, severity, value, message, advice, "
                       "fired_ms, resolved_ms, ending, heard_by, simulated"),
            "control_audit": "at_ms, by, request_id, action, gpu, gpu_index, outcome, forced, took_ns, source"}[table]


def fill(state, uuid):
    """A machine with a past: old alerts, and old lines of administrators."""
    now = round(time.time() * 1000)
    with contextlib.closing(sqlite3.connect(f"{state}/state.db")) as book, book:
        book.executemany(
            f"INSERT INTO alerts({columns_of('alerts')}) VALUES(?,'thermal',?,0,'NVIDIA H100','0000:01:00.0',"
            "'resolved',50,81,'GPU 0 is at 81 C','look at it',?,?,'','[]',1)",
            ((number, uuid, now, now) for number in range(1, OLD_ALERTS + 1)))
        book.executemany(
            f"INSERT INTO control_audit({columns_of('control_audit')}) VALUES(?,'uid 0','r',?,?,0,'applied',0,1000,"
            "'administrator')", ((now, f"old line {number}", uuid) for number in range(OLD_LINES)))


class Floods:
    """A daemon with five GPUs, of which each user may have one, and those who flood it."""

    def __init__(self, place, old=False):
        self.place = place
        self.world = World(place)
        self.yard = ControlYard(self.world, place, "--gpus", str(GPUS), "--load", "idle", group=GROUP)
        with open(self.yard.config, "a", encoding="utf-8") as file:
            file.write("[lease]\nmost_gpus_per_user = 1\n[server]\nlisten = [\"127.0.0.1:0\"]\n")
        self.yard.start()
        if old:
            self.yard.stop()
            fill(self.yard.daemon.state, self.world.uuid(0))
            self.yard.start()
        self.daemon = self.yard.daemon
        probe = Caller(self.daemon.socket)
        wait_until(lambda: claim_once(probe), "leases")
        member = self.yard.caller(MEMBER, groups=(100,))
        assert member.put("0", "power-limit", {"power_limit_mw": 333_000}).status == 200

    def run(self, seconds, *deeds):
        """Those deeds by all flooders; what each, the other user and root were told."""
        door = Door(self.daemon.socket, self.daemon.port)
        lines = len(self.daemon.log().splitlines())
        context = multiprocessing.get_context("fork")
        answers = context.Queue()
        until = time.monotonic() + seconds
        people = [(uid, deed) for uid, deed in zip(FLOODERS, itertools.cycle(deeds))]
        if ask_the_disk in deeds:
            people.append((MEMBER, ask_the_audit))
        people += [(OTHER, claim_again), (0, read_the_audit)]
        processes = [context.Process(target=as_user, args=(uid, deed, door, until, answers)) for uid, deed in people]
        for one in processes:
            one.start()
        heard = dict(answers.get(timeout=seconds + 2 * PATIENCE) for _ in processes)
        for one in processes:
            one.join(PATIENCE)
        return {"other": heard.pop(OTHER), "root": heard.pop(0), "flooders": heard,
                "log": len(self.daemon.log().splitlines()) - lines, "member": self.has_line(MEMBERS_LINE)}

    def has_line(self, action, by=f"uid {MEMBER}"):
        """Whether it is in the audit."""
        def rows():
            return self.daemon.kept(f"SELECT count(*) FROM control_audit WHERE action = '{action}' AND by LIKE '{by}%'")
        return wait_until(rows, "the audit")[0][0] > 0

    def refused_lines(self):
        """How many lines of refusals over TCP there are, and whether one is of 127.9.9.9."""
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
    """`gpuyard run`, so often at the same moment by one user: the exit codes, and what was said."""
    program = program_for_others(floods.place)
    environment = {"PATH": os.environ["PATH"], "HOME": "/", "GPUYARD_SOCKET": floods.daemon.socket}
    began = time.monotonic()
    started = [subprocess.Popen([program, "run", "--quiet", "--", "true"], env=environment, user=uid, group=uid,
                                extra_groups=[], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT, text=True) for _ in range(count)]
    said = [one.communicate(timeout=4 * PATIENCE)[0] for one in started]
    return ([one.returncode for one in started], [words for words in said if words], time.monotonic() - began)


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
    place = pathlib.Path(tempfile.mkdtemp(prefix="gpuyard-floods-"))
    place.chmod(0o755)  # pytest's own are root's alone
    floods = None
    try:
        floods = Floods(place, old)
        yield floods
    finally:
        if floods is not None:
            floods.end()
        shutil.rmtree(place, ignore_errors=True)


def figures(found):
    """In short, for people."""
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
                codes, said, took = runs_at_once(floods, 100)
                print(kind, collections.Counter(codes), said[:2], f"{took:.1f} s", flush=True)
                continue
            floods.be_refused_from("127.9.9.9")
            found = figures(floods.run(asked.seconds, *KINDS[kind]))
            found["refused lines, 127.9.9.9"] = floods.refused_lines()
            print(kind, json.dumps(found, indent=1), flush=True)


if __name__ == "__main__":
    main()
