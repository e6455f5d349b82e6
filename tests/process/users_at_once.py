#!/usr/bin/env python3
"""Three users who take whatever they can get, a fourth who wants one GPU again and again, and root: on one
daemon, at once. Counts the answers to each of them, and the waits of the fourth and of root. Needs root, to
act as each of them. An attacker's next action is random: chaos is what is tested.
"""

import argparse
import collections
import contextlib
import functools
import http.client
import json
import os
import pathlib
import random
import shutil
import socket
import subprocess
import tempfile
import time

from program import PATIENCE, Daemon, UnixConnection, wait_until
from several_users import Door, at_once
from sim_world import World

ATTACKERS = (1001, 1002, 1003)
FOURTH = 1004
LEASES = "/api/gpu/leases"
CONFIG = """
[lease]
most_gpus_per_user = 1
[control]
enabled = true
[server]
listen = ["127.0.0.1:0"]
"""


def ask(path, method, target, body=None, timeout=PATIENCE):
    """Status and document; 0 and why, where there was no answer."""
    connection = UnixConnection(path)
    connection.timeout = timeout
    try:
        connection.request(method, target, None if body is None else json.dumps(body))
        answer = connection.getresponse()
        text = answer.read()
        with contextlib.suppress(ValueError):
            return answer.status, json.loads(text)
        return answer.status, {}
    except (OSError, http.client.HTTPException) as error:
        return 0, {"error": {"code": type(error).__name__}}
    finally:
        connection.close()


