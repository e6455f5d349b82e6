// gpuyard sim driver
#include "cli/screen/terminal.h"
#include "cli/sim/sim.h"
#include "sim/driver_changes.h"
#include "sim/keeper.h"
#include "sim/time_text.h"

namespace gpuyard::cli {
namespace {

Result<void> change(const SimVerb& verb) {
  const std::string world = world_of(verb);
  if (!verb.driver_version.empty()) {
    if (auto good = sim::check_driver_version(verb.driver_version); !good) return good;
  }
  if (verb.action == SimVerb::Action::driver_unload) return sim::unload_driver(world);
  if (verb.action == SimVerb::Action::driver_load) {
    return sim::load_driver(world, verb.driver_version);
  }
  const auto away = verb.time.empty() ? std::chrono::milliseconds{0} : sim::parse_time(verb.time);
  if (!away) return away.error();
  return sim::reload_driver(world, *away, verb.driver_version);
}

}  // namespace

int sim_driver(const SimVerb& verb) {
  const auto done = change(verb);
  return done ? 0 : complain(done.error());
}

}  // namespace gpuyard::cli
