"""The former names of modules, classes and functions: they work, with a warning."""

import importlib
import sys
import warnings

import pytest

import gpuyard
from gpuyard import _deprecated
from test_import import run


@pytest.fixture
def not_imported(monkeypatch):
    """As if no module had been imported by its former name yet."""
    for former in _deprecated._MODULES:
        monkeypatch.delitem(sys.modules, former, raising=False)
        parent, _, name = former.rpartition(".")
        if parent in sys.modules:
            vars(sys.modules[parent]).pop(name, None)


def warnings_of(text):
    done = run("import warnings; warnings.simplefilter('always')\n" + text)
    return [line for line in done.stderr.splitlines() if "DeprecationWarning" in line]


def test_former_class_is_new_class_and_warns_caller():
    with pytest.warns(DeprecationWarning,
                      match="gpuyard.Yard is deprecated; use gpuyard.Client") as caught:
        assert gpuyard.Yard is gpuyard.Client
    assert caught[0].filename == __file__
    with pytest.warns(DeprecationWarning, match="use gpuyard.aio.Client") as caught:
        assert gpuyard.aio.Yard is gpuyard.aio.Client
    assert caught[0].filename == __file__
    with pytest.warns(DeprecationWarning, match="use gpuyard.callbacks.common.AlertPoller"):
        from gpuyard.callbacks.common import AlertWatch
    assert AlertWatch is importlib.import_module("gpuyard.callbacks.common").AlertPoller
    with pytest.warns(DeprecationWarning), pytest.raises(gpuyard.Invalid):
        gpuyard.Yard("ssh://-x")


@pytest.mark.parametrize("former, name", _deprecated._NAMES["gpuyard.models"].items())
def test_former_record_is_new_record_and_warns_caller(former, name):
    with pytest.warns(DeprecationWarning, match=f"use gpuyard.models.{name}$") as caught:
        assert getattr(gpuyard.models, former) is getattr(gpuyard.models, name)
    assert caught[0].filename == __file__


def test_former_function_calls_new_function_and_warns_caller():
    for error in (gpuyard.Unavailable("gone"), gpuyard.Denied("not you")):
        with pytest.warns(DeprecationWarning, match="use gpuyard.errors.is_transient") as caught:
            assert gpuyard.errors.passes(error) is gpuyard.errors.is_transient(error)
        assert caught[0].filename == __file__


@pytest.mark.parametrize("line", [
    "from gpuyard import Yard", "from gpuyard.aio import Yard", "from gpuyard.yard import Yard",
    "from gpuyard import yard; yard.Yard", "from gpuyard import *; Yard",
    "import gpuyard; gpuyard.yard.Yard", "from gpuyard.aio.yard import Yard",
    "import gpuyard.aio; gpuyard.aio.yard.Yard"])
def test_every_import_of_former_name_warns_in_program(line):
    found = warnings_of(line)
    assert found and all(one.startswith("<string>:2:") for one in found)


@pytest.mark.parametrize("former", sorted(_deprecated._MODULES))
def test_former_module_is_new_module_and_warns(not_imported, former):
    new = _deprecated._MODULES[former]
    with pytest.warns(DeprecationWarning, match=f"{former} is deprecated; use {new}") as caught:
        found = importlib.import_module(former)
    assert found is importlib.import_module(new) and len(caught) == 1
    assert caught[0].filename == __file__
    for old_name, new_name in _deprecated._NAMES.get(new, {}).items():
        assert getattr(found, old_name) is getattr(found, new_name)


def test_new_names_do_not_warn():
    names = sorted({*_deprecated._MODULES.values(), "gpuyard.callbacks.common"})
    assert warnings_of(f"import {', '.join(names)}\ngpuyard.Client, gpuyard.aio.Client") == []


def test_unknown_name_and_module_are_errors():
    with pytest.raises(AttributeError, match="'gpuyard.aio' has no attribute 'Nothing'"):
        gpuyard.aio.Nothing
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("gpuyard.nothing")


def test_former_name_of_ipython_extension_loads(not_imported):
    class Shell:
        def register_magic_function(self, function, magic_kind, magic_name):
            assert magic_name == "energy"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        module = importlib.import_module("gpuyard.magic")  # as %load_ext does
    module.load_ipython_extension(Shell())
    shells = pytest.importorskip("IPython.core.interactiveshell", reason="IPython is not installed")
    shell = shells.InteractiveShell.instance()
    try:
        shell.run_cell("%load_ext gpuyard.magic").raise_error()
        assert "energy" in shell.magics_manager.magics["cell"]
        shell.run_cell("%reload_ext gpuyard.magic").raise_error()
    finally:
        shells.InteractiveShell.clear_instance()
