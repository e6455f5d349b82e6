// libgpuyard's Control as its users have it: through its header, on a fake fleet.
#include <algorithm>
#include <chrono>
#include <mutex>
#include <string>
#include <type_traits>
#include <vector>

#include <gtest/gtest.h>

#include "gpuyard/gpuyard.h"

namespace {

using namespace std::chrono_literals;
using gpuyard::Control;
using gpuyard::Errc;
using gpuyard::Error;
using gpuyard::FakeFleet;
using gpuyard::SettingKind;
using gpuyard::SettingState;
using gpuyard::SettingValue;
using Write = FakeFleet::Write;

SettingValue one(std::int64_t value) {
  return {value, value};
}

class LibraryControl : public ::testing::Test {
 protected:
  ~LibraryControl() override {
    for (std::uint32_t i = 0; i < 4; ++i) fleet_.unblock(i);
    gpuyard::set_log_sink(nullptr);
  }
  Control open() const {
    auto control = Control::open(fleet_);
    EXPECT_TRUE(control.ok());
    return *control;
  }

  // Collects lines of the library's log, with the first letter of their level.
  static void collect_log_lines() {
    lines().clear();
    gpuyard::set_log_sink([](gpuyard::LogLevel level, std::string_view text) {
      const std::lock_guard lock(mutex());
      lines().push_back("DIWE"[static_cast<int>(level)] + (" " + std::string(text)));
    });
  }
  static std::vector<std::string> logged_lines() {
    const std::lock_guard lock(mutex());
    return lines();
  }
  static bool has_logged(const std::string& beginning) {
    const auto all = logged_lines();
    return std::ranges::any_of(
        all, [&](const std::string& line) { return line.starts_with(beginning); });
  }

