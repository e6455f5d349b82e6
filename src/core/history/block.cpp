// A block holds the number of points, the first time, the usual step, each step that differs, and
// then a column for each number of a point. The times of a regular series take five bytes in all.
#include "core/history/block.h"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <utility>

namespace gpuyard::history {
namespace {

// Returns the most frequent step, if more than half of the steps are equal.
std::uint64_t most_frequent_step(const std::vector<std::uint64_t>& steps) {
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
  const std::uint64_t usual = most_frequent_step(steps);
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
  if (count == 0 || count > kMaxBlockPoints) return std::nullopt;
  std::vector<std::int64_t> times = {reader.signed_varint()};
  const auto steps = get_steps(reader, count - 1);
  if (!steps) return std::nullopt;
  for (const std::uint64_t step : *steps) {
    // Each time is later than the one before, and fits its type.
    if (step == 0 || step > distance(times.back(), std::numeric_limits<std::int64_t>::max())) {
      return std::nullopt;
    }
    times.push_back(static_cast<std::int64_t>(static_cast<std::uint64_t>(times.back()) + step));
  }
  return times;
}

// Puts a column of the numbers that `of` returns for each point.
template <class P, class Of>
void put_column_of(std::string& out, std::span<const P> points, Of of) {
  std::vector<std::int64_t> values;
  values.reserve(points.size());
  for (const P& point : points) values.push_back(static_cast<std::int64_t>(of(point)));
  put_column(out, values);
}

template <class P>
std::string encode_times(std::span<const P> points) {
  std::string out;
  std::vector<std::int64_t> times;
  times.reserve(points.size());
  for (const P& point : points) times.push_back(point.at_ms);
  put_times(out, times);
  return out;
}

using Words = std::vector<std::uint64_t>;

constexpr unsigned kWidths = 65;  // 0..64 bits
constexpr unsigned kVarintBits = 7;
constexpr unsigned kWordBits = 64;

enum class Coding : std::uint8_t { offset, delta, delta_of_delta };
constexpr std::array kCodings = {Coding::offset, Coding::delta, Coding::delta_of_delta};

std::uint64_t zigzag(std::int64_t value) {
  return (static_cast<std::uint64_t>(value) << 1U) ^ static_cast<std::uint64_t>(value >> 63);
}

std::int64_t from_zigzag(std::uint64_t value) {
  return static_cast<std::int64_t>((value >> 1U) ^ (0U - (value & 1U)));
}

Words differences(const Words& values) {
  Words out;
  out.reserve(values.size());
  for (std::size_t i = 1; i < values.size(); ++i) out.push_back(values[i] - values[i - 1]);
  return out;
}

// The start values of a coding and the values that it packs.
struct EncodedColumn {
  std::string starts;
  std::int64_t min = 0;
  unsigned width = 0;
  Words values;

  std::size_t bits() const { return starts.size() * 8 + values.size() * width; }
};

EncodedColumn encode_column(Words values, Coding coding) {
  EncodedColumn out;
  for (int level = static_cast<int>(coding); level > 0 && !values.empty(); --level) {
    put_signed(out.starts, static_cast<std::int64_t>(values.front()));
    values = differences(values);
  }
  if (values.empty()) return out;
  const auto as_signed = [](std::uint64_t word) { return static_cast<std::int64_t>(word); };
  out.min = as_signed(*std::ranges::min_element(values, {}, as_signed));
  std::uint64_t all = 0;
  for (std::uint64_t& value : values) all |= value -= static_cast<std::uint64_t>(out.min);
  put_signed(out.starts, out.min);
  out.width = static_cast<unsigned>(std::bit_width(all));
  out.values = std::move(values);
  return out;
}

class BitWriter {
 public:
  explicit BitWriter(std::string& out) : out_(out) {}

  void put(std::uint64_t value, unsigned width) {
    constexpr unsigned kHalf = 32;
    if (width > kHalf) {
      put(value & 0xffffffffU, kHalf);
      value >>= kHalf;
      width -= kHalf;
    }
    pending_ |= value << bits_;
    for (bits_ += width; bits_ >= 8; bits_ -= 8, pending_ >>= 8U) {
      out_ += static_cast<char>(pending_ & 0xffU);
    }
  }
  void finish() {
    if (bits_ > 0) out_ += static_cast<char>(pending_);
  }

