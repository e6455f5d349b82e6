// Points of a series as a person asked for them: on the wall clock, in steps of a length, with a
// mark where there are none. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "history/block.h"

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

}  // namespace gpuyard::history
