#include "gpu/device/nvlinks.h"

#include <algorithm>
#include <bit>

#include <fmt/format.h>

#include "gpu/device/catalog.h"

namespace gpuyard {

static_assert(kMaxLinks <= 64, "NvlinkStates has a bit for each");

NvlinkStates nvlinks_of(const DeviceState& device) {
  const std::int64_t* const mig = device.sample.number(Metric::mig_mode);
  const bool split = mig != nullptr && *mig != 0;
  if (split || device.condition != DeviceCondition::responsive) return {};
  NvlinkStates links;
  for (const Reading& link : device.sample.all(Metric::nvlink_active)) {
    if (link.number() == nullptr || link.index >= kMaxLinks) return {};
    const std::uint64_t bit = std::uint64_t{1} << link.index;
    links.present |= bit;
    if (*link.number() != 0) links.up |= bit;
  }
  return links;
}

std::vector<std::uint16_t> link_numbers(std::uint64_t links) {
  std::vector<std::uint16_t> numbers;
  for (; links != 0; links &= links - 1)
    numbers.push_back(static_cast<std::uint16_t>(std::countr_zero(links)));
  return numbers;
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
  const NvlinkStates links = nvlinks_of(device);
  if (links.present == 0) return std::nullopt;
  were_up_ |= links.up;
  LostNvlinks found;
  found.all = static_cast<std::size_t>(std::popcount(links.present));
  found.up = static_cast<std::size_t>(std::popcount(links.up));
  found.down = link_numbers(links.present & ~links.up & were_up_);
  std::erase_if(down_since_, [&](const auto& one) { return (links.up >> one.first & 1U) != 0; });
  for (const std::uint16_t number : found.down) {
    const TimePoint since = down_since_.try_emplace(number, now).first->second;
    found.since = std::min(found.since.value_or(now), since);
  }
  return found;
}

}  // namespace gpuyard
