// Decides whether a claim enters the queue, gets its GPUs at once, or is refused.
//
// Thread: io. The parts outlive it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/lease/lease_parts.h"
#include "core/lease/lease_transitions.h"

namespace gpuyard::lease {

// The GPUs that a claim without waiting would get now.
struct Offer {
  std::vector<DeviceId> free = {};    // a claim of one GPU would get one of these
  std::vector<DeviceId> chosen = {};  // the GPUs of this claim; empty: it would get none
  std::string reason = {};            // why it would get none
  bool over_limit = false;            // it is because of the limit per user
};

class ClaimIntake {
 public:
  ClaimIntake(LeaseParts& parts, LeaseTransitions& transitions)
      : parts_(parts), transitions_(transitions) {}

  // See LeaseManager.
  void claim(const Caller&, std::string id, const LeaseSpec&, const OnLease&);
  Result<Offer> offer(std::uint32_t uid, const LeaseSpec&) const;

 private:
  void enqueue_claim(const Caller&, const std::optional<ProcessIdentity>& holder,
                     const std::string& id, const LeaseSpec&, const OnLease&);
  void claim_immediately(const std::optional<ProcessIdentity>& holder, Lease, const GpuRequest&,
                         const OnLease&);
  void answer_repeated_claim(const Caller&, const Lease& known, const LeaseSpec&, const OnLease&);

  LeaseParts& parts_;
  Loop& loop_ = parts_.loop;
  QuotaTracker& quotas_ = parts_.quotas;
  Scheduler& scheduler_ = parts_.scheduler;
  const GpuPool& gpus_ = parts_.gpus;
  LeaseStore& store_ = parts_.store;
  HolderMonitor& holders_ = parts_.holders;
  ClientTracker& clients_ = parts_.clients;
  const LeaseReadiness& readiness_ = parts_.readiness;
  LeaseTransitions& transitions_;
};

}  // namespace gpuyard::lease
