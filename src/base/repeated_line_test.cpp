#include "base/repeated_line.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/captured_log_for_tests.h"

namespace gpuyard {
namespace {

constexpr TimePoint kBegin{std::chrono::hours(1)};

TEST(RepeatedLine, FirstOccurrenceIsLoggedAtOnce) {
  RepeatedLine line;
  EXPECT_EQ(line.admit(kBegin), 0U);
}

TEST(RepeatedLine, RepetitionsWithinAMinuteAreCounted) {
  const CapturedLog log;
  RepeatedLine line;
  for (int i = 0; i < 1000; ++i) {
    line.write(log::Level::error, kBegin + std::chrono::milliseconds(i), "write failed");
  }
  EXPECT_EQ(log.lines().size(), 1U);
  line.write(log::Level::error, kBegin + RepeatedLine::kMinInterval, "write failed");
  ASSERT_EQ(log.lines().size(), 2U);
  EXPECT_THAT(log.lines().back(), ::testing::HasSubstr("write failed (and 999 more"));
}

TEST(RepeatedLine, CountRestartsWithEachLoggedLine) {
  RepeatedLine line;
  EXPECT_TRUE(line.admit(kBegin));
  EXPECT_FALSE(line.admit(kBegin + std::chrono::seconds(1)));
  EXPECT_EQ(line.admit(kBegin + RepeatedLine::kMinInterval), 1U);
  EXPECT_EQ(line.admit(kBegin + 2 * RepeatedLine::kMinInterval), 0U);
}

}  // namespace
}  // namespace gpuyard
