#include "core/history/prepared_query.h"

#include <algorithm>
#include <array>
#include <cmath>

#include <fmt/format.h>

namespace gpuyard::history {

namespace {

std::int64_t length_of(Resolution resolution) {
  if (resolution == Resolution::reading) return 0;
  return resolution == Resolution::ten_seconds ? kTensMs : kMinuteMs;
}

std::string time_text(std::int64_t wall_ms) {
  return to_rfc3339(WallTime(std::chrono::milliseconds(wall_ms)));
}

// Returns the buckets in [from, until) of the wall clock.
Stretch part_of(const DaemonRun& run, std::vector<Bucket> buckets, const Question& question,
                std::int64_t length_ms) {
  std::erase_if(buckets, [&](const Bucket& bucket) {
    const std::int64_t wall_ms = bucket.at_ms + run.wall_offset_ms;
    return wall_ms + std::max<std::int64_t>(length_ms, 1) <= question.from_ms ||
           wall_ms >= question.until_ms;
  });
  return {run.boot_id, run.wall_offset_ms, std::move(buckets)};
}

struct Found {
  Resolution resolution = Resolution::reading;
  std::vector<Stretch> stretches;
};

class Search {
 public:
  Search(const Lookup& lookup, Store& store, std::vector<std::string>& notes)
      : lookup_(lookup), question_(lookup.question), store_(store), notes_(notes) {}

  Found find() {
    const std::int64_t from_ms = question_.from_ms - lookup_.run.wall_offset_ms;
    if (from_ms >= lookup_.readings_since_ms) return in_readings();
    if (from_ms >= lookup_.tens_since_ms) return in_tens();
    Found stored = in_minutes();
    if (!stored.stretches.empty()) return stored;
    // The store has nothing: the resolution in memory that reaches back further is best.
    return lookup_.readings_since_ms <= lookup_.tens_since_ms ? in_readings() : in_tens();
  }

 private:
  // Boot time of the present run, a minute early: part_of() cuts.
  std::int64_t memory_from() const {
    return question_.from_ms - lookup_.run.wall_offset_ms - kMinuteMs;
  }
  std::int64_t memory_until() const { return question_.until_ms - lookup_.run.wall_offset_ms; }

  Found in_readings() const {
    auto points = as_buckets(lookup_.readings.points(memory_from(), memory_until()));
    return {Resolution::reading, {part_of(lookup_.run, std::move(points), question_, 0)}};
  }
  Found in_tens() const {
    auto tens = lookup_.tens.points(memory_from(), memory_until());
    return {Resolution::ten_seconds, {part_of(lookup_.run, std::move(tens), question_, kTensMs)}};
  }

  // Finds no stretch if the store has nothing.
  Found in_minutes() {
    Found found{Resolution::minute, {}};
    const SeriesKey key{question_.uuid, json_key(*question_.row), question_.element};
    auto stored = store_.get(lookup_.run, key, question_.from_ms, question_.until_ms);
    if (!stored) {
      notes_.push_back("the history on disk cannot be read: " + stored.error().text());
      return found;
    }
    for (Past& past : *stored) {
      if (past.present) {
        std::erase_if(past.buckets, [&](const Bucket& bucket) {
          return bucket.at_ms >= lookup_.minutes_since_ms;
        });
      }
      Stretch part = part_of(past.run, std::move(past.buckets), question_, kMinuteMs);
      if (!part.buckets.empty()) found.stretches.push_back(std::move(part));
    }
    if (found.stretches.empty()) return found;
    const std::int64_t from_ms = std::max(memory_from(), lookup_.minutes_since_ms);
    auto newest = coarser(lookup_.tens.points(from_ms, memory_until()), kMinuteMs);
    found.stretches.push_back(part_of(lookup_.run, std::move(newest), question_, kMinuteMs));
    return found;
  }

