#include "core/lease/quota_tracker.h"

#include <algorithm>
#include <chrono>

#include <fmt/format.h>

#include "base/limits.h"

namespace gpuyard::lease {

QuotaTracker::QuotaTracker(const LeasePolicy& policy)
    : policy_(policy),
      claim_limiter_(static_cast<double>(policy.quotas.claims_a_minute)),
      renewal_limiter_(static_cast<double>(policy.quotas.claims_a_minute)) {}

std::uint32_t QuotaTracker::quota_owner(std::uint32_t uid) const {
  return policy_.quota_owner ? policy_.quota_owner(uid) : uid;
}

void QuotaTracker::remove_waiting(std::uint32_t uid) {
  const auto found = waiting_claims_.find(quota_owner(uid));
  if (found != waiting_claims_.end() && --found->second == 0) waiting_claims_.erase(found);
}

// One user has only a part of a short queue. The last eighth of the queue gives each user slots
// only for a few claims, so that early users do not keep out the others.
Result<void> QuotaTracker::check_queue_quota(const Caller& caller, std::size_t waiting) const {
  constexpr std::size_t kQuotaDivisor = 4;
  constexpr std::size_t kReserveDivisor = 8;  // an eighth
  constexpr std::size_t kGuaranteedClaims = 8;
  const auto found = waiting_claims_.find(quota_owner(caller.uid));
  const std::size_t own = found == waiting_claims_.end() ? 0 : found->second;
  const std::size_t max_claims = std::min(policy_.max_waiting_claims, limits::kMaxWaitingClaims);
  const auto quota = static_cast<std::size_t>(policy_.quotas.waiting_claims);
  const bool too_many_own =
      !caller.admin &&
      own >= std::min(quota, std::max(max_claims / kQuotaDivisor, kGuaranteedClaims));
  const std::size_t max_waiting = caller.admin ? max_claims + limits::kReservedSlots
                                  : own < kGuaranteedClaims
                                      ? max_claims
                                      : max_claims - max_claims / kReserveDivisor;
  if (!too_many_own && waiting < max_waiting) return {};
  const std::size_t limit = too_many_own ? own : waiting;
  return Error{.code = Errc::busy,
               .message = fmt::format("the limit is {} waiting claim{}{}", limit,
                                      limit == 1 ? "" : "s", too_many_own ? " per user" : ""),
               .hint = "gpuyard queue"};
}

bool QuotaTracker::exceeds_gpu_limit(const Scheduler& scheduler, std::uint32_t uid,
                                     std::size_t more) const {
  const unsigned max_gpus = policy_.fairness.max_gpus_per_owner;
  if (max_gpus == 0) return false;
  std::size_t held = more;
  for (const auto& [ticket, claim] : scheduler.allocations().claims()) {
    if (claim.request.owner == quota_owner(uid)) held += claim.gpus.count();
  }
  return held > max_gpus;
}

std::string QuotaTracker::gpu_limit_text() const {
  const unsigned max_gpus = policy_.fairness.max_gpus_per_owner;
  return fmt::format("the limit is {} GPU{} per user", max_gpus, max_gpus == 1 ? "" : "s");
}

Result<void> QuotaTracker::check_claim_rate(const Caller& caller, TimePoint now) {
  return check_rate(caller, claim_limiter_, "claims", now);
}

Result<void> QuotaTracker::check_renewal_rate(const Caller& caller, TimePoint now) {
  return check_rate(caller, renewal_limiter_, "renewals", now);
}

Result<void> QuotaTracker::check_rate(const Caller& caller, KeyedRateLimiter<std::uint32_t>& rates,
                                      std::string_view what, TimePoint now) const {
  if (caller.admin) return {};
  const auto wait = rates.take(quota_owner(caller.uid), now);
  if (!wait) return {};
  return Error{Errc::busy, fmt::format("the limit is {} {} per user per minute; try again in {} s",
                                       policy_.quotas.claims_a_minute, what,
                                       std::chrono::ceil<std::chrono::seconds>(*wait).count())};
}

Result<std::shared_ptr<Subscription>> QuotaTracker::acquire_adoption_slot(const Caller& caller) {
  const std::uint32_t owner = quota_owner(caller.uid);
  if (!caller.admin && adoptions_[owner] >= limits::kMaxAdoptionsPerUser) {
    return Error{
        Errc::busy,
        fmt::format("{} of your processes are already being adopted; try again in a second",
                    limits::kMaxAdoptionsPerUser)};
  }
  ++adoptions_[owner];
  return std::make_shared<Subscription>(lifetime_.guard([this, owner] {
    if (--adoptions_[owner] == 0) adoptions_.erase(owner);
  }));
}

}  // namespace gpuyard::lease
