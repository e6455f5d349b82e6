#include "core/history/prepared_query.h"

#include <algorithm>
#include <array>
#include <cmath>

#include <fmt/format.h>

namespace gpuyard::history {

namespace {

std::int64_t length_of(Resolution resolution) {
  if (resolution == Resolution::reading) return 0;
  return resolution == Resolution::ten_seconds ? kTenSecondsMs : kMinuteMs;
}

std::string time_text(std::int64_t wall_ms) {
  return to_rfc3339(WallTime(std::chrono::milliseconds(wall_ms)));
}

// Returns the buckets in [from, until) of the wall clock.
BootSegment clip_to_query(const DaemonRun& run, std::vector<Bucket> buckets, const Query& query,
                          std::int64_t length_ms) {
  std::erase_if(buckets, [&](const Bucket& bucket) {
    const std::int64_t wall_ms = bucket.at_ms + run.wall_offset_ms;
    return wall_ms + std::max<std::int64_t>(length_ms, 1) <= query.from_ms ||
           wall_ms >= query.until_ms;
  });
  return {run.boot_id, run.wall_offset_ms, std::move(buckets)};
}

struct SourceData {
  Resolution resolution = Resolution::reading;
  std::vector<BootSegment> segments;
};

class SegmentFinder {
 public:
  SegmentFinder(const PreparedQuery& prepared, MinuteStorage& storage,
                std::vector<std::string>& notes)
      : prepared_(prepared), query_(prepared.query), storage_(storage), notes_(notes) {}

  SourceData find() {
    const std::int64_t from_ms = query_.from_ms - prepared_.run.wall_offset_ms;
    if (from_ms >= prepared_.readings_since_ms) return find_in_readings();
    if (from_ms >= prepared_.ten_seconds_since_ms) return find_in_buckets();
    SourceData stored = find_in_minutes();
    if (!stored.segments.empty()) return stored;
    // The storage has nothing: the resolution in memory that reaches back further is best.
    return prepared_.readings_since_ms <= prepared_.ten_seconds_since_ms ? find_in_readings()
                                                                         : find_in_buckets();
  }

 private:
  // Boot time of the present run, a minute early: clip_to_query() cuts.
  std::int64_t memory_from() const {
    return query_.from_ms - prepared_.run.wall_offset_ms - kMinuteMs;
  }
  std::int64_t memory_until() const { return query_.until_ms - prepared_.run.wall_offset_ms; }

  SourceData find_in_readings() const {
    auto points = to_buckets(prepared_.readings.points(memory_from(), memory_until()));
    return {Resolution::reading, {clip_to_query(prepared_.run, std::move(points), query_, 0)}};
  }
  SourceData find_in_buckets() const {
    auto tens = prepared_.ten_second_buckets.points(memory_from(), memory_until());
    return {Resolution::ten_seconds,
            {clip_to_query(prepared_.run, std::move(tens), query_, kTenSecondsMs)}};
  }

  // Finds no segment if the storage has nothing.
  SourceData find_in_minutes() {
    SourceData found{Resolution::minute, {}};
    const SeriesKey key{query_.uuid, json_key(*query_.row), query_.element};
    auto stored = storage_.get(prepared_.run, key, query_.from_ms, query_.until_ms);
    if (!stored) {
      notes_.push_back("the history on disk cannot be read: " + stored.error().text());
      return found;
    }
    for (RunMinutes& past : *stored) {
      if (past.present) {
        std::erase_if(past.buckets, [&](const Bucket& bucket) {
          return bucket.at_ms >= prepared_.minutes_since_ms;
        });
      }
      BootSegment part = clip_to_query(past.run, std::move(past.buckets), query_, kMinuteMs);
      if (!part.buckets.empty()) found.segments.push_back(std::move(part));
    }
    if (found.segments.empty()) return found;
    const std::int64_t from_ms = std::max(memory_from(), prepared_.minutes_since_ms);
    auto newest =
        downsample(prepared_.ten_second_buckets.points(from_ms, memory_until()), kMinuteMs);
    found.segments.push_back(clip_to_query(prepared_.run, std::move(newest), query_, kMinuteMs));
    return found;
  }

