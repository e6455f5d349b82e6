"""Attacks of strangers on a daemon that speaks HTTP."""

import json
import shutil
import subprocess
import sys
import time
from pathlib import Path

from strangers import Healthy, connect, memory, plain

CRATE = "http_desync_guardian"
VERSION = "0.1.3"  # 159 requests that two servers may read in two ways, each with a verdict
CASES = Path("build/attack-crates")


def desync_cases():
    """The requests of the crate; nothing if no crates are available. They are never kept in this tree."""
    if not shutil.which("cargo"):
        return None
    project = CASES / "asks"
    (project / "src").mkdir(parents=True, exist_ok=True)
    (project / "src" / "lib.rs").write_text("")
    (project / "Cargo.toml").write_text(f'[package]\nname = "asks"\nversion = "0.0.0"\nedition = "2021"\n'
                                        f'[workspace]\n[dependencies]\n{CRATE} = "={VERSION}"\n')
    done = subprocess.run(["cargo", "vendor", "--quiet", "vendor"], cwd=project, capture_output=True, timeout=300,
                          check=False)
    if done.returncode != 0:
        return None
    told = subprocess.run(["build/attack-venv/bin/python", __file__, str(project / "vendor" / CRATE / "tests")],
                          capture_output=True, check=True, timeout=60).stdout
    return [(name, bytes.fromhex(raw), tier) for name, raw, tier in json.loads(told)]


def read_cases(folder):
    """For desync_cases(), by a Python that reads YAML."""
    import yaml
    found = []
    for path in sorted(Path(folder).rglob("*.yaml")):
        for case in yaml.safe_load(path.read_text(encoding="utf-8")):
            found.append((case["name"], render(case).hex(), case["expected"]["tier"]))
    print(json.dumps(found))


def render(case):
    lines = [f"{case['method']} {case['uri']} {case['version']}"]
    lines += [f"{field['name']}: {field['value']}" for field in case.get("headers") or []]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1", errors="replace")


def answer_to(port, request):
    """The status line, and whether the connection was closed."""
    with connect(port) as one:
        one.settimeout(12)
        got = b""
        try:
            one.sendall(request)
            while chunk := one.recv(65536):
                got += chunk
            closed = True
        except ConnectionError:
            closed = True
        except TimeoutError:
            closed = False
        return got.split(b"\r\n", 1)[0], closed


def desync(yard, board):
    cases = desync_cases()
    if not cases:
        return board.skip("requests that can be read in two ways", "no Rust toolchain, or no crates for it")
    judged = [case for case in cases if case[2] in ("Severe", "Ambiguous")]
    wrong = []
    for name, request, tier in judged:
        status, closed = answer_to(yard.daemon.port, request)
        refused = status.startswith((b"HTTP/1.1 4", b"HTTP/1.1 5")) or not status
        if not closed or (tier == "Severe" and not refused):
            wrong.append(f"{name}: {status.decode()} {request[:120]!r}")
    board.note(f"{len(judged)} of {len(cases)} requests with two meanings", "; ".join(wrong[:3]),
               judged and not wrong)


def slow_clients(yard, board):
    if not shutil.which("slowhttptest"):
        return board.skip("slowhttptest", "it is not installed")
    before = memory(yard)
    seconds = "5" if board.short else "20"
    url = f"http://127.0.0.1:{yard.daemon.port}/metrics"
    for name, mode in (("slow headers", ["-H"]), ("slow bodies", ["-B", "-t", "POST"]),
                       ("slow reading", ["-X", "-k", "3", "-w", "10", "-y", "20", "-n", "5", "-z", "32"])):
        with Healthy(plain(yard), pause=0.01) as healthy:
            subprocess.run(["slowhttptest", *mode, "-c", "300", "-r", "200", "-i", "2", "-l", seconds, "-u", url],
                           capture_output=True, timeout=120, check=False)
        healthy.judge(board, name, 50)
    board.bar("memory of slow clients", memory(yard) - before, 50, "MiB")
    time.sleep(2)
    open_now = subprocess.run(["ss", "-Htn", "state", "established", f"sport = :{yard.daemon.port}"],
                              capture_output=True, text=True, check=False).stdout.count("\n")
    board.note("connections that are left", str(open_now), open_now <= 2)


ALL = (desync, slow_clients)

if __name__ == "__main__":
    read_cases(sys.argv[1])