  FakeFleet fleet_ = FakeFleet::with_healthy_gpus(4, 80'000'000'000);

 private:
  static std::vector<std::string>& lines() {
    static std::vector<std::string> all;
    return all;
  }
  static std::mutex& mutex() {
    static std::mutex one;
    return one;
  }
};

TEST_F(LibraryControl, OperationsReachDriverOnceInOrder) {
  RecordProperty("contract", "B1 B2 B15 E14");
  const Control control = open();
  EXPECT_EQ(control.device_count(), 4U);
  EXPECT_TRUE(control.set_persistence_mode(1, true).ok());
  EXPECT_TRUE(control.set_power_management_limit(1, 250'000).ok());
  EXPECT_TRUE(control.set_gpu_locked_clocks(1, 1200, 1500).ok());
  EXPECT_TRUE(control.reset_gpu_locked_clocks(1).ok());
  EXPECT_TRUE(control.set_mem_locked_clocks(1, 1593, 2619).ok());
  EXPECT_TRUE(control.reset_mem_locked_clocks(1).ok());
  EXPECT_TRUE(control.set_compute_mode(1, gpuyard::ComputeMode::exclusive_process).ok());
  EXPECT_TRUE(control.set_ecc_mode(1, false).ok());
  EXPECT_TRUE(control.clear_ecc_errors(1, gpuyard::EccCounter::lifetime).ok());
  EXPECT_EQ(fleet_.writes(),
            (std::vector<Write>{{1, SettingKind::persistence, one(1)},
                                {1, SettingKind::power_limit, one(250'000)},
                                {1, SettingKind::gpu_clocks, SettingValue{1200, 1500}},
                                {1, SettingKind::gpu_clocks},
                                {1, SettingKind::memory_clocks, SettingValue{1593, 2619}},
                                {1, SettingKind::memory_clocks},
                                {1, SettingKind::compute_mode, one(3)},
                                {1, SettingKind::ecc, one(0)},
                                {1, std::nullopt}}));
}

TEST_F(LibraryControl, PowerIsMilliwattsAndEnergyMillijoules) {
  RecordProperty("contract", "B2 B3");
  const Control control = open();
  ASSERT_TRUE(fleet_.set_number(2, "power_draw_instant_w", 312.5));
  ASSERT_TRUE(fleet_.set_number(2, "energy_total_j", 987.654));
  EXPECT_EQ(*control.get_instant_power_mw(2), 312'500U);
  EXPECT_EQ(*control.get_total_energy_consumption(2), 987'654U);
  const auto answer = control.send_command_blocking(2, Control::GetTotalEnergyConsumption{});
  EXPECT_EQ(answer->energy_mj, 987'654U);
  EXPECT_EQ(control.get_total_energy_consumption(0).error().code, Errc::unsupported);
}

TEST_F(LibraryControl, SettingHasRangeAndWriteIsReadBack) {
  const Control control = open();
  EXPECT_EQ(*control.read_setting(0, SettingKind::power_limit),
            (SettingState{one(300'000), one(300'000), SettingValue{100'000, 400'000}, {}}));
  const auto set =
      control.send_command_blocking(0, Control::SetPowerManagementLimit{.power_limit_mw = 250'000});
  ASSERT_TRUE(set.ok());
  EXPECT_EQ(set->before->now, one(300'000));
  EXPECT_EQ(set->after->now, one(250'000));
  EXPECT_FALSE(set->energy_mj);
}

TEST_F(LibraryControl, FormerNameReadsTheSameSetting) {
  const auto control = open();
  const auto read = control.read_setting(0, SettingKind::power_limit);
  ASSERT_TRUE(read.ok());
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
  const auto former = control.look(0, SettingKind::power_limit);
#pragma GCC diagnostic pop
  ASSERT_TRUE(former.ok());
  EXPECT_EQ(former->now, read->now);
}

TEST_F(LibraryControl, DriverErrorsKeepErrorCode) {
  RecordProperty("contract", "B17 E15");
  const Control control = open();
  fleet_.set_setting_fails(0, SettingKind::power_limit, Error{Errc::denied, "no"});
  EXPECT_EQ(control.set_power_management_limit(0, 250'000).error(), (Error{Errc::denied, "no"}));
  EXPECT_EQ(fleet_.writes().back().refused, Errc::denied);
  fleet_.set_setting_fails(0, SettingKind::power_limit, std::nullopt);
  EXPECT_TRUE(control.set_power_management_limit(0, 250'000).ok());
  fleet_.deny_control("needs CAP_SYS_ADMIN");
  EXPECT_EQ(control.set_power_management_limit(0, 250'000).error(),
            (Error{Errc::denied, "needs CAP_SYS_ADMIN"}));
  fleet_.remove_gpu(0);
  fleet_.deny_control(std::nullopt);
  EXPECT_EQ(control.set_power_management_limit(0, 250'000).error().code, Errc::device_lost);
}

TEST_F(LibraryControl, NonblockingCommandReturnsAndResultIsLogged) {
  RecordProperty("contract", "B4 B9 B16");
  collect_log_lines();
  {
    const Control control = open();
    fleet_.block(1);
    gpuyard::RequestContext context{"req-7", std::chrono::steady_clock::now() - 5s};
    ASSERT_TRUE(control
                    .send_command_nonblocking(
                        1, Control::SetPowerManagementLimit{.power_limit_mw = 250'000}, context)
                    .ok());
    ASSERT_TRUE(control.send_command_nonblocking(1, Control::GetTotalEnergyConsumption{}).ok());
    EXPECT_TRUE(fleet_.writes().empty());
    fleet_.unblock(1);
  }
  EXPECT_TRUE(has_logged("I Background task for GPU 3 successfully spawned"));
  EXPECT_TRUE(has_logged("I Power limit set to 250 W [gpu=1 time_to_command_done=50"));
  EXPECT_TRUE(has_logged("W Cannot read total energy consumption [gpu=1 "));
  EXPECT_FALSE(has_logged("E ")) << "nobody was to be told";
}

TEST_F(LibraryControl, UnknownGpuOrClosedQueueIsRefused) {
  RecordProperty("contract", "B5 B7 B11");
  static_assert(sizeof(Control) == sizeof(std::shared_ptr<void>));
  const Control control = open();
  EXPECT_EQ(control.set_persistence_mode(4, true).error().message, "GPU index 4 is out of range");
  EXPECT_EQ(control.get_instant_power_mw(4).error().message, "GPU index 4 is out of range");
  const Control copy = control;  // NOLINT(performance-unnecessary-copy-initialization)
  copy.close();
  EXPECT_EQ(control.set_persistence_mode(0, true).error().code, Errc::unavailable);
  EXPECT_EQ(control.send_command_nonblocking(0, Control::ResetGpuLockedClocks{}).error().code,
            Errc::unavailable);
  EXPECT_TRUE(fleet_.writes().empty());
}

static_assert(std::is_copy_constructible_v<Control> && std::is_copy_assignable_v<Control>);
static_assert(!std::is_copy_constructible_v<Control::PendingAnswer>);

}  // namespace