  const PreparedQuery& prepared_;
  const Query& query_;
  MinuteStorage& storage_;
  std::vector<std::string>& notes_;
};

// Wall time of the first and the last bucket.
struct Extent {
  std::size_t count = 0;
  std::int64_t first_ms = INT64_MAX;
  std::int64_t last_ms = INT64_MIN;
};

Extent extent_of(const std::vector<BootSegment>& segments) {
  Extent extent;
  for (const BootSegment& segment : segments) {
    if (segment.buckets.empty()) continue;
    extent.count += segment.buckets.size();
    extent.first_ms =
        std::min(extent.first_ms, segment.buckets.front().at_ms + segment.wall_offset_ms);
    extent.last_ms =
        std::max(extent.last_ms, segment.buckets.back().at_ms + segment.wall_offset_ms);
  }
  return extent;
}

// Returns the step in ms; 0: the readings as they are.
std::int64_t choose_step(const Query& query, const Extent& extent, std::int64_t bucket_ms) {
  if (query.step_ms > 0) return std::max(query.step_ms, bucket_ms);
  if (extent.count <= query.points) return bucket_ms;
  // One step is spared, because both ends may be in the middle of a step.
  const auto points = static_cast<std::int64_t>(std::max<std::uint64_t>(query.points, 2)) - 1;
  const std::int64_t min_step = (extent.last_ms - extent.first_ms) / points + 1;
  return round_step(std::max(min_step, bucket_ms));
}

// Returns the newest reading, if it is in memory; else the mean of the bucket it became part of.
std::optional<double> last_of(const PreparedQuery& prepared,
                              const std::vector<BootSegment>& segments) {
  const std::int64_t offset = prepared.run.wall_offset_ms;
  const auto readings =
      prepared.readings.points(prepared.query.from_ms - offset, prepared.query.until_ms - offset);
  if (!readings.empty()) return static_cast<double>(readings.back().value);
  for (auto segment = segments.rbegin(); segment != segments.rend(); ++segment) {
    if (!segment->buckets.empty()) return segment->buckets.back().aggregate.mean();
  }
  return std::nullopt;
}

void add_notes(QueryResult& result, const PreparedQuery& prepared) {
  const std::int64_t offset = prepared.run.wall_offset_ms;
  if (result.covers_since_ms > result.query.from_ms + kMinuteMs) {
    // In whole seconds, so that GPUs whose data begins in the same second have the same note.
    const std::string since = time_text(result.covers_since_ms);
    result.notes.push_back("no data before " + since.substr(0, since.find('.')) + "Z");
  }
  if (result.resolution == Resolution::minute) {
    result.notes.push_back(
        fmt::format("ten-second means are available since {}, single readings since {}",
                    time_text(prepared.ten_seconds_since_ms + offset),
                    time_text(prepared.readings_since_ms + offset)));
  }
  for (const ClockStep& step : prepared.run.clock_steps) {
    if (step.at_ms + offset < result.query.from_ms) continue;
    result.notes.push_back(
        fmt::format("the clock was set {} by {} s at {}; times are shown by the current clock",
                    step.by_ms > 0 ? "forward" : "back",
                    static_cast<double>(step.by_ms > 0 ? step.by_ms : -step.by_ms) / 1000,
                    time_text(step.at_ms + offset)));
  }
}

constexpr std::int64_t kMaxMissedReadings = 3;  // a value is good until so many have failed to come

}  // namespace

std::int64_t max_age_of(std::int64_t cadence_ms) {
  return kMinuteMs + kMaxMissedReadings * cadence_ms;
}

std::optional<std::int64_t> value_at(const QueryResult& result, std::int64_t at_ms) {
  const std::int64_t reach =
      length_of(result.resolution) + kMaxMissedReadings * cadence_of(result.query.row->metric);
  if (result.points.empty()) return std::nullopt;
  const TimelinePoint& last = result.points.back();
  if (last.aggregate.count == 0 || at_ms - last.wall_ms > reach) return std::nullopt;
  if (result.query.row->kind == MetricKind::counter) return last.aggregate.max;
  return std::llround(last.aggregate.mean());
}

QueryResult execute_query(const PreparedQuery& prepared, MinuteStorage& storage) {
  QueryResult out;
  out.query = prepared.query;
  out.notes = storage.notes();
  const SourceData found = SegmentFinder(prepared, storage, out.notes).find();
  out.resolution = found.resolution;
  const std::int64_t bucket_ms = length_of(found.resolution);
  const Extent extent = extent_of(found.segments);
  out.step_ms = choose_step(prepared.query, extent, bucket_ms);
  out.points = timeline(found.segments, {prepared.cadence_ms, bucket_ms, out.step_ms});
  for (const BootSegment& segment : found.segments) {
    for (const Bucket& bucket : segment.buckets) out.aggregate.add(bucket.aggregate);
  }
  out.last = last_of(prepared, found.segments);
  const std::int64_t since_ms = found.resolution == Resolution::reading
                                    ? prepared.readings_since_ms
                                    : prepared.ten_seconds_since_ms;
  const bool stored = found.resolution == Resolution::minute;
  out.covers_since_ms = std::max(prepared.query.from_ms,
                                 stored ? extent.first_ms : since_ms + prepared.run.wall_offset_ms);
  add_notes(out, prepared);
  return out;
}

}  // namespace gpuyard::history
