"""A program of its own that has NVML loaded, as any client has: a test sends it commands, and runs each
call on a thread of its own, so that a call that hangs can be watched while others go on.
"""

import json
import os
import subprocess
import sys
import threading

from program import PATIENCE

INSIDE = r"""
import ctypes, json, sys, threading
from ctypes import byref, c_char, c_int, c_uint, c_ulonglong, c_void_p

nvml = ctypes.CDLL(sys.argv[1])
handles = {}


def number(name, *arguments, kind=c_uint):
    value = kind()
    code = getattr(nvml, name)(*arguments, byref(value))
    return [code, value.value if code == 0 else None]


def text(name, *arguments):
    value = ctypes.create_string_buffer(96)
    code = getattr(nvml, name)(*arguments, value, 96)
    return [code, value.value.decode() if code == 0 else None]


def handle(name, what):
    found = c_void_p()
    code = getattr(nvml, name)(what, byref(found))
    if code == 0:
        handles[found.value] = found
    return [code, found.value if code == 0 else None]


def set_limits(gpu, count):
    # So many in a row, each another one; the first that fails ends it.
    for i in range(count):
        code = nvml.nvmlDeviceSetPowerManagementLimit(handles[gpu], 200000 + i % 500000)
        if code != 0:
            return code
    return 0


def by_name(name, gpu, *rest):
    return number("nvmlDeviceGet" + name, handles[gpu], *rest)


DO = {
    "init": lambda: [nvml.nvmlInit_v2(), None],
    "shutdown": lambda: [nvml.nvmlShutdown(), None],
    "count": lambda: number("nvmlDeviceGetCount_v2"),
    "driver": lambda: text("nvmlSystemGetDriverVersion"),
    "nvml": lambda: text("nvmlSystemGetNVMLVersion"),
    "cuda": lambda: number("nvmlSystemGetCudaDriverVersion_v2", kind=c_int),
    "gpu": lambda index: handle("nvmlDeviceGetHandleByIndex_v2", index),
    "by_uuid": lambda uuid: handle("nvmlDeviceGetHandleByUUID", uuid.encode()),
    "uuid": lambda gpu: text("nvmlDeviceGetUUID", handles[gpu]),
    "index": lambda gpu: by_name("Index", gpu),
    "power": lambda gpu: by_name("PowerUsage", gpu),
    "energy": lambda gpu: number("nvmlDeviceGetTotalEnergyConsumption", handles[gpu],
                                 kind=c_ulonglong),
    "temperature": lambda gpu: by_name("Temperature", gpu, 0),
    "fan": lambda gpu: by_name("FanSpeed", gpu),
    "reasons": lambda gpu: number("nvmlDeviceGetCurrentClocksThrottleReasons", handles[gpu],
                                  kind=c_ulonglong),
    "sm_clock": lambda gpu: by_name("ClockInfo", gpu, 1),
    "pcie_generation": lambda gpu: by_name("CurrPcieLinkGeneration", gpu),
    "pcie_width": lambda gpu: by_name("CurrPcieLinkWidth", gpu),
    "limit": lambda gpu: by_name("PowerManagementLimit", gpu),
    "set_limit": lambda gpu, mw: [nvml.nvmlDeviceSetPowerManagementLimit(handles[gpu], mw), None],
    "set_limits": lambda gpu, count: [set_limits(gpu, count), None],
    "lock_clocks": lambda gpu, least, most: [
        nvml.nvmlDeviceSetGpuLockedClocks(handles[gpu], least, most), None],
    "lock_memory_clocks": lambda gpu, least, most: [
        nvml.nvmlDeviceSetMemoryLockedClocks(handles[gpu], least, most), None],
    "set_persistence": lambda gpu, mode: [nvml.nvmlDeviceSetPersistenceMode(handles[gpu], mode), None],
    "set_compute_mode": lambda gpu, mode: [nvml.nvmlDeviceSetComputeMode(handles[gpu], mode), None],
    "set_ecc": lambda gpu, mode: [nvml.nvmlDeviceSetEccMode(handles[gpu], mode), None],
    "has": lambda name: [0, hasattr(nvml, name)],
}


def rows(gpu):
    out = [c_uint() for _ in range(4)]
    code = nvml.nvmlDeviceGetRemappedRows(handles[gpu], *[byref(each) for each in out])
    return [code, [each.value for each in out] if code == 0 else None]


def processes(gpu, name, stride):
    # The pids in a buffer that was filled with ones, and how many bytes of it were written.
    room = 8
    buffer = (ctypes.c_ubyte * (room * 64))(*([0xEE] * (room * 64)))
    count = c_uint(room)
    code = getattr(nvml, "nvmlDeviceGet" + name)(handles[gpu], byref(count), buffer)
    raw = bytes(buffer)
    pids = [int.from_bytes(raw[i * stride:i * stride + 4], "little") for i in range(count.value)]
    return [code, [pids, len(raw.rstrip(b"\xee"))]]


DO |= {"rows": rows, "processes": processes}
lock = threading.Lock()


def answer(line):
    ticket, what, arguments = json.loads(line)
    result = DO[what](*arguments)
    with lock:
        print(json.dumps([ticket, result]), flush=True)


for line in sys.stdin:
    threading.Thread(target=answer, args=(line,), daemon=True).start()
"""


class Pending:
    def __init__(self):
        self.answered = threading.Event()
        self.result = None

    def within(self, seconds):
        """[code, value], or None if it takes longer."""
        return self.result if self.answered.wait(seconds) else None


class Client:
    """Codes are NVML's: client.code("power", gpu) == 0."""

    def __init__(self, environment, library=None):
        self.process = subprocess.Popen(
            [sys.executable, "-c", INSIDE, library or os.path.abspath(os.environ["GPUYARD_SIM_LIB"])],
            env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.pending = {}
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self):
        for line in self.process.stdout:
            ticket, result = json.loads(line)
            pending = self.pending[ticket]
            pending.result = result
            pending.answered.set()

    def begin(self, what, *arguments):
        ticket = len(self.pending)
        pending = self.pending[ticket] = Pending()
        self.process.stdin.write(json.dumps([ticket, what, arguments]) + "\n")
        self.process.stdin.flush()
        return pending

    def ask(self, what, *arguments):
        result = self.begin(what, *arguments).within(PATIENCE)
        assert result is not None, f"{what} did not return"
        return result

    def code(self, what, *arguments):
        return self.ask(what, *arguments)[0]

    def value(self, what, *arguments):
        code, value = self.ask(what, *arguments)
        assert code == 0, f"{what}: {code}"
        return value

    def end(self):
        self.process.kill()
        self.process.communicate()