 private:
  std::string& out_;
  std::uint64_t pending_ = 0;
  unsigned bits_ = 0;
};

}  // namespace

std::string encode(std::span<const Point> points) {
  std::string out = encode_times(points);
  put_column_of(out, points, [](const Point& point) { return point.value; });
  return out;
}

std::string encode(std::span<const Bucket> buckets) {
  std::string out = encode_times(buckets);
  put_column_of(out, buckets, [](const Bucket& one) { return one.aggregate.min; });
  put_column_of(out, buckets,
                [](const Bucket& one) { return distance(one.aggregate.min, one.aggregate.max); });
  put_column_of(out, buckets, [](const Bucket& one) { return one.aggregate.excess; });
  put_column_of(out, buckets, [](const Bucket& one) { return one.aggregate.count; });
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

// A column is a byte for coding and width, the coding's start values, and the bits of the rest. All
// arithmetic is modulo 2^64, so that every column has a coding that loses nothing.
void put_varint(std::string& out, std::uint64_t value) {
  for (; value >= 0x80U; value >>= kVarintBits) out += static_cast<char>(value | 0x80U);
  out += static_cast<char>(value);
}

void put_signed(std::string& out, std::int64_t value) {
  put_varint(out, zigzag(value));
}

void put_column(std::string& out, std::span<const std::int64_t> values) {
  const Words words(values.begin(), values.end());
  Coding best = Coding::offset;
  EncodedColumn shortest = encode_column(words, best);
  for (const Coding coding : {Coding::delta, Coding::delta_of_delta}) {
    if (shortest.width == 0) break;  // equal values: nothing is shorter
    EncodedColumn other = encode_column(words, coding);
    if (other.bits() >= shortest.bits()) continue;
    best = coding;
    shortest = std::move(other);
  }
  out += static_cast<char>(static_cast<unsigned>(best) * kWidths + shortest.width);
  out += shortest.starts;
  BitWriter writer(out);
  for (const std::uint64_t value : shortest.values) writer.put(value, shortest.width);
  writer.finish();
}

std::uint64_t ColumnReader::varint() {
  std::uint64_t value = 0;
  for (unsigned shift = 0; shift < kWordBits && !rest_.empty(); shift += kVarintBits) {
    const auto byte = static_cast<unsigned char>(rest_.front());
    rest_.remove_prefix(1);
    value |= static_cast<std::uint64_t>(byte & 0x7fU) << shift;
    if (byte < 0x80U) return ok_ ? value : 0;
  }
  ok_ = false;
  return 0;
}

std::int64_t ColumnReader::signed_varint() {
  return from_zigzag(varint());
}

std::vector<std::uint64_t> ColumnReader::packed(std::size_t count, unsigned width) {
  Words out(count);
  const std::size_t bytes = (count * width + 7) / 8;
  if (!ok_ || bytes > rest_.size()) {
    ok_ = false;
    return out;
  }
  std::size_t at = 0;  // the next bit
  for (std::uint64_t& value : out) {
    for (unsigned done = 0; done < width;) {
      const auto byte = static_cast<unsigned char>(rest_[at / 8]);
      const auto from = static_cast<unsigned>(at % 8);
      const unsigned taken = std::min(8 - from, width - done);
      value |= static_cast<std::uint64_t>((byte >> from) & ((1U << taken) - 1U)) << done;
      done += taken;
      at += taken;
    }
  }
  rest_.remove_prefix(bytes);
  return out;
}

std::vector<std::int64_t> ColumnReader::column(std::size_t count) {
  if (rest_.empty()) ok_ = false;
  const unsigned head = ok_ ? static_cast<unsigned char>(rest_.front()) : 0U;
  if (ok_) rest_.remove_prefix(1);
  if (head / kWidths >= kCodings.size()) ok_ = false;
  Words starts;
  const std::size_t levels = std::min<std::size_t>(head / kWidths, count);
  for (std::size_t i = 0; i < levels; ++i)
    starts.push_back(static_cast<std::uint64_t>(signed_varint()));
  Words values;
  if (levels < count) {
    const auto min_value = static_cast<std::uint64_t>(signed_varint());
    values = packed(count - levels, head % kWidths);
    for (std::uint64_t& value : values) value += min_value;
  }
  for (; !starts.empty(); starts.pop_back()) {
    values.insert(values.begin(), starts.back());
    for (std::size_t i = 1; i < values.size(); ++i) values[i] += values[i - 1];
  }
  if (!ok_) return std::vector<std::int64_t>(count);
  return {values.begin(), values.end()};
}

}  // namespace gpuyard::history
