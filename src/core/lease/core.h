// Who gets which GPU: order, fairness and placement. Pure: told what happens and when, it says what
// follows. It knows no disk, thread, clock, process or driver; a copy of it is a whole state.
#pragma once

#include <bitset>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <boost/describe.hpp>

#include "base/clock.h"
#include "base/result.h"
#include "base/shares.h"

namespace gpuyard::lease {

inline constexpr std::size_t kMostGpus = 256;

using Slot = std::size_t;               // of a GPU, as long as it is known here
using GpuSet = std::bitset<kMostGpus>;  // of slots
using Ticket = std::uint64_t;           // the order of arrival; names a claim while it lives
using Fence = std::uint64_t;            // the order of grants; never the same twice

// The end of time instead of more than that.
inline TimePoint later(TimePoint from, Duration by) {
  return by > TimePoint::max() - from ? TimePoint::max() : from + by;
}

// What is known of a GPU now.
struct Condition {
  bool in_service = true;                  // else it is not handed out: cordoned, lost, ...
  bool squatted = false;                   // somebody uses it outside any lease
  std::optional<std::int64_t> free_bytes;  // not known: taken for enough
  std::optional<std::int64_t> temperature_c;

  friend bool operator==(const Condition&, const Condition&) = default;
};

struct Gpu {
  std::string key;                      // whose order breaks ties
  std::optional<unsigned> clique = {};  // of GPUs that are all linked with each other
  std::optional<unsigned> numa_node = {};
  Condition now = {};
  bool known = true;  // else a slot that is free

  friend bool operator==(const Gpu&, const Gpu&) = default;
};

// What a claim asks for.
struct Terms {
  std::uint32_t owner = 0;  // a user
  unsigned count = 1;
  GpuSet eligible;                       // what it could ever use
  std::int64_t min_free_bytes = 0;       // on each
  std::optional<Duration> longest = {};  // how long it says to hold them at most

  friend bool operator==(const Terms&, const Terms&) = default;
};

struct Claim {
  enum class Stage : std::uint8_t { waiting, held, draining };
  Ticket ticket = 0;
  Terms terms;
  Stage stage = Stage::waiting;
  GpuSet gpus = {};
  Fence fence = 0;
  TimePoint granted = {};
  unsigned passed = 0;   // how many later claims were let by, of kPasses
  bool overdue = false;  // held longer than it said
  bool late = false;     // drains, and should have been over by now

  // When it is over at the latest, if it keeps to what it said.
  std::optional<TimePoint> ends() const;
  friend bool operator==(const Claim&, const Claim&) = default;
};

struct Fairness {
  // Nobody passes anybody who wants the same GPUs.
  bool strict = false;
  unsigned most_gpus_of_owner = 0;  // at a time; 0: no limit
  // A release is not the end: what ran on the GPUs has to be seen gone (Core::freed).
  bool drains = false;

  friend bool operator==(const Fairness&, const Fairness&) = default;
};

// What follows from an event. Claims that are over can be found no more.
struct Effects {
  std::vector<Ticket> granted;  // in this order
  std::vector<Ticket> overdue;
  std::vector<Ticket> passed;  // their count has changed

  bool empty() const { return granted.empty() && overdue.empty() && passed.empty(); }
  friend bool operator==(const Effects&, const Effects&) = default;
};

// Why somebody waits.
enum class Hindrance : std::uint8_t {
  busy,            // others have the GPUs
  behind_earlier,  // free ones are kept for somebody who came before
  quota,           // its owner has as many as one may have
  out_of_service,  // cordoned, quarantined or lost
  squatted,        // used outside any lease
  memory,          // too little of it is free
  not_open,        // nobody gets anything now
};
BOOST_DESCRIBE_ENUM(Hindrance, busy, behind_earlier, quota, out_of_service, squatted, memory,
                    not_open)

struct Outlook {
  Ticket ticket = 0;
  std::size_t position = 0;  // 1 is next, among those who want the same GPUs
  Hindrance why = Hindrance::busy;
  std::optional<TimePoint> expected = {};  // if everybody keeps to what he said

  friend bool operator==(const Outlook&, const Outlook&) = default;
};

// A claim gets all its GPUs at once or none. Claims are served in the order in which they came. A
// later one goes first only if
// (a) it uses GPUs that the earlier one cannot use now, which are all if it could not begin even
//     when everybody let go: too few are in service, or its owner has as many as one may have; or
// (b) it says to be done before the earlier one could begin; or
// (c) nobody can say when that is, the earlier one wants more than one GPU, and fewer than kPasses
//     claims have passed it so.
// Against whom that holds: the first that waits of each class, which is a set of GPUs it could use
// and the memory it wants free; of an owner the first kMostHeadsOfOwner classes, so that nobody
// stops the others by wanting many things at once. What is passed by (b) is not kept waiting longer
// by it.
class Core {
 public:
  static constexpr unsigned kPasses = 16;
  // Whoever holds GPUs longer than he said passes nobody by (b) for so long.
  static constexpr Duration kTrustLost = std::chrono::hours(24);
  // So many classes wait side by side; whoever wants something else has all to himself that he
  // could use.
  static constexpr std::size_t kMostHeads = shares::kHeads;
  static constexpr std::size_t kMostHeadsOfOwner = shares::kHeadsOfOwner;

  explicit Core(Fairness fairness = {}) : fairness_(fairness) {}

