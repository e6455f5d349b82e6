// A GPU's PCI address as text, and text back to an address.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include "sim/world_record.h"

namespace gpuyard::sim {

// "00000000:11:00.0", with a terminating zero.
std::array<char, 32> pci_address(const Identity&);

// The older form with a short domain: "0000:11:00.0".
std::array<char, 16> legacy_pci_address(const Identity&);
// The name of the GPU's directory in sysfs: "0000:1a:00.0".
std::array<char, 16> sysfs_pci_address(const Identity&);

struct PciAddress {
  std::uint32_t domain = 0;
  std::uint32_t bus = 0;
  std::uint32_t device = 0;
  std::uint32_t function = 0;

  friend bool operator==(const PciAddress&, const PciAddress&) = default;
};

// Reads "[domain:]bus:device[.function]", in hexadecimal; empty if the text is no PCI address.
std::optional<PciAddress> parse_pci_address(std::string_view);

}  // namespace gpuyard::sim
