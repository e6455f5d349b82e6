#include "gpu/device/fitness.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gpuyard {
namespace {

using std::chrono::seconds;
using ::testing::HasSubstr;

constexpr TimePoint kFitnessTime{seconds(100)};
const Missing kReadFails{MissingReason::failed, "Unknown Error"};
const Missing kBoardLacks{MissingReason::not_supported, ""};

void put(DeviceState& device, Metric metric, std::variant<Missing, std::int64_t, std::string> is) {
  device.sample.set({metric, 0, kFitnessTime, std::move(is)});
}

DeviceState fully_known_gpu() {
  DeviceState device;
  put(device, Metric::temperature_core, 40);
  put(device, Metric::memory_total, std::int64_t{80} << 30);
  put(device, Metric::memory_used, std::int64_t{1} << 30);
  put(device, Metric::mig_mode, 0);
  put(device, Metric::ecc_uncorrected_aggregate, 0);
  device.sample.set(ProcessList{kFitnessTime, std::vector<GpuProcess>{}});
  device.health = {Health::healthy, {}};
  return device;
}

TEST(Fitness, FullyKnownGpuIsGood) {
  EXPECT_EQ(fitness_of(fully_known_gpu()), Fitness{Verdict::good});
}

TEST(Fitness, AFailedReadingMakesItUnknown) {
  for (const Metric metric : {Metric::temperature_core, Metric::memory_total, Metric::memory_used,
                              Metric::mig_mode, Metric::ecc_uncorrected_aggregate}) {
    DeviceState device = fully_known_gpu();
    put(device, metric, kReadFails);
    const Fitness fitness = fitness_of(device);
    EXPECT_EQ(fitness.verdict, Verdict::unknown) << static_cast<int>(metric);
    EXPECT_THAT(fitness.why, HasSubstr("Unknown Error"));
  }
}

TEST(Fitness, ReadingsUnsupportedByBoardKeepGoodVerdict) {
  DeviceState device = fully_known_gpu();
  for (const Metric metric :
       {Metric::temperature_core, Metric::memory_total, Metric::memory_used, Metric::mig_mode,
        Metric::ecc_uncorrected_aggregate, Metric::ecc_uncorrected_volatile}) {
    put(device, metric, kBoardLacks);
  }
  device.sample.set(ProcessList{kFitnessTime, kBoardLacks});
  device.health = {std::nullopt, {}};
  EXPECT_EQ(fitness_of(device).verdict, Verdict::good);
}

TEST(Fitness, AFailedProcessListMakesItUnknown) {
  DeviceState device = fully_known_gpu();
  device.sample.set(ProcessList{kFitnessTime, kReadFails});
  EXPECT_EQ(fitness_of(device).why, "unknown: processes (Unknown Error)");
}

TEST(Fitness, AReadingNeverTakenMakesItUnknown) {
  EXPECT_EQ(fitness_of(DeviceState{}).verdict, Verdict::unknown);
}

TEST(Fitness, ReadingsFailingAlikeAreNamedTogether) {
  DeviceState device = fully_known_gpu();
  put(device, Metric::temperature_core, kReadFails);
  put(device, Metric::mig_mode, kReadFails);
  EXPECT_EQ(fitness_of(device).why, "unknown: temperature, MIG mode (Unknown Error)");
}

TEST(Fitness, UnhealthyOutranksUnknownReadings) {
  DeviceState device = fully_known_gpu();
  device.health = {Health::unhealthy, {"temperature 90 C is above 85 C"}};
  put(device, Metric::mig_mode, kReadFails);
  EXPECT_EQ(fitness_of(device).word, "unhealthy");
}

TEST(Fitness, ASplitGpuIsBad) {
  DeviceState device = fully_known_gpu();
  put(device, Metric::mig_mode, 1);
  EXPECT_EQ(fitness_of(device).word, "mig_enabled");
}

TEST(IsSick, ResponsiveGpuIsNotSick) {
  EXPECT_FALSE(is_sick(fully_known_gpu(), kFitnessTime + kSickTimeout * 2));
}

TEST(IsSick, GpuHangingHalfAMinuteIsSick) {
  DeviceState device = fully_known_gpu();
  device.condition = DeviceCondition::unresponsive;
  device.vitals_at = kFitnessTime;
  EXPECT_FALSE(is_sick(device, kFitnessTime + kSickTimeout - seconds(1)));
  EXPECT_TRUE(is_sick(device, kFitnessTime + kSickTimeout));
}

TEST(IsSick, UnavailableGpuIsSick) {
  DeviceState device = fully_known_gpu();
  device.condition = DeviceCondition::unavailable;
  EXPECT_TRUE(is_sick(device, kFitnessTime));
}

}  // namespace
}  // namespace gpuyard
