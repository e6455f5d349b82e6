#include "core/lease/lease_reader.h"

#include <algorithm>
#include <iterator>

#include <fmt/format.h>

namespace gpuyard::lease {

Result<void> LeaseReader::check_holds_gpu(std::string_view id, std::optional<Fence> fence,
                                          const DeviceId& gpu) const {
  if (!state_.readiness.has_loaded())
    return state_.readiness.change_error().value_or(unknown_lease_error(id));
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

std::vector<QueueEntry> LeaseReader::queue_entries(std::size_t limit) const {
  std::vector<QueueEntry> all;
  for (const QueuePosition& queue_position :
       state_.scheduler.queue_positions(state_.loop.now(), limit)) {
    const auto found = state_.live.ids_by_ticket().find(queue_position.ticket);
    if (found != state_.live.ids_by_ticket().end()) all.push_back({found->second, queue_position});
  }
  return all;
}

const Lease* LeaseReader::find_job(std::string_view name) const {
  const auto& all = state_.store.committed();
  const Lease* last = nullptr;
  const std::string prefix = job_id_prefix(name);
  for (auto next = all.lower_bound(prefix); next != all.end() && next->first.starts_with(prefix);
       ++next) {
    if (job_of(next->second) == name) last = &next->second;
  }
  return last;
}

std::vector<std::string> LeaseReader::notes() const {
  std::vector<std::string> notes;
  if (const auto why = state_.readiness.grant_error();
      why && state_.readiness.phase() != LeaseReadiness::Phase::idle)
    notes.push_back(why->text());
  if (!state_.readiness.has_store_error())
    std::ranges::copy(state_.store.notes(), std::back_inserter(notes));
  for (const auto& [ticket, id] : state_.live.ids_by_ticket()) {
    const Lease* lease = find(id);
    if (!lease || lease->state != LeaseState::draining || !lease->drain_started_wall) continue;
    if (state_.loop.wall() - *lease->drain_started_wall < kLongDrainThreshold) continue;
    notes.push_back(fmt::format("lease {} has been draining since {}: {}", id,
                                to_rfc3339(*lease->drain_started_wall), lease->detail));
  }
  return notes;
}

}  // namespace gpuyard::lease
