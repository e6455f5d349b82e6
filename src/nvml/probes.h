// What each probe asks NVML and how its answer becomes readings.
#pragma once

#include "device/reading.h"
#include "nvml/api.h"

namespace gpuyard::nvml {

// Runs one probe and sets every row it fills in `sample`.
void run_probe(const Api&, DeviceHandle, Probe, Sample& sample);

}  // namespace gpuyard::nvml
