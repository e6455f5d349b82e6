"""The examples run as they stand there."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from ground import PACKAGE

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "python"
NOTEBOOK = EXAMPLES / "measure.ipynb"


def run_train(shared, *arguments, **environment):
    return subprocess.run([sys.executable, str(EXAMPLES / "train.py"), *arguments],
                          env={**shared.environment(), **environment}, capture_output=True,
                          text=True, timeout=120, check=False)


def test_training_example_learns_and_prints_energy(yard, shared):
    done = run_train(shared, "--epochs", "6", "--points", "20000")
    assert done.returncode == 0, done.stderr
    assert re.search(r"^lease [0-9a-f]{8}: NVIDIA H100", done.stdout)
    losses = [float(loss) for loss in re.findall(r"loss ([0-9.]+)", done.stdout)]
    assert len(losses) == 6 and losses[-1] < losses[0] / 2
    assert int(re.search(r"(\d+) % right", done.stdout).group(1)) > 90
    total = float(re.search(r"^([0-9.]+) J, ", done.stdout, re.MULTILINE).group(1))
    assert total > 0
    shared.wait_until_free()


def test_training_example_without_daemon_suggests_gpuyard_serve(shared, tmp_path):
    done = run_train(shared, "--epochs", "1", GPUYARD_SOCKET=str(tmp_path / "none"))
    assert done.returncode != 0 and "gpuyard serve" in done.stderr


def code_cells():
    cells = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    return ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]


def test_notebook_contains_no_saved_output():
    cells = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    assert all(cell.get("outputs", []) == [] for cell in cells)
    assert any(text.startswith("%%energy") for text in code_cells())


def test_the_notebook_runs_in_a_kernel(yard, shared, monkeypatch, tmp_path):
    nbformat = pytest.importorskip("nbformat", reason="nbclient is not installed")
    nbclient = pytest.importorskip("nbclient", reason="nbclient is not installed")
    pytest.importorskip("ipykernel", reason="ipykernel is not installed")
    monkeypatch.setenv("PYTHONPATH", str(PACKAGE))
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path / "runtime"))
    # The kernel of this very interpreter, whatever kernels the machine has.
    kernels = tmp_path / "jupyter" / "kernels" / "python3"
    kernels.mkdir(parents=True)
    (kernels / "kernel.json").write_text(json.dumps({
        "argv": [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"],
        "display_name": "Python 3", "language": "python"}))
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path / "jupyter"))
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    nbclient.NotebookClient(notebook, timeout=60, kernel_name="python3").execute()
    texts = [output.get("text", "") + output.get("data", {}).get("text/plain", "")
             for cell in notebook.cells for output in cell.get("outputs", [])]
    assert any("on 1 GPU" in text and "g CO2" in text for text in texts), texts
    assert any("NVIDIA H100" in text for text in texts)
    shared.wait_until_free()


def test_the_notebooks_cells_run_in_a_plain_ipython(yard, shared):
    shells = pytest.importorskip("IPython.core.interactiveshell", reason="IPython is not installed")
    shell = shells.InteractiveShell.instance()
    try:
        for text in code_cells():
            shell.run_cell(text).raise_error()
        assert shell.user_ns["work"].joules > 0 and os.environ.get("CUDA_VISIBLE_DEVICES") is None
    finally:
        shells.InteractiveShell.clear_instance()
    shared.wait_until_free()
