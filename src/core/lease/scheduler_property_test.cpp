// Properties that hold for all events in all orders: a GPU is in one lease only, no claim is
// overtaken that may not be, no claim is forgotten, and a restored scheduler equals the one that
// was saved.
//
// GPUYARD_CASES=100 runs 100 times as many cases; RC_PARAMS="seed=..." repeats a run.
#include <array>
#include <set>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>
#include <rapidcheck/state.h>

#include "base/property_for_tests.h"
#include "core/lease/scheduler.h"
#include "core/lease/scheduler_fixture_for_tests.h"
#include "core/lease/scheduler_judge_for_tests.h"

namespace gpuyard::lease {
namespace {

constexpr Slot kSlots = 6;
constexpr int kCases = 1000;

// A scheduler, and what its user knows of it.
class Node {
 public:
  explicit Node(Fairness fairness) : scheduler(fairness) {}

  // Checks the effects of any event but a grant.
  void check(const Effects& effects) {
    for (const Ticket ticket : effects.overdue) {
      penalties_[scheduler.find(ticket)->request.owner] = now + Scheduler::kOverduePenalty;
    }
    replay(effects);
    check_disjoint();
    RC_ASSERT(tickets(scheduler.waiting_claims()) == waiting_);
    RC_ASSERT(tickets(scheduler.allocations().claims()) == live_);
    const auto forgotten = Moment(scheduler, now, penalties_).find_forgotten_claim();
    if (forgotten) RC_FAIL("nobody served " + std::to_string(*forgotten));
  }

  void claim(const GpuRequest& request) {
    if (!scheduler.check_satisfiable(request)) return;
    Effects effects;
    const Ticket ticket = scheduler.claim(request, now, effects);
    RC_ASSERT(ticket > last_ticket_);
    last_ticket_ = ticket;
    waiting_.insert(ticket);
    check(effects);
  }

  void try_claim(const GpuRequest& request) {
    const Moment before(scheduler, now, penalties_);
    const GpuSet left = before.gpus_unwanted_by_waiting(request);
    const bool may = scheduler.check_satisfiable(request).ok() && !before.is_over_quota(request) &&
                     left.count() >= request.count;
    RC_ASSERT(scheduler.available_gpus(request) == (may ? left : GpuSet{}));
    const auto ticket = scheduler.try_claim(request, now);
    RC_ASSERT(ticket.has_value() == may);
    if (!ticket) return;
    const Claim& claim = *scheduler.find(*ticket);
    RC_ASSERT((claim.gpus & ~left).none());
    note_grant(claim);
    last_ticket_ = *ticket;
    check(scheduler.open(now));
  }

  void cancel(std::size_t nth) {
    if (waiting_.empty()) return;
    const Ticket ticket = *std::next(waiting_.begin(), static_cast<long>(nth % waiting_.size()));
    waiting_.erase(ticket);
    check(scheduler.cancel(ticket, now));
  }

  // Ends a held lease, or with `seen_gone` a draining one; does nothing to the other kind.
  void release(std::size_t nth, bool seen_gone) {
    if (live_.empty()) return;
    const Ticket ticket = *std::next(live_.begin(), static_cast<long>(nth % live_.size()));
    const bool drains = scheduler.find(ticket)->stage == Claim::Stage::draining;
    if (seen_gone == drains && (drains || !scheduler.fairness().drains)) live_.erase(ticket);
    check(seen_gone ? scheduler.finish_drain(ticket, now) : scheduler.release(ticket, now));
  }

  void pass(Duration time) {
    now += time;
    std::erase_if(penalties_, [&](const auto& one) { return one.second <= now; });
    check(scheduler.advance(now));
  }

  void remove(Slot slot) {
    if (slot >= scheduler.allocations().gpus().size() || scheduler.allocations().holder(slot))
      return;
    scheduler.remove(slot);
    check(scheduler.open(now));
  }

