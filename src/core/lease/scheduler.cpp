#include "core/lease/scheduler.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

namespace gpuyard::lease {

std::optional<TimePoint> Claim::expected_end() const {
  if (!request.max_hold_time || overdue || late) return std::nullopt;
  return saturating_add(granted_at, *request.max_hold_time);
}

Result<Slot> Scheduler::add(Gpu gpu) {
  gpu.known = true;
  Slot slot = 0;
  while (slot < gpus_.size() && gpus_[slot].known) ++slot;
  if (slot == kMaxGpus) {
    return Error{Errc::busy, fmt::format("a pool holds at most {} GPUs", kMaxGpus)};
  }
  if (slot == gpus_.size()) gpus_.emplace_back();
  gpus_[slot] = std::move(gpu);
  known_.set(slot);
  return slot;
}

void Scheduler::remove(Slot slot) {
  if (slot >= gpus_.size() || taken_[slot]) return;
  gpus_[slot] = Gpu{};
  gpus_[slot].known = false;
  known_.reset(slot);
  // The slot may soon belong to another GPU, which no claim here has requested.
  for (auto& [ticket, claim] : waiting_) claim.request.eligible.reset(slot);
  needs_scheduling_ = true;
}

void Scheduler::set_topology(Slot slot, std::optional<unsigned> clique,
                             std::optional<unsigned> numa_node) {
  if (slot >= gpus_.size() || !known_[slot]) return;
  gpus_[slot].clique = clique;
  gpus_[slot].numa_node = numa_node;
}

Effects Scheduler::set_availability(Slot slot, GpuAvailability availability, TimePoint now) {
  Effects effects;
  if (slot >= gpus_.size() || !known_[slot]) return effects;
  GpuAvailability before = std::exchange(gpus_[slot].availability, availability);
  before.temperature_c = availability.temperature_c;  // no claim waits for it
  if (needs_scheduling_ || before != availability) schedule(now, effects);
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
  if (const auto before = live_.find(claim.ticket); before != live_.end()) release_gpus(before);
  live_.emplace(claim.ticket, claim);
  taken_ |= claim.gpus;
  gpus_by_owner_[claim.request.owner] += static_cast<unsigned>(claim.gpus.count());
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
  const std::size_t matching = (request.eligible & known_).count();
  if (matching < request.count) {
    const std::string wanted =
        fmt::format("{} GPU{} requested, but", request.count, request.count == 1 ? "" : "s");
    const std::size_t all = known_.count();
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
  claim.request.eligible &= known_;  // another GPU may have that slot later
  waiting_.emplace_hint(waiting_.end(), ticket, claim);
  schedule(now, effects);
  return ticket;
}

std::optional<Ticket> Scheduler::adopt(std::uint32_t owner, const GpuSet& gpus, TimePoint now) {
  if (gpus.none() || (gpus & (taken_ | ~known_)).any()) return std::nullopt;
  GpuRequest request;
  request.owner = owner;
  request.count = static_cast<unsigned>(gpus.count());
  request.eligible = gpus;
  return grant_new(request, gpus, now);
}

void Scheduler::set_eligible(Ticket ticket, const GpuSet& eligible) {
  const auto found = waiting_.find(ticket);
  if (found == waiting_.end()) return;
  found->second.request.eligible = eligible & known_;
  needs_scheduling_ = true;
}

Effects Scheduler::cancel(Ticket ticket, TimePoint now) {
  Effects effects;
  if (waiting_.erase(ticket) > 0) schedule(now, effects);
  return effects;
}

Effects Scheduler::release(Ticket ticket, TimePoint now) {
  Effects effects;
  const auto found = live_.find(ticket);
  if (found == live_.end() || found->second.stage != Claim::Stage::held) return effects;
  if (fairness_.drains) {
    found->second.stage = Claim::Stage::draining;
    return effects;
  }
  release_gpus(found);
  schedule(now, effects);
  return effects;
}

Effects Scheduler::finish_drain(Ticket ticket, TimePoint now) {
  Effects effects;
  const auto found = live_.find(ticket);
  if (found == live_.end() || found->second.stage != Claim::Stage::draining) return effects;
  release_gpus(found);
  schedule(now, effects);
  return effects;
}

Effects Scheduler::advance(TimePoint now) {
  Effects effects;
  bool changed = needs_scheduling_;
  for (auto& [ticket, claim] : live_) {
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

std::optional<TimePoint> Scheduler::next_due() const {
  std::optional<TimePoint> next;
  for (const auto& [ticket, claim] : live_) {
    const auto ends = claim.expected_end();
    if (ends && (!next || *ends < *next)) next = ends;
  }
  for (const auto& [owner, until] : penalized_until_) {
    if (!next || until < *next) next = until;
  }
  return next;
}

const Claim* Scheduler::find(Ticket ticket) const {
  if (const auto found = waiting_.find(ticket); found != waiting_.end()) return &found->second;
  const auto found = live_.find(ticket);
  return found == live_.end() ? nullptr : &found->second;
}

std::optional<Ticket> Scheduler::holder(Slot slot) const {
  if (slot >= kMaxGpus || !taken_[slot]) return std::nullopt;
  for (const auto& [ticket, claim] : live_) {
    if (claim.gpus[slot]) return ticket;
  }
  return std::nullopt;
}

namespace {

constexpr std::int64_t kAllMemory = INT64_MAX;

}  // namespace

GpuSet Scheduler::gpus_in_service() const {
  GpuSet all = known_;
  for_each_slot(known_, [&](Slot slot) {
    if (!gpus_[slot].availability.in_service) all.reset(slot);
  });
  return all;
}

// Returns the free GPUs that may be leased.
GpuSet Scheduler::open_gpus() const {
  GpuSet open = known_ & ~taken_;
  for_each_slot(open, [&](Slot slot) {
    const GpuAvailability& now = gpus_[slot].availability;
    if (!now.in_service || now.in_unleased_use) open.reset(slot);
  });
  return open;
}

// Returns what the claim could have if everything were released.
GpuSet Scheduler::attainable_gpus(const GpuRequest& request, const GpuSet& open,
                                  const GpuSet& in_service) const {
  return usable_gpus(request, open) | (request.eligible & in_service & taken_);
}

GpuSet Scheduler::usable_gpus(const GpuRequest& request, GpuSet candidates) const {
  candidates &= request.eligible;
  if (request.min_free_bytes == 0) return candidates;
  for_each_slot(candidates, [&](Slot slot) {
    if (gpus_[slot].availability.free_bytes.value_or(0) < request.min_free_bytes)
      candidates.reset(slot);
  });
  return candidates;
}

bool Scheduler::is_over_quota(const GpuRequest& request) const {
  if (fairness_.max_gpus_per_owner == 0) return false;
  const auto found = gpus_by_owner_.find(request.owner);
  const unsigned held = found == gpus_by_owner_.end() ? 0 : found->second;
  return held + request.count > fairness_.max_gpus_per_owner;
}

Claim& Scheduler::grant(Claims::node_type node, const GpuSet& gpus, TimePoint now) {
  Claim& claim = node.mapped();
  claim.stage = Claim::Stage::held;
  claim.gpus = gpus;
  claim.fence = ++last_fence_;
  claim.granted_at = now;
  taken_ |= gpus;
  gpus_by_owner_[claim.request.owner] += static_cast<unsigned>(gpus.count());
  return live_.insert(std::move(node)).position->second;
}

Ticket Scheduler::grant_new(const GpuRequest& request, const GpuSet& gpus, TimePoint now) {
  Claims one;
  Claim& claim = one[++last_ticket_];
  claim.ticket = last_ticket_;
  claim.request = request;
  needs_scheduling_ = true;  // its owner may be at the quota now, and others wait behind its claims
  return grant(one.extract(one.begin()), gpus, now).ticket;
}

void Scheduler::release_gpus(Claims::iterator ended) {
  const Claim& claim = ended->second;
  taken_ &= ~claim.gpus;
  // The free memory beside a holder does not show how much is free after it. Its processes have
  // been seen to end, so all of the memory is free until the next reading.
  for_each_slot(claim.gpus, [&](Slot slot) { gpus_[slot].availability.free_bytes = kAllMemory; });
  const auto held = gpus_by_owner_.find(claim.request.owner);
  held->second -= static_cast<unsigned>(claim.gpus.count());
  if (held->second == 0) gpus_by_owner_.erase(held);
  live_.erase(ended);
}

}  // namespace gpuyard::lease
