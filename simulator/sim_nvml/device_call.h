// The common part of every device call: checks in NVML's order, reads one GPU's state, applies its
// fault.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>
#include <type_traits>

#include "gpu/nvml/abi.h"
#include "sim/world_record.h"
#include "sim_nvml/session.h"

// A function of NVML's interface. The library exports no other names.
#define SIM_NVML_ENTRY extern "C" [[gnu::visibility("default")]] gpuyard::nvml::ReturnCode

namespace gpuyard::sim_nvml {

inline constexpr unsigned kScopeGpu = 0;  // of a power reading, as opposed to a module of several

struct Device {
  const OpenedDriver& driver;
  std::uint32_t place;
  const sim::Identity& identity;
  const sim::Model& model;
  sim::GpuRecord record;
};

// A handle is an address inside a table of this library, and is never dereferenced. It belongs to
// its place: another GPU never gets it.
nvml::DeviceHandle handle_of(std::uint32_t place);

// Empty: not a handle of this driver's GPUs.
std::optional<std::uint32_t> place_of(nvml::DeviceHandle, const OpenedDriver&);

// Microseconds since 1970, as in NVML's time stamps.
std::uint64_t wall_clock_us();

// Copies `text` with its terminating zero, or returns insufficient size. Empty `text`: not
// supported by this model.
nvml::ReturnCode put_text(std::string_view text, char* out, unsigned size);

// `handler(const Device&)` fills the caller's arguments, and runs only if all checks before
// succeed.
template <class Handler>
nvml::ReturnCode on_gpu(const OpenedDriver& driver, std::uint32_t place, sim::Call call,
                        Handler&& handler) {
  sim::RecordPair now;
  if (const auto code = driver.read(place, call, now); code != nvml::kSuccess) return code;
  const sim::WorldReader& world = driver.world();
  return handler(Device{driver, place, world.identity(place), world.model(place), now.gpu});
}

// The same for a call about no GPU: `handler(const OpenedDriver&)`.
template <class Handler>
nvml::ReturnCode on_driver(bool arguments_given, Handler&& handler) {
  const auto driver = session().driver();
  if (driver == nullptr) return nvml::kUninitialized;
  if (!arguments_given) return nvml::kInvalidArgument;
  if (const auto code = driver->read(); code != nvml::kSuccess) return code;
  return handler(*driver);
}

template <class Handler>
nvml::ReturnCode on_device(sim::Call call, nvml::DeviceHandle handle, bool arguments_given,
                           Handler&& handler) {
  const auto driver = session().driver();
  if (driver == nullptr) return nvml::kUninitialized;
  const auto place = place_of(handle, *driver);
  if (!arguments_given || !place) return nvml::kInvalidArgument;
  return on_gpu(*driver, *place, call, handler);
}

// Returns a value that only some models have; empty, which means "not supported", on the others.
template <class T>
std::optional<T> optional_if(bool there, T value) {
  return there ? std::optional<T>(value) : std::nullopt;
}

template <class T, class Value>
nvml::ReturnCode put_one(const Value& value, T* out) {
  *out = static_cast<T>(value);
  return nvml::kSuccess;
}

template <class T, class Value>
nvml::ReturnCode put_one(const std::optional<Value>& value, T* out) {
  return value ? put_one(*value, out) : nvml::kNotSupported;
}

// Applies `read` to the device: a member of its record or its model, or a function.
template <class Read>
auto read_of(const Device& device, const Read& read) {
  if constexpr (requires { device.record.*read; }) {
    return device.record.*read;
  } else if constexpr (requires { device.model.*read; }) {
    return device.model.*read;
  } else {
    return read(device);
  }
}

// The commonest call: one number, or an empty optional where the model has none.
template <class T, class Read>
nvml::ReturnCode read_one(sim::Call call, nvml::DeviceHandle handle, T* out, Read&& read) {
  return on_device(call, handle, out != nullptr,
                   [&](const Device& device) { return put_one(read_of(device, read), out); });
}

// Reads two numbers that NVML always returns together.
template <class First, class Second, class Read>
nvml::ReturnCode read_two(sim::Call call, nvml::DeviceHandle handle, First* first, Second* second,
                          Read&& read) {
  return on_device(call, handle, first != nullptr && second != nullptr, [&](const Device& device) {
    const auto pair = read(device);
    if (!pair) return nvml::kNotSupported;
    *first = static_cast<First>(pair->first);
    *second = static_cast<Second>(pair->second);
    return nvml::kSuccess;
  });
}

// Writes a list. `count` is the room in `out` before, and the number of entries afterwards. Nothing
// is written unless all fit, so (0, null) only asks for the number.
template <class Items, class T, class Convert>
nvml::ReturnCode put_list(const Items& items, unsigned* count, T* out, Convert&& convert) {
  const unsigned capacity = *count;
  *count = static_cast<unsigned>(items.size());
  if (capacity < items.size()) return nvml::kInsufficientSize;
  for (const auto& item : items) *out++ = convert(item);
  return nvml::kSuccess;
}

// Whether (count, out) are valid arguments for a list.
inline bool is_list(const unsigned* count, const void* out) {
  return count != nullptr && (*count == 0 || out != nullptr);
}

// Stands for the driver's faults where a GPU's place is expected.
inline constexpr std::uint32_t kDriverPlace = sim::kMaxGpus;

// Returns the current faults; empty: the world is dead.
using FaultSource = std::function<std::optional<sim::CallFaults>()>;

// Applies the fault of this call: waits as long as it says, and returns the answer. That is the
// fault's code; success, if there is no fault, it has failed its number of calls in this process,
// or it was cleared meanwhile; driver not loaded, if the world died.
nvml::ReturnCode apply_fault(const FaultSource&, std::uint32_t place, sim::Call);

// Sleeps without a busy wait, and is not cut short by a signal.
void sleep_for(std::uint32_t milliseconds);

std::uint64_t monotonic_us();

}  // namespace gpuyard::sim_nvml