  // Kills the scheduler, and restores it from what a storage keeps.
  void crash() {
    Scheduler again(scheduler.fairness());
    again.close();
    for (const Gpu& gpu : scheduler.allocations().gpus()) (void)*again.add(gpu);
    for (Slot slot = 0; slot < scheduler.allocations().gpus().size(); ++slot) {
      if (!scheduler.allocations().gpus()[slot].known) again.remove(slot);
    }
    for (const auto& [ticket, claim] : scheduler.waiting_claims()) again.restore(claim);
    for (const auto& [ticket, claim] : scheduler.allocations().claims()) again.restore(claim);
    again.restore_counters(scheduler.last_ticket(), scheduler.last_fence());
    for (const auto& [owner, until] : penalties_) again.restore_penalty(owner, until);
    check(scheduler.open(now));
    RC_ASSERT(again.open(now).empty());
    RC_ASSERT(again == scheduler);
    scheduler = again;
  }

  Scheduler scheduler;
  TimePoint now{};

 private:
  static std::set<Ticket> tickets(const std::map<Ticket, Claim>& claims) {
    std::set<Ticket> all;
    for (const auto& [ticket, claim] : claims) all.insert(ticket);
    return all;
  }

  void note_grant(const Claim& claim) {
    RC_ASSERT(claim.fence > last_fence_);
    last_fence_ = claim.fence;
    RC_ASSERT(claim.granted_at == now);
    live_.insert(claim.ticket);
    waiting_.erase(claim.ticket);
  }

  // Repeats the grants one after the other, from the state before them.
  void replay(const Effects& effects) {
    Moment moment(scheduler, now, penalties_);
    for (const Ticket ticket : effects.granted) {
      RC_ASSERT(moment.live.count(ticket) == 1U);
      Claim claim = moment.live.extract(ticket).mapped();
      claim.gpus.reset();
      moment.waiting.emplace(ticket, claim);
    }
    for (auto& [ticket, claim] : moment.waiting) claim.overtakes = passed_[ticket];
    for (const Ticket ticket : effects.granted) {
      const Claim& claim = *scheduler.find(ticket);
      const std::string wrong = moment.grant(ticket, claim);
      if (!wrong.empty()) RC_FAIL(std::to_string(ticket) + ": " + wrong);
      note_grant(claim);
    }
    for (const auto& [ticket, claim] : scheduler.waiting_claims()) {
      RC_ASSERT(claim.overtakes == moment.waiting.at(ticket).overtakes);
      RC_ASSERT(claim.overtakes <= (claim.request.count == 1 ? 0U : Scheduler::kMaxOvertakes));
      passed_[ticket] = claim.overtakes;
    }
  }

  // Checks that a GPU is in one lease, a lease has all it requested, and a waiting claim has
  // nothing.
  void check_disjoint() const {
    GpuSet taken;
    for (const auto& [ticket, claim] : scheduler.allocations().claims()) {
      RC_ASSERT((claim.gpus & taken).none());
      RC_ASSERT(claim.gpus.count() == claim.request.count);
      RC_ASSERT((claim.gpus & ~scheduler.allocations().known()).none());
      taken |= claim.gpus;
    }
    for (const auto& [ticket, claim] : scheduler.waiting_claims()) RC_ASSERT(claim.gpus.none());
  }

