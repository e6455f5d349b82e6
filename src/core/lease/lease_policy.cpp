#include "core/lease/lease_policy.h"

#include <poll.h>

#include <algorithm>
#include <chrono>

#include <fmt/format.h>

namespace gpuyard::lease {

bool Caller::is_gone() const {
  if (!process) return false;
  pollfd look{process->get(), POLLIN, 0};
  return ::poll(&look, 1, 0) > 0;
}

QuotaTracker::QuotaTracker(const Policy& policy)
    : policy_(policy),
      claims_of_(static_cast<double>(policy.shares.claims_a_minute)),
      renewals_of_(static_cast<double>(policy.shares.claims_a_minute)) {}

std::uint32_t QuotaTracker::person(std::uint32_t uid) const {
  return policy_.person ? policy_.person(uid) : uid;
}

void QuotaTracker::stops_waiting(std::uint32_t uid) {
  const auto found = waiting_of_.find(person(uid));
  if (found != waiting_of_.end() && --found->second == 0) waiting_of_.erase(found);
}

// Where few claims may wait, one user has only a part of the places. Of the last eighth, a user
// gets places only for a few claims, so that early users do not keep out the others.
Result<void> QuotaTracker::room_to_wait(const Caller& caller, std::size_t waiting) const {
  constexpr std::size_t kParts = 4;
  constexpr std::size_t kLast = 8;  // an eighth
  constexpr std::size_t kFew = 8;
  const auto found = waiting_of_.find(person(caller.uid));
  const std::size_t own = found == waiting_of_.end() ? 0 : found->second;
  const std::size_t most = std::min(policy_.most_waiting, shares::kWaitingClaims);
  const auto share = static_cast<std::size_t>(policy_.shares.waiting_claims);
  const bool too_many_own = !caller.admin && own >= std::min(share, std::max(most / kParts, kFew));
  const std::size_t room = caller.admin ? most + shares::kKeptPlaces
                           : own < kFew ? most
                                        : most - most / kLast;
  if (!too_many_own && waiting < room) return {};
  const std::size_t limit = too_many_own ? own : waiting;
  return Error{.code = Errc::busy,
               .message = fmt::format("the limit is {} waiting claim{}{}", limit,
                                      limit == 1 ? "" : "s", too_many_own ? " per user" : ""),
               .hint = "gpuyard queue"};
}

Result<void> QuotaTracker::count_claim(const Caller& caller, TimePoint now) {
  return count(caller, claims_of_, "claims", now);
}

Result<void> QuotaTracker::count_renewal(const Caller& caller, TimePoint now) {
  return count(caller, renewals_of_, "renewals", now);
}

Result<void> QuotaTracker::count(const Caller& caller, KeyedRateLimiter<std::uint32_t>& rates,
                                 std::string_view what, TimePoint now) const {
  if (caller.admin) return {};
  const auto wait = rates.take(person(caller.uid), now);
  if (!wait) return {};
  return Error{Errc::busy, fmt::format("the limit is {} {} per user per minute; try again in {} s",
                                       policy_.shares.claims_a_minute, what,
                                       std::chrono::ceil<std::chrono::seconds>(*wait).count())};
}

Result<std::shared_ptr<Subscription>> QuotaTracker::begin_adopting(const Caller& caller) {
  const std::uint32_t whose = person(caller.uid);
  if (!caller.admin && adopting_of_[whose] >= shares::kAdopting) {
    return Error{
        Errc::busy,
        fmt::format("{} of your processes are already being adopted; try again in a second",
                    shares::kAdopting)};
  }
  ++adopting_of_[whose];
  return std::make_shared<Subscription>(here_.guard([this, whose] {
    if (--adopting_of_[whose] == 0) adopting_of_.erase(whose);
  }));
}

}  // namespace gpuyard::lease
