#include "sim_nvml/device_call.h"

#include <time.h>

#include <array>

namespace gpuyard::nvml {

struct DeviceHandleTag {
  char unused;
};

}  // namespace gpuyard::nvml

namespace gpuyard::sim_nvml {
namespace {

std::array<nvml::DeviceHandleTag, sim::kMaxGpus> handles;

}  // namespace

std::uint64_t wall_clock_us() {
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000 +
         static_cast<std::uint64_t>(now.tv_nsec) / 1'000;
}

nvml::DeviceHandle handle_of(std::uint32_t place) {
  return &handles[place];
}

std::optional<std::uint32_t> place_of(nvml::DeviceHandle handle, const OpenedDriver& driver) {
  // As numbers: comparing pointers into different objects says nothing.
  const auto offset =
      reinterpret_cast<std::uintptr_t>(handle) - reinterpret_cast<std::uintptr_t>(handles.data());
  if (offset >= handles.size()) return std::nullopt;
  const auto place = static_cast<std::uint32_t>(offset);
  return driver.index_of(place) ? std::optional(place) : std::nullopt;
}

nvml::ReturnCode put_text(std::string_view text, char* out, unsigned size) {
  if (text.empty()) return nvml::kNotSupported;
  if (text.size() + 1 > size) return nvml::kInsufficientSize;
  text.copy(out, text.size());
  out[text.size()] = '\0';
  return nvml::kSuccess;
}

}  // namespace gpuyard::sim_nvml
