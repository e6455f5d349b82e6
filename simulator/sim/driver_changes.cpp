#include "sim/driver_changes.h"

#include <algorithm>
#include <cctype>

#include <fmt/format.h>

#include "sim/apply_setting.h"

namespace gpuyard::sim {
namespace {

// What a driver does with a GPU that it takes up: nothing is as somebody set it, but for what the
// board keeps.
void take_up(Gpu& gpu) {
  restart(gpu);
  gpu.settings.persistence_mode = 0;
  gpu.settings.compute_mode = 0;
}

}  // namespace

Result<void> check_driver_version(std::string_view version) {
  const bool plausible =
      !version.empty() && version.size() <= kLongestVersion &&
      std::ranges::all_of(version, [](unsigned char c) { return std::isdigit(c) || c == '.'; }) &&
      std::isdigit(static_cast<unsigned char>(version.front()));
  if (plausible) return {};
  return Error{Errc::invalid,
               fmt::format("\"{}\" is no driver version such as {}", version, kUsualDriver)};
}

Result<void> unload_driver(World& world) {
  if (!world.driver.loaded) return Error{Errc::conflict, "the driver is not loaded"};
  world.driver.loaded = false;
  for (Gpu& gpu : world.gpus) gpu.processes = {};
  return {};
}

Result<void> load_driver(World& world, const std::string& version) {
  if (world.driver.loaded) return Error{Errc::conflict, "the driver is loaded already"};
  if (!version.empty()) {
    if (auto good = check_driver_version(version); !good) return good;
    world.driver.version = version;
  }
  for (Gpu& gpu : world.gpus) take_up(gpu);
  ++world.driver.session;
  world.driver.loaded = true;
  world.driver.back_at.reset();
  return {};
}

Result<void> reload_driver(World& world, std::chrono::milliseconds away,
                           const std::string& version) {
  if (away < std::chrono::milliseconds{0} || away > kLongestReload) {
    return Error{Errc::invalid, "a driver is away for up to an hour"};
  }
  if (!version.empty()) {
    if (auto good = check_driver_version(version); !good) return good;
  }
  if (auto done = unload_driver(world); !done) return done;
  world.driver.back_at = world.elapsed + away;
  world.driver.next_version = version;
  load_due_driver(world);
  return {};
}

void load_due_driver(World& world) {
  if (!world.driver.back_at || world.elapsed < *world.driver.back_at) return;
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
    return Error{Errc::invalid, fmt::format("it can get an index from 0 to {}, not {}",
                                            world.order.size(), *index)};
  }
  std::optional<std::uint32_t> found;
  for (std::uint32_t place = 0; place < world.gpus.size(); ++place) {
    const Gpu& gpu = world.gpus[place];
    if (gpu.plugged || !std::string_view(gpu.identity.uuid).starts_with(uuid)) continue;
    if (found) return Error{Errc::not_found, "several GPUs are unplugged; say --uuid of one"};
    found = place;
  }
  if (!found) return Error{Errc::not_found, "no such GPU is unplugged"};
  const auto usual = std::ranges::upper_bound(world.order, *found);
  world.order.insert(index ? world.order.begin() + *index : usual, *found);
  Gpu& gpu = world.gpus[*found];
  gpu.plugged = true;
  ++gpu.plugs;
  gpu.fault.lost = gpu.fault.reset_required = 0;
  take_up(gpu);
  return {};
}

}  // namespace gpuyard::sim
