#include "gpu/device/health.h"

#include <limits>

#include <gtest/gtest.h>

#include "gpu/device/fake_backend.h"
#include "gpu/device/gpu_snapshot.h"

namespace gpuyard {
namespace {

using Reasons = std::vector<std::string>;

const Missing kNotSupported{MissingReason::not_supported, ""};

HealthFacts at(std::int64_t celsius) {
  HealthFacts facts;
  facts.temperature = celsius;
  facts.ecc_errors = std::int64_t{0};
  return facts;
}

HealthReport report_of(const HealthFacts& facts) {
  return evaluate_health(facts, HealthThresholds{});
}

class HealthTest : public testing::Test {
 protected:
  HealthTest() { RecordProperty("contract", "A10"); }
};

TEST_F(HealthTest, IsGoodUpToTheFirstThreshold) {
  EXPECT_EQ(report_of(at(40)), (HealthReport{Health::healthy, {}}));
  EXPECT_EQ(report_of(at(75)).verdict, Health::healthy);
}

TEST_F(HealthTest, TemperatureThresholdsSeparateDegradedAndUnhealthy) {
  EXPECT_EQ(report_of(at(76)),
            (HealthReport{Health::degraded, {"temperature 76 C is above 75 C"}}));
  EXPECT_EQ(report_of(at(85)).verdict, Health::degraded);
  EXPECT_EQ(report_of(at(86)),
            (HealthReport{Health::unhealthy, {"temperature 86 C is above 85 C"}}));
}

TEST_F(HealthTest, IsBadAfterANewUncorrectableError) {
  HealthFacts facts = at(40);
  facts.ecc_errors = std::int64_t{9};
  EXPECT_EQ(report_of(facts).verdict, Health::healthy) << "old errors are known";
  facts.new_ecc_errors = 1;
  EXPECT_EQ(report_of(facts), (HealthReport{Health::unhealthy, {"1 new uncorrectable ECC error"}}));
}

TEST_F(HealthTest, IsOnlyDegradedByAContainedError) {
  HealthFacts facts = at(40);
  facts.contained = 1;
  EXPECT_EQ(
      report_of(facts),
      (HealthReport{Health::degraded, {"contained ECC error (Xid 94), until its process ends"}}));
}

TEST_F(HealthTest, IsBadWhenTheGpuIsGone) {
  HealthFacts facts;
  facts.lost = Missing{MissingReason::device_lost, "GPU is lost"};
  EXPECT_EQ(report_of(facts), (HealthReport{Health::unhealthy, {"GPU is lost"}}));
}

TEST_F(HealthTest, VerdictIsWorstFindingWithAllReasons) {
  HealthFacts facts = at(80);
  facts.new_ecc_errors = 2;
  EXPECT_EQ(report_of(facts),
            (HealthReport{Health::unhealthy,
                          {"temperature 80 C is above 75 C", "2 new uncorrectable ECC errors"}}));
}

TEST_F(HealthTest, MissingTemperatureGivesNoVerdict) {
  HealthFacts facts = at(0);
  facts.temperature = kNotSupported;
  EXPECT_EQ(
      report_of(facts),
      (HealthReport{std::nullopt, {"temperature unknown: not supported by this GPU or driver"}}));
}

TEST_F(HealthTest, UnsupportedTemperatureStillReportsEccErrors) {
  HealthFacts facts = at(0);
  facts.temperature = kNotSupported;
  facts.new_ecc_errors = 1;
  EXPECT_EQ(report_of(facts), (HealthReport{Health::unhealthy, {"1 new uncorrectable ECC error"}}));
}

TEST_F(HealthTest, GpuWithoutEccIsHealthy) {
  HealthFacts facts = at(40);
  facts.ecc_errors = kNotSupported;
  EXPECT_EQ(report_of(facts).verdict, Health::healthy);
}

TEST_F(HealthTest, UnreadableEccCounterIsNotGood) {
  HealthFacts facts = at(40);
  facts.ecc_errors = Missing{MissingReason::failed, "Unknown Error"};
  EXPECT_EQ(report_of(facts), (HealthReport{std::nullopt, {"ECC errors unknown: Unknown Error"}}));
}

TEST_F(HealthTest, UnreadFactsGiveNoVerdict) {
  EXPECT_EQ(report_of({}).verdict, std::nullopt);
  EXPECT_EQ(report_of({}).reasons,
            (Reasons{"temperature unknown: not read yet", "ECC errors unknown: not read yet"}));
}

TEST_F(HealthTest, PerGpuThresholdsMatchAnyGpuName) {
  const DeviceInfo info{"GPU-1", 3, "GPU-1", "0000:01:00.0", "GPU", {}};
  const HealthThresholds own{60, 70};
  for (const char* name : {"3", "GPU-1", "0000:01:00.0", "00000000:01:00.0"}) {
    const HealthPolicy policy{{}, {{name, own}}};
    EXPECT_EQ(policy.thresholds_of(info), own) << name;
  }
  const HealthPolicy others{{70, 80}, {{"4", own}, {"GPU-2", own}}};
  EXPECT_EQ(others.thresholds_of(info), (HealthThresholds{70, 80}));
}

TEST_F(HealthTest, HasAName) {
  EXPECT_EQ(name_of(Health::healthy), "healthy");
  EXPECT_EQ(name_of(Health::degraded), "degraded");
  EXPECT_EQ(name_of(Health::unhealthy), "unhealthy");
}

}  // namespace
}  // namespace gpuyard
