#include "sim_nvml/session.h"

#include "sim/world_directory.h"

namespace gpuyard::sim_nvml {

nvml::ReturnCode Session::open() {
  const std::lock_guard lock(mutex_);
  if (opened_ == 0) {
    auto world = sim::WorldReader::open(sim::default_world_directory());
    if (!world || !world->alive()) return nvml::kDriverNotLoaded;
    world_.store(std::make_shared<const sim::WorldReader>(*std::move(world)));
  }
  ++opened_;
  return nvml::kSuccess;
}

nvml::ReturnCode Session::close() {
  const std::lock_guard lock(mutex_);
  if (opened_ == 0) return nvml::kUninitialized;
  if (--opened_ == 0) world_.store(nullptr);
  return nvml::kSuccess;
}

Session& session() {
  // Never destroyed: threads of the host program may still call while it exits.
  static Session& only = *new Session;
  return only;
}

}  // namespace gpuyard::sim_nvml
