#include "faces/protocol/events.h"

#include <gtest/gtest.h>

namespace gpuyard::protocol {
namespace {

TEST(EventIdText, GoesThereAndBack) {
  const auto id = parse_event_id(EventId{"00ff", 42}.text());
  ASSERT_TRUE(id);
  EXPECT_EQ(id->epoch, "00ff");
  EXPECT_EQ(id->sequence, 42U);
}

TEST(EventIdText, MalformedTextIsRefused) {
  for (const char* text : {"", "-", "a", "a-", "-1", "a-1x", "a-x", "a--1x",
                           "a-99999999999999999999", "a-+1", "a- 1"}) {
    EXPECT_FALSE(parse_event_id(text)) << text;
  }
}

TEST(Summary, MissingReadingIsNullNotZero) {
  gpuyard::Snapshot snapshot;
  snapshot.driver.initialised = true;
  DeviceState device;
  device.info.uuid = "GPU-1";
  device.sample.set({Metric::power_draw, 0, {}, std::int64_t{312'500}});
  device.sample.set({Metric::temperature_core, 0, {}, Missing{MissingReason::timed_out, {}}});
  snapshot.devices.push_back(device);
  const GpuSummary gpu = summary_of(snapshot).devices.at(0);
  EXPECT_EQ(gpu.power_draw_w, 312.5);
  EXPECT_EQ(gpu.temperature_core_c, std::nullopt);
  EXPECT_EQ(gpu.memory_used_bytes, std::nullopt);
  EXPECT_EQ(gpu.health, std::nullopt);
}

}  // namespace
}  // namespace gpuyard::protocol
