// Who is next: order, and who may pass whom.
#include <algorithm>
#include <vector>

#include "lease/core.h"

namespace gpuyard::lease {

struct Core::Head {
  Claim* claim;
  GpuSet reach;                       // free GPUs that it could use, and waits for more of
  std::optional<TimePoint> reserved;  // when it could begin, if all keep to what they said
};

struct Core::Round {
  TimePoint now;
  GpuSet open;  // free, and may be handed out
  GpuSet in_service;
  GpuSet kept;  // for heads that nobody may pass
  std::vector<Head> heads;
  GpuSet beyond;  // what those could use now who come after kMostHeads others: nobody else has it
};

std::optional<Ticket> Core::try_claim(const Terms& terms, TimePoint now) {
  if (!open_ || !possible(terms) || over_quota(terms)) return std::nullopt;
  const GpuSet free = open_gpus();
  const GpuSet in_service_now = in_service();
  GpuSet left = usable(terms, free);
  for (const auto& [ticket, earlier] : waiting_) {
    if (left.count() < terms.count) return std::nullopt;
    if (may_begin(earlier.terms, free, in_service_now)) left &= ~usable(earlier.terms, free);
  }
  if (left.count() < terms.count) return std::nullopt;
  return grant_new(terms, place(gpus_, left, terms.count), now);
}

// Looks anew after each grant, which may change what others keep back: who reaches his quota keeps
// nothing, and who passes somebody may tell when that one begins.
void Core::schedule(TimePoint now, Effects& effects) {
  if (!open_) return;
  unsettled_ = false;
  while (!waiting_.empty() && serve_next(now, effects)) {
  }
}

// The first in the queue who may have GPUs now gets them, if there is one.
bool Core::serve_next(TimePoint now, Effects& effects) {
  Round round{now, open_gpus(), in_service(), {}, {}, {}};
  for (auto here = waiting_.begin(); here != waiting_.end(); ++here) {
    if ((round.open & ~round.kept).none()) return false;
    Claim& claim = here->second;
    if (over_quota(claim.terms)) continue;
    const GpuSet gpus = choose(claim, round);
    if (gpus.any()) {
      note_passes(gpus, round, effects);
      effects.granted.push_back(claim.ticket);
      grant(waiting_.extract(here), gpus, now);
      return true;
    }
    wait(claim, round);
  }
  return false;
}

// Whoever waits with one of these GPUs, and is passed by (c), counts it.
void Core::note_passes(const GpuSet& gpus, const Round& round, Effects& effects) {
  for (const Head& head : round.heads) {
    if (head.reserved || (head.reach & gpus).none()) continue;
    ++head.claim->passed;
    const Ticket passed = head.claim->ticket;
    if (std::ranges::find(effects.passed, passed) == effects.passed.end()) {
      effects.passed.push_back(passed);
    }
  }
}

// What it gets; nothing if it has to wait. What nobody waits with comes first.
GpuSet Core::choose(const Claim& claim, const Round& round) const {
  const GpuSet reach = usable(claim.terms, round.open) & ~round.beyond;
  if (reach.count() < claim.terms.count) return {};
  GpuSet untouched = reach;
  GpuSet mine = reach;
  for (const Head& head : round.heads) {
    untouched &= ~head.reach;
    if (!may_pass(claim, head, round.now)) mine &= ~head.reach;
  }
  const GpuSet& from = untouched.count() >= claim.terms.count ? untouched : mine;
  return from.count() < claim.terms.count ? GpuSet{} : place(gpus_, from, claim.terms.count);
}

// Whether it would have its GPUs if everybody let go.
bool Core::may_begin(const Terms& terms, const GpuSet& open, const GpuSet& in_service) const {
  return !over_quota(terms) && attainable(terms, open, in_service).count() >= terms.count;
}

// It keeps back what it could use, if it is the first of its class and could begin at all, and its
// owner does not keep back enough already.
void Core::wait(Claim& claim, Round& round) const {
  const Terms& terms = claim.terms;
  std::size_t of_owner = 0;
  for (const Head& head : round.heads) {
    const Terms& other = head.claim->terms;
    if (other.eligible == terms.eligible && other.min_free_bytes == terms.min_free_bytes) return;
    if (other.owner == terms.owner) ++of_owner;
  }
  if (of_owner >= kMostHeadsOfOwner) return;
  if (!may_begin(terms, round.open, round.in_service)) return;
  const GpuSet reach = usable(terms, round.open);
  if (round.heads.size() == kMostHeads) {
    round.beyond |= reach;
    round.kept |= reach;
    return;
  }
  const bool enough = reach.count() >= terms.count;
  round.heads.push_back({&claim, reach, enough ? std::nullopt : reservation(claim, reach)});
  if (shut(round.heads.back())) round.kept |= reach;
}

bool Core::may_pass(const Claim& claim, const Head& head, TimePoint now) const {
  if (shut(head)) return false;
  if (!head.reserved) return true;
  return claim.terms.longest && later(now, *claim.terms.longest) <= *head.reserved &&
         trusted(claim.terms.owner, now);
}

// Whether nobody at all may pass it.
bool Core::shut(const Head& head) const {
  if (fairness_.strict) return true;
  return !head.reserved && (head.claim->terms.count == 1 || head.claim->passed >= kPasses);
}

bool Core::trusted(std::uint32_t owner, TimePoint now) const {
  const auto found = mistrusted_.find(owner);
  return found == mistrusted_.end() || found->second <= now;
}

// When it could begin, if all who said how long they hold keep to it.
std::optional<TimePoint> Core::reservation(const Claim& head, const GpuSet& usable_now) const {
  const std::size_t missing = head.terms.count - usable_now.count();
  std::vector<TimePoint> ends;
  for (const auto& [ticket, claim] : live_) {
    const auto end = claim.ends();
    if (!end) continue;
    each_slot(claim.gpus & head.terms.eligible, [&](Slot slot) {
      if (gpus_[slot].now.in_service) ends.push_back(*end);
    });
  }
  if (ends.size() < missing) return std::nullopt;
  std::sort(ends.begin(), ends.end());
  return ends[missing - 1];
}

}  // namespace gpuyard::lease
