#include "control/reconcile.h"

#include <gtest/gtest.h>

namespace gpuyard::control {
namespace {

constexpr SettingValue kDefault{700'000, 700'000};

SettingState seen(std::int64_t milliwatts) {
  return {SettingValue{milliwatts, milliwatts}, kDefault, {}, {}};
}

// Wants 300 W, where there were 650 W.
Holding settled() {
  Holding holding{"GPU-0", SettingKind::power_limit};
  holding.baseline = power_limit(650'000);
  holding.written = power_limit(300'000);
  holding.claims = {{"a", {300'000, 300'000}}};
  holding.standing = Standing::applied;
  return holding;
}

TEST(Reconcile, WhatIsAsItShouldBeIsLeft) {
  EXPECT_EQ(reconcile(settled(), seen(300'000)).finding, Finding::in_force);
}

TEST(Reconcile, ALostWriteIsWrittenAgain) {
  Holding holding = settled();
  holding.claims[0].wanted = {250'000, 250'000};
  holding.written = power_limit(250'000);
  holding.replaced = power_limit(300'000);
  for (const std::int64_t there : {300'000, 650'000}) {
    const Reconciled found = reconcile(holding, seen(there));
    EXPECT_EQ(found.finding, Finding::to_write) << there;
    EXPECT_EQ(found.target, power_limit(250'000));
    EXPECT_FALSE(found.new_baseline);
  }
}

TEST(Reconcile, WhatSomebodyElseChoseIsLeftAlone) {
  EXPECT_EQ(reconcile(settled(), seen(420'000)).finding, Finding::drifted);
}

TEST(Reconcile, TheDriversOwnDefaultIsAnotherDriverSessionAndTheNewBaseline) {
  const Reconciled found = reconcile(settled(), seen(700'000));
  EXPECT_EQ(found.finding, Finding::to_write);
  EXPECT_EQ(found.target, power_limit(300'000));
  EXPECT_EQ(found.new_baseline, power_limit(700'000));
}

TEST(Reconcile, WithoutClaimsTheBaselineComesBack) {
  Holding holding = settled();
  holding.claims.clear();
  const Reconciled found = reconcile(holding, seen(300'000));
  EXPECT_EQ(found.finding, Finding::to_write);
  EXPECT_EQ(found.target, power_limit(650'000));
  EXPECT_EQ(reconcile(holding, seen(650'000)).finding, Finding::in_force);
  EXPECT_EQ(reconcile(holding, seen(420'000)).finding, Finding::drifted);
}

TEST(Reconcile, InANewBootTheBaselineIsWhatIsThere) {
  Holding holding = settled();
  carry_into_boot(holding, "boot-2", {}, {});
  const Reconciled found = reconcile(holding, seen(680'000));
  EXPECT_EQ(found.finding, Finding::to_write);
  EXPECT_EQ(found.new_baseline, power_limit(680'000));
  holding.claims.clear();
  EXPECT_EQ(reconcile(holding, seen(680'000)).finding, Finding::nothing);
}

TEST(Reconcile, WhatCannotBeReadBackIsWrittenAgain) {
  Holding holding{"GPU-0", SettingKind::gpu_clocks};
  holding.baseline = unlocked(SettingKind::gpu_clocks);
  holding.written = gpu_clocks(1200, 1500);
  holding.claims = {{"a", {1200, 1500}}};
  EXPECT_EQ(reconcile(holding, {}).target, gpu_clocks(1200, 1500));
  holding.claims.clear();
  EXPECT_EQ(reconcile(holding, {}).target, unlocked(SettingKind::gpu_clocks));
  holding.written.reset();
  EXPECT_EQ(reconcile(holding, {}).finding, Finding::nothing);
}

}  // namespace
}  // namespace gpuyard::control
