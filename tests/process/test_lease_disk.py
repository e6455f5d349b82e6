"""The record of leases when its disk fails under a daemon: held leases stay held, no GPU is granted that is
not stored, the reason is reported, and grants resume once the disk works.
"""

import sqlite3
import subprocess
import time

import pytest

from control_client import Caller
from own_disk import fill
from program import wait_until


class Yard:
    """A daemon with four GPUs and one who asks for them: this process."""

    def __init__(self, daemon, world, directory):
        world.start("--gpus", "4", "--load", "idle")
        self.start = lambda: daemon(directory=directory, GPUYARD_SIM_WORLD=str(world.directory))
        self.daemon = self.start()
        self.caller = Caller(self.daemon.socket)
        self.open()

    def open(self):
        wait_until(lambda: self.daemon.get("/api/gpu/load").status == 200
                   and self.daemon.get("/api/gpu/load").json()["capacity"] == 4, "GPUs to lease")

    def restart(self):
        self.daemon.kill()
        self.caller.close()
        self.daemon = self.start()

    def claim(self, **wish):
        return self.caller.ask("POST", "/api/gpu/leases", {"gpus": 1, "wait_s": 5} | wish)

    def granted(self, **wish):
        """A lease, as soon as there are any again."""
        def try_it():
            answer = self.claim(**wish)
            assert answer.status in (200, 201, 503), answer.text
            return answer.status != 503 and answer.json()["lease"]
        lease = wait_until(try_it, "a lease")
        assert lease["state"] == "held", lease
        return lease

    def held(self):
        """{id: (fence, GPUs)} of what is held, or None: nothing can be said of it now."""
        answer = self.daemon.get("/api/gpu/leases")
        if answer.status != 200:
            return None
        return {lease["id"]: (lease["fence"], [gpu["uuid"] for gpu in lease["gpus"]])
                for lease in answer.json()["leases"] if lease["state"] == "held"}

    def refused(self, *reasons):
        """Waits until every claim is refused with the reason."""
        def closed():
            answer = self.claim()
            message = answer.status == 503 and answer.json()["error"]["message"]
            return message and "held leases stay held" in message and message
        message = wait_until(closed, "a refusal")
        assert any(reason in message for reason in reasons), message
        assert self.daemon.get("/api/gpu/devices").json()["count"] == 4  # the rest goes on


def place_of(lease):
    return lease["fence"], [gpu["uuid"] for gpu in lease["gpus"]]


@pytest.fixture
def yard(daemon, world, tmp_path):
    return Yard(daemon, world, tmp_path / "yard")


def test_newer_schema_version_is_untouched_and_grants_stop(yard, run):
    yard.granted()
    yard.daemon.stop()
    with sqlite3.connect(yard.daemon.state + "/state.db") as database:
        database.execute("PRAGMA user_version=99")
    database.close()
    yard.restart()
    yard.refused("layout 99")
    began = time.monotonic()  # no command waits for a file that only an upgrade can read
    listed = run("leases", "--socket", yard.daemon.socket)
    assert listed.returncode == 5 and "layout 99" in listed.stderr
    assert time.monotonic() - began < 10
    yard.daemon.stop()
    with sqlite3.connect(yard.daemon.state + "/state.db") as database:
        assert database.execute("SELECT state, fence FROM leases").fetchall() == [("held", 1)]
    database.close()


def test_freed_disk_space_resumes_grants(own_disk, yard):
    first = yard.granted()
    filler = fill(own_disk)

    def full():
        """The WAL has room of its own until it has to grow."""
        answer = yard.claim()
        if answer.status < 300:
            yard.caller.ask("DELETE", f"/api/gpu/leases/{answer.json()['lease']['id']}")
        return answer.status == 503 and answer.json()["error"]["message"]
    assert "full" in wait_until(full, "a refusal")
    assert yard.held()[first["id"]] == place_of(first)
    filler.unlink()
    assert yard.granted()["fence"] > first["fence"]
    assert yard.held()[first["id"]] == place_of(first)


@pytest.fixture
def read_only():
    """Makes a file read-only, also for root, and back."""
    made = []

    def make(file):
        for options in (["--bind", file, file], ["-o", "remount,bind,ro", file]):
            if subprocess.run(["mount", *options], capture_output=True, check=False).returncode != 0:
                pytest.skip("only root may mount")
            if file not in made:
                made.append(file)

    def undo():
        while made:
            subprocess.run(["umount", "-l", made.pop()], check=True)
    make.undo = undo
    yield make
    undo()


def test_read_only_database_refuses_until_writable(yard, read_only):
    first = yard.granted()
    yard.daemon.stop()
    read_only(yard.daemon.state + "/state.db")
    yard.restart()
    yard.refused("readonly", "unable to open", "I/O error")
    read_only.undo()
    assert yard.granted()["fence"] > first["fence"]
    assert yard.held()[first["id"]] == place_of(first)


def spoil(yard, statement):
    """Changes state.db between two daemons."""
    yard.daemon.stop()
    with sqlite3.connect(yard.daemon.state + "/state.db") as database:
        assert database.execute(statement).rowcount > 0
    database.close()
    yard.restart()
    yard.open()


def withheld(yard):
    """{UUID: text} of the cordoned GPUs."""
    return {one["uuid"]: one["text"] for one in yard.daemon.get("/api/gpu/queue").json()["withheld"]
            if one["why"] == "cordoned"}


def test_an_unreadable_lease_frees_no_gpu(yard, run):
    first, second = yard.granted(), yard.granted()
    token = yard.caller.ask("POST", "/api/gpu/tokens", {"name": "ci", "scope": "read"}).json()["token"]["id"]
    spoil(yard, f"UPDATE leases SET binding = 'procesr' WHERE id = '{first['id']}'")
    (fence, gpus) = place_of(first)
    for _ in range(2):  # also after a restart
        wait_until(lambda: yard.held() == {second["id"]: place_of(second)}, "the other lease")
        assert list(withheld(yard)) == gpus
        assert "a lease of this GPU could not be read" in withheld(yard)[gpus[0]]
        notes = yard.daemon.get("/api/gpu/queue").json()["notes"]
        assert any("the table unreadable_rows" in note for note in notes), notes
        assert "the table unreadable_rows" in run("doctor", "--socket", yard.daemon.socket).stdout
        assert [one["id"] for one in yard.caller.ask("GET", "/api/gpu/tokens").json()["tokens"]] == [token]
        yard.restart()
        yard.open()
    others = [yard.granted() for _ in range(2)]  # the last of four GPUs is withheld
    assert yard.claim(wait_s=0).json()["lease"]["state"] == "ended"
    assert yard.caller.ask("DELETE", f"/api/gpu/manage/{gpus[0]}/cordon").status == 200
    last = yard.granted()
    assert place_of(last)[1] == gpus
    fences = [lease["fence"] for lease in (first, second, *others, last)]
    assert fences == sorted(set(fences)) and fence == fences[0]
