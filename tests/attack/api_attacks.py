"""Sends the requests of the API's description over HTTPS with a token of each scope: no response is one that
it does not name, and a client without a token gets none."""

import re
import subprocess
from pathlib import Path

SCHEMATHESIS = Path("build/attack-venv/bin/schemathesis").resolve()
SCOPES = ("metrics", "read", "lease", "control", "admin")
# The description says in words which of these parameters go together: an element where the metric has some, a time
# before another. The same holds for most fields of a change: a fence beside its lease, a reason beside force.
CONFIG = """
[[operations]]
include-path-regex = '^/api/gpu/(devices/.id./history|history|processes|bottlenecks|snapshot)$'
checks.positive_data_acceptance.enabled = false
[[operations]]
include-method = ["POST", "PUT", "DELETE"]
checks.positive_data_acceptance.enabled = false
"""
# An answer without an end is none that a client of one request may wait for.
STREAMS = "^/api/gpu/(events|stream/.*)$"


def api_by_scope(yard, board):
    config = yard.place / "schemathesis.toml"
    config.write_text(CONFIG)
    cases = 0
    for scope in SCOPES:
        token = yard.make_token(scope, "--scope", scope)
        done = subprocess.run(
            [SCHEMATHESIS, "--config-file", config, "run", f"{yard.host}/openapi.json", "--tls-verify",
             yard.certificate, "-H", f"Authorization: Bearer {token}", "--exclude-path-regex", STREAMS,
             "--phases", "examples,coverage" if board.short else "examples,coverage,fuzzing",
             "--max-examples", "3" if board.short else "20", "--seed", "1", "--request-timeout", "35",
             "--no-color"],
            cwd=yard.place, capture_output=True, text=True, timeout=600, check=False)
        (Path("build/logs") / f"attack-api-{scope}.txt").write_text(done.stdout + done.stderr)
        told = re.search(r"(\d+) generated", done.stdout)
        cases += int(told.group(1)) if told else 0
        board.note(f"the API with a token to {scope}", done.stdout.strip().splitlines()[-1][:100],
                   done.returncode == 0)
    board.note("requests made of the description", str(cases), cases >= (300 if board.short else 2000))


ALL = (api_by_scope,)
