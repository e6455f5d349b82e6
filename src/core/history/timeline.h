// Points of a series as a person asked for them: on the wall clock, in steps of a length, with a
// mark where there are none. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/clock.h"
#include "history/block.h"
#include "history/rings.h"

namespace gpuyard::history {

// A part of a series with one boot clock.
struct Stretch {
  std::string boot_id;
  std::int64_t wall_offset_ms = 0;
  std::vector<Bucket> buckets;
};

struct TimelinePoint {
  std::int64_t wall_ms = 0;  // the begin of its step
  Aggregate of;              // count 0: from here on there is nothing

  friend bool operator==(const TimelinePoint&, const TimelinePoint&) = default;
};

struct Grain {
  std::int64_t cadence_ms = 0;  // between two readings
  std::int64_t bucket_ms = 0;   // length of the buckets; 0: each is a reading
  std::int64_t step_ms = 0;     // length of what is wanted; no longer than a bucket: as they are
};

// Readings as buckets of one value.
std::vector<Bucket> as_buckets(const std::vector<Point>&);
// Shorter buckets that begin in the same span, as one.
std::vector<Bucket> coarser(const std::vector<Bucket>&, std::int64_t length_ms);

// In the order of the stretches and of the boot clock in each. A point of count 0 stands once for
// each spell in which at least one reading is known to be missing, and between two boots.
std::vector<TimelinePoint> timeline(const std::vector<Stretch>&, const Grain&);

// What the clock on the wall says of a moment of the boot clock. Points carry boot time alone, and
// the newest offset of a boot tells all of its points: a clock that is set moves them together, and
// neither doubles nor reorders one.

// The clock was set.
struct ClockStep {
  std::int64_t at_ms = 0;  // boot time
  std::int64_t by_ms = 0;  // forward, or less than 0

  friend bool operator==(const ClockStep&, const ClockStep&) = default;
};

// The life of one daemon, or what is known of one that ended.
struct DaemonRun {
  std::string boot_id;
  std::int64_t wall_offset_ms = 0;  // wall time less boot time
  std::vector<ClockStep> steps;
  std::int64_t first_ms = 0;  // boot time of what it kept
  std::int64_t last_ms = 0;

  friend bool operator==(const DaemonRun&, const DaemonRun&) = default;
};

class WallClock {
 public:
  explicit WallClock(std::string boot_id) { run_.boot_id = std::move(boot_id); }

  // Both clocks at one moment.
  void note(TimePoint now, WallTime wall);
  // The present run; `first_ms` and `last_ms` of what was noted.
  const DaemonRun& run() const { return run_; }

 private:
  DaemonRun run_;
  bool noted_ = false;
};

inline constexpr std::size_t kMaxClockSteps = 16;

// Runs from the oldest to the newest: those of one boot are told by its newest offset; a boot that
// seems to end after the next one began, because its clock was wrong, is moved back before it.
void settle(std::vector<DaemonRun>& runs);

}  // namespace gpuyard::history
