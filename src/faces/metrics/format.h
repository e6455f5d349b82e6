// The two text formats that Prometheus reads, and which of them a scraper asked for.
#pragma once

#include <string_view>

namespace gpuyard::metrics {

enum class Format {
  text,         // 0.0.4, which everybody reads
  openmetrics,  // OpenMetrics 1.0
};

std::string_view content_type_of(Format);

// What an Accept field asks for. OpenMetrics only where it is named, in a version that we write,
// and weighs no less than the text format; in doubt, also of a field that makes no sense, it is
// text.
Format format_for(std::string_view accept);

}  // namespace gpuyard::metrics
