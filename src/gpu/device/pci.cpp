#include "device/pci.h"

#include <array>
#include <charconv>
#include <cstdint>
#include <optional>

#include "base/ascii.h"

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

}  // namespace

bool is_pci_slot(std::string_view address) {
  return slot_of(address).has_value();
}

bool same_pci_slot(std::string_view one, std::string_view other) {
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

}  // namespace gpuyard
