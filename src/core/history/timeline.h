// The points of a result: on the wall clock, in steps of a length, with a mark at each gap. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/proc_stat.h"
#include "core/history/block.h"
#include "core/history/rings.h"

namespace gpuyard::history {

// A part of a series with one boot clock.
struct BootSegment {
  std::string boot_id;
  std::int64_t wall_offset_ms = 0;
  std::vector<Bucket> buckets;
};

struct TimelinePoint {
  std::int64_t wall_ms = 0;  // the begin of its step
  Aggregate aggregate;       // count 0: a gap begins here

  friend bool operator==(const TimelinePoint&, const TimelinePoint&) = default;
};

struct Grain {
  std::int64_t cadence_ms = 0;  // between two readings
  std::int64_t bucket_ms = 0;   // length of the buckets; 0: each is a reading
  std::int64_t step_ms = 0;     // length of a point; if not over bucket_ms, each bucket is a point
};

// Turns readings into buckets of one value.
std::vector<Bucket> to_buckets(const std::vector<Point>&);
// Merges the buckets that begin in the same span of `length_ms`.
std::vector<Bucket> downsample(const std::vector<Bucket>&, std::int64_t length_ms);

// Returns points in the order of the segments, and of the boot clock in each. One point of count 0
// stands for each gap in which at least one reading is known to be missing, and between two boots.
std::vector<TimelinePoint> timeline(const std::vector<BootSegment>&, const Grain&);

// One time at which the clock was set.
struct ClockStep {
  std::int64_t at_ms = 0;  // boot time
  std::int64_t by_ms = 0;  // below 0: back

  friend bool operator==(const ClockStep&, const ClockStep&) = default;
};

// One run of the daemon, or the data that are kept of an earlier run.
struct DaemonRun {
  std::string boot_id;
  std::int64_t wall_offset_ms = 0;  // wall time less boot time
  std::vector<ClockStep> clock_steps;
  std::int64_t first_ms = 0;  // boot time of its first data
  std::int64_t last_ms = 0;

  friend bool operator==(const DaemonRun&, const DaemonRun&) = default;
};

// Turns boot time into wall time. Points carry only boot time, and the newest offset of a boot
// applies to all of its points: a clock that is set moves them together, and neither doubles nor
// reorders one.
class WallClock {
 public:
  explicit WallClock(std::string boot_id) { run_.boot_id = std::move(boot_id); }

  // Records both clocks of one moment.
  void update(TimePoint now, WallTime wall);
  // Returns the present run; `first_ms` and `last_ms` are of the moments passed to update().
  const DaemonRun& run() const { return run_; }

 private:
  DaemonRun run_;
  bool has_offset_ = false;
};

inline constexpr std::size_t kMaxClockSteps = 16;

// Takes runs from the oldest to the newest. Gives all runs of one boot its newest offset. A boot
// that seems to end after the next one began, because its clock was wrong, is moved before it.
void align_runs(std::vector<DaemonRun>& runs);

}  // namespace gpuyard::history
