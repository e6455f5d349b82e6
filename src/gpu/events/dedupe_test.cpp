#include "events/dedupe.h"

#include <algorithm>
#include <map>
#include <random>
#include <vector>

#include <gtest/gtest.h>

namespace gpuyard::events {
namespace {

using std::chrono::milliseconds;

constexpr TimePoint kNow{std::chrono::hours(1)};

DeviceEvent xid(EventSource source, std::uint32_t number, const DeviceId& device = "GPU-a") {
  DeviceEvent event{device, EventKind::xid, source};
  event.xid = number;
  return event;
}

TEST(Dedupe, TheSameXidFromBothSourcesIsOneEvent) {
  Dedupe dedupe;
  EXPECT_TRUE(dedupe.is_new(xid(EventSource::driver, 79), kNow));
  EXPECT_FALSE(dedupe.is_new(xid(EventSource::kernel_log, 79), kNow + milliseconds(300)));
}

TEST(Dedupe, TheSameXidTwiceFromOneSourceIsTwoEvents) {
  Dedupe dedupe;
  EXPECT_TRUE(dedupe.is_new(xid(EventSource::driver, 79), kNow));
  EXPECT_TRUE(dedupe.is_new(xid(EventSource::driver, 79), kNow));
}

TEST(Dedupe, AnotherXidOrAnotherGpuIsAnotherEvent) {
  Dedupe dedupe;
  EXPECT_TRUE(dedupe.is_new(xid(EventSource::driver, 79), kNow));
  EXPECT_TRUE(dedupe.is_new(xid(EventSource::kernel_log, 48), kNow));
  EXPECT_TRUE(dedupe.is_new(xid(EventSource::kernel_log, 79, "GPU-b"), kNow));
}

TEST(Dedupe, LongAfterwardsItHappenedAgain) {
  Dedupe dedupe;
  EXPECT_TRUE(dedupe.is_new(xid(EventSource::driver, 79), kNow));
  const TimePoint later = kNow + Dedupe::kWindow + milliseconds(1);
  EXPECT_TRUE(dedupe.is_new(xid(EventSource::kernel_log, 79), later));
}

TEST(Dedupe, WhatIsNoXidOrOfNoKnownGpuIsAlwaysNew) {
  Dedupe dedupe;
  for (const EventSource source : {EventSource::driver, EventSource::kernel_log}) {
    EXPECT_TRUE(dedupe.is_new({"GPU-a", EventKind::ecc_corrected, source}, kNow));
    EXPECT_TRUE(dedupe.is_new(xid(source, 79, ""), kNow));
  }
}

// However the two sources interleave: as many events as the one that told more.
TEST(Dedupe, InAnyOrderThereAreAsManyAsTheMoreTalkativeSourceTold) {
  std::mt19937 random(20260101);
  const auto below = [&](unsigned limit) { return static_cast<unsigned>(random() % limit); };
  for (int round = 0; round < 500; ++round) {
    using Key = std::pair<DeviceId, std::uint32_t>;
    std::map<Key, std::map<EventSource, std::size_t>> told;
    std::map<Key, std::size_t> news;
    std::vector<DeviceEvent> events;
    for (unsigned i = below(40); i > 0; --i) {
      const auto source = below(2) == 0 ? EventSource::driver : EventSource::kernel_log;
      const DeviceId device = below(2) == 0 ? "GPU-a" : "GPU-b";
      events.push_back(xid(source, 13 + below(3), device));
      ++told[{device, *events.back().xid}][source];
    }
    Dedupe dedupe;
    const auto step = Dedupe::kWindow / 50;
    TimePoint now = kNow;
    for (const DeviceEvent& event : events) {
      news[{event.device, *event.xid}] += dedupe.is_new(event, now += step) ? 1 : 0;
    }
    for (auto& [key, count] : told) {
      const std::size_t most = std::max(count[EventSource::driver], count[EventSource::kernel_log]);
      EXPECT_EQ(news[key], most) << "round " << round << ", Xid " << key.second;
    }
  }
}

TEST(Dedupe, AFloodIsBounded) {
  Dedupe dedupe;
  for (std::size_t i = 0; i <= Dedupe::kMostWaiting; ++i) {
    EXPECT_TRUE(dedupe.is_new(xid(EventSource::driver, static_cast<std::uint32_t>(i)), kNow));
  }
  EXPECT_TRUE(dedupe.is_new(xid(EventSource::kernel_log, 0), kNow)) << "its double is forgotten";
  EXPECT_FALSE(dedupe.is_new(xid(EventSource::kernel_log, 100), kNow));
}

}  // namespace
}  // namespace gpuyard::events
