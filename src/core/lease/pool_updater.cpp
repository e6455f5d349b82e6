#include "core/lease/pool_updater.h"

#include <utility>

#include <fmt/format.h>

namespace gpuyard::lease {

void PoolUpdater::update_gpus(const std::vector<PoolGpu>& all) {
  gpus_.update_gpus(all, loop_.now());
  recompute_eligibility();
  for (const PoolGpu& gpu : all) transitions_.refresh(gpu.info.id);
}

void PoolUpdater::observe_new_gpus() {
  auto gpus = gpus_.unobserved();
  if (!readiness_.is_open() || gpus.empty() || std::exchange(is_observing_new_gpus_, true)) return;
  observer_.observe(
      live_.observed_leases(false), std::move(gpus), true,
      lifetime_.guard([this, generation = readiness_.generation()](const Observation& observation) {
        if (readiness_.generation() != generation) return;
        is_observing_new_gpus_ = false;
        update_unleased(observation);
      }));
}

void PoolUpdater::recompute_eligibility() {
  std::vector<std::string> inventory;
  for (const auto& [id, slot] : gpus_.slots()) {
    const auto gpu = gpus_.gpus().find(id);
    if (gpu == gpus_.gpus().end()) continue;
    inventory.push_back(fmt::format("{} {} {} {}", id, slot, gpu->second.info.name,
                                    gpu->second.total_bytes.value_or(-1)));
  }
  if (inventory == std::exchange(inventory_, inventory)) return;
  for (const auto& [ticket, id] : live_.ids_by_ticket()) {
    const Lease* lease = live_.find(ticket);
    if (lease) scheduler_.set_eligible(ticket, gpus_.eligible_gpus(lease->spec));
  }
}

void PoolUpdater::clear() {
  is_observing_ = is_observing_new_gpus_ = false;
  inventory_.clear();
}

void PoolUpdater::on_processes() {
  if (!readiness_.is_open() || std::exchange(is_observing_, true)) return;
  observer_.observe(
      live_.observed_leases(false), gpus_.ids(), false,
      lifetime_.guard([this, generation = readiness_.generation()](const Observation& observation) {
        if (readiness_.generation() != generation) return;
        is_observing_ = false;
        for (const auto& [id, alive] : observation.alive_by_lease) {
          if (const Lease* lease = store_.find_latest(id);
              lease && lease->state == LeaseState::held) {
            live_.record_alive(id, observation);
          }
        }
        update_unleased(observation);
      }));
}

void PoolUpdater::update_unleased(const Observation& observation) {
  for (const auto& [gpu, list] : observation.processes_by_gpu) {
    const auto newcomers = gpus_.observe(gpu, observation, loop_.now());
    if (on_unleased_process_) {
      for (const ObservedProcess& one : newcomers) on_unleased_process_(gpu, one);
    }
    transitions_.refresh(gpu);
  }
}

}  // namespace gpuyard::lease
