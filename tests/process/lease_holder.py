"""One process that wants GPUs again and again, as a job would: it claims, takes a lock on each GPU that
it was told to have, and gives it back; or leaves a child behind, or dies. What it did is in its own log,
and nothing of it comes from the daemon. It sleeps as long as a job would work.

The locks are the judge: the kernel lets one process at a time have each, and takes it from the dead.
"""

import contextlib
import fcntl
import http.client
import json
import os
import pathlib
import random
import socket
import subprocess
import sys
import time
import uuid

LONGEST_HOLD = 0.08  # seconds
LEFT_BEHIND = 0.4    # seconds that a child of the dead keeps its GPUs
CHILD = """
import contextlib, socket, sys, time
parent = socket.socket(fileno=int(sys.argv[1]))
with contextlib.suppress(OSError):
    parent.send(b".")
    if socket.recv_fds(parent, 1, 16)[1]:
        parent.send(b".")
        time.sleep(float(sys.argv[2]))
"""


def who_has(path):
    """The processes that have the file open, and the lease that each names; for failure messages."""
    found = []
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if any(os.readlink(link) == path for link in (process / "fd").iterdir()):
                words = (process / "cmdline").read_bytes().split(b"\0")
                marks = [word for word in (process / "environ").read_bytes().split(b"\0")
                         if word.startswith(b"GPUYARD_LEASE=")]
                found.append(repr((process.name, words[:3], marks)))
    return found


class Connection(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("localhost", timeout=20)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(20)
        self.sock.connect(self.path)


class Holder:
    def __init__(self, directory, name, seed):
        self.directory = directory
        self.name = name
        self.chance = random.Random(seed)
        self.log = open(os.path.join(directory, f"holder-{name}.log"), "a", buffering=1,
                        encoding="utf-8")
        self.locks = []

    def note(self, what, **facts):
        self.log.write(json.dumps({"what": what, "at": time.monotonic(), "pid": os.getpid()} | facts) + "\n")

    def ask(self, method, path, body=None):
        """Until there is an answer of a daemon that can give one."""
        while True:
            connection = Connection(os.path.join(self.directory, "gpuyard.sock"))
            try:
                connection.request(method, path, json.dumps(body) if body else None)
                answer = connection.getresponse()
                text = answer.read()
                if answer.status != 503:
                    return answer.status, json.loads(text)
            except (OSError, http.client.HTTPException, ValueError):
                pass
            finally:
                connection.close()
            time.sleep(self.chance.uniform(0.02, 0.1))

    def claim(self, gpus):
        """The lease, or None: it waited long enough."""
        body = {"id": uuid.UUID(int=self.chance.getrandbits(128)).hex, "gpus": gpus, "wait_s": 30,
                "answer_within_s": 5}
        if self.chance.random() < 0.5:
            body["max_time_s"] = 1
        self.note("asked", lease=body["id"], gpus=gpus)
        while True:
            status, answer = self.ask("POST", "/api/gpu/leases", body)
            if status >= 300:
                self.note("refused", lease=body["id"], status=status, answer=answer)
                return None
            lease = answer["lease"]
            if lease["state"] == "held":
                return lease
            if lease["state"] != "waiting":
                self.note("unmet", lease=lease["id"], ending=lease["ending"])
                return None
            if self.chance.random() < 0.1:
                self.ask("DELETE", f"/api/gpu/leases/{body['id']}")
                self.note("cancelled", lease=body["id"])
                return None

    def take(self, lease):
        for gpu in lease["gpus"]:
            lock = open(os.path.join(self.directory, f"{gpu['uuid']}.lock"), "a", encoding="utf-8")
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                self.note("TAKEN", lease=lease["id"], gpu=gpu["uuid"], fence=lease["fence"],
                          by=who_has(lock.name))
            self.locks.append(lock)
        self.note("granted", lease=lease["id"], fence=lease["fence"],
                  gpus=[gpu["uuid"] for gpu in lease["gpus"]])

    def let_go(self):
        for lock in self.locks:
            lock.close()
        self.locks = []

    def start_a_child(self, lease):
        """The child names its lease in its environment, as a job's processes do, and waits for the locks. It
        starts before there are any: a kill between fork and exec leaves a process that cannot be told
        from others."""
        ours, its = socket.socketpair()
        ours.settimeout(20)
        with its:
            child = subprocess.Popen([sys.executable, "-c", CHILD, str(its.fileno()), str(LEFT_BEHIND)],
                                     pass_fds=[its.fileno()], start_new_session=True,
                                     env=os.environ | {"GPUYARD_LEASE": lease["id"]})
        ours.recv(1)
        return child.pid, ours

    def leave(self, child, lease):
        pid, connection = child
        socket.send_fds(connection, [b"!"], [lock.fileno() for lock in self.locks])
        connection.recv(1)
        self.note("left behind", lease=lease["id"], child=pid)
        os.kill(os.getpid(), 9)

    def job(self, most):
        lease = self.claim(self.chance.randint(1, most))
        if lease is None:
            return
        end = self.chance.random()
        child = self.start_a_child(lease) if 0.05 <= end < 0.1 else None
        self.take(lease)
        time.sleep(self.chance.uniform(0, LONGEST_HOLD))
        if child:
            self.leave(child, lease)
        if end < 0.05:
            self.note("dies", lease=lease["id"])
            os.kill(os.getpid(), 9)
        self.note("releases", lease=lease["id"])
        self.let_go()
        self.ask("DELETE", f"/api/gpu/leases/{lease['id']}?fence={lease['fence']}")


def main():
    directory, name, seed, most, until = sys.argv[1:6]
    holder = Holder(directory, name, int(seed))
    while time.monotonic() < float(until):
        holder.job(int(most))


if __name__ == "__main__":
    main()
