#include "sim/pci_address.h"

#include <charconv>
#include <cstdio>

namespace gpuyard::sim {
namespace {

// Reads `text` as one hexadecimal number, to its end.
bool parse_hex(std::string_view text, std::uint32_t& out) {
  const char* const begin = text.data();
  const char* const end = begin + text.size();
  const auto parsed = std::from_chars(begin, end, out, 16);
  return parsed.ec == std::errc{} && parsed.ptr == end;
}

}  // namespace

std::array<char, 32> pci_address(const Identity& identity) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%08X:%02X:%02X.0", identity.pci_domain,
                identity.pci_bus & 0xFFU, identity.pci_device & 0x1FU);
  return text;
}

std::array<char, 16> legacy_pci_address(const Identity& identity) {
  std::array<char, 16> text{};
  std::snprintf(text.data(), text.size(), "%04X:%02X:%02X.0", identity.pci_domain & 0xFFFFU,
                identity.pci_bus & 0xFFU, identity.pci_device & 0x1FU);
  return text;
}

std::array<char, 16> sysfs_pci_address(const Identity& identity) {
  std::array<char, 16> text = legacy_pci_address(identity);
  for (char& c : text) {
    if (c >= 'A' && c <= 'F') c = static_cast<char>(c - 'A' + 'a');
  }
  return text;
}

std::optional<PciAddress> parse_pci_address(std::string_view text) {
  PciAddress address;
  if (const std::size_t dot = text.rfind('.'); dot != std::string_view::npos) {
    if (!parse_hex(text.substr(dot + 1), address.function)) return std::nullopt;
    text = text.substr(0, dot);
  }
  const std::size_t last = text.rfind(':');
  if (last == std::string_view::npos || !parse_hex(text.substr(last + 1), address.device)) {
    return std::nullopt;
  }
  text = text.substr(0, last);
  const std::size_t first = text.find(':');
  if (first != std::string_view::npos) {
    if (!parse_hex(text.substr(0, first), address.domain)) return std::nullopt;
    text = text.substr(first + 1);
  }
  if (!parse_hex(text, address.bus)) return std::nullopt;
  return address;
}

}  // namespace gpuyard::sim
