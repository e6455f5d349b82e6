// The caller of a claim, and the quotas of users, so that no user fills the queue for the others.
// Lives on the io thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include <boost/describe.hpp>

#include "base/limits.h"
#include "base/loop.h"
#include "base/result.h"
#include "base/token_bucket.h"
#include "base/unique_fd.h"
#include "core/lease/scheduler.h"

namespace gpuyard::lease {

// The mode of leasing on this machine.
enum class GrantMode : std::uint8_t {
  automatic,  // until the first call of a Slurm hook; then Slurm allocates them
  grant,
  observe,  // leases only follow the jobs of Slurm
};
BOOST_DESCRIBE_ENUM(GrantMode, automatic, grant, observe)

struct LeasePolicy {
  Fairness fairness;
  GrantMode mode = GrantMode::automatic;
  UserQuotas quotas = {};
  // Returns the quota owner of a uid; limits for each user count for that one. Empty: the uid
  // itself.
  std::function<std::uint32_t(std::uint32_t uid)> quota_owner = {};
  // Claims of all users; at most limits::kMaxWaitingClaims.
  std::size_t max_waiting_claims = SIZE_MAX;
  bool end_overdue = false;  // ends a lease that is held longer than was said
};

// The caller, as the kernel identifies it.
struct Caller {
  std::uint32_t uid = 0;
  bool admin = false;
  std::uint32_t pid = 0;                         // 0: not known
  std::shared_ptr<const UniqueFd> process = {};  // readable when it is gone
  std::string name() const { return "uid " + std::to_string(uid); }
  bool is_gone() const;
};

// Counts what each user has, and refuses what exceeds the user's quota. The errors are busy.
// Administrators have no quota.
class QuotaTracker {
 public:
  // The policy outlives it.
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
