"""Many beginnings of jobs at once: what one daemon bears, and what its other users notice of it."""

import json
import re
import statistics
import subprocess
import time
from pathlib import Path

from program import wait_until
from random_jobs import account

RATE = 500  # beginnings a second
SECONDS = 10
CLIENTS = 8  # each with a connection that it keeps
FIRST_JOB = 500_000
TASKS = 64

# Asks at fixed times, whatever the answers take; late ones follow at once.
CLIENT = """
import http.client, json, socket, sys, time

class Unix(http.client.HTTPConnection):
    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(sys.argv[1])

asked = json.loads(sys.argv[2])
connection = Unix("localhost", timeout=60)
for number in range(asked["count"]):
    time.sleep(max(0, asked["start"] + number * asked["period"] - time.monotonic()))
    began = time.monotonic()
    if asked["first_job"]:
        at = asked["first_job"] + number
        gpus = [at % 4, (at + 1) % 4] if at % 3 == 0 else [at % 4]
        wish = {"uid": 1000 + at % 2, "minors": gpus, "note": f"Slurm job {at} of a storm"}
        connection.request("PUT", f"/api/gpu/slurm/jobs/{at}", json.dumps(wish))
    else:
        connection.request("GET", "/api/gpu/brief")
    answer = connection.getresponse()
    text = answer.read()
    if answer.status not in (200, 201):
        sys.stderr.write(f"{answer.status} {text[:300]}\\n")
    print(began, 1000 * (time.monotonic() - began), answer.status)
"""


