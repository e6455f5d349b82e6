// Which GPUs there are and what the driver is: what enumeration finds.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <boost/describe.hpp>

#include "device/reading.h"
#include "gpuyard/driver_info.h"

namespace gpuyard {

// The key of a GPU. Its UUID; or, for one whose handle could not be opened, "index:<n>".
using DeviceId = std::string;

// What an NVLink leads to that is no GPU but connects them all (NVSwitch).
inline constexpr std::string_view kNvlinkSwitch = "switch";

// Index and PCI address are names: they may move between boots, the id does not.
struct DeviceInfo {
  DeviceId id;
  std::uint32_t index = 0;  // NVML's, counted from 0
  std::string uuid;         // empty only where `fault` says why
  std::string pci_address;  // "0000:01:00.0", as lspci -D writes it
  std::string name;
  std::optional<Missing> fault;  // why the driver would not open it; then it has no readings
  // Where those of its NVLinks lead that were up when it was opened, each place once: a GPU's PCI
  // address, or kNvlinkSwitch.
  std::vector<std::string> nvlinks = {};

  friend bool operator==(const DeviceInfo&, const DeviceInfo&) = default;
};
BOOST_DESCRIBE_STRUCT(DeviceInfo, (), (id, index, uuid, pci_address, name, fault, nvlinks))

BOOST_DESCRIBE_STRUCT(DriverInfo, (),
                      (driver_version, cuda_driver_version, nvml_version, library, simulated))

struct Fleet {
  DriverInfo driver;
  std::vector<DeviceInfo> devices;  // by index

  friend bool operator==(const Fleet&, const Fleet&) = default;
};
BOOST_DESCRIBE_STRUCT(Fleet, (), (driver, devices))

// The spellings of a PCI address.

// NVML's "00000000:01:00.0" as lspci -D writes it, "0000:01:00.0", in lower case. A domain that
// does not fit four digits, and anything that is no such address, keeps its digits.
std::string short_pci_address(std::string_view);

// Whether it is domain, bus and device, in whatever width: "0000:3b:00", with or without a function
// ("0000:3b:00.0").
bool is_pci_slot(std::string_view);
// Two such, of the same slot.
bool same_pci_slot(std::string_view, std::string_view);

// How GPUs are wired to each other, from what each of them says of its own links.

// For each GPU, in order: the number of the group it is in, in which every GPU has an NVLink to
// every other one or to the same switches. Nothing: it has none. GPUs that are linked to each other
// in more than one such group are in the first.
std::vector<std::optional<unsigned>> nvlink_cliques(const std::vector<DeviceInfo>&);

}  // namespace gpuyard
