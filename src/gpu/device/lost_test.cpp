#include "device/lost.h"

#include <gtest/gtest.h>

namespace gpuyard {
namespace {

constexpr ProbeSet kPowerOnly = {Probe::power};

DeviceState answering(MissingReason reason) {
  return device_state({}, missing_sample(kPowerOnly, {reason, ""}, {}), kPowerOnly, {});
}

DeviceState failing_to_open(MissingReason reason) {
  DeviceInfo info;
  info.fault = Missing{reason, ""};
  return device_state(info, {}, kPowerOnly, {});
}

TEST(Lost, IsWhatTheDriverSaysIsGone) {
  EXPECT_TRUE(is_lost(answering(MissingReason::device_lost)));
  EXPECT_TRUE(is_lost(failing_to_open(MissingReason::device_lost)));
}

TEST(Lost, IsSoThoughASlowReadingIsOfBeforeIt) {
  DeviceState gone = answering(MissingReason::device_lost);
  gone.sample.set({Metric::memory_total, 0, {}, std::int64_t{80}});
  EXPECT_TRUE(is_lost(gone));
}

TEST(Lost, IsNoGpuThatOnlyDoesNotAnswer) {
  DeviceState hung = device_state({}, {}, kPowerOnly, {});
  hung.health.verdict = Health::unhealthy;
  EXPECT_FALSE(is_lost(hung));
  EXPECT_FALSE(is_lost(failing_to_open(MissingReason::timed_out)));
  EXPECT_FALSE(is_lost(answering(MissingReason::failed)));
}

}  // namespace
}  // namespace gpuyard
