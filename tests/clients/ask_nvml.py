"""Evaluates expressions with nvidia-ml-py, in a process of its own: the loader reads
LD_LIBRARY_PATH when a process starts, and a simulated library is found through that alone.

stdin: {"gpu": index, "ask": ["nvmlDeviceGetName()", ...]}; stdout: a list of {"value": ...},
{"code": NVML return code} or {"missing": function}. In an expression every device function has the
GPU as its first argument already.
"""

import inspect
import json
import os
import re
import sys

import pynvml as nvml

WITHOUT_DEVICE = re.compile(r"nvml(System|Unit|Event|ErrorString|DeviceGetCount|DeviceGetHandleBy)")


def plain(value):
    """Converts a value to JSON; a device becomes its index."""
    if isinstance(value, nvml.struct_c_nvmlDevice_t) or hasattr(value, "contents"):
        return nvml.nvmlDeviceGetIndex(value)
    if hasattr(value, "value"):  # a bare C number, which some functions return
        return value.value
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, (list, tuple)):
        return [plain(one) for one in value]
    return value if isinstance(value, (bool, int, float, str, type(None))) else repr(value)


def field_reader(gpu):
    kinds = {nvml.NVML_VALUE_TYPE_DOUBLE: "dVal", nvml.NVML_VALUE_TYPE_UNSIGNED_INT: "uiVal",
             nvml.NVML_VALUE_TYPE_UNSIGNED_LONG: "ulVal",
             nvml.NVML_VALUE_TYPE_UNSIGNED_LONG_LONG: "ullVal",
             nvml.NVML_VALUE_TYPE_SIGNED_LONG_LONG: "sllVal"}

    def field(number, scope=0):
        value = nvml.nvmlDeviceGetFieldValues(gpu, [(number, scope)])[0]
        if value.nvmlReturn != nvml.NVML_SUCCESS:
            raise nvml.NVMLError(value.nvmlReturn)
        return getattr(value.value, kinds[value.valueType])
    return field


def names_for(gpu, count):
    names = {name: value for name, value in vars(nvml).items() if name.startswith(("nvml", "NVML"))}
    for name, value in list(names.items()):
        if inspect.isfunction(value) and not WITHOUT_DEVICE.match(name):
            names[name] = (lambda call: lambda *rest: call(gpu, *rest))(value)
    names["field"] = field_reader(gpu)
    names["gpu"] = gpu
    names["own_pid"] = os.getpid()
    names["uuid"] = nvml.nvmlDeviceGetUUID(gpu)
    names["pci"] = nvml.nvmlDeviceGetPciInfo(gpu).busId
    for name, call in {"other": lambda: nvml.nvmlDeviceGetHandleByIndex(count - 1),
                       "serial": lambda: nvml.nvmlDeviceGetSerial(gpu)}.items():
        try:
            names[name] = call()
        except nvml.NVMLError:
            pass  # and so will be the expression that needs it
    return names


def answer(expression, names):
    try:
        value = eval(expression, {"len": len}, names)  # the expressions are those of our own tests
    except nvml.NVMLError_FunctionNotFound:
        return {"missing": expression}
    except nvml.NVMLError as error:
        return {"code": error.value}
    return {"value": plain(value)}


def main():
    asked = json.load(sys.stdin)
    nvml.nvmlInit()
    count = nvml.nvmlDeviceGetCount()
    names = names_for(nvml.nvmlDeviceGetHandleByIndex(asked["gpu"]), count)
    json.dump([answer(expression, names) for expression in asked["ask"]], sys.stdout)
    nvml.nvmlShutdown()


main()
