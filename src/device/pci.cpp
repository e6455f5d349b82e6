#include "device/pci.h"

#include "base/ascii.h"

namespace gpuyard {

std::string short_pci_address(std::string_view address) {
  constexpr std::size_t kLongDomain = 8;
  constexpr std::string_view kNoUpperDomain = "0000";
  if (address.find(':') == kLongDomain && address.starts_with(kNoUpperDomain)) {
    address.remove_prefix(kNoUpperDomain.size());
  }
  return address.find(':') == std::string_view::npos ? std::string(address) : to_lower(address);
}

}  // namespace gpuyard
