#include "gpu/device/event_rate_limiter.h"

#include <gtest/gtest.h>

namespace gpuyard {
namespace {

using std::chrono::seconds;

constexpr TimePoint kNow{std::chrono::hours(1)};

DeviceEvent xid(const DeviceId& device, std::uint32_t number, std::string text = "") {
  DeviceEvent event{device, EventKind::xid, EventSource::kernel_log, kNow, number};
  event.text = std::move(text);
  return event;
}

TEST(EventRateLimiter, PassesABurstAndThenARate) {
  EventRateLimiter limit(10, 2);
  int passed = 0;
  for (int i = 0; i < 100; ++i) passed += limit.admit(xid("GPU-a", 31), kNow) ? 1 : 0;
  EXPECT_EQ(passed, 10);
  for (int i = 0; i < 100; ++i) passed += limit.admit(xid("GPU-a", 31), kNow + seconds(3)) ? 1 : 0;
  EXPECT_EQ(passed, 16);
}

TEST(EventRateLimiter, FloodOnOneGpuLeavesOthersAdmitted) {
  EventRateLimiter limit(10, 2);
  for (int i = 0; i < 100; ++i) static_cast<void>(limit.admit(xid("GPU-a", 31), kNow));
  EXPECT_TRUE(limit.admit(xid("GPU-b", 31), kNow));
}

TEST(EventRateLimiter, DroppedEventsAreReportedOnceAfterFlood) {
  EventRateLimiter limit(10, 2);
  for (int i = 0; i < 100; ++i) static_cast<void>(limit.admit(xid("GPU-a", 31), kNow));
  EXPECT_TRUE(limit.take_dropped(EventSource::driver, kNow).empty());
  EXPECT_TRUE(limit.has_dropped());
  const auto events = limit.take_dropped(EventSource::driver, kNow + seconds(1));
  ASSERT_EQ(events.size(), 1U);
  EXPECT_EQ(events[0].device, "GPU-a");
  EXPECT_EQ(events[0].kind, EventKind::events_lost);
  EXPECT_EQ(events[0].lost, 90U);
  EXPECT_EQ(events[0].text, "90 more events were dropped: too many at once");
  EXPECT_FALSE(limit.has_dropped());
  EXPECT_TRUE(limit.take_dropped(EventSource::driver, kNow + seconds(2)).empty());
}

TEST(EventRateLimiter, NoteSeverityFloodAdmitsStopEvents) {
  EventRateLimiter limit(10, 2);
  for (int i = 0; i < 3000; ++i) static_cast<void>(limit.admit(xid("GPU-a", 31), kNow));
  EXPECT_FALSE(limit.admit(xid("GPU-a", 13), kNow)) << "a note as well";
  EXPECT_TRUE(limit.admit(xid("GPU-a", 95), kNow));
  EXPECT_TRUE(limit.admit(xid("GPU-a", 94), kNow));
  EXPECT_TRUE(limit.admit(xid("GPU-a", 149, "NETIR_LINK_DOWN Fatal XC0 i0 Link 14"), kNow));
  EXPECT_FALSE(limit.admit(xid("GPU-a", 149, "NETIR_LINK_DOWN Nonfatal XC0 i0 Link 14"), kNow));
  EXPECT_TRUE(limit.admit({"GPU-a", EventKind::unavailable, EventSource::driver}, kNow));
}

TEST(EventRateLimiter, FatalXidFloodDropsNoOther) {
  EventRateLimiter limit(10, 2);
  int passed = 0;
  for (int i = 0; i < 3000; ++i) passed += limit.admit(xid("GPU-a", 119), kNow) ? 1 : 0;
  EXPECT_EQ(passed, 10);
  EXPECT_TRUE(limit.admit(xid("GPU-a", 79), kNow));
  const auto events = limit.take_dropped(EventSource::kernel_log, kNow + seconds(1));
  ASSERT_EQ(events.size(), 1U);
  EXPECT_EQ(events[0].text, "2990 more events with Xid 119 were dropped: too many at once");
}

}  // namespace
}  // namespace gpuyard
