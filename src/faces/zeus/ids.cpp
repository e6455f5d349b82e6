#include "zeus/ids.h"

#include <algorithm>
#include <charconv>

#include <fmt/format.h>

namespace gpuyard::zeus {
namespace {

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlank = " \t";
  const std::size_t first = text.find_first_not_of(kBlank);
  if (first == text.npos) return {};
  return text.substr(first, text.find_last_not_of(kBlank) - first + 1);
}

}  // namespace

Result<std::vector<std::uint32_t>> parse_ids(std::string_view text, std::string_view what) {
  if (trimmed(text).empty()) {
    return Error{Errc::invalid, fmt::format("the list of {} indexes is empty", what)};
  }
  std::vector<std::uint32_t> ids;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t comma = std::min(text.find(',', begin), text.size());
    const std::string_view element = trimmed(text.substr(begin, comma - begin));
    begin = comma + 1;
    if (element.empty()) {
      return Error{Errc::invalid, fmt::format("the list of {} indexes has an empty element", what)};
    }
    std::uint32_t id = 0;
    const auto parsed = std::from_chars(element.data(), element.data() + element.size(), id);
    if (parsed.ec != std::errc{} || parsed.ptr != element.data() + element.size()) {
      return Error{Errc::invalid, fmt::format("\"{}\" is no {} index", element, what)};
    }
    ids.push_back(id);
  }
  std::ranges::sort(ids);
  const auto repeated = std::ranges::unique(ids);
  ids.erase(repeated.begin(), repeated.end());
  return ids;
}

bool is_there(const DeviceState& device) {
  return device.condition != DeviceCondition::unavailable;
}

Result<std::vector<DeviceInfo>> gpus_named(const Snapshot& snapshot,
                                           const std::optional<std::string>& ids) {
  if (!snapshot.driver.initialised) return Error{Errc::unavailable, snapshot.driver.why};
  std::vector<DeviceInfo> gpus;
  if (!ids) {
    for (const DeviceState& device : snapshot.devices) {
      if (is_there(device)) gpus.push_back(device.info);
    }
    return gpus;
  }
  const auto wanted = parse_ids(*ids, "GPU");
  if (!wanted) return wanted.error();
  for (const std::uint32_t index : *wanted) {
    const auto found = std::ranges::find(snapshot.devices, index,
                                         [](const DeviceState& one) { return one.info.index; });
    if (found == snapshot.devices.end()) {
      return Error{Errc::invalid, fmt::format("there is no GPU {}", index)};
    }
    gpus.push_back(found->info);
  }
  return gpus;
}

}  // namespace gpuyard::zeus
