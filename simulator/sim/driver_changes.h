// What happens to the driver itself, and to which GPUs it drives: unloading, loading, reloading,
// unplugging, plugging in. Pure: a world before, a world after.
#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include "sim/world.h"

namespace gpuyard::sim {

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

}  // namespace gpuyard::sim
