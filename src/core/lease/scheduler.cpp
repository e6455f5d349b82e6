#include "core/lease/scheduler.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

namespace gpuyard::lease {

void Scheduler::remove(Slot slot) {
  if (!allocations_.remove(slot)) return;
  // The slot may soon belong to another GPU, which no claim here has requested.
  for (auto& [ticket, claim] : waiting_) claim.request.eligible.reset(slot);
  needs_scheduling_ = true;
}

Effects Scheduler::set_availability(Slot slot, GpuAvailability availability, TimePoint now) {
  Effects effects;
  const bool changed = allocations_.set_availability(slot, availability);
  if (changed || needs_scheduling_) schedule(now, effects);
  return effects;
}

Effects Scheduler::open(TimePoint now) {
  open_ = true;
  Effects effects = advance(now);
  schedule(now, effects);
  return effects;
}

// Restoring the same claim twice is the same as once.
void Scheduler::restore(Claim claim) {  // a copy: it may be one of ours
  last_ticket_ = std::max(last_ticket_, claim.ticket);
  last_fence_ = std::max(last_fence_, claim.fence);
  if (claim.stage == Claim::Stage::waiting) {
    waiting_.insert_or_assign(claim.ticket, claim);
    return;
  }
  auto& live = allocations_.claims();
  if (const auto before = live.find(claim.ticket); before != live.end())
    allocations_.release(before);
  allocations_.insert(claim);
  if (claim.overdue && claim.request.max_hold_time) {
    const TimePoint promised_end = saturating_add(claim.granted_at, *claim.request.max_hold_time);
    restore_penalty(claim.request.owner, saturating_add(promised_end, kOverduePenalty));
  }
}

void Scheduler::restore_counters(Ticket last_ticket, Fence last_fence) {
  last_ticket_ = std::max(last_ticket_, last_ticket);
  last_fence_ = std::max(last_fence_, last_fence);
}

void Scheduler::restore_penalty(std::uint32_t owner, TimePoint until) {
  const auto [penalty, added] = penalized_until_.emplace(owner, until);
  if (!added) penalty->second = std::max(penalty->second, until);
}

Result<void> Scheduler::check_satisfiable(const GpuRequest& request) const {
  if (request.count == 0) return Error{Errc::invalid, "a claim needs at least one GPU"};
  const GpuSet known = allocations_.known();
  const std::size_t matching = (request.eligible & known).count();
  if (matching < request.count) {
    const std::string wanted =
        fmt::format("{} GPU{} requested, but", request.count, request.count == 1 ? "" : "s");
    const std::size_t all = known.count();
    return Error{Errc::invalid,
                 request.count > all ? fmt::format("{} this machine has {}", wanted, all)
                 : matching == 0     ? std::string("no GPU of this machine matches the request")
                                 : fmt::format("{} only {} of {} match{}", wanted, matching, all,
                                               matching == 1 ? "es" : "")};
  }
  const unsigned max_gpus = fairness_.max_gpus_per_owner;
  if (max_gpus > 0 && request.count > max_gpus) {
    return Error{Errc::invalid, fmt::format("{} GPUs requested, but the limit per user is {}",
                                            request.count, max_gpus)};
  }
  return {};
}

Ticket Scheduler::claim(const GpuRequest& request, TimePoint now, Effects& effects) {
  const Ticket ticket = ++last_ticket_;
  Claim claim;
  claim.ticket = ticket;
  claim.request = request;
  claim.request.eligible &= allocations_.known();  // another GPU may have that slot later
  waiting_.emplace_hint(waiting_.end(), ticket, claim);
  schedule(now, effects);
  return ticket;
}

std::optional<Ticket> Scheduler::adopt(std::uint32_t owner, const GpuSet& gpus, TimePoint now) {
  if (gpus.none() || (gpus & (allocations_.taken() | ~allocations_.known())).any())
    return std::nullopt;
  GpuRequest request;
  request.owner = owner;
  request.count = static_cast<unsigned>(gpus.count());
  request.eligible = gpus;
  return grant_new(request, gpus, now);
}

void Scheduler::set_eligible(Ticket ticket, const GpuSet& eligible) {
  const auto found = waiting_.find(ticket);
  if (found == waiting_.end()) return;
  found->second.request.eligible = eligible & allocations_.known();
  needs_scheduling_ = true;
}

Effects Scheduler::cancel(Ticket ticket, TimePoint now) {
  Effects effects;
  if (waiting_.erase(ticket) > 0) schedule(now, effects);
  return effects;
}

Effects Scheduler::release(Ticket ticket, TimePoint now) {
  Effects effects;
  const auto found = allocations_.claims().find(ticket);
  if (found == allocations_.claims().end() || found->second.stage != Claim::Stage::held)
    return effects;
  if (fairness_.drains) {
    found->second.stage = Claim::Stage::draining;
    return effects;
  }
  allocations_.release(found);
  schedule(now, effects);
  return effects;
}

Effects Scheduler::finish_drain(Ticket ticket, TimePoint now) {
  Effects effects;
  const auto found = allocations_.claims().find(ticket);
  if (found == allocations_.claims().end() || found->second.stage != Claim::Stage::draining)
    return effects;
  allocations_.release(found);
  schedule(now, effects);
  return effects;
}

Effects Scheduler::advance(TimePoint now) {
  Effects effects;
  bool changed = needs_scheduling_;
  for (auto& [ticket, claim] : allocations_.claims()) {
    const auto ends = claim.expected_end();
    if (!ends || now < *ends) continue;
    changed = true;
    // An owner who released in time is not to blame for what drains.
    claim.late = claim.stage == Claim::Stage::draining;
    if (claim.late) continue;
    claim.overdue = true;
    penalized_until_[claim.request.owner] = saturating_add(now, kOverduePenalty);
    effects.overdue.push_back(ticket);
  }
  const auto forgiven =
      std::erase_if(penalized_until_, [now](const auto& one) { return one.second <= now; });
  if (changed || forgiven > 0) schedule(now, effects);
  return effects;
}

const Claim* Scheduler::find(Ticket ticket) const {
  if (const auto found = waiting_.find(ticket); found != waiting_.end()) return &found->second;
  const auto found = allocations_.claims().find(ticket);
  return found == allocations_.claims().end() ? nullptr : &found->second;
}

void Scheduler::grant(Claim claim, const GpuSet& gpus, TimePoint now) {
  claim.stage = Claim::Stage::held;
  claim.gpus = gpus;
  claim.fence = ++last_fence_;
  claim.granted_at = now;
  allocations_.insert(claim);
}

Ticket Scheduler::grant_new(const GpuRequest& request, const GpuSet& gpus, TimePoint now) {
  needs_scheduling_ = true;  // its owner may be at the quota now, and others wait behind its claims
  grant({.ticket = ++last_ticket_, .request = request}, gpus, now);
  return last_ticket_;
}

}  // namespace gpuyard::lease
