// Shared by `record`, `replay` and `serve --replay`.
#pragma once

#include <string>

#include "base/result.h"
#include "recording/replay_backend.h"

namespace gpuyard::cli {

// `from` is "0s", "90s", "10m". The replay begins now.
Result<recording::Replay> replay_from(const std::string& file, const std::string& from,
                                      double speed);

}  // namespace gpuyard::cli
