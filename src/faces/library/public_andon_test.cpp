// Andon as a user of libgpuyard has it: fed by a monitor of a fleet whose GPUs the test harms.
#include <chrono>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "gpuyard/gpuyard.h"

namespace {

using namespace std::chrono_literals;
using gpuyard::Alert;
using gpuyard::Andon;

std::vector<std::string> lines(const std::vector<Alert>& alerts) {
  std::vector<std::string> all;
  for (const Alert& alert : alerts) all.push_back(alert.line());
  return all;
}

TEST(PublicAndon, IdleGpuRaisesAlertUnlessFree) {
  RecordProperty("contract", "C6 C8");
  auto fleet = gpuyard::MockBuilder()
                   .with_device(0, "in use")
                   .with_device(1, "free")
                   .with_device(2, "not known")
                   .build();
  ASSERT_TRUE(fleet.set_number(0, "processes_compute", 1));
  ASSERT_TRUE(fleet.set_number(1, "processes_compute", 0));
  const auto monitor = gpuyard::Monitor::open(fleet);
  ASSERT_TRUE(monitor);
  const auto metrics = monitor->collect_metrics();
  ASSERT_EQ(metrics.size(), 3U);
  EXPECT_EQ(metrics[0].in_use, true);
  EXPECT_EQ(metrics[1].in_use, false);
  EXPECT_EQ(metrics[2].in_use, std::nullopt);
  Andon andon({.idle_timeout_secs = 60});
  EXPECT_TRUE(andon.check(metrics, 0s).empty());
  EXPECT_EQ(lines(andon.check(metrics, 61s)),
            (std::vector<std::string>{
                "ALERT [severity 40]: GPU 0: idle for 61 s, threshold 60 s: possible hang",
                "ALERT [severity 40]: GPU 2: idle for 61 s, threshold 60 s: possible hang"}));
}

TEST(PublicAndon, DefaultClockMeasuresIdleTime) {
  RecordProperty("contract", "C6");
  Andon andon({.idle_timeout_secs = 0});
  const auto metrics = gpuyard::MockBuilder().with_device(0, "H100").collect_metrics();
  andon.check(metrics);
  const auto alerts = andon.check(metrics);
  ASSERT_EQ(alerts.size(), 1U);
  EXPECT_LT(std::get<gpuyard::GpuIdle>(alerts[0].kind).duration_secs, 60U);
}

}  // namespace
