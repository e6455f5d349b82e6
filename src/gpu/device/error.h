// The four errors every monitor speaks, with texts that tools may match on.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace gpuyard {

// The driver is missing, may not be used, ...: "failed to initialise NVML: {why}"
Error init_failed(std::string_view why, Errc code = Errc::unavailable);
// The "{why}" of an init_failed() error; the whole message of any other.
std::string_view init_failure_reason(const Error&);
// "NVML query failed: {why}"
Error query_failed(std::string_view why, Errc code = Errc::internal);
// "GPU index {index} is out of range"
Error index_out_of_range(std::uint32_t index);
// "feature not supported on this platform: {what}"
Error feature_not_supported(std::string_view what);

// What a person can do about a driver that does not start.

// For the reason of an init_failed() error ("NVML Shared Library Not Found"): one to three lines
// without a newline at the end. Empty for one that nobody has advice on. `naming` is how another
// library is named where this is read: "--nvml PATH".
std::string advice_on_driver(std::string_view reason, std::string_view naming);

}  // namespace gpuyard
