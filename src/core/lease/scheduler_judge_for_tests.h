// The rules of scheduler.h, implemented once more: slowly, for one moment, and only from a
// scheduler's public state. Shows whether each grant was allowed, and whether a claim was
// forgotten.
#pragma once

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/lease/scheduler.h"

namespace gpuyard::lease {

// Owners who held GPUs longer than they said, and until when their claims overtake no other by
// time.
using OwnerPenalties = std::map<std::uint32_t, TimePoint>;

struct Moment {
  Fairness fairness;
  TimePoint now;
  std::vector<Gpu> gpus;
  std::map<Ticket, Claim> waiting;
  std::map<Ticket, Claim> live;
  OwnerPenalties penalties;

  Moment(const Scheduler& core, TimePoint at, OwnerPenalties distrusted)
      : fairness(core.fairness()),
        now(at),
        gpus(core.allocations().gpus()),
        waiting(core.waiting_claims()),
        live(core.allocations().claims()),
        penalties(std::move(distrusted)) {}

  const Claim* holder(Slot slot) const {
    for (const auto& [ticket, claim] : live) {
      if (claim.gpus[slot]) return &claim;
    }
    return nullptr;
  }
  bool fits(const GpuRequest& request, Slot slot) const {
    const Gpu& gpu = gpus[slot];
    return gpu.known && gpu.availability.in_service && request.eligible[slot];
  }
  bool usable_now(const GpuRequest& request, Slot slot) const {
    const GpuAvailability& now_ = gpus[slot].availability;
    return fits(request, slot) && holder(slot) == nullptr && !now_.in_unleased_use &&
           (request.min_free_bytes == 0 ||
            (now_.free_bytes && *now_.free_bytes >= request.min_free_bytes));
  }
  GpuSet usable(const GpuRequest& request) const {
    GpuSet set;
    for (Slot slot = 0; slot < gpus.size(); ++slot) set.set(slot, usable_now(request, slot));
    return set;
  }
  bool could_start_if_all_released(const GpuRequest& request) const {
    unsigned most = 0;
    for (Slot slot = 0; slot < gpus.size(); ++slot) {
      if (usable_now(request, slot) || (fits(request, slot) && holder(slot) != nullptr)) ++most;
    }
    return most >= request.count;
  }
  bool is_over_quota(const GpuRequest& request) const {
    unsigned has = request.count;
    for (const auto& [ticket, claim] : live) {
      if (claim.request.owner == request.owner) has += static_cast<unsigned>(claim.gpus.count());
    }
    return fairness.max_gpus_per_owner > 0 && has > fairness.max_gpus_per_owner;
  }
  bool can_reserve(const Claim& claim) const {
    return !is_over_quota(claim.request) && could_start_if_all_released(claim.request);
  }

  // Returns how many GPUs the claim could have at a time, if all keep to what they said.
  unsigned usable_at(const GpuRequest& request, TimePoint time) const {
    unsigned count = 0;
    for (Slot slot = 0; slot < gpus.size(); ++slot) {
      const Claim* by = holder(slot);
      if (by == nullptr) {
        count += usable_now(request, slot) ? 1 : 0;
      } else if (by->request.max_hold_time && !by->overdue && !by->late) {
        count += fits(request, slot) && by->granted_at + *by->request.max_hold_time <= time ? 1 : 0;
      }
    }
    return count;
  }
  // Returns nothing if the time is not known, or if the claim could start now and others hold it
  // back.
  std::optional<TimePoint> begins(const Claim& claim) const {
    if (usable(claim.request).count() >= claim.request.count) return std::nullopt;
    std::optional<TimePoint> soonest;
    for (const auto& [ticket, other] : live) {
      if (!other.request.max_hold_time) continue;
      const TimePoint end = other.granted_at + *other.request.max_hold_time;
      if (usable_at(claim.request, end) < claim.request.count) continue;
      soonest = std::min(soonest.value_or(end), end);
    }
    return soonest;
  }

  enum class Pass { no, by_time, by_patience };
  Pass overtake_kind(const Claim& late, const Claim& early) const {
    if (fairness.strict) return Pass::no;
    const auto begin = begins(early);
    if (begin) {
      const auto doubt = penalties.find(late.request.owner);
      const bool trusted = doubt == penalties.end() || doubt->second <= now;
      const bool done = late.request.max_hold_time && now + *late.request.max_hold_time <= *begin;
      return trusted && done ? Pass::by_time : Pass::no;
    }
    const bool patient = early.request.count > 1 && early.overtakes < 16;
    return patient ? Pass::by_patience : Pass::no;
  }

  // Returns the claims that reserve something against a later one: the first of each class, up to
  // eight of an owner.
  std::vector<Ticket> heads_before(Ticket ticket) const {
    std::vector<Ticket> firsts;
    for (const auto& [earlier, claim] : waiting) {
      if (earlier >= ticket || !can_reserve(claim)) continue;
      const GpuRequest& request = claim.request;
      const bool first = std::ranges::none_of(firsts, [&](Ticket other) {
        const GpuRequest& others = waiting.at(other).request;
        return others.eligible == request.eligible &&
               others.min_free_bytes == request.min_free_bytes;
      });
      const auto of_owner = std::ranges::count_if(
          firsts, [&](Ticket other) { return waiting.at(other).request.owner == request.owner; });
      if (first && of_owner < 8) firsts.push_back(earlier);
    }
    return firsts;
  }

  // Returns what is wrong with a grant of these GPUs now, and applies the grant.
  std::string grant(Ticket ticket, const Claim& granted) {
    const Claim late = waiting.at(ticket);
    const GpuSet& gpus_of = granted.gpus;
    if (gpus_of.count() != late.request.count) return "not all it wanted, or more";
    if ((gpus_of & ~usable(late.request)).any()) return "a GPU that it could not use";
    if (is_over_quota(late.request)) return "more than one user may have";
    for (const Ticket earlier : heads_before(ticket)) {
      Claim& early = waiting.at(earlier);
      if ((usable(early.request) & gpus_of).none()) continue;
      const Pass pass = overtake_kind(late, early);
      if (pass == Pass::no) return "passed " + std::to_string(earlier);
      if (pass == Pass::by_patience) ++early.overtakes;
    }
    waiting.erase(ticket);
    live[ticket] = granted;
    return "";
  }

  // Returns a waiting claim that may have GPUs now.
  std::optional<Ticket> find_forgotten_claim() const {
    for (const auto& [ticket, claim] : waiting) {
      if (is_over_quota(claim.request)) continue;
      GpuSet left = usable(claim.request);
      for (const Ticket earlier : heads_before(ticket)) {
        const Claim& early = waiting.at(earlier);
        if (overtake_kind(claim, early) == Pass::no) left &= ~usable(early.request);
      }
      if (left.count() >= claim.request.count) return ticket;
    }
    return std::nullopt;
  }

  // Returns the GPUs that a claim without waiting may take.
  GpuSet gpus_unwanted_by_waiting(const GpuRequest& request) const {
    GpuSet left = usable(request);
    for (const auto& [ticket, claim] : waiting) {
      if (can_reserve(claim)) left &= ~usable(claim.request);
    }
    return left;
  }
};

}  // namespace gpuyard::lease
