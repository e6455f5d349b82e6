#include "device/error.h"

#include <fmt/format.h>

namespace gpuyard {

Error init_failed(std::string_view why, Errc code) {
  return {code, fmt::format("failed to initialise NVML: {}", why)};
}

Error query_failed(std::string_view why, Errc code) {
  return {code, fmt::format("NVML query failed: {}", why)};
}

Error index_out_of_range(std::uint32_t index) {
  return {Errc::not_found, fmt::format("GPU index {} is out of range", index)};
}

Error feature_not_supported(std::string_view what) {
  return {Errc::unsupported, fmt::format("feature not supported on this platform: {}", what)};
}

}  // namespace gpuyard
