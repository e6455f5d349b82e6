// Limits how much one user may claim, so that no user fills the queue for the others. Counts what
// each user has, and refuses what exceeds the user's quota. Administrators have no quota.
//
// Thread: io. The policy outlives the tracker. Errors are Errc::busy.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/keyed_rate_limiter.h"
#include "base/lifetime.h"
#include "base/loop.h"
#include "base/result.h"
#include "core/lease/lease_policy.h"

namespace gpuyard::lease {

class QuotaTracker {
 public:
  explicit QuotaTracker(const LeasePolicy&);
  QuotaTracker(const QuotaTracker&) = delete;
  QuotaTracker& operator=(const QuotaTracker&) = delete;

  // Returns the user for whom a uid counts.
  std::uint32_t quota_owner(std::uint32_t uid) const;

  // Counts one claim that waits, until remove_waiting().
  void add_waiting(std::uint32_t uid) { ++waiting_claims_[quota_owner(uid)]; }
  void remove_waiting(std::uint32_t uid);
  void clear_waiting() { waiting_claims_.clear(); }
  // Whether one more claim may wait; `waiting`: the claims of all users.
  Result<void> check_queue_quota(const Caller&, std::size_t waiting) const;

  // Whether the user would hold too many GPUs with `more` of them.
  bool exceeds_gpu_limit(const Scheduler&, std::uint32_t uid, std::size_t more) const;
  // "the limit is 2 GPUs per user"
  std::string gpu_limit_text() const;

  // Each counts a call whose rate in a minute is limited.
  Result<void> check_claim_rate(const Caller&, TimePoint now);
  Result<void> check_renewal_rate(const Caller&, TimePoint now);

  // Counts an adoption until the subscription ends.
  Result<std::shared_ptr<Subscription>> acquire_adoption_slot(const Caller&);

 private:
  Result<void> check_rate(const Caller&, KeyedRateLimiter<std::uint32_t>&, std::string_view what,
                          TimePoint now) const;

  const LeasePolicy& policy_;
  std::map<std::uint32_t, std::size_t> waiting_claims_;  // these maps are by quota owner
  std::map<std::uint32_t, std::size_t> adoptions_;
  KeyedRateLimiter<std::uint32_t> claim_limiter_;
  // Separate, so that a flood of claims costs no user a lease.
  KeyedRateLimiter<std::uint32_t> renewal_limiter_;
  Lifetime lifetime_;
};

}  // namespace gpuyard::lease
