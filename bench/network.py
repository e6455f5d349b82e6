#!/usr/bin/env python3
"""What a network costs: HTTPS and a token beside plain HTTP, and ssh beside a bare login.

    bench/network.py        needs a release build, wrk, and the sshd of tools/clients_sshd.sh (as root)

The daemon has one core and wrk the other; each figure is a median beside another of the same rounds.
"""

import os
import re
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
from rows import NotMeasured, line, measured, medians, row, table, verdict  # noqa: E402
from servers import CLIENT_CORE, SERVER_CORE  # noqa: E402

SECONDS = 5
ROUNDS = 3
LOGINS = 30


def requests_a_second(url, *headers):
    words = ["taskset", "-c", CLIENT_CORE, "wrk", "-t1", "-c16", f"-d{SECONDS}s",
             *sum((["-H", h] for h in headers), []), url]
    said = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    if "Non-2xx" in said:
        raise NotMeasured(f"{url} was refused under load")
    return {"requests_per_s": float(re.search(r"Requests/sec:\s+([\d.]+)", said).group(1))}


def milliseconds(words, environment):
    began = time.monotonic()
    subprocess.run(words, env=environment, check=True, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    return {"ms": (time.monotonic() - began) * 1000}


def measure_https(start, place):
    yard = NetYard(start, place)
    token = f"Authorization: Bearer {yard.make_token('bench')}"
    return medians({"plain HTTP": lambda: requests_a_second(f"http://127.0.0.1:{yard.daemon.port}/health"),
                    "HTTPS": lambda: requests_a_second(f"{yard.host}/health"),
                    "HTTPS with a token": lambda: requests_a_second(f"{yard.host}/health", token)}, ROUNDS)


def measure_ssh(place, daemons):
    if not daemons:
        raise NotMeasured("there is no daemon")
    host = FarHost(place, os.path.abspath(PROGRAM), daemons[0].socket)
    try:
        return medians({"ssh lab true": lambda: milliseconds(["ssh", "lab", "true"], host.environment),
                        "gpuyard -H lab leases": lambda: milliseconds([PROGRAM, "-H", "lab", "leases"],
                                                                      host.environment)}, LOGINS)
    finally:
        host.sshd.terminate()


def measure(https_place, ssh_place):
    daemons = []

    def start(*arguments, directory):
        one = Daemon(directory, *arguments)
        os.sched_setaffinity(one.process.pid, {int(SERVER_CORE)})
        daemons.append(one)
        return one.ready()

    try:
        https = row(measure_https, start, https_place)
        return {"https": https, "ssh": row(measure_ssh, ssh_place, daemons)}
    finally:
        for daemon in daemons:
            daemon.kill()


def show_https(rows):
    for name, one in rows.items():
        line(name, 28, one, lambda one: f"{one['requests_per_s']:>12,.0f}" + (
            f"{one['requests_per_s'] / rows['plain HTTP']['requests_per_s']:>8.2f}"
            if measured(rows["plain HTTP"]) else ""))
    if measured(rows["HTTPS"], rows["HTTPS with a token"]):
        bare, shown = (rows[name]["requests_per_s"] for name in ("HTTPS", "HTTPS with a token"))
        print(f"a token costs {(1 / shown - 1 / bare) * 1e6:.2f} us a request (bar 5)")


def show_ssh(rows):
    for name, one in rows.items():
        line(name, 28, one, lambda one: f"{one['ms']:>12.0f}")
    if measured(*rows.values()):
        login, asked = (one["ms"] for one in rows.values())
        print(f"{asked - login:.0f} ms more than the login (bar 50)")


def main():
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
        os.chmod(other, 0o755)
        os.chmod(one, 0o755)
        result = measure(Path(one), Path(other))
    print("\n/health, 16 connections: requests a second, of plain HTTP")
    table(result["https"], show_https)
    print("\nssh, milliseconds")
    table(result["ssh"], show_ssh)
    sys.exit(verdict(result))


if __name__ == "__main__":
    main()
