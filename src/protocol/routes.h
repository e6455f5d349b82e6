// The route table's typed half: every route the daemon serves, once. src/api binds a handler to
// each, src/client calls them, and both fail to compile when a record changes.
#pragma once

#include "protocol/resources.h"
#include "protocol/route.h"

namespace gpuyard::protocol {

inline constexpr Route<NoParams, GPUDevicesResponse> kGpuDevices{
    {"GET", "/api/gpu/devices", "GPU", Scope::read,
     "All GPUs, read from the driver at this moment. A GPU that fails is listed with its error."}};

inline constexpr Route<DeviceName, Device> kDevice{
    {"GET", "/api/gpu/devices/{id}", "GPU", Scope::read,
     "The full picture of one GPU, from the newest snapshot."}};

inline constexpr Route<NoParams, DriverInfo> kDriver{
    {"GET", "/api/gpu/driver", "GPU", Scope::read,
     "Versions of the driver, of the CUDA it supports, and of NVML; 503 where NVML is not "
     "initialised.",
     ErrorShape::detail}};

inline constexpr Route<NoParams, Snapshot> kSnapshot{
    {"GET", "/api/gpu/snapshot", "GPU", Scope::read,
     "The full picture of all GPUs: every reading, or why it is missing, from the newest "
     "snapshot."}};

inline constexpr Route<NoParams, Text> kMetrics{{"GET", "/metrics", "Observability", Scope::read,
                                                 "All metrics, in Prometheus's text format.",
                                                 ErrorShape::standard, "text/plain"}};

inline constexpr Route<NoParams, Health> kHealth{
    {"GET", "/health", "Observability", Scope::open, "Liveness: the daemon's loop turns."}};

inline constexpr Route<NoParams, Readiness> kReady{
    {"GET", "/ready", "Observability", Scope::open,
     "Readiness, with the reason: 503 until the driver is initialised."}};

inline constexpr Route<NoParams, Text> kOpenApi{
    {"GET", "/openapi.json", "Observability", Scope::open, "This description, as OpenAPI 3.1."}};

}  // namespace gpuyard::protocol
