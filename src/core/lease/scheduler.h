// Decides who gets which GPU: order, fairness and placement. Pure: the caller reports what happens
// and when, and it returns what follows. It knows no disk, thread, clock, process or driver; a copy
// of it is a whole state.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include <boost/describe.hpp>

#include "base/clock.h"
#include "base/limits.h"
#include "base/result.h"
#include "core/lease/gpu_allocations.h"

namespace gpuyard::lease {

struct Fairness {
  // No claim overtakes an earlier one that could use the same GPUs.
  bool strict = false;
  unsigned max_gpus_per_owner = 0;  // at a time; 0: no limit
  // A released claim drains: its GPUs are free only once its processes were seen gone
  // (Scheduler::finish_drain).
  bool drains = false;

  friend bool operator==(const Fairness&, const Fairness&) = default;
};

// The consequences of an event. Ended claims are no longer found.
struct Effects {
  std::vector<Ticket> granted;  // in this order
  std::vector<Ticket> overdue;
  std::vector<Ticket> overtaken;  // their count has changed

  bool empty() const { return granted.empty() && overdue.empty() && overtaken.empty(); }
  friend bool operator==(const Effects&, const Effects&) = default;
};

// The reason why a claim waits.
enum class WaitReason : std::uint8_t {
  busy,            // other claims have the GPUs
  behind_earlier,  // free GPUs are reserved for an earlier claim
  quota,           // its owner has as many GPUs as a user may have
  out_of_service,  // cordoned, quarantined or lost
  squatted,        // used outside any lease
  memory,          // too little memory is free
  not_open,        // nothing is granted now
};
BOOST_DESCRIBE_ENUM(WaitReason, busy, behind_earlier, quota, out_of_service, squatted, memory,
                    not_open)

struct QueuePosition {
  Ticket ticket = 0;
  std::size_t position = 0;  // 1 is next, among claims for the same GPUs
  WaitReason reason = WaitReason::busy;
  std::optional<TimePoint> expected_start = {};  // if every holder keeps to what was said

  friend bool operator==(const QueuePosition&, const QueuePosition&) = default;
};

// A claim gets all its GPUs at once or none. Claims are served in the order in which they came. A
// later claim goes first only if
// (a) it uses GPUs that the earlier one cannot use now. These are all GPUs if the earlier one
//     could not start even with everything released: too few are in service, or its owner is at
//     the quota; or
// (b) it says that it will end before the earlier one could start; or
// (c) that time is not known, the earlier one requests more than one GPU, and fewer than
//     kMaxOvertakes claims have overtaken it this way.
// The rule protects the head of each class, its first waiting claim. A class is a set of GPUs that
// a claim could use and the memory it requests. Only the first kMaxHeadsPerOwner classes of an
// owner are protected, so that no owner blocks the others with many kinds of claims. Overtaking by
// (b) does not make the earlier claim wait longer.
class Scheduler {
 public:
  static constexpr unsigned kMaxOvertakes = 16;
  // An owner's claims overtake no other by (b) for this long after one was held longer than
  // said.
  static constexpr Duration kOverduePenalty = std::chrono::hours(24);
  // The number of classes protected side by side. GPUs that claims of further classes could use go
  // to no later claim.
  static constexpr std::size_t kMaxHeads = limits::kMaxHeads;
  static constexpr std::size_t kMaxHeadsPerOwner = limits::kMaxHeadsPerOwner;

  explicit Scheduler(Fairness fairness = {})
      : fairness_(fairness), allocations_(fairness.max_gpus_per_owner) {}

  // Adds a GPU. Errc::busy: no slot is left.
  Result<Slot> add(Gpu gpu) { return allocations_.add(std::move(gpu)); }
  // Removes a GPU that no claim holds. Claims that could use it wait for others. The
  // effects on other claims follow at the next event, as it does after try_claim(), adopt() and
  // set_eligible().
  void remove(Slot);
  void set_topology(Slot slot, std::optional<unsigned> clique, std::optional<unsigned> numa_node) {
    allocations_.set_topology(slot, clique, numa_node);
  }
  Effects set_availability(Slot, GpuAvailability, TimePoint now);

  // Grants nothing until open(), while the scheduler is restored.
  void close() { open_ = false; }
  Effects open(TimePoint now);
  // Takes over a claim as it was saved.
  void restore(Claim);
  void restore_counters(Ticket last_ticket, Fence last_fence);
  // Takes over the penalty of an owner whose overdue lease is gone.
  void restore_penalty(std::uint32_t owner, TimePoint until);

  // Errc::invalid: the claim can never be granted, and why.
  Result<void> check_satisfiable(const GpuRequest&) const;
  // Puts a claim in the queue, and perhaps grants its GPUs. REQUIRES: check_satisfiable(request).
  Ticket claim(const GpuRequest& request, TimePoint now, Effects&);
  // Returns the GPUs from which a claim without waiting is served now; none if they are too few.
  // Such a claim overtakes no other by (b) or (c).
  GpuSet available_gpus(const GpuRequest&) const;
  // Claims without waiting.
  std::optional<Ticket> try_claim(const GpuRequest& request, TimePoint now);
  // Grants exactly these GPUs, in any condition and past all waiting claims, because a process uses
  // them already. Returns nothing if one of them is taken.
  std::optional<Ticket> adopt(std::uint32_t owner, const GpuSet& gpus, TimePoint now);
  // Updates what a waiting claim could use, because the GPUs have changed.
  void set_eligible(Ticket, const GpuSet& eligible);
  // Ends a waiting claim. Does nothing for any other.
  Effects cancel(Ticket, TimePoint now);
  // Ends a held claim: its GPUs are free, or drain.
  Effects release(Ticket, TimePoint now);
  // Ends a draining claim: its processes were seen gone.
  Effects finish_drain(Ticket, TimePoint now);
  // Lets time pass.
  Effects advance(TimePoint now);

  const std::map<Ticket, Claim>& waiting_claims() const { return waiting_; }
  const GpuAllocations& allocations() const { return allocations_; }
  const Claim* find(Ticket) const;
  Ticket last_ticket() const { return last_ticket_; }
  Fence last_fence() const { return last_fence_; }
  const Fairness& fairness() const { return fairness_; }
  // Returns the positions of the first `limit` waiting claims, in order.
  std::vector<QueuePosition> queue_positions(TimePoint now, std::size_t limit = SIZE_MAX) const;

  friend bool operator==(const Scheduler&, const Scheduler&) = default;

 private:
  struct Round;     // one pass through the queue
  struct Forecast;  // what waiting claims may expect

  void schedule(TimePoint now, Effects&);
  bool grant_next(TimePoint now, Effects&);
  void grant(Claim, const GpuSet& gpus, TimePoint now);
  Ticket grant_new(const GpuRequest&, const GpuSet& gpus, TimePoint now);

  Fairness fairness_;
  bool open_ = true;
  GpuAllocations allocations_;
  std::map<Ticket, Claim> waiting_;
  bool needs_scheduling_ = false;  // the queue was not scheduled since a change
  std::map<std::uint32_t, TimePoint> penalized_until_;  // by owner, until when
  Ticket last_ticket_ = 0;
  Fence last_fence_ = 0;
};

}  // namespace gpuyard::lease
