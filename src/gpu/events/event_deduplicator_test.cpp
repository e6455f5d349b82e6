#include "gpu/events/event_deduplicator.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <random>
#include <vector>

#include <gtest/gtest.h>

namespace gpuyard::events {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr TimePoint kNow{std::chrono::hours(1)};

DeviceEvent xid(EventSource source, std::uint32_t number, const DeviceId& device = "GPU-a") {
  DeviceEvent event{device, EventKind::xid, source};
  event.xid = number;
  return event;
}

bool is_new(EventDeduplicator& dedupe, const DeviceEvent& event, TimePoint now) {
  return !dedupe.find_duplicate(event, now).has_value();
}

TEST(EventDeduplicator, SameXidFromBothSourcesIsOneEvent) {
  EventDeduplicator dedupe;
  EXPECT_TRUE(is_new(dedupe, xid(EventSource::driver, 79), kNow));
  EXPECT_FALSE(is_new(dedupe, xid(EventSource::kernel_log, 79), kNow + milliseconds(300)));
}

TEST(EventDeduplicator, RepeatedXidFromOneSourceIsTwoEvents) {
  EventDeduplicator dedupe;
  EXPECT_TRUE(is_new(dedupe, xid(EventSource::driver, 79), kNow));
  EXPECT_TRUE(is_new(dedupe, xid(EventSource::driver, 79), kNow));
}

TEST(EventDeduplicator, AnotherXidOrAnotherGpuIsAnotherEvent) {
  EventDeduplicator dedupe;
  EXPECT_TRUE(is_new(dedupe, xid(EventSource::driver, 79), kNow));
  EXPECT_TRUE(is_new(dedupe, xid(EventSource::kernel_log, 48), kNow));
  EXPECT_TRUE(is_new(dedupe, xid(EventSource::kernel_log, 79, "GPU-b"), kNow));
}

TEST(EventDeduplicator, LateSecondAccountIsNewEvent) {
  EventDeduplicator dedupe;
  EXPECT_TRUE(is_new(dedupe, xid(EventSource::driver, 79), kNow));
  const TimePoint later = kNow + EventDeduplicator::kMatchWindow + milliseconds(1);
  EXPECT_TRUE(is_new(dedupe, xid(EventSource::kernel_log, 79), later));
}

TEST(EventDeduplicator, NonXidOrUnknownGpuIsAlwaysNew) {
  EventDeduplicator dedupe;
  for (const EventSource source : {EventSource::driver, EventSource::kernel_log}) {
    EXPECT_TRUE(is_new(dedupe, {"GPU-a", EventKind::ecc_corrected, source}, kNow));
    EXPECT_TRUE(is_new(dedupe, xid(source, 79, ""), kNow));
  }
}

// However the two sources interleave, there are as many events as the source that reported more.
TEST(EventDeduplicator, InterleavedSourcesGiveLargerSourceCount) {
  std::mt19937 random(20260101);
  const auto below = [&](unsigned limit) { return static_cast<unsigned>(random() % limit); };
  for (int round = 0; round < 500; ++round) {
    using Key = std::pair<DeviceId, std::uint32_t>;
    std::map<Key, std::map<EventSource, std::size_t>> reported;
    std::map<Key, std::size_t> news;
    std::vector<DeviceEvent> events;
    for (unsigned i = below(40); i > 0; --i) {
      const auto source = below(2) == 0 ? EventSource::driver : EventSource::kernel_log;
      const DeviceId device = below(2) == 0 ? "GPU-a" : "GPU-b";
      events.push_back(xid(source, 13 + below(3), device));
      ++reported[{device, *events.back().xid}][source];
    }
    EventDeduplicator dedupe;
    const auto step = EventDeduplicator::kMatchWindow / 50;
    TimePoint now = kNow;
    for (const DeviceEvent& event : events) {
      news[{event.device, *event.xid}] += is_new(dedupe, event, now += step) ? 1 : 0;
    }
    for (auto& [key, count] : reported) {
      const std::size_t most = std::max(count[EventSource::driver], count[EventSource::kernel_log]);
      EXPECT_EQ(news[key], most) << "round " << round << ", Xid " << key.second;
    }
  }
}

TEST(EventDeduplicator, AFloodIsBounded) {
  EventDeduplicator dedupe;
  for (std::size_t i = 0; i <= EventDeduplicator::kMaxWaiting; ++i) {
    EXPECT_TRUE(is_new(dedupe, xid(EventSource::driver, static_cast<std::uint32_t>(i)), kNow));
  }
  EXPECT_TRUE(is_new(dedupe, xid(EventSource::kernel_log, 0), kNow)) << "its double is forgotten";
  EXPECT_FALSE(is_new(dedupe, xid(EventSource::kernel_log, 100), kNow));
}

}  // namespace

}  // namespace gpuyard::events
