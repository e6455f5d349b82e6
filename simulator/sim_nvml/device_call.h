// What every device call does before its own line of work: checks in NVML's order, one GPU's state,
// the fault it has to obey.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "nvml/abi.h"
#include "sim_nvml/session.h"

// A function of NVML's interface: the only names this library shows.
#define SIM_NVML_ENTRY extern "C" [[gnu::visibility("default")]] gpuyard::nvml::ReturnCode

namespace gpuyard::sim_nvml {

struct Device {
  std::uint32_t index;
  const sim::Identity& identity;
  const sim::Model& model;
  sim::GpuRecord record;
};

// A handle is an address inside a table of this library, and is never looked at.
nvml::DeviceHandle handle_of(std::uint32_t index);
std::optional<std::uint32_t> index_of(nvml::DeviceHandle, std::uint32_t gpu_count);

// Sleeps for, or never returns from, what the fault says about `call`; then the code to answer, 0
// for none.
nvml::ReturnCode obey(const sim::Fault&, sim::Call);

// Copies `text` with its terminating zero, or insufficient size.
nvml::ReturnCode put_text(std::string_view text, char* out, unsigned size);

// `answer(const Device&)` fills what the caller gave, and runs only if nothing is wrong before.
template <class Answer>
nvml::ReturnCode on_gpu(const sim::WorldReader& world, std::uint32_t index, sim::Call call,
                        Answer&& answer) {
  const auto record = world.record(index);
  if (!record) return nvml::kDriverNotLoaded;  // nobody simulates this GPU any more
  if (const auto code = obey(record->fault, call); code != nvml::kSuccess) return code;
  return answer(Device{index, world.identity(index), world.model(index), *record});
}

template <class Answer>
nvml::ReturnCode on_device(sim::Call call, nvml::DeviceHandle handle, bool arguments_given,
                           Answer&& answer) {
  const auto world = session().world();
  if (world == nullptr) return nvml::kUninitialized;
  const auto index = index_of(handle, world->gpu_count());
  if (!arguments_given || !index) return nvml::kInvalidArgument;
  return on_gpu(*world, *index, call, answer);
}

// The commonest call: one number.
template <class T, class Read>
nvml::ReturnCode read_one(sim::Call call, nvml::DeviceHandle handle, T* out, Read&& read) {
  return on_device(call, handle, out != nullptr, [&](const Device& device) {
    *out = static_cast<T>(read(device));
    return nvml::kSuccess;
  });
}

}  // namespace gpuyard::sim_nvml
