"""The verbs of leasing against a daemon with simulated GPUs: what they show and what they change."""

import os
import re
import subprocess


from lease_yard import USE
from program import PROGRAM, wait_until


def taken(yard, *words):
    """A detached lease: its id and what it exports."""
    lines = yard.must("lease", "take", "--quiet", *words).splitlines()
    return lines[0], dict(line.split("=", 1) for line in lines[1:])


def test_leases_lists_holder_gpus_and_note(lease_yard):
    yard = lease_yard(gpus=2)
    one = yard.hold("--note", "thesis")
    lease = yard.leases()[0]
    assert lease["state"] == "held" and lease["note"] == "thesis" and lease["uid"] == os.geteuid()
    assert lease["pid"] in (one.pid, one.held_pid) and len(lease["gpus"]) == 1
    table = yard.must("leases")
    assert "thesis" in table and "held" in table and "These GPUs are simulated." in table


def test_queue_shows_position_and_wait_reason(lease_yard):
    yard = lease_yard()
    assert "No claims are waiting." in yard.must("queue")
    yard.hold("--max-time", "1h")
    yard.start("--note", "second", "--", "true")
    waiting = yard.wait_for_waiting(1)[0]
    assert waiting["place"]["position"] == 1 and waiting["place"]["text"]
    assert 0 < waiting["place"]["expected_s"] <= 3600
    text = yard.must("queue")
    assert "second" in text and waiting["place"]["text"] in text


def test_detached_lease_is_claimed_renewed_shown_and_released(lease_yard):
    yard = lease_yard()
    name, variables = taken(yard, "--for", "1h")
    assert variables["CUDA_VISIBLE_DEVICES"] == yard.world.uuid(0)
    assert variables["GPUYARD_LEASE"] == name
    before = yard.json("lease", "lease", "show", name)["lease"]
    assert before["binding"] == "detached" and before["state"] == "held"
    after = yard.json("lease", "lease", "renew", name, "--for", "3h")["lease"]
    assert after["until"] > before["until"] and after["fence"] == before["fence"]
    assert yard.go("run", "--no-wait", "--", "true").returncode == 7
    assert yard.json("lease", "lease", "release", name)["lease"]["state"] in ("ended", "draining")
    wait_until(lambda: yard.leases() == [], "the lease to end")


def test_exported_lease_is_evaluated_by_shell(lease_yard):
    yard = lease_yard()
    script = (f'eval "$("{PROGRAM}" lease take --quiet --ttl 1h --export)"; '
              f'echo $CUDA_VISIBLE_DEVICES; "{PROGRAM}" lease release >&2')
    done = subprocess.run(["sh", "-c", script], env=yard.environment, capture_output=True, text=True,
                          timeout=30, check=True)
    assert done.stdout == yard.world.uuid(0) + "\n"
    wait_until(lambda: yard.leases() == [], "the lease to end")


def test_unleased_process_is_named_with_resolving_command(lease_yard):
    yard = lease_yard()
    squatter = subprocess.Popen(["sleep", "600"])
    try:
        yard.world.attach(0, squatter.pid)
        found = wait_until(lambda: yard.queue()["squatters"], "the squatter to be seen")[0]
        assert found["pid"] == squatter.pid and found["uid"] == os.geteuid()
        assert found["resolve"] in yard.must("queue")
        assert yard.go("run", "--no-wait", "--", "true").returncode == 7
        words = found["resolve"].split()
        assert words[0] == "gpuyard"
        yard.must(*words[1:])
        wait_until(lambda: not yard.queue()["squatters"], "it to be none")
        assert yard.leases()[0]["gpus"][0]["uuid"] == yard.world.uuid(0)
    finally:
        squatter.kill()
        squatter.wait()
    wait_until(lambda: yard.leases() == [], "its lease to end with it")


def test_cordoned_gpu_is_not_granted(lease_yard):
    yard = lease_yard()
    withheld = yard.json("cordon", "cordon", "0", "--reason", "new fan")["withheld"]
    assert [one["why"] for one in withheld] == ["cordoned"]
    assert "new fan" in yard.must("queue")
    assert yard.go("run", "--no-wait", "--", "true").returncode == 7
    yard.must("uncordon", "0")
    assert yard.go("run", "--no-wait", "--", "true").returncode == 0


def test_free_lists_gpus_and_exits_7_if_short(lease_yard):
    yard = lease_yard(gpus=3)
    # The first lease has just ended, and its GPU is checked for processes that are left.
    wait_until(lambda: yard.must("free") == "0,1,2\n", "all GPUs to be free")
    yard.must("cordon", "1", "--reason", "new fan")
    held = yard.hold()
    (leased,) = yard.leases()[0]["gpus"]
    (free,) = {0, 2} - {leased["index"]}
    assert yard.must("free") == f"{free}\n"
    few = yard.go("free", "-n", "2")
    assert few.returncode == 7 and few.stdout == f"{free}\n"
    assert "1 of 3 GPUs are free" in few.stderr and "gpuyard run -n 2" in few.stderr
    assert yard.go("free", "-n", "0").returncode == 2
    assert held.poll() is None


def test_usage_reports_leased_gpu_hours_per_group(lease_yard):
    yard = lease_yard()
    yard.must("run", "--", "sh", "-c", f"{USE} sleep 3")
    for by in ("user", "day", "gpu", "lease"):
        usage = wait_until(lambda by=by: (u := yard.json("usage", "usage", "--by", by))["rows"] and u, by)
        assert usage["by"] == by and usage["rows"][0]["gpu_hours"] > 0
    assert "GPU-HOURS" in yard.must("usage")
    lines = yard.must("usage", "--csv").splitlines()
    assert len(lines) >= 2 and re.match(r"\w+,", lines[0])
