#include "gpu/telemetry/runtime_power.h"

#include <cstdint>
#include <utility>

#include <fmt/format.h>

#include "base/files.h"
#include "base/text.h"
#include "gpu/device/device.h"

namespace gpuyard::telemetry {
namespace {

constexpr std::size_t kMaxBytes = 4096;  // of a file of sysfs

}  // namespace

PciRuntimePower::PciRuntimePower(std::string root) : root_(std::move(root)) {}

std::optional<std::string> PciRuntimePower::read(const std::string& pci_address,
                                                 const char* file) const {
  if (!is_pci_slot(pci_address)) return std::nullopt;
  const auto text = read_file(fmt::format("{}/{}/power/{}", root_, pci_address, file), kMaxBytes);
  return text ? std::optional(std::string(trim(*text))) : std::nullopt;
}

std::optional<Duration> PciRuntimePower::suspend_delay(const std::string& pci_address) {
  if (read(pci_address, "control") != "auto") return std::nullopt;
  const auto status = read(pci_address, "runtime_status");
  if (!status || *status == "unsupported" || *status == "error") return std::nullopt;
  // Reading the file fails where the driver does not use the kernel's timer.
  const auto text = read(pci_address, "autosuspend_delay_ms");
  const auto delay = text ? parse_number<std::int64_t>(*text) : std::nullopt;
  if (!delay) return kDefaultDelay;
  if (*delay < 0) return std::nullopt;  // prevents the device from being suspended
  return std::chrono::milliseconds(*delay);
}

bool PciRuntimePower::is_suspended(const std::string& pci_address) {
  const auto status = read(pci_address, "runtime_status");
  return status == "suspended" || status == "suspending";
}

}  // namespace gpuyard::telemetry
