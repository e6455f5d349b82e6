// The rows of the catalog as families of series, under our own names or DCGM's.
#pragma once

#include <span>
#include <string>

#include "device/snapshot.h"
#include "metrics/text.h"

namespace gpuyard::metrics {

// Readings that a scraper may take for those of now: none of a GPU that does not answer.
std::span<const Reading> current_readings(const DeviceState&, Metric);

// "gpu_temperature_celsius{device="0"}", in base units.
void put_readings(Text&, const Snapshot&);

// "DCGM_FI_DEV_GPU_TEMP{gpu="0",UUID="GPU-...",...}", with the names, labels and units of
// dcgm-exporter 4.8. `text` has no stem.
void put_dcgm_readings(Text& text, const Snapshot&, const std::string& hostname);

}  // namespace gpuyard::metrics
