#include "cli/shared_options.h"

#include <gtest/gtest.h>

#include <tuple>

namespace gpuyard::cli {
namespace {

using namespace std::chrono_literals;

TEST(Split, PartsHaveNoBlanksAround) {
  EXPECT_EQ(split("a, b,c", ','), (std::vector<std::string>{"a", "b", "c"}));
  EXPECT_EQ(split("", ','), std::vector<std::string>{""});
  EXPECT_EQ(split("a,", ','), (std::vector<std::string>{"a", ""}));
}

TEST(Interval, HasAUnitOrIsInSeconds) {
  EXPECT_EQ(*parse_interval("500ms"), 500ms);
  EXPECT_EQ(*parse_interval("2s"), 2s);
  EXPECT_EQ(*parse_interval("2"), 2s);
  EXPECT_EQ(*parse_interval("0.5"), 500ms);
  EXPECT_EQ(*parse_interval("1m"), 1min);
  EXPECT_EQ(*parse_interval("24h"), 24h);
}

TEST(Interval, OutsideOfItsLimitsIsRefused) {
  for (const char* text : {"", "s", "0", "99ms", "25h", "-1s", "1 s", "1d", "nan", "inf", "1e99"}) {
    const auto interval = parse_interval(text);
    ASSERT_FALSE(interval.ok()) << text;
    EXPECT_EQ(interval.error().code, Errc::invalid);
  }
}

TEST(Lifetime, MayBeDays) {
  EXPECT_EQ(*parse_lifetime("90"), 90s);
  EXPECT_EQ(*parse_lifetime("30m"), 30min);
  EXPECT_EQ(*parse_lifetime("1.5h"), 90min);
  EXPECT_EQ(*parse_lifetime("2d"), 48h);
  for (const char* text : {"", "0s", "-30m", "0.5s", "366d", "30 m", "1w", "nan"}) {
    const auto lifetime = parse_lifetime(text);
    ASSERT_FALSE(lifetime.ok()) << text;
    EXPECT_EQ(lifetime.error().code, Errc::invalid);
  }
}

TEST(Moment, LengthIsBeforeNow) {
  const WallTime now = wall_now();
  for (const auto& [text, before, length] :
       {std::tuple{"5m", 300'000ms, "5m"}, std::tuple{"5m ago", 300'000ms, "5m"},
        std::tuple{"-0.5h", 1'800'000ms, "0.5h"}, std::tuple{"500ms", 500ms, "500ms"},
        std::tuple{"2w", 1'209'600'000ms, "2w"}, std::tuple{"now", 0ms, "0s"}}) {
    const auto moment = parse_moment(text, now);
    ASSERT_TRUE(moment) << text;
    EXPECT_EQ(now - moment->at, before) << text;
    EXPECT_EQ(moment->api_text(), length);
  }
}

TEST(Moment, CalendarTimeIsSentInUtc) {
  const WallTime now = *from_rfc3339("2026-11-26T07:00:00Z");
  EXPECT_EQ(parse_moment("2026-11-26T15:54:38+09:00", now)->api_text(), "2026-11-26T06:54:38.000Z");
  EXPECT_EQ(parse_moment("1767225600", now)->api_text(), "2026-01-01T00:00:00.000Z");
}

TEST(Moment, InvalidTextNamesExpectedForms) {
  for (const char* text : {"", "30", "0", "-5", "999999999", "soon", "25:00", "1y", "5 m", "nan",
                           "infd", "99999999999", "2026-02-30"}) {
    const auto moment = parse_moment(text, wall_now());
    ASSERT_FALSE(moment) << text;
    EXPECT_EQ(moment.error().message,
              std::string("expected a time before now such as 90s, 2h or 7d, or a moment such as "
                          "02:10, 2026-01-31 12:00 or 2026-01-31T12:00:00Z; got \"") +
                  text + "\"");
  }
}

TEST(SecondsSince, AreFromAMomentUntilNow) {
  EXPECT_NEAR(*seconds_since("2h"), 7200, 1);
  EXPECT_NEAR(*seconds_since(to_rfc3339(wall_now() - 1h)), 3600, 2);
  for (const char* text : {"30", "366d", "0s", "2100-01-01", "soon"}) {
    const auto seconds = seconds_since(text);
    ASSERT_FALSE(seconds) << text;
    EXPECT_TRUE(seconds.error().message.starts_with("--since: expected "))
        << seconds.error().message;
  }
}

}  // namespace
}  // namespace gpuyard::cli
