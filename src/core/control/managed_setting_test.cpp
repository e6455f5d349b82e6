#include "core/control/managed_setting.h"

#include <gtest/gtest.h>

namespace gpuyard::control {
namespace {

using std::chrono::hours;
using std::chrono::minutes;

ManagedSetting power(std::vector<SettingClaim> claims) {
  ManagedSetting managed{"GPU-0", SettingKind::power_limit};
  managed.boot_id = "boot-1";
  managed.claims = std::move(claims);
  return managed;
}

SettingClaim claim(const std::string& owner, std::int64_t milliwatts) {
  return {owner, {milliwatts, milliwatts}};
}

TEST(ManagedSetting, TheLowestPowerLimitIsInForce) {
  const ManagedSetting managed =
      power({claim("a", 400'000), claim("b", 250'000), claim("c", 300'000)});
  EXPECT_EQ(effective_setting(managed), power_limit(250'000));
  EXPECT_EQ(effective_claim(managed)->owner, "b");
  EXPECT_EQ(effective_setting(power({})), std::nullopt);
}

TEST(ManagedSetting, OfEqualLimitsTheOldestIsInForce) {
  const ManagedSetting managed = power({claim("a", 250'000), claim("b", 250'000)});
  EXPECT_EQ(effective_claim(managed)->owner, "a");
}

TEST(ManagedSetting, AnOwnerHasOneClaim) {
  ManagedSetting managed = power({claim("a", 400'000)});
  set_claim(managed, claim("a", 300'000));
  ASSERT_EQ(managed.claims.size(), 1U);
  EXPECT_EQ(effective_setting(managed), power_limit(300'000));
}

TEST(ManagedSetting, AClaimEndsAtItsMoment) {
  const TimePoint now{hours(1)};
  ManagedSetting managed = power({claim("a", 400'000), claim("b", 300'000)});
  managed.claims[1].until = now + minutes(5);
  EXPECT_EQ(next_expiry(managed), now + minutes(5));
  EXPECT_FALSE(remove_expired(managed, now + minutes(5) - Duration(1)));
  EXPECT_TRUE(remove_expired(managed, now + minutes(5)));
  EXPECT_EQ(effective_setting(managed), power_limit(400'000));
  EXPECT_EQ(next_expiry(managed), std::nullopt);
}

TEST(ManagedSetting, NewBootClearsValuesAndKeepsClaimExpiry) {
  const TimePoint now{minutes(2)};
  const WallTime wall{hours(1000)};
  ManagedSetting managed = power({claim("a", 400'000)});
  managed.baseline = power_limit(700'000);
  managed.written = managed.replaced = power_limit(400'000);
  managed.claims[0].until = TimePoint{hours(50)};
  managed.claims[0].until_wall = wall + minutes(10);
  rebase_to_boot(managed, "boot-2", now, wall);
  EXPECT_FALSE(managed.baseline || managed.written || managed.replaced);
  EXPECT_EQ(managed.status, SettingStatus::owed);
  EXPECT_EQ(managed.claims[0].until, now + minutes(10));
}

}  // namespace

namespace {

constexpr SettingValue kDefault{700'000, 700'000};

SettingState seen(std::int64_t milliwatts) {
  return {SettingValue{milliwatts, milliwatts}, kDefault, {}, {}};
}

// A claim on 300 W over a baseline of 650 W.
ManagedSetting settled() {
  ManagedSetting managed{"GPU-0", SettingKind::power_limit};
  managed.baseline = power_limit(650'000);
  managed.written = power_limit(300'000);
  managed.claims = {{"a", {300'000, 300'000}}};
  managed.status = SettingStatus::applied;
  return managed;
}

TEST(Reconcile, MatchingValueIsInForce) {
  EXPECT_EQ(reconcile(settled(), seen(300'000)).result, ReconcileResult::in_force);
}

TEST(Reconcile, ALostWriteIsWrittenAgain) {
  ManagedSetting managed = settled();
  managed.claims[0].value = {250'000, 250'000};
  managed.written = power_limit(250'000);
  managed.replaced = power_limit(300'000);
  for (const std::int64_t there : {300'000, 650'000}) {
    const Reconciliation found = reconcile(managed, seen(there));
    EXPECT_EQ(found.result, ReconcileResult::to_write) << there;
    EXPECT_EQ(found.target, power_limit(250'000));
    EXPECT_FALSE(found.new_baseline);
  }
}

TEST(Reconcile, ForeignValueIsDrifted) {
  EXPECT_EQ(reconcile(settled(), seen(420'000)).result, ReconcileResult::drifted);
}

// The driver's own default means that the driver was reloaded, not that a user changed the value.
TEST(Reconcile, DriverDefaultIsRewrittenAndBecomesBaseline) {
  const Reconciliation found = reconcile(settled(), seen(700'000));
  EXPECT_EQ(found.result, ReconcileResult::to_write);
  EXPECT_EQ(found.target, power_limit(300'000));
  EXPECT_EQ(found.new_baseline, power_limit(700'000));
}

TEST(Reconcile, WithoutClaimsTheBaselineComesBack) {
  ManagedSetting managed = settled();
  managed.claims.clear();
  const Reconciliation found = reconcile(managed, seen(300'000));
  EXPECT_EQ(found.result, ReconcileResult::to_write);
  EXPECT_EQ(found.target, power_limit(650'000));
  EXPECT_EQ(reconcile(managed, seen(650'000)).result, ReconcileResult::in_force);
  EXPECT_EQ(reconcile(managed, seen(420'000)).result, ReconcileResult::drifted);
}

TEST(Reconcile, NewBootTakesCurrentValueAsBaseline) {
  ManagedSetting managed = settled();
  rebase_to_boot(managed, "boot-2", {}, {});
  const Reconciliation found = reconcile(managed, seen(680'000));
  EXPECT_EQ(found.result, ReconcileResult::to_write);
  EXPECT_EQ(found.new_baseline, power_limit(680'000));
  managed.claims.clear();
  EXPECT_EQ(reconcile(managed, seen(680'000)).result, ReconcileResult::nothing);
}

TEST(Reconcile, UnreadableSettingIsRewritten) {
  ManagedSetting managed{"GPU-0", SettingKind::gpu_clocks};
  managed.baseline = unlocked(SettingKind::gpu_clocks);
  managed.written = gpu_clocks(1200, 1500);
  managed.claims = {{"a", {1200, 1500}}};
  EXPECT_EQ(reconcile(managed, {}).target, gpu_clocks(1200, 1500));
  managed.claims.clear();
  EXPECT_EQ(reconcile(managed, {}).target, unlocked(SettingKind::gpu_clocks));
  managed.written.reset();
  EXPECT_EQ(reconcile(managed, {}).result, ReconcileResult::nothing);
}

}  // namespace
}  // namespace gpuyard::control
