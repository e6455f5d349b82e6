"""Every operation of /openapi.json, called with what the description allows and with what it does not: the
answers are those it names (schemathesis, over TCP, where nothing may be changed).
"""

import pathlib
import subprocess
import sys

SCHEMATHESIS = pathlib.Path(sys.executable).with_name("schemathesis")
# The description says in words which of these parameters go together: an element where the metric has some, a time
# before another.
CONFIG = """
[[operations]]
include-path-regex = '^/api/gpu/(devices/.id./history|history|processes|bottlenecks|snapshot)$'
checks.positive_data_acceptance.enabled = false
"""
# An answer without an end is no answer that a client of one request may wait for.
STREAMS = "^/api/gpu/(events|stream/.*)$"


def test_daemon_conforms_to_openapi_description(daemon, tmp_path):
    yard = daemon("--simulate", "2")
    config = tmp_path / "schemathesis.toml"
    config.write_text(CONFIG)
    done = subprocess.run(
        [SCHEMATHESIS, "--config-file", config, "run", f"http://127.0.0.1:{yard.port}/openapi.json",
         "--exclude-path-regex", STREAMS, "--phases", "examples,coverage,fuzzing", "--max-examples", "20", "--seed", "1", "--request-timeout",
         "10", "--no-color"],
        cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]
