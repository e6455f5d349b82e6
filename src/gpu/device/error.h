// The four errors that every monitor reports, with texts that tools may match.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace gpuyard {

// The driver is missing, may not be used, ...: "failed to initialise NVML: {why}"
Error init_error(std::string_view why, Errc code = Errc::unavailable);
// Returns the "{why}" of an init_error() error; the whole message of any other error.
std::string_view init_failure_reason(const Error&);
// "NVML query failed: {why}"
Error query_error(std::string_view why, Errc code = Errc::internal);
// "GPU index {index} is out of range"
Error index_range_error(std::uint32_t index);
// "feature not supported on this platform: {what}"
Error unsupported_feature_error(std::string_view what);

// True if the driver's library is missing or cannot be loaded.
bool is_library_error(std::string_view reason);

// Returns advice on the reason of an init_error() error ("NVML Shared Library Not Found"): one to
// three lines without a newline at the end, or "" if there is no advice. `naming` is how the user
// names another library there: "--nvml PATH".
std::string driver_advice(std::string_view reason, std::string_view naming);

}  // namespace gpuyard
