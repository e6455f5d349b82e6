#include "faces/library/energy_window.h"

#include <thread>

#include <gtest/gtest.h>

#include "faces/library/no_threads_for_tests.h"
#include "gpu/device/fake_backend.h"

namespace gpuyard::library {
namespace {

class EnergyWindowTest : public ::testing::Test {
 protected:
  EnergyWindowTest() {
    for (const std::uint32_t gpu : {0U, 1U}) {
      fleet_.set_number(gpu, Metric::energy_total, 1'000'000);
      fleet_.set_number(gpu, Metric::power_draw, 100'000);
    }
  }
  Monitor open() const {
    auto monitor = Monitor::open(fleet_.backend());
    EXPECT_TRUE(monitor);
    return *std::move(monitor);
  }

  FakeFleet fleet_ = FakeFleet::with_healthy_gpus(2, std::int64_t{80} << 30U);
};

TEST_F(EnergyWindowTest, MarkReportsCounterGrowth) {
  const Monitor monitor = open();
  const auto window = EnergyWindow::begin(monitor, {.gpus = {"1"}});
  ASSERT_TRUE(window) << window.error().message;
  fleet_.set_number(0, Metric::energy_total, 1'777'000);
  fleet_.set_number(1, Metric::energy_total, 1'250'500);
  const EnergyMark mark = window->mark();
  const energy::WindowResult& measured = mark.used;
  ASSERT_EQ(measured.gpus.size(), 1U);
  EXPECT_EQ(mark.snapshot.devices.at(1).info.index, 1U);
  EXPECT_EQ(measured.gpus[0].uuid, mark.snapshot.devices.at(1).info.uuid);
  EXPECT_EQ(measured.energy_mj(), 250'500);
  EXPECT_EQ(measured.gpus[0].peak_mw, 100'000);
  EXPECT_FALSE(measured.gpus[0].estimated);
}

TEST_F(EnergyWindowTest, SeesAPeakBetweenItsEdges) {
  const Monitor monitor = open();
  const auto window = EnergyWindow::begin(monitor, {});
  ASSERT_TRUE(window);
  fleet_.set_number(0, Metric::power_draw, 700'000);
  const TimePoint deadline = BootClock::now() + std::chrono::seconds(10);
  while (window->mark().used.gpus[0].peak_mw < 700'000 && BootClock::now() < deadline) {
    std::this_thread::yield();
  }
  fleet_.set_number(0, Metric::power_draw, 100'000);
  EXPECT_EQ(window->mark().used.gpus[0].peak_mw, 700'000);
  EXPECT_EQ(window->mark().used.gpus[1].peak_mw, 100'000);
}

TEST_F(EnergyWindowTest, BlockedGpuDoesNotDelayOthers) {
  const Monitor monitor = open();
  const auto window = EnergyWindow::begin(monitor, {});
  ASSERT_TRUE(window);
  fleet_.block(1);
  fleet_.set_number(0, Metric::energy_total, 1'003'000);
  const energy::WindowResult measured = window->mark().used;
  fleet_.unblock(1);
  EXPECT_EQ(measured.gpus[0].energy_mj, 3'000);
  EXPECT_EQ(measured.gpus[1].energy_mj, 0);
  EXPECT_GT(energy::seconds_of(measured.gpus[1].age), 0);
}

TEST_F(EnergyWindowTest, GpuWithoutEnergyOrPowerIsUnknown) {
  fleet_.set_missing(0, Metric::energy_total, {MissingReason::not_supported, ""});
  fleet_.set_missing(0, Metric::power_draw, {MissingReason::not_supported, ""});
  const Monitor monitor = open();
  const auto window = EnergyWindow::begin(monitor, {.gpus = {"0", "1"}});
  ASSERT_TRUE(window) << window.error().message;
  const energy::WindowResult measured = window->mark().used;
  ASSERT_EQ(measured.gpus.size(), 2U);
  EXPECT_FALSE(measured.gpus[0].known);
  EXPECT_TRUE(measured.gpus[1].known);
  EXPECT_TRUE(measured.is_partial());
  EXPECT_EQ(EnergyWindow::begin(monitor, {.gpus = {"5"}}).error().code, Errc::not_found);
}

TEST_F(EnergyWindowTest, WithoutAThreadIsAnError) {
  const Monitor monitor = open();
  const NoThreads none;
  EXPECT_EQ(EnergyWindow::begin(monitor, {}).error().code, Errc::unavailable);
}

}  // namespace
}  // namespace gpuyard::library
