"""GET /api/gpu/devices as a FastAPI service over nvidia-ml-py, with typed models."""

import sys

import pynvml
import uvicorn
from fastapi import FastAPI
from pydantic import BaseModel


class GPUDevice(BaseModel):
    index: int
    name: str | None
    total_memory_mb: int | None
    free_memory_mb: int | None
    used_memory_mb: int | None
    utilization_percent: int | None
    temperature_c: int | None
    is_available: bool
    error_message: str | None


class GPUDevicesResponse(BaseModel):
    devices: list[GPUDevice]
    count: int


app = FastAPI()
pynvml.nvmlInit()


def read(index: int) -> GPUDevice:
    handle = pynvml.nvmlDeviceGetHandleByIndex(index)
    memory = pynvml.nvmlDeviceGetMemoryInfo(handle)
    return GPUDevice(
        index=index, name=pynvml.nvmlDeviceGetName(handle), total_memory_mb=memory.total >> 20,
        free_memory_mb=memory.free >> 20, used_memory_mb=(memory.total - memory.free) >> 20,
        utilization_percent=pynvml.nvmlDeviceGetUtilizationRates(handle).gpu,
        temperature_c=pynvml.nvmlDeviceGetTemperature(handle, pynvml.NVML_TEMPERATURE_GPU),
        is_available=True, error_message=None)


@app.get("/api/gpu/devices")
async def devices() -> GPUDevicesResponse:
    found = [read(index) for index in range(pynvml.nvmlDeviceGetCount())]
    return GPUDevicesResponse(devices=found, count=len(found))


uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[1]), log_level="error")
