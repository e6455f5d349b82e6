// The processes that use GPUs without a lease, and since when. Pure state.
//
// Thread: io.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "base/clock.h"
#include "core/lease/process_observer.h"

namespace gpuyard::lease {

class UnleasedProcesses {
 public:
  using ProcessesByGpu = std::map<DeviceId, std::vector<ObservedProcess>>;

  // Where an allocator has the GPUs, a process without a lease counts as unleased after this time:
  // the report of its job may come later than the process.
  static constexpr Duration kReportDelay = std::chrono::seconds(30);

  // Accepts the unleased processes of a GPU. `observes`: an allocator has the GPUs. Returns the
  // known ones that were not there before.
  std::vector<ObservedProcess> update(const DeviceId&, std::vector<ObservedProcess> unleased,
                                      bool is_leased, bool observes, TimePoint now);
  void remove_absent(const std::set<DeviceId>& present);
  void clear();

  const ProcessesByGpu& all() const { return processes_; }  // no GPU has an empty list
  // Returns since when this process is known to use the GPU; nothing if it was not seen yet. A
  // process that was there at the first observation counts from its start. The time in which the
  // GPU was leased does not count.
  std::optional<TimePoint> since(const DeviceId&, const ProcessKey&) const;

 private:
  // A process that is missing from the lists counts as present for this long.
  static constexpr Duration kMissingGrace = std::chrono::seconds(10);
  struct Use {
    TimePoint since;
    TimePoint last_seen_at;
  };

  ProcessesByGpu processes_;
  std::set<DeviceId> listed_;  // GPUs whose list was read at least once
  std::map<DeviceId, std::map<ProcessKey, Use>> uses_;
};

}  // namespace gpuyard::lease
