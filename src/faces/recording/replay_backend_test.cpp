#include "faces/recording/replay_backend.h"

#include <gtest/gtest.h>

#include "faces/recording/recording_for_tests.h"
#include "faces/recording/recording_line.h"

namespace gpuyard::recording {
namespace {

using std::chrono::hours;
using std::chrono::seconds;

std::string an_hour() {
  RecordingEncoder recorder;
  std::string text;
  for (int minute = 0; minute <= 60; ++minute) {
    auto gpu = device(0, "GPU-a");
    set(gpu, Metric::power_draw, std::int64_t{1'000} * minute);
    if (minute == 50) {
      gpu.condition = DeviceCondition::unavailable;
      gpu.why = "GPU is lost";
    }
    text += recorder.encode(snapshot({gpu}), std::chrono::minutes(minute));
  }
  return text;
}

Reading power(Backend& backend) {
  return *backend.read("GPU-a", {Probe::power}).find(Metric::power_draw);
}

TEST(ReplayBackend, DriverIsMarkedSimulated) {
  const TemporaryFile file(an_hour());
  auto backend = open_replay({file.path(), {}, 1, BootClock::now()});
  ASSERT_TRUE(backend);
  const auto session = (*backend)->start();
  ASSERT_TRUE(session);
  EXPECT_TRUE(session->driver.simulated);
  EXPECT_EQ(session->driver.driver_version, "535.104.05");
  EXPECT_EQ(session->gpu_count, 1U);
  EXPECT_EQ((*backend)->open(0).uuid, "GPU-a");
}

TEST(ReplayBackend, StartsAtGivenOffset) {
  const TemporaryFile file(an_hour());
  auto backend = open_replay({file.path(), std::chrono::minutes(30), 1, BootClock::now()});
  ASSERT_TRUE(backend);
  EXPECT_EQ(*power(**backend).number(), 30'000);
}

TEST(ReplayBackend, SpeedFactorIsApplied) {
  const TemporaryFile file(an_hour());
  // Ten seconds ago, at sixty times the speed.
  auto backend = open_replay({file.path(), {}, 60, BootClock::now() - seconds(10)});
  ASSERT_TRUE(backend);
  EXPECT_EQ(*power(**backend).number(), 10'000);
}

TEST(ReplayBackend, AGpuThatWasLostIsLost) {
  const TemporaryFile file(an_hour());
  auto backend = open_replay({file.path(), std::chrono::minutes(50), 1, BootClock::now()});
  ASSERT_TRUE(backend);
  const auto reading = power(**backend);
  ASSERT_NE(reading.missing(), nullptr);
  EXPECT_EQ(*reading.missing(), (Missing{MissingReason::device_lost, "GPU is lost"}));
}

TEST(ReplayBackend, ReadingAfterEndIsMissing) {
  const TemporaryFile file(an_hour());
  auto backend = open_replay({file.path(), {}, 1, BootClock::now() - hours(2)});
  ASSERT_TRUE(backend);
  const auto reading = power(**backend);
  ASSERT_NE(reading.missing(), nullptr);
  EXPECT_EQ(reading.missing()->detail, "the recording has ended");
}

TEST(ReplayBackend, UnrecordedReadingIsMissingNotZero) {
  const TemporaryFile file(an_hour());
  auto backend = open_replay({file.path(), {}, 1, BootClock::now()});
  ASSERT_TRUE(backend);
  const auto sample = (*backend)->read("GPU-a", {Probe::temperature});
  ASSERT_NE(sample.find(Metric::temperature_core)->missing(), nullptr);
}

TEST(ReplayBackend, BeginningBehindTheEndIsRefused) {
  const TemporaryFile file(an_hour());
  const auto backend = open_replay({file.path(), hours(2), 1, BootClock::now()});
  ASSERT_FALSE(backend);
  EXPECT_NE(backend.error().message.find("is 3600.0 s long"), std::string::npos);
}

}  // namespace
}  // namespace gpuyard::recording
