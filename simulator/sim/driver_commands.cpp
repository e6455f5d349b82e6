#include "sim/driver_commands.h"

#include <algorithm>
#include <cctype>

#include <fmt/format.h>

#include "sim/apply_setting.h"

namespace gpuyard::sim {
namespace {

// Initialises a GPU as a loading driver does: all settings return to their defaults, except those
// that the board stores.
void restart_with_driver(Gpu& gpu) {
  restart(gpu);
  gpu.settings.persistence_mode = 0;
  gpu.settings.compute_mode = 0;
}

}  // namespace

Result<void> check_driver_version(std::string_view version) {
  const bool plausible =
      !version.empty() && version.size() <= kMaxVersionLength &&
      std::ranges::all_of(version, [](unsigned char c) { return std::isdigit(c) || c == '.'; }) &&
      std::isdigit(static_cast<unsigned char>(version.front()));
  if (plausible) return {};
  return Error{Errc::invalid,
               fmt::format("\"{}\" is not a driver version such as {}", version, kDefaultDriver)};
}

Result<void> unload_driver(World& world) {
  if (!world.driver.loaded) return Error{Errc::conflict, "the driver is not loaded"};
  world.driver.loaded = false;
  for (Gpu& gpu : world.gpus) gpu.processes = {};
  return {};
}

Result<void> load_driver(World& world, const std::string& version) {
  if (world.driver.loaded) return Error{Errc::conflict, "the driver is already loaded"};
  if (!version.empty()) {
    if (auto good = check_driver_version(version); !good) return good;
    world.driver.version = version;
  }
  for (Gpu& gpu : world.gpus) restart_with_driver(gpu);
  ++world.driver.session;
  world.driver.loaded = true;
  world.driver.load_due_at.reset();
  return {};
}

Result<void> reload_driver(World& world, std::chrono::milliseconds away,
                           const std::string& version) {
  if (away < std::chrono::milliseconds{0} || away > kMaxReloadTime) {
    return Error{Errc::invalid, "the driver can be unloaded for up to an hour"};
  }
  if (!version.empty()) {
    if (auto good = check_driver_version(version); !good) return good;
  }
  if (auto done = unload_driver(world); !done) return done;
  world.driver.load_due_at = world.elapsed + away;
  world.driver.next_version = version;
  load_due_driver(world);
  return {};
}

void load_due_driver(World& world) {
  if (!world.driver.load_due_at || world.elapsed < *world.driver.load_due_at) return;
  static_cast<void>(load_driver(world, world.driver.next_version).ok());
}

void unplug(World& world, std::uint32_t place) {
  std::erase(world.order, place);
  Gpu& gpu = world.gpus[place];
  gpu.plugged = false;
  gpu.processes = {};
}

Result<void> plug(World& world, std::string_view uuid, std::optional<std::uint32_t> index) {
  if (index && *index > world.order.size()) {
    return Error{Errc::invalid,
                 fmt::format("the index must be 0 to {}, not {}", world.order.size(), *index)};
  }
  std::optional<std::uint32_t> found;
  for (std::uint32_t place = 0; place < world.gpus.size(); ++place) {
    const Gpu& gpu = world.gpus[place];
    if (gpu.plugged || !std::string_view(gpu.identity.uuid).starts_with(uuid)) continue;
    if (found) return Error{Errc::not_found, "several GPUs are unplugged; select one with --uuid"};
    found = place;
  }
  if (!found) return Error{Errc::not_found, "no such GPU is unplugged"};
  const auto usual = std::ranges::upper_bound(world.order, *found);
  world.order.insert(index ? world.order.begin() + *index : usual, *found);
  Gpu& gpu = world.gpus[*found];
  gpu.plugged = true;
  ++gpu.plug_count;
  gpu.fault.lost = gpu.fault.reset_required = 0;
  gpu.fault.recovery_action = RecoveryAction::none;
  restart_with_driver(gpu);
  return {};
}

}  // namespace gpuyard::sim
