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
BootSegment clip_to_query(const DaemonRun& run, std::vector<Bucket> buckets, const Query& question,
                          std::int64_t length_ms) {
  std::erase_if(buckets, [&](const Bucket& bucket) {
    const std::int64_t wall_ms = bucket.at_ms + run.wall_offset_ms;
    return wall_ms + std::max<std::int64_t>(length_ms, 1) <= question.from_ms ||
           wall_ms >= question.until_ms;
  });
  return {run.boot_id, run.wall_offset_ms, std::move(buckets)};
}

struct SourceData {
  Resolution resolution = Resolution::reading;
  std::vector<BootSegment> segments;
};

class SegmentFinder {
 public:
  SegmentFinder(const PreparedQuery& lookup, MinuteStorage& store, std::vector<std::string>& notes)
      : prepared_(lookup), query_(lookup.query), storage_(store), notes_(notes) {}

  SourceData find() {
    const std::int64_t from_ms = query_.from_ms - prepared_.run.wall_offset_ms;
    if (from_ms >= prepared_.readings_since_ms) return find_in_readings();
    if (from_ms >= prepared_.ten_seconds_since_ms) return find_in_buckets();
    SourceData stored = find_in_minutes();
    if (!stored.segments.empty()) return stored;
    // The store has nothing: the resolution in memory that reaches back further is best.
    return prepared_.readings_since_ms <= prepared_.ten_seconds_since_ms ? find_in_readings()
                                                                         : find_in_buckets();
  }

 private:
  // Boot time of the present run, a minute early: part_of() cuts.
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

  // Finds no stretch if the store has nothing.
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

Extent extent_of(const std::vector<BootSegment>& stretches) {
  Extent extent;
  for (const BootSegment& stretch : stretches) {
    if (stretch.buckets.empty()) continue;
    extent.count += stretch.buckets.size();
    extent.first_ms =
        std::min(extent.first_ms, stretch.buckets.front().at_ms + stretch.wall_offset_ms);
    extent.last_ms =
        std::max(extent.last_ms, stretch.buckets.back().at_ms + stretch.wall_offset_ms);
  }
  return extent;
}

// Returns the step in ms; 0: the readings as they are.
std::int64_t choose_step(const Query& question, const Extent& extent, std::int64_t bucket_ms) {
  if (question.step_ms > 0) return std::max(question.step_ms, bucket_ms);
  if (extent.count <= question.points) return bucket_ms;
  // One step is spared, because both ends may be in the middle of a step.
  const auto points = static_cast<std::int64_t>(std::max<std::uint64_t>(question.points, 2)) - 1;
  const std::int64_t least = (extent.last_ms - extent.first_ms) / points + 1;
  return round_step(std::max(least, bucket_ms));
}

// Returns the newest reading, if it is kept; else the mean of the bucket it became part of.
std::optional<double> last_of(const PreparedQuery& lookup,
                              const std::vector<BootSegment>& stretches) {
  const std::int64_t offset = lookup.run.wall_offset_ms;
  const auto readings =
      lookup.readings.points(lookup.query.from_ms - offset, lookup.query.until_ms - offset);
  if (!readings.empty()) return static_cast<double>(readings.back().value);
  for (auto stretch = stretches.rbegin(); stretch != stretches.rend(); ++stretch) {
    if (!stretch->buckets.empty()) return stretch->buckets.back().aggregate.mean();
  }
  return std::nullopt;
}

void add_notes(QueryResult& answer, const PreparedQuery& lookup) {
  const std::int64_t offset = lookup.run.wall_offset_ms;
  if (answer.covers_since_ms > answer.query.from_ms + kMinuteMs) {
    // In whole seconds, so that GPUs whose data begins in the same second have the same note.
    const std::string since = time_text(answer.covers_since_ms);
    answer.notes.push_back("no data before " + since.substr(0, since.find('.')) + "Z");
  }
  if (answer.resolution == Resolution::minute) {
    answer.notes.push_back(
        fmt::format("ten-second means are available since {}, single readings since {}",
                    time_text(lookup.ten_seconds_since_ms + offset),
                    time_text(lookup.readings_since_ms + offset)));
  }
  for (const ClockStep& step : lookup.run.clock_steps) {
    if (step.at_ms + offset < answer.query.from_ms) continue;
    answer.notes.push_back(
        fmt::format("the clock was set {} by {} s at {}; times are shown by the current clock",
                    step.by_ms > 0 ? "forward" : "back",
                    static_cast<double>(step.by_ms > 0 ? step.by_ms : -step.by_ms) / 1000,
                    time_text(step.at_ms + offset)));
  }
}

}  // namespace

namespace {

constexpr std::int64_t kMaxMissedReadings = 3;  // a value is good until so many have failed to come

}  // namespace

std::int64_t max_age_of(std::int64_t cadence_ms) {
  return kMinuteMs + kMaxMissedReadings * cadence_ms;
}

std::optional<std::int64_t> value_at(const QueryResult& answer, std::int64_t at_ms) {
  const std::int64_t reach =
      length_of(answer.resolution) + kMaxMissedReadings * cadence_of(answer.query.row->metric);
  if (answer.points.empty()) return std::nullopt;
  const TimelinePoint& last = answer.points.back();
  if (last.aggregate.count == 0 || at_ms - last.wall_ms > reach) return std::nullopt;
  if (answer.query.row->kind == MetricKind::counter) return last.aggregate.max;
  return std::llround(last.aggregate.mean());
}

QueryResult execute_query(const PreparedQuery& lookup, MinuteStorage& store) {
  QueryResult out;
  out.query = lookup.query;
  out.notes = store.notes();
  const SourceData found = SegmentFinder(lookup, store, out.notes).find();
  out.resolution = found.resolution;
  const std::int64_t bucket_ms = length_of(found.resolution);
  const Extent extent = extent_of(found.segments);
  out.step_ms = choose_step(lookup.query, extent, bucket_ms);
  out.points = timeline(found.segments, {lookup.cadence_ms, bucket_ms, out.step_ms});
  for (const BootSegment& stretch : found.segments) {
    for (const Bucket& bucket : stretch.buckets) out.aggregate.add(bucket.aggregate);
  }
  out.last = last_of(lookup, found.segments);
  const std::int64_t since_ms = found.resolution == Resolution::reading
                                    ? lookup.readings_since_ms
                                    : lookup.ten_seconds_since_ms;
  const bool stored = found.resolution == Resolution::minute;
  out.covers_since_ms = std::max(lookup.query.from_ms,
                                 stored ? extent.first_ms : since_ms + lookup.run.wall_offset_ms);
  add_notes(out, lookup);
  return out;
}

}  // namespace gpuyard::history
