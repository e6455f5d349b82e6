#include "history/timeline.h"

#include <algorithm>

#include "history/series.h"

namespace gpuyard::history {
namespace {

// What became one point: the buckets from the first to the last, both by their begin.
struct Group {
  const Stretch* in = nullptr;
  std::int64_t first_ms = 0;
  std::int64_t last_ms = 0;
  TimelinePoint point;
};

std::vector<Group> groups_of(const std::vector<Stretch>& stretches, const Grain& grain) {
  std::vector<Group> groups;
  const bool as_they_are = grain.step_ms <= std::max<std::int64_t>(grain.bucket_ms, 1);
  for (const Stretch& stretch : stretches) {
    for (const Bucket& bucket : stretch.buckets) {
      const std::int64_t wall_ms = bucket.at_ms + stretch.wall_offset_ms;
      const std::int64_t begin_ms = as_they_are ? wall_ms : span_begin(wall_ms, grain.step_ms);
      if (groups.empty() || begin_ms != groups.back().point.wall_ms ||
          groups.back().in->boot_id != stretch.boot_id) {
        groups.push_back({&stretch, bucket.at_ms, bucket.at_ms, {begin_ms, {}}});
      }
      groups.back().last_ms = bucket.at_ms;
      groups.back().point.of.add(bucket.of);
    }
  }
  return groups;
}

bool is_gap(const Group& before, const Group& after, const Grain& grain) {
  if (before.in->boot_id != after.in->boot_id) return true;
  // The least that can lie between the last reading of one and the first of the other.
  const std::int64_t between = after.first_ms - before.last_ms - grain.bucket_ms;
  return between > grain.cadence_ms + grain.cadence_ms / 2;
}

}  // namespace

std::vector<Bucket> as_buckets(const std::vector<Point>& points) {
  std::vector<Bucket> out;
  out.reserve(points.size());
  for (const Point& point : points) out.push_back({point.at_ms, Aggregate::of(point.value)});
  return out;
}

std::vector<Bucket> coarser(const std::vector<Bucket>& buckets, std::int64_t length_ms) {
  std::vector<Bucket> out;
  for (const Bucket& bucket : buckets) {
    const std::int64_t begin_ms = span_begin(bucket.at_ms, length_ms);
    if (out.empty() || out.back().at_ms != begin_ms) out.push_back({begin_ms, {}});
    out.back().of.add(bucket.of);
  }
  return out;
}

std::vector<TimelinePoint> timeline(const std::vector<Stretch>& stretches, const Grain& grain) {
  std::vector<TimelinePoint> out;
  const Group* before = nullptr;
  const auto groups = groups_of(stretches, grain);
  for (const Group& group : groups) {
    if (before != nullptr && is_gap(*before, group, grain)) {
      const std::int64_t length = std::max(grain.bucket_ms, grain.cadence_ms);
      const std::int64_t ended = before->last_ms + length + before->in->wall_offset_ms;
      // Where the step is longer than the gap, no moment of its own is left to it.
      if (ended > out.back().wall_ms && ended < group.point.wall_ms) out.push_back({ended, {}});
    }
    out.push_back(group.point);
    before = &group;
  }
  return out;
}

}  // namespace gpuyard::history
