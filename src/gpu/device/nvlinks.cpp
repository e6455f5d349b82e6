#include "gpu/device/nvlinks.h"

#include <algorithm>

#include <fmt/format.h>

namespace gpuyard {

std::map<std::uint16_t, bool> nvlinks_of(const DeviceState& device) {
  const std::int64_t* const mig = device.sample.number(Metric::mig_mode);
  const bool split = mig != nullptr && *mig != 0;
  if (split || device.condition != DeviceCondition::responsive) return {};
  std::map<std::uint16_t, bool> links;
  for (const Reading& link : device.sample.all(Metric::nvlink_active)) {
    if (link.number() == nullptr) return {};
    links[link.index] = *link.number() != 0;
  }
  return links;
}

std::string format_links(std::span<const std::uint16_t> links) {
  std::string text;
  for (std::size_t first = 0; first < links.size();) {
    std::size_t last = first;
    while (last + 1 < links.size() && links[last + 1] == links[last] + 1) ++last;
    text += fmt::format("{}{}", text.empty() ? "" : ", ", links[first]);
    if (last > first) text += fmt::format("-{}", links[last]);
    first = last + 1;
  }
  return text;
}

std::optional<LostNvlinks> NvlinkTracker::update(const DeviceState& device, TimePoint now) {
  const auto links = nvlinks_of(device);
  if (links.empty()) return std::nullopt;
  LostNvlinks found;
  found.all = links.size();
  for (const auto& [number, is_up] : links) {
    if (is_up) {
      ++found.up;
      down_since_[number].reset();
      continue;
    }
    const auto before = down_since_.find(number);
    if (before == down_since_.end()) continue;
    if (!before->second) before->second = now;
    found.down.push_back(number);
    found.since = std::min(found.since.value_or(now), *before->second);
  }
  return found;
}

}  // namespace gpuyard