  const Lookup& lookup_;
  const Question& question_;
  Store& store_;
  std::vector<std::string>& notes_;
};

// Wall time of the first and the last bucket.
struct Extent {
  std::size_t count = 0;
  std::int64_t first_ms = INT64_MAX;
  std::int64_t last_ms = INT64_MIN;
};

Extent extent_of(const std::vector<Stretch>& stretches) {
  Extent extent;
  for (const Stretch& stretch : stretches) {
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
std::int64_t chosen_step(const Question& question, const Extent& extent, std::int64_t bucket_ms) {
  if (question.step_ms > 0) return std::max(question.step_ms, bucket_ms);
  if (extent.count <= question.points) return bucket_ms;
  // One step is spared, because both ends may be in the middle of a step.
  const auto points = static_cast<std::int64_t>(std::max<std::uint64_t>(question.points, 2)) - 1;
  const std::int64_t least = (extent.last_ms - extent.first_ms) / points + 1;
  return round_step(std::max(least, bucket_ms));
}

// Returns the newest reading, if it is kept; else the mean of the bucket it became part of.
std::optional<double> last_of(const Lookup& lookup, const std::vector<Stretch>& stretches) {
  const std::int64_t offset = lookup.run.wall_offset_ms;
  const auto readings =
      lookup.readings.points(lookup.question.from_ms - offset, lookup.question.until_ms - offset);
  if (!readings.empty()) return static_cast<double>(readings.back().value);
  for (auto stretch = stretches.rbegin(); stretch != stretches.rend(); ++stretch) {
    if (!stretch->buckets.empty()) return stretch->buckets.back().of.mean();
  }
  return std::nullopt;
}

void put_notes(Answer& answer, const Lookup& lookup) {
  const std::int64_t offset = lookup.run.wall_offset_ms;
  if (answer.covers_since_ms > answer.question.from_ms + kMinuteMs) {
    // In whole seconds, so that GPUs whose data begins in the same second have the same note.
    const std::string since = time_text(answer.covers_since_ms);
    answer.notes.push_back("no data before " + since.substr(0, since.find('.')) + "Z");
  }
  if (answer.resolution == Resolution::minute) {
    answer.notes.push_back(fmt::format(
        "ten-second means are available since {}, single readings since {}",
        time_text(lookup.tens_since_ms + offset), time_text(lookup.readings_since_ms + offset)));
  }
  for (const ClockStep& step : lookup.run.steps) {
    if (step.at_ms + offset < answer.question.from_ms) continue;
    answer.notes.push_back(
        fmt::format("the clock was set {} by {} s at {}; times are shown by the current clock",
                    step.by_ms > 0 ? "forward" : "back",
                    static_cast<double>(step.by_ms > 0 ? step.by_ms : -step.by_ms) / 1000,
                    time_text(step.at_ms + offset)));
  }
}

}  // namespace

namespace {

constexpr std::int64_t kMissedReadings = 3;  // a value is good until so many have failed to come

}  // namespace

std::int64_t reach_of(std::int64_t cadence_ms) {
  return kMinuteMs + kMissedReadings * cadence_ms;
}

std::optional<std::int64_t> value_at(const Answer& answer, std::int64_t at_ms) {
  const std::int64_t reach =
      length_of(answer.resolution) + kMissedReadings * cadence_of(answer.question.row->metric);
  if (answer.points.empty()) return std::nullopt;
  const TimelinePoint& last = answer.points.back();
  if (last.of.count == 0 || at_ms - last.wall_ms > reach) return std::nullopt;
  if (answer.question.row->kind == Kind::counter) return last.of.max;
  return std::llround(last.of.mean());
}

Answer answer(const Lookup& lookup, Store& store) {
  Answer out;
  out.question = lookup.question;
  out.notes = store.notes();
  const Found found = Search(lookup, store, out.notes).find();
  out.resolution = found.resolution;
  const std::int64_t bucket_ms = length_of(found.resolution);
  const Extent extent = extent_of(found.stretches);
  out.step_ms = chosen_step(lookup.question, extent, bucket_ms);
  out.points = timeline(found.stretches, {lookup.cadence_ms, bucket_ms, out.step_ms});
  for (const Stretch& stretch : found.stretches) {
    for (const Bucket& bucket : stretch.buckets) out.all.add(bucket.of);
  }
  out.last = last_of(lookup, found.stretches);
  const std::int64_t since_ms =
      found.resolution == Resolution::reading ? lookup.readings_since_ms : lookup.tens_since_ms;
  const bool stored = found.resolution == Resolution::minute;
  out.covers_since_ms = std::max(lookup.question.from_ms,
                                 stored ? extent.first_ms : since_ms + lookup.run.wall_offset_ms);
  put_notes(out, lookup);
  return out;
}

}  // namespace gpuyard::history
