"""Every getter that the simulated library exports, through nvidia-ml-py, against what a real board
of the model answers: support/<model>.toml.

A line of [answers] is an expression and what it must give: a value, [least, most], or {is = list};
of [refused], the return code. Device functions have their GPU already, see ask_nvml.py.
"""

import functools
import inspect
import re
import tomllib

import pytest

from fleet import HERE, MODELS, exported

pynvml = pytest.importorskip("pynvml")

# Exported for clients older than nvidia-ml-py, or written in C: nvidia-ml-py asks for newer names of
# the same. Their layouts are tested in simulator/sim_nvml/abi_test.cpp.
OLDER_NAMES = {
    "nvmlDeviceGetAttributes", "nvmlDeviceGetComputeRunningProcesses", "nvmlDeviceGetCount",
    "nvmlDeviceGetGraphicsRunningProcesses", "nvmlDeviceGetHandleByIndex",
    "nvmlDeviceGetHandleByPciBusId", "nvmlDeviceGetMPSComputeRunningProcesses",
    "nvmlDeviceGetPciInfo", "nvmlDeviceGetPciInfo_v2", "nvmlEventSetWait", "nvmlInit",
    "nvmlInit_v2",
}
GETTER = re.compile(r"nvml(Device|System|Gpm|Unit)(Get|Is|Query|Validate|OnSame)")
# Made, waited for and freed: tested in test_nvidia_ml_py.py.
NO_GETTERS = {"nvmlGpmMetricsGet"}


def support(model):
    return tomllib.loads((HERE / "support" / f"{model}.toml").read_text())


@functools.cache
def symbols_by_function():
    """nvidia-ml-py's functions, each with the names it resolves in the library."""
    found = {}
    for name, function in vars(pynvml).items():
        if name.startswith("nvml") and inspect.isfunction(function):
            looked_up = re.findall(r'_nvmlGetFunctionPointer\("(\w+)"\)',
                                   inspect.getsource(function))
            found[name] = set(looked_up)
    return found


def test_only_names_of_nvidias_library_are_exported():
    known = set().union(*symbols_by_function().values())
    assert exported() - known == OLDER_NAMES


@pytest.mark.parametrize("model", MODELS)
def test_the_support_file_misses_no_exported_getter(model):
    facts = support(model)
    text = " ".join([*facts["answers"], *facts["refused"]]).replace("field(",
                                                                    "nvmlDeviceGetFieldValues(")
    mentioned = set(re.findall(r"nvml\w+", text))
    getters = {name for name, symbols in symbols_by_function().items()
               if GETTER.match(name) and name not in NO_GETTERS and symbols & exported()}
    assert getters - mentioned == set()


def test_the_hostile_calls_leave_out_no_function():
    listed = (HERE.parent.parent / "simulator/sim_nvml/every_entry_for_tests.h").read_text()
    apart = {"nvmlInit", "nvmlInit_v2", "nvmlInitWithFlags", "nvmlShutdown", "nvmlErrorString"}
    assert set(re.findall(r"with\((\w+)\)", listed)) == exported() - apart


def fits(value, expected):
    if isinstance(expected, dict):
        return value == (None if expected["is"] == "nothing" else expected["is"])
    if isinstance(expected, list):
        return isinstance(value, (int, float)) and expected[0] <= value <= expected[1]
    return value == expected


def test_every_getter_answers_as_the_model_does(world):
    facts = support(world.model)
    world.settled()
    wrong = []
    for got, (expression, expected) in zip(world.ask(*facts["answers"]), facts["answers"].items()):
        if "value" not in got or not fits(got["value"], expected):
            wrong.append(f"{expression}: {got}, not {expected}")
    for got, (expression, code) in zip(world.ask(*facts["refused"]), facts["refused"].items()):
        if got != {"code": code}:
            wrong.append(f"{expression}: {got}, not the code {code}")
    assert not wrong, "\n".join(wrong)