class Attacker:
    """One user without any right. Counts their requests and the answers."""

    def __init__(self, door, uid, until, seed, squatters):
        self.door = door
        self.squatters = squatters
        self.path = door.path
        self.uid = uid
        self.until = until
        self.chance = random.Random(f"{seed} {uid}")
        self.open = []
        self.waiting = []
        self.children = []
        self.told = collections.Counter()

    def ask(self, what, method, target, body=None):
        status, document = ask(self.path, method, target, body, timeout=5)
        code = document.get("error", {}).get("code", "") if isinstance(document, dict) else ""
        self.told[f"{what} {status} {code}".strip()] += 1
        return status, document

    def socket(self):
        """One more connection, over the Unix socket or from an address of his own."""
        over_tcp = self.chance.random() < 0.5
        try:
            one = socket.socket(socket.AF_INET if over_tcp else socket.AF_UNIX)
            one.settimeout(0.5)
            if over_tcp:
                one.bind((f"127.0.1.{self.uid % 100}", 0))
            one.connect(("127.0.0.1", self.door.port) if over_tcp else self.path)
        except OSError:
            self.told["connect refused"] += 1
            return None
        self.open.append(one)
        del self.open[:-600]
        return one

    def claim_and_release(self):
        status, answer = self.ask("claim", "POST", LEASES,
                                  {"binding": "detached", "ttl_s": 60, "wait_s": 0})
        if status != 200 or answer["lease"]["state"] != "held":
            return
        name, fence, gpu = (answer["lease"][key] for key in ("id", "fence", "gpus"))
        gpu = gpu[0]["uuid"]
        for _ in range(self.chance.choice((0, 0, 1, 10))):
            self.ask("change under a lease", "PUT", f"/api/gpu/manage/{gpu}/power-limit", {
                "power_limit_mw": self.chance.choice((300_000, 400_000, 1)), "lease": name, "fence": fence,
                "wait": False})
            self.ask("renew", "POST", f"{LEASES}/{name}/renew", {"fence": fence, "ttl_s": self.chance.choice((60, 90))})
        self.ask("release", "DELETE", f"{LEASES}/{name}")

    def wait_in_many_classes(self):
        for _ in range(20):
            status, answer = self.ask("waiting claim", "POST", LEASES, {
                "binding": "detached", "ttl_s": 60, "among": self.chance.sample(range(4), 2),
                "min_free_bytes": self.chance.randrange(1 << 30), "answer_within_s": 0})
            if status == 200:
                self.waiting.append(answer["lease"]["id"])

    def give_up_some(self):
        for name in self.waiting[:30]:
            self.ask("cancel", "DELETE", f"{LEASES}/{name}")
        del self.waiting[:30]

    def hold_streams(self):
        for _ in range(40):
            if one := self.socket():
                with contextlib.suppress(OSError):
                    one.sendall(b"GET /api/gpu/stream/power?hz=100 HTTP/1.1\r\nHost: x\r\n\r\n")

    def sit_idle(self):
        for _ in range(100):
            self.socket()

    def send_half(self):
        body = b"POST /api/gpu/leases HTTP/1.1\r\nHost: x\r\nContent-Length: 90\r\n\r\n{"
        for half in (b"GET /api/gpu/queue HT", body, b"\x16\x03\x01\x00", b"G" * 40_000):
            if one := self.socket():
                with contextlib.suppress(OSError):
                    one.sendall(half)

    def flood(self):
        for _ in range(20):
            self.ask("queue", "GET", "/api/gpu/queue")
        self.ask("metrics", "GET", "/metrics")

    def adopt(self):
        """His own program that uses a GPU under no lease, other people's, and what is none."""
        for _ in range(20):
            pid = self.chance.choice((*self.squatters, os.getpid(), os.getppid(), 1, self.chance.randrange(1, 1 << 22)))
            status, answer = self.ask("adopting", "POST", f"{LEASES}/adopt", {"pid": pid})
            if status == 200:
                self.ask("release", "DELETE", f"{LEASES}/{answer['lease']['id']}")

    def mark_for_others(self):
        """Processes that say they were of other people's leases."""
        _, answer = self.ask("leases", "GET", LEASES)
        for lease in answer.get("leases", [])[:5]:
            if lease.get("id") and len(self.children) < 20:
                self.children.append(subprocess.Popen(["sleep", "3"], env={"GPUYARD_LEASE": lease["id"]},
                                                      stdin=subprocess.PIPE))
        ended = [child for child in self.children if child.poll() is not None]
        self.children = [child for child in self.children if child not in ended]

    def read_everything(self):
        for target in ("/docs", "/openapi.json", "/api/gpu/usage?by=lease", "/api/gpu/manage/audit", LEASES,
                       "/api/gpu/devices/0/history?metric=power_draw&since=1h"):
            self.ask(f"read {target.partition('?')[0]}", "GET", target)

    def listen_to_many(self):
        names = ",".join(self.chance.choice(("0", "1", "2", "3")) for _ in range(200))
        for _ in range(10):
            if one := self.socket():
                with contextlib.suppress(OSError):
                    one.sendall(f"GET /api/gpu/events?gpus={names} HTTP/1.1\r\nHost: x\r\n\r\n".encode())

    def set_something(self):
        for _ in range(10):
            self.ask("change", "PUT", "/api/gpu/manage/0/power-limit", {"power_limit_mw": 300_000})

    def send_nonsense(self):
        for body in ({"gpus": -1}, {"id": "--help"}, {"id": "x" * 99}, [], {"among": [0] * 300}):
            self.ask("nonsense", "POST", LEASES, body)

    def mark_what_is_roots(self):
        """A program that runs as root, with a mark of ours in its environment: su, waiting for a password."""
        su = shutil.which("su")
        if su is None or len(self.children) >= 5:
            return
        self.children.append(subprocess.Popen(
            [su, "root"], env={"GPUYARD_LEASE": self.waiting[-1] if self.waiting else "0123456789abcdef"},
            stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))

    def run(self):
        deeds = [self.claim_and_release, self.claim_and_release, self.wait_in_many_classes, self.give_up_some,
                 self.hold_streams, self.sit_idle, self.send_half, self.flood, self.adopt, self.set_something,
                 self.send_nonsense, self.mark_what_is_roots, self.mark_for_others, self.read_everything,
                 self.listen_to_many]
        while time.monotonic() < self.until:
            self.chance.choice(deeds)()
        for child in self.children:
            child.communicate()
        return dict(self.told)


def attack(door, seed, squatters, uid, until):
    return Attacker(door, uid, until, seed, squatters).run()


