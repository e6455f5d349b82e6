// The effects of commands on one GPU. Pure: a function changes the GPU, or leaves it as it was and
// returns an error.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "sim/command.h"
#include "sim/world.h"

namespace gpuyard::sim {

Command load_command(int gpu, const Workload&);
Result<void> set_load(Gpu&, const Command&, std::chrono::milliseconds now);

// Numbers each failing call among the world's faults, and adds them to `made`, the number so far.
void number_calls(Fault&, std::uint64_t& made);

// Adds the fault to those of the GPU.
Result<void> inject(Gpu&, Fault, std::uint64_t& made);

// Carries out the commands that clear faults or set heat.
Result<void> change_gpu(Gpu&, const Command&);

// Finding a GPU of a world by one of its names.

// Returns the index of the GPU with this index, UUID, or PCI address in either spelling; kEveryGpu
// for "all". Errc::not_found: there is no such GPU, or it is unplugged. Only the world server
// checks that an index is in use.
Result<int> find_gpu_index(const std::string& directory, std::string_view name);

// Changes of the driver itself and of the GPUs that it drives: unloading, loading, reloading,
// unplugging, plugging in. Pure: the functions change the world alone.

inline constexpr std::size_t kMaxVersionLength = 31;
inline constexpr std::chrono::hours kMaxReloadTime{1};

// Checks a version such as "550.54.15"; Errc::invalid says what is wrong.
Result<void> check_driver_version(std::string_view);

// Errc::conflict: it is not loaded. Every process loses its GPU.
Result<void> unload_driver(World&);

// Begins another session of the driver: counters begin at 0, settings are the model's defaults,
// pending changes come into force. `version` "": unchanged. Errc::conflict: it is loaded.
Result<void> load_driver(World&, const std::string& version);

// Unloads the driver; load_due_driver() loads it again after `away` of simulated time.
Result<void> reload_driver(World&, std::chrono::milliseconds away, const std::string& version);
void load_due_driver(World&);

// Unplugs a GPU. The index of each GPU after it falls by 1. Its processes lose it.
void unplug(World&, std::uint32_t place);

// Plugs in the unplugged GPU with this UUID (or beginning of a UUID; "": the only unplugged one) so
// that it gets this index; without an index it gets its old position among the others.
// Errc::not_found: no GPU matches, or more than one; Errc::invalid: no such index.
Result<void> plug(World&, std::string_view uuid, std::optional<std::uint32_t> index);

// Errors of a GPU's memory, and the driver's repairs.

struct MemoryErrors {
  EccLocation location = EccLocation::device_memory;
  bool uncorrected = false;
  std::uint32_t count = 1;
};

// Reads a name such as "device_memory"; empty for an unknown one.
std::optional<EccLocation> ecc_location_from_name(std::string_view);

inline constexpr std::uint32_t kMaxErrorsPerCommand = 1'000'000;

// Adds the errors to the volatile and aggregate counters. Each uncorrected error of the device
// memory also remaps a row or retires a page, which is pending until a reset. Errc::unsupported:
// the model has no ECC; Errc::conflict: ECC is off; Errc::invalid: no such location or count.
Result<void> add_memory_errors(Gpu&, const MemoryErrors&);

}  // namespace gpuyard::sim
