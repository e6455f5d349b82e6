#include "faces/library/local_control.h"

#include <algorithm>
#include <future>
#include <thread>
#include <type_traits>

#include <gtest/gtest.h>

#include "base/captured_log_for_tests.h"
#include "faces/library/monitor.h"
#include "gpu/device/fake_backend.h"
#include "gpu/driver/command_workers.h"

namespace gpuyard::library {
namespace {

constexpr std::chrono::seconds kTestTimeout{30};  // only a broken test waits this long
constexpr Duration kShortDelay = std::chrono::milliseconds(20);
constexpr const char* kCallerGone = "ERROR Failed to send response to caller";

class ControlTest : public ::testing::Test {
 protected:
  ~ControlTest() override {
    for (std::uint32_t i = 0; i < 4; ++i) fleet_.unblock(i);
  }
  LocalControl open() {
    auto control = LocalControl::open(fleet_.backend(), kTestTimeout);
    EXPECT_TRUE(control.ok());
    return *std::move(control);
  }
  static Command limit(std::int64_t watts) { return Apply{power_limit(watts * 1'000)}; }
  // Sends a command that is carried out after all before it.
  static void settle(const LocalControl& control, std::uint32_t index) {
    EXPECT_TRUE(
        control
            .send_command_blocking(index, ReadSetting{SettingKind::persistence}, kTestTimeout, {})
            .ok());
  }

  FakeFleet fleet_ = FakeFleet::with_healthy_gpus(4, 1'000);
};

TEST_F(ControlTest, CopiesShareOneSetOfWorkers) {
  RecordProperty("contract", "B5 B7");
  static_assert(sizeof(LocalControl) == sizeof(std::shared_ptr<void>));
  const LocalControl control = open();
  const LocalControl copy = control;  // NOLINT(performance-unnecessary-copy-initialization)
  EXPECT_EQ(copy.device_count(), 4U);
  copy.close();
  EXPECT_EQ(control.send_command_nonblocking(0, limit(250), {}).error().code, Errc::unavailable);
}

TEST_F(ControlTest, ABlockingCommandGivesItsOwnResult) {
  RecordProperty("contract", "B10 B3");
  const LocalControl control = open();
  const auto done = control.send_command_blocking(1, limit(250), kTestTimeout, {});
  ASSERT_TRUE(done.ok()) << done.error().message;
  EXPECT_EQ(done->after->now, (SettingValue{250'000, 250'000}));
  fleet_.fail_setting_writes(1, SettingKind::power_limit, Error{Errc::denied, "no"});
  EXPECT_EQ(control.send_command_blocking(1, limit(200), kTestTimeout, {}).error(),
            (Error{Errc::denied, "no"}));
}

TEST_F(ControlTest, CompletionHandlerIsCalledOnce) {
  RecordProperty("contract", "B4");
  const LocalControl control = open();
  std::promise<CommandReply> promise;
  ASSERT_TRUE(
      control
          .send_command_nonblocking(2, limit(250), {},
                                    [&](const CommandReply& reply) { promise.set_value(reply); })
          .ok());
  auto future = promise.get_future();
  ASSERT_EQ(future.wait_for(kTestTimeout), std::future_status::ready);
  EXPECT_EQ(future.get().after->now, (SettingValue{250'000, 250'000}));
}

TEST_F(ControlTest, AbandonedCallerIsLoggedAndWorkerContinues) {
  RecordProperty("contract", "B14");
  const CapturedLog log;
  const LocalControl control = open();
  fleet_.block(1);
  EXPECT_EQ(control.send_command_blocking(1, limit(250), kShortDelay, {}).error(),
            (Error{Errc::timed_out, "the GPU did not finish within 20 ms; it may still do so"}));
  {
    const auto dropped = control.send_command(1, limit(260), {});
    ASSERT_TRUE(dropped.ok());
  }
  fleet_.unblock(1);
  settle(control, 1);
  EXPECT_EQ(std::ranges::count(log.lines(), kCallerGone), 2);
  EXPECT_EQ(fleet_.writes().size(), 2U);
}

TEST_F(ControlTest, PendingReplyAllowsRepeatedWaitsButOneResult) {
  const CapturedLog log;
  const LocalControl control = open();
  fleet_.block(1);
  auto pending = control.send_command(1, limit(250), {});
  ASSERT_TRUE(pending.ok());
  EXPECT_EQ(pending->wait(kShortDelay).error().code, Errc::timed_out);
  fleet_.unblock(1);
  EXPECT_TRUE(pending->wait(kTestTimeout).ok());
  EXPECT_EQ(pending->wait(kTestTimeout).error().code, Errc::invalid);
  EXPECT_EQ(std::ranges::count(log.lines(), kCallerGone), 0);
}

TEST_F(ControlTest, AGpuThatWasNotOpenedSaysWhy) {
  fleet_.remove_gpu(3);
  const LocalControl control = open();
  EXPECT_EQ(control.device_count(), 4U);
  EXPECT_EQ(control.send_command_nonblocking(3, limit(250), {}).error(),
            (Error{Errc::device_lost, "GPU 3 cannot be controlled: GPU is lost"}));
}

TEST_F(ControlTest, ClosingFailsStuckCommandAndFinishesQueued) {
  RecordProperty("contract", "B12 B8");
  auto control = std::make_optional(open());
  fleet_.block(0);
  auto stuck = control->send_command(0, limit(250), {});
  auto queued = control->send_command(1, limit(250), {});
  control.reset();  // the last of them
  EXPECT_EQ(stuck->wait(kTestTimeout).error(),
            (Error{Errc::unavailable, "GPU management task for GPU 0 terminated"}));
  EXPECT_TRUE(queued->wait(kTestTimeout).ok())
      << "what a healthy GPU had queued is carried out first";
}

TEST_F(ControlTest, LastCopyMayEndInCompletionHandler) {
  std::promise<void> promise;
  {
    const LocalControl control = open();
    fleet_.block(0);
    ASSERT_TRUE(control
                    .send_command_nonblocking(
                        0, limit(250), {},
                        [control, &promise](const CommandReply&) { promise.set_value(); })
                    .ok());
  }
  fleet_.unblock(0);
  EXPECT_EQ(promise.get_future().wait_for(kTestTimeout), std::future_status::ready);
}

TEST_F(ControlTest, PowerFallsBackFromInstantToAverage) {
  RecordProperty("contract", "B2");
  const LocalControl control = open();
  EXPECT_EQ(control.get_instant_power_mw(0, kTestTimeout).error().code, Errc::unsupported);
  fleet_.set_number(0, Metric::power_draw, 200'000);
  EXPECT_EQ(*control.get_instant_power_mw(0, kTestTimeout), 200'000);
  fleet_.set_number(0, Metric::power_draw_instant, 250'000);
  EXPECT_EQ(*control.get_instant_power_mw(0, kTestTimeout), 250'000);
}

TEST_F(ControlTest, AGpuIsReadWhileItIsChanged) {
  RecordProperty("contract", "B2");
  const std::shared_ptr<Backend> backend = fleet_.backend();
  const auto control = LocalControl::open(backend, kTestTimeout);
  const auto monitor = Monitor::open(backend);
  ASSERT_TRUE(control.ok() && monitor.ok());
  std::jthread reading([&] {
    for (int i = 0; i < 50; ++i) monitor->snapshot(kTestTimeout);
  });
  for (int i = 0; i < 50; ++i) {
    EXPECT_TRUE(control->send_command_blocking(0, limit(200 + i), kTestTimeout, {}).ok());
  }
}

TEST(ControlWithoutADriver, DoesNotOpenAndSaysWhy) {
  const auto fleet = FakeFleet::without_driver({Errc::unavailable, "no"});
  EXPECT_EQ(LocalControl::open(fleet.backend(), kTestTimeout).error().message, "no");
}

}  // namespace
}  // namespace gpuyard::library
