#include "driver/event_thread.h"

#include <algorithm>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <vector>

#include <gtest/gtest.h>

#include "device/fake_backend.h"
#include "driver/heard_for_tests.h"

namespace gpuyard::driver {
namespace {

// A driver whose wait fails so often, then tells one event, and then waits.
class Moody final : public Backend {
 public:
  Result<DriverSession> start() override { return DriverSession{}; }
  DeviceInfo open(std::uint32_t) override { return {}; }
  Sample read(const DeviceId&, ProbeSet) override { return {}; }
  Result<std::optional<DeviceEvent>> next_event(Duration) override {
    std::unique_lock lock(mutex);
    if (calls++ < failures) return Error{Errc::device_lost, "GPU is lost"};
    if (calls == failures + 1) return std::optional(DeviceEvent{"GPU-a", EventKind::xid});
    blocked.wait_for(lock, kAges, [&] { return released; });
    return std::optional<DeviceEvent>();
  }

  std::mutex mutex;
  std::condition_variable blocked;
  bool released = false;
  int failures = 3;
  int calls = 0;
};

TEST(EventThread, TellsWhatTheDriverTells) {
  auto fleet = FakeFleet::with_healthy_gpus(2, 1000);
  Heard<DeviceEvent> heard;
  const EventThread thread(fleet.backend(), std::ref(heard));
  fleet.raise_event(1, EventKind::xid, 79);
  const auto events = heard.wait_for(1);
  ASSERT_EQ(events.size(), 1U);
  EXPECT_EQ(events[0].xid, 79U);
  EXPECT_EQ(events[0].source, EventSource::driver);
}

TEST(EventThread, GoesOnAfterWaitsThatFail) {
  Heard<DeviceEvent> heard;
  auto moody = std::make_shared<Moody>();
  {
    const EventThread thread(moody, std::ref(heard));
    EXPECT_EQ(heard.wait_for(1).size(), 1U);
    const std::lock_guard lock(moody->mutex);
    moody->released = true;
    moody->blocked.notify_all();
  }
  EXPECT_GE(moody->calls, moody->failures + 1);
}

TEST(EventThread, AWaitThatFailsAtOnceForEverIsAskedLessAndLess) {
  auto moody = std::make_shared<Moody>();
  moody->failures = 1'000'000;
  const TimePoint began = BootClock::now();
  {
    Heard<DeviceEvent> heard;
    const EventThread thread(moody, std::ref(heard));
    for (int calls = 0; calls < 3;) {
      std::unique_lock lock(moody->mutex);
      moody->blocked.wait_for(lock, std::chrono::milliseconds(1));
      calls = moody->calls;
    }
  }
  EXPECT_GE(BootClock::now() - began, EventThread::kFirstPause * 3);
  EXPECT_LT(moody->calls, 20);
}

TEST(EventThread, AWaitThatNeverReturnsIsLeftBehind) {
  Heard<DeviceEvent> heard;
  auto stuck = std::make_shared<Moody>();
  stuck->failures = 0;
  const TimePoint began = BootClock::now();
  {
    const EventThread thread(stuck, std::ref(heard));
    ASSERT_EQ(heard.wait_for(1).size(), 1U);
  }
  EXPECT_LT(BootClock::now() - began, std::chrono::seconds(10));
  const std::lock_guard lock(stuck->mutex);
  stuck->released = true;
  stuck->blocked.notify_all();
}

TEST(EventThread, AFloodIsCutAndSaidSo) {
  auto fleet = FakeFleet::with_healthy_gpus(2, 1000);
  Heard<DeviceEvent> heard;
  const EventThread thread(fleet.backend(), std::ref(heard));
  for (int i = 0; i < 1000; ++i) fleet.raise_event(0, EventKind::ecc_corrected);
  fleet.raise_event(1, EventKind::xid, 79);
  std::vector<DeviceEvent> events;
  const auto said = [&](EventKind kind) {
    return std::ranges::count(events, kind, &DeviceEvent::kind);
  };
  for (std::size_t count = 1; said(EventKind::events_lost) == 0; ++count) {
    events = heard.wait_for(count);
    ASSERT_GE(events.size(), count);
  }
  EXPECT_EQ(said(EventKind::xid), 1);
  EXPECT_LT(said(EventKind::ecc_corrected), 200);
}

}  // namespace
}  // namespace gpuyard::driver
