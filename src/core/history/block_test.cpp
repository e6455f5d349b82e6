#include "core/history/block.h"

#include <limits>
#include <random>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace gpuyard::history {
namespace {

constexpr std::int64_t kMinValue = std::numeric_limits<std::int64_t>::min();
constexpr std::int64_t kMaxValue = std::numeric_limits<std::int64_t>::max();

std::vector<std::int64_t> through_a_column(const std::vector<std::int64_t>& values) {
  std::string bytes;
  put_column(bytes, values);
  ColumnReader reader(bytes);
  auto back = reader.column(values.size());
  EXPECT_TRUE(reader.ok() && reader.at_end());
  return back;
}

// Returns a point a second with these values, from an arbitrary moment on.
std::vector<Point> regular(const std::vector<std::int64_t>& values) {
  std::vector<Point> points;
  for (const std::int64_t value : values) {
    points.push_back({3'600'123 + static_cast<std::int64_t>(points.size()) * 1000, value});
  }
  return points;
}

RC_GTEST_PROP(Column, AnyNumbersComeBack, (const std::vector<std::int64_t>& values)) {
  RC_ASSERT(through_a_column(values) == values);
}

TEST(Column, TheWidestNumbersComeBack) {
  const std::vector<std::int64_t> values = {kMinValue, kMaxValue, 0,         -1,
                                            kMaxValue, kMinValue, kMinValue, 1};
  EXPECT_EQ(through_a_column(values), values);
}

TEST(Column, ConstantOrLinearSeriesFitsEightBytes) {
  std::vector<std::int64_t> line;
  for (int i = 0; i < 300; ++i) line.push_back(1'000'000 + i * 12'345);
  std::string bytes;
  put_column(bytes, line);
  EXPECT_LE(bytes.size(), 8U);
  bytes.clear();
  put_column(bytes, std::vector<std::int64_t>(300, 85'520'809'984));
  EXPECT_LE(bytes.size(), 8U);
}

// Returns points in steps of any length from any time on: gaps and jitter, each later than before.
std::vector<Point> any_points() {
  const auto values = *rc::gen::nonEmpty(
      rc::gen::container<std::vector<std::int64_t>>(rc::gen::arbitrary<std::int64_t>()));
  std::vector<Point> points;
  std::int64_t at_ms = *rc::gen::inRange<std::int64_t>(-1'000'000, 1'000'000'000'000);
  for (std::size_t i = 0; i < std::min(values.size(), kMaxBlockPoints); ++i) {
    points.push_back({at_ms, values[i]});
    at_ms += *rc::gen::oneOf(rc::gen::just<std::int64_t>(1000),
                             rc::gen::inRange<std::int64_t>(1, 100'000'000));
  }
  return points;
}

RC_GTEST_PROP(Block, AnyPointsComeBack, ()) {
  const auto points = any_points();
  const auto back = decode<Point>(encode(points));
  RC_ASSERT(back.has_value());
  RC_ASSERT(*back == points);
}

RC_GTEST_PROP(Block, AnyBucketsComeBack, ()) {
  std::vector<Bucket> buckets;
  for (const Point& point : any_points()) {
    Bucket bucket{point.at_ms, {}};
    bucket.aggregate.add(point.value);
    bucket.aggregate.add(*rc::gen::arbitrary<std::int64_t>());
    buckets.push_back(bucket);
  }
  const auto back = decode<Bucket>(encode(buckets));
  RC_ASSERT(back.has_value());
  RC_ASSERT(*back == buckets);
}

TEST(Block, RegularConstantSeriesFitsSixteenBytes) {
  const std::string bytes = encode(regular(std::vector<std::int64_t>(kMaxBlockPoints, 7)));
  EXPECT_LE(bytes.size(), 16U);
}

TEST(Block, MissingReadingLeavesOutItsTimestamp) {
  auto points = regular({1, 2, 3, 4, 5, 6});
  points.erase(points.begin() + 2, points.begin() + 4);
  EXPECT_EQ(decode<Point>(encode(points)), points);
}

TEST(Block, NoisySeriesCostsOnlyNoiseBits) {
  std::mt19937 random(1);
  std::vector<std::int64_t> values;
  for (std::size_t i = 0; i < kMaxBlockPoints; ++i)
    values.push_back(300'000 + static_cast<std::int64_t>(random() % 16'384));
  EXPECT_LE(encode(regular(values)).size(), kMaxBlockPoints * 14 / 8 + 32);
}

TEST(Block, TruncatedOrExtendedBytesAreRefused) {
  const std::string bytes = encode(regular({1, 5, 2, 9, 1'000'000}));
  for (std::size_t length = 0; length < bytes.size(); ++length) {
    EXPECT_FALSE(decode<Point>(bytes.substr(0, length))) << length;
  }
  EXPECT_FALSE(decode<Point>(bytes + "x"));
}

TEST(Block, MorePointsThanABlockHasAreRefused) {
  std::string bytes;
  put_varint(bytes, kMaxBlockPoints + 1);
  EXPECT_FALSE(decode<Point>(bytes + std::string(100, '\0')));
  bytes.clear();
  put_varint(bytes, UINT64_MAX);
  EXPECT_FALSE(decode<Point>(bytes + std::string(100, '\0')));
}

TEST(Block, StalledOrOverflowingTimestampsAreRefused) {
  const auto with_step = [](std::int64_t first, std::uint64_t step) {
    std::string bytes;
    put_varint(bytes, 3);
    put_signed(bytes, first);
    put_varint(bytes, step);
    put_varint(bytes, 0);
    put_column(bytes, std::vector<std::int64_t>{1, 2, 3});
    return bytes;
  };
  EXPECT_TRUE(decode<Point>(with_step(0, 1)));
  EXPECT_FALSE(decode<Point>(with_step(0, 0)));
  EXPECT_FALSE(decode<Point>(with_step(kMaxValue - 1, 1)));
  EXPECT_FALSE(decode<Point>(with_step(0, UINT64_MAX)));
}

TEST(Block, OverflowingTimeSpanSurvivesEncoding) {
  const std::vector<Point> points = {{-31, 1}, {kMaxValue - 30, 2}, {kMaxValue, 3}};
  EXPECT_EQ(decode<Point>(encode(std::span<const Point>(points))), points);
}

TEST(Block, AMaxBelowItsMinIsRefused) {
  std::string bytes;
  put_varint(bytes, 1);
  put_signed(bytes, 0);
  put_varint(bytes, 0);
  put_varint(bytes, 0);
  for (const std::int64_t value : {kMaxValue, std::int64_t{1}, std::int64_t{0}, std::int64_t{1}}) {
    put_column(bytes, std::vector<std::int64_t>{value});
  }
  EXPECT_FALSE(decode<Bucket>(bytes));
}

RC_GTEST_PROP(Block, NoBytesAreTrusted, (const std::vector<std::uint8_t>& noise)) {
  const std::string bytes(noise.begin(), noise.end());
  if (const auto points = decode<Point>(bytes)) RC_ASSERT(decode<Point>(encode(*points)) == points);
  if (const auto buckets = decode<Bucket>(bytes)) {
    RC_ASSERT(decode<Bucket>(encode(*buckets)) == buckets);
  }
}

RC_GTEST_PROP(Block, ADamagedByteIsNoCrash, ()) {
  std::string bytes = encode(any_points());
  const auto at = *rc::gen::inRange<std::size_t>(0, bytes.size());
  bytes[at] = *rc::gen::arbitrary<char>();
  if (const auto points = decode<Point>(bytes)) {
    RC_ASSERT(points->size() <= kMaxBlockPoints);
    for (std::size_t i = 1; i < points->size(); ++i)
      RC_ASSERT((*points)[i - 1].at_ms < (*points)[i].at_ms);
  }
}

RC_GTEST_PROP(Aggregate, StatisticsAreExactForAnySplit, (const std::vector<std::int32_t>& values)) {
  RC_PRE(!values.empty());
  const auto cut = *rc::gen::inRange<std::size_t>(0, values.size());
  Aggregate whole;
  Aggregate parts[2];
  std::int64_t sum = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    whole.add(values[i]);
    parts[i < cut ? 0 : 1].add(values[i]);
    sum += values[i];
  }
  parts[1].add(parts[0]);
  RC_ASSERT(parts[1] == whole);
  RC_ASSERT(whole.min == *std::min_element(values.begin(), values.end()));
  RC_ASSERT(whole.max == *std::max_element(values.begin(), values.end()));
  RC_ASSERT(static_cast<std::int64_t>(whole.excess) + whole.min * whole.count == sum);
  RC_ASSERT(static_cast<double>(whole.min) <= whole.mean());
  RC_ASSERT(whole.mean() <= static_cast<double>(whole.max));
}

TEST(Aggregate, OverflowingSumKeepsMeanWithinBounds) {
  Aggregate all;
  for (int i = 0; i < 5; ++i) {
    all.add(kMinValue);
    all.add(kMaxValue);
  }
  EXPECT_EQ(all.min, kMinValue);
  EXPECT_EQ(all.max, kMaxValue);
  EXPECT_GE(all.mean(), static_cast<double>(kMinValue));
  EXPECT_LE(all.mean(), static_cast<double>(kMaxValue));
}

}  // namespace
}  // namespace gpuyard::history
