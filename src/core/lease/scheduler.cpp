#include "core/lease/scheduler.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

namespace gpuyard::lease {

std::optional<TimePoint> Claim::ends() const {
  if (!terms.longest || overdue || late) return std::nullopt;
  return later(granted, *terms.longest);
}

Result<Slot> Core::add(Gpu gpu) {
  gpu.known = true;
  Slot slot = 0;
  while (slot < gpus_.size() && gpus_[slot].known) ++slot;
  if (slot == kMostGpus) {
    return Error{Errc::busy, fmt::format("a pool holds at most {} GPUs", kMostGpus)};
  }
  if (slot == gpus_.size()) gpus_.emplace_back();
  gpus_[slot] = std::move(gpu);
  known_.set(slot);
  return slot;
}

void Core::remove(Slot slot) {
  if (slot >= gpus_.size() || taken_[slot]) return;
  gpus_[slot] = Gpu{};
  gpus_[slot].known = false;
  known_.reset(slot);
  // The slot may soon belong to another GPU, which no claim here has asked for.
  for (auto& [ticket, claim] : waiting_) claim.terms.eligible.reset(slot);
  unsettled_ = true;
}

void Core::locate(Slot slot, std::optional<unsigned> clique, std::optional<unsigned> numa_node) {
  if (slot >= gpus_.size() || !known_[slot]) return;
  gpus_[slot].clique = clique;
  gpus_[slot].numa_node = numa_node;
}

Effects Core::set(Slot slot, Condition condition, TimePoint now) {
  Effects effects;
  if (slot >= gpus_.size() || !known_[slot]) return effects;
  Condition before = std::exchange(gpus_[slot].now, condition);
  before.temperature_c = condition.temperature_c;  // no claim waits for it
  if (unsettled_ || before != condition) schedule(now, effects);
  return effects;
}

Effects Core::open(TimePoint now) {
  open_ = true;
  Effects effects = advance(now);
  schedule(now, effects);
  return effects;
}

// Restoring the same claim twice is the same as once.
void Core::restore(Claim claim) {  // a copy: it may be one of ours
  last_ticket_ = std::max(last_ticket_, claim.ticket);
  last_fence_ = std::max(last_fence_, claim.fence);
  if (claim.stage == Claim::Stage::waiting) {
    waiting_.insert_or_assign(claim.ticket, claim);
    return;
  }
  if (const auto before = live_.find(claim.ticket); before != live_.end()) let_go(before);
  live_.emplace(claim.ticket, claim);
  taken_ |= claim.gpus;
  held_by_[claim.terms.owner] += static_cast<unsigned>(claim.gpus.count());
  if (claim.overdue && claim.terms.longest) {
    const TimePoint broken = later(claim.granted, *claim.terms.longest);
    restore_mistrust(claim.terms.owner, later(broken, kTrustLost));
  }
}

void Core::restore_counters(Ticket last_ticket, Fence last_fence) {
  last_ticket_ = std::max(last_ticket_, last_ticket);
  last_fence_ = std::max(last_fence_, last_fence);
}

void Core::restore_mistrust(std::uint32_t owner, TimePoint until) {
  const auto [mistrust, added] = mistrusted_.emplace(owner, until);
  if (!added) mistrust->second = std::max(mistrust->second, until);
}

Result<void> Core::possible(const Terms& terms) const {
  if (terms.count == 0) return Error{Errc::invalid, "a claim needs at least one GPU"};
  const std::size_t reach = (terms.eligible & known_).count();
  if (reach < terms.count) {
    const std::string wanted =
        fmt::format("{} GPU{} requested, but", terms.count, terms.count == 1 ? "" : "s");
    const std::size_t all = known_.count();
    return Error{Errc::invalid,
                 terms.count > all ? fmt::format("{} this machine has {}", wanted, all)
                 : reach == 0      ? std::string("no GPU of this machine matches the request")
                                   : fmt::format("{} only {} of {} match{}", wanted, reach, all,
                                            reach == 1 ? "es" : "")};
  }
  const unsigned most = fairness_.most_gpus_of_owner;
  if (most > 0 && terms.count > most) {
    return Error{Errc::invalid,
                 fmt::format("{} GPUs requested, but the limit per user is {}", terms.count, most)};
  }
  return {};
}

Ticket Core::claim(const Terms& terms, TimePoint now, Effects& effects) {
  const Ticket ticket = ++last_ticket_;
  Claim claim;
  claim.ticket = ticket;
  claim.terms = terms;
  claim.terms.eligible &= known_;  // another GPU may have that slot later
  waiting_.emplace_hint(waiting_.end(), ticket, claim);
  schedule(now, effects);
  return ticket;
}

std::optional<Ticket> Core::adopt(std::uint32_t owner, const GpuSet& gpus, TimePoint now) {
  if (gpus.none() || (gpus & (taken_ | ~known_)).any()) return std::nullopt;
  Terms terms;
  terms.owner = owner;
  terms.count = static_cast<unsigned>(gpus.count());
  terms.eligible = gpus;
  return grant_new(terms, gpus, now);
}

void Core::reach(Ticket ticket, const GpuSet& eligible) {
  const auto found = waiting_.find(ticket);
  if (found == waiting_.end()) return;
  found->second.terms.eligible = eligible & known_;
  unsettled_ = true;
}

Effects Core::cancel(Ticket ticket, TimePoint now) {
  Effects effects;
  if (waiting_.erase(ticket) > 0) schedule(now, effects);
  return effects;
}

Effects Core::release(Ticket ticket, TimePoint now) {
  Effects effects;
  const auto found = live_.find(ticket);
  if (found == live_.end() || found->second.stage != Claim::Stage::held) return effects;
  if (fairness_.drains) {
    found->second.stage = Claim::Stage::draining;
    return effects;
  }
  let_go(found);
  schedule(now, effects);
  return effects;
}

Effects Core::freed(Ticket ticket, TimePoint now) {
  Effects effects;
  const auto found = live_.find(ticket);
  if (found == live_.end() || found->second.stage != Claim::Stage::draining) return effects;
  let_go(found);
  schedule(now, effects);
  return effects;
}

Effects Core::advance(TimePoint now) {
  Effects effects;
  bool changed = unsettled_;
  for (auto& [ticket, claim] : live_) {
    const auto ends = claim.ends();
    if (!ends || now < *ends) continue;
    changed = true;
    // An owner who released in time is not to blame for what drains.
    claim.late = claim.stage == Claim::Stage::draining;
    if (claim.late) continue;
    claim.overdue = true;
    mistrusted_[claim.terms.owner] = later(now, kTrustLost);
    effects.overdue.push_back(ticket);
  }
  const auto forgiven =
      std::erase_if(mistrusted_, [now](const auto& one) { return one.second <= now; });
  if (changed || forgiven > 0) schedule(now, effects);
  return effects;
}

std::optional<TimePoint> Core::next_due() const {
  std::optional<TimePoint> next;
  for (const auto& [ticket, claim] : live_) {
    const auto ends = claim.ends();
    if (ends && (!next || *ends < *next)) next = ends;
  }
  for (const auto& [owner, until] : mistrusted_) {
    if (!next || until < *next) next = until;
  }
  return next;
}

const Claim* Core::find(Ticket ticket) const {
  if (const auto found = waiting_.find(ticket); found != waiting_.end()) return &found->second;
  const auto found = live_.find(ticket);
  return found == live_.end() ? nullptr : &found->second;
}

std::optional<Ticket> Core::holder(Slot slot) const {
  if (slot >= kMostGpus || !taken_[slot]) return std::nullopt;
  for (const auto& [ticket, claim] : live_) {
    if (claim.gpus[slot]) return ticket;
  }
  return std::nullopt;
}

namespace {

constexpr std::int64_t kAllOfIt = INT64_MAX;

}  // namespace

GpuSet Core::in_service() const {
  GpuSet all = known_;
  each_slot(known_, [&](Slot slot) {
    if (!gpus_[slot].now.in_service) all.reset(slot);
  });
  return all;
}

// Returns the GPUs that nobody has and that may be handed out.
GpuSet Core::open_gpus() const {
  GpuSet open = known_ & ~taken_;
  each_slot(open, [&](Slot slot) {
    const Condition& now = gpus_[slot].now;
    if (!now.in_service || now.squatted) open.reset(slot);
  });
  return open;
}

// Returns what the claim could have if everything were released.
GpuSet Core::attainable(const Terms& terms, const GpuSet& open, const GpuSet& in_service) const {
  return usable(terms, open) | (terms.eligible & in_service & taken_);
}

GpuSet Core::usable(const Terms& terms, GpuSet of) const {
  of &= terms.eligible;
  if (terms.min_free_bytes == 0) return of;
  each_slot(of, [&](Slot slot) {
    if (gpus_[slot].now.free_bytes.value_or(0) < terms.min_free_bytes) of.reset(slot);
  });
  return of;
}

bool Core::over_quota(const Terms& terms) const {
  if (fairness_.most_gpus_of_owner == 0) return false;
  const auto found = held_by_.find(terms.owner);
  const unsigned held = found == held_by_.end() ? 0 : found->second;
  return held + terms.count > fairness_.most_gpus_of_owner;
}

Claim& Core::grant(Claims::node_type node, const GpuSet& gpus, TimePoint now) {
  Claim& claim = node.mapped();
  claim.stage = Claim::Stage::held;
  claim.gpus = gpus;
  claim.fence = ++last_fence_;
  claim.granted = now;
  taken_ |= gpus;
  held_by_[claim.terms.owner] += static_cast<unsigned>(gpus.count());
  return live_.insert(std::move(node)).position->second;
}

Ticket Core::grant_new(const Terms& terms, const GpuSet& gpus, TimePoint now) {
  Claims one;
  Claim& claim = one[++last_ticket_];
  claim.ticket = last_ticket_;
  claim.terms = terms;
  unsettled_ = true;  // its owner may be at the quota now, and others wait behind its claims
  return grant(one.extract(one.begin()), gpus, now).ticket;
}

void Core::let_go(Claims::iterator over) {
  const Claim& claim = over->second;
  taken_ &= ~claim.gpus;
  // The free memory beside a holder does not tell how much is free after it. Its processes have
  // been seen to end, so all of the memory is free until the next reading.
  each_slot(claim.gpus, [&](Slot slot) { gpus_[slot].now.free_bytes = kAllOfIt; });
  const auto held = held_by_.find(claim.terms.owner);
  held->second -= static_cast<unsigned>(claim.gpus.count());
  if (held->second == 0) held_by_.erase(held);
  live_.erase(over);
}

}  // namespace gpuyard::lease
