#include "sim_nvml/session.h"

#include "sim/world_directory.h"

namespace gpuyard::sim_nvml {

nvml::ReturnCode Session::open() {
  {
    const std::lock_guard lock(mutex_);
    if (opened_ > 0) {
      ++opened_;
      return nvml::kSuccess;
    }
  }
  // Without the lock: a driver that hangs here must not keep others from shutting down.
  nvml::ReturnCode code = nvml::kSuccess;
  auto driver = OpenedDriver::open(sim::default_world_directory(), code);
  if (driver == nullptr) return code;
  const std::lock_guard lock(mutex_);
  if (opened_++ == 0) driver_.store(std::move(driver));
  return nvml::kSuccess;
}

nvml::ReturnCode Session::close() {
  const std::lock_guard lock(mutex_);
  if (opened_ == 0) return nvml::kUninitialized;
  if (--opened_ == 0) driver_.store(nullptr);
  return nvml::kSuccess;
}

Session& session() {
  // Never destroyed: threads of the host program may still call while it exits.
  static Session& only = *new Session;
  return only;
}

}  // namespace gpuyard::sim_nvml
