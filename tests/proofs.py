"""Notes that a proof ran, or why it could not, for the table at the end of a CI run.

    from proofs import record
    record("nvidia-ml-py clients", "ran")
    record("real NVML", "skipped (no NVIDIA driver here)")

Appends to the file named by YARD_PROOFS, one tab-separated line per proof; without it, does nothing.
The proofs CI insists on are listed in .ci/proofs.tsv.
"""

import os


def record(name: str, outcome: str) -> None:
    if outcome != "ran" and not (outcome.startswith("skipped (") and outcome.endswith(")")):
        raise ValueError(f"an outcome is 'ran' or 'skipped (why)', not {outcome!r}")
    if "\t" in name or "\n" in name + outcome:
        raise ValueError("a proof is one line with one tab")
    path = os.environ.get("YARD_PROOFS")
    if path:
        # One short write in append mode: tests that run side by side do not mix their lines.
        with open(path, "a", encoding="utf-8") as proofs:
            proofs.write(f"{name}\t{outcome}\n")
