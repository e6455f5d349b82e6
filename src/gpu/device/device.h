// The result of enumeration: the GPUs and the driver.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <boost/describe.hpp>

#include "gpu/device/reading.h"
#include "gpuyard/driver_info.h"

namespace gpuyard {

// The key of a GPU: its UUID, or "index:<n>" if its handle could not be opened.
using DeviceId = std::string;

// The far end of an NVLink that leads to a switch (NVSwitch), which connects all GPUs.
inline constexpr std::string_view kNvlinkSwitch = "switch";

// Index and PCI address are names and may change between boots; the id does not change.
struct DeviceInfo {
  DeviceId id;
  std::uint32_t index = 0;  // NVML's, counted from 0
  std::string uuid;         // empty only if `fault` says why
  std::string pci_address;  // "0000:01:00.0", as lspci -D writes it
  std::string name;
  std::optional<Missing> fault;  // why the driver did not open it; it has no readings then
  // The far ends of the NVLinks that were up when the GPU was opened, each once: a GPU's PCI
  // address, or kNvlinkSwitch.
  std::vector<std::string> nvlinks = {};
  // Set for a board that the driver does not list now: the index that it had. `index` is the same
  // as long as no other board has it, or else a free one. Not part of the driver's messages.
  std::optional<std::uint32_t> former_index = {};

  friend bool operator==(const DeviceInfo&, const DeviceInfo&) = default;
};
BOOST_DESCRIBE_STRUCT(DeviceInfo, (), (id, index, uuid, pci_address, name, fault, nvlinks))

BOOST_DESCRIBE_STRUCT(DriverInfo, (),
                      (driver_version, cuda_driver_version, nvml_version, library, simulated))

struct Inventory {
  DriverInfo driver;
  std::vector<DeviceInfo> devices;  // by index
  // The time of these GPUs runs faster or slower than ours, or stands still: they are simulated or
  // recorded. Their counters cannot be compared with our clock.
  bool own_time = false;

  friend bool operator==(const Inventory&, const Inventory&) = default;
};
BOOST_DESCRIBE_STRUCT(Inventory, (), (driver, devices, own_time))

// A GPU that the driver did not open: nothing is known about it but its index.
DeviceInfo closed_device(std::uint32_t index, Missing why);

// An index names a board only while the driver lists it; the UUID always does. True for a board
// that this machine had and that the driver does not list now.
bool is_missing(const DeviceInfo&);
// The board's own index; empty for a missing board whose index another one has now.
std::optional<std::uint32_t> own_index(const DeviceInfo&);
// "2", or the UUID where the board has no index of its own.
std::string label_of(const DeviceInfo&);
// The same for sentences, with the index that it had: "2", or "GPU-5f3c... (was 2)".
std::string spoken_name(const std::string& id, std::optional<std::uint32_t> index, bool has_index);

// Converts NVML's "00000000:01:00.0" to "0000:01:00.0", as lspci -D writes it, in lower case. A
// domain of more than four digits, and text that is no such address, keeps its digits.
std::string short_pci_address(std::string_view);

// True for domain, bus and device of any width, with or without a function: "0000:3b:00" or
// "0000:3b:00.0".
bool is_pci_slot(std::string_view);
// True if both are such addresses of the same slot.
bool is_same_pci_slot(std::string_view, std::string_view);

// Returns for each GPU, in order, the number of its group; nothing if it has none. In a group every
// GPU has an NVLink to every other GPU or to the same switches. A GPU that could be in several
// groups is in the first.
std::vector<std::optional<unsigned>> nvlink_cliques(const std::vector<DeviceInfo>&);

}  // namespace gpuyard
