#include "core/lease/holder_monitor.h"

#include <utility>

namespace gpuyard::lease {

void HolderMonitor::identify(std::uint32_t pid, const OnIdentified& on_identified) {
  if (const auto known = known_processes_.find(pid); known != known_processes_.end()) {
    return on_identified(known->second.identity);
  }
  observer_.identify(pid, lifetime_.guard([on_identified](Result<ProcessIdentity> identity) {
    on_identified(std::move(identity));
  }));
}

void HolderMonitor::bind(const std::string& lease, const ProcessIdentity& identity) {
  if (identity.fd) track(identity).leases.insert(lease);
}

void HolderMonitor::release(const std::string& lease, const std::vector<ProcessKey>& processes) {
  for (const ProcessKey& process : processes) {
    const auto found = known_processes_.find(process.pid);
    if (found != known_processes_.end()) found->second.leases.erase(lease);
  }
}

void HolderMonitor::clear() {
  for (auto& [pid, known] : known_processes_) known.leases.clear();
}

HolderMonitor::KnownProcess& HolderMonitor::track(const ProcessIdentity& identity) {
  const std::uint32_t pid = identity.key.pid;
  const auto found = known_processes_.find(pid);
  if (found != known_processes_.end() && found->second.identity.key == identity.key) {
    return found->second;
  }
  if (found != known_processes_.end()) on_gone(pid);
  evict_unbound();
  KnownProcess& known =
      known_processes_.insert_or_assign(pid, KnownProcess{identity}).first->second;
  known.exit_subscription = loop_.watch(identity.fd->get(), [this, pid] { on_gone(pid); });
  return known;
}

void HolderMonitor::on_gone(std::uint32_t pid) {
  const auto found = known_processes_.find(pid);
  if (found == known_processes_.end()) return;
  const KnownProcess known = std::move(found->second);
  known_processes_.erase(found);
  for (const std::string& lease : known.leases) on_gone_(lease, known.identity.key);
}

void HolderMonitor::evict_unbound() {
  if (known_processes_.size() < max_known_) return;
  std::erase_if(known_processes_, [](const auto& one) { return one.second.leases.empty(); });
}

}  // namespace gpuyard::lease
