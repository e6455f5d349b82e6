#include "core/lease/lease_manager.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/clock.h"
#include "base/identifiers.h"
#include "base/log.h"
#include "base/proc_stat.h"
#include "core/lease/placement.h"

namespace gpuyard::lease {

LeaseManager::LeaseManager(Loop& loop, ProcessObserver& observer, LeaseStorage& storage,
                           LeasePolicy policy, std::string boot_id)
    : parts_(loop, observer, storage, std::move(policy),
             {[this](const Lease& now, LeaseState before) { transitions_.notify(now, before); },
              [this](const Error& why) { on_store_failed(why); }},
             [this](const std::string& id, const ProcessKey& process) {
               transitions_.on_gone(id, process);
             }),
      transitions_(parts_, std::move(boot_id), drains_),
      updater_(parts_, transitions_),
      drains_(parts_, transitions_, updater_),
      intake_(parts_, transitions_),
      adopter_(parts_, transitions_, updater_),
      jobs_(parts_, transitions_, updater_) {}

void LeaseManager::on_gpus(const std::vector<PoolGpu>& all) {
  const bool first = !gpus_.is_complete();
  updater_.update_gpus(all);
  if (first) open_if_ready();
  updater_.observe_new_gpus();
}

Subscription LeaseManager::mark_present(const std::string& id, PresenceKind kind) {
  const Lease* lease = store_.find_latest(id);
  if (!lease || lease->state == LeaseState::ended) return {};
  return clients_.mark_present(id, kind);
}

Subscription LeaseManager::subscribe(const std::string& id,
                                     std::function<void(const Lease&)> on_change) {
  return clients_.subscribe(id, std::move(on_change));
}

const Lease* LeaseManager::find(std::string_view id) const {
  return store_.find_committed(id);
}

Result<void> LeaseManager::check_holds_gpu(std::string_view id, std::optional<Fence> fence,
                                           const DeviceId& gpu) const {
  if (!readiness_.has_loaded()) return readiness_.change_error().value_or(unknown_lease_error(id));
  const Lease* lease = find(id);
  if (!lease) return unknown_lease_error(id);
  if (lease->state != LeaseState::held) return not_held_error(*lease);
  if (fence && *fence != lease->fence) {
    return Error{Errc::conflict,
                 fmt::format("fence {} is older than that of the lease, {}", *fence, lease->fence)};
  }
  if (std::find(lease->gpus.begin(), lease->gpus.end(), gpu) != lease->gpus.end()) return {};
  return Error{Errc::conflict, fmt::format("lease {} does not include this GPU", id)};
}

std::vector<QueueEntry> LeaseManager::queue_entries(std::size_t limit) const {
  std::vector<QueueEntry> all;
  for (const QueuePosition& queue_position : scheduler_.queue_positions(loop_.now(), limit)) {
    const auto found = live_.ids_by_ticket().find(queue_position.ticket);
    if (found != live_.ids_by_ticket().end()) all.push_back({found->second, queue_position});
  }
  return all;
}

}  // namespace gpuyard::lease
