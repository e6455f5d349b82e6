#include "gpu/device/device.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "base/text.h"

namespace gpuyard {
namespace {

using Slot = std::array<std::uint32_t, 3>;  // domain, bus, device

std::optional<Slot> slot_of(std::string_view address) {
  Slot slot{};
  const char* at = address.data();
  const char* const end = at + address.size();
  for (std::size_t i = 0; i < slot.size(); ++i) {
    if (i > 0) {
      if (at == end || *at != ':') return std::nullopt;
      ++at;
    }
    const auto parsed = std::from_chars(at, end, slot[i], 16);
    if (parsed.ec != std::errc{}) return std::nullopt;
    at = parsed.ptr;
  }
  return at == end || *at == '.' ? std::optional(slot) : std::nullopt;
}

bool is_linked_to(const DeviceInfo& gpu, const std::string& place) {
  return std::ranges::find(gpu.nvlinks, place) != gpu.nvlinks.end();
}

class NvlinkTopology {
 public:
  explicit NvlinkTopology(const std::vector<DeviceInfo>& gpus) : gpus_(gpus) {
    for (const DeviceInfo& gpu : gpus) addresses_.insert(gpu.pci_address);
  }

  bool is_linked(std::size_t one, std::size_t other) const {
    const DeviceInfo& a = gpus_[one];
    const DeviceInfo& b = gpus_[other];
    if (is_linked_to(a, b.pci_address) || is_linked_to(b, a.pci_address)) return true;
    // A place that is no GPU and has links from two GPUs is a switch; a third GPU does not forward.
    return std::ranges::any_of(a.nvlinks, [&](const std::string& place) {
      return !addresses_.contains(place) && is_linked_to(b, place);
    });
  }

 private:
  const std::vector<DeviceInfo>& gpus_;
  std::set<std::string> addresses_;
};

}  // namespace

DeviceInfo closed_device(std::uint32_t index, Missing why) {
  DeviceInfo info;
  info.id = fmt::format("index:{}", index);
  info.index = index;
  info.fault = std::move(why);
  return info;
}

bool is_missing(const DeviceInfo& info) {
  return info.former_index.has_value();
}

std::optional<std::uint32_t> own_index(const DeviceInfo& info) {
  const bool is_another = info.former_index && *info.former_index != info.index;
  return is_another ? std::nullopt : std::optional(info.index);
}

std::string label_of(const DeviceInfo& info) {
  const auto index = own_index(info);
  return index ? std::to_string(*index) : info.id;
}

std::string spoken_name(const std::string& id, std::optional<std::uint32_t> index, bool has_index) {
  if (!index) return id;
  return has_index ? std::to_string(*index) : id + " (was " + std::to_string(*index) + ")";
}

bool is_pci_slot(std::string_view address) {
  return slot_of(address).has_value();
}

bool is_same_pci_slot(std::string_view one, std::string_view other) {
  const auto slot = slot_of(one);
  return slot && slot == slot_of(other);
}

std::string short_pci_address(std::string_view address) {
  constexpr std::size_t kLongDomain = 8;
  constexpr std::string_view kNoUpperDomain = "0000";
  if (address.find(':') == kLongDomain && address.starts_with(kNoUpperDomain)) {
    address.remove_prefix(kNoUpperDomain.size());
  }
  return address.find(':') == std::string_view::npos ? std::string(address) : to_lower(address);
}

std::vector<std::optional<unsigned>> nvlink_cliques(const std::vector<DeviceInfo>& gpus) {
  const NvlinkTopology wiring(gpus);
  std::vector<std::vector<std::size_t>> cliques;
  std::vector<std::optional<unsigned>> numbers(gpus.size());
  for (std::size_t gpu = 0; gpu < gpus.size(); ++gpu) {
    if (gpus[gpu].nvlinks.empty()) continue;
    auto clique = std::ranges::find_if(cliques, [&](const std::vector<std::size_t>& members) {
      return std::ranges::all_of(members,
                                 [&](std::size_t member) { return wiring.is_linked(gpu, member); });
    });
    if (clique == cliques.end()) clique = cliques.emplace(clique);
    clique->push_back(gpu);
    numbers[gpu] = static_cast<unsigned>(clique - cliques.begin());
  }
  return numbers;
}

}  // namespace gpuyard
