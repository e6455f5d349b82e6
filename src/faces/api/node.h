// The figures of leases and alerts for /metrics.
#pragma once

#include "api/context.h"
#include "metrics/figures.h"

namespace gpuyard::api {

metrics::LeaseFigures lease_figures(const lease::Leases&);
// The context has alerts.
metrics::AlertFigures alert_figures(const Context&);

}  // namespace gpuyard::api
