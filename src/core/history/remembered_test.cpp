#include "history/remembered.h"

#include <gtest/gtest.h>

namespace gpuyard::history {
namespace {

Metric named(std::string_view name) {
  const auto row = find_row(name);
  EXPECT_TRUE(row) << name << ": " << (row ? "" : row.error().message);
  return row ? (*row)->metric : Metric::name;
}

TEST(FindRow, TakesEveryNameThatPeopleHave) {
  for (const char* name : {"power_draw", "power_draw_w", "power.draw", "power", "POWER"}) {
    EXPECT_EQ(named(name), Metric::power_draw) << name;
  }
  EXPECT_EQ(named("temp"), Metric::temperature_core);
  EXPECT_EQ(named("energy"), Metric::energy_total) << "the beginning of one key alone";
  EXPECT_EQ(named("utilization.memory"), Metric::utilization_memory);
}

TEST(FindRow, ABeginningOfSeveralNamesThem) {
  const auto row = find_row("temperature_");
  ASSERT_FALSE(row);
  EXPECT_NE(row.error().message.find("temperature_core_celsius, temperature_memory_celsius"),
            std::string::npos)
      << row.error().message;
}

TEST(FindRow, AnUnknownNameNamesTheNearest) {
  const auto row = find_row("powr_draw");
  ASSERT_FALSE(row);
  EXPECT_EQ(row.error().code, Errc::invalid);
  EXPECT_NE(row.error().message.find("\"power_draw\""), std::string::npos) << row.error().message;
}

TEST(FindRow, WhatHasNoHistorySaysSo) {
  const auto row = find_row("serial");
  ASSERT_FALSE(row);
  EXPECT_NE(row.error().message.find("no history"), std::string::npos);
  EXPECT_FALSE(find_row(""));
}

TEST(FindElement, IsCalledAsInJson) {
  EXPECT_EQ(*find_element(row_of(Metric::fan_speed), "1"), 1);
  EXPECT_EQ(*find_element(row_of(Metric::ecc_corrected_volatile_at), "device_memory"), 2);
  EXPECT_FALSE(find_element(row_of(Metric::fan_speed), "99"));
  EXPECT_FALSE(find_element(row_of(Metric::power_draw), "0"));
}

TEST(Remembered, IsWhatChangesByItself) {
  EXPECT_EQ(cadence_of(Metric::power_draw), 1000);
  EXPECT_EQ(cadence_of(Metric::pcie_tx), 5000);
  EXPECT_EQ(cadence_of(Metric::ecc_corrected_volatile_at), 60'000) << "a rare counter";
  for (const Metric metric : {Metric::power_limit_max, Metric::numa_node, Metric::serial,
                              Metric::throttle_reasons, Metric::ecc_mode, Metric::driver_version}) {
    EXPECT_EQ(cadence_of(metric), 0) << row_of(metric).key;
  }
}

}  // namespace
}  // namespace gpuyard::history
