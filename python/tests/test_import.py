"""The cost and the public names of `import gpuyard`."""

import ast
import os
import re
import statistics
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[1] / "gpuyard"
MOST_MS = 60


def run(text, *options, **environment):
    done = subprocess.run(
        [sys.executable, *options, "-c", text], capture_output=True, text=True, timeout=60,
        check=False, env={**os.environ, "PYTHONPATH": str(PACKAGE.parent), **environment})
    assert done.returncode == 0, done.stderr
    return done


@pytest.mark.parametrize("what", [
    "gpuyard", "gpuyard, gpuyard.client, gpuyard.models", "gpuyard.aio"])
def test_import_takes_less_than_60_ms(tmp_path, what):
    """Of a core, with its compiled files, which a wheel's installation makes, and without asyncio's own time,
    which a program that uses it has spent already."""
    before = "import asyncio" if "aio" in what else "pass"
    text = f"import time\n{before}\nt = time.process_time()\nimport {what}\n" \
           "print((time.process_time() - t) * 1000)"
    options = {"PYTHONPYCACHEPREFIX": str(tmp_path), "PYTHONDONTWRITEBYTECODE": ""}
    run(text, **options)
    times = [float(run(text, **options).stdout) for _ in range(5)]
    print(f"import {what}: {statistics.median(times):.1f} ms")
    assert min(times) < MOST_MS


def test_import_loads_no_optional_modules():
    loaded = run("import sys, gpuyard; print(*sys.modules)").stdout.split()
    for name in ("asyncio", "ssl", "socket", "json", "subprocess", "dataclasses", "gpuyard.models"):
        assert name not in loaded
    loaded = run("import sys, gpuyard\ntry: gpuyard.Client('unix:///x').devices()\n"
                 "except gpuyard.Unavailable: print(*sys.modules)").stdout.split()
    for name in ("asyncio", "ssl", "http.client", "torch"):
        assert name not in loaded


def test_package_depends_only_on_standard_library():
    standard = set(sys.stdlib_module_names) if hasattr(sys, "stdlib_module_names") else None
    if standard is None:
        pytest.skip("before Python 3.10 nobody can say what is standard")
    frameworks = {"keras.py": {"keras"}, "hf.py": {"transformers"},
                  "lightning.py": {"lightning", "pytorch_lightning"}}
    for file in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            names = []
            if isinstance(node, ast.Import):
                names = [one.name for one in node.names]
            elif isinstance(node, ast.ImportFrom) and not node.level:
                names = [node.module]
            for name in names:
                top = name.split(".")[0]
                # typing_extensions is named for type checkers alone.
                allowed = top in standard or top in frameworks.get(file.name, ()) or (
                    top == "typing_extensions")
                assert allowed, f"{file} imports {name}"
    run("import sys; sys.modules['typing_extensions'] = None; import gpuyard.models, gpuyard.aio")


def test_every_public_name_exists():
    import gpuyard
    for name in dir(gpuyard):
        assert getattr(gpuyard, name) is not None
    assert set(gpuyard.__all__) == {*dir(gpuyard), "Yard"}  # a former name
    with pytest.raises(AttributeError):
        gpuyard.nothing
    with pytest.raises(AttributeError):
        gpuyard.callbacks.nothing


def test_function_is_not_hidden_by_imported_module():
    run("import gpuyard, gpuyard.client, gpuyard.aio, gpuyard.ipython, gpuyard.callbacks.common\n"
        "assert callable(gpuyard.energy) and callable(gpuyard.events) and callable(gpuyard.lease)")


def test_the_version_is_that_of_the_project():
    import gpuyard
    cmake = (PACKAGE.parents[1] / "CMakeLists.txt").read_text(encoding="utf-8")
    assert re.search(rf"project\(\s*gpuyard\s+VERSION {re.escape(gpuyard.__version__)}\b", cmake)


def test_package_ships_py_typed_marker():
    assert (PACKAGE / "py.typed").exists()
