// What commands do to one GPU and nothing else. Pure: the GPU is changed, or left as it was and an
// error says why.
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

// Gives each failing call its number among a world's faults, of which there were `made`.
void number_calls(Fault&, std::uint64_t& made);

// Adds the fault to what the GPU has.
Result<void> inject(Gpu&, Fault, std::uint64_t& made);

// Faults cleared, heat.
Result<void> change_gpu(Gpu&, const Command&);

// A GPU of a world by one of its names.

// The index of the GPU that this names: its index, UUID, or PCI address in either spelling;
// "all": kEveryGpu. Errc::not_found: there is none, or it is unplugged. Whether a GPU has the index
// is for the keeper to say.
Result<int> gpu_named(const std::string& directory, std::string_view name);

// What happens to the driver itself, and to which GPUs it drives: unloading, loading, reloading,
// unplugging, plugging in. Pure: a world before, a world after.

inline constexpr std::size_t kLongestVersion = 31;
inline constexpr std::chrono::hours kLongestReload{1};

// "550.54.15"; Errc::invalid says what is wrong.
Result<void> check_driver_version(std::string_view);

// Errc::conflict: it is not loaded. Who uses a GPU loses it.
Result<void> unload_driver(World&);

// Another session of the driver: counters begin at 0, settings are the model's own, pending changes
// come into force. `version` "": the one it had. Errc::conflict: it is loaded.
Result<void> load_driver(World&, const std::string& version);

// Unloads it and loads it again, that much simulated time later: load_due_driver() does that.
Result<void> reload_driver(World&, std::chrono::milliseconds away, const std::string& version);
void load_due_driver(World&);

// The GPUs behind it move up one index. Who uses it loses it.
void unplug(World&, std::uint32_t place);

// Plugs in the unplugged GPU of this UUID (or beginning of one; "": the only one there is) so that
// it gets this index; without one, where it was among the others. Errc::not_found: there is none,
// or more than one; Errc::invalid: no such index.
Result<void> plug(World&, std::string_view uuid, std::optional<std::uint32_t> index);

// Errors of a GPU's memory, and what the driver repairs after them.

struct MemoryErrors {
  EccLocation location = EccLocation::device_memory;
  bool uncorrected = false;
  std::uint32_t count = 1;
};

// "device_memory"; empty for what is none.
std::optional<EccLocation> ecc_location_from_name(std::string_view);

inline constexpr std::uint32_t kMostErrorsAtOnce = 1'000'000;

// Counts them, volatile and aggregate. Uncorrected ones of the device memory also remap a row or
// retire a page each, which is pending until a reset. Errc::unsupported: the model has no ECC;
// Errc::conflict: it is off; Errc::invalid: no such location or count.
Result<void> add_memory_errors(Gpu&, const MemoryErrors&);

}  // namespace gpuyard::sim
