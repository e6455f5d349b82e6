#include "daemon/config/metrics_keys.h"

#include <array>

#include <fmt/format.h>

namespace gpuyard::config {
namespace {

// In the order of Config::Metrics::Dialect.
constexpr std::array<std::string_view, 3> kDialects = {"gpuyard", "dcgm-4.8", "both"};

}  // namespace

Value get_dialect(const Config& config) {
  return std::string(kDialects.at(static_cast<std::size_t>(config.metrics.dialect)));
}

Result<void> set_dialect(Config& config, const std::string& name) {
  for (std::size_t i = 0; i < kDialects.size(); ++i) {
    if (name != kDialects.at(i)) continue;
    config.metrics.dialect = static_cast<Config::Metrics::Dialect>(i);
    return {};
  }
  return Error{Errc::invalid,
               fmt::format("can be \"{}\", not \"{}\"", fmt::join(kDialects, "\", \""), name)};
}

Result<void> set_dialect_value(Config& config, const Value& value) {
  return set_dialect(config, std::get<std::string>(value));
}

}  // namespace gpuyard::config
