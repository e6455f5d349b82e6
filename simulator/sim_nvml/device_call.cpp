#include "sim_nvml/device_call.h"

#include <time.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "base/mutex.h"

namespace gpuyard::nvml {

struct DeviceHandleTag {
  char unused;
};

}  // namespace gpuyard::nvml

namespace gpuyard::sim_nvml {
namespace {

std::array<nvml::DeviceHandleTag, sim::kMaxGpus> handles;

constexpr std::uint32_t kFaultPollMs = 10;  // a world does not change more often

// Counts how often each fault with limited `times` was applied in this process. Any thread.
class FaultCounts {
 public:
  // False: the fault was applied often enough.
  bool count(std::uint32_t place, std::size_t entry, const sim::CallFault& fault) {
    if (fault.times == 0) return true;
    const MutexLock lock(mutex_);
    AppliedFault& applied = applied_[place * sim::kMaxCallFaults + entry];
    if (applied.number != fault.number) applied = {.number = fault.number, .times = 0};
    if (applied.times >= fault.times) return false;
    ++applied.times;
    return true;
  }

 private:
  struct AppliedFault {
    std::uint64_t number = 0;
    std::uint32_t times = 0;
  };

  Mutex mutex_;
  std::array<AppliedFault, (sim::kMaxGpus + 1) * sim::kMaxCallFaults> applied_ GUARDED_BY(mutex_){};
};

FaultCounts& fault_counts() {
  static FaultCounts& only = *new FaultCounts;  // never destroyed, like the session
  return only;
}

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
  // Compared as numbers: comparing pointers into different objects is unspecified.
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

void sleep_for(std::uint32_t milliseconds) {
  timespec remaining{.tv_sec = milliseconds / 1000,
                     .tv_nsec = static_cast<long>(milliseconds % 1000) * 1'000'000};
  while (::nanosleep(&remaining, &remaining) != 0 && errno == EINTR) {
  }
}

std::uint64_t monotonic_us() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000 +
         static_cast<std::uint64_t>(now.tv_nsec) / 1'000;
}

nvml::ReturnCode apply_fault(const FaultSource& calls_now, std::uint32_t place, sim::Call call) {
  auto calls = calls_now();
  if (!calls) return nvml::kDriverNotLoaded;
  const auto entry = sim::fault_of(*calls, call);
  if (!entry) return nvml::kSuccess;
  const sim::CallFault fault = (*calls)[*entry];
  if (!fault_counts().count(place, *entry, fault)) return nvml::kSuccess;

  const std::uint64_t until = monotonic_us() + std::uint64_t{fault.latency_ms} * 1000;
  for (;;) {
    const std::uint64_t now = monotonic_us();
    const bool infinite = fault.latency_ms == sim::kInfiniteLatency;
    if (!infinite && now >= until) return fault.code;
    const std::uint64_t remaining_ms = infinite ? kFaultPollMs : (until - now + 999) / 1000;
    sleep_for(static_cast<std::uint32_t>(std::min<std::uint64_t>(remaining_ms, kFaultPollMs)));
    calls = calls_now();
    if (!calls) return nvml::kDriverNotLoaded;
    if ((*calls)[*entry] != fault) return nvml::kSuccess;
  }
}

}  // namespace gpuyard::sim_nvml
