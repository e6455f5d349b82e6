#include "core/andon/plugin_report.h"

#include <utility>

namespace gpuyard::andon {

void PluginReport::update(std::set<std::string, std::less<>> uuids, TimePoint now) {
  hidden_ = std::move(uuids);
  updated_at_ = now;
}

std::optional<bool> PluginReport::hides(std::string_view uuid, TimePoint now) const {
  if (!updated_at_ || now - *updated_at_ >= kMaxAge) return std::nullopt;
  return hidden_.contains(uuid);
}

}  // namespace gpuyard::andon
