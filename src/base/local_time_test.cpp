#include "base/local_time.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <time.h>

#include "base/clock.h"

namespace gpuyard {
namespace {

// Sets the time zone, and puts the old one back.
class ScopedTimeZone {
 public:
  explicit ScopedTimeZone(const char* zone) {
    if (const char* const old = ::getenv("TZ")) before_ = old;
    set(zone);
  }
  ~ScopedTimeZone() { set(before_ ? before_->c_str() : nullptr); }
  ScopedTimeZone(const ScopedTimeZone&) = delete;
  ScopedTimeZone& operator=(const ScopedTimeZone&) = delete;

 private:
  static void set(const char* zone) {
    if (zone != nullptr) {
      ::setenv("TZ", zone, 1);
    } else {
      ::unsetenv("TZ");
    }
    ::tzset();
  }
  std::optional<std::string> before_;
};

// POSIX zones need no files on the machine.
constexpr const char* kTokyo = "JST-9";
constexpr const char* kBerlin = "CET-1CEST,M3.5.0,M10.5.0/3";

const WallTime kNow = *from_rfc3339("2026-11-26T06:56:30Z");  // 15:56:30 in Tokyo

std::string utc(std::string_view text) {
  const auto at = parse_time(text, kNow);
  return at ? to_rfc3339(*at) : "none";
}

TEST(ParseTime, TimeWithoutZoneIsLocal) {
  const ScopedTimeZone zone(kTokyo);
  EXPECT_EQ(utc("2026-11-26 15:54:38"), "2026-11-26T06:54:38.000Z");
  EXPECT_EQ(utc("2026-11-26T15:54:38.5"), "2026-11-26T06:54:38.500Z");
  EXPECT_EQ(utc("2026-11-26 15:54"), "2026-11-26T06:54:00.000Z");
  EXPECT_EQ(utc("2026-11-26"), "2026-11-25T15:00:00.000Z");
  EXPECT_EQ(utc("2026/11/26 15:54:38.250"), "2026-11-26T06:54:38.250Z");
}

TEST(ParseTime, NamedZoneWins) {
  const ScopedTimeZone zone(kTokyo);
  for (const char* text :
       {"2026-11-26T06:54:38Z", "2026-11-26 06:54:38Z", "2026-11-26 06:54:38 UTC",
        "2026-11-26T15:54:38+09:00", "2026-11-26 15:54:38 +0900", "2026-11-26T15:54:38+09",
        "2026-11-26T03:24:38-03:30"}) {
    EXPECT_EQ(utc(text), "2026-11-26T06:54:38.000Z") << text;
  }
}

TEST(ParseTime, ClockTimeIsItsLastOne) {
  const ScopedTimeZone zone(kTokyo);
  EXPECT_EQ(utc("02:10"), "2026-11-25T17:10:00.000Z") << "today";
  EXPECT_EQ(utc("2:10"), "2026-11-25T17:10:00.000Z");
  EXPECT_EQ(utc("15:56:30"), "2026-11-26T06:56:30.000Z") << "this second";
  EXPECT_EQ(utc("15:57"), "2026-11-25T06:57:00.000Z") << "yesterday";
  EXPECT_EQ(utc("11-26 15:54"), "2026-11-26T06:54:00.000Z");
  EXPECT_EQ(utc("12-31 15:54"), "2025-12-31T06:54:00.000Z") << "last year";
}

TEST(ParseTime, SummerTimeIsOfItsDate) {
  const ScopedTimeZone zone(kBerlin);
  EXPECT_EQ(utc("2026-07-01 12:00"), "2026-07-01T10:00:00.000Z");
  EXPECT_EQ(utc("2026-01-31 12:00"), "2026-01-31T11:00:00.000Z");
}

TEST(ParseTime, OtherTextIsNone) {
  for (const char* text : {"",
                           "30",
                           "1767225600",
                           "5m",
                           "now",
                           "2026-13-01",
                           "2026-02-30",
                           "2026-01-01T25:00",
                           "2026-01-01T00:60",
                           "2026-01-01T00:00:0",
                           "2026-01/01",
                           "2026-01-01T",
                           "2026-01-01Z",
                           "2026-01-01T00:00+9",
                           "2026-01-01T00:00 CET",
                           "24:00",
                           "02:10Z",
                           "02:10 x",
                           "02-30 12:00",
                           "01-31",
                           "2026-01-01T00:00:00.Z"}) {
    EXPECT_EQ(utc(text), "none") << text;
  }
}

TEST(LocalTime, IsReadBackAsPrinted) {
  for (const char* name : {kTokyo, kBerlin, "UTC", "<-03>3"}) {
    const ScopedTimeZone zone(name);
    for (const char* text : {"2026-11-26T06:54:38.000Z", "2026-07-01T22:30:00.000Z"}) {
      const WallTime at = *parse_time(text, kNow);
      EXPECT_EQ(utc(local_time(at, TimeDetail::second)), text) << name;
    }
  }
}

TEST(ZoneName, IsThatOfTheDate) {
  const ScopedTimeZone zone(kBerlin);
  EXPECT_EQ(zone_name(*from_rfc3339("2026-07-01T12:00:00Z")), "CEST");
  EXPECT_EQ(zone_name(kNow), "CET");
}

TEST(ZoneName, NumberFollowsUtc) {
  const ScopedTimeZone zone("<-03>3");
  EXPECT_EQ(zone_name(kNow), "UTC-03");
}

TEST(LocalTime, FormatsYearsBeyondTheRangeOfNanoseconds) {
  const ScopedTimeZone zone(kTokyo);
  for (const char* text :
       {"1600-01-31T12:00:00Z", "2318-01-31T12:00:00Z", "9999-01-31T12:00:00Z"}) {
    const auto at = from_rfc3339(text);
    ASSERT_TRUE(at);
    EXPECT_EQ(local_time(*at, TimeDetail::minute), std::string(text, 10) + " 21:00");
    EXPECT_EQ(to_rfc3339(*at), std::string(text, 19) + ".000Z");
  }
}

}  // namespace
}  // namespace gpuyard
