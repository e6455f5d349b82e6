#include "gpu/device/fake_fleet.h"

#include <gtest/gtest.h>

#include "gpu/device/fake_backend.h"

namespace gpuyard {
namespace {

using fakes::FakeWrite;

class FakeSettings : public ::testing::Test {
 protected:
  std::optional<SettingValue> now(SettingKind kind) {
    return backend_->read_setting(id_, kind)->now;
  }

  FakeFleet fleet_ = FakeFleet::with_healthy_gpus(2, 1'000);
  std::unique_ptr<Backend> backend_ = fleet_.backend();
  const DeviceId id_ = fleet_.inventory().devices[1].id;
};

TEST_F(FakeSettings, AppliedSettingIsReadBack) {
  RecordProperty("contract", "B1");
  ASSERT_TRUE(backend_->check_control().ok());
  ASSERT_TRUE(backend_->apply(id_, power_limit(250'000)).ok());
  ASSERT_TRUE(backend_->apply(id_, persistence(true)).ok());
  EXPECT_EQ(now(SettingKind::power_limit), (SettingValue{250'000, 250'000}));
  EXPECT_EQ(now(SettingKind::persistence), (SettingValue{1, 1}));
}

TEST_F(FakeSettings, LockedClocksCannotBeReadBack) {
  ASSERT_TRUE(backend_->apply(id_, gpu_clocks(1200, 1500)).ok());
  EXPECT_FALSE(now(SettingKind::gpu_clocks));
}

TEST_F(FakeSettings, EccWaitsForAReset) {
  ASSERT_TRUE(backend_->apply(id_, ecc(false)).ok());
  const auto pending = *backend_->read_setting(id_, SettingKind::ecc);
  EXPECT_EQ(pending.now, (SettingValue{0, 0}));
  EXPECT_EQ(pending.until_reset, (SettingValue{1, 1}));
  ASSERT_TRUE(backend_->apply(id_, ecc(true)).ok());
  EXPECT_FALSE(backend_->read_setting(id_, SettingKind::ecc)->until_reset);
}

TEST_F(FakeSettings, WritesAreRecordedInOrder) {
  ASSERT_TRUE(backend_->apply(id_, power_limit(250'000)).ok());
  EXPECT_EQ(backend_->apply(id_, power_limit(1)).error().code, Errc::invalid);
  ASSERT_TRUE(backend_->clear_ecc(id_, EccCounter::lifetime).ok());
  EXPECT_EQ(fleet_.writes(), (std::vector<FakeWrite>{{1, power_limit(250'000)},
                                                     {1, power_limit(1), Errc::invalid},
                                                     {1, EccCounter::lifetime}}));
}

TEST_F(FakeSettings, InjectedErrorFailsWrites) {
  fleet_.fail_setting_writes(1, SettingKind::power_limit, Error{Errc::denied, "no"});
  EXPECT_EQ(backend_->apply(id_, power_limit(250'000)).error(), (Error{Errc::denied, "no"}));
  fleet_.fail_setting_writes(1, SettingKind::power_limit, std::nullopt);
  EXPECT_TRUE(backend_->apply(id_, power_limit(250'000)).ok());
  fleet_.set_unsupported(1, SettingKind::memory_clocks);
  EXPECT_EQ(backend_->read_setting(id_, SettingKind::memory_clocks).error().code,
            Errc::unsupported);
  fleet_.deny_control(Error{Errc::denied, "not you"});
  EXPECT_EQ(backend_->check_control().error().message, "not you");
}

TEST_F(FakeSettings, ExistingReadingReflectsAppliedSetting) {
  fleet_.set_number(1, Metric::power_limit, 300'000);
  ASSERT_TRUE(backend_->apply(id_, power_limit(250'000)).ok());
  const Sample sample = backend_->read(id_, {Probe::power_limit});
  EXPECT_EQ(*sample.number(Metric::power_limit), 250'000);
  EXPECT_EQ(sample.number(Metric::power_limit_set), nullptr);
}

TEST_F(FakeSettings, ClearSinceLoadResetsOnlyVolatileEccCount) {
  fleet_.inject_ecc_error(1);
  ASSERT_TRUE(backend_->clear_ecc(id_, EccCounter::since_load).ok());
  const Sample sample = backend_->read(id_, {Probe::ecc_totals});
  EXPECT_EQ(*sample.number(Metric::ecc_uncorrected_volatile), 0);
  EXPECT_EQ(*sample.number(Metric::ecc_uncorrected_aggregate), 1);
}

TEST_F(FakeSettings, TotalEnergyFollowsReading) {
  EXPECT_EQ(backend_->total_energy(id_).error().code, Errc::unsupported);
  fleet_.set_number(1, Metric::energy_total, 123);
  EXPECT_EQ(*backend_->total_energy(id_), 123);
  fleet_.set_missing(1, Metric::energy_total, {MissingReason::failed, "Unknown Error"});
  EXPECT_EQ(backend_->total_energy(id_).error().message, "Unknown Error");
}

TEST_F(FakeSettings, LostGpuRejectsWrites) {
  fleet_.remove_gpu(1);
  EXPECT_EQ(backend_->apply(id_, power_limit(250'000)).error().code, Errc::device_lost);
  EXPECT_EQ(backend_->read_setting("GPU-nobody", SettingKind::ecc).error().code, Errc::not_found);
  EXPECT_TRUE(fleet_.writes().empty());
}

}  // namespace
}  // namespace gpuyard
