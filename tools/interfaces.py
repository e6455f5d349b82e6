#!/usr/bin/env python3
"""Compares what users and programs see of two builds, so that a change of names inside changes nothing outside.

    interfaces.py dump BUILD FOLDER     writes it: help of each verb, schemas, OpenAPI, metrics, answers of --json,
                                        exported symbols, the tables of the databases, Python's public names
    interfaces.py compare A B [OLD=NEW ...]   prints what differs between two folders; OLD=NEW are names that were
                                        meant to change, such as titles of schemas, and are applied to A first

BUILD has gpuyard, the simulated NVML and libgpuyard.so. Readings differ from one run to the next: of an answer the keys
are kept, of a metric its name, labels, type and help.
"""

import json
import os
import re
import sqlite3
import subprocess
import sys
import tempfile
import time
import urllib.request
from difflib import unified_diff
from pathlib import Path

PATIENCE = 60
ANSWERS = (("devices",), ("driver",), ("processes",), ("leases",), ("queue",), ("free",), ("alerts",), ("alerts", "rules"),
           ("alerts", "history"), ("events",), ("energy",), ("power",), ("doctor",), ("audit",), ("usage",), ("why",))


def output(*command: str | Path, environment: dict[str, str] | None = None) -> str:
    done = subprocess.run([str(word) for word in command], env=environment, stdin=subprocess.DEVNULL, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=PATIENCE, check=False)
    return done.stdout


def verbs_in(text: str) -> list[str]:
    """The verbs that a help lists: two spaces, a name, two spaces and more."""
    return re.findall(r"^  ([a-z][a-z-]*) {2,}[A-Z]", text, re.MULTILINE)


def helps(program: Path, verbs: tuple[str, ...] = ()) -> dict[str, str]:
    text = output(program, *verbs, "--help")
    found = {" ".join(verbs) or "gpuyard": text}
    for verb in verbs_in(text):
        if len(verbs) < 3 and verb not in verbs:
            found |= helps(program, (*verbs, verb))
    return found


def keys_of(value: object) -> object:
    if isinstance(value, dict):
        return {key: keys_of(inner) for key, inner in sorted(value.items())}
    if isinstance(value, list):
        shapes = sorted({json.dumps(keys_of(inner), sort_keys=True) for inner in value})
        return [json.loads(shape) for shape in shapes]
    return type(value).__name__ if not isinstance(value, (int, float)) or isinstance(value, bool) else "number"


def series_of(metrics: str) -> list[str]:
    names = re.sub(r'="(?:\\.|[^"\\])*"', "=", re.sub(r"^([^#].*) \S+$", r"\1", metrics, flags=re.MULTILINE))
    return sorted(set(names.splitlines()))


def tables_in(state: Path) -> str:
    found = []
    for path in sorted(state.glob("*.db")):
        with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as database:
            rows = database.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY name").fetchall()
            found.append(f"-- {path.name} {database.execute('PRAGMA user_version').fetchone()[0]}\n"
                         + "".join(f"{row[0]}\n" for row in rows))
    return "".join(found)


def from_daemon(program: Path, place: Path) -> dict[str, str]:
    environment = os.environ | {"GPUYARD_SOCKET": str(place / "gpuyard.sock"), "HOME": str(place)}
    command = [str(program), "serve", "--simulate", "2", "--load", "idle", "--listen", "127.0.0.1:0", "--state",
               str(place / "state")]
    with open(place / "log", "w+", encoding="utf-8") as log, \
            subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log) as daemon:
        try:
            address, until = None, time.monotonic() + PATIENCE
            while address is None and time.monotonic() < until:
                address = re.search(r"listening on (http://\S+)", (place / "log").read_text(encoding="utf-8"))
                time.sleep(0.1)
            if address is None:
                sys.exit((place / "log").read_text(encoding="utf-8"))
            output(program, "run", "--", "true", environment=environment)

            def fetched(path: str) -> str:
                with urllib.request.urlopen(address[1] + path, timeout=PATIENCE) as reply:
                    return reply.read().decode()
            found = {"openapi.json": json.dumps(json.loads(fetched("/openapi.json")), indent=1),
                     "metrics": "\n".join(series_of(fetched("/metrics")))}
            for verb in ANSWERS:
                text = output(program, *verb, "--json", environment=environment)
                try:
                    text = json.dumps(keys_of(json.loads(text)), indent=1)
                except ValueError:
                    text = "\n".join(sorted({json.dumps(keys_of(json.loads(line))) for line in text.splitlines()
                                             if line.startswith("{")}))
                found["json " + " ".join(verb)] = text
        finally:
            daemon.terminate()
            daemon.wait(PATIENCE)
    return found | {"tables": tables_in(place / "state")}


def dump(build: Path, folder: Path) -> None:
    program = (build / "gpuyard").resolve()
    found = {f"help {verbs}": text for verbs, text in helps(program).items()}
    for name in re.findall(r"^(\S+) ", output(program, "schema"), re.MULTILINE):
        found[f"schema {name}"] = output(program, "schema", name)
    found["symbols"] = output("sh", "-c", f"nm -DC --defined-only '{build}/libgpuyard.so' | cut -d' ' -f2-")
    python = "import gpuyard, gpuyard.models as m; print(*sorted(dir(gpuyard)), *sorted(dir(m)), sep='\\n')"
    found["python"] = output(sys.executable, "-c", python,
                             environment=os.environ | {"PYTHONPATH": str(Path(__file__).parents[1] / "python")})
    with tempfile.TemporaryDirectory(prefix="gpuyard-interfaces-") as place:
        found |= from_daemon(program, Path(place))
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in found.items():
        (folder / name.replace("/", "-").replace(" ", "_")).write_text(text, encoding="utf-8")
    print(f"{len(found)} texts in {folder}")


def compare(before: Path, after: Path, renamed: list[str]) -> int:
    names = {path.name for folder in (before, after) for path in folder.iterdir()}
    problems = 0
    for name in sorted(names):
        texts = [(folder / name).read_text(encoding="utf-8") if (folder / name).exists() else "" for folder in (before, after)]
        for old, new in (one.split("=", 1) for one in renamed):
            texts[0] = re.sub(rf"\b{re.escape(old)}\b", new, texts[0])
        lines = list(unified_diff(texts[0].splitlines(), texts[1].splitlines(), name, name, lineterm="", n=1))
        problems += bool(lines)
        print(*lines, sep="\n", end="\n" if lines else "")
    print(f"{len(names)} texts compared, {problems} differ")
    return 1 if problems else 0


def main(words: list[str]) -> int:
    if len(words) == 3 and words[0] == "dump":
        dump(Path(words[1]), Path(words[2]))
        return 0
    if len(words) >= 3 and words[0] == "compare":
        return compare(Path(words[1]), Path(words[2]), words[3:])
    print(__doc__, file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