  std::set<Ticket> waiting_;
  std::set<Ticket> live_;
  std::map<Ticket, unsigned> passed_;
  OwnerPenalties penalties_;
  Ticket last_ticket_ = 0;
  Fence last_fence_ = 0;
};

struct Nothing {};  // which action is possible depends on no state: an index wraps around
using SchedulerCommand = rc::state::Command<Nothing, Node>;

template <class T>
T one_of(std::vector<T> all) {
  return *rc::gen::elementOf(std::move(all));
}

struct Add : SchedulerCommand {
  Gpu gpu;
  Add() {
    gpu.key = "GPU-" + std::to_string(*rc::gen::inRange(0, 1000));
    gpu.clique = one_of<std::optional<unsigned>>({std::nullopt, 0, 1});
    gpu.numa_node = one_of<std::optional<unsigned>>({std::nullopt, 0, 1});
  }
  void run(const Nothing&, Node& node) const override {
    if (node.scheduler.allocations().known().count() < kSlots) (void)*node.scheduler.add(gpu);
  }
  void show(std::ostream& os) const override { os << "add " << gpu.key; }
};

struct Remove : SchedulerCommand {
  Slot slot = *rc::gen::inRange<Slot>(0, kSlots);
  void run(const Nothing&, Node& node) const override { node.remove(slot); }
  void show(std::ostream& os) const override { os << "remove " << slot; }
};

struct Change : SchedulerCommand {
  Slot slot = *rc::gen::inRange<Slot>(0, kSlots);
  GpuAvailability condition;
  Change() {
    condition.in_service = one_of<bool>({true, true, true, false});
    condition.in_unleased_use = one_of<bool>({false, false, false, true});
    condition.free_bytes = one_of<std::optional<std::int64_t>>({std::nullopt, 10, 20});
    condition.temperature_c = one_of<std::optional<std::int64_t>>({std::nullopt, 40, 60});
  }
  void run(const Nothing&, Node& node) const override {
    node.check(node.scheduler.set_availability(slot, condition, node.now));
  }
  void show(std::ostream& os) const override {
    os << "GPU " << slot << (condition.in_service ? "" : " out of service")
       << (condition.in_unleased_use ? " squatted" : "") << " free "
       << condition.free_bytes.value_or(-1);
  }
};

struct Claims : SchedulerCommand {
  bool waits = *rc::gen::weightedElement<bool>({{4, true}, {1, false}});
  GpuRequest request;
  Claims() {
    request.owner = *rc::gen::inRange<std::uint32_t>(1, 4);
    request.count = one_of<unsigned>({1, 1, 1, 2, 3, 4});
    request.eligible =
        GpuSet(one_of<unsigned>({63, 63, 63, 7, 56, 30, *rc::gen::inRange(1U, 64U)}));
    request.min_free_bytes = one_of<std::int64_t>({0, 0, 0, 15});
    request.max_hold_time = one_of<std::optional<Duration>>(
        {std::nullopt, std::nullopt, *rc::gen::inRange(1, 60) * kMinute});
  }
  void run(const Nothing&, Node& node) const override {
    waits ? node.claim(request) : node.try_claim(request);
  }
  void show(std::ostream& os) const override {
    os << (waits ? "claim " : "try ") << request.count << " of " << request.eligible.to_ulong()
       << " owner " << request.owner << " free " << request.min_free_bytes << " for "
       << (request.max_hold_time ? *request.max_hold_time / kMinute : -1);
  }
};

struct Cancel : SchedulerCommand {
  std::size_t nth = *rc::gen::inRange<std::size_t>(0, 50);
  void run(const Nothing&, Node& node) const override { node.cancel(nth); }
  void show(std::ostream& os) const override { os << "cancel " << nth; }
};

struct Release : SchedulerCommand {
  std::size_t nth = *rc::gen::inRange<std::size_t>(0, kSlots);
  bool seen_gone = *rc::gen::arbitrary<bool>();
  void run(const Nothing&, Node& node) const override { node.release(nth, seen_gone); }
  void show(std::ostream& os) const override { os << (seen_gone ? "freed " : "release ") << nth; }
};

struct Pass : SchedulerCommand {
  Duration time =
      one_of<Duration>({kMinute, 10 * kMinute, 60 * kMinute, Scheduler::kOverduePenalty});
  void run(const Nothing&, Node& node) const override { node.pass(time); }
  void show(std::ostream& os) const override { os << "pass " << time / kMinute << " min"; }
};

struct Crash : SchedulerCommand {
  void run(const Nothing&, Node& node) const override { node.crash(); }
  void show(std::ostream& os) const override { os << "crash"; }
};

// Frequent actions are listed several times.
const auto kAnything =
    rc::state::gen::execOneOfWithArgs<Add, Add, Remove, Change, Change, Claims, Claims, Claims,
                                      Claims, Claims, Claims, Cancel, Release, Release, Release,
                                      Release, Release, Release, Pass, Crash>();

void hold(const Fairness& fairness) {
  check_property(kCases, [&] {
    Node node(fairness);
    for (int i = 0; i < 3; ++i) (void)*node.scheduler.add(gpu_named(std::to_string(i)));
    rc::state::check(Nothing{}, node, kAnything);
  });
}

TEST(SchedulerProperty, BackfillKeepsItsRules) {
  RecordProperty("contract", "D4");
  hold({});
}

TEST(SchedulerProperty, StrictKeepsItsRules) {
  hold({.strict = true});
}

TEST(SchedulerProperty, DrainingKeepsInvariants) {
  hold({.drains = true});
}

TEST(SchedulerProperty, UserQuotaWithDrainingKeepsInvariants) {
  hold({.max_gpus_per_owner = 4, .drains = true});
}

}  // namespace
}  // namespace gpuyard::lease
