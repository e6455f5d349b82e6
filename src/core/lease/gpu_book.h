// The GPUs as leasing sees them: which slot of the core each has, and why one is not handed out.
// Pure state on the io thread.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "lease/archive.h"
#include "lease/core.h"
#include "lease/observer.h"

namespace gpuyard::lease {

// A GPU as telemetry knows it.
struct PoolGpu {
  DeviceInfo info;
  std::optional<unsigned> clique = {};  // all linked with each other
  std::optional<unsigned> numa_node = {};
  // Why it may not be handed out: "lost", "mig_enabled", ...; "" if it may.
  std::string withheld = {};
  std::string text = {};  // the same as a sentence
  std::optional<std::int64_t> total_bytes = {};
  std::optional<std::int64_t> free_bytes = {};
  std::int64_t drawing_bytes = 0;  // what is used by processes that only draw on a screen
  std::optional<std::int64_t> temperature_c = {};
};

// A word and a sentence.
using Withholding = std::pair<std::string, std::string>;

class GpuBook {
 public:
  // A driver itself uses less than this part of a GPU's memory. Who uses more, and does not only
  // draw, is somebody, listed or not: a container sees no processes of its neighbours.
  static constexpr std::int64_t kIdlePart = 10;

  explicit GpuBook(Core& core) : core_(core) {}

  // All GPUs that there are. What is gone and nobody's is forgotten.
  void know(const std::vector<PoolGpu>&);
  // The slot of a GPU that a lease has, though nobody has told of it yet.
  std::optional<Slot> slot_of(const DeviceId&);
  void cordon(Cordon);
  void uncordon(const DeviceId& gpu) { cordons_.erase(gpu); }
  // It was looked who uses it; nobody gets a GPU before.
  void looked_at(const DeviceId& gpu) { looked_at_.insert(gpu); }
  // Of those that are fit.
  std::vector<DeviceId> not_looked_at() const;
  // Known, and not withheld for what it is itself.
  bool fit(const DeviceId&) const;
  // Not there any more, or not to be reached: it holds nobody's memory, and nobody gets it.
  bool lost(const DeviceId&) const;
  // Who uses it outside any lease.
  void seen(const DeviceId&, std::vector<Seen>, TimePoint now, bool leased);
  // Since when it is known that this process does; nothing: it was not seen yet. One that was there
  // at the first look has done so since it began, for all that is known. The time in which the GPU
  // was somebody's does not count.
  std::optional<TimePoint> outside_since(const DeviceId&, const Process&) const;
  // What of its memory is used but for drawing, newer than know() may have told it.
  void use(const DeviceId&, std::int64_t used_bytes);
  // The core is another: every GPU has a new slot. Who cordoned what is told anew.
  void start_over();

  Condition condition(const DeviceId&) const;
  GpuSet eligible(const Wish&) const;
  std::vector<DeviceId> names(const GpuSet&) const;  // in the order of their indexes
  std::optional<Withholding> withheld(const DeviceId&) const;

  const std::map<DeviceId, Slot>& slots() const { return slots_; }
  std::vector<DeviceId> ids() const;  // of those that have one
  const std::map<DeviceId, PoolGpu>& gpus() const { return gpus_; }
  const std::map<DeviceId, Cordon>& cordons() const { return cordons_; }
  const std::map<DeviceId, std::vector<Seen>>& outside() const { return outside_; }
  bool complete() const { return complete_; }  // somebody has told of the GPUs

 private:
  // A process may be missed by a look or two.
  static constexpr Duration kMissed = std::chrono::seconds(10);
  struct Stay {
    TimePoint since;
    TimePoint seen;  // last
  };

  void place(const PoolGpu&);
  std::optional<std::int64_t> hidden_bytes(const DeviceId&) const;

  Core& core_;
  std::map<DeviceId, Slot> slots_;
  std::map<DeviceId, PoolGpu> gpus_;
  std::map<DeviceId, Cordon> cordons_;
  std::map<DeviceId, std::vector<Seen>> outside_;
  std::set<DeviceId> looked_at_;
  std::set<DeviceId> seen_;  // of which a list was ever read
  std::map<DeviceId, std::map<Process, Stay>> outside_since_;
  bool complete_ = false;
};

}  // namespace gpuyard::lease
