#include "daemon/config/lease_keys.h"

#include <fmt/format.h>

namespace gpuyard::config {

using Fair = Config::Lease::Fair;

Value get_fair(const Config& config) {
  return std::string(config.lease.fair == Fair::backfill ? "backfill" : "strict");
}

Result<void> set_fair(Config& config, const Value& value) {
  const auto& text = std::get<std::string>(value);
  if (text != "backfill" && text != "strict") {
    return Error{Errc::invalid, fmt::format("can be \"backfill\" or \"strict\", not \"{}\"", text)};
  }
  config.lease.fair = text == "backfill" ? Fair::backfill : Fair::strict;
  return {};
}

Result<void> set_most_gpus_per_user(Config& config, const Value& value) {
  const auto most = std::get<std::int64_t>(value);
  if (most < 0 || most > Config::Lease::kMostGpus) {
    return Error{Errc::invalid,
                 fmt::format("can be 0 (no limit) to {}, not {}", Config::Lease::kMostGpus, most)};
  }
  config.lease.most_gpus_per_user = most;
  return {};
}

}  // namespace gpuyard::config
