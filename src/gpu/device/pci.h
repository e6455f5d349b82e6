// The spellings of a PCI address.
#pragma once

#include <string>
#include <string_view>

namespace gpuyard {

// NVML's "00000000:01:00.0" as lspci -D writes it, "0000:01:00.0", in lower case. A domain that
// does not fit four digits, and anything that is no such address, keeps its digits.
std::string short_pci_address(std::string_view);

// Whether it is domain, bus and device, in whatever width: "0000:3b:00", with or without a function
// ("0000:3b:00.0").
bool is_pci_slot(std::string_view);
// Two such, of the same slot.
bool same_pci_slot(std::string_view, std::string_view);

}  // namespace gpuyard