  // The GPUs. Errc::busy: no slot is left.
  Result<Slot> add(Gpu);
  // Only one that nobody holds. Claims that could use it wait for others. What follows from this
  // for others does so at the next event, as after try_claim(), adopt() and reach().
  void remove(Slot);
  void locate(Slot, std::optional<unsigned> clique, std::optional<unsigned> numa_node);
  Effects set(Slot, Condition, TimePoint now);

  // Nobody gets anything until open(): so long it is made from what was kept.
  void close() { open_ = false; }
  Effects open(TimePoint now);
  // A claim as it was: kept somewhere, and found again.
  void restore(Claim);
  void restore_counters(Ticket last_ticket, Fence last_fence);
  // Of an owner whose lease was overdue and is no more here.
  void restore_mistrust(std::uint32_t owner, TimePoint until);

  // Errc::invalid: it can never be granted, and why.
  Result<void> possible(const Terms&) const;
  // Takes its place in the queue, and perhaps its GPUs. `terms` are possible.
  Ticket claim(const Terms& terms, TimePoint now, Effects&);
  // Never waits, and passes nobody by (b) or (c).
  std::optional<Ticket> try_claim(const Terms& terms, TimePoint now);
  // Exactly these GPUs, whatever is said of them and whoever waits: somebody uses them already.
  // Nothing, if one of them is taken.
  std::optional<Ticket> adopt(std::uint32_t owner, const GpuSet& gpus, TimePoint now);
  // What a claim that waits could use, anew: there are other GPUs.
  void reach(Ticket, const GpuSet& eligible);
  // One that waits. What is not there, or does not wait, is left as it is.
  Effects cancel(Ticket, TimePoint now);
  // One that is held: the GPUs are free, or drain.
  Effects release(Ticket, TimePoint now);
  // One that drains: its processes were seen gone.
  Effects freed(Ticket, TimePoint now);
  // Time passes. What may follow is due at next_due().
  Effects advance(TimePoint now);
  std::optional<TimePoint> next_due() const;

  const std::map<Ticket, Claim>& waiting() const { return waiting_; }
  const std::map<Ticket, Claim>& live() const { return live_; }  // held and draining
  const Claim* find(Ticket) const;
  const std::vector<Gpu>& gpus() const { return gpus_; }
  GpuSet known() const { return known_; }
  // The claim that has the GPU.
  std::optional<Ticket> holder(Slot) const;
  Ticket last_ticket() const { return last_ticket_; }
  Fence last_fence() const { return last_fence_; }
  const Fairness& fairness() const { return fairness_; }
  // Of the first `most` that wait, in order.
  std::vector<Outlook> outlooks(TimePoint now, std::size_t most = SIZE_MAX) const;

  friend bool operator==(const Core&, const Core&) = default;

 private:
  using Claims = std::map<Ticket, Claim>;
  struct Head;      // the first of its class that waits
  struct Round;     // the queue, gone through once
  struct Forecast;  // what waiting claims may expect

  // What there is (core.cpp).
  GpuSet in_service() const;
  GpuSet open_gpus() const;
  GpuSet usable(const Terms&, GpuSet of) const;
  GpuSet attainable(const Terms&, const GpuSet& open, const GpuSet& in_service) const;
  bool over_quota(const Terms&) const;
  Claim& grant(Claims::node_type, const GpuSet& gpus, TimePoint now);
  Ticket grant_new(const Terms&, const GpuSet& gpus, TimePoint now);
  void let_go(Claims::iterator);
  // Who is next (order.cpp).
  void schedule(TimePoint now, Effects&);
  bool serve_next(TimePoint now, Effects&);
  GpuSet choose(const Claim&, const Round&) const;
  bool may_begin(const Terms&, const GpuSet& open, const GpuSet& in_service) const;
  void wait(Claim&, Round&) const;
  static void note_passes(const GpuSet&, const Round&, Effects&);
  bool may_pass(const Claim&, const Head&, TimePoint now) const;
  bool shut(const Head&) const;
  bool trusted(std::uint32_t owner, TimePoint now) const;
  std::optional<TimePoint> reservation(const Claim&, const GpuSet& usable_now) const;
  // What they may expect (outlook.cpp).
  Hindrance hindrance(const Claim&, const Forecast&) const;
  std::vector<TimePoint> free_times(TimePoint now) const;
  std::optional<TimePoint> begin_of(const Claim&, Forecast&) const;

  Fairness fairness_;
  bool open_ = true;
  std::vector<Gpu> gpus_;
  GpuSet known_;
  GpuSet taken_;  // held or draining
  Claims waiting_;
  Claims live_;
  bool unsettled_ = false;                         // who waits may be served, and nobody has looked
  std::map<std::uint32_t, unsigned> held_by_;      // GPUs by owner
  std::map<std::uint32_t, TimePoint> mistrusted_;  // by owner, until when
  Ticket last_ticket_ = 0;
  Fence last_fence_ = 0;
};

// `count` of `usable`, which are enough: whole cliques first, of one NUMA node, then the coolest.
GpuSet place(const std::vector<Gpu>&, const GpuSet& usable, unsigned count);

// The slots in the set, in order.
template <class Visit>
void each_slot(const GpuSet& set, Visit&& visit) {
  for (Slot slot = set._Find_first(); slot < set.size(); slot = set._Find_next(slot)) visit(slot);
}

}  // namespace gpuyard::lease
