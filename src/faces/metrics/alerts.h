// What fires, and what became of telling it, as families of series.
#pragma once

#include "metrics/figures.h"
#include "metrics/text.h"

namespace gpuyard::metrics {

void put_alerts(Text&, const AlertFigures&);

}  // namespace gpuyard::metrics
