#include "sim/model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>

#include "sim/world_record.h"

namespace gpuyard::sim {
namespace {

TEST(Model, AllSixKeysAreFound) {
  std::set<std::string> keys;
  for (const Model& model : all_models()) {
    keys.insert(std::string(model.key));
    EXPECT_EQ(find_model(model.key), &model);
  }
  EXPECT_EQ(keys, (std::set<std::string>{"a100", "h100", "h200", "l40s", "rtx4090", "t4"}));
  EXPECT_EQ(find_model("h9000"), nullptr);
}

TEST(Model, EveryRowIsConsistent) {
  for (const Model& model : all_models()) {
    SCOPED_TRACE(model.key);
    EXPECT_LT(model.idle_mw, model.power_limit_min_mw);
    EXPECT_LE(model.power_limit_min_mw, model.power_limit_default_mw);
    EXPECT_LE(model.power_limit_default_mw, model.power_limit_max_mw);
    EXPECT_GT(model.peak_mw, model.power_limit_default_mw);
    EXPECT_LT(model.memory_reserved_bytes, model.memory_total_bytes / 20);
    const ClockTable& clocks = model.clocks;
    EXPECT_EQ((clocks.max_sm - clocks.min_sm) % clocks.sm_step, 0U);
    EXPECT_GE(clocks.idle_sm, clocks.min_sm);
    EXPECT_LE(model.fans, kMaxFans);
    EXPECT_LE(model.nvlink.links, kMaxNvLinks);
    EXPECT_LT(model.temperatures.gpu_max, model.temperatures.slowdown);
    EXPECT_LT(model.temperatures.slowdown, model.temperatures.shutdown);
    EXPECT_EQ(model.has_ecc, model.memory_repair != MemoryRepair::none);
    EXPECT_EQ(model.has_memory_temperature, model.temperatures.memory_max != 0);
    // The limit is well above the temperature at which a busy GPU settles.
    const double settled = 30.0 + model.power_limit_default_mw / 1000.0 * model.thermal_resistance;
    EXPECT_LT(settled, model.temperatures.gpu_max - 5.0);
  }
}

TEST(Model, SupportedMemoryClocksDescendAndIncludeIdleClock) {
  for (const Model& model : all_models()) {
    SCOPED_TRACE(model.key);
    const auto clocks = supported_memory_clocks(model);
    ASSERT_FALSE(clocks.empty());
    EXPECT_TRUE(std::ranges::is_sorted(clocks, std::ranges::greater{}));
    EXPECT_NE(std::ranges::find(clocks, model.clocks.idle_memory), clocks.end());
    for (const std::uint32_t mhz : clocks) {
      const SmClockRange range = supported_sm_clocks(model, mhz);
      EXPECT_EQ(range.lowest, model.clocks.min_sm);
      EXPECT_GT(range.highest, range.lowest);
      EXPECT_LE(range.highest, model.clocks.max_sm);
    }
  }
}

TEST(Model, LowMemoryClockLimitsSmClocks) {
  const Model& t4 = *find_model("t4");
  EXPECT_EQ(supported_sm_clocks(t4, 5001).highest, 1590U);
  EXPECT_EQ(supported_sm_clocks(t4, 405).highest, 645U);
  EXPECT_EQ(supported_sm_clocks(t4, 404).highest, 0U);
}

TEST(Model, UnsupportedFeaturesAreDeclared) {
  EXPECT_EQ(find_model("h100")->fans, 0U);
  EXPECT_EQ(find_model("rtx4090")->nvlink.links, 0U);
  EXPECT_FALSE(find_model("rtx4090")->has_serial);
  EXPECT_FALSE(find_model("rtx4090")->has_ecc);
  EXPECT_FALSE(find_model("a100")->has_gpm);
  EXPECT_EQ(find_model("t4")->memory_repair, MemoryRepair::retired_pages);
}

}  // namespace
}  // namespace gpuyard::sim
