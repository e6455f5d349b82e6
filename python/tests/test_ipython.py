"""%%energy in a real IPython, and its rules in a shell that only does what it asks of one."""

import ast
import os
import signal
import time

import pytest

from gpuyard import ipython


class Shell:
    """The part of IPython's shell that the magic uses."""

    class compile:
        @staticmethod
        def cache(code):
            return "<cell>"

    def __init__(self):
        self.user_ns = {}
        self.magics = {}

    def register_magic_function(self, function, magic_kind, magic_name):
        assert magic_kind == "cell"
        self.magics[magic_name] = function

    def transform_cell(self, cell):
        return cell

    def transform_ast(self, tree):
        assert isinstance(tree, ast.Module)
        return tree


@pytest.fixture
def cell():
    shell = Shell()
    ipython.load_ipython_extension(shell)

    def run(line, text):
        return shell.magics["energy"](line, text)
    run.names = shell.user_ns
    return run


def test_cell_is_measured_and_returns_last_value(yard, cell, capsys):
    assert cell("e --grid 300", "import time\nx = 20\ntime.sleep(1.2)\nx + 1") == 21
    said = capsys.readouterr().out
    assert " J (" in said or " kJ (" in said
    assert "on 4 GPUs" in said and "g CO2" in said
    assert cell.names["x"] == 20 and cell.names["e"].final and cell.names["e"].joules > 0
    assert cell("--gpus 1", "y = 3") is None
    assert "on 1 GPU\n" in capsys.readouterr().out


def test_exception_in_cell_ends_window_and_propagates(yard, cell):
    with pytest.raises(ZeroDivisionError):
        cell("e", "1 / 0")
    assert cell.names["e"].final
    with pytest.raises(SyntaxError):
        cell("", "1 +")
    assert yard.request("GET", "/api/gpu/energy/windows")["windows"] == []


def test_interrupted_cell_ends_window_and_next_measures(yard, cell):
    with pytest.raises(KeyboardInterrupt):
        cell("e", f"import os, time\nos.kill({os.getpid()}, {signal.SIGINT.value})\ntime.sleep(20)")
    assert cell.names["e"].final and cell.names["e"].joules is not None
    assert yard.request("GET", "/api/gpu/energy/windows")["windows"] == []
    cell("f", "import time; time.sleep(1.2)")
    assert cell.names["f"].joules > 0


def test_unknown_option_is_reported_without_running_cell(yard, cell, capsys):
    assert cell("--colour", "x = 1") is None
    assert "--colour" in capsys.readouterr().out and "x" not in cell.names


def test_cell_without_daemon_runs_and_prints_reason(cell, capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("GPUYARD_SOCKET", str(tmp_path / "none"))
    assert cell("", "40 + 2") == 42
    assert "energy unknown: nothing is listening" in capsys.readouterr().out


def test_real_ipython_runs_the_magic(yard, capsys):
    shells = pytest.importorskip("IPython.core.interactiveshell", reason="IPython is not installed")
    shell = shells.InteractiveShell.instance()
    try:
        shell.run_cell("%load_ext gpuyard").raise_error()
        done = shell.run_cell("%%energy e --grid 300\nimport time\ntime.sleep(1.2)\n"
                              "!echo from a shell\n7")
        done.raise_error()
        assert done.result == 7 and shell.user_ns["e"].joules > 0
        assert "g CO2" in capsys.readouterr().out
        done = shell.run_cell("%%energy e\n1 / 0")
        assert isinstance(done.error_in_exec, ZeroDivisionError)
        began = time.monotonic()
        done = shell.run_cell("%%energy e\nimport os, signal, time\n"
                              "os.kill(os.getpid(), signal.SIGINT)\ntime.sleep(60)")
        assert isinstance(done.error_in_exec, KeyboardInterrupt) and time.monotonic() - began < 30
        assert shell.user_ns["e"].final
        assert yard.request("GET", "/api/gpu/energy/windows")["windows"] == []
    finally:
        shells.InteractiveShell.clear_instance()
