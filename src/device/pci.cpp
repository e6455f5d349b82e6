#include "device/pci.h"

#include <algorithm>

namespace gpuyard {

std::string short_pci_address(std::string_view address) {
  constexpr std::size_t kLongDomain = 8;
  constexpr std::string_view kNoUpperDomain = "0000";
  if (address.find(':') == kLongDomain && address.starts_with(kNoUpperDomain)) {
    address.remove_prefix(kNoUpperDomain.size());
  }
  std::string out(address);
  std::transform(out.begin(), out.end(), out.begin(), [](char c) {
    return c >= 'A' && c <= 'F' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  return out;
}

}  // namespace gpuyard
