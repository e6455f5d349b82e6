#include "device/ecc_baseline.h"

#include <limits>

#include <gtest/gtest.h>

namespace gpuyard {
namespace {

constexpr Metric kLifetime = Metric::ecc_uncorrected_aggregate;
constexpr Metric kSinceLoad = Metric::ecc_uncorrected_volatile;

class EccBaselines : public testing::Test {
 protected:
  EccBaselines() {
    RecordProperty("contract", "A9");
    baseline_.count(kLifetime, 5);
  }
  EccBaseline baseline_;
};

TEST_F(EccBaselines, WhatHappenedBeforeWeLookedIsNotNew) {
  EXPECT_EQ(baseline_.fresh(), 0);
}

TEST_F(EccBaselines, GrowthIsNewUntilItIsAcknowledged) {
  baseline_.count(kLifetime, 7);
  EXPECT_EQ(baseline_.fresh(), 2);
  baseline_.count(kLifetime, 7);
  EXPECT_EQ(baseline_.fresh(), 2);
  baseline_.acknowledge();
  EXPECT_EQ(baseline_.fresh(), 0);
  baseline_.count(kLifetime, 8);
  EXPECT_EQ(baseline_.fresh(), 1);
}

TEST_F(EccBaselines, ClearingTheCounterStartsOver) {
  baseline_.count(kLifetime, 7);
  baseline_.count(kLifetime, 0);
  EXPECT_EQ(baseline_.fresh(), 0);
  baseline_.count(kLifetime, 1);
  EXPECT_EQ(baseline_.fresh(), 1);
}

TEST_F(EccBaselines, ErrorsBetweenTheClearingAndTheNextLookAreNew) {
  baseline_.count(kLifetime, 2);
  EXPECT_EQ(baseline_.fresh(), 2);
}

TEST_F(EccBaselines, AnotherCounterIsNoGrowthOfTheFirst) {
  baseline_.count(kSinceLoad, 9);
  EXPECT_EQ(baseline_.fresh(), 0);
}

TEST_F(EccBaselines, AContainedErrorIsNotNewButWaitsForItsProcess) {
  baseline_.contained(4711);
  baseline_.count(kLifetime, 6);
  EXPECT_EQ(baseline_.fresh(), 0);
  EXPECT_EQ(baseline_.waiting_for().size(), 1U);
  baseline_.process_gone(4711);
  EXPECT_TRUE(baseline_.waiting_for().empty());
  EXPECT_EQ(baseline_.fresh(), 0);
  baseline_.count(kLifetime, 7);
  EXPECT_EQ(baseline_.fresh(), 1);
}

TEST_F(EccBaselines, TheLargestCounterIsNoOverflow) {
  baseline_.count(kLifetime, std::numeric_limits<std::int64_t>::max());
  EXPECT_EQ(baseline_.fresh(), std::numeric_limits<std::int64_t>::max() - 5);
}

}  // namespace
}  // namespace gpuyard
