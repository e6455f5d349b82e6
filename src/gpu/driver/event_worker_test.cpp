#include "gpu/driver/event_worker.h"

#include <algorithm>
#include <mutex>
#include <vector>

#include <gtest/gtest.h>

#include "base/captured_log_for_tests.h"
#include "gpu/device/fake_backend.h"
#include "gpu/driver/captured_replies_for_tests.h"

namespace gpuyard::driver {
namespace {

// A driver whose wait first fails a number of times, then returns one event, and then waits.
class FlakyBackend final : public Backend {
 public:
  Result<DriverSession> start() override { return DriverSession{}; }
  DeviceInfo open(std::uint32_t) override { return {}; }
  Sample read(const DeviceId&, ProbeSet) override { return {}; }
  Result<std::optional<DeviceEvent>> next_event(Duration) override {
    std::unique_lock lock(mutex);
    if (calls++ < failures) return Error{Errc::device_lost, "GPU is lost"};
    if (calls == failures + 1) return std::optional(DeviceEvent{"GPU-a", EventKind::xid});
    blocked.wait_for(lock, kTestTimeout, [&] { return released; });
    return std::optional<DeviceEvent>();
  }

  std::mutex mutex;
  std::condition_variable blocked;
  bool released = false;
  int failures = 3;
  int calls = 0;
};

TEST(EventWorker, DriverEventReachesListener) {
  auto fleet = FakeFleet::with_healthy_gpus(2, 1000);
  CapturedReplies<DeviceEvent> replies;
  const EventWorker thread(fleet.backend(), std::ref(replies));
  fleet.raise_event(1, EventKind::xid, 79);
  const auto events = replies.wait_for(1);
  ASSERT_EQ(events.size(), 1U);
  EXPECT_EQ(events[0].xid, 79U);
  EXPECT_EQ(events[0].source, EventSource::driver);
}

TEST(EventWorker, FailedWaitsAreRetried) {
  CapturedReplies<DeviceEvent> replies;
  auto moody = std::make_shared<FlakyBackend>();
  {
    const EventWorker thread(moody, std::ref(replies));
    EXPECT_EQ(replies.wait_for(1).size(), 1U);
    const std::lock_guard lock(moody->mutex);
    moody->released = true;
    moody->blocked.notify_all();
  }
  EXPECT_GE(moody->calls, moody->failures + 1);
}

TEST(EventWorker, RepeatedWaitFailureBacksOff) {
  auto moody = std::make_shared<FlakyBackend>();
  moody->failures = 1'000'000;
  const TimePoint began = BootClock::now();
  {
    CapturedReplies<DeviceEvent> replies;
    const EventWorker thread(moody, std::ref(replies));
    for (int calls = 0; calls < 3;) {
      std::unique_lock lock(moody->mutex);
      moody->blocked.wait_for(lock, std::chrono::milliseconds(1));
      calls = moody->calls;
    }
  }
  EXPECT_GE(BootClock::now() - began, EventWorker::kMinRetryDelay * 3);
  EXPECT_LT(moody->calls, 20);
}

TEST(EventWorker, AWaitThatNeverReturnsIsLeftBehind) {
  CapturedReplies<DeviceEvent> replies;
  auto stuck = std::make_shared<FlakyBackend>();
  stuck->failures = 0;
  const TimePoint began = BootClock::now();
  {
    const EventWorker thread(stuck, std::ref(replies));
    ASSERT_EQ(replies.wait_for(1).size(), 1U);
  }
  EXPECT_LT(BootClock::now() - began, std::chrono::seconds(10));
  const std::lock_guard lock(stuck->mutex);
  stuck->released = true;
  stuck->blocked.notify_all();
}

TEST(EventWorker, FloodIsCutAndReported) {
  auto fleet = FakeFleet::with_healthy_gpus(2, 1000);
  CapturedReplies<DeviceEvent> replies;
  const EventWorker thread(fleet.backend(), std::ref(replies));
  for (int i = 0; i < 1000; ++i) fleet.raise_event(0, EventKind::ecc_corrected);
  fleet.raise_event(1, EventKind::xid, 79);
  std::vector<DeviceEvent> events;
  const auto said = [&](EventKind kind) {
    return std::ranges::count(events, kind, &DeviceEvent::kind);
  };
  for (std::size_t count = 1; said(EventKind::events_lost) == 0; ++count) {
    events = replies.wait_for(count);
    ASSERT_GE(events.size(), count);
  }
  EXPECT_EQ(said(EventKind::xid), 1);
  EXPECT_LT(said(EventKind::ecc_corrected), 200);
}

TEST(EventWorker, FatalXidPassesNoteFlood) {
  auto fleet = FakeFleet::with_healthy_gpus(1, 1000);
  CapturedReplies<DeviceEvent> replies;
  const EventWorker thread(fleet.backend(), std::ref(replies));
  for (int i = 0; i < 1000; ++i) fleet.raise_event(0, EventKind::xid, 31);
  fleet.raise_event(0, EventKind::xid, 79);
  std::vector<DeviceEvent> events;
  const auto fatal = [&] { return std::ranges::count(events, 79U, &DeviceEvent::xid); };
  const auto lost = [&] {
    return std::ranges::count(events, EventKind::events_lost, &DeviceEvent::kind);
  };
  for (std::size_t count = 1; fatal() == 0 || lost() == 0; ++count) {
    events = replies.wait_for(count);
    ASSERT_GE(events.size(), count);
  }
  EXPECT_LT(std::ranges::count(events, 31U, &DeviceEvent::xid), 200);
  const auto said = std::ranges::find(events, EventKind::events_lost, &DeviceEvent::kind);
  EXPECT_GT(said->lost, 0U);
}

}  // namespace

}  // namespace gpuyard::driver
