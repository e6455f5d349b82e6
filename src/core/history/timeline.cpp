#include "core/history/timeline.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <limits>
#include <map>

#include <fmt/format.h>

#include "core/history/rings.h"

namespace gpuyard::history {
namespace {

// The buckets that became one point: the first and the last, both by their begin.
struct Group {
  const BootSegment* segment = nullptr;
  std::int64_t first_ms = 0;
  std::int64_t last_ms = 0;
  TimelinePoint point;
};

std::vector<Group> groups_of(const std::vector<BootSegment>& segments, const Grain& grain) {
  std::vector<Group> groups;
  const bool as_they_are = grain.step_ms <= std::max<std::int64_t>(grain.bucket_ms, 1);
  for (const BootSegment& segment : segments) {
    for (const Bucket& bucket : segment.buckets) {
      const std::int64_t wall_ms = bucket.at_ms + segment.wall_offset_ms;
      const std::int64_t begin_ms = as_they_are ? wall_ms : span_begin(wall_ms, grain.step_ms);
      if (groups.empty() || begin_ms != groups.back().point.wall_ms ||
          groups.back().segment->boot_id != segment.boot_id) {
        groups.push_back({&segment, bucket.at_ms, bucket.at_ms, {begin_ms, {}}});
      }
      groups.back().last_ms = bucket.at_ms;
      groups.back().point.aggregate.add(bucket.aggregate);
    }
  }
  return groups;
}

bool is_gap(const Group& before, const Group& after, const Grain& grain) {
  if (before.segment->boot_id != after.segment->boot_id) return true;
  // The shortest possible time between the last reading of one and the first of the other.
  const std::int64_t between = after.first_ms - before.last_ms - grain.bucket_ms;
  return between > grain.cadence_ms + grain.cadence_ms / 2;
}

// The offset is taken over once it has moved this far, in ms. Less is the time between two
// system calls, or a clock that is slewed: following it would move the points at every query.
constexpr std::int64_t kMinOffsetChangeMs = 100;
// A move of the offset that means that the clock was set, in ms.
constexpr std::int64_t kMinClockStepMs = 1000;

}  // namespace

std::vector<Bucket> to_buckets(const std::vector<Point>& points) {
  std::vector<Bucket> out;
  out.reserve(points.size());
  for (const Point& point : points) out.push_back({point.at_ms, Aggregate::of(point.value)});
  return out;
}

std::vector<Bucket> downsample(const std::vector<Bucket>& buckets, std::int64_t length_ms) {
  std::vector<Bucket> out;
  for (const Bucket& bucket : buckets) {
    const std::int64_t begin_ms = span_begin(bucket.at_ms, length_ms);
    if (out.empty() || out.back().at_ms != begin_ms) out.push_back({begin_ms, {}});
    out.back().aggregate.add(bucket.aggregate);
  }
  return out;
}

std::vector<TimelinePoint> timeline(const std::vector<BootSegment>& segments, const Grain& grain) {
  std::vector<TimelinePoint> out;
  const Group* before = nullptr;
  const auto groups = groups_of(segments, grain);
  for (const Group& group : groups) {
    if (before != nullptr && is_gap(*before, group, grain)) {
      const std::int64_t length = std::max(grain.bucket_ms, grain.cadence_ms);
      const std::int64_t ended = before->last_ms + length + before->segment->wall_offset_ms;
      // A gap that is shorter than the step has no moment of its own.
      if (ended > out.back().wall_ms && ended < group.point.wall_ms) out.push_back({ended, {}});
    }
    out.push_back(group.point);
    before = &group;
  }
  return out;
}

void WallClock::update(TimePoint now, WallTime wall) {
  const std::int64_t at_ms = to_milliseconds(now.time_since_epoch());
  const std::int64_t offset = wall.time_since_epoch().count() - at_ms;
  const std::int64_t moved = offset - run_.wall_offset_ms;
  if (!has_offset_) run_.first_ms = at_ms;
  if (has_offset_ && std::abs(moved) >= kMinClockStepMs) {
    if (run_.clock_steps.size() == kMaxClockSteps) run_.clock_steps.erase(run_.clock_steps.begin());
    run_.clock_steps.push_back({at_ms, moved});
  }
  if (!has_offset_ || std::abs(moved) >= kMinOffsetChangeMs) run_.wall_offset_ms = offset;
  run_.last_ms = at_ms;
  has_offset_ = true;
}

void align_runs(std::vector<DaemonRun>& runs) {
  std::map<std::string, std::int64_t> offsets;
  std::int64_t next_began = std::numeric_limits<std::int64_t>::max();  // wall time of the next boot
  std::int64_t began = next_began;                                     // wall time of this boot
  const std::string* boot = nullptr;
  for (auto run = runs.rbegin(); run != runs.rend(); ++run) {
    if (boot == nullptr || *boot != run->boot_id) next_began = began;
    boot = &run->boot_id;
    const auto [known, fresh] = offsets.try_emplace(run->boot_id, run->wall_offset_ms);
    std::int64_t& offset = known->second;
    if (fresh && run->last_ms + offset >= next_began) offset = next_began - run->last_ms - 1;
    run->wall_offset_ms = offset;
    began = run->first_ms + offset;
  }
}

}  // namespace gpuyard::history
