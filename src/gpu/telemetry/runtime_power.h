// The kernel's runtime power management of PCI devices: whether it may suspend an idle GPU, as on
// most laptops, and whether the GPU is suspended now. Reading this wakes no GPU.
#pragma once

#include <optional>
#include <string>

#include "base/clock.h"

namespace gpuyard::telemetry {

// Thread: io.
class RuntimePowerSource {
 public:
  virtual ~RuntimePowerSource() = default;
  // Returns how long the GPU has to be unused before the kernel suspends it. Nothing: it never
  // does, or that is unknown.
  virtual std::optional<Duration> suspend_delay(const std::string& pci_address) = 0;
  virtual bool is_suspended(const std::string& pci_address) = 0;
};

// Reads the files power/control, power/runtime_status and power/autosuspend_delay_ms of a device,
// as Documentation/ABI/testing/sysfs-devices-power of the kernel describes them. A file of sysfs is
// read from memory, so no read waits for the device.
class PciRuntimePower final : public RuntimePowerSource {
 public:
  // `root`: a directory with an entry per PCI address; /sys/bus/pci/devices is the kernel's.
  explicit PciRuntimePower(std::string root);

  std::optional<Duration> suspend_delay(const std::string& pci_address) override;
  bool is_suspended(const std::string& pci_address) override;

  // The delay of a driver that decides by itself when its GPU is unused.
  static constexpr Duration kDefaultDelay = std::chrono::seconds(5);

 private:
  std::optional<std::string> read(const std::string& pci_address, const char* file) const;

  std::string root_;
};

}  // namespace gpuyard::telemetry
