#!/usr/bin/env python3
"""Writes docs/clients.md from what the tests with foreign clients last saw.

    ctest --test-dir build/release -R '^test_(nvidia_ml_py|support|python_tools|smi_tools|btop_names|go_nvml|all_smi|nvtop|zeus)$'
    tools/clients_matrix.py build/release/reports > docs/clients.md

Only a test that passed counts: each says of itself which client showed what on which model.
"""

import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

MODELS = ["a100", "h100", "h200", "l40s", "rtx4090", "t4"]

WHAT = {
    "nvidia-ml-py": "13.615.71, NVIDIA's Python bindings",
    "nvitop": "1.7.2, Python",
    "gpustat": "1.1.1, Python",
    "go-nvml": "0.13.0-1, NVIDIA's Go bindings, in a program of ours",
    "all-smi": "0.9.0, Rust",
    "nvtop": "3.0.1, C, Debian's",
    "zeus": "0.16.0, Python, through the daemon, in zeusd's place",
    "GPUtil": "1.4.0, Python, by nvidia-smi",
    "nvsmi": "0.4.2, Python, by nvidia-smi",
    "gpufetch": "0.3.0, Python, by nvidia-smi",
    "btop's 17 names (stand-in)": "Debian's btop 1.2.13 has no GPU support: its names, called by us",
}

HEAD = """# Run other GPU tools on the simulator

    gpuyard sim start --gpus 2 && export GPUYARD_SIM_WORLD=... LD_LIBRARY_PATH=...    # as it prints
    nvtop

Tests run these programs on two simulated GPUs of every model and compare what they show with `gpuyard sim status`.
`tools/clients_matrix.py` writes this page from the reports of those tests.

"""

TAIL = """
Not tried: nvidia_gpu_exporter, whose module the Go proxy does not serve; nvidia-smi, which needs private entry
points of NVIDIA's library. all-smi runs `lspci` before it loads NVML; the test has its own, which reports a board
of NVIDIA.
"""


def seen_in(reports):
    """{client: {model: what it showed}} of the tests that passed."""
    seen = {}
    for report in sorted(Path(reports).rglob("test_*.xml")):
        for case in ElementTree.parse(report).iter("testcase"):
            if any(case.find(bad) is not None for bad in ("failure", "error", "skipped")):
                continue
            for line in case.iter("property"):
                if line.get("name") == "matrix":
                    client, model, what = line.get("value").split("\t")
                    seen.setdefault(client, {})[model] = what
    return seen


def table(rows):
    return "".join("| " + " | ".join(row) + " |\n" for row in rows)


def document(seen):
    rows = [["client", "version", *MODELS], ["---"] * (len(MODELS) + 2)]
    rows += [[client, what, *("yes" if model in seen.get(client, {}) else "-" for model in MODELS)]
             for client, what in WHAT.items()]
    text = HEAD + table(rows) + "\n## What was compared\n\n"
    shown = [["client", "models", "readings"], ["---"] * 3]
    for client in WHAT:
        by_what = {}
        for model, what in seen.get(client, {}).items():
            by_what.setdefault(what.replace(f"{model}.toml", "<model>.toml"), []).append(model)
        shown += [[client, ", ".join(models), what] for what, models in by_what.items()]
    return text + table(shown) + TAIL


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    sys.stdout.write(document(seen_in(sys.argv[1])))
