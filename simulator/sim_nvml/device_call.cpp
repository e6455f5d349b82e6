#include "sim_nvml/device_call.h"

#include <time.h>
#include <unistd.h>

#include <array>
#include <cerrno>

namespace gpuyard::nvml {

struct DeviceHandleTag {
  char unused;
};

}  // namespace gpuyard::nvml

namespace gpuyard::sim_nvml {
namespace {

std::array<nvml::DeviceHandleTag, sim::kMaxGpus> handles;

void wait(std::uint32_t milliseconds) {
  if (milliseconds == sim::kNeverReturns) {
    for (;;) ::pause();
  }
  sleep_for(milliseconds);
}

}  // namespace

void sleep_for(std::uint32_t milliseconds) {
  timespec left{.tv_sec = milliseconds / 1000,
                .tv_nsec = static_cast<long>(milliseconds % 1000) * 1'000'000};
  while (::nanosleep(&left, &left) != 0 && errno == EINTR) {
  }
}

std::uint64_t wall_clock_us() {
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000 +
         static_cast<std::uint64_t>(now.tv_nsec) / 1'000;
}

nvml::DeviceHandle handle_of(std::uint32_t index) {
  return &handles[index];
}

std::optional<std::uint32_t> index_of(nvml::DeviceHandle handle, std::uint32_t gpu_count) {
  // As numbers: comparing pointers into different objects says nothing.
  const auto offset =
      reinterpret_cast<std::uintptr_t>(handle) - reinterpret_cast<std::uintptr_t>(handles.data());
  if (offset >= gpu_count) return std::nullopt;
  return static_cast<std::uint32_t>(offset);
}

nvml::ReturnCode obey(const sim::Fault& fault, sim::Call call) {
  if (fault.lost != 0) return nvml::kGpuIsLost;
  for (const sim::Call wanted : {call, sim::Call::any}) {
    for (const sim::CallFault& entry : fault.calls) {
      if (entry.call != wanted) continue;
      wait(entry.latency_ms);
      return entry.code;
    }
  }
  return nvml::kSuccess;
}

nvml::ReturnCode put_text(std::string_view text, char* out, unsigned size) {
  if (text.empty()) return nvml::kNotSupported;
  if (text.size() + 1 > size) return nvml::kInsufficientSize;
  text.copy(out, text.size());
  out[text.size()] = '\0';
  return nvml::kSuccess;
}

}  // namespace gpuyard::sim_nvml