def want_one(door, _uid, until):
    """Returns the wait of each claim of one GPU, and the refusals."""
    waits, refused = [], collections.Counter()
    while time.monotonic() < until:
        time.sleep(0.1)
        began = time.monotonic()
        status, answer = ask(door.path, "POST", LEASES, {"binding": "detached", "ttl_s": 60, "answer_within_s": 20})
        if status != 200 or answer["lease"]["state"] != "held":
            refused[f"{status} {answer}"] += 1
            continue
        waits.append(time.monotonic() - began)
        ask(door.path, "DELETE", f"{LEASES}/{answer['lease']['id']}")
    return {"waits": waits, "refused": dict(refused)}


def look_on(door, _uid, until):
    """Returns root's waits for answers, and the refusals."""
    waits, refused = [], collections.Counter()
    while time.monotonic() < until:
        for target in ("/api/gpu/queue", "/api/gpu/load", "/metrics"):
            began = time.monotonic()
            status, answer = ask(door.path, "GET", target)
            waits.append(time.monotonic() - began)
            if status != 200:
                refused[f"{target} {status} {answer}"] += 1
    return {"waits": waits, "refused": dict(refused)}


def state_of(pid):
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    memory = int(next(line.split()[1] for line in status.splitlines() if line.startswith("VmRSS")))
    return {"rss_kib": memory, "descriptors": len(os.listdir(f"/proc/{pid}/fd"))}


def all_at_once(seconds, seed=None):
    """Returns the answers to each of them, and the daemon's state before and after."""
    seed = random.randrange(1_000_000) if seed is None else seed
    place = pathlib.Path(tempfile.mkdtemp(prefix="gpuyard-users-"))
    place.chmod(0o755)  # pytest's own are root's alone
    world = World(place)
    daemon = None
    squatters = [subprocess.Popen(["sleep", "infinity"], user=uid, group=uid, extra_groups=[]) for uid in ATTACKERS]
    try:
        world.start("--gpus", "4", "--load", "idle")
        for squatter in squatters:
            world.must("attach", "--pid", str(squatter.pid), "--gpu", "3", "--vram", "1G")
        config = place / "gpuyard.toml"
        config.write_text(CONFIG)
        daemon = Daemon(place, "--config", str(config), GPUYARD_SIM_WORLD=str(world.directory)).ready()
        probe = {"id": "the-first-of-root", "binding": "detached", "ttl_s": 60, "answer_within_s": 1}
        wait_until(lambda: ask(daemon.socket, "POST", LEASES, probe)[0] == 200, "leases")
        ask(daemon.socket, "DELETE", f"{LEASES}/{probe['id']}")
        before = state_of(daemon.process.pid)
        pids = [squatter.pid for squatter in squatters]
        door = Door(daemon.socket, daemon.port)
        attacks = functools.partial(attack, door, seed, pids)
        found = at_once(seconds, [*((uid, (), attacks) for uid in ATTACKERS),
                                  (FOURTH, (), functools.partial(want_one, door)),
                                  (0, (), functools.partial(look_on, door))])
        wait_until(lambda: state_of(daemon.process.pid)["descriptors"] <= before["descriptors"] + 8,
                   "the connections to end")
        return {"seed": seed, "before": before, "after": state_of(daemon.process.pid), "fourth": found[FOURTH],
                "root": found[0], "attackers": {uid: found[uid] for uid in ATTACKERS}}
    finally:
        for squatter in squatters:
            squatter.kill()
            squatter.wait()
        if daemon is not None:
            daemon.stop()
        world.end()
        shutil.rmtree(place, ignore_errors=True)


def percentile(values, share):
    ordered = sorted(values)
    return ordered[min(int(len(ordered) * share), len(ordered) - 1)] if ordered else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=5)
    parser.add_argument("--seed", type=int)
    given = parser.parse_args()
    found = all_at_once(given.minutes * 60, given.seed)
    for who in ("fourth", "root"):
        waits = found[who].pop("waits")
        found[who] |= {"answers": len(waits), "p50_ms": round(percentile(waits, 0.5) * 1000, 1),
                       "p99_ms": round(percentile(waits, 0.99) * 1000, 1),
                       "longest_ms": round(max(waits, default=0) * 1000, 1)}
    print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
