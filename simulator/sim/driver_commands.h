// Changes of the driver itself and of the GPUs that it drives: unloading, loading, reloading,
// unplugging, plugging in. Pure: the functions change the world alone.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "sim/world.h"

namespace gpuyard::sim {

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

}  // namespace gpuyard::sim
