// The caller of a claim, and the quotas of users, so that no user fills the queue for the others.
// Lives on the io thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include <boost/describe.hpp>

#include "base/limits.h"
#include "base/unique_fd.h"
#include "core/lease/scheduler.h"

namespace gpuyard::lease {

// The mode of leasing on this machine.
enum class GrantMode : std::uint8_t {
  automatic,  // until an external allocator first reports; then it allocates them
  grant,
  observe,  // leases only follow the jobs of an external allocator
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

}  // namespace gpuyard::lease