class Client:
    """One that asks for some time, from its `start` on."""

    def __init__(self, node, user, count, period, start, first_job=0):
        asked = {"count": count, "period": period, "start": start, "first_job": first_job}
        self.process = node.popen("/usr/bin/python3", "-ISc", CLIENT, node.daemon_socket, json.dumps(asked),
                                  user=user, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def results(self):
        """(when asked, milliseconds, status) of each answer, and what went wrong."""
        out, err = self.process.communicate(timeout=SECONDS * 12)
        rows = [line.split() for line in out.splitlines()]
        return [(float(when), float(took), int(status)) for when, took, status in rows], err


def memory_mb(process, what):
    text = Path(f"/proc/{process.pid}/status").read_text()
    return int(re.search(rf"{what}:\s+(\d+) kB", text).group(1)) / 1000


def cpu_seconds(process):
    fields = Path(f"/proc/{process.pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / 100


def storm_of_begins(board, node):
    process = node.daemon.process
    books = account(node, "slurm-job")
    start = time.monotonic() + 1
    alone = Client(node, "alice", 100, 0.05, start).results()[0]
    before, cpu = memory_mb(process, "VmRSS"), cpu_seconds(process)
    start = time.monotonic() + 1.5
    each = RATE * SECONDS // CLIENTS
    clients = [Client(node, "root", each, CLIENTS / RATE, start + number / RATE, FIRST_JOB + number * each)
               for number in range(CLIENTS)]
    reader = Client(node, "alice", SECONDS * 20, 0.05, start)
    found, errors = zip(*(client.results() for client in clients))
    answers = [one for rows in found for one in rows]
    seconds = max(when + took / 1000 for when, took, _ in answers) - min(when for when, _, _ in answers)
    read, trouble = reader.results()
    rate = len(answers) / seconds
    board.note("begins a second", f"{rate:.0f}", rate >= 0.99 * RATE, f"{0.99 * RATE:.0f}")
    board.spread("  one of them (p50, p99)", [took for _, took, _ in answers])
    refused = sum(status not in (200, 201) for _, _, status in answers)
    board.equal("  answers other than 200 or 201", refused, 0)
    board.equal("  clients that lost their connection", RATE * SECONDS - len(answers), 0)
    if any(errors) or trouble:
        print("".join((*errors, trouble))[:2000], flush=True)
    board.spread("GET /api/gpu/brief of a user, before (p50, p99)", [took for _, took, _ in alone])
    board.spread("GET /api/gpu/brief of a user, meanwhile (p50, p99)", [took for _, took, _ in read], 50)
    board.equal("  that were answered with 200", sum(status == 200 for _, _, status in read), SECONDS * 20)
    board.plain("  processor time of the daemon for a begin",
                f"{1e6 * (cpu_seconds(process) - cpu) / len(answers):.0f} us")
    board.plain("memory of the daemon before", f"{before:.1f} MB")
    board.plain("  after", f"{memory_mb(process, 'VmRSS'):.1f} MB")
    board.plain("  at its peak", f"{memory_mb(process, 'VmHWM'):.1f} MB")
    consistent(board, node)
    counted_all(board, books, account(node, "slurm-job"))


def counted_all(board, before, after):
    """Each lease is counted, and each joule once. Small ones share a row, which is of no job."""
    told, counted = after.told - before.told, after.counted - before.counted
    differs = 100 * abs(told - counted) / counted
    board.most("joules of the jobs and nobody's differ from the GPUs' by", differs, 1, "%", 4)
    board.equal("leases in the books", sum(row["leases"] for row in after.rows.values()), RATE * SECONDS)
    board.plain("  jobs with a row", str(sum(key != "" for key in after.rows)))


def held(node):
    return [one for one in node.get("/api/gpu/leases")["leases"] if one["state"] == "held"]


def consistent(board, node):
    """At most one lease holds a GPU, and Slurm's records agree."""
    leases = held(node)
    gpus = [gpu["uuid"] for lease in leases for gpu in lease["gpus"]]
    board.equal("GPUs that two leases hold", len(gpus) - len(set(gpus)), 0)
    board.equal("leases that are no job's", sum(lease["binding"] != "job" for lease in leases), 0)
    jobs = node.get("/api/gpu/slurm")["jobs"]
    told = {job["lease"] for job in jobs if job["state"] == "held"}
    differs = told ^ {one["id"] for one in leases}
    board.equal("  that Slurm's part does not tell of, or more", len(differs), 0)
    for job in jobs:
        done = node.gpuyard("slurm", "end", "--socket", node.daemon_socket, "--spool", node.spool,
                            user="root", SLURM_JOB_ID=job["job"], SLURMD_NODENAME=node.name)
        assert done.returncode == 0, done
    wait_until(lambda: not node.get("/api/gpu/leases")["leases"], "the last jobs to end")
    board.equal("leases after all have ended", len(node.get("/api/gpu/leases")["leases"]), 0)


def array_at_once(board, cluster):
    began = time.monotonic()
    job = cluster.submit("sleep 1", f"--array=0-{TASKS - 1}", gpus=1)
    left = (lambda: cluster.must("squeue", "-h", "-r", "-j", str(job), "-t", "all", "-o", "%T").split())
    while set(left()) - {"COMPLETED"} and time.monotonic() < began + 120:
        time.sleep(0.5)
    board.equal("tasks that are completed", left().count("COMPLETED"), TASKS)
    board.plain("  after", f"{time.monotonic() - began:.1f} s")
    begins = [run for node in cluster.nodes for run in node.hook_runs("begin")]
    ends = [run for node in cluster.nodes for run in node.hook_runs("end")]
    for name, runs in (("begin", begins), ("end", ends)):
        board.equal(f"  tasks with a {name}", len({run.job for run in runs}), TASKS)
        board.equal("  its exit codes", {run.status for run in runs}, {0})
        times = [1000 * run.seconds for run in runs if run.seconds is not None]
        board.plain(f"  {name} within the rig's shell (median, most)",
                    f"{statistics.median(times):.0f}, {max(times):.0f} ms")
    for node in cluster.nodes:
        usage = json.loads(node.must("usage", "--by", "slurm-job", "--json", user="root"))
        mine = {run.job for run in begins if run in node.hook_runs("begin")}
        rows = {int(row["key"] or 0) for row in usage["rows"]}
        board.equal(f"{node.name}: jobs without a row", len(mine - rows), 0)
        board.equal("  leases left", len(node.get("/api/gpu/leases")["leases"]), 0)
        board.equal("  its state", (node.state(), node.reason()), ("IDLE", None))
