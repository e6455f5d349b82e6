// The leases that wait, are held or drain: by ticket, and the processes that were last seen of
// each.
//
// Thread: io. The store outlives it.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "core/lease/lease_store.h"
#include "core/lease/process_observer.h"

namespace gpuyard::lease {

class LiveLeases {
 public:
  explicit LiveLeases(const LeaseStore& store) : store_(store) {}

  void add(const Lease& lease) { ids_by_ticket_[lease.ticket] = lease.id; }
  void remove(const Lease&);
  void clear();
  const std::map<Ticket, std::string>& ids_by_ticket() const { return ids_by_ticket_; }
  // Returns the lease as it is decided; nullptr for an unknown ticket.
  const Lease* find(Ticket) const;

  // Remembers the processes that belong to the lease until they exit.
  // REQUIRES: the observation is of this lease, too.
  void record_alive(const std::string& id, const Observation&);
  // Returns the leases that have GPUs, with all of their known processes.
  std::vector<ObservedLease> observed_leases(bool draining_only) const;

 private:
  const LeaseStore& store_;
  std::map<Ticket, std::string> ids_by_ticket_;
  std::map<std::string, std::vector<ProcessKey>> alive_processes_;  // as last seen, by lease
};

}  // namespace gpuyard::lease
