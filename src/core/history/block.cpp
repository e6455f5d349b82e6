// A block: how many, the first time, the usual step and each step that differs, and then a column
// for each number of a point. Of a regular series the times cost five bytes in all.
#include "history/block.h"

#include <limits>

#include "history/column.h"

namespace gpuyard::history {
namespace {

// The step that most have, if more than half have one.
std::uint64_t usual_step(const std::vector<std::uint64_t>& steps) {
  std::uint64_t candidate = 0;
  std::size_t lead = 0;
  for (const std::uint64_t step : steps) {
    if (lead == 0) candidate = step;
    if (step == candidate) {
      ++lead;
    } else {
      --lead;
    }
  }
  return candidate;
}

void put_times(std::string& out, const std::vector<std::int64_t>& times) {
  put_varint(out, times.size());
  put_signed(out, times.front());
  std::vector<std::uint64_t> steps;
  for (std::size_t i = 1; i < times.size(); ++i) steps.push_back(distance(times[i - 1], times[i]));
  const std::uint64_t usual = usual_step(steps);
  std::string exceptions;
  std::size_t count = 0;
  std::size_t next = 0;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    if (steps[i] == usual) continue;
    ++count;
    put_varint(exceptions, i - next);
    put_varint(exceptions, steps[i]);
    next = i + 1;
  }
  put_varint(out, usual);
  put_varint(out, count);
  out += exceptions;
}

std::optional<std::vector<std::uint64_t>> get_steps(ColumnReader& reader, std::size_t count) {
  std::vector<std::uint64_t> steps(count, reader.varint());
  std::size_t at = 0;
  for (std::uint64_t left = reader.varint(); left > 0; --left) {
    const std::uint64_t skipped = reader.varint();
    const std::uint64_t step = reader.varint();
    if (!reader.ok() || skipped >= count - at) return std::nullopt;
    at += skipped;
    steps[at++] = step;
  }
  return steps;
}

std::optional<std::vector<std::int64_t>> get_times(ColumnReader& reader) {
  const std::uint64_t count = reader.varint();
  if (count == 0 || count > kBlockPoints) return std::nullopt;
  std::vector<std::int64_t> times = {reader.signed_varint()};
  const auto steps = get_steps(reader, count - 1);
  if (!steps) return std::nullopt;
  for (const std::uint64_t step : *steps) {
    // Each is later than the one before, and no sum leaves its type.
    if (step == 0 || step > distance(times.back(), std::numeric_limits<std::int64_t>::max())) {
      return std::nullopt;
    }
    times.push_back(static_cast<std::int64_t>(static_cast<std::uint64_t>(times.back()) + step));
  }
  return times;
}

// A column of the numbers that `of` finds in each.
template <class P, class Of>
void put_each(std::string& out, std::span<const P> points, Of of) {
  std::vector<std::int64_t> values;
  values.reserve(points.size());
  for (const P& point : points) values.push_back(static_cast<std::int64_t>(of(point)));
  put_column(out, values);
}

template <class P>
std::string with_times(std::span<const P> points) {
  std::string out;
  std::vector<std::int64_t> times;
  times.reserve(points.size());
  for (const P& point : points) times.push_back(point.at_ms);
  put_times(out, times);
  return out;
}

}  // namespace

std::string encode(std::span<const Point> points) {
  std::string out = with_times(points);
  put_each(out, points, [](const Point& point) { return point.value; });
  return out;
}

std::string encode(std::span<const Bucket> buckets) {
  std::string out = with_times(buckets);
  put_each(out, buckets, [](const Bucket& one) { return one.of.min; });
  put_each(out, buckets, [](const Bucket& one) { return distance(one.of.min, one.of.max); });
  put_each(out, buckets, [](const Bucket& one) { return one.of.excess; });
  put_each(out, buckets, [](const Bucket& one) { return one.of.count; });
  return out;
}

template <>
std::optional<std::vector<Point>> decode<Point>(std::string_view bytes) {
  ColumnReader reader(bytes);
  const auto times = get_times(reader);
  if (!times) return std::nullopt;
  const auto values = reader.column(times->size());
  if (!reader.ok() || !reader.at_end()) return std::nullopt;
  std::vector<Point> points;
  points.reserve(values.size());
  for (std::size_t i = 0; i < values.size(); ++i) points.push_back({(*times)[i], values[i]});
  return points;
}

template <>
std::optional<std::vector<Bucket>> decode<Bucket>(std::string_view bytes) {
  ColumnReader reader(bytes);
  const auto times = get_times(reader);
  if (!times) return std::nullopt;
  const std::size_t count = times->size();
  const auto mins = reader.column(count);
  const auto ranges = reader.column(count);
  const auto excesses = reader.column(count);
  const auto counts = reader.column(count);
  if (!reader.ok() || !reader.at_end()) return std::nullopt;
  std::vector<Bucket> buckets;
  buckets.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    const auto range = static_cast<std::uint64_t>(ranges[i]);
    const bool holds = range <= distance(mins[i], std::numeric_limits<std::int64_t>::max());
    if (!holds || counts[i] < 1 || counts[i] > std::numeric_limits<std::uint32_t>::max()) {
      return std::nullopt;
    }
    const auto max = static_cast<std::int64_t>(static_cast<std::uint64_t>(mins[i]) + range);
    buckets.push_back({(*times)[i],
                       {mins[i], max, static_cast<std::uint64_t>(excesses[i]),
                        static_cast<std::uint32_t>(counts[i])}});
  }
  return buckets;
}

}  // namespace gpuyard::history
