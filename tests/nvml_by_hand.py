"""Asks an NVML library, by ctypes and read-only, what any NVML must do: prints one JSON object.

    python3 nvml_by_hand.py /path/to/libnvidia-ml.so.1

Runs in a process of its own. Never sets anything: it may be used on real hardware.
"""

import ctypes
import json
import sys
import time
from ctypes import byref, c_char, c_int, c_uint, c_ulonglong, c_void_p

ROOM = 256  # entries of any list


class Memory(ctypes.Structure):
    _fields_ = [("total", c_ulonglong), ("free", c_ulonglong), ("used", c_ulonglong)]


class MemoryV2(ctypes.Structure):
    _fields_ = [("version", c_uint), ("total", c_ulonglong), ("reserved", c_ulonglong),
                ("free", c_ulonglong), ("used", c_ulonglong)]


class Pci(ctypes.Structure):
    _fields_ = [("legacy", c_char * 16), ("domain", c_uint), ("bus", c_uint), ("device", c_uint),
                ("device_id", c_uint), ("subsystem_id", c_uint), ("bus_id", c_char * 32)]


class Rates(ctypes.Structure):
    _fields_ = [("gpu", c_uint), ("memory", c_uint)]


class Field(ctypes.Structure):
    _fields_ = [("id", c_uint), ("scope", c_uint), ("at", ctypes.c_longlong),
                ("latency", ctypes.c_longlong), ("type", c_uint), ("code", c_int),
                ("value", c_ulonglong)]


class Library:
    def __init__(self, path):
        self.nvml = ctypes.CDLL(path)
        self.nvml.nvmlErrorString.restype = ctypes.c_char_p

    def code(self, name, *arguments):
        """The function's return code, or None if the library lacks it."""
        try:
            function = getattr(self.nvml, name)
        except AttributeError:
            return None
        return function(*arguments)

    def number(self, name, *arguments, kind=c_uint):
        """[code, value]"""
        value = kind()
        return [self.code(name, *arguments, byref(value)), value.value]

    def text(self, name, *arguments, size=96):
        text = ctypes.create_string_buffer(size)
        return [self.code(name, *arguments, text, size), text.value.decode()]

    def error(self, code):
        return self.nvml.nvmlErrorString(code).decode()


def timed(call):
    begun = time.monotonic()
    return call(), time.monotonic() - begun


def ask_gpu(lib, index):
    gpu = c_void_p()
    assert lib.code("nvmlDeviceGetHandleByIndex_v2", index, byref(gpu)) == 0
    memory, second, pci, rates = Memory(), MemoryV2(version=0x02000028), Pci(), Rates()
    # 186 power now, 83 energy, 0 nothing.
    fields = (Field * 3)(*[Field(id=number) for number in (186, 83, 0)])
    count, missing = c_uint(0), c_uint(3)
    throughput, seconds = timed(lambda: lib.number("nvmlDeviceGetPcieThroughput", gpu, 1))
    return {
        "name": lib.text("nvmlDeviceGetName", gpu), "uuid": lib.text("nvmlDeviceGetUUID", gpu),
        "short_buffer": lib.text("nvmlDeviceGetUUID", gpu, size=8)[0],
        "index": lib.number("nvmlDeviceGetIndex", gpu),
        "memory": [lib.code("nvmlDeviceGetMemoryInfo", gpu, byref(memory)), memory.total,
                   memory.free, memory.used],
        "memory_v2": [lib.code("nvmlDeviceGetMemoryInfo_v2", gpu, byref(second)), second.total,
                      second.reserved, second.free, second.used],
        "memory_of_no_version": lib.code("nvmlDeviceGetMemoryInfo_v2", gpu,
                                         byref(MemoryV2(version=0x07000028))),
        "pci": [lib.code("nvmlDeviceGetPciInfo_v3", gpu, byref(pci)), pci.legacy.decode(),
                pci.bus_id.decode(), pci.device_id & 0xFFFF],
        "rates": [lib.code("nvmlDeviceGetUtilizationRates", gpu, byref(rates)), rates.gpu,
                  rates.memory],
        "temperature": lib.number("nvmlDeviceGetTemperature", gpu, 0),
        "power": lib.number("nvmlDeviceGetPowerUsage", gpu),
        "limit": lib.number("nvmlDeviceGetEnforcedPowerLimit", gpu),
        "energy": [lib.number("nvmlDeviceGetTotalEnergyConsumption", gpu, kind=c_ulonglong)
                   for _ in range(2)],
        "sm_clock": lib.number("nvmlDeviceGetClockInfo", gpu, 1),
        "sm_clock_most": lib.number("nvmlDeviceGetMaxClockInfo", gpu, 1),
        "clock_of_no_type": lib.number("nvmlDeviceGetClockInfo", gpu, 99)[0],
        "fields": [lib.code("nvmlDeviceGetFieldValues", gpu, 3, fields),
                   *[[field.code, field.type] for field in fields]],
        "processes_asked": [lib.code("nvmlDeviceGetComputeRunningProcesses_v3", gpu, byref(count),
                                     None), count.value],
        "processes_without_room": lib.code("nvmlDeviceGetComputeRunningProcesses_v3", gpu,
                                           byref(missing), None),
        "throughput": throughput, "throughput_seconds": seconds,
        "null_out": lib.code("nvmlDeviceGetPowerUsage", gpu, None),
        "by_uuid": lib.code("nvmlDeviceGetHandleByUUID", b"GPU-none", byref(c_void_p())),
    }


def ask(lib):
    answers = {"uninitialised": lib.code("nvmlDeviceGetCount_v2", byref(c_uint())),
               "shut_down_unopened": lib.code("nvmlShutdown"), "init": lib.code("nvmlInit_v2")}
    answers["twice"] = [lib.code("nvmlInit_v2"), lib.code("nvmlShutdown")]
    _, count = lib.number("nvmlDeviceGetCount_v2")
    answers |= {"count": count, "beyond": lib.code("nvmlDeviceGetHandleByIndex_v2", count,
                                                   byref(c_void_p())),
                "driver": lib.text("nvmlSystemGetDriverVersion"),
                "nvml": lib.text("nvmlSystemGetNVMLVersion"),
                "cuda": lib.number("nvmlSystemGetCudaDriverVersion_v2", kind=c_int),
                "null_handle": lib.number("nvmlDeviceGetPowerUsage", None)[0],
                "texts": {code: lib.error(code) for code in (0, 1, 2, 3, 4, 7, 9, 12, 15, 999)},
                "gpus": [ask_gpu(lib, index) for index in range(count)]}
    return answers | {"end": lib.code("nvmlShutdown")}


if __name__ == "__main__":
    json.dump(ask(Library(sys.argv[1])), sys.stdout)
