#!/usr/bin/env python3
"""What a network costs: HTTPS and a token beside plain HTTP, and ssh beside a bare login.

    bench/network.py        needs a release build, wrk, and the sshd of tools/clients_sshd.sh (as root)

The daemon has one core and wrk the other; each figure stands beside another of the same run.
"""

import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests" / "process")]
os.chdir(ROOT)

from far_host import FarHost  # noqa: E402
from net_yard import NetYard  # noqa: E402
from program import PROGRAM, Daemon  # noqa: E402

SECONDS = 5
LOGINS = 30


def requests_a_second(url, *headers):
    words = ["taskset", "-c", "1", "wrk", "-t1", "-c16", f"-d{SECONDS}s", *sum((["-H", h] for h in headers), []), url]
    told = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    if "Non-2xx" in told:
        sys.exit(f"bench: {url}: {told}")
    return float(re.search(r"Requests/sec:\s+([\d.]+)", told).group(1))


def milliseconds(words, environment):
    times = []
    for _ in range(LOGINS):
        began = time.monotonic()
        subprocess.run(words, env=environment, check=True, capture_output=True, stdin=subprocess.DEVNULL)
        times.append((time.monotonic() - began) * 1000)
    return statistics.median(times)


def https(place):
    daemons = []

    def start(*arguments, directory):
        one = Daemon(directory, *arguments)
        os.sched_setaffinity(one.process.pid, {0})
        daemons.append(one)
        return one.ready()
    yard = NetYard(start, place)
    token = f"Authorization: Bearer {yard.make_token('bench')}"
    plain = requests_a_second(f"http://127.0.0.1:{yard.daemon.port}/health")
    bare = requests_a_second(f"{yard.host}/health")
    shown = requests_a_second(f"{yard.host}/health", token)
    print(f"requests a second, /health, 16 connections: plain {plain:,.0f}, HTTPS {bare:,.0f} "
          f"({bare / plain:.2f}), HTTPS with a token {shown:,.0f} ({shown / plain:.2f})")
    print(f"a token costs {(1 / shown - 1 / bare) * 1e6:.2f} us a request (bar 5)")
    return daemons


def ssh(place, daemon):
    host = FarHost(place, os.path.abspath(PROGRAM), daemon.socket)
    login = milliseconds(["ssh", "lab", "true"], host.environment)
    asked = milliseconds([PROGRAM, "-H", "lab", "leases"], host.environment)
    print(f"ssh: a bare login {login:.0f} ms, `gpuyard -H lab leases` {asked:.0f} ms: "
          f"{asked - login:.0f} ms more (bar 50)")
    host.sshd.terminate()


def main():
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
        os.chmod(other, 0o755)
        os.chmod(one, 0o755)
        daemons = https(Path(one))
        try:
            ssh(Path(other), daemons[0])
        finally:
            for daemon in daemons:
                daemon.kill()


main()
