#include "core/lease/live_leases.h"

#include <algorithm>
#include <set>

namespace gpuyard::lease {

void LiveLeases::remove(const Lease& lease) {
  alive_processes_.erase(lease.id);
  ids_by_ticket_.erase(lease.ticket);
}

void LiveLeases::clear() {
  ids_by_ticket_.clear();
  alive_processes_.clear();
}

const Lease* LiveLeases::find(Ticket ticket) const {
  const auto found = ids_by_ticket_.find(ticket);
  return found == ids_by_ticket_.end() ? nullptr : store_.find_latest(found->second);
}

void LiveLeases::record_alive(const std::string& id, const Observation& observation) {
  std::vector<ProcessKey>& some = alive_processes_[id];
  some = observation.alive_by_lease.at(id);
  const auto others = observation.by_container.find(id);
  if (others == observation.by_container.end()) return;
  std::erase_if(some, [&](const ProcessKey& one) {
    return std::ranges::find(others->second, one) != others->second.end();
  });
}

std::vector<ObservedLease> LiveLeases::observed_leases(bool draining_only) const {
  std::vector<ObservedLease> all;
  for (const auto& [ticket, id] : ids_by_ticket_) {
    const Lease* lease = store_.find_latest(id);
    if (!lease || lease->gpus.empty() || lease->state == LeaseState::ended) continue;
    if (draining_only && lease->state != LeaseState::draining) continue;
    std::set<ProcessKey> processes(lease->processes.begin(), lease->processes.end());
    if (const auto known = alive_processes_.find(id); known != alive_processes_.end()) {
      processes.insert(known->second.begin(), known->second.end());
    }
    all.push_back({id,
                   lease->uid,
                   lease->gpus,
                   {processes.begin(), processes.end()},
                   lease->spec.binding == Binding::detached || lease->spec.binding == Binding::job,
                   !lease->pod.empty()});
  }
  return all;
}

}  // namespace gpuyard::lease
