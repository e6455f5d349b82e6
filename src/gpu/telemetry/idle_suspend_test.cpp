#include "gpu/telemetry/idle_suspend.h"

#include <gtest/gtest.h>

#include "gpu/device/catalog.h"
#include "gpu/device/process.h"

namespace gpuyard::telemetry {
namespace {

using std::chrono::seconds;

constexpr TimePoint kStart{std::chrono::hours(1)};
constexpr Duration kDelay = seconds(4);

class IdleSuspendTest : public ::testing::Test {
 protected:
  // Updates once a second, and returns in how many of these the GPU was read.
  int reads_in(Duration time) {
    int reads = 0;
    for (; time > Duration::zero(); time -= seconds(1)) {
      suspend_.update(facts_, now_);
      reads += suspend_.pauses_polling() ? 0 : 1;
      now_ += seconds(1);
    }
    return reads;
  }
  void fall_asleep() {
    reads_in(IdleSuspend::kIdleBeforePause + kDelay);
    facts_.suspended = true;
    reads_in(seconds(1));
  }

  IdleSuspend suspend_;
  IdleSuspend::Facts facts_{.suspend_delay = kDelay, .idle = true};
  TimePoint now_ = kStart;
};

TEST_F(IdleSuspendTest, UnmanagedGpuIsAlwaysPolled) {
  facts_.suspend_delay.reset();
  EXPECT_EQ(reads_in(seconds(600)), 600);
  EXPECT_FALSE(suspend_.state());
}

TEST_F(IdleSuspendTest, BusyGpuIsAlwaysPolled) {
  facts_.idle = false;
  EXPECT_EQ(reads_in(seconds(600)), 600);
}

TEST_F(IdleSuspendTest, NeededGpuIsAlwaysPolled) {
  facts_.needed = true;
  EXPECT_EQ(reads_in(seconds(600)), 600);
}

TEST_F(IdleSuspendTest, PauseIsLongerThanKernelDelay) {
  EXPECT_EQ(reads_in(IdleSuspend::kIdleBeforePause), 5);
  EXPECT_EQ(reads_in(kDelay + IdleSuspend::kPauseMargin), 0);
}

TEST_F(IdleSuspendTest, AwakeGpuIsReadOncePerPause) {
  reads_in(IdleSuspend::kIdleBeforePause);
  EXPECT_EQ(reads_in(10 * (kDelay + IdleSuspend::kPauseMargin + seconds(1))), 10);
}

TEST_F(IdleSuspendTest, SuspendedGpuIsAsleepAndNotPolled) {
  fall_asleep();
  const TimePoint since = now_ - seconds(1);
  EXPECT_EQ(reads_in(seconds(600)), 0);
  EXPECT_EQ(suspend_.state()->asleep_since, since);
}

TEST_F(IdleSuspendTest, ResumedGpuIsPolledImmediately) {
  fall_asleep();
  facts_.suspended = false;
  EXPECT_EQ(reads_in(seconds(1)), 1);
  EXPECT_FALSE(suspend_.is_asleep());
  EXPECT_EQ(reads_in(IdleSuspend::kIdleBeforePause), 5) << "its use shows only in newer readings";
}

TEST_F(IdleSuspendTest, NeededGpuIsPolledWhileSuspended) {
  fall_asleep();
  facts_.needed = true;
  EXPECT_EQ(reads_in(seconds(3)), 3);
  EXPECT_TRUE(suspend_.is_asleep());
}

TEST_F(IdleSuspendTest, GpuIsPolledOnceUnmanaged) {
  fall_asleep();
  facts_.suspend_delay.reset();
  EXPECT_EQ(reads_in(seconds(3)), 3);
  EXPECT_FALSE(suspend_.state());
}

Sample sample_of(std::optional<decltype(Reading::value)> utilization,
                 std::optional<ProcessList> list) {
  Sample sample;
  if (utilization) sample.set({Metric::utilization_gpu, 0, kStart, *utilization});
  if (list) sample.set(*list);
  return sample;
}

ProcessList list_of(std::vector<GpuProcess> processes) {
  return {kStart, std::move(processes)};
}

GpuProcess process(ProcessKind kind) {
  GpuProcess one;
  one.pid = 7;
  one.kind = kind;
  return one;
}

TEST(HasNoWork, NeedsIdleReadingAndNoComputeProcess) {
  const std::int64_t none = 0;
  const std::int64_t some = 1;
  EXPECT_TRUE(has_no_work(sample_of(none, list_of({}))));
  EXPECT_TRUE(has_no_work(sample_of(none, list_of({process(ProcessKind::graphics)}))));
  EXPECT_FALSE(has_no_work(sample_of(some, list_of({}))));
  EXPECT_FALSE(has_no_work(sample_of(none, list_of({process(ProcessKind::compute)}))));
}

TEST(HasNoWork, UnknownUseIsNotIdle) {
  const std::int64_t none = 0;
  const Missing failed{MissingReason::timed_out, ""};
  EXPECT_FALSE(has_no_work({}));
  EXPECT_FALSE(has_no_work(sample_of(none, std::nullopt)));
  EXPECT_FALSE(has_no_work(sample_of(std::nullopt, list_of({}))));
  EXPECT_FALSE(has_no_work(sample_of(failed, list_of({}))));
  EXPECT_FALSE(has_no_work(sample_of(none, ProcessList{kStart, failed})));
}

TEST(HasNoWork, UnsupportedReadingIsIgnored) {
  const std::int64_t none = 0;
  const Missing unsupported{MissingReason::not_supported, ""};
  EXPECT_TRUE(has_no_work(sample_of(unsupported, list_of({}))));
  EXPECT_TRUE(has_no_work(sample_of(none, ProcessList{kStart, unsupported})));
  EXPECT_FALSE(has_no_work(sample_of(unsupported, ProcessList{kStart, unsupported})));
}

}  // namespace
}  // namespace gpuyard::telemetry
