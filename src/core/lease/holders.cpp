#include "lease/holders.h"

#include <algorithm>

namespace gpuyard::lease {

void Holders::identify(std::uint32_t pid, const Found& found) {
  if (const auto known = known_.find(pid); known != known_.end()) {
    return found(known->second.identity);
  }
  observer_.identify(pid, [weak = std::weak_ptr(self_), found](Result<Identity> identity) {
    if (!weak.expired()) found(std::move(identity));
  });
}

void Holders::bind(const std::string& lease, const Identity& identity) {
  if (identity.fd) keep(identity).leases.insert(lease);
}

void Holders::release(const std::string& lease, const std::vector<Process>& of) {
  for (const Process& process : of) {
    const auto found = known_.find(process.pid);
    if (found != known_.end()) found->second.leases.erase(lease);
  }
}

void Holders::clear() {
  for (auto& [pid, known] : known_) known.leases.clear();
}

Holders::Known& Holders::keep(const Identity& identity) {
  const std::uint32_t pid = identity.process.pid;
  const auto there = known_.find(pid);
  if (there != known_.end() && there->second.identity.process == identity.process) {
    return there->second;
  }
  if (there != known_.end()) on_gone(pid);
  make_room();
  Known& known = known_.insert_or_assign(pid, Known{identity}).first->second;
  known.gone = loop_.watch(identity.fd->get(), [this, pid] { on_gone(pid); });
  return known;
}

void Holders::on_gone(std::uint32_t pid) {
  const auto found = known_.find(pid);
  if (found == known_.end()) return;
  const Known known = std::move(found->second);
  known_.erase(found);
  for (const std::string& lease : known.leases) gone_(lease, known.identity.process);
}

void Holders::make_room() {
  if (known_.size() < most_known_) return;
  std::erase_if(known_, [](const auto& one) { return one.second.leases.empty(); });
}

}  // namespace gpuyard::lease
