// The lines of a captured log that have these words.
#pragma once

#include <algorithm>
#include <string_view>

#include "base/captured_log_for_tests.h"

namespace gpuyard::cli::kube {

inline auto count_lines(std::string_view words) {
  return std::ranges::count_if(
      CapturedLog::lines(), [&](const std::string& line) { return line.find(words) != line.npos; });
}

}  // namespace gpuyard::cli::kube
