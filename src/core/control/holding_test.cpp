#include "control/holding.h"

#include <gtest/gtest.h>

namespace gpuyard::control {
namespace {

using std::chrono::hours;
using std::chrono::minutes;

Holding power(std::vector<Claim> claims) {
  Holding holding{"GPU-0", SettingKind::power_limit};
  holding.boot_id = "boot-1";
  holding.claims = std::move(claims);
  return holding;
}

Claim claim(const std::string& owner, std::int64_t milliwatts) {
  return {owner, {milliwatts, milliwatts}};
}

TEST(Holding, TheLowestPowerLimitIsInForce) {
  const Holding holding = power({claim("a", 400'000), claim("b", 250'000), claim("c", 300'000)});
  EXPECT_EQ(wanted(holding), power_limit(250'000));
  EXPECT_EQ(claim_in_force(holding)->owner, "b");
  EXPECT_EQ(wanted(power({})), std::nullopt);
}

TEST(Holding, OfEqualLimitsTheOldestIsInForce) {
  const Holding holding = power({claim("a", 250'000), claim("b", 250'000)});
  EXPECT_EQ(claim_in_force(holding)->owner, "a");
}

TEST(Holding, AnOwnerHasOneClaim) {
  Holding holding = power({claim("a", 400'000)});
  place_claim(holding, claim("a", 300'000));
  ASSERT_EQ(holding.claims.size(), 1U);
  EXPECT_EQ(wanted(holding), power_limit(300'000));
}

TEST(Holding, AClaimEndsAtItsMoment) {
  const TimePoint now{hours(1)};
  Holding holding = power({claim("a", 400'000), claim("b", 300'000)});
  holding.claims[1].until = now + minutes(5);
  EXPECT_EQ(next_expiry(holding), now + minutes(5));
  EXPECT_FALSE(remove_expired(holding, now + minutes(5) - Duration(1)));
  EXPECT_TRUE(remove_expired(holding, now + minutes(5)));
  EXPECT_EQ(wanted(holding), power_limit(400'000));
  EXPECT_EQ(next_expiry(holding), std::nullopt);
}

TEST(Holding, AnotherBootForgetsTheValuesAndKeepsTheClaimsAndTheirTime) {
  const TimePoint now{minutes(2)};
  const WallTime wall{hours(1000)};
  Holding holding = power({claim("a", 400'000)});
  holding.baseline = power_limit(700'000);
  holding.written = holding.replaced = power_limit(400'000);
  holding.claims[0].until = TimePoint{hours(50)};
  holding.claims[0].until_wall = wall + minutes(10);
  carry_into_boot(holding, "boot-2", now, wall);
  EXPECT_FALSE(holding.baseline || holding.written || holding.replaced);
  EXPECT_EQ(holding.standing, Standing::owed);
  EXPECT_EQ(holding.claims[0].until, now + minutes(10));
}

}  // namespace
}  // namespace gpuyard::control
