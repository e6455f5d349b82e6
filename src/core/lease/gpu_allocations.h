// The GPUs of a pool, and the claims that have them. Pure state: a copy of it is a whole one.
#pragma once

#include <bitset>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"

namespace gpuyard::lease {

inline constexpr std::size_t kMaxGpus = 256;

using Slot = std::size_t;              // of a GPU, as long as the scheduler knows it
using GpuSet = std::bitset<kMaxGpus>;  // of slots
using Ticket = std::uint64_t;          // the order of arrival; names a claim while it lives
using Fence = std::uint64_t;           // the order of grants; never used twice

// Returns `from + by`, or the end of time where that would overflow.
inline TimePoint saturating_add(TimePoint from, Duration by) {
  return by > TimePoint::max() - from ? TimePoint::max() : from + by;
}

// The known availability of a GPU now.
struct GpuAvailability {
  bool in_service = true;                  // if not, it is withheld: cordoned, lost, ...
  bool in_unleased_use = false;            // used outside any lease
  std::optional<std::int64_t> free_bytes;  // empty: not known, which is never enough
  std::optional<std::int64_t> temperature_c;

  friend bool operator==(const GpuAvailability&, const GpuAvailability&) = default;
};

struct Gpu {
  std::string key;                      // breaks ties, by its order
  std::optional<unsigned> clique = {};  // a set of GPUs that are all linked with each other
  std::optional<unsigned> numa_node = {};
  GpuAvailability availability = {};
  bool known = true;  // if not, the slot is free

  friend bool operator==(const Gpu&, const Gpu&) = default;
};

// The request of a claim to the scheduler.
struct GpuRequest {
  std::uint32_t owner = 0;  // a user
  unsigned count = 1;
  GpuSet eligible;                             // GPUs that it could ever use
  std::int64_t min_free_bytes = 0;             // on each
  std::optional<Duration> max_hold_time = {};  // how long it says to hold its GPUs at most

  friend bool operator==(const GpuRequest&, const GpuRequest&) = default;
};

struct Claim {
  enum class Stage : std::uint8_t { waiting, held, draining };
  Ticket ticket = 0;
  GpuRequest request;
  Stage stage = Stage::waiting;
  GpuSet gpus = {};
  Fence fence = 0;
  TimePoint granted_at = {};
  unsigned overtakes = 0;  // later claims that overtook it by (c), up to kMaxOvertakes
  bool overdue = false;    // held longer than its owner said
  bool late = false;       // drains, and was expected to have ended by now

  // Returns when the claim ends at the latest, if its owner keeps to what was said.
  std::optional<TimePoint> expected_end() const;
  friend bool operator==(const Claim&, const Claim&) = default;
};

// Calls visit(slot) for each slot of the set, in order.
template <class Visit>
void for_each_slot(const GpuSet& set, Visit&& visit) {
  for (Slot slot = set._Find_first(); slot < set.size(); slot = set._Find_next(slot)) visit(slot);
}

// Each GPU is taken by one claim at most, which holds it or drains.
class GpuAllocations {
 public:
  using Claims = std::map<Ticket, Claim>;

  // 0: no limit.
  explicit GpuAllocations(unsigned max_gpus_per_owner) : max_gpus_per_owner_(max_gpus_per_owner) {}

  // Errc::busy: no slot is left.
  Result<Slot> add(Gpu);
  // Removes a GPU that no claim has. Returns false if there is none.
  bool remove(Slot);
  void set_topology(Slot, std::optional<unsigned> clique, std::optional<unsigned> numa_node);
  // Returns whether that may change what claims get.
  bool set_availability(Slot, GpuAvailability);

  // Adds a claim whose GPUs are known and not taken.
  void insert(const Claim&);
  // Removes a claim, whose processes have ended.
  void release(Claims::iterator);

  const std::vector<Gpu>& gpus() const { return gpus_; }
  GpuSet known() const { return known_; }
  GpuSet taken() const { return taken_; }
  const Claims& claims() const { return claims_; }
  Claims& claims() { return claims_; }  // REQUIRES: each keeps its GPUs and its owner
  // Returns the claim that has the GPU.
  std::optional<Ticket> holder(Slot) const;

  GpuSet in_service() const;
  // Returns the free GPUs that may be leased.
  GpuSet open() const;
  // Returns the candidates that the claim could use.
  GpuSet usable(const GpuRequest&, GpuSet candidates) const;
  // Returns what the claim could have if everything were released.
  GpuSet attainable(const GpuRequest&, const GpuSet& open, const GpuSet& in_service) const;
  bool is_over_quota(const GpuRequest&) const;
  // Whether the claim would have its GPUs if everything were released.
  bool can_start(const GpuRequest&, const GpuSet& open, const GpuSet& in_service) const;

  friend bool operator==(const GpuAllocations&, const GpuAllocations&) = default;

 private:
  unsigned max_gpus_per_owner_;
  std::vector<Gpu> gpus_;
  GpuSet known_;
  GpuSet taken_;
  Claims claims_;
  std::map<std::uint32_t, unsigned> gpus_by_owner_;  // number of GPUs, by owner
};

}  // namespace gpuyard::lease
