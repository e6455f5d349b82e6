#include "device/error.h"

#include <fmt/format.h>

namespace gpuyard {
namespace {

constexpr std::string_view kInitFailed = "failed to initialise NVML: ";

}  // namespace

Error init_failed(std::string_view why, Errc code) {
  return {code, fmt::format("{}{}", kInitFailed, why)};
}

std::string_view init_failure_reason(const Error& error) {
  std::string_view message = error.message;
  if (message.starts_with(kInitFailed)) message.remove_prefix(kInitFailed.size());
  return message;
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
