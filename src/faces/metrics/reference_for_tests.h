// docs/metrics.md, written from the catalog.
#pragma once

#include <string>

namespace gpuyard::metrics {

// Every row with its names in JSON, Prometheus, nvidia-smi and DCGM, as Markdown.
std::string reference();

}  // namespace gpuyard::metrics
